"""Ctrl-C at every place where Python can hear it in a call, and other signals in one."""

import itertools
import os
import signal
import sys
import time
from contextlib import closing, contextmanager, suppress
from functools import partial
from threading import Lock, Timer

import numpy as np
import pytest
from gymnasium.error import ResetNeeded

import mtwrappers.vector
from mtwrappers import MetaIterativeEnvExecutor, WorkerDiedError
from mtwrappers.vector.workers import WorkerPool
from tests.fakes import equal
from tests.vector.faults import (
    NO_ACTIONS,
    BulkyEnv,
    FragileEnv,
    assert_same_episode,
    break_a_leg,
    faulty_calls,
    fragile_makers,
    kill,
    loses_workers,
    parallel,
    recovering,
)
from tests.vector.processes import PATIENCE, needs_proc

pytestmark = [needs_proc, pytest.mark.usefixtures("leaves_nothing_behind")]

VECTOR_FOLDER = os.path.dirname(mtwrappers.vector.__file__)


def function_names(frame):
    """Yields the names of a function and of those that have called it."""
    while frame is not None:
        yield frame.f_code.co_name
        frame = frame.f_back


class Interrupt:
    """Presses Ctrl-C at the ``k``-th place of `mtwrappers.vector`, and notes which.

    If the name of a function is passed, only places within its calls count.

    Python looks for signals where a function begins and where one that is written in C has
    returned. There, and only there, does a profiler hear of it as well.
    """

    def __init__(self, k, function=None):
        self.places_left, self.place, self.heard = k, None, False
        self.function = function

    def __call__(self, frame, event, argument):
        path = frame.f_code.co_filename
        if event not in ("call", "c_return") or not path.startswith(VECTOR_FOLDER):
            return
        if self.function is not None and self.function not in function_names(frame):
            return
        self.places_left -= 1
        if self.places_left == 0:
            suffix = f" after {argument.__name__}()" if argument is not None else ""
            line = f"{os.path.basename(path)}:{frame.f_lineno}"
            self.place = f"{line} in {frame.f_code.co_name}{suffix}"
            signal.raise_signal(signal.SIGINT)


@contextmanager
def interrupted(k, function=None):
    """Interrupts the block at its ``k``-th place, if it has that many."""
    interrupt = Interrupt(k, function)
    sys.setprofile(interrupt)
    try:
        yield interrupt
    except KeyboardInterrupt:
        interrupt.heard = True
    finally:
        sys.setprofile(None)


def run_episode(envs):
    return [envs.reset(seed=1), envs.step(NO_ACTIONS), envs.call("first")]


@loses_workers
@pytest.mark.parametrize(
    ("method", "kwargs"),
    [("step", {"actions": NO_ACTIONS}), ("reset", {"seed": 2}), ("call", {"name": "first"})],
)
def test_an_interrupt_anywhere_in_a_call_costs_nothing(method, kwargs):
    """After each interrupt, the next reset works at once, with the same workers and results."""
    with closing(recovering(timeout=10)) as envs:  # a worker that counts as hung costs this
        expected, pids = run_episode(envs), envs.worker_pids
        for k in itertools.count(1):
            with interrupted(k) as interrupt:
                getattr(envs, method)(**kwargs)
            if interrupt.place is None:
                break
            start_time = time.monotonic()
            assert interrupt.heard, interrupt.place
            assert equal(run_episode(envs), expected), interrupt.place
            assert (envs.worker_pids, envs.recoveries) == (pids, 0), interrupt.place
            assert time.monotonic() - start_time < 9, interrupt.place
        assert k > 30
        kill(envs, 1)  # and the journal is right
        assert equal(run_episode(envs), expected)
        assert envs.recoveries == 1


def test_an_interrupt_anywhere_in_this_process_leaves_the_journal_right():
    """A state from after it is replayed, or refused, because the journal lacks what was done."""
    make = partial(MetaIterativeEnvExecutor, fragile_makers(), 2, 2, journal=True)
    with closing(make()) as envs, closing(make()) as restored:
        envs.reset(seed=1)
        for k in itertools.count(1):
            with interrupted(k) as interrupt:
                envs.step(NO_ACTIONS)
            if interrupt.place is None:
                break
            assert interrupt.heard, interrupt.place
            envs.reset()
            restored.set_state(envs.get_state())
            assert equal(restored.reset(seed=2), envs.reset(seed=2)), interrupt.place
            assert equal(restored.call("first"), envs.call("first")), interrupt.place
        assert k > 30


