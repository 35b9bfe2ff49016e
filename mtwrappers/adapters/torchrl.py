"""Our vector environments as TorchRL's environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space

from mtwrappers._extras import import_extra
from mtwrappers.adapters.numeric_infos import NumericInfos
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.wrappers.vector import MetaVectorWrapper

_MODES = (AutoresetMode.SAME_STEP, AutoresetMode.DISABLED)


def as_torchrl_env(vec_env: MetaVectorEnv | MetaVectorWrapper, **kwargs: Any) -> Any:
    """Wraps one of our vector environments with TorchRL's ``GymWrapper``.

    The batch size is ``(N,)``. The ``next`` observation of an episode's last step is the episode's
    own in both modes. ``GymWrapper(vec_env)`` itself will do with ``autoreset_mode="Disabled"``,
    the mode that TorchRL prefers. With ``"SameStep"`` TorchRL turns all infos into tensors, and
    writes zeros where there is no last observation; so here infos are left only if they are
    numbers (see `NumericInfos`), and the bounds of the observations include zero.

    ``as_torchrl_env(vec_env).auto_register_info_dict()`` makes entries of ``success``, ``task_id``
    and so on, with ``"Disabled"``; with ``"SameStep"`` they are there already.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode`` ``"SameStep"`` or ``"Disabled"``.
        **kwargs: Passed to ``GymWrapper``, such as ``device``.

    Raises:
        DependencyNotInstalled: If TorchRL is not installed.
        TypeError: If it is no such vector environment.
        ValueError: If it resets in the next step: TorchRL knows no steps without an action.
    """
    if not isinstance(vec_env, (MetaVectorEnv, MetaVectorWrapper)):
        raise TypeError(
            f"expected a MetaVectorEnv or a MetaVectorWrapper, got {type(vec_env).__name__}"
        )
    mode = vec_env.autoreset_mode
    if mode not in _MODES:
        raise ValueError(
            f"TorchRL takes autoreset_mode 'SameStep' or 'Disabled', got {mode.value!r}"
        )
    envs = import_extra("torchrl.envs", "torchrl")
    wrapper = _ZeroInBounds if mode is AutoresetMode.SAME_STEP else NumericInfos
    return envs.GymWrapper(wrapper(vec_env), **kwargs)


class _ZeroInBounds(NumericInfos):
    """Observation spaces that hold the zeros that TorchRL writes."""

    def __init__(self, env: MetaVectorEnv | MetaVectorWrapper) -> None:
        super().__init__(env)
        self.single_observation_space = _with_zero(env.single_observation_space)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)


def _with_zero(space: Space[Any]) -> Space[Any]:
    if isinstance(space, Dict):
        return Dict({key: _with_zero(part) for key, part in space.items()})
    if isinstance(space, Box):
        zero = space.dtype.type(0)
        low, high = np.minimum(space.low, zero), np.maximum(space.high, zero)
        return Box(low, high, dtype=space.dtype.type)
    return space
