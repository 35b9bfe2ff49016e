"""gymnasium 1.4.0: SyncVectorEnv.reset takes reset_mask out of the caller's options.

The wrapper around it then takes a reset of one environment for a reset of both, and the statistics
of an episode that continues are set to 0.

Cause: ``options.pop("reset_mask")`` in gymnasium/vector/sync_vector_env.py, line 221, and in
async_vector_env.py, line 381. The wrapper looks for the key after ``self.env.reset``
(gymnasium/wrappers/vector/common.py, line 128).

Suggested change: copy the dict in both, with ``options = dict(options)``.
"""

from importlib.metadata import version

import gymnasium as gym
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers.vector import RecordEpisodeStatistics

envs = RecordEpisodeStatistics(
    SyncVectorEnv([lambda: gym.make("CartPole-v1")] * 2, autoreset_mode=AutoresetMode.DISABLED)
)
envs.reset(seed=0)
for _ in range(3):
    envs.step(np.array([0, 1]))
options = {"reset_mask": np.array([True, False])}
envs.reset(options=options)
lengths = envs.episode_lengths.tolist()
print("gymnasium", version("gymnasium"))
print("lengths after 3 steps and a reset of the first environment:", lengths)
print("options after the call:", sorted(options))
print("fault:", "yes" if lengths == [0, 0] else "no")
