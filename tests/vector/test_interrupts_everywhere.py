"""An exception before and after every bytecode of a call: the next one works, and is right.

A signal's handler, or a timer such as pytest-timeout's, may raise anything between any two
bytecodes of the parent. `sys.settrace` shows each of them.
"""

import itertools
import os
import sys
import time
from contextlib import closing, suppress
from functools import partial

import numpy as np
import pytest

import mtwrappers.vector
from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.vector import server
from tests.fakes import equal
from tests.vector.faults import (
    NO_ACTIONS,
    FragileEnv,
    fragile_makers,
    kill,
    loses_workers,
    parallel,
)
from tests.vector.processes import needs_proc

pytestmark = [needs_proc, loses_workers, pytest.mark.usefixtures("leaves_nothing_behind")]

VECTOR_FOLDER = os.path.dirname(mtwrappers.vector.__file__)
LONG = 20.0  # seconds that no call takes
# Every so many bytecodes; 1 is what is promised, and takes a quarter of an hour.
STRIDE = int(os.environ.get("MTWRAPPERS_STRIDE", "17"))


class RaisedAnywhereError(BaseException):
    """Not an ``Exception``, like ``KeyboardInterrupt``."""


class RaisedErrorAnywhereError(Exception):
    """An ``Exception``, like ``TimeoutError``."""


class RaiseBefore:
    """A trace function that raises ``error`` before the ``k``-th bytecode of `mtwrappers.vector`.

    Only files whose path begins with ``prefix`` count. It skips blocks and environments, which run
    in workers, or are not the executor's own.
    """

    def __init__(self, k, error, prefix):
        self.bytecodes_left, self.place = k, None
        self.error, self.prefix = error, prefix

    def __call__(self, frame, event, argument):
        path = frame.f_code.co_filename
        if not path.startswith(self.prefix) or path.endswith("block.py"):
            return None
        frame.f_trace_opcodes = True
        return self.trace

    def trace(self, frame, event, argument):
        if event == "opcode":
            self.bytecodes_left -= 1
            if self.bytecodes_left == 0:
                name = os.path.basename(frame.f_code.co_filename)
                self.place = f"{name}:{frame.f_lineno}, bytecode {frame.f_lasti}"
                raise self.error(self.place)
        return self.trace


def raise_during(k, call, error=RaisedAnywhereError, prefix=VECTOR_FOLDER):
    """Makes a call, and raises before its ``k``-th bytecode; returns the place, or None."""
    tracer = RaiseBefore(k, error, prefix)
    previous_trace = sys.gettrace()
    # Python 3.12 looks for bytecodes only if a frame has asked for them before.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(tracer)
    try:
        call()
    except error:
        pass
    finally:
        sys.settrace(previous_trace)
    return tracer.place


class StatefulEnv(FragileEnv):
    """Keeps its task in its state."""

    def get_state(self):
        return {"first": self.first, "rng": self.np_random.bit_generator.state}

    def set_state(self, state):
        self.first = state["first"]
        self.np_random.bit_generator.state = state["rng"]


def make_executor(workers, **kwargs):
    makers = [partial(StatefulEnv, first=100 * i) for i in range(4)]
    if workers:
        return parallel(makers, timeout=LONG, **kwargs)
    return MetaIterativeEnvExecutor(makers, 2, 2, **kwargs)


CALLS = {
    "step": lambda envs: envs.step(NO_ACTIONS),
    "reset": lambda envs: envs.reset(seed=2),
    "call": lambda envs: envs.call("set_task", 7),
    "pause": lambda envs: envs.pause(np.array([True, False, True, False])),
    "save": lambda envs: envs.get_state(),
    "load": lambda envs: envs.set_state(envs.saved),
}


def run_episode(envs):
    """A task, a reset and two steps, of which each value is known."""
    envs.set_tasks([10, 20])
    results = [envs.reset(seed=1), envs.step(NO_ACTIONS), envs.step(NO_ACTIONS)]
    assert results[-1][0][:, 0].tolist() == [12, 12, 22, 22]
    return [*results, envs.call("first")]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("journal", [False, True], ids=["plain", "journal"])
