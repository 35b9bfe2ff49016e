"""Rewards of one scale in every task, of many environments at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from mtwrappers.checks import check_fraction, positive
from mtwrappers.task_statistics import TaskStatistics, check_positive_epsilon
from mtwrappers.vector.wrappers.per_task import Groups, PerTaskVectorWrapper, reset_rows, update


class VectorNormalizeRewardPerTask(PerTaskVectorWrapper, RecordConstructorArgs):
    """`NormalizeRewardPerTask` for vector environments, in every autoreset mode.

    The environments of a task share its statistics: all their returns of a step are counted, once,
    before any reward of the step is scaled. With one environment a task the numbers are those of
    the single form. The steps in which NEXT_STEP resets an environment are not counted.

    ``infos["raw_reward"]``, shape ``(N,)``, is the reward that came, and SAME_STEP's ``final_info``
    has it too. The task of an episode is its ``infos["task_id"]``, else the index of its group.

    Args:
        env: One of our vector environments, or a wrapper of one.
        num_tasks: How many values ``task_id`` has; by default what the environments say, or how
            many task groups there are.
        gamma: The discount.
        epsilon: Keeps the division away from zero.

    Raises:
        ValueError: If a number is out of range; on a reset, if ``task_id`` is no task.

    >>> import gymnasium
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> envs = VectorNormalizeRewardPerTask(envs)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs, rewards, *_, infos = envs.step(envs.action_space.sample() * 0)
    >>> infos["raw_reward"]
    array([-1., -1.])
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        num_tasks: int | None = None,
        *,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
    ) -> None:
        # A plain integer, so that specs go through JSON.
        num_tasks = None if num_tasks is None else positive(num_tasks, "num_tasks")
        RecordConstructorArgs.__init__(self, num_tasks=num_tasks, gamma=gamma, epsilon=epsilon)
        super().__init__(env, num_tasks)
        self._gamma = check_fraction(gamma, "gamma")
        self._epsilon = check_positive_epsilon(epsilon)
        self._statistics = TaskStatistics("reward", self._n_tasks, self._names)
        self._returns = np.zeros(self.num_envs)

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environments and begins their returns."""
        rows = reset_rows(options, self.num_envs)
        obs, infos = self._inner.reset(seed=seed, options=options)
        self._take_tasks(infos, rows)
        self._returns[rows] = 0.0
        self._over[rows] = False
        self._any_over = bool(self._over.any())
        return obs, {**infos, "raw_reward": np.zeros(self.num_envs), "_raw_reward": rows}

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Ends a step and scales its rewards."""
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        returns = self._returns
        returns *= self._gamma
        returns += rewards
        began = self._over if self._next_step and self._any_over else None
        if began is not None:
            self._take_tasks(infos, began)
        if self.update_running_mean:
            if began is None:
                update(self._statistics, returns, self._groups())
            else:
                played = ~began
                update(
                    self._statistics, returns[played], Groups(self._tasks[played], self._n_tasks)
                )
        statistics, tasks = self._statistics, self._groups().tasks
        spread: Any = statistics.m2[tasks] / statistics.count[tasks]
        spread += self._epsilon
        np.sqrt(spread, out=spread)
        infos["raw_reward"] = rewards
        infos["_raw_reward"] = np.ones(self.num_envs, dtype=np.bool_)
        scaled = rewards / spread
        self._over = over = terminated | truncated
        self._any_over = bool(over.any())
        if self._any_over:
            returns[over] = 0.0
            if self._same_step:
                if "final_info" in infos:
                    infos["final_info"] = {
                        **infos["final_info"],
                        "raw_reward": np.where(over, rewards, 0.0),
                        "_raw_reward": over.copy(),
                    }
                self._take_tasks(infos, over)
        return obs, scaled, terminated, truncated, infos
