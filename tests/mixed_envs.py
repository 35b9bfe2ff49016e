"""Environments whose spaces differ: arms of several joints."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from gymnasium.wrappers import RescaleAction


class ArmEnv(gymnasium.Env):
    """Observes joints that actions and chance move, for ``length`` steps.

    ``seen`` is the last action that came, as it came.
    """

    def __init__(
        self,
        joints: int = 2,
        obs_size: int = 3,
        *,
        bound: float = 1.0,
        dtype: Any = np.float32,
        length: int = 4,
    ) -> None:
        dtype = np.dtype(dtype).type
        self.action_space = Box(-bound, bound, (joints,), np.float32)
        self.observation_space = Box(-100.0, 100.0, (obs_size,), dtype)
        self.length, self.steps, self.seen = length, 0, None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.at = self.np_random.uniform(-1, 1, self.observation_space.shape)
        return self._obs(), {"steps": 0}

    def step(self, action):
        assert self.action_space.contains(action), action
        self.seen = action.copy()
        self.steps += 1
        self.at = self.at + float(action[-1]) + 0.1 * self.np_random.uniform(-1, 1, self.at.shape)
        terminated = self.steps >= self.length
        return self._obs(), float(self.at[0]), terminated, False, {"steps": self.steps}

    def _obs(self):
        return self.at.astype(self.observation_space.dtype)


# Joints, lengths of observations, dtypes and lengths of episodes differ.
ARMS = [
    partial(ArmEnv, 2, 3, length=4),
    partial(ArmEnv, 1, 5, dtype=np.float64, length=2),
    partial(ArmEnv, 4, 2, length=7),
]


def make_pendulum(**kwargs: Any) -> gymnasium.Env:
    """The pendulum, with the bounds of actions that most other environments have."""
    return RescaleAction(gymnasium.make("Pendulum-v1", **kwargs), np.float32(-1), np.float32(1))


RESCALED_PENDULUM = "Rescaled/Pendulum-v1"
gymnasium.register(RESCALED_PENDULUM, make_pendulum)
