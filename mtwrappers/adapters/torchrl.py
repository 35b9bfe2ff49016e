"""Our vector environments as TorchRL's environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from mtwrappers.adapters import check_vec_env
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnySpace
from mtwrappers.wrappers.vector import MetaVectorWrapper


def as_torchrl_env(vec_env: VectorEnv[Any, Any, Any], **kwargs: Any) -> Any:
    """Wraps one of our vector environments with TorchRL's ``GymWrapper``.

    The batch size is ``(N,)``. The ``next`` observation of an episode's last step is the episode's
    own in both modes. With ``autoreset_mode="Disabled"``, which TorchRL prefers, infos become
    entries after ``as_torchrl_env(vec_env).auto_register_info_dict()``; with ``"SameStep"`` they
    are entries at once. Only infos that are numbers or bools are kept (see `NumericInfos`). With
    ``"SameStep"``, TorchRL 0.14 resets twice if all episodes end at once, and begins a later
    ``rollout`` with an earlier observation if some of them ended in the step before.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode`` ``"Disabled"`` or ``"SameStep"``.
        **kwargs: Passed to ``GymWrapper``, such as ``device``.

    Raises:
        DependencyNotInstalled: If TorchRL is not installed.
        TypeError: If it is not such a vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it resets in the next step: TorchRL knows no steps without an action.
            Or if observations have a Text.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, autoreset_mode="Disabled")
    >>> env = mtwrappers.as_torchrl_env(envs)
    >>> env.batch_size
    torch.Size([4])
    """
    check_vec_env(vec_env, "TorchRL", AutoresetMode.DISABLED, AutoresetMode.SAME_STEP)
    envs = import_extra("torchrl.envs", "torchrl")
    return envs.GymWrapper(NumericInfos(vec_env), **kwargs)


class NumericInfos(MetaVectorWrapper):
    """Keeps infos that are arrays of numbers or bools, and ``final_obs``.

    TorchRL turns infos into tensors, and fails on names, lists and dicts. In the mode SAME_STEP it
    also writes zeros where an environment has no last observation, so there the bounds of the
    observation space include zero.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        if self.autoreset_mode is AutoresetMode.SAME_STEP:
            self.single_observation_space = _with_zero(env.single_observation_space)
            self.observation_space = batch_space(self.single_observation_space, self.num_envs)

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, _numeric(infos)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        obs, rewards, terminated, truncated, infos = super().step_wait()
        return obs, rewards, terminated, truncated, _numeric(infos)


def _numeric(infos: dict[str, Any]) -> dict[str, Any]:
    numeric = {}
    for key, value in infos.items():
        if key in ("final_obs", "_final_obs", "_final_info"):
            numeric[key] = value
        elif key == "final_info":
            numeric[key] = _numeric(value)
        # A mask is kept if its key is.
        elif _is_numeric(value) and (key[:1] != "_" or _is_numeric(infos.get(key[1:]))):
            numeric[key] = value
    return numeric


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"


def _with_zero(space: AnySpace) -> AnySpace:
    if isinstance(space, Dict):
        return Dict({key: _with_zero(subspace) for key, subspace in space.items()})
    if isinstance(space, Box):
        zero = space.dtype.type(0)
        low, high = np.minimum(space.low, zero), np.maximum(space.high, zero)
        return Box(low, high, dtype=space.dtype.type)
    return space
