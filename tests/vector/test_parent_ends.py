"""A parent that ends, in whatever way, leaves no worker behind."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from contextlib import contextmanager

import numpy as np
import pytest

from tests.fakes import ROOT
from tests.vector.faults import parallel
from tests.vector.processes import all_gone, is_alive, needs_proc

pytestmark = needs_proc

PROLOGUE = """
import ctypes, os, signal, sys, threading, time
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
def script(tmp_path, code, lines=1):
    """A process of its own whose first lines are the ids of two workers.

    These must be gone soon after the block.
    """
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(textwrap.dedent(code), "    "))
    with run([str(path)]) as process:
        pids = [int(pid) for _ in range(lines) for pid in process.stdout.readline().split()]
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


HANGS = "envs.step_async([1, 0, 1]); time.sleep(0.2)"
STOPS = "for pid in envs.worker_pids: os.kill(pid, signal.SIGSTOP)"
FORKS = "if os.fork() == 0: time.sleep(15); os._exit(0)"


@pytest.mark.parametrize(
    ("context", "end", "doing"),
    [
        ("fork", signal.SIGTERM, ""),
        ("fork", signal.SIGKILL, HANGS),
        ("fork", signal.SIGKILL, STOPS),
        ("fork", signal.SIGKILL, f"{FORKS}\n{STOPS}"),
        ("spawn", signal.SIGKILL, f"{FORKS}\n{STOPS}"),
        ("spawn", signal.SIGKILL, HANGS),
        ("forkserver", signal.SIGKILL, HANGS),
        ("forkserver", signal.SIGKILL, f"{FORKS}\n{STOPS}"),
    ],
)
@pytest.mark.slow_but("fork")
def test_workers_end_with_a_parent_that_was_killed(context, doing, end, tmp_path):
    code = f"""
envs = main([partial(FragileEnv, fault=hang_with_the_lock)] * 3, {context!r})
{doing}
print("ready", flush=True)
time.sleep(60)
"""
    with script(tmp_path, code) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(end)


BORN_IN_A_THREAD = """
    made = []
    thread = threading.Thread(target=lambda: made.append(main([FragileEnv] * 3, {context!r})))
    thread.start()
    thread.join()
    time.sleep(0.1)
    print(made[0].step([0, 0, 0])[1].tolist(), flush=True)
    {doing}
    time.sleep(60)
"""


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.slow_but("fork")
def test_workers_follow_the_process_and_not_the_thread_that_started_them(context, tmp_path):
    code = BORN_IN_A_THREAD.format(context=context, doing=STOPS.replace("envs", "made[0]"))
    with script(tmp_path, code) as process:
        assert process.stdout.readline() == "[2.0, 2.0, 2.0]\n"
        process.kill()


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.slow_but("fork")
def test_workers_end_with_a_parent_that_was_killed_while_they_build(context, tmp_path):
    with script(tmp_path, f"main([tell_and_hang] * 2, {context!r})", lines=2) as process:
        process.kill()


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


def interrupt(process):
    """Presses Ctrl-C as a terminal does: for every process of the group."""
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    return process.communicate(timeout=60)


def test_ctrl_c_in_a_step_leaves_an_executor_that_can_be_closed(tmp_path):
    with script(tmp_path, SLOW + CAUGHT) as process:
        assert interrupt(process) == ("closed\n", "")
        assert process.returncode == 0


def test_ctrl_c_that_nobody_catches_ends_the_process_and_its_workers(tmp_path):
    with script(tmp_path, SLOW + "envs.step([1, 0, 1])") as process:
        out, err = interrupt(process)
        assert out == ""
        # One traceback, of the parent; the workers say nothing.
        assert err.count("Traceback (most recent call last)") == 1
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode in (-signal.SIGINT, 130)


@pytest.mark.parametrize("leave", ["sys.exit(0)", "envs.step_async([0, 0, 0])", "del envs"])
@pytest.mark.slow_but("del envs")
def test_a_process_that_ends_without_closing_ends_quietly(leave, tmp_path):
    with script(tmp_path, f"envs = main([FragileEnv] * 3)\ninput()\n{leave}") as process:
        assert process.communicate("\n", timeout=60) == ("", "")
        assert process.returncode == 0


@pytest.mark.parametrize("how", ["plainly", "in a cycle", "in a step"])
@pytest.mark.usefixtures("leaves_nothing_behind")
def test_dropping_an_executor_that_was_not_closed_ends_its_workers(how):
    gc.collect()
    gc.disable()
    try:
        envs = parallel()
        envs.reset(seed=0)
        pids = envs.worker_pids
        if how == "in a cycle":
            envs.cycle = envs
        elif how == "in a step":
            envs.step_async(np.zeros(4, np.int64))
        assert all(map(is_alive, pids))
        del envs
        if how == "in a cycle":
            gc.collect()
        assert not any(map(is_alive, pids))
    finally:
        gc.enable()
