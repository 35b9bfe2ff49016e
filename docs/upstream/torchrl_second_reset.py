"""torchrl 0.14.1: where all episodes end at once, a vector environment is reset twice.

The environments count their resets. Every episode has two steps. In the mode SAME_STEP, every
second episode is lost, and with it every second task.

Cause: ``GymWrapper._reset`` (torchrl/envs/libs/gym.py, line 1810) calls the environment's ``reset``
if ``reset.all()``. If only some have ended, it relies on the autoreset.

Suggested change: in the mode SAME_STEP, also skip the call if the mask comes from ended episodes. A
first reset has no ``_reset`` entry.
"""

from importlib.metadata import version

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from torchrl.envs import GymWrapper


class Counting(gym.Env):
    """Observes the number of its episode."""

    observation_space = gym.spaces.Box(0.0, 100.0, (1,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)
    episode = 0

    def reset(self, seed=None, options=None):
        self.episode, self.steps = self.episode + 1, 0
        return np.full(1, self.episode, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.episode, np.float32), 0.0, self.steps == 2, False, {}


def episodes(mode):
    """The number of its episode at each of six steps, of the first of two environments."""
    env = GymWrapper(SyncVectorEnv([Counting] * 2, autoreset_mode=mode))
    rollout = env.rollout(6, break_when_any_done=False)
    return rollout["observation"][0, :, 0].int().tolist()


same_step, disabled = episodes(AutoresetMode.SAME_STEP), episodes(AutoresetMode.DISABLED)
print("torchrl", version("torchrl"), "gymnasium", version("gymnasium"))
print("episode at each step, autoreset_mode=DISABLED: ", disabled)
print("episode at each step, autoreset_mode=SAME_STEP:", same_step)
print("fault:", "yes" if np.diff(same_step).max() > 1 else "no")
