"""Environments that are paused, and functions that are called where environments are."""

import os
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import LENGTHS, BoxCountingEnv, all_modes, both_executors
from tests.vector.faults import NO_ACTIONS


def counting(executor, **kwargs):
    """Episodes of 2, 3, 5 and 4 steps."""
    return executor([partial(CountingEnv, n) for n in LENGTHS], 4, 1, **kwargs)


class Unpickled:
    """A constructor of environments that know the limit of threads when it was unpickled."""

    def __reduce__(self):
        return made_with, (Unpickled,)

    def __call__(self):
        env = CountingEnv()
        env.limit = self.limit
        return env


def made_with(cls):
    maker = cls()
    maker.limit = os.environ.get("OMP_NUM_THREADS")
    return maker


def test_workers_limit_libraries_to_one_thread_before_they_import_any(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with closing(MetaParallelEnvExecutor(Unpickled(), 2, workers=2)) as envs:
        assert envs.call("limit") == ("1", "1")


# Pause.


@all_modes
@both_executors
def test_environments_that_are_paused_are_left_as_they_are(executor, mode):
    with closing(counting(executor, autoreset_mode=mode, journal=True)) as envs:
        envs.reset(seed=0)
        first, *_ = envs.step(NO_ACTIONS)
        paused = np.array([True, False, True, False])
        envs.pause(paused)
        state = envs.get_state()
        obs, rewards, terminated, truncated, _ = envs.step(NO_ACTIONS)
        assert (obs[paused] == first[paused]).all()
        assert rewards.tolist() == [0, 2, 0, 2]
        assert not terminated.any()
        assert not truncated.any()
        assert envs.call("steps") == (1, 2, 1, 2)
        envs.pause(~paused)
        envs.set_state(state)  # which has the pause of before
        assert envs.call("steps") == (1, 1, 1, 1)
        assert envs.step(NO_ACTIONS)[1].tolist() == [0, 2, 0, 2]
        assert envs.stepped.tolist() == [False, True, False, True]
        assert envs.call("steps") == (1, 2, 1, 2)


# No autoreset.


@all_modes
@both_executors
def test_without_autoreset_episodes_end_as_in_the_mode_disabled(executor, mode):
    """Afterwards those that are over are due for a reset, or do so in the mode's own way."""
    with (
        closing(counting(executor, autoreset_mode=mode)) as envs,
        closing(counting(executor, autoreset_mode="Disabled")) as disabled,
    ):
        with envs.without_autoreset():
            for one in envs, disabled:
                one.reset(seed=0)
                one.step(NO_ACTIONS)
            assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                envs.step(NO_ACTIONS)
            reset = {"seed": 5, "options": {"reset_mask": np.array([True, False, False, False])}}
            for one in envs, disabled:
                one.reset(**reset)
            assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))
        assert envs.call("steps") == (1, 3, 3, 3)
        if mode.value == "NextStep":
            assert envs.step(NO_ACTIONS)[2].tolist() == [True, False, False, True]
            assert envs.call("steps") == (2, 0, 4, 4)
        else:
            with pytest.raises(ResetNeeded):
                envs.step(NO_ACTIONS)
        assert equal(envs.reset(seed=7), disabled.reset(seed=7))
        assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))


# Functions of blocks; what one leaves that raises is in ``test_journal.py``.


def run_steps(envs, rows, steps):
    """What steps return but for infos, each ``(T, N, ...)``, and what a method returns then."""
    results = [envs.step(np.zeros(rows.stop - rows.start, np.int64))[:4] for _ in range(steps)]
    return [np.stack(part) for part in zip(*results, strict=True)], envs.call("steps")


@all_modes
@pytest.mark.parametrize(
    "executor",
    [MetaIterativeEnvExecutor, *(partial(MetaParallelEnvExecutor, workers=w) for w in (1, 3))],
)
def test_a_function_sees_and_steps_the_environments_of_each_block(executor, mode):
    steps = 3 if mode.value != "Disabled" else 2
    with (
        closing(counting(executor, autoreset_mode=mode)) as envs,
        closing(counting(MetaIterativeEnvExecutor, autoreset_mode=mode)) as oracle,
    ):
        assert equal(envs.reset(seed=3), oracle.reset(seed=3))
        blocks = envs.map_blocks(partial(run_steps, steps=steps))
        expected, called = run_steps(oracle, slice(0, 4), steps)
        for i, part in enumerate(expected):
            assert equal(np.concatenate([own[i] for own, _ in blocks], axis=1), part)
        assert sum((of for _, of in blocks), ()) == called
        if mode.value == "Disabled":  # it knows whose episodes have ended there
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                envs.step(NO_ACTIONS)
        else:
            both = (one.step(NO_ACTIONS) for one in (envs, oracle))
            assert equal(*both)


def step_with_nan_last(envs, rows):
    actions = np.zeros((envs.num_envs, 2))
    actions[-1] = np.nan
    return envs.step(actions)


@pytest.mark.parametrize("workers", [1, 2])
def test_in_a_function_errors_name_environments_by_their_rows_among_all(workers):
    with closing(MetaParallelEnvExecutor(BoxCountingEnv, 4, workers=workers)) as envs:
        envs.reset(seed=0)
        rows = {1: r"\[3\]", 2: r"\[1\]"}[workers]  # the first block that raises
        with pytest.raises(ValueError, match=f"actions of environments {rows} are NaN"):
            envs.map_blocks(step_with_nan_last)
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="actions of environments \\[3\\] are NaN"):
            envs.map_blocks(lambda envs, rows: rows.stop == 4 and step_with_nan_last(envs, rows))


def first_observations(envs, rows):
    """The observations of a reset of a block."""
    return envs.reset()[0]


@both_executors
def test_copies_of_an_environment_differ_if_a_block_resets_them_first(executor):
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=3)
    with closing(executor(env, 3)) as envs, closing(executor(env, 3)) as others:
        expected = envs.reset()[0]
        assert (np.concatenate(others.map_blocks(first_observations)) == expected).all()
        assert (others.reset()[0] == envs.reset()[0]).all()


def reset_last(envs, rows):
    """Resets a block that ends with environment 2, from a function within a function."""
    if rows.stop == 3:
        envs.map_blocks(first_observations)


def test_copies_of_an_environment_differ_if_one_block_resets_them_first():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=3)
    with closing(MetaIterativeEnvExecutor(env, 3)) as envs:
        first, second = envs.reset()[0], envs.reset()[0]
    with closing(MetaParallelEnvExecutor(env, 3, workers=3)) as others:
        others.map_blocks(reset_last)
        observations = others.reset()[0]
    assert (observations[:2] == first[:2]).all()
    assert (observations[2] == second[2]).all()
