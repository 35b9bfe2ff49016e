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


def run(arguments, stdin=subprocess.PIPE):
    """Another Python."""
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
def script(tmp_path, code):
    """A process of its own that first prints the ids of two workers, in one line or in two.

    These must be gone soon after the block.
    """
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(code, "    "))
    with run([str(path)]) as process:
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


STEPS = """
envs = main([partial(FragileEnv, fault=hang_with_the_lock)] * 3, {context!r})
{doing}
print("ready", flush=True)
time.sleep(60)
"""
BUILDS = "main([tell_and_hang] * 2, {context!r})"
HANGS = "envs.step_async([1, 0, 1]); time.sleep(0.2)"
STOPS = "for pid in envs.worker_pids: os.kill(pid, signal.SIGSTOP)"
FORKS_AND_STOPS = f"if os.fork() == 0: time.sleep(15); os._exit(0)\n{STOPS}"


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize(
    ("code", "doing", "end"),
    [
        (STEPS, "", signal.SIGTERM),
        (STEPS, HANGS, signal.SIGKILL),
        (STEPS, FORKS_AND_STOPS, signal.SIGKILL),
        (BUILDS, "", signal.SIGKILL),
    ],
)
@pytest.mark.slow_but("fork")
def test_workers_end_with_a_parent_that_was_killed(context, code, doing, end, tmp_path):
    with script(tmp_path, code.format(context=context, doing=doing)) as process:
        if code is not BUILDS:
            assert process.stdout.readline() == "ready\n"
        process.send_signal(end)


# A process that is interrupted, or ends by itself.


SLOW = """
envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
print("ready", flush=True)
"""
CAUGHT = """
try:
    envs.step([1, 0, 1])
    print("not interrupted")
except KeyboardInterrupt:
    envs.close()
    print("closed", flush=True)
"""


@pytest.mark.parametrize("caught", [True, False])
def test_ctrl_c_in_a_step_leaves_an_executor_that_can_be_closed_or_ends_all(caught, tmp_path):
    with script(tmp_path, SLOW + (CAUGHT if caught else "envs.step([1, 0, 1])")) as process:
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process of the group
        out, err = process.communicate(timeout=60)
        if caught:
            assert (out, err, process.returncode) == ("closed\n", "", 0)
            return
        # One traceback, of the parent; the workers say nothing.
        assert (out, err.count("Traceback (most recent call last)")) == ("", 1)
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode in (-signal.SIGINT, 130)


@pytest.mark.parametrize("leave", ["sys.exit(0)", "envs.step_async([0, 0, 0])", "del envs"])
@pytest.mark.slow_but("del envs")
def test_a_process_that_ends_without_closing_ends_quietly(leave, tmp_path):
    with script(tmp_path, f"envs = main([FragileEnv] * 3)\ninput()\n{leave}") as process:
        assert process.communicate("\n", timeout=60) == ("", "")
        assert process.returncode == 0


KEPT = """
import json
import gymnasium, mtwrappers

if __name__ == "__main__":
    envs = mtwrappers.as_vector("CartPole-v1", 2, workers={workers})
    envs.reset(seed=0)
    {kept}
"""


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "kept",
    ["json.kept = lambda: envs", "import sys; json.kept = sys.modules[__name__]", ""],
    ids=["callback", "module", "nothing"],
)
@pytest.mark.slow_but("callback-1")
def test_environments_that_are_never_closed_end_without_a_word(workers, kept, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(KEPT.format(workers=workers, kept=kept))
    process = run([str(path)])
    assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 0


@pytest.mark.parametrize("how", ["plainly", "in a step"])
@pytest.mark.usefixtures("leaves_nothing_behind")
def test_dropping_an_executor_that_was_not_closed_ends_its_workers(how):
    gc.collect()
    gc.disable()
    try:
        envs = parallel()
        envs.reset(seed=0)
        pids = envs.worker_pids
        if how == "in a step":
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
        here, there = os.pipe()
        if (pid := os.fork()) == 0:
            said = b"it stepped"
            try:
                envs.step(NO_ACTIONS)
            except RuntimeError as exc:
                said = str(exc).encode()
            envs.close()
            os.write(there, said)
            os._exit(0)
        os.waitpid(pid, 0)
        said = os.read(here, 1000).decode()
        assert said == (
            f"this MetaParallelEnvExecutor belongs to process {os.getpid()}, and cannot be used "
            "in a fork of it; make another one here"
        )
        os.close(here)
        os.close(there)
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
    with path.open() as file, run([str(path)] if source == "a file" else ["-"], file) as process:
        out, err = process.communicate(timeout=30)
    last = err.splitlines()[-1]
    assert process.returncode == 1
    died = "mtwrappers.common.errors.WorkerDiedError: worker 0 exited with code 1, with "
    assert last.startswith(died)
    assert (
        "it ended before it began: start workers only below `if __name__ == '__main__':`, in a "
        "file (not from standard input), or pass context='fork'"
    ) in last
    if source == "a file":  # here, and once in each worker, which says nothing more
        assert out.count("the script runs") == 3
        assert err.count("Traceback") == 1


STARTS = """
    os.dup2(1, 2)  # errors and warnings to what is returned
    def started(**kwargs):
        envs = parallel(**kwargs)
        parents = set(envs.map_blocks(lambda envs, rows: os.getppid()))
        envs.close()
        print("forked" if parents == {os.getpid()} else "served")
    waits = threading.Event()
"""
ALONE = """
    np.ones((500, 500)) @ np.ones((500, 500))
    print(len(os.listdir("/proc/self/task")) > 1)
    started(context=None)
    started(context=None)
    print(multiprocessing.get_start_method(allow_none=True))  # which is left to the program
"""
# Of the last, Python knows nothing, as of those of OpenGL and PyTorch.
THREADS = [
    "threading.Thread(target=waits.wait).start()",
    "import _thread; _thread.start_new_thread(waits.wait, ())",
    "libc, i = ctypes.CDLL(None), ctypes.c_void_p()\n"
    "    libc.pthread_create(ctypes.byref(i), None, libc.pause, None)",
]


@pytest.mark.skipif(
    multiprocessing.get_all_start_methods()[0] != "fork", reason="Python forks nowhere here"
)
@pytest.mark.parametrize(
    ("code", "said"),
    [(ALONE, "True forked forked None")]
    + [(f"    {thread}\n    started(context=None)\n", "served") for thread in THREADS],
    ids=["alone", "a thread", "a raw one", "one of C"],
)
@pytest.mark.slow_but("alone", "a thread")
def test_workers_are_forked_whatever_threads_openblas_has_but_not_beside_others(code, said):
    code = f"{PROLOGUE}{STARTS}{code}    waits.set()"
    found = run_with_python("-W", "always", "-c", code, OPENBLAS_NUM_THREADS="3")
    assert found.split() == said.split()
