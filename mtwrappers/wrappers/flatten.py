"""Flat observations of a multi-task environment, for agents that expect single-task ones."""

from __future__ import annotations

from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_choice, check_env
from mtwrappers.common.spaces import (
    append_box,
    append_onehot,
    as_row,
    require_flat_box,
    summary,
)
from mtwrappers.common.types import AnyArray, AnyEnv, AnySpace

# How images and dicts are observed together with the task.
_HINT_AT_OTHER_SPACES = (
    "to observe anything else together with the task, such as images, use the MTEnv itself, whose "
    "observations are dicts (task_encoding='dict' of an id), or flatten each environment with "
    "gymnasium.wrappers.FlattenObservation in its constructor"
)


class FlattenMTEnv(gymnasium.ObservationWrapper[Any, Any, Any], RecordConstructorArgs):
    """Flattens observations of an `MTEnv` to one array: ``env_obs``, then ``task_obs``.

    A `Discrete` ``task_obs`` becomes a one-hot, a 1-D Box is appended unchanged. A
    ``task_embedding``, if there is one, comes between the two, in either encoding. The values equal
    those of Gymnasium's ``FlattenObservation``, in the dtype of ``env_obs``. The `MTEnv` itself is
    ``env.unwrapped``.

    Args:
        env: An environment with the observations of an `MTEnv`.
        task_encoding: ``"onehot"`` appends ``task_obs``, ``"none"`` leaves it out, and then
            observations may be of any kind if there is no ``task_embedding``.

    Raises:
        TypeError: If a space has another type.
        ValueError: If ``task_encoding`` is something else; on a step, if an observation does not
            fit the environment's space.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import FlattenMTEnv, MultiEnvWrapper
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)]
    >>> env = FlattenMTEnv(MultiEnvWrapper(makers))
    >>> obs, info = env.reset(seed=0, options={"task_state": 1})
    >>> obs.shape, obs[3:]
    ((5,), array([0., 1.], dtype=float32))
    """

    # Where the entry of task 0 is in a one-hot; None where task_obs is appended as it is.
    _first: int | None = None
    # Whether observations have entries after the environment's own.
    appends_entries = False

    def __init__(self, env: AnyEnv, task_encoding: Literal["onehot", "none"] = "onehot") -> None:
        check_env(env, "env")
        RecordConstructorArgs.__init__(self, task_encoding=task_encoding)
        super().__init__(env)
        space = env.observation_space
        keys = set(space.keys()) if isinstance(space, Dict) else set()
        if not isinstance(space, Dict) or keys - {"task_embedding"} != {"env_obs", "task_obs"}:
            raise TypeError(
                f"expected an MTEnv with observations {{env_obs, task_obs}}, got {summary(space)}"
            )
        self._shows_task = (
            check_choice(task_encoding, ("onehot", "none"), "task_encoding") == "onehot"
        )
        task: Any = space["task_obs"]
        self._embedding = space.get("task_embedding")
        if not self._shows_task and self._embedding is None:
            self.observation_space = space["env_obs"]  # of any kind, because nothing is appended
            return
        box = require_flat_box(space["env_obs"], "the space of env_obs", _HINT_AT_OTHER_SPACES)
        self._env_obs, self._task = box, task
        self._size = box.shape[0]
        if self._embedding is not None:
            box = _append_box(box, self._embedding, "task_embedding")
        self._task_at = box.shape[0]
        if not self._shows_task:
            self.observation_space = box
        elif isinstance(task, Discrete):
            self.observation_space = append_onehot(box, int(task.n))
            self._first = self._task_at - int(task.start)
        else:
            self.observation_space = _append_box(box, task, "task_obs")
        self._zeros = np.zeros_like(self.observation_space.low)
        self.appends_entries = len(self._zeros) > self._size

    @property
    def has_onehot(self) -> bool:
        """Whether observations end in the one-hot of ``task_obs``."""
        return self._first is not None

    def observation(self, obs: dict[str, Any]) -> AnyArray:
        row: AnyArray = obs["env_obs"]
        if not self._shows_task and self._embedding is None:
            return row
        flat: AnyArray = self._zeros.copy()
        flat[: self._size] = as_row(row, self._env_obs)
        if self._embedding is not None:
            flat[self._size : self._task_at] = obs["task_embedding"]
        if not self._shows_task:
            return flat
        if self._first is None:
            flat[self._task_at :] = as_row(obs["task_obs"], self._task)
        else:
            entry = self._first + obs["task_obs"]
            if not self._task_at <= entry < len(flat):
                raise ValueError(f"expected task_obs in {self._task}, got {obs['task_obs']!r}")
            flat[entry] = 1
        return flat


def _append_box(box: Box, space: AnySpace, name: str) -> Box:
    """``box`` with the entries of another 1-D Box appended."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        hint = ""
        if name == "task_obs":
            hint = (
                "; EnvToMTEnv(..., task_obs=...) makes one, task_encoding='none' leaves it out, "
                "gymnasium.wrappers.FlattenObservation flattens any"
            )
        raise TypeError(
            f"the space of {name} must be Discrete or a 1-D Box, got {summary(space)}{hint}"
        )
    if np.issubdtype(space.dtype, np.floating) and not np.issubdtype(box.dtype, np.floating):
        raise TypeError(
            f"{name} of dtype {space.dtype} cannot be appended to env_obs of dtype {box.dtype} "
            "without loss"
        )
    if np.issubdtype(box.dtype, np.integer):
        dtype: Any = box.dtype
        limits = np.iinfo(dtype)
        if np.any(space.low < limits.min) or np.any(space.high > limits.max):
            raise TypeError(
                f"{name} in {summary(space)} cannot be appended to env_obs of dtype {box.dtype} "
                "without loss"
            )
    return append_box(box, space.low, space.high)
