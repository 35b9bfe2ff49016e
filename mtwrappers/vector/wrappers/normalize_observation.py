"""Observations of mean zero and variance one in every task, of many environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.spaces import require_flat_box
from mtwrappers.task_statistics import TaskStatistics, check_positive_epsilon
from mtwrappers.vector.wrappers.per_task import Groups, PerTaskVectorWrapper, reset_rows, update
from mtwrappers.wrappers.normalize_observation import leading_entries, normalized_space


class VectorNormalizeObservationPerTask(PerTaskVectorWrapper, RecordConstructorArgs):
    """`NormalizeObservationPerTask` for vector environments, in every autoreset mode.

    The environments of a task share its statistics: all their observations of a step are counted,
    once, before any of them is normalized. With one environment a task the numbers are those of
    the single form. In SAME_STEP an episode's last observation, ``infos["final_obs"]``, is counted
    and normalized as its task's own, and the first one of the next episode after it.

    The task of an episode is its ``infos["task_id"]``, else the index of its task group.

    Args:
        env: One of our vector environments, or a wrapper of one; observations ``(N, O)``.
        num_tasks: How many values ``task_id`` has; by default what the environments say, or how
            many task groups there are.
        num_leading: How many entries to normalize, from the first on. By default those of the
            environment below a `TaskOnehotWrapper` or `FlattenMTEnv`, else all.
        epsilon: Keeps the division away from zero.

    Raises:
        TypeError: If observations are no floating-point 1-D Box.
        ValueError: If a number is out of range; on a reset, if ``task_id`` is no task.
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        num_tasks: int | None = None,
        *,
        num_leading: int | None = None,
        epsilon: float = 1e-8,
    ) -> None:
        # Plain integers, so that specs go through JSON.
        num_tasks = None if num_tasks is None else positive(num_tasks, "num_tasks")
        num_leading = None if num_leading is None else positive(num_leading, "num_leading")
        RecordConstructorArgs.__init__(
            self, num_tasks=num_tasks, num_leading=num_leading, epsilon=epsilon
        )
        super().__init__(env, num_tasks)
        name = "env_observation_space"
        own = self._read(name) if self._has(name) else None
        box = require_flat_box(env.single_observation_space, "the observation space to normalize")
        self._size = leading_entries(box, own, num_leading)
        self.single_observation_space = normalized_space(box, self._size)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self._whole = self._size == box.shape[0]
        self._epsilon = check_positive_epsilon(epsilon)
        self._statistics = TaskStatistics("observation", self._n_tasks, self._names, (self._size,))

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environments and normalizes what they show."""
        rows = reset_rows(options, self.num_envs)
        obs, infos = self._inner.reset(seed=seed, options=options)
        self._take_tasks(infos, rows)
        self._count(obs, rows)
        self._over[rows] = False
        self._any_over = bool(self._over.any())
        return self._normalize(obs, self._groups()), infos

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Ends a step and normalizes what the environments show."""
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        if self._next_step and self._any_over:
            self._take_tasks(infos, self._over)
        self._over = over = terminated | truncated
        self._any_over = bool(over.any())
        if not (self._same_step and self._any_over):
            if self.update_running_mean:
                update(self._statistics, self._own(obs), self._groups())
            return (
                self._normalize(obs, self._groups()),
                rewards,
                terminated,
                truncated,
                infos,
            )
        last = obs.copy()
        ended = np.flatnonzero(over)
        last[ended] = np.stack([infos["final_obs"][i] for i in ended])
        if self.update_running_mean:
            update(self._statistics, self._own(last), self._groups())
        last = self._normalize(last, self._groups())
        finals = np.full(self.num_envs, None, dtype=object)
        for i in ended:
            finals[i] = last[i].copy()
        infos["final_obs"] = finals
        self._take_tasks(infos, over)
        self._count(obs, over)
        first = self._normalize(obs[ended], Groups(self._tasks[ended], self._n_tasks))
        last[ended] = first
        return last, rewards, terminated, truncated, infos

    def _own(self, obs: NDArray[Any]) -> NDArray[Any]:
        return obs if self._whole else obs[:, : self._size]

    def _count(self, obs: NDArray[Any], rows: NDArray[np.bool_]) -> None:
        if self.update_running_mean:
            groups = Groups(self._tasks[rows], self._n_tasks)
            update(self._statistics, self._own(obs)[rows], groups)

    def _normalize(self, obs: NDArray[Any], groups: Groups) -> NDArray[Any]:
        statistics, tasks = self._statistics, groups.tasks
        # For each task first, where there are fewer of them than observations.
        few = self._n_tasks <= len(obs)
        m2, count = statistics.m2, statistics.count
        spread = m2 / count if few else m2[tasks] / count[tasks]
        spread += self._epsilon
        np.sqrt(spread, out=spread)
        if few:
            spread = spread[tasks]
        out = obs.copy()
        deviation = self._own(obs) - statistics.mean[tasks]
        np.divide(deviation, spread, out=self._own(out), casting="same_kind")
        return out
