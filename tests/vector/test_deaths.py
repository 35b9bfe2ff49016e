"""Workers that die, hang or stop, where that is an error."""

import ctypes
import faulthandler
import os
import resource
import signal
import sys
import time
from functools import partial

import gymnasium
import numpy as np
import pytest

from mtwrappers import WorkerDiedError
from tests.fakes import CountingEnv
from tests.vector.faults import (
    FAULT,
    METHOD_CALLS,
    FragileEnv,
    fragile_makers,
    hang,
    kill,
    kill_itself,
    parallel,
)
from tests.vector.processes import PATIENCE, is_alive, needs_proc

pytestmark = [needs_proc, pytest.mark.usefixtures("leaves_nothing_behind")]


def exit_process() -> None:
    os._exit(7)


def exit_python() -> None:
    sys.exit(5)


def segfault() -> None:
    faulthandler.disable()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ctypes.string_at(0)


# Faults that end a worker, and the cause that the error names.
DEATHS = [
    (kill_itself, "was killed by SIGKILL"),
    (exit_process, "exited with code 7"),
    (exit_python, "exited with code 5"),
    (segfault, "was killed by SIGSEGV"),
]


def make_reset_envs(*args, **kwargs):
    """Makes a parallel executor, and resets it."""
    envs = parallel(*args, **kwargs)
    envs.reset(seed=0)
    return envs


def assert_worker_died(envs, message, method, *args, min_seconds=0):
    """Requires that this call finds the dead worker in time and closes everything."""
    pids = envs.worker_pids
    start_time = time.monotonic()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("mtwrappers.vector.workers.CLOSE_TIMEOUT", 100)
        with pytest.raises(WorkerDiedError, match=message):
            getattr(envs, method)(*args)
    assert min_seconds <= time.monotonic() - start_time < PATIENCE
    assert not any(is_alive(pid) for pid in pids)
    assert envs.closed is True
    envs.close()


# While it builds.


@pytest.mark.parametrize(("fault", "cause"), DEATHS[:3])
def test_a_worker_that_dies_while_it_builds_is_named(fault, cause):
    makers = [FragileEnv, FragileEnv, fault, FragileEnv]
    message = rf"worker 1 {cause}, with environments 2 to 3 of task 1; all workers were closed$"
    with pytest.raises(WorkerDiedError, match=message):
        parallel(makers)


def test_a_worker_that_builds_for_ever_is_given_up():
    with pytest.raises(WorkerDiedError, match=r"worker 1 hung.* environment 1 of"):
        parallel([FragileEnv, hang], 2, 1, timeout=0.5)


# While it is used.


@pytest.mark.parametrize(("fault", "cause"), DEATHS)
def test_a_worker_that_dies_in_a_step_is_named(fault, cause):
    envs = make_reset_envs(fragile_makers(fault=fault))
    message = (
        rf"^worker 1 {cause}, with environments 2 to 3 of task 1 \(b\); "
        r"on_worker_failure='recover' replaces lost workers; all workers were closed$"
    )
    assert_worker_died(envs, message, "step", FAULT)


@pytest.mark.parametrize("method_call", METHOD_CALLS, ids=str)
def test_a_worker_that_was_killed_is_found_by_any_use(method_call):
    envs = make_reset_envs(timeout=None)
    kill(envs, 1)
    assert_worker_died(envs, "^worker 1 was killed by SIGKILL, with", *method_call)


def test_a_worker_that_hangs_is_named_after_the_timeout_and_not_before():
    makers = fragile_makers(fault=hang)
    makers[0] = partial(makers[0], fault=partial(time.sleep, 0.5))
    envs = make_reset_envs(makers, timeout=2)
    assert envs.step([1, 0, 0, 0])[1].tolist() == [1.0] * 4
    message = r"^worker 1 hung: it did not answer within 2 s, with"
    assert_worker_died(envs, message, "step", FAULT, min_seconds=2)


# While the executor closes.


class NeverClosingEnv(FragileEnv):
    def close(self):
        hang()


@pytest.mark.parametrize(
    ("maker", "signal_number"),
    [(FragileEnv, signal.SIGSTOP), (FragileEnv, signal.SIGKILL), (NeverClosingEnv, signal.SIGCONT)],
)
@pytest.mark.slow_but("FragileEnv-9", "NeverClosingEnv-18")
def test_no_worker_keeps_the_executor_from_closing(maker, signal_number, monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.workers.CLOSE_TIMEOUT", 0.3)
    envs = make_reset_envs([maker, FragileEnv], 2, 1, timeout=None)
    pids = envs.worker_pids
    os.kill(pids[0], signal_number)
    start_time = time.monotonic()
    envs.close()
    assert time.monotonic() - start_time < PATIENCE
    assert not any(map(is_alive, pids))


class NewTaskEnv(gymnasium.Wrapper):
    """Each reset has another task."""

    resets = 0

    def reset(self, **kwargs):
        self.resets += 1
        obs, info = self.env.reset(**kwargs)
        return obs, {**info, "task_name": f"task {self.resets}"}

    def step(self, action):
        obs, *numbers, info = self.env.step(action)
        return obs, *numbers, {**info, "task_name": f"task {self.resets}"}


def test_the_error_names_the_task_that_an_autoreset_has_drawn():
    envs = make_reset_envs([lambda: NewTaskEnv(CountingEnv(2))] * 2, 2, 1, workers=2)
    for _ in range(4):
        envs.step([0, 0])
    kill(envs, 1)
    with pytest.raises(WorkerDiedError, match=r"environment 1 of task 1 \(task 3\)"):
        envs.step([0, 0])


class ArrayNameEnv(CountingEnv):
    """Has an array for the name of its task."""

    def _info(self):
        return {"task_name": np.array([1, 2])}


def test_the_error_names_a_task_whose_name_is_no_string():
    envs = make_reset_envs([ArrayNameEnv] * 2, 2, 1, workers=2)
    kill(envs, 1)
    with pytest.raises(WorkerDiedError, match=r"environment 1 of task 1 \(\[1 2\]\)"):
        envs.step([0, 0])


def test_close_after_an_interrupted_message_closes_the_environments(monkeypatch, tmp_path):
    class ClosingEnv(CountingEnv):
        def close(self):
            (tmp_path / str(self.first)).touch()

    envs = make_reset_envs([partial(ClosingEnv, first=first) for first in (1, 2)], 2, 1, workers=2)
    write, written = os.write, []

    def interrupted_write(fd, data):
        written.append(fd)
        if len(written) == 2:
            raise KeyboardInterrupt
        return write(fd, data)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", interrupted_write)
        with pytest.raises(KeyboardInterrupt):
            envs.call("set_wrapper_attr", "spare", b"x" * (1 << 20))
    envs.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1", "2"]
