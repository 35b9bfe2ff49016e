"""Random operations and losses of workers: every result is that of Gymnasium's `SyncVectorEnv`."""

import contextlib
import os
import pickle
import signal
import threading
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from mtwrappers import MetaIterativeEnvExecutor
from tests.fakes import equal
from tests.vector.fakes import DriftEnv, all_modes
from tests.vector.faults import loses_workers, recovering
from tests.vector.processes import needs_proc

pytestmark = [needs_proc, loses_workers]
N = 5
OPERATIONS = 60
SEEDS = int(os.environ.get("MTWRAPPERS_SEEDS", "120"))
EXECUTORS = [
    partial(MetaIterativeEnvExecutor, journal=True),
    *(partial(recovering, workers=workers) for workers in (1, 2, 3)),
]


def make_env(limit):
    """An environment with a limit of steps, and statistics that outlive an episode."""
    return gymnasium.wrappers.NormalizeObservation(
        gymnasium.wrappers.TimeLimit(DriftEnv(), max_episode_steps=limit)
    )


MAKERS = [partial(make_env, limit) for limit in range(2, 2 + N)]


class Pausable(gymnasium.Wrapper):
    """While it is paused, it returns its last observation and info again."""

    paused = False
    was_called = False  # since its last reset

    def reset(self, **kwargs):
        self.paused = self.was_called = False
        self.last = self.env.reset(**kwargs)
        return self.last

    def step(self, action):
        if self.paused:
            obs, info = self.last
            return obs, 0.0, False, False, info
        obs, *numbers, info = self.env.step(action)
        self.last = obs, info
        return obs, *numbers, info


class PausableSyncVectorEnv(SyncVectorEnv):
    """Gymnasium's executor, with the method `pause` of ours."""

    def __init__(self, makers, mode):
        wrapped = [lambda make=make: Pausable(make()) for make in makers]
        super().__init__(wrapped, autoreset_mode=mode)

    @property
    def paused(self):
        return np.array([env.paused for env in self.envs])

    def pause(self, mask):
        for env, paused in zip(self.envs, mask, strict=True):
            env.paused = bool(paused)

    def step(self, actions):
        paused, ended = self.paused, self._autoreset_envs.copy()
        self._autoreset_envs &= ~paused
        result = super().step(actions)
        self._autoreset_envs[paused] = ended[paused]
        return result


def advance(actions, envs, rows):
    """Steps environments in a block, and resets them where the mode leaves it to the caller."""
    results = []
    for action in actions[:, rows]:
        obs, rewards, terminated, truncated, _ = envs.step(action)
        ended = terminated | truncated
        if envs.metadata["autoreset_mode"] is AutoresetMode.DISABLED and ended.any():
            obs, _ = envs.reset(options={"reset_mask": ended})
        results.append([obs, rewards, terminated, truncated])
    return results


def join_blocks(blocks):
    """Joins the results of `advance` in several blocks, as if these were one block."""
    return [
        [np.concatenate(arrays) for arrays in zip(*results, strict=True)]
        for results in zip(*blocks, strict=True)
    ]


