"""Copies of environments, for pools of them."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium


def copy_env(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """A copy of an environment, to be reset.

    Args:
        env: Any environment that `copy.deepcopy` copies, or a bare Sawyer environment, which is
            built anew on its task because upstream's own deep copies are broken.

    Raises:
        TypeError: If it cannot be copied.
    """
    sawyer: Any = env.unwrapped
    if hasattr(sawyer, "sawyer_observation_space"):
        if sawyer is not env:
            raise TypeError(
                f"cannot copy {env}: wrap a MetaWorldSetTaskEnv, which copies, instead of a bare "
                "Sawyer environment"
            )
        copied: gymnasium.Env[Any, Any] = _copy_sawyer(sawyer)
        return copied
    try:
        return copy.deepcopy(env)
    except Exception as exc:
        raise TypeError(f"cannot copy {env}: {exc}") from exc


def _copy_sawyer(env: Any) -> Any:
    other = type(env)(
        reward_function_version=env.reward_function_version,
        render_mode=env.render_mode,
        camera_name=env.camera_name,
        camera_id=env.camera_id,
        width=env.width,
        height=env.height,
    )
    other._set_task_called = env._set_task_called
    other._freeze_rand_vec = env._freeze_rand_vec
    other._last_rand_vec = copy.copy(env._last_rand_vec)
    other.seeded_rand_vec = env.seeded_rand_vec
    if env._partially_observable != other._partially_observable:
        # Upstream computes the space once; see `SawyerXYZEnv.set_task`.
        del other.sawyer_observation_space
        other._partially_observable = env._partially_observable
    return other
