"""Observations of mean zero and variance one in every task."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.spaces import require_flat_box
from mtwrappers.task_statistics import TaskStatistics, check_positive_epsilon
from mtwrappers.wrappers.task_of_step import task_of, tasks_of


def leading_entries(space: Box, env_observation_space: Space[Any] | None, given: int | None) -> int:
    """How many entries of an observation are the environment's own.

    Args:
        space: Of the observation, shape ``(O,)``.
        env_observation_space: What the environment says that its own observations are, if anything.
        given: Overrides it.

    Raises:
        ValueError: If ``given`` is more than ``O``.
    """
    size = space.shape[0]
    if given is not None:
        if given > size:
            raise ValueError(f"num_leading must be in [1, {size}], got {given}")
        return given
    own = env_observation_space
    if isinstance(own, Box) and len(own.shape) == 1 and own.shape[0] <= size:
        return int(own.shape[0])
    return size


def normalized_space(space: Space[Any], leading: int) -> Box:
    """A floating 1-D Box with no bounds on its leading entries.

    Raises:
        TypeError: If ``space`` is none.
    """
    box = require_flat_box(space, "the observation space to normalize")
    require_floating(box, "normalized")
    low, high = box.low.copy(), box.high.copy()
    low[:leading], high[:leading] = -np.inf, np.inf
    dtype: Any = box.dtype
    return Box(low, high, dtype=dtype)


def require_floating(box: Box, what: str) -> None:
    """Raises `TypeError` unless the entries of ``box`` are floating-point numbers."""
    if not np.issubdtype(box.dtype, np.floating):
        raise TypeError(
            f"observations of dtype {box.dtype} cannot be {what} without loss; convert them with "
            "gymnasium.wrappers.DtypeObservation"
        )


class NormalizeObservationPerTask(
    gymnasium.Wrapper[NDArray[Any], Any, NDArray[Any], Any], RecordConstructorArgs
):
    """Shifts and scales each task's observations to mean zero and variance one.

    Gymnasium's ``NormalizeObservation`` with statistics for each task, in float64. A one-hot (or
    anything else) that a wrapper appended to the observation stays as it is, and so does the dtype.
    The statistics are updated once for each observation, of resets too, before it is normalized.

    The task of an observation is ``info["task_id"]``. Where ``update_running_mean`` is false, the
    statistics stay as they are.

    Args:
        env: An environment with a floating-point 1-D Box observation, shape ``(O,)``.
        num_tasks: How many values ``task_id`` has; by default what the environment says, or 1.
        num_leading: How many entries to normalize, from the first on. By default those of the
            environment below a `TaskOnehotWrapper` or `FlattenMTEnv`, else all.
        epsilon: Keeps the division away from zero.

    Raises:
        TypeError: If observations are of another kind.
        ValueError: If a number is out of range; on a step, if ``info["task_id"]`` is no task.
    """

    def __init__(
        self,
        env: gymnasium.Env[NDArray[Any], Any],
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
        super().__init__(env)
        own = (
            env.get_wrapper_attr("env_observation_space")
            if env.has_wrapper_attr("env_observation_space")
            else None
        )
        box = require_flat_box(env.observation_space, "the observation space to normalize")
        size = leading_entries(box, own, num_leading)
        self.observation_space = normalized_space(box, size)
        self._size = size
        self._n, names = tasks_of(env, num_tasks)
        self._statistics = TaskStatistics("observation", self._n, names, (size,))
        self._count = [self._statistics.count[i, 0].item() for i in range(self._n)]
        self._rows = list(zip(self._statistics.mean, self._statistics.m2, strict=True))
        self._epsilon = np.full(size, check_positive_epsilon(epsilon))
        self._inverse = np.empty(())
        self._delta, self._spread = np.empty(size), np.empty(size)
        self._dtype: Any = box.dtype
        self._plain = size == box.shape[0] and box.dtype == np.float64
        self.update_running_mean = True

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets the environment and normalizes what it shows."""
        obs, info = self.env.reset(seed=seed, options=options)
        return self._normalize(obs, info), info

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        """Steps the environment and normalizes what it shows."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        return self._normalize(obs, info), reward, terminated, truncated, info

    def _normalize(self, obs: NDArray[Any], info: dict[str, Any]) -> NDArray[Any]:
        task = info.get("task_id")
        if task is None or not 0 <= task < self._n:
            task = task_of(info, self._n)
        mean, m2 = self._rows[task]
        inverse, spread = self._inverse, self._spread
        own = obs if self._plain else obs[: self._size]
        count = self._count[task]
        delta = np.subtract(own, mean, self._delta)
        # Buffers and a 0-d array instead of Python's numbers: half the time on 39 entries.
        if self.update_running_mean:
            self._count[task] = count = count + 1
            inverse[()] = 1.0 / count
            np.multiply(delta, inverse, spread)
            np.add(mean, spread, mean)
            deviation: NDArray[Any] = np.subtract(delta, spread)  # from the new mean
            np.multiply(delta, deviation, delta)
            np.add(m2, delta, m2)
        else:
            inverse[()] = 1.0 / count
            deviation = delta.copy()
        np.multiply(m2, inverse, spread)
        np.add(spread, self._epsilon, spread)
        np.sqrt(spread, spread)
        np.divide(deviation, spread, deviation)
        if self._plain:
            return deviation
        out: NDArray[Any] = np.array(obs, dtype=self._dtype)
        out[: self._size] = deviation
        return out

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        self._statistics.count[:, 0] = self._count
        return self._statistics.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes what `get_state` returned, here or in `VectorNormalizeObservationPerTask`.

        Raises:
            ValueError: If it is of other tasks, of another size, or not of observations.
        """
        self._statistics.set_state(state)
        self._count = self._statistics.count[:, 0].tolist()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Views, which copying has made arrays of their own.
        self._rows = list(zip(self._statistics.mean, self._statistics.m2, strict=True))