class RandomUse:
    """An executor and `PausableSyncVectorEnv` over the same constructors, used in the same way.

    Each operation requires that both return the same.
    """

    def __init__(self, seed, mode):
        self.rng = np.random.default_rng(seed)
        self.mode = mode
        self.oracle = PausableSyncVectorEnv(MAKERS, mode)
        self.envs = self.make()
        self.reset_due = True
        self.ended = np.zeros(N, np.bool_)

    def make(self):
        executor = EXECUTORS[self.rng.integers(len(EXECUTORS))]
        return executor(MAKERS, N, 1, autoreset_mode=self.mode)

    def close(self):
        self.envs.close()
        self.oracle.close()

    def mask(self):
        mask = self.rng.random(N) < 0.4
        mask[self.rng.integers(N)] = True
        return mask

    @property
    def needs_reset(self):
        ended_and_unpaused = (self.ended & ~self.oracle.paused).any()
        return self.reset_due or (self.mode is AutoresetMode.DISABLED and ended_and_unpaused)

    def step(self):
        actions = self.rng.integers(3, size=N)
        if self.needs_reset:
            with pytest.raises(ResetNeeded):
                self.envs.step(actions)
            return
        paused, ended = self.oracle.paused, self.oracle._autoreset_envs.copy()
        expected = self.oracle.step(actions)
        assert equal(self.envs.step(actions), expected)
        next_step = self.mode is AutoresetMode.NEXT_STEP
        assert self.envs.stepped.tolist() == (~paused & ~(ended & next_step)).tolist()
        self.ended = np.where(paused, self.ended, expected[2] | expected[3])

    def reset(self, seed=None):
        if seed is None and self.rng.random() < 0.5:
            seed = int(self.rng.integers(1000))
        assert equal(self.envs.reset(seed=seed), self.oracle.reset(seed=seed))
        self.reset_due = False
        self.ended[:] = False

    def reset_some(self):
        mask = self.mask()
        if self.reset_due and not mask.all():
            with pytest.raises(ResetNeeded):
                self.envs.reset(options={"reset_mask": mask})
            return
        options = {"reset_mask": mask}
        seeds = [int(seed) for seed in self.rng.integers(1000, size=N)]
        results = self.envs.reset(seed=seeds, options=options)
        assert equal(results, self.oracle.reset(seed=seeds, options=options))
        if mask.all():
            self.reset_due = False
        self.ended &= ~mask

    def pause(self):
        if not self.reset_due:
            mask = self.rng.random(N) < 0.3
            self.envs.pause(mask)
            self.oracle.pause(mask)

    def read(self):
        for name in ("x", "slope", "obs_rms.mean"):
            attribute, _, statistic = name.partition(".")  # of normalized observations
            if attribute == "x" and self.reset_due:
                continue
            values = [self.envs.get_attr(attribute), self.oracle.get_attr(attribute)]
            if statistic:
                values = [tuple(getattr(value, statistic) for value in row) for row in values]
            assert equal(*values)

    def call(self):
        i, slope = int(self.rng.integers(N)), float(self.rng.random())
        self.envs.call_some([i], "set_task_state", slope)
        self.oracle.envs[i].get_wrapper_attr("set_task_state")(slope)
        self.oracle.envs[i].was_called = True

    def set_tasks(self):
        tasks = self.rng.random(N).tolist()
        self.envs.set_tasks(tasks)
        for env, task in zip(self.oracle.envs, tasks, strict=True):
            env.get_wrapper_attr("set_task")(task)
        self.reset_due = True

    def map_blocks(self):
        if self.needs_reset:
            return
        actions = self.rng.integers(3, size=(self.rng.integers(1, 8), N))
        blocks = self.envs.map_blocks(partial(advance, actions))
        assert equal(join_blocks(blocks), join_blocks([advance(actions, self.oracle, slice(0, N))]))
        self.ended = self.oracle._autoreset_envs.copy()

    def transplant(self):
        """Goes on in new environments, in another number of workers."""
        if not self.reset_due and any(env.was_called for env in self.oracle.envs):
            with pytest.raises(RuntimeError, match="called since its last reset"):
                self.envs.get_state()
            self.reset()
        state = pickle.loads(pickle.dumps(self.envs.get_state()))
        self.envs.close()
        self.envs = self.make()
        self.envs.set_state(state)
        self.step()

    @contextlib.contextmanager
    def lost_worker(self):
        """Kills a worker before or during an operation, most of the times."""
        pids = getattr(self.envs, "worker_pids", [])
        if not pids or self.rng.random() < 0.8:
            yield
            return

        def kill(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        timer = threading.Timer(self.rng.uniform(0, 2e-3), kill, [self.rng.choice(pids)])
        timer.start()
        yield
        timer.join()

    def run(self):
        frequent = [self.step] * 8 + [self.reset_some] * 2
        rare = [self.reset, self.pause, self.read, self.call, self.set_tasks, self.map_blocks]
        operations = [*frequent, *rare, self.pause, self.map_blocks, self.transplant]
        self.reset(seed=1)
        for _ in range(OPERATIONS):
            operation = operations[self.rng.integers(len(operations))]
            with self.lost_worker():
                operation()
            if self.reset_due and self.rng.random() < 0.5:
                self.reset()
        self.read()


@all_modes
@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.slow_but("0-NextStep", "1-SameStep", "2-Disabled")
def test_random_use_returns_what_gymnasium_returns(seed, mode):
    with closing(RandomUse(seed, mode)) as random_use:
        random_use.run()
