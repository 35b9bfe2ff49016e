"""How workers start from a process, and that none is left when it ends, in whatever way."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import closing, contextmanager

import pytest

from tests.fakes import ROOT, run_with_python
from tests.vector.faults import NO_ACTIONS, parallel
from tests.vector.processes import all_gone, is_alive, needs_proc

pytestmark = needs_proc

PROLOGUE = """
import ctypes, multiprocessing, os, signal, sys, threading, time
import numpy as np
from functools import partial
from mtwrappers import MetaParallelEnvExecutor
from tests.vector.faults import *
from tests.vector.processes import *

def main(makers, context="fork"):
    envs = MetaParallelEnvExecutor(makers, len(makers), workers=2, context=context)
    envs.reset(seed=0)
    envs.step(np.zeros(len(makers), int))
    print(*envs.worker_pids, flush=True)
    return envs

def hang_with_the_lock():
    ctypes.PyDLL(None).sleep(100)  # no other thread of this process can do anything

def tell_and_hang():
    os.write(1, b"%d\\n" % os.getpid())  # in one piece
    hang()

if __name__ == "__main__":
"""


def start_python(arguments, stdin=subprocess.PIPE):
    """Starts another Python."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@contextmanager
def running_script(tmp_path, code):
    """Runs ``code``, which first prints the ids of two workers, in one line or in two.

    Yields the process. The workers must be gone soon after the block.
    """
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(code, "    "))
    with start_python([str(path)]) as process:
        pids = []
        while len(pids) < 2 and (line := process.stdout.readline()):
            pids += map(int, line.split())
        try:
            assert len(pids) == 2, process.stderr.read()
            assert all(map(is_alive, pids))
            yield process
            process.wait()
            assert all_gone(pids, 12)
        finally:
            for pid in (process.pid, *pids):
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


# A process that is killed.


STEP_THEN_WAIT = """
envs = main([partial(FragileEnv, fault=hang_with_the_lock)] * 3, {context!r})
{action}
print("ready", flush=True)
time.sleep(60)
"""
HANG_WHILE_BUILDING = "main([tell_and_hang] * 2, {context!r})"
HANG_IN_STEP = "envs.step_async([1, 0, 1]); time.sleep(0.2)"
STOP_WORKERS = "for pid in envs.worker_pids: os.kill(pid, signal.SIGSTOP)"
FORK_AND_STOP_WORKERS = f"if os.fork() == 0: time.sleep(15); os._exit(0)\n{STOP_WORKERS}"


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(
    ("code", "action", "signal_number"),
    [
        (STEP_THEN_WAIT, "", signal.SIGTERM),
        (STEP_THEN_WAIT, HANG_IN_STEP, signal.SIGKILL),
        (STEP_THEN_WAIT, FORK_AND_STOP_WORKERS, signal.SIGKILL),
        (HANG_WHILE_BUILDING, "", signal.SIGKILL),
    ],
)
@pytest.mark.slow_but("fork")
def test_workers_end_with_a_parent_that_was_killed(context, code, action, signal_number, tmp_path):
    with running_script(tmp_path, code.format(context=context, action=action)) as process:
        if code is not HANG_WHILE_BUILDING:
            assert process.stdout.readline() == "ready\n"
        process.send_signal(signal_number)


# A process that is interrupted, or ends by itself.


SLOW_STEPS = """
envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
print("ready", flush=True)
"""
CATCH_AND_CLOSE = """
try:
    envs.step([1, 0, 1])
    print("not interrupted")
except KeyboardInterrupt:
    envs.close()
    print("closed", flush=True)
"""


STEP_IN_TWO_SECONDS = """
for worker in envs._pool.workers: worker.timeout = 2.0
envs.step([1, 0, 1])
print("stepped", flush=True)
"""


def test_workers_are_not_silent_while_the_whole_job_is_stopped(tmp_path):
    with running_script(tmp_path, SLOW_STEPS + STEP_IN_TWO_SECONDS) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        # Ctrl-Z and `fg`, or the suspension of a job by a scheduler.
        os.killpg(process.pid, signal.SIGSTOP)
        time.sleep(4.0)
        os.killpg(process.pid, signal.SIGCONT)
        assert process.stdout.readline() == "stepped\n"


@pytest.mark.parametrize("caught", [True, False])
def test_ctrl_c_in_a_step_leaves_an_executor_that_can_be_closed_or_ends_all(caught, tmp_path):
    code = SLOW_STEPS + (CATCH_AND_CLOSE if caught else "envs.step([1, 0, 1])")
    with running_script(tmp_path, code) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group
        stdout, stderr = process.communicate(timeout=60)
        if caught:
            assert (stdout, stderr, process.returncode) == ("closed\n", "", 0)
            return
        # One traceback, of the parent; the workers say nothing.
        assert (stdout, stderr.count("Traceback (most recent call last)")) == ("", 1)
        assert stderr.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode in (-signal.SIGINT, 130)


@pytest.mark.parametrize(
    "last_statement", ["sys.exit(0)", "envs.step_async([0, 0, 0])", "del envs"]
)
@pytest.mark.slow_but("del envs")
def test_a_process_that_ends_without_closing_ends_quietly(last_statement, tmp_path):
    code = f"envs = main([FragileEnv] * 3)\ninput()\n{last_statement}"
    with running_script(tmp_path, code) as process:
        assert process.communicate("\n", timeout=60) == ("", "")
        assert process.returncode == 0


