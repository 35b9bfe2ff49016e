"""Infos of numbers alone, for libraries that turn every info into a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from mtwrappers.wrappers.vector import MetaVectorWrapper

_OBSERVATIONS = ("final_obs", "_final_obs", "_final_info")


class NumericInfos(MetaVectorWrapper):
    """Leaves those infos that are arrays of numbers or bools, and ``final_obs``.

    Names, lists and dicts are taken out, of ``final_info`` too. TorchRL's ``GymWrapper`` needs
    that in the mode SAME_STEP: it turns all of ``final_info`` into tensors when an episode ends,
    and fails on ``task_name`` and ``episode``.

    Args:
        env: One of our vector environments, or a wrapper of one.

    >>> import gymnasium, mtwrappers
    >>> envs = NumericInfos(gymnasium.make_vec("mtwrappers/MultiEnv-v0"))
    >>> sorted(envs.env.reset(seed=0)[1]), sorted(envs.reset(seed=0)[1])
    (['_task_id', '_task_name', 'task_id', 'task_name'], ['_task_id', 'task_id'])
    >>> envs.close()
    """

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Resets the environments."""
        obs, infos = self.env.reset(seed=seed, options=options)
        return obs, _numeric(infos)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Ends the step that `step_async` began."""
        obs, rewards, terminated, truncated, infos = super().step_wait()
        return obs, rewards, terminated, truncated, _numeric(infos)


def _numeric(infos: dict[str, Any]) -> dict[str, Any]:
    left = {}
    for key, value in infos.items():
        if key in _OBSERVATIONS:
            left[key] = value
        elif key == "final_info":
            left[key] = _numeric(value)
        # A mask stays if what it masks does.
        elif _is_numeric(value) and (key[:1] != "_" or _is_numeric(infos.get(key[1:]))):
            left[key] = value
    return left


def _is_numeric(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in "biuf"