# While environments are at work.


def interrupt_parent() -> str:
    """Presses Ctrl-C as a terminal does, also for the parent, which awaits an answer by now."""
    time.sleep(0.1)
    for pid in (os.getpid(), os.getppid()):
        os.kill(pid, signal.SIGINT)
    return "interrupted"


def interrupting_makers():
    """Environment 3, which its worker steps last, presses Ctrl-C."""
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=interrupt_parent)
    return makers


@faulty_calls
def test_after_an_interruption_the_episodes_go_on_or_need_a_reset(method, kwargs):
    makers = interrupting_makers()
    with (
        closing(parallel(makers)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle,
    ):
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with pytest.raises(KeyboardInterrupt):
            getattr(envs, method)(**kwargs)
        assert envs.closed is False
        assert envs.get_attr("first") == (0, 100, 200, 300)
        if method == "call":
            assert envs.step(NO_ACTIONS)[1].tolist() == [2] * 4
        else:
            with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
                envs.step(NO_ACTIONS)
        assert_same_episode(envs, oracle)


def test_a_step_that_raises_after_its_caller_was_interrupted_is_a_warning():
    makers = interrupting_makers()
    makers[0] = partial(makers[0], fault=partial(break_a_leg, 0.3))
    with closing(parallel(makers)) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with pytest.raises(KeyboardInterrupt):
            envs.step([1, 0, 0, 1])
        with pytest.warns(UserWarning, match="an interrupted call had failed: environment 0"):
            envs.reset(seed=2)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


@loses_workers
def test_an_interrupt_in_the_middle_of_a_message_costs_nothing():
    with closing(recovering([BulkyEnv] * 4, timeout=100)) as envs:
        expected, (stopped_pid, running_pid) = envs.reset(seed=0), envs.worker_pids
        os.kill(stopped_pid, signal.SIGSTOP)
        Timer(2, os.kill, (os.getpid(), signal.SIGINT)).start()
        with pytest.raises(KeyboardInterrupt):
            envs.call("set_wrapper_attr", "unread", np.zeros(1_000_000))
        with suppress(ProcessLookupError):
            os.kill(stopped_pid, signal.SIGCONT)
        start_time = time.monotonic()
        assert equal(envs.reset(seed=0), expected)
        assert time.monotonic() - start_time < PATIENCE
        assert envs.recoveries == 0
        assert envs.worker_pids == [stopped_pid, running_pid]


def test_workers_that_were_not_asked_to_build_yet_are_closed_without_a_word(monkeypatch):
    def raise_interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkerPool, "set_up", raise_interrupt)
    with pytest.raises(KeyboardInterrupt):
        parallel(fragile_makers(2), 2, workers=2)


# Exceptions of handlers and of functions.


class MutatingEnv(FragileEnv):
    """Is interrupted in a method that has changed it."""

    def mutate(self):
        self.first = 9
        raise KeyboardInterrupt


def mutate(envs, rows):
    envs.call("mutate")


def test_a_call_that_was_interrupted_in_a_function_is_in_the_journal():
    with closing(MetaIterativeEnvExecutor(MutatingEnv, 2, journal=True)) as envs:
        envs.reset(seed=0)
        with pytest.raises(KeyboardInterrupt):
            envs.map_blocks(mutate)
        with pytest.raises(TypeError, match=r"environment 0, task 'a' was called with mutate\(\)"):
            envs.get_state()


@pytest.mark.parametrize("workers", [0, 2])
def test_a_step_that_was_interrupted_while_it_was_awaited_is_over(workers, monkeypatch):
    makers = fragile_makers()
    with closing(parallel(makers) if workers else MetaIterativeEnvExecutor(makers, 2, 2)) as envs:
        expected = envs.reset(seed=0), envs.step(NO_ACTIONS)
        envs.step_async(NO_ACTIONS)

        def raise_interrupt():
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(envs._pool, "end", raise_interrupt)
            with pytest.raises(KeyboardInterrupt):
                envs.step_wait()
        assert equal((envs.reset(seed=0), envs.step(NO_ACTIONS)), expected)


