"""Meta-World's scripted experts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.class_env import OBS_SIZE


def expert(class_name: str) -> Callable[[NDArray[Any], NDArray[Any]], NDArray[np.float32]]:
    """The scripted expert of a class: ``act(obs, goal) -> action``.

    ``obs`` is ``(39 + anything,)``, ``goal`` ``(3,)`` in metres, which takes the place of the
    observation's own, and the action ``(4,)``.
    """
    policies = import_extra("metaworld.policies", "metaworld").ENV_POLICY_MAP
    if class_name not in policies:
        raise ValueError(f"no expert for {class_name!r}; expected one of {sorted(policies)}")
    policy = policies[class_name]()

    def act(obs: NDArray[Any], goal: NDArray[Any]) -> NDArray[np.float32]:
        frame = np.array(obs[:OBS_SIZE], dtype=np.float64)
        frame[-3:] = goal
        action: NDArray[np.float32] = policy.get_action(frame)
        return action

    return act
