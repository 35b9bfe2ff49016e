"""What vector environments return, in a form that can be compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode


def plain(value: Any) -> Any:
    """NumPy's arrays for those of torch, and no times."""
    if isinstance(value, dict):
        return {key: plain(v) for key, v in value.items() if key not in ("t", "_t")}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(v) for v in value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return [plain(v) for v in value]
    if type(value).__module__.partition(".")[0] == "torch":
        return np.asarray(value)
    return value


def run(envs, mode):
    """What ten steps return, with the resets that the mode asks for."""
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(10)]
    results = [plain(envs.reset(seed=3))]
    for action in actions:
        results.append(plain(envs.step(action)))
        over = results[-1][2] | results[-1][3]
        if mode is AutoresetMode.DISABLED and over.any():
            results.append(plain(envs.reset(options={"reset_mask": over})))
    return results
