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


def make_counting_envs(executor, **kwargs):
    """Makes four environments, whose episodes have 2, 3, 5 and 4 steps."""
    return executor([partial(CountingEnv, n) for n in LENGTHS], 4, 1, **kwargs)


class Unpickled:
    """A constructor of environments that know the limit of threads when it was unpickled."""

    def __reduce__(self):
        return build_with_thread_limit, (Unpickled,)

    def __call__(self):
        env = CountingEnv()
        env.limit = self.limit
        return env


def build_with_thread_limit(maker_class):
    maker = maker_class()
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
    with closing(make_counting_envs(executor, autoreset_mode=mode, journal=True)) as envs:
        envs.reset(seed=0)
        obs_before, *_ = envs.step(NO_ACTIONS)
        paused = np.array([True, False, True, False])
        envs.pause(paused)
        state = envs.get_state()
        obs, rewards, terminated, truncated, _ = envs.step(NO_ACTIONS)
        assert (obs[paused] == obs_before[paused]).all()
        assert rewards.tolist() == [0, 2, 0, 2]
        assert not terminated.any()
        assert not truncated.any()
        assert envs.call("steps") == (1, 2, 1, 2)
        envs.pause(~paused)
        envs.set_state(state)  # of when these were paused
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
        closing(make_counting_envs(executor, autoreset_mode=mode)) as envs,
        closing(make_counting_envs(executor, autoreset_mode="Disabled")) as disabled,
    ):
        with envs.without_autoreset():
            for vector_env in envs, disabled:
                vector_env.reset(seed=0)
                vector_env.step(NO_ACTIONS)
            assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                envs.step(NO_ACTIONS)
            reset = {"seed": 5, "options": {"reset_mask": np.array([True, False, False, False])}}
            for vector_env in envs, disabled:
                vector_env.reset(**reset)
            assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))
        assert envs.call("steps") == (1, 3, 3, 3)
        if mode.value == "NextStep":
            assert envs.step(NO_ACTIONS)[2].tolist() == [True, False, False, True]
            assert envs.call("steps") == (2, 0, 4, 4)
        else:
            with pytest.raises(ResetNeeded, match=r"environments \[1\] have ended"):
                envs.step(NO_ACTIONS)
        assert equal(envs.reset(seed=7), disabled.reset(seed=7))
        assert equal(envs.step(NO_ACTIONS), disabled.step(NO_ACTIONS))


@both_executors
def test_an_episode_that_ended_without_autoreset_is_not_stepped_further(executor):
    """Whether its last step was awaited afterwards, or its state was set elsewhere."""
    with (
        closing(make_counting_envs(executor, journal=True)) as envs,
        closing(make_counting_envs(executor, journal=True)) as other,
    ):
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        with envs.without_autoreset():
            envs.step_async(NO_ACTIONS)
        assert envs.step_wait()[2].tolist() == [True, False, False, False]
        other.set_state(envs.get_state())
        for vector_env in envs, other:
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                vector_env.step(NO_ACTIONS)
            mask = np.array([True, False, False, False])
            vector_env.reset(options={"reset_mask": mask})
            assert vector_env.step(NO_ACTIONS)[1].tolist() == [1, 3, 3, 3]


# Functions of blocks; what one leaves that raises is in ``test_journal.py``.


def run_steps(envs, rows, steps):
    """Returns what steps return but for infos, each ``(T, N, ...)``, and the counts of steps."""
    results = [envs.step(np.zeros(rows.stop - rows.start, np.int64))[:4] for _ in range(steps)]
    return [np.stack(column) for column in zip(*results, strict=True)], envs.call("steps")


@all_modes
@pytest.mark.parametrize(
    "executor",
    [MetaIterativeEnvExecutor, *(partial(MetaParallelEnvExecutor, workers=w) for w in (1, 3))],
)
def test_a_function_sees_and_steps_the_environments_of_each_block(executor, mode):
    steps = 3 if mode.value != "Disabled" else 2
    with (
        closing(make_counting_envs(executor, autoreset_mode=mode)) as envs,
        closing(make_counting_envs(MetaIterativeEnvExecutor, autoreset_mode=mode)) as oracle,
    ):
        assert equal(envs.reset(seed=3), oracle.reset(seed=3))
        blocks = envs.map_blocks(partial(run_steps, steps=steps))
        expected_columns, expected_counts = run_steps(oracle, slice(0, 4), steps)
        for i, expected in enumerate(expected_columns):
            actual = np.concatenate([columns[i] for columns, _ in blocks], axis=1)
            assert equal(actual, expected)
        assert sum((counts for _, counts in blocks), ()) == expected_counts
        if mode.value == "Disabled":  # it knows whose episodes have ended there
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                envs.step(NO_ACTIONS)
        else:
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


def step_with_nan_last(envs, rows):
    actions = np.zeros((envs.num_envs, 2))
    actions[-1] = np.nan
    return envs.step(actions)


def step_last_block_with_nan(envs, rows):
    if rows.stop == 4:
        step_with_nan_last(envs, rows)


@pytest.mark.parametrize("workers", [1, 2])
def test_in_a_function_errors_name_environments_by_their_rows_among_all(workers):
    with closing(MetaParallelEnvExecutor(BoxCountingEnv, 4, workers=workers)) as envs:
        envs.reset(seed=0)
        rows = {1: r"\[3\]", 2: r"\[1\]"}[workers]  # the first block that raises
        with pytest.raises(ValueError, match=f"actions of environments {rows} are NaN"):
            envs.map_blocks(step_with_nan_last)
        envs.reset(seed=0)
        with pytest.raises(ValueError, match="actions of environments \\[3\\] are NaN"):
            envs.map_blocks(step_last_block_with_nan)


def reset_observations(envs, rows):
    """Returns the observations of a reset of a block."""
    return envs.reset()[0]


@both_executors
def test_copies_of_an_environment_differ_if_a_block_resets_them_first(executor):
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=3)
    with closing(executor(env, 3)) as envs, closing(executor(env, 3)) as other_envs:
        expected = envs.reset()[0]
        assert (np.concatenate(other_envs.map_blocks(reset_observations)) == expected).all()
        assert (other_envs.reset()[0] == envs.reset()[0]).all()


def reset_last(envs, rows):
    """Resets a block that ends with environment 2, from a function within a function."""
    if rows.stop == 3:
        envs.map_blocks(reset_observations)


def test_copies_of_an_environment_differ_if_one_block_resets_them_first():
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=3)
    with closing(MetaIterativeEnvExecutor(env, 3)) as envs:
        first_observations, second_observations = envs.reset()[0], envs.reset()[0]
    with closing(MetaParallelEnvExecutor(env, 3, workers=3)) as other_envs:
        other_envs.map_blocks(reset_last)
        observations = other_envs.reset()[0]
    assert (observations[:2] == first_observations[:2]).all()
    assert (observations[2] == second_observations[2]).all()


@pytest.mark.parametrize("wrap", [lambda env: env, gymnasium.wrappers.OrderEnforcing])
def test_constructors_that_share_an_environment_are_refused(wrap):
    env = CountingEnv()
    with pytest.raises(ValueError, match="environments 0 and 1 return the same environment"):
        MetaIterativeEnvExecutor(lambda: wrap(env), 2)