def test_a_time_limit_of_ones_own_is_no_end_of_a_worker():
    """`TimeoutError` is an `OSError`, as errors of pipes are."""

    def raise_timeout(*_):
        raise TimeoutError("my time limit")

    with closing(parallel([BulkyEnv] * 4, timeout=100)) as envs:
        expected, pids = envs.reset(seed=0), envs.worker_pids
        os.kill(pids[0], signal.SIGSTOP)
        previous_handler = signal.signal(signal.SIGALRM, raise_timeout)
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(TimeoutError, match="my time limit"):
                envs.call("set_wrapper_attr", "unread", np.zeros(1_000_000))
        finally:
            signal.signal(signal.SIGALRM, previous_handler)
            os.kill(pids[0], signal.SIGCONT)
        assert equal(envs.reset(seed=0), expected)
        assert envs.worker_pids == pids


@pytest.mark.parametrize("workers", [0, 2])
def test_a_handler_that_uses_the_executor_in_a_step_is_an_error_soon(workers):
    makers = fragile_makers(fault=partial(time.sleep, 0.5))
    with closing(
        parallel(makers, timeout=100) if workers else MetaIterativeEnvExecutor(makers, 2, 2)
    ) as envs:
        envs.reset(seed=0)
        previous_handler = signal.signal(signal.SIGALRM, lambda *_: envs.get_attr("first"))
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        try:
            start_time = time.monotonic()
            with pytest.raises(RuntimeError, match="another call of this executor came between"):
                envs.step([1, 1, 1, 1])
        finally:
            signal.signal(signal.SIGALRM, previous_handler)
        assert time.monotonic() - start_time < PATIENCE
        envs.reset(seed=0)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


@pytest.mark.parametrize("function", ["begin", "_gather"])
def test_a_handler_that_uses_the_executor_before_an_answer_is_read_is_an_error(
    function, monkeypatch
):
    with closing(parallel()) as envs:
        original = getattr(envs._pool, function)

        def run_handler_after(*args):
            monkeypatch.undo()
            result = original(*args)
            envs.get_attr("first")
            return result

        monkeypatch.setattr(envs._pool, function, run_handler_after)
        with pytest.raises(RuntimeError, match="another call of this executor came between"):
            envs.get_attr("first")
        assert envs.get_attr("first") == (0, 100, 200, 300)


@loses_workers
def test_a_handler_that_uses_the_executor_while_a_worker_is_replaced_is_an_error():
    """What the replacement was to answer is lost, and is not taken for an answer without result."""
    with closing(parallel(on_worker_failure="recover")) as envs:
        expected = envs.reset(seed=0)
        pool = envs._pool
        gather, numbers = pool._gather, []

        def forget_third_answer(workers, number, *args):
            lost = gather(workers, number, *args)
            numbers.append(number)
            if len(numbers) == 3:  # after those of the lost worker's call, and of its start
                for worker in workers:  # as another call does at its end
                    worker.records, worker.encoded_answers = {}, {}
            return lost

        kill(envs, 0)
        pool._gather = forget_third_answer
        with pytest.raises(RuntimeError, match="another call of this executor came between"):
            envs.get_attr("first")
        pool._gather = gather
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert envs.recoveries > 0
        assert equal(envs.reset(seed=0), expected)


class ForgottenAnswers(dict):
    """Forgets its items when one is looked for, as if another call ended at that moment."""

    def __contains__(self, number):
        contains = super().__contains__(number)
        self.clear()
        return contains


def test_an_answer_that_another_call_takes_while_it_is_read_is_no_missing_key():
    with closing(parallel()) as envs:
        gather = envs._pool._gather

        def gather_and_forget_later(*args):
            lost = gather(*args)
            for worker in envs._pool.workers:
                worker.encoded_answers = ForgottenAnswers(worker.encoded_answers)
            return lost

        envs._pool._gather = gather_and_forget_later
        assert envs.get_attr("first") == (0, 100, 200, 300)


