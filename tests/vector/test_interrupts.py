"""Ctrl-C at every place where Python can hear it in a call."""

import itertools
import os
import signal
import sys
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Timer

import numpy as np
import pytest

import mtwrappers.vector
from mtwrappers import MetaIterativeEnvExecutor
from tests.fakes import equal
from tests.vector.faults import BulkyEnv, fragile_makers, kill, parallel
from tests.vector.processes import PATIENCE, needs_proc

pytestmark = [needs_proc, pytest.mark.usefixtures("leaves_nothing_behind")]

ROOM = os.path.dirname(mtwrappers.vector.__file__)
NO_ACTIONS = np.zeros(4, dtype=np.int64)
# One that counts as hung costs this and is seen by it.
make = partial(parallel, fragile_makers(), on_worker_failure="recover", timeout=10)


class Interrupt:
    """Presses Ctrl-C at the ``k``-th place of `mtwrappers.vector`, and notes which.

    Python looks for signals where a function begins and where one that is written in C has
    returned. There, and only there, does a profiler hear of it as well.
    """

    def __init__(self, k):
        self.left, self.place, self.heard = k, None, False

    def __call__(self, frame, event, argument):
        if event not in ("call", "c_return") or not frame.f_code.co_filename.startswith(ROOM):
            return
        self.left -= 1
        if self.left == 0:
            after = f" after {argument.__name__}()" if argument is not None else ""
            file = os.path.basename(frame.f_code.co_filename)
            self.place = f"{file}:{frame.f_lineno} in {frame.f_code.co_name}{after}"
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupted(k):
    """Interrupts what happens inside at its ``k``-th place, if it has that many."""
    interrupt = Interrupt(k)
    sys.setprofile(interrupt)
    try:
        yield interrupt
    except KeyboardInterrupt:
        interrupt.heard = True
    finally:
        sys.setprofile(None)


def run_steps(envs):
    return [envs.reset(seed=1), envs.step(NO_ACTIONS), envs.call("first")]


def what_is_wrong(envs, pids, expected):
    """What an interrupted call has left behind, or nothing."""
    begin = time.monotonic()
    try:
        results = run_steps(envs)
    except Exception as exc:
        return f"{type(exc).__name__}: {exc}"
    if envs.worker_pids != pids or envs.recoveries:
        return "a worker was lost"
    if not equal(results, expected):
        return "other results"
    seconds = time.monotonic() - begin
    return f"{seconds:.1f} s" if seconds > 9 else ""


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
@pytest.mark.parametrize(
    ("use", "given"),
    [("step", {"actions": NO_ACTIONS}), ("reset", {"seed": 2}), ("call", {"name": "first"})],
)
def test_an_interrupt_anywhere_in_a_call_costs_nothing(use, given):
    """After each, the next reset works at once, with the same workers and the same results."""
    envs, wrong, k = make(), [], 0
    try:
        expected, pids = run_steps(envs), envs.worker_pids
        while True:
            k += 1
            with interrupted(k) as interrupt:
                getattr(envs, use)(**given)
            if interrupt.place is None:
                break
            said = what_is_wrong(envs, pids, expected) if interrupt.heard else "nobody heard it"
            if said:
                wrong.append(f"{interrupt.place}: {said}")
                envs.close()
                envs = make()
                expected, pids = run_steps(envs), envs.worker_pids
        assert k > 30
        assert not wrong, "\n".join(wrong)
        kill(envs, 1)  # and the journal is right
        assert equal(run_steps(envs), expected)
        assert envs.recoveries == 1
    finally:
        envs.close()


def test_an_interrupt_anywhere_in_this_process_leaves_the_journal_right():
    """A state from after it is replayed, or refused, because the journal lacks what was done."""
    make = partial(MetaIterativeEnvExecutor, fragile_makers(), 2, 2, journal=True)
    with closing(make()) as envs, closing(make()) as other:
        envs.reset(seed=1)
        for k in itertools.count(1):
            with interrupted(k) as interrupt:
                envs.step(NO_ACTIONS)
            if interrupt.place is None:
                break
            assert interrupt.heard, interrupt.place
            envs.reset()
            other.set_state(envs.get_state())
            assert equal(other.reset(seed=2), envs.reset(seed=2)), interrupt.place
            assert equal(other.call("first"), envs.call("first")), interrupt.place
        assert k > 30


@pytest.mark.filterwarnings("ignore:.*starting a replacement")
def test_an_interrupt_in_the_middle_of_a_message_costs_the_worker_that_has_half_of_it():
    with closing(parallel([BulkyEnv] * 4, on_worker_failure="recover", timeout=100)) as envs:
        expected, (pid, other) = envs.reset(seed=0), envs.worker_pids
        os.kill(pid, signal.SIGSTOP)
        Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            envs.set_attr("unread", [np.zeros(1_000_000)] * 4)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        begin = time.monotonic()
        assert equal(envs.reset(seed=0), expected)
        assert time.monotonic() - begin < PATIENCE
        assert envs.recoveries == 1
        assert envs.worker_pids[1] == other
