"""Observations with mean zero and variance one in every task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import above_zero, positive
from mtwrappers.common.spaces import as_row, require_floating_box
from mtwrappers.common.types import AnyArray, AnySpace, Info, Options
from mtwrappers.state.identity import keep_arguments
from mtwrappers.vector.contract import StepResult
from mtwrappers.wrappers.env_space import find_env_space
from mtwrappers.wrappers.per_task import PerTaskVectorWrapper, PerTaskWrapper
from mtwrappers.wrappers.vector import MetaVectorWrapper


class NormalizeObservationPerTask(PerTaskWrapper, RecordConstructorArgs):
    """Shifts and scales each task's observations to mean zero and variance one.

    It is Gymnasium's ``NormalizeObservation`` with float64 statistics per ``info["task_id"]``. A
    one-hot (or anything else) that a wrapper appended to the observation is not normalized, and the
    dtype is kept. Each observation, including those of resets, updates the statistics once before
    it is normalized, except while ``update_running_mean`` is false and after the end of a
    `TaskStream`.

    Args:
        env: An environment with a floating-point 1-D Box observation, shape ``(O,)``.
        num_tasks: The number of values of ``task_id``; by default the environment's number, or 1.
        num_leading: The number of leading entries to normalize. By default all, or the entries
            before those that a `TaskOnehotWrapper`, `FlattenMTEnv` or `RL2Observation` appends.
        epsilon: Added to the variance to avoid division by zero.

    Raises:
        TypeError: If the observation space has another type.
        ValueError: If a number is out of range; on a step, if ``info["task_id"]`` is out of range,
            or an observation is not finite or does not fit its space; the statistics are kept.

    >>> import gymnasium
    >>> from mtwrappers import NormalizeObservationPerTask
    >>> env = NormalizeObservationPerTask(gymnasium.make("mtwrappers/MultiEnv-v0"))
    >>> obs, info = env.reset(seed=0)
    >>> env.update_running_mean = False  # from here on, such as for an evaluation
    >>> obs, reward, terminated, truncated, info = env.step(0)
    >>> obs.shape, obs[4:]  # the one-hot stays as it is
    ((8,), array([0., 0., 0., 1.], dtype=float32))
    """

    @explains_arguments()
    def __init__(
        self,
        env: gymnasium.Env[AnyArray, Any],
        num_tasks: int | None = None,
        *,
        num_leading: int | None = None,
        epsilon: float = 1e-8,
    ) -> None:
        # Python's own numbers, so that JSON can hold the spec.
        num_tasks = None if num_tasks is None else positive(num_tasks, "num_tasks")
        num_leading = None if num_leading is None else positive(num_leading, "num_leading")
        epsilon = above_zero(epsilon, "epsilon")
        RecordConstructorArgs.__init__(
            self, num_tasks=num_tasks, num_leading=num_leading, epsilon=epsilon
        )
        super().__init__(env)
        self._box: Any = env.observation_space
        space, n = _normalized_space(self._box, find_env_space(env), num_leading)
        self._size, self.observation_space = n, space
        self._dtype = self._box.dtype
        self._is_all = space.shape == (n,) and space.dtype == np.float64
        self._begin_statistics("observation", num_tasks, epsilon, (n,))

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[AnyArray, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        return self._normalize(obs, info), info

    def step(self, action: Any) -> tuple[AnyArray, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._normalize(obs, info), reward, terminated, truncated, info

    def _normalize(self, obs: AnyArray, info: dict[str, Any]) -> AnyArray:
        obs = as_row(obs, self._box)
        statistics = self._statistics
        task = self._ids[info.get("task_id", self._default)]
        moments = statistics.moments[task]
        leading = obs if self._is_all else obs[: self._size]
        if not np.isfinite(leading).all():
            raise statistics.not_finite(task, leading)
        centered: AnyArray
        if self.update_running_mean and not info.get("stream_finished"):
            centered = statistics.update(moments, leading)
        else:
            centered = leading - moments.mean
        centered /= moments.deviation
        if self._is_all:
            return centered
        normalized = obs.astype(self._dtype)
        normalized[: self._size] = centered
        return normalized


class VectorNormalizeObservationPerTask(PerTaskVectorWrapper):
    """`NormalizeObservationPerTask` for vector environments, in every autoreset mode.

    The environments of a task share its statistics: each step's observations are all counted once
    before any of them is normalized. With one environment per task, results equal those of the
    single form. In SAME_STEP mode, an episode's last observation, ``infos["final_obs"]``, is
    counted and normalized for the task of that episode, and then the first of the next episode.
    What `step` repeats of a paused environment is not counted.

    The task of an episode is its ``infos["task_id"]``, or the index of its task group if infos do
    not have it; a warning names task groups that report the same id.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one, with floating-point
            observations ``(N, O)``.
        num_tasks: The number of values of ``task_id``; by default the environments' number, or the
            number of task groups.
        num_leading: The number of leading entries to normalize. By default all, or the entries
            before those that a `TaskOnehotWrapper`, `FlattenMTEnv` or `RL2Observation` appends.
        epsilon: Added to the variance to avoid division by zero.

    Raises:
        TypeError: If observations are of another kind, or ``env`` is none of ours.
        ValueError: If a number is out of range; on a reset, if a ``task_id`` is no task; if an
            observation is not finite; the statistics are kept.

    >>> import gymnasium
    >>> from mtwrappers import VectorNormalizeObservationPerTask
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> envs = VectorNormalizeObservationPerTask(envs)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs, *_ = envs.step(envs.action_space.sample())
    >>> obs.shape
    (2, 2)
    """

    @explains_arguments()
    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        num_tasks: int | None = None,
        *,
        num_leading: int | None = None,
        epsilon: float = 1e-8,
    ) -> None:
        keep_arguments(self, locals())
        super().__init__(env)
        inner_space = self._inner.call(find_env_space)[0]
        layer: Any = env
        while isinstance(layer, MetaVectorWrapper):
            if "env_observation_space" in vars(layer):  # such as VectorRL2Observation
                inner_space = vars(layer)["env_observation_space"]
                break
            layer = layer.env
        space, n = _normalized_space(env.single_observation_space, inner_space, num_leading)
        self.single_observation_space = space
        self.observation_space = batch_space(space, self.num_envs)
        self._size = n
        self._begin_statistics("observation", num_tasks, epsilon, (n,))

    def reset(self, *, seed: Any = None, options: Options | None = None) -> tuple[Any, Info]:
        rows = self._reset_rows(options)
        obs, infos = self._inner.reset(seed=seed, options=options)
        self._take_tasks(infos, rows)
        return self._normalize(obs, rows), infos

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        executor = self._executor
        self._take_tasks(infos, executor.restarted)
        counted = executor.stepped | executor.restarted
        if "final_obs" not in infos:
            return self._normalize(obs, counted), rewards, terminated, truncated, infos
        ended = self._restarted_at_end(infos)
        last, finals = obs.copy(), np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(ended):
            last[i] = infos["final_obs"][i]
        normalized = self._normalize(last, counted)
        for i in np.flatnonzero(ended):
            finals[i] = normalized[i].copy()
        infos["final_obs"] = finals
        self._take_tasks(infos, ended)
        normalized[ended] = self._normalize(obs, ended)[ended]
        return normalized, rewards, terminated, truncated, infos

    def _normalize(self, obs: AnyArray, counted: NDArray[np.bool_]) -> AnyArray:
        """Normalizes all observations after counting those of the rows ``counted``."""
        leading = obs[:, : self._size]
        self._check_finite(leading, leading, counted)
        self._count(leading, counted)
        [all_tasks] = self._statistics.moments
        mean, deviation = self._per_env(all_tasks.mean), self._per_env(all_tasks.deviation)
        normalized = obs.copy()
        normalized[:, : self._size] = (leading - mean) / deviation
        return normalized


def _normalized_space(
    space: AnySpace, inner_space: AnySpace | None, num_leading: int | None
) -> tuple[Box, int]:
    """The space without bounds of its leading entries, and their number.

    By default they are as many as ``inner_space`` has.
    """
    box = require_floating_box(space, "normalized")
    size = box.shape[0]
    if num_leading is not None:
        if positive(num_leading, "num_leading") > size:
            raise ValueError(f"num_leading must be in [1, {size}], got {num_leading}")
        size = num_leading
    elif isinstance(inner_space, Box) and len(inner_space.shape) == 1:
        size = min(size, inner_space.shape[0])
    low, high = box.low.copy(), box.high.copy()
    low[:size], high[:size] = -np.inf, np.inf
    dtype: Any = box.dtype
    return Box(low, high, dtype=dtype), size
