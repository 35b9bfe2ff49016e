"""Environments that raise: every error names the environment, and the executor goes on."""

import threading
import time
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv

from mtwrappers.errors import WorkerTraceback
from tests.vector.fakes import all_modes, both_executors
from tests.vector.faults import (
    FragileEnv,
    LockedError,
    TwoPartError,
    break_a_leg,
    fail_to_build,
    fragile_makers,
    parallel,
    play_along,
    raise_locked,
    raise_two_parts,
)
from tests.vector.processes import needs_proc, nothing_left_behind

pytestmark = needs_proc

NO_ACTIONS = np.zeros(4, dtype=np.int64)
FAULT = np.array([0, 0, 1, 0])


def shown(cause):
    """The traceback of an exception in a worker, or here."""
    if isinstance(cause, WorkerTraceback):
        assert str(cause).startswith("\nTraceback (most recent call last)")
        return str(cause)
    frames, traceback = [], cause.__traceback__
    while traceback is not None:
        frames.append(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    return " ".join(frames)


@both_executors
@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((ValueError,), "no bricks"),
        ((KeyError, "door"), "'door'"),
        ((FileNotFoundError, 2, "No such file", "brick"), r"\[Errno 2\] No such file: 'brick'"),
        ((TwoPartError, "a", "b"), "a at b"),
        ((LockedError, "x"), "x"),
    ],
    ids=["ValueError", "KeyError", "OSError", "two parts", "unpicklable"],
)
def test_any_exception_of_a_constructor_arrives_with_its_environment(executor, args, message):
    makers = [*fragile_makers(3), partial(fail_to_build, *args)]
    with nothing_left_behind():
        where = "^the constructor of environment 3 failed: "
        with pytest.raises(args[0], match=where + message + "$") as info:
            executor(makers, 2, 2)
        assert "fail_to_build" in shown(info.value.__cause__)
        assert getattr(info.value, "filename", "brick") == "brick"
        del info


SOME = {"reset_mask": np.array([True, False, False, False])}


@both_executors
@all_modes
@pytest.mark.parametrize("steps_before", [0, 1, 3])
def test_a_step_that_raises_is_named_and_the_executor_goes_on(executor, mode, steps_before):
    makers = fragile_makers(fault=break_a_leg)
    oracle = SyncVectorEnv(makers, autoreset_mode=mode)
    with closing(executor(makers, 2, 2, autoreset_mode=mode)) as envs:
        envs.reset(seed=9)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        message = "^environment 2, task 'b': a leg$"
        with pytest.raises(ZeroDivisionError, match=message) as info:
            envs.step(FAULT)
        assert "break_a_leg" in shown(info.value.__cause__)
        assert envs.closed is False
        # The other environments are a step ahead by now.
        for use in (lambda: envs.step(NO_ACTIONS), lambda: envs.reset(options=SOME)):
            with pytest.raises(ResetNeeded, match="reset"):
                use()
        play_along(envs, oracle)
    oracle.close()


@both_executors
def test_a_task_without_a_name_is_left_out_of_the_message(executor):
    with closing(executor(fragile_makers(name=None, fault=break_a_leg), 2, 2)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match=r"^environment 2: a leg$"):
            envs.step(FAULT)


@both_executors
@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        (raise_two_parts, TwoPartError, "environment 2, task 'b': stuck at home"),
        (raise_locked, LockedError, "environment 2, task 'b': stuck"),
    ],
)
def test_exceptions_that_do_not_pickle_arrive(executor, fault, error, message):
    makers = fragile_makers(fault=fault)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        with pytest.raises(error, match=message):
            envs.step(FAULT)
        play_along(envs, oracle)
    oracle.close()


@both_executors
def test_of_several_exceptions_that_of_the_first_environment_is_raised(executor):
    slowly = partial(raise_after, 0.05)
    makers = [partial(FragileEnv, fault=fault) for fault in (slowly, break_a_leg, break_a_leg)]
    with closing(executor(makers, 3)) as envs:
        envs.reset(seed=0)
        with pytest.raises(ZeroDivisionError, match="environment 0"):
            envs.step([1, 0, 1])


def raise_after(seconds):
    time.sleep(seconds)
    break_a_leg()


@both_executors
def test_a_reset_or_call_that_raises_is_named_and_the_executor_goes_on(executor):
    makers = fragile_makers(fault=None)
    makers[3] = partial(makers[3], fault=break_a_leg)
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        envs.reset(seed=1)
        envs.step(NO_ACTIONS)
        with pytest.raises(ZeroDivisionError, match=r"^environment 3, task 'b': a leg$"):
            envs.reset(options={"fault": True})
        play_along(envs, oracle)
        with pytest.raises(ZeroDivisionError, match=r"^environment 3, task 'b': a leg$"):
            envs.call("run_fault")
        play_along(envs, oracle)
    oracle.close()


class OddInfoEnv(FragileEnv):
    """Action 1 puts ``odd`` into the info."""

    def __init__(self, odd, **kwargs):
        super().__init__(**kwargs)
        self.odd = odd

    def make_odd_at(self, first):
        return self.odd() if self.first == first else None

    def step(self, action):
        *result, info = super().step(0)
        return *result, {**info, "odd": self.odd()} if action else info


def odd_makers(odd):
    return [partial(OddInfoEnv, odd, first=100 * i) for i in range(4)]


@both_executors
def test_an_int_beyond_64_bits_is_refused_as_gymnasium_does_and_the_executor_goes_on(executor):
    makers = odd_makers(partial(pow, 2, 70))
    oracle = SyncVectorEnv(makers, autoreset_mode="SameStep")
    with closing(executor(makers, 2, 2)) as envs:
        for actions in (FAULT, np.ones(4, int)):
            for one in (envs, oracle):
                one.reset(seed=0)
                with pytest.raises(OverflowError, match="int too large to convert to C long"):
                    one.step(actions)
            play_along(envs, oracle)
    oracle.close()


@pytest.mark.parametrize("what", ["an info", "a result"])
def test_what_does_not_pickle_says_whose_it_is(what):
    with closing(parallel(odd_makers(threading.Lock))) as envs:
        envs.reset(seed=0)
        with pytest.raises(TypeError, match=r"of environment 2: cannot pickle"):
            envs.step(FAULT) if what == "an info" else envs.call("make_odd_at", 200)
