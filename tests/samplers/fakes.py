"""Environments and policies for samplers, whose paths are known beforehand."""

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete

from mtwrappers import MetaSampler
from tests.fakes import CountingSetTaskEnv

TASKS = [{"first": 0}, {"first": 100}]
WORKERS = {"workers": 2}


def lazy(observations):
    return np.zeros(len(observations), dtype=np.int64)


class LengthEnv(gymnasium.Env):
    """Its task says how long episodes are; it observes the length and the step."""

    def __init__(self):
        self.observation_space = Box(0, 1000, (2,), np.float64)
        self.action_space = Discrete(2)
        self.length = 1

    def set_task(self, task):
        self.length = task["length"]

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), float(self.steps), self.steps >= self.length, False, {}

    def _obs(self):
        return np.array([self.length, self.steps], np.float64)


class ChanceEnv(CountingSetTaskEnv):
    """Episodes have 1 step or 20, by a coin that every reset throws."""

    def reset(self, *, seed=None, options=None):
        obs, info = super().reset(seed=seed, options=options)
        self.length = 1 if self.np_random.random() < 0.5 else 20
        return obs, info


def lengths(paths):
    """How long the paths of each task are."""
    return {task: [len(path["rewards"]) for path in own] for task, own in paths.items()}


def sample(*args, tasks=None, **kwargs):
    """The paths of a sampler, which is closed after it."""
    sampler = MetaSampler(*args, **kwargs)
    try:
        if tasks is not None:
            sampler.update_tasks(tasks)
        return sampler.obtain_samples()
    finally:
        sampler.close()
