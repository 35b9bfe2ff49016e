"""Environments that are paused, and functions that are called where environments are."""

import threading
import warnings
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal
from tests.vector.fakes import EXECUTORS, all_modes, both_executors
from tests.vector.faults import kill

LENGTHS = (2, 3, 5, 4)


def counting(executor, **kwargs):
    return executor([partial(CountingEnv, n, first=100 * n) for n in LENGTHS], 4, **kwargs)


# Pause.


@all_modes
@both_executors
def test_environments_that_are_paused_are_left_as_they_are(executor, mode):
    with closing(counting(executor, autoreset_mode=mode, journal=True)) as envs:
        envs.reset(seed=0)
        zeros = np.zeros(4, np.int64)
        first, *_ = envs.step(zeros)
        paused = np.array([True, False, True, False])
        envs.pause(paused)
        state = envs.get_state()
        obs, rewards, terminated, truncated, _ = envs.step(zeros)
        assert (obs[paused] == first[paused]).all()
        assert rewards.tolist() == [0, 2, 0, 2]
        assert not terminated.any()
        assert not truncated.any()
        assert envs.call("steps") == (1, 2, 1, 2)
        envs.pause(~paused)
        envs.set_state(state)  # which says nothing of a pause
        assert envs.call("steps") == (1, 1, 1, 1)
        envs.step(zeros)
        assert envs.call("steps")[1:] == (1, 2, 1)  # the first one's episode may have begun anew


@both_executors
def test_a_reset_ends_a_pause(executor):
    with closing(counting(executor)) as envs:
        envs.reset()
        envs.pause(np.ones(4, np.bool_))
        envs.reset(options={"reset_mask": np.array([False, True, False, False])})
        envs.step(np.zeros(4, np.int64))
        assert envs.call("steps") == (0, 1, 0, 0)
        envs.reset()
        envs.step(np.zeros(4, np.int64))
        assert envs.call("steps") == (1, 1, 1, 1)


@both_executors
def test_an_episode_that_is_over_needs_no_reset_while_it_is_paused(executor):
    with closing(counting(executor, autoreset_mode="Disabled")) as envs:
        envs.reset()
        zeros = np.zeros(4, np.int64)
        for _ in range(2):
            envs.step(zeros)
        envs.pause(np.array([True, False, False, False]))
        envs.step(zeros)
        envs.pause(np.zeros(4, np.bool_))
        with pytest.raises(ResetNeeded, match=r"environments \[0, 1\] have ended"):
            envs.step(zeros)


# No autoreset.


@all_modes
@both_executors
def test_without_autoreset_episodes_end_as_in_the_mode_disabled(executor, mode):
    """Afterwards those that are over have begun anew, or do so in the mode's own way."""
    zeros = np.zeros(4, np.int64)
    with (
        closing(counting(executor, autoreset_mode=mode)) as envs,
        closing(counting(executor, autoreset_mode="Disabled")) as disabled,
    ):
        with envs.without_autoreset():
            for one in envs, disabled:
                one.reset(seed=0)
                one.step(zeros)
            assert equal(envs.step(zeros), disabled.step(zeros))
            with pytest.raises(ResetNeeded, match=r"environments \[0\] have ended"):
                envs.step(zeros)
            reset = {"seed": 5, "options": {"reset_mask": np.array([True, False, False, False])}}
            for one in envs, disabled:
                one.reset(**reset)
            assert equal(envs.step(zeros), disabled.step(zeros))
        assert envs.call("steps") == {"SameStep": (1, 0, 3, 3)}.get(mode.value, (1, 3, 3, 3))
        if mode.value != "Disabled":
            again = envs.step(zeros)[2].tolist(), envs.call("steps")
            expected = {"SameStep": (0, 1, 4, 0), "NextStep": (2, 0, 4, 4)}[mode.value]
            assert again == ([True, False, False, True], expected)


def test_after_an_error_without_autoreset_a_reset_is_due():
    zeros = np.zeros(4, np.int64)
    with closing(counting(MetaIterativeEnvExecutor)) as envs:
        envs.reset()
        with pytest.raises(KeyError), envs.without_autoreset():  # noqa: PT012 (of both)
            envs.step(zeros)
            envs.step(zeros)
            raise KeyError
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(zeros)
        envs.reset()
        for _ in range(2):
            envs.step(zeros)
        assert envs.call("steps") == (0, 2, 2, 2)


def test_without_autoreset_a_worker_that_is_killed_changes_nothing():
    zeros = np.zeros(4, np.int64)
    found = []
    for killed in ([], [1, 2, 3]):
        with closing(counting(EXECUTORS["parallel"], on_worker_failure="recover")) as envs:
            envs.reset(seed=0)
            with envs.without_autoreset(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                for t in range(4):
                    if t in killed:
                        kill(envs, 0)
                    envs.pause(np.array([t > 1, t > 2, False, False]))
                    last = envs.step(zeros)
            assert envs.recoveries == len(killed)
            found.append((last, envs.step(zeros)))
    assert equal(*found)


# Functions of blocks.


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
                envs.step(np.zeros(4, np.int64))
        else:
            both = (one.step(np.zeros(4, np.int64)) for one in (envs, oracle))
            assert equal(*both)


def fail(envs, rows):
    envs.step(np.zeros(envs.num_envs, np.int64))
    raise KeyError("of the function")


@both_executors
def test_what_a_function_raises_is_raised_and_a_reset_is_due(executor):
    with closing(counting(executor, on_worker_failure="recover")) as envs:
        envs.reset()
        with pytest.raises(KeyError, match="of the function"):
            envs.map_blocks(fail)
        with pytest.raises(ResetNeeded):
            envs.step(np.zeros(4, np.int64))
        envs.reset()
        assert sum((of for _, of in envs.map_blocks(partial(run_steps, steps=1))), ()) == (1,) * 4


def test_only_functions_that_pickle_go_to_workers():
    with closing(counting(MetaParallelEnvExecutor, workers=2)) as envs:
        envs.reset()
        held = threading.Lock()
        with pytest.raises(TypeError, match=r"a function must be picklable .*is not \("):
            envs.map_blocks(lambda envs, rows: held)
        envs.step(np.zeros(4, np.int64))  # nothing has happened
