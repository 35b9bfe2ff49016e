"""Thousands of steps, with new tasks every episode, take no more memory than the first of them."""

import gc
import json
import os
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

from tests.fakes import run_python
from tests.vector.fakes import EXECUTORS
from tests.vector.processes import needs_proc, resident_bytes

STEPS, LENGTH = 3_000, 20
# Two hundred bytes a step are 1 MB per worker after the first tenth.
ALLOWED = 600_000


class ForgetfulEnv(gymnasium.Env):
    """Counts from its task on and keeps nothing; ``leak`` bytes a step are lost on purpose."""

    observation_space, action_space = Box(0, 10_000, (16,), np.float64), Discrete(2)
    task = 0

    def __init__(self, changes, leak):
        self.changes, self.leak, self.lost = changes, leak, []

    def set_task(self, task):
        self.task = task

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self._seen()

    def step(self, action):
        self.steps += 1
        if self.leak:
            self.lost.append(os.urandom(self.leak))
        obs, info = self._seen()
        return obs, 1.0, self.steps >= LENGTH, False, info

    def _seen(self):
        info = {"steps": self.steps, "half": self.steps / 2, "name": f"task {self.task}"}
        if self.changes:  # the layout is another one at every step
            info = {"array": np.ones(4), ("odd", "even")[self.steps % 2]: 1.5}
        return np.full(16, self.task + self.steps, np.float64), info


def run_steps(executor, leak):
    """By how many bytes this process, and each worker, grows after the first tenth of the steps."""
    envs = EXECUTORS[executor]([partial(ForgetfulEnv, changes, leak) for changes in (0, 1)], 2, 2)
    pids = [os.getpid(), *getattr(envs, "worker_pids", ())]
    for t in range(STEPS):
        if t % LENGTH == 0:
            envs.set_tasks([t % 7, t % 11])
            envs.reset(seed=t)
        if t == STEPS // 10:
            gc.collect()
            before = [resident_bytes(pid) for pid in pids]
        envs.step([0] * 4)
    gc.collect()
    return [resident_bytes(pid) - b for pid, b in zip(pids, before, strict=True)]


@needs_proc
@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.slow_but("iterative")
def test_memory_does_not_grow_and_a_leak_of_some_bytes_a_step_would_be_found(executor):
    # In a process of its own, which has no memory left over to hide a leak in.
    code = (
        "from tests.vector.test_memory import run_steps; "
        f"print([run_steps({executor!r}, leak) for leak in (0, 200)])"
    )
    grown, leaking = json.loads(run_python(code))
    assert max(grown) < ALLOWED, grown
    assert min(leaking[1:] or leaking) > ALLOWED
