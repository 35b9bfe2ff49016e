"""minari 0.5.4: by default, recorded frames are not the frames that the environment returned.

``DataCollector`` encodes what looks like an image as JPEG, without a message. The frames of noise
here are the worst case.

Cause: ``jpeg_encoding: bool = True`` in minari/data_collector/data_collector.py, line 75, and in
minari/dataset/minari_storage.py, line 126. The docstring says that it is lossy.

Suggested change: make False the default for new datasets, use PNG, or warn once. This is a design
choice rather than a mistake; it is reported because it is silent.
"""

import os
import tempfile
from importlib.metadata import version

import gymnasium as gym
import numpy as np


class Frames(gym.Env):
    """Observes frames of noise."""

    observation_space = gym.spaces.Box(0, 255, (32, 32, 3), np.uint8)
    action_space = gym.spaces.Box(-1.0, 1.0, (1,), np.float32)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self.frame(), {}

    def step(self, action):
        self.steps += 1
        return self.frame(), 0.0, self.steps == 3, False, {}

    def frame(self):
        return self.np_random.integers(0, 256, (32, 32, 3), np.uint8)


def difference(**kwargs):
    """The largest difference of a recorded frame from that of the environment."""
    collector = minari.DataCollector(Frames(), **kwargs)
    frames, terminated = [collector.reset(seed=0)[0]], False
    while not terminated:
        obs, _, terminated, _, _ = collector.step(collector.action_space.sample())
        frames.append(obs)
    dataset = collector.create_dataset(f"test/frames{len(kwargs)}-v0")
    recorded = dataset[0].observations
    return int(np.abs(recorded.astype(int) - np.stack(frames)).max())


with tempfile.TemporaryDirectory() as folder:
    os.environ["MINARI_DATASETS_PATH"] = folder
    import minari

    default, lossless = difference(), difference(jpeg_encoding=False)
print("minari", version("minari"))
print("largest difference of a pixel by default:           ", default)
print("largest difference of a pixel, jpeg_encoding=False: ", lossless)
print("fault:", "yes" if default else "no")