class UncopyableTask:
    """A task whose copy is interrupted, as by the handler of a signal."""

    def __deepcopy__(self, memo):
        raise TimeoutError("my time limit")


def test_an_exception_of_a_handler_stays_what_it_is_while_arguments_are_copied():
    with (
        closing(MetaIterativeEnvExecutor(fragile_makers(), 2, 2, journal=True)) as envs,
        pytest.raises(TimeoutError, match="my time limit"),
    ):
        envs.call("set_task", UncopyableTask())


class InterruptedFunction:
    """A function for blocks; a handler raises while it is pickled, the first time."""

    was_pickled = False

    def __call__(self, envs, rows):
        return rows.start

    def __reduce__(self):
        if not self.was_pickled:
            self.was_pickled = True
            raise TimeoutError("a time limit")
        return InterruptedFunction, ()


def test_an_exception_of_a_handler_stays_what_it_is_while_a_function_is_pickled():
    function = InterruptedFunction()
    with closing(parallel(workers=2)) as envs:
        with pytest.raises(TimeoutError, match="a time limit"):
            envs.map_blocks(function)
        assert len(envs.map_blocks(function)) == 2


def test_what_cannot_be_encoded_changes_nothing():
    makers, lock = fragile_makers(), Lock()
    with (
        closing(parallel(makers)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle,
    ):
        assert equal(envs.reset(seed=1), oracle.reset(seed=1))
        for call in (
            lambda: envs.reset(options={"lock": lock}),
            lambda: envs.set_tasks([lock, lock]),
            lambda: envs.call("set_task", lock),
        ):
            with pytest.raises(TypeError, match="cannot pickle"):
                call()
            assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


class CountingClosesEnv(FragileEnv):
    """Counts how often it was closed; the first of all is interrupted."""

    closed = 0

    def close(self):
        self.closed += 1
        if self.first == 0:
            raise KeyboardInterrupt


def test_a_close_that_was_interrupted_goes_on_where_it_was():
    envs = MetaIterativeEnvExecutor([partial(CountingClosesEnv, first=i) for i in range(3)], 3)
    with pytest.raises(KeyboardInterrupt):
        envs.close()
    assert [env.closed for env in envs.envs] == [1, 0, 0]
    envs.close()
    assert [env.closed for env in envs.envs] == [1, 1, 1]


def step_and_stop(envs, rows):
    """Steps, so that a schema of infos is chosen for the block, and is interrupted."""
    envs.step(np.zeros(envs.num_envs, np.int64))
    raise KeyboardInterrupt


def test_infos_are_right_after_a_function_of_a_block_was_interrupted():
    makers = fragile_makers()
    with (
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as envs,
        closing(MetaIterativeEnvExecutor(makers, 2, 2)) as oracle,
    ):
        envs.reset(seed=1)
        with pytest.raises(KeyboardInterrupt):
            envs.map_blocks(step_and_stop)
        assert envs._pool.block.columns is None
        assert_same_episode(envs, oracle)


def test_workers_and_memory_are_gone_after_an_exception_anywhere_in_their_end():
    """The executor gives its workers up when one is lost, and is interrupted in that."""
    for k in itertools.count(1):
        envs = parallel()
        envs.reset(seed=0)
        kill(envs, 1)
        with interrupted(k, function="abandon") as interrupt, suppress(WorkerDiedError):
            envs.step(NO_ACTIONS)
        envs.close()
        if interrupt.place is None:
            break
        assert envs.closed, interrupt.place
    assert k > 5


def test_a_step_that_is_awaited_is_over_after_an_exception_anywhere():
    with closing(parallel()) as envs:
        expected = run_episode(envs)
        for k in itertools.count(2):  # at the first place, `step_wait` has not begun
            envs.reset(seed=0)
            envs.step_async(NO_ACTIONS)
            with interrupted(k, function="step_wait") as interrupt:
                envs.step_wait()
            if interrupt.place is None:
                break
            assert equal(run_episode(envs), expected), interrupt.place
        assert k > 10
