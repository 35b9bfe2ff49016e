"""Rewards on the same scale in every task."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import above_zero, check_fraction, positive
from mtwrappers.common.types import AnyEnv, Info, Options
from mtwrappers.state.env_state import list_wrappers
from mtwrappers.state.identity import keep_arguments
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import StepResult
from mtwrappers.wrappers.per_task import PerTaskVectorWrapper, PerTaskWrapper, read_numbers

# The statistics of wrappers that normalize rewards: Gymnasium's, and Meta-World's exponential one.
_STATISTICS = ("return_rms", "_reward_var")


class NormalizeRewardPerTask(PerTaskWrapper, RecordConstructorArgs):
    r"""Divides each task's rewards by the standard deviation of its discounted return.

    It is Gymnasium's ``NormalizeReward`` with statistics per task, so that a task with large
    rewards does not dominate the others. With :math:`R_t = \gamma R_{t-1} + r_t` from each
    episode's start, a reward becomes :math:`r_t / \sqrt{\mathrm{Var}[R] + \epsilon}`. Each step
    first updates the variance with :math:`R_t`, except while ``update_running_mean`` is false and
    after the end of a `TaskStream`. (Gymnasium's single form continues :math:`R` after a truncation
    and drops it before a terminal reward; here, as in its SAME_STEP vector form and in
    Stable-Baselines3, :math:`R` covers exactly one episode.)

    The task of a step is ``info["task_id"]``. ``info["raw_reward"]`` is the unscaled reward, 0.0 on
    reset.

    Args:
        env: Any environment.
        num_tasks: The number of values of ``task_id``; by default the environment's number, or 1.
        gamma: The discount.
        epsilon: Added to the variance to avoid division by zero.

    Raises:
        ValueError: If a number is out of range, or a wrapper inside normalizes rewards already; on
            a step, if ``info["task_id"]`` is out of range, or a reward is not finite; the
            statistics are kept.

    >>> import gymnasium
    >>> from mtwrappers import NormalizeRewardPerTask
    >>> env = NormalizeRewardPerTask(gymnasium.make("mtwrappers/MultiEnv-v0"))
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step(0)
    >>> round(reward, 3), info["raw_reward"]
    (-70.714, -1.0)
    """

    @explains_arguments()
    def __init__(
        self,
        env: AnyEnv,
        num_tasks: int | None = None,
        *,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
    ) -> None:
        # Python's own numbers, so that JSON can hold the spec.
        num_tasks = None if num_tasks is None else positive(num_tasks, "num_tasks")
        gamma, epsilon = check_fraction(gamma, "gamma"), above_zero(epsilon, "epsilon")
        RecordConstructorArgs.__init__(self, num_tasks=num_tasks, gamma=gamma, epsilon=epsilon)
        super().__init__(env)
        _refuse_second([name_reward_normalizer(env)])
        self._begin_statistics("reward", num_tasks, epsilon)
        self._gamma = gamma
        self._return = 0.0

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        self._return = 0.0
        return obs, {**info, "raw_reward": 0.0}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        raw = float(reward)
        statistics = self._statistics
        task = self._ids[info.get("task_id", self._default)]
        moments = statistics.moments[task]
        value = self._return * self._gamma + raw
        if not math.isfinite(value):
            raise statistics.not_finite(task, raw)
        if self.update_running_mean and not info.get("stream_finished"):
            statistics.update(moments, value)
        self._return = 0.0 if terminated or truncated else value
        info = {**info}
        info["raw_reward"] = raw
        return obs, raw / moments.deviation, terminated, truncated, info


class VectorNormalizeRewardPerTask(PerTaskVectorWrapper):
    """`NormalizeRewardPerTask` for vector environments, in every autoreset mode.

    The environments of a task share its statistics: each step's returns are all counted once before
    any reward of the step is scaled. With one environment per task, results equal those of the
    single form. Steps in which NEXT_STEP mode resets an environment, or in which it is paused, are
    not counted. The task of an episode is its ``infos["task_id"]``, or the index of its task group
    if infos do not have it; a warning names task groups that report the same id.
    ``infos["raw_reward"]``, shape ``(N,)`` float64, is the unscaled reward; in SAME_STEP mode,
    ``final_info`` has it too.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one.
        num_tasks: The number of values of ``task_id``; by default the environments' number, or the
            number of task groups.
        gamma: The discount.
        epsilon: Added to the variance to avoid division by zero.

    Raises:
        TypeError: If ``env`` is none of ours.
        ValueError: If a number is out of range, or a wrapper inside normalizes rewards already; on
            a reset, if a ``task_id`` is no task; on a step, if a reward is not finite; the
            statistics are kept.

    >>> import gymnasium
    >>> from mtwrappers import VectorNormalizeRewardPerTask
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> envs = VectorNormalizeRewardPerTask(envs)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs, rewards, *_, infos = envs.step(envs.action_space.sample() * 0)
    >>> infos["raw_reward"]
    array([-1., -1.])
    """

    @explains_arguments()
    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        num_tasks: int | None = None,
        *,
        gamma: float = 0.99,
        epsilon: float = 1e-8,
    ) -> None:
        keep_arguments(self, locals())
        super().__init__(env)
        _refuse_second([name_reward_normalizer(env), *self._inner.call(name_reward_normalizer)])
        self._begin_statistics("reward", num_tasks, epsilon)
        self._gamma = check_fraction(gamma, "gamma")
        self._returns = np.zeros(self.num_envs)
        self._everyone = np.ones(self.num_envs, dtype=np.bool_)

    def reset(self, *, seed: Any = None, options: Options | None = None) -> tuple[Any, Info]:
        rows = self._reset_rows(options)
        obs, infos = self._inner.reset(seed=seed, options=options)
        self._take_tasks(infos, rows)
        self._returns[rows] = 0.0
        return obs, {**infos, "raw_reward": np.zeros(self.num_envs), "_raw_reward": rows}

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        executor = self._executor
        self._take_tasks(infos, executor.restarted)
        returns = self._returns * self._gamma + rewards
        stepped = executor.stepped
        self._check_finite(returns, rewards, stepped)
        self._returns = np.where(stepped, returns, self._returns)
        self._count(self._returns, stepped)
        scaled = rewards / self._per_env(self._statistics.moments[0].deviation)
        infos["raw_reward"] = rewards
        infos["_raw_reward"] = self._everyone.copy()
        ended = terminated | truncated
        if np.count_nonzero(ended):
            self._returns[ended] = 0.0
            if "final_info" in infos:
                final = {"raw_reward": np.where(ended, rewards, 0.0), "_raw_reward": ended.copy()}
                infos["final_info"] = {**infos["final_info"], **final}
                self._take_tasks(infos, ended)
        return obs, scaled, terminated, truncated, infos

    def _episodes(self) -> dict[str, Any]:
        return {**super()._episodes(), "returns": self._returns.tolist()}

    def _check_episodes(self, state: Mapping[str, Any]) -> None:
        super()._check_episodes(state)
        read_numbers(state["returns"], (self.num_envs,), "the returns of the episodes")

    def _set_episodes(self, state: Mapping[str, Any]) -> None:
        super()._set_episodes(state)
        self._returns = np.array(state["returns"], dtype=np.float64)


@read_only
def name_reward_normalizer(env: Any) -> str | None:
    """The class of the outermost wrapper that normalizes rewards, if there is one."""
    for wrapper in list_wrappers(env):
        is_ours = isinstance(wrapper, (NormalizeRewardPerTask, VectorNormalizeRewardPerTask))
        if is_ours or any(hasattr(wrapper, name) for name in _STATISTICS):
            return type(wrapper).__name__
    return None


def _refuse_second(names: Iterable[str | None]) -> None:
    """Raises `ValueError` if environments have one of these wrappers that normalize rewards."""
    for name in filter(None, names):
        raise ValueError(
            f"rewards would be normalized twice: the environments are in {name} already, such as "
            "by reward_normalization_method; use one of the two"
        )