NEVER_CLOSED = """
import json
import gymnasium, mtwrappers

if __name__ == "__main__":
    envs = mtwrappers.as_vector("CartPole-v1", 2, workers={workers})
    envs.reset(seed=0)
    {reference}
"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "reference",
    ["json.kept = lambda: envs", "import sys; json.kept = sys.modules[__name__]", ""],
    ids=["callback", "module", "nothing"],
)
@pytest.mark.slow_but("callback-1")
def test_environments_that_are_never_closed_end_without_a_word(workers, reference, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(NEVER_CLOSED.format(workers=workers, reference=reference))
    process = start_python([str(path)])
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize("moment", ["plainly", "in a step"])
@pytest.mark.usefixtures("leaves_nothing_behind")
def test_dropping_an_executor_that_was_not_closed_ends_its_workers(moment):
    gc.collect()
    gc.disable()
    try:
        envs = parallel()
        envs.reset(seed=0)
        pids = envs.worker_pids
        if moment == "in a step":
            envs.step_async(NO_ACTIONS)
        assert all(map(is_alive, pids))
        del envs
        assert not any(map(is_alive, pids))
    finally:
        gc.enable()


@pytest.mark.usefixtures("leaves_nothing_behind")
def test_a_forked_process_cannot_use_the_executor_and_its_close_ends_nothing():
    with closing(parallel()) as envs:
        envs.reset(seed=0)
        read_end, write_end = os.pipe()
        if (pid := os.fork()) == 0:
            message = b"it stepped"
            try:
                envs.step(NO_ACTIONS)
            except RuntimeError as exc:
                message = str(exc).encode()
            envs.close()
            os.write(write_end, message)
            os._exit(0)
        os.waitpid(pid, 0)
        message = os.read(read_end, 1000).decode()
        assert message == (
            f"this MetaParallelEnvExecutor belongs to process {os.getpid()}, and cannot be used "
            "in a fork of it; make another one here"
        )
        os.close(read_end)
        os.close(write_end)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


# How workers start.


NO_GUARD = """
from mtwrappers import MetaParallelEnvExecutor
from tests.vector.faults import (FragileEnv)
print("the script runs", flush=True)
MetaParallelEnvExecutor(FragileEnv, 2, workers=2, {})
"""


@pytest.mark.parametrize(
    ("source", "option"),
    [
        ("a file", "context='spawn'"),
        ("standard input", "context='forkserver'"),
        ("a file", "on_worker_failure='recover'"),
    ],
)
@pytest.mark.slow_but("standard input", "recover")
def test_a_main_module_that_cannot_be_imported_again_is_told_what_to_do(source, option, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(NO_GUARD.format(option))
    arguments = [str(path)] if source == "a file" else ["-"]
    with path.open() as file, start_python(arguments, file) as process:
        stdout, stderr = process.communicate(timeout=30)
    last_line = stderr.splitlines()[-1]
    assert process.returncode == 1
    worker_died = "mtwrappers.common.errors.WorkerDiedError: worker 0 exited with code 1, with "
    assert last_line.startswith(worker_died)
    assert (
        "it ended before it began: start workers only below `if __name__ == '__main__':`, in a "
        "file (not from standard input), because other contexts than 'fork' import the main module"
    ) in last_line
    if source == "a file":  # here, and once in each worker, which says nothing more
        assert stdout.count("the script runs") == 3
        assert stderr.count("Traceback") == 1


START_FUNCTIONS = """
    os.dup2(1, 2)  # errors and warnings to what is returned
    def started(**kwargs):
        envs = parallel(**kwargs)
        parents = set(envs.map_blocks(lambda envs, rows: os.getppid()))
        envs.close()
        print("forked" if parents == {os.getpid()} else "served")
    waits = threading.Event()
"""
START_WITHOUT_THREADS = """
    np.ones((500, 500)) @ np.ones((500, 500))
    print(len(os.listdir("/proc/self/task")) > 1)
    started(context=None)
    started(context=None)
    print(multiprocessing.get_start_method(allow_none=True))  # which is left to the program
"""
# Python knows nothing of the last thread, as of those of OpenGL and PyTorch.
START_THREAD = [
    "threading.Thread(target=waits.wait).start()",
    "import _thread; _thread.start_new_thread(waits.wait, ())",
    "libc, i = ctypes.CDLL(None), ctypes.c_void_p()\n"
    "    libc.pthread_create(ctypes.byref(i), None, libc.pause, None)",
]


@pytest.mark.skipif(
    multiprocessing.get_all_start_methods()[0] != "fork", reason="Python forks nowhere here"
)
@pytest.mark.parametrize(
    ("code", "expected"),
    [(START_WITHOUT_THREADS, "True forked forked None")]
    + [(f"    {thread}\n    started(context=None)\n", "served") for thread in START_THREAD],
    ids=["alone", "a thread", "a raw one", "one of C"],
)
@pytest.mark.slow_but("alone", "a thread")
def test_workers_are_forked_whatever_threads_openblas_has_but_not_beside_others(code, expected):
    code = f"{PROLOGUE}{START_FUNCTIONS}{code}    waits.set()"
    output = run_with_python("-W", "always", "-c", code, OPENBLAS_NUM_THREADS="3")
    assert output.split() == expected.split()
