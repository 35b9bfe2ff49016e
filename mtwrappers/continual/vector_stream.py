"""A stream of tasks that the environments of a vector environment share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv

from mtwrappers.continual.stream import PhasedStream
from mtwrappers.vector.contract import StepResult
from mtwrappers.wrappers.vector import MetaVectorWrapper


class VectorTaskStream(PhasedStream, MetaVectorWrapper):
    """A stream of tasks that the environments of a vector environment share.

    Each of them is a `TaskStream`, or has one inside its wrappers, with the same phases. By itself,
    each would go through the whole stream. Here the budget of a phase counts the steps of all of
    them, and they go to the next phase together: in the step with which the budget is used up,
    every environment is at the end of the phase, as `TaskStream` describes it. Where the budgets
    are no multiples of ``num_envs``, that step goes beyond the end of the phase, and the next phase
    is that many steps shorter. Steps in which NEXT_STEP resets an environment do not count, nor do
    those of environments that are paused.

    After ``total_steps`` steps the stream is finished for all of them, and ``at_end`` of the
    `TaskStream`s says what follows. A reset with seeds restarts the stream.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one.

    Attributes:
        phases: The `Phase`s, with the list of task states of each.
        phase_names: The name of each phase.
        total_steps: The budgets of all phases.
        at_end: What follows when the stream is finished, ``"stay"`` or ``"raise"``.
        stream_steps: How many steps all environments have taken together, until the stream is
            finished.

    Raises:
        TypeError: If an environment has no `TaskStream`, or ``env`` is none of ours.
        ValueError: If the environments have different streams, or a budget is below ``num_envs``.

    >>> import gymnasium
    >>> import mtwrappers as mt
    >>> from functools import partial
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (2.0, 10.0)]
    >>> def make():
    ...     return mt.TaskStream(mt.MultiEnvWrapper(makers), [(0, 4), (1, 4)])
    >>> envs = mt.VectorTaskStream(mt.MetaIterativeEnvExecutor(make, 2))
    >>> obs, infos = envs.reset(seed=0)
    >>> for _ in range(2):
    ...     obs, rewards, terminated, truncated, infos = envs.step([[0.0], [0.0]])
    ...     print(truncated, infos["phase"])
    [False False] [0 0]
    [ True  True] [1 1]
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        if not self._envs_have("stream_steps"):
            raise TypeError(
                "expected a vector environment in which every environment is a TaskStream, or has "
                f"one inside, got {env}"
            )
        phases, self.phase_names, at_end = map(self._shared, ("phases", "phase_names", "at_end"))
        self._begin_stream(phases, at_end)
        short = [i for i, phase in enumerate(self.phases) if phase.steps < self.num_envs]
        if short:
            raise ValueError(
                f"a phase must have at least {self.num_envs} steps, one per environment, got "
                f"{self.phases[short[0]].steps} for phase {short[0]}"
            )
        self._counted = self.num_envs  # the count of the step under way

    def _shared(self, name: str) -> Any:
        """Returns the common value of all environments, or raises `ValueError`."""
        first, *others = self._inner.call(name)
        for i, other in enumerate(others, 1):
            if repr(other) != repr(first):
                raise ValueError(
                    f"the environments must have one stream, got {name} {first} in environment 0 "
                    f"and {other} in environment {i}"
                )
        return first

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        mask = (options or {}).get("reset_mask")
        some = mask is not None and not np.all(mask)
        seeds = [seed] if np.ndim(seed) == 0 else seed
        seeded = any(one is not None for one in seeds)
        if seeded and (some or any(one is None for one in seeds)):
            raise ValueError(
                "a seed restarts the stream: reset all environments, with a seed for each"
            )
        if not some and not seeded:  # a step that raised was counted by some of them
            self._inner.set_attr("stream_steps", self.stream_steps)
        result = self._inner.reset(seed=seed, options=options)
        if seeded:
            self.stream_steps = 0
        return result

    def step_async(self, actions: Any) -> None:
        """Begins a step; a `RuntimeError` if the stream is finished and ``at_end="raise"``."""
        self._require_more()
        idle = ~self._executor.next_rows()[0]
        counted = 0 if self.stream_finished else self.num_envs - int(np.count_nonzero(idle))
        self._counted, end = counted, self._ends[self.phase]
        if counted and self.stream_steps + counted >= end:
            # Their next step is the last of the phase; environments reset instead begin the next.
            self._inner.set_attr("stream_steps", (end - 1 + idle).tolist())
        self._inner.step_async(actions)

    def step_wait(self) -> StepResult:
        result = self._inner.step_wait()
        self.stream_steps += self._counted
        return result

    def get_state(self) -> dict[str, Any]:
        """Returns the position in the stream as JSON types."""
        return {"stream_steps": self.stream_steps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned."""
        self.stream_steps = state["stream_steps"]