@pytest.mark.parametrize("workers", [0, 2], ids=["here", "workers"])
@pytest.mark.parametrize(
    "error", [RaisedAnywhereError, RaisedErrorAnywhereError], ids=["BaseException", "Exception"]
)
@pytest.mark.slow_but("BaseException-workers-journal-step", "BaseException-here-journal-call")
def test_an_exception_at_any_bytecode_leaves_the_next_call_right(error, workers, journal, call):
    if call in ("save", "load") and not journal:
        pytest.skip("needs a journal")
    with closing(make_executor(workers, journal=journal)) as envs:
        expected = run_episode(envs)
        if journal:
            envs.saved = envs.get_state(between_episodes=True)
        for k in itertools.count(1, STRIDE):
            begin = time.monotonic()
            place = raise_during(k, lambda: CALLS[call](envs), error)
            if place is None:
                break
            assert equal(run_episode(envs), expected), place
            if journal:
                envs.set_state(envs.get_state())  # the replay is compared
                assert envs.call("first") == (10, 10, 20, 20), place
            assert time.monotonic() - begin < LONG, place
        assert k > 50


@pytest.mark.parametrize("call", ["reset", "call"])
def test_an_error_of_a_handler_is_not_taken_for_an_answer_that_cannot_be_read(call):
    with closing(make_executor(2)) as envs:
        expected, pids = run_episode(envs), envs.worker_pids
        for k in itertools.count(1):
            arguments = RaisedErrorAnywhereError, server.__file__
            place = raise_during(k, lambda: CALLS[call](envs), *arguments)
            if place is None:
                break
            assert equal(run_episode(envs), expected), place
        assert k > 50
        assert envs.worker_pids == pids


@pytest.mark.parametrize("call", ["call", "pause"])
@pytest.mark.parametrize("workers", [0, 2], ids=["here", "workers"])
@pytest.mark.slow_but("workers-call")
def test_a_state_from_just_after_an_exception_has_what_was_done(workers, call):
    """It is of an environment with the pause, or without; a call is in it, or refused."""
    with (
        closing(make_executor(workers, journal=True)) as envs,
        closing(make_executor(0, journal=True)) as restored,
    ):
        for k in itertools.count(1, STRIDE):
            run_episode(envs)
            place = raise_during(k, lambda: CALLS[call](envs))
            if place is None:
                break
            state = None
            with suppress(RuntimeError):  # it was called since its last reset
                state = envs.get_state()
            if state is None:
                assert 7 in envs.call("first"), place
                continue
            restored.set_state(state)
            assert equal(restored.step(NO_ACTIONS), envs.step(NO_ACTIONS)), place
            assert restored.stepped.tolist() == envs.stepped.tolist(), place
            assert restored.call("first") == envs.call("first"), place
        assert k > 50


@pytest.mark.parametrize("call", ["step", "reset", "call", "pause"])
@pytest.mark.slow_but("step")
def test_a_worker_killed_after_an_exception_at_any_bytecode_is_recovered(call):
    """The exception and the loss together: the state at the last reset, or what the reset gives."""
    with closing(make_executor(2, on_worker_failure="recover")) as envs:
        expected = run_episode(envs)
        for k in itertools.count(1, 5 * STRIDE):
            place = raise_during(k, lambda: CALLS[call](envs))
            if place is None:
                break
            kill(envs, k % 2)
            assert equal(run_episode(envs), expected), place
            kill(envs, (k + 1) % 2)
            assert envs.call("first") == (10, 10, 20, 20), place
        assert k > 50


def test_a_late_answer_is_not_taken_for_that_of_the_next_command():
    """The answers of a call that was interrupted while it was awaited arrive in the next one."""
    makers = fragile_makers(4, fault=partial(time.sleep, 0.3))
    with closing(parallel(makers)) as envs:
        envs.reset(seed=0)
        interruptions = []

        def interrupt(frame, event, argument):
            if event == "call" and frame.f_code.co_name == "receive":
                interruptions.append(True)
                raise RaisedAnywhereError

        sys.settrace(interrupt)
        try:
            with pytest.raises(RaisedAnywhereError):
                envs.call("run_fault")
        finally:
            sys.settrace(None)
        assert interruptions
        assert envs.call("first") == (0, 100, 200, 300)
        assert envs.get_attr("length") == (4, 4, 4, 4)
