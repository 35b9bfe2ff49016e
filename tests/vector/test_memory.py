"""Thousands of steps, with new tasks every episode, take no more memory than the first of them."""

import gc
import os

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.vector.fakes import needs_proc, resident_bytes

pytestmark = needs_proc

STEPS, LENGTH = 20_000, 20
# A hundred bytes a step would be 1.8 MB after the first tenth.
ALLOWED = 1_000_000


class ForgetfulEnv(gymnasium.Env):
    """Counts from its task on and keeps nothing; ``leak`` bytes a step are lost on purpose."""

    def __init__(self, kind: str, leak: int = 0) -> None:
        self.observation_space = Box(0, 10_000, (16,), np.float64)
        self.action_space = Discrete(2)
        self.kind = kind
        self.leak = leak
        self.lost: list[bytes] = []
        self.task = self.steps = 0

    def set_task(self, task):
        self.task = task

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), self._info()

    def step(self, action):
        self.steps += 1
        if self.leak:
            self.lost.append(os.urandom(self.leak))
        return self._obs(), 1.0, self.steps >= LENGTH, False, self._info()

    def _obs(self):
        return np.full(16, self.task + self.steps, np.float64)

    def _info(self):
        if self.kind == "scalars":
            return {"steps": self.steps, "half": self.steps / 2, "name": f"task {self.task}"}
        # The layout is another one at every step.
        return {"steps": self.steps, "array": np.ones(4), ("odd", "even")[self.steps % 2]: 1.5}


def grown(envs, pids):
    """By how many bytes each process has grown after the first tenth of the steps."""
    actions = np.zeros(4, np.int64)
    before = None
    for t in range(STEPS):
        if t % LENGTH == 0:
            envs.set_tasks([t % 7, t % 11])
            envs.reset(seed=t)
        if t == STEPS // 10:
            gc.collect()
            before = [resident_bytes(pid) for pid in pids]
        envs.step(actions)
    gc.collect()
    after = [resident_bytes(pid) for pid in pids]
    return [b - a for a, b in zip(before, after, strict=True)]


def make(executor, *args):
    makers = [lambda: ForgetfulEnv(*args)] * 4
    if executor == "iterative":
        return MetaIterativeEnvExecutor(makers, 2, 2)
    return MetaParallelEnvExecutor(makers, 2, 2, workers=2, context="fork")


@pytest.mark.parametrize("kind", ["scalars", "changing"])
@pytest.mark.parametrize("executor", ["iterative", "parallel"])
def test_memory_does_not_grow(executor, kind):
    envs = make(executor, kind)
    pids = [os.getpid(), *getattr(envs, "worker_pids", ())]
    growth = grown(envs, pids)
    envs.close()
    assert max(growth) < ALLOWED, growth


def test_a_leak_of_a_hundred_bytes_a_step_would_be_found():
    envs = make("parallel", "scalars", 100)
    growth = grown(envs, envs.worker_pids)
    envs.close()
    assert min(growth) > ALLOWED, growth
