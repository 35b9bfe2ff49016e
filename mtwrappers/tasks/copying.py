"""Copies of environments, for pools of them."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium


def copy_env(env: gymnasium.Env[Any, Any]) -> gymnasium.Env[Any, Any]:
    """A copy of an environment, to be reset.

    A bare Sawyer environment, which upstream's ``copy.deepcopy`` breaks, is built anew on its task.

    Raises:
        TypeError: If it cannot be copied.
    """
    sawyer: Any = env.unwrapped
    if hasattr(sawyer, "sawyer_observation_space"):
        from mtwrappers.metaworld.copying import copy_sawyer

        if sawyer is not env:
            raise TypeError(
                f"cannot copy {env}: wrap a MetaWorldSetTaskEnv, which copies, instead of a bare "
                "Sawyer environment"
            )
        copied: gymnasium.Env[Any, Any] = copy_sawyer(sawyer)
        return copied
    try:
        return copy.deepcopy(env)
    except Exception as exc:
        raise TypeError(f"cannot copy {env}: {exc}") from exc
