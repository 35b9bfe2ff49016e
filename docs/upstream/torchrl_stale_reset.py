"""torchrl 0.14.1: after an episode has ended, a rollout begins with an earlier observation.

The environments count their resets. The first rollout ends with a step in which one episode of two
has ended. In the mode SAME_STEP, the second rollout, which resets all environments, begins with
the observation from before its reset, so that its first action is on the wrong observation.

Cause: ``VecGymEnvTransform._reset`` (torchrl/envs/transforms/_misc.py) takes the ended episodes of
the last step as the reset mask if there is no ``_reset`` entry, although that resets all.

Suggested change: without a ``_reset`` entry, return what the reset returned.
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

    def __init__(self, length):
        self.length = length

    def reset(self, seed=None, options=None):
        self.episode, self.steps = self.episode + 1, 0
        return np.full(1, self.episode, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.full(1, self.episode, np.float32), 0.0, self.steps == self.length, False, {}


def first_observations(mode):
    """The first observation of each of two environments, and the next, in the second rollout."""
    makers = [lambda: Counting(2), lambda: Counting(9)]
    env = GymWrapper(SyncVectorEnv(makers, autoreset_mode=mode))
    env.rollout(2, break_when_any_done=False)
    rollout = env.rollout(1)
    observations = rollout["observation"], rollout["next", "observation"]
    return [observation[:, 0, 0].int().tolist() for observation in observations]


same_step = first_observations(AutoresetMode.SAME_STEP)
disabled = first_observations(AutoresetMode.DISABLED)
print("torchrl", version("torchrl"), "gymnasium", version("gymnasium"))
print("first episode number and the next, autoreset_mode=DISABLED: ", *disabled)
print("first episode number and the next, autoreset_mode=SAME_STEP:", *same_step)
print("fault:", "yes" if same_step[0] != same_step[1] else "no")
