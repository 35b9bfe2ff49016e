"""Consecutive phases, each with a budget of steps, and a stream's position in them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from mtwrappers.common.checks import check_index

AtEnd: TypeAlias = Literal["stay", "raise"]


class Phase(NamedTuple):
    """A part of a stream; equivalent to a pair ``(tasks, steps)``.

    Attributes:
        tasks: A task, or a list (or range) of tasks from which every reset draws one uniformly. A
            task is a task state, or the name of a task id, which stands for all task states of
            this id.
        steps: The budget: the number of agent steps of the phase.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import MultiEnvWrapper, TaskStream
    >>> from mtwrappers.continual.phases import Phase
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> stream = TaskStream(MultiEnvWrapper(makers), [Phase(0, 100), Phase([0, 1], 200)])
    >>> stream.phases[1], stream.total_steps
    (Phase(tasks=[0, 1], steps=200), 300)
    """

    tasks: Any
    steps: int


class PhasedStream:
    """The phases of a stream and its position in them: base of its single and vector forms."""

    def _begin_stream(self, phases: Iterable[Phase], at_end: AtEnd) -> None:
        self.phases, self.at_end = tuple(phases), at_end
        # The (exclusive) end step of each phase.
        self._ends = list(itertools.accumulate(phase.steps for phase in self.phases))
        self.total_steps = self._ends[-1]
        self.stream_steps = 0

    @property
    def phase(self) -> int:
        """The phase of the next step; the last one when the stream is finished."""
        return min(bisect.bisect_right(self._ends, self.stream_steps), len(self._ends) - 1)

    def phase_of(self, step: int) -> int:
        """Returns the index of the phase that contains ``step``, counted from 0.

        Raises:
            ValueError: If the stream has no such step.
        """
        return bisect.bisect_right(self._ends, check_index(step, self.total_steps, "step"))

    @property
    def stream_finished(self) -> bool:
        """Whether all ``total_steps`` steps were taken."""
        return self.stream_steps >= self.total_steps

    def _require_more(self) -> None:
        if self.stream_finished and self.at_end == "raise":
            raise RuntimeError(
                f"the stream is finished: its {len(self.phases)} phases have {self.total_steps} "
                "steps, and all of them were taken; a reset with a seed restarts it, and with "
                "at_end='stay' the last task continues"
            )
