"""Phases that follow one another, each with a budget of steps, and a stream's place in them."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable
from typing import Any, Literal, NamedTuple, TypeAlias

from mtwrappers.common.checks import check_index

AtEnd: TypeAlias = Literal["stay", "raise"]


class Phase(NamedTuple):
    """A part of a stream; a pair ``(tasks, steps)`` is as good.

    Attributes:
        tasks: A task, or a list (or range) of tasks of which every reset draws one, each as likely
            as the others. A task is a task state, or the name of a task id, which stands for all
            task states of this id.
        steps: The budget: how many agent steps the phase has.

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
    """The phases of a stream and its place in them: the base of its single and its vector form."""

    def _begin_stream(self, phases: Iterable[Phase], at_end: AtEnd) -> None:
        self.phases, self.at_end = tuple(phases), at_end
        # The steps before which the phases end.
        self._ends = list(itertools.accumulate(phase.steps for phase in self.phases))
        self.total_steps = self._ends[-1]
        self.stream_steps = 0

    @property
    def phase(self) -> int:
        """The phase of the next step; the last one when the stream is finished."""
        return min(bisect.bisect_right(self._ends, self.stream_steps), len(self._ends) - 1)

    def phase_of(self, step: int) -> int:
        """The index of the phase that has the step ``step``, which is counted from 0.

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
