"""Environments that rest, and functions that are called where environments are."""

import threading
from contextlib import closing
from functools import partial

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import NestedEnv, WordEnv, all_modes, both_executors

LENGTHS = (2, 3, 5, 4)
WAYS = [MetaIterativeEnvExecutor, *(partial(MetaParallelEnvExecutor, workers=w) for w in (1, 2, 3))]
all_ways = pytest.mark.parametrize("executor", WAYS, ids=["here", "1", "2", "3"])


def counting(executor, **kwargs):
    return executor([partial(CountingEnv, n, first=100 * n) for n in LENGTHS], 4, **kwargs)


# Rest.


@all_modes
@both_executors
def test_environments_that_rest_are_left_as_they_are(executor, mode):
    with closing(counting(executor, autoreset_mode=mode, journal=True)) as envs:
        envs.reset(seed=0)
        zeros = np.zeros(4, np.int64)
        first, *_ = envs.step(zeros)
        resting = np.array([True, False, True, False])
        envs.rest(resting)
        state = envs.get_state()
        obs, rewards, terminated, truncated, _ = envs.step(zeros)
        assert (obs[resting] == first[resting]).all()
        assert rewards.tolist() == [0, 2, 0, 2]
        assert not terminated.any()
        assert not truncated.any()
        assert envs.call("steps") == (1, 2, 1, 2)
        envs.rest(~resting)
        envs.set_state(state)  # which says nothing of rest
        assert envs.call("steps") == (1, 1, 1, 1)
        envs.step(zeros)
        assert envs.call("steps")[1:] == (1, 2, 1)  # the first one's episode may have begun anew


@both_executors
def test_a_reset_ends_a_rest(executor):
    with closing(counting(executor)) as envs:
        envs.reset()
        envs.rest(np.ones(4, np.bool_))
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        envs.step(np.zeros(4, np.int64))
        assert envs.call("steps") == (0, 1, 0, 0)
        envs.reset()
        envs.step(np.zeros(4, np.int64))
        assert envs.call("steps") == (1, 1, 1, 1)


@both_executors
def test_an_episode_that_is_over_needs_no_reset_while_it_rests(executor):
    with closing(counting(executor, autoreset_mode="Disabled")) as envs:
        envs.reset()
        zeros = np.zeros(4, np.int64)
        for _ in range(2):
            envs.step(zeros)
        envs.rest(np.array([True, False, False, False]))
        envs.step(zeros)
        envs.rest(np.zeros(4, np.bool_))
        with pytest.raises(ResetNeeded, match=r"environments \[0, 1\] are over"):
            envs.step(zeros)


@pytest.mark.parametrize("mask", [np.ones(3, np.bool_), np.ones(4), [True] * 3, None, "all"])
def test_a_mask_of_rest_has_one_bool_per_environment(mask):
    with (
        closing(counting(MetaIterativeEnvExecutor)) as envs,
        pytest.raises(ValueError, match=r"expected a mask of shape \(4,\) and dtype bool, got"),
    ):
        envs.rest(mask)


# Functions of blocks.


def play(envs, rows, steps=3):
    """Where the environments are: three steps, and what a method of theirs returns."""
    assert envs.num_envs == rows.stop - rows.start
    told = [envs.step(np.zeros(envs.num_envs, np.int64)) for _ in range(steps)]
    return [(told, i) for i in range(rows.start, rows.stop)], envs.call("steps")


@all_modes
@all_ways
def test_a_function_sees_and_steps_the_environments_of_each_block(executor, mode):
    with (
        closing(counting(executor, autoreset_mode=mode)) as envs,
        closing(counting(MetaIterativeEnvExecutor, autoreset_mode=mode)) as oracle,
    ):
        steps = 3 if mode.value != "Disabled" else 2
        zeros = np.zeros(4, np.int64)
        assert equal(envs.reset(seed=3), oracle.reset(seed=3))
        blocks = envs.map_blocks(partial(play, steps=steps))
        results = [oracle.step(zeros) for _ in range(steps)]
        assert [i for own, _ in blocks for _, i in own] == [0, 1, 2, 3]
        for told, i in (one for own, _ in blocks for one in own):
            first = next(j for block, _ in blocks for t, j in block if t is told)
            for mine, theirs in zip(told, results, strict=True):
                for a, b in zip(mine[:4], theirs[:4], strict=True):
                    assert (a[i - first] == b[i]).all()
        assert sum((of for _, of in blocks), ()) == oracle.call("steps")
        if mode.value == "Disabled":  # it knows whose episodes have ended there
            with pytest.raises(ResetNeeded, match=r"environments \[0\] are over"):
                envs.step(zeros)
        else:
            assert equal(envs.step(zeros), oracle.step(zeros))


def reset_some(envs, rows):
    envs.reset(options={"reset_mask": np.arange(rows.start, rows.stop) % 2 == 0})
    envs.step(envs.action_space.sample())


@pytest.mark.parametrize(
    "make", [partial(CountingEnv, 9), partial(NestedEnv, 9), partial(WordEnv, 9)]
)
def test_a_state_after_a_function_is_that_of_the_environments(make):
    kwargs = {"workers": 2, "journal": True}
    with (
        closing(MetaParallelEnvExecutor(make, 4, **kwargs)) as envs,
        closing(MetaParallelEnvExecutor(make, 4, **kwargs)) as other,
    ):
        envs.action_space.seed(0)
        envs.reset(seed=1)
        envs.step(envs.action_space.sample())
        envs.map_blocks(reset_some)
        other.set_state(envs.get_state())
        action = envs.action_space.sample()
        assert equal(envs.step(action), other.step(action))


def fail(envs, rows):
    envs.step(np.zeros(envs.num_envs, np.int64))
    if rows.start:
        raise KeyError("of the function")


def test_what_a_function_raises_is_raised_and_a_reset_is_due():
    with closing(counting(MetaParallelEnvExecutor, workers=2, on_worker_failure="recover")) as envs:
        envs.reset()
        with pytest.raises(KeyError, match="of the function"):
            envs.map_blocks(fail)
        with pytest.raises(ResetNeeded):
            envs.step(np.zeros(4, np.int64))
        envs.reset()
        assert [of for _, of in envs.map_blocks(partial(play, steps=1))] == [(1, 1), (1, 1)]


def test_only_functions_that_pickle_go_to_workers():
    with closing(counting(MetaParallelEnvExecutor, workers=2)) as envs:
        envs.reset()
        held = threading.Lock()
        with pytest.raises(TypeError, match=r"a function must pickle .*does not \("):
            envs.map_blocks(lambda envs, rows: held)
        with pytest.raises(TypeError, match="function must be callable, got 3"):
            envs.map_blocks(3)
        envs.step(np.zeros(4, np.int64))  # nothing has happened
        with pytest.raises(RuntimeError, match="map_blocks is for all environments"):
            envs.map_blocks(lambda envs, rows: envs.map_blocks(len))


def test_an_unseeded_space_of_a_block_is_its_own():
    with closing(gymnasium.make_vec("mtwrappers/PointGoal-v0", 4, workers=2)) as envs:
        envs.reset(seed=0)
        shapes = envs.map_blocks(lambda envs, rows: envs.action_space.shape)
        assert shapes == [(2, 2), (2, 2)]
