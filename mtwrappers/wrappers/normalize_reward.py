"""Rewards of one scale in every task."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.checks import check_fraction, positive
from mtwrappers.task_statistics import TaskStatistics, check_positive_epsilon
from mtwrappers.wrappers.task_of_step import task_of, tasks_of


class NormalizeRewardPerTask(gymnasium.Wrapper[Any, Any, Any, Any], RecordConstructorArgs):
    r"""Divides each task's rewards by the standard deviation of its discounted return.

    Gymnasium's ``NormalizeReward`` with statistics for each task, so that a task with large rewards
    does not drown the others. With :math:`R_t = \gamma R_{t-1} + r_t` from each episode's start, a
    reward becomes :math:`r_t / \sqrt{\mathrm{Var}[R] + \epsilon}`; the variance is updated with
    :math:`R_t` first, once a step. (Gymnasium's single form carries :math:`R` over a truncation and
    drops it before a terminal reward; here, as in its SAME_STEP vector form and in
    Stable-Baselines3, an episode is an episode.)

    The task of a step is ``info["task_id"]``. ``info["raw_reward"]`` is the environment's own
    reward, 0.0 on reset. Where ``update_running_mean`` is false, the statistics stay as they are.

    Args:
        env: Any environment.
        num_tasks: How many values ``task_id`` has; by default what the environment says, or 1.
        gamma: The discount.
        epsilon: Keeps the division away from zero.

    Raises:
        ValueError: If a number is out of range; on a step, if ``info["task_id"]`` is no task.

    >>> import gymnasium
    >>> env = NormalizeRewardPerTask(gymnasium.make("mtwrappers/MultiEnv-v0"))
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step(0)
    >>> round(reward, 3), info["raw_reward"]
    (-70.714, -1.0)
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        num_tasks: int | None = None,
        *,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
    ) -> None:
        # A plain integer, so that specs go through JSON.
        num_tasks = None if num_tasks is None else positive(num_tasks, "num_tasks")
        RecordConstructorArgs.__init__(self, num_tasks=num_tasks, gamma=gamma, epsilon=epsilon)
        super().__init__(env)
        self._gamma = check_fraction(gamma, "gamma")
        self._epsilon = check_positive_epsilon(epsilon)
        self._n, names = tasks_of(env, num_tasks)
        self._statistics = TaskStatistics("reward", self._n, names)
        # Plain floats: on single numbers Python is ten times faster than NumPy.
        self._load()
        self._return = 0.0
        self.update_running_mean = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environment and begins a return."""
        obs, info = self.env.reset(seed=seed, options=options)
        self._return = 0.0
        return obs, {**info, "raw_reward": 0.0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Steps the environment and scales its reward."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        raw = float(reward)
        task = info.get("task_id")
        if task is None or not 0 <= task < self._n:
            task = task_of(info, self._n)
        value = self._return * self._gamma + raw
        count = self._count[task]
        if self.update_running_mean:
            self._count[task] = count = count + 1
            delta = value - self._mean[task]
            self._mean[task] = mean = self._mean[task] + delta / count
            self._m2[task] += delta * (value - mean)
        self._return = 0.0 if terminated or truncated else value
        scaled = raw / math.sqrt(self._m2[task] / count + self._epsilon)
        return obs, scaled, terminated, truncated, {**info, "raw_reward": raw}

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        statistics = self._statistics
        statistics.count[:], statistics.mean[:] = self._count, self._mean
        statistics.m2[:] = self._m2
        return statistics.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes what `get_state` returned, here or in `VectorNormalizeRewardPerTask`.

        Raises:
            ValueError: If it is of other tasks, or not of rewards.
        """
        self._statistics.set_state(state)
        self._load()

    def _load(self) -> None:
        self._count: list[float] = self._statistics.count.tolist()
        self._mean: list[float] = self._statistics.mean.tolist()
        self._m2: list[float] = self._statistics.m2.tolist()
