"""Environments whose spaces differ: arms of several joints."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Dict


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
        over = self.steps >= self.length
        return self._obs(), float(self.at[0]), over, False, {"steps": self.steps}

    def _obs(self):
        return self.at.astype(self.observation_space.dtype)


# Joints, lengths of observations, bounds, dtypes and lengths of episodes differ.
ARMS = [
    partial(ArmEnv, 2, 3, length=4),
    partial(ArmEnv, 1, 5, bound=2.0, dtype=np.float64, length=2),
    partial(ArmEnv, 4, 2, bound=0.4, length=7),
]


class SeeingEnv(gymnasium.Env):
    """Counts steps in numbers, in the brightness of frames of 2 x 4 pixels, or in both.

    Args:
        numbers: Keys and lengths of what is observed in numbers; a length of 0 is a scalar.
        frame: The key of the frame, if one is observed. Without any other key, the key "" makes
            a part the observation itself.
        first: What it counts from.
        length: How many steps an episode has.
        render_mode: With ``"rgb_array"``, frames of 3 x 3 pixels are rendered.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        numbers: dict[str, int] | None = None,
        frame: str | None = None,
        *,
        first: int = 0,
        length: int = 3,
        joints: int = 2,
        dtype: Any = np.float32,
        render_mode: str | None = None,
    ) -> None:
        self.numbers, self.frame, self.first, self.length = numbers or {}, frame, first, length
        self.render_mode = render_mode
        spaces: dict[str, Box] = {
            key: Box(0.0, 99.0, (size,) if size else (), dtype)
            for key, size in self.numbers.items()
        }
        if frame is not None:
            spaces[frame] = Box(0, 255, (2, 4, 3), np.uint8)
        self.observation_space: Any = spaces[""] if "" in spaces else Dict(spaces)
        self.action_space = Box(-1.0, 1.0, (joints,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), float(action[0]), self.steps >= self.length, False, {}

    def _obs(self):
        count = self.first + self.steps
        spaces: Any = self.observation_space
        parts = spaces if isinstance(spaces, Dict) else {"": spaces}
        obs = {key: np.full(box.shape, count, box.dtype) for key, box in parts.items()}
        if self.frame is not None:
            obs[self.frame][:, 2:] += 10  # the right half is brighter
        return obs.get("", obs)

    def render(self):
        return np.full((3, 3, 3), 100 + self.first + self.steps, np.uint8)


# Numbers and a frame, a frame alone, numbers alone, and a Dict of several numbers.
SEEING = [
    partial(SeeingEnv, {"agent_pos": 2}, "image"),
    partial(SeeingEnv, None, "", first=20),
    partial(SeeingEnv, {"": 3}, first=40, joints=1, dtype=np.float64),
    partial(SeeingEnv, {"b": 1, "a": 0}, "rgb", first=60, length=5),
]
