"""What the parent does meanwhile: Ctrl-C, threads, forks, and its own end."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import closing, contextmanager
from functools import partial

import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import SyncVectorEnv

from tests.fakes import ROOT, equal
from tests.vector.fakes import (
    FragileEnv,
    all_gone,
    all_modes,
    break_a_leg,
    build_once,
    fragile_makers,
    interrupt_parent,
    is_alive,
    kill,
    needs_proc,
    nothing_left_behind,
    once,
    parallel,
    play_along,
    wait_until,
)

pytestmark = needs_proc

NO_ACTIONS = np.zeros(4, dtype=np.int64)


# Ctrl-C in a call, and going on.


@contextmanager
def interrupted():
    with pytest.raises(KeyboardInterrupt):
        yield


def interrupting_makers():
    """Environment 3, which its worker steps last, presses Ctrl-C."""
    makers = fragile_makers()
    makers[3] = partial(makers[3], fault=interrupt_parent)
    return makers


INTERRUPT = np.array([0, 0, 0, 1])


@all_modes
@pytest.mark.parametrize("steps_before", [0, 1, 2])
def test_after_an_interrupted_step_a_reset_goes_on_as_if_nothing_had_been(mode, steps_before):
    makers = interrupting_makers()
    oracle = SyncVectorEnv(makers, autoreset_mode=mode)
    with closing(parallel(makers, autoreset_mode=mode)) as envs:
        envs.reset(seed=2)
        for _ in range(steps_before):
            envs.step(NO_ACTIONS)
        with interrupted():
            envs.step(INTERRUPT)
        assert envs.closed is False
        play_along(envs, oracle)
    oracle.close()


def test_after_an_interrupted_step_a_reset_is_due():
    with closing(parallel(interrupting_makers(), autoreset_mode="Disabled")) as envs:
        envs.reset(seed=2)
        with interrupted():
            envs.step(INTERRUPT)
        envs.call("first")
        with pytest.raises(ResetNeeded, match=r"call reset\(\) before step\(\)"):
            envs.step(NO_ACTIONS)
        envs.reset()
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


def test_after_an_interrupted_reset_the_next_one_works():
    makers = interrupting_makers()
    with closing(parallel(makers)) as envs, closing(SyncVectorEnv(makers)) as oracle:
        with interrupted():
            envs.reset(options={"fault": True})
        assert equal(envs.reset(seed=4), oracle.reset(seed=4))
        assert equal(envs.step(NO_ACTIONS), oracle.step(NO_ACTIONS))


def test_after_an_interrupted_call_the_episodes_go_on():
    with closing(parallel(interrupting_makers(), autoreset_mode="Disabled")) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with interrupted():
            envs.call("run_fault")
        assert envs.get_attr("first") == (0, 100, 200, 300)
        assert envs.step(NO_ACTIONS)[1].tolist() == [2] * 4


def test_after_an_interrupted_restart_the_executor_goes_on(tmp_path):
    interrupt_once = partial(once, tmp_path / "interrupted", interrupt_parent)
    makers = [FragileEnv, partial(build_once, tmp_path / "built", interrupt_once)]
    with closing(parallel(makers, 2, 1, on_worker_failure="restart")) as envs:
        envs.reset(seed=0)
        envs.step([0, 0])
        kill(envs, 1)
        with interrupted():
            envs.step([0, 0])
        assert envs.reset(seed=0)[0][:, 0].tolist() == [0, 900]
        assert envs.step([0, 0])[0][:, 0].tolist() == [1, 901]


def test_an_interrupted_executor_can_be_closed():
    with nothing_left_behind():
        envs = parallel(interrupting_makers())
        envs.reset(seed=2)
        with interrupted():
            envs.step(INTERRUPT)
        begin = time.monotonic()
        envs.close()
        assert time.monotonic() - begin < 2
        del envs


def test_a_step_that_raises_after_its_caller_was_interrupted_is_a_warning():
    makers = interrupting_makers()
    makers[0] = partial(makers[0], fault=partial(raise_after, 0.3))
    with closing(parallel(makers)) as envs:
        envs.reset(seed=2)
        envs.step(NO_ACTIONS)
        with interrupted():
            envs.step([1, 0, 0, 1])
        with pytest.warns(UserWarning, match="an interrupted call had failed: environment 0"):
            envs.reset(seed=2)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1] * 4


def raise_after(seconds):
    time.sleep(seconds)
    break_a_leg()


# Threads and forks.


def test_a_call_during_another_thread_s_is_refused_and_disturbs_nothing():
    with closing(parallel(fragile_makers(fault=partial(time.sleep, 0.5)))) as envs:
        envs.reset(seed=0)
        results = []
        thread = threading.Thread(target=lambda: results.append(envs.step(np.ones(4, int))))
        thread.start()
        time.sleep(0.1)
        for name, use in {"call": lambda: envs.call("first"), "reset": envs.reset}.items():
            message = rf"^{name}\(\) during another call of this .*: .* one thread at a time"
            with pytest.raises(RuntimeError, match=message):
                use()
        with pytest.raises(RuntimeError, match="while another thread's call is under way"):
            envs.close()
        thread.join()
        assert results[0][1].tolist() == [1.0] * 4
        assert envs.step(NO_ACTIONS)[1].tolist() == [2.0] * 4


def test_a_signal_handler_may_close_in_the_middle_of_a_step(monkeypatch):
    monkeypatch.setattr("mtwrappers.vector.pool.CLOSE_TIMEOUT", 0.3)
    envs = parallel(fragile_makers(fault=partial(time.sleep, 5)))
    envs.reset(seed=0)
    pids = envs.worker_pids

    def leave(*_):
        envs.close()
        raise SystemExit(3)

    before = signal.signal(signal.SIGALRM, leave)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        with pytest.raises(SystemExit):
            envs.step(np.ones(4, int))
    finally:
        signal.signal(signal.SIGALRM, before)
    assert envs.closed is True
    assert all_gone(pids)


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
            f"this MetaParallelEnvExecutor belongs to process {os.getpid()}, from which this one "
            "was forked; make another one here"
        )
        os.close(here)
        os.close(there)
        assert envs.step(NO_ACTIONS)[1].tolist() == [1.0] * 4


# The parent's own end, in processes of its own.

PROLOGUE = """
import os, signal, sys, time
import numpy as np
from functools import partial
from mtwrappers import MetaParallelEnvExecutor
from tests.vector.fakes import *

def main(makers, context="fork"):
    envs = MetaParallelEnvExecutor(makers, len(makers), workers=2, context=context)
    envs.reset(seed=0)
    envs.step(np.zeros(len(makers), int))
    print(*envs.worker_pids, flush=True)
    return envs

if __name__ == "__main__":
"""


def run(arguments, stdin=None):
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
    """A process of its own that has printed the ids of its workers, and these."""
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(textwrap.dedent(code), "    "))
    with run([str(path)]) as process:
        pids = [int(pid) for pid in process.stdout.readline().split()]
        try:
            assert len(pids) == 2, process.stderr.read()
            yield process, pids
        finally:
            for pid in (process.pid, *pids):
                if is_alive(pid):
                    os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("doing", ["nothing", "a step that hangs", "a fork that stays"])
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_a_parent_that_was_killed(context, doing, end, tmp_path):
    code = f"""
        envs = main([partial(FragileEnv, fault=hang)] * 3, {context!r})
        if {doing!r} == "a step that hangs":
            envs.step_async([1, 0, 1])
        if {doing!r} == "a fork that stays" and os.fork() == 0:
            time.sleep(4)
            os._exit(0)
        print("ready", flush=True)
        time.sleep(60)
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        assert all(map(is_alive, pids))
        process.send_signal(end)
        process.wait()
        assert all_gone(pids, 3)


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_workers_end_with_a_parent_that_was_killed_while_they_build(context, tmp_path):
    code = f"""
        def build():
            open(f"{tmp_path}/pid {{os.getpid()}}", "w").close()
            time.sleep(60)

        MetaParallelEnvExecutor(build, 2, workers=2, context={context!r})
    """
    path = tmp_path / "script.py"
    path.write_text(PROLOGUE + textwrap.indent(textwrap.dedent(code), "    "))
    with run([str(path)]) as process:
        assert wait_until(lambda: len([*tmp_path.glob("pid *")]) == 2, 30)
        pids = [int(note.name[4:]) for note in tmp_path.glob("pid *")]
        process.kill()
        process.wait()
        assert all_gone(pids, 3)


NO_GUARD = """
from mtwrappers import MetaParallelEnvExecutor
from tests.vector.fakes import FragileEnv
MetaParallelEnvExecutor(FragileEnv, 2, workers=2, context="{}")
"""


@pytest.mark.parametrize("context", ["spawn", "forkserver"])
@pytest.mark.parametrize("source", ["a file", "standard input"])
def test_a_main_module_that_cannot_be_imported_again_is_told_what_to_do(source, context, tmp_path):
    path = tmp_path / "script.py"
    path.write_text(NO_GUARD.format(context))
    with path.open() as file, run([str(path)] if source == "a file" else ["-"], file) as process:
        _, err = process.communicate(timeout=30)
    last = err.splitlines()[-1]
    assert process.returncode == 1
    assert last.startswith("mtwrappers.errors.WorkerDiedError: worker 0 exited with code 1, with ")
    assert (
        "it ended before it began: start workers only below `if __name__ == '__main__':`, in a "
        "file (not from standard input), or pass context='fork'"
    ) in last


def test_ctrl_c_in_a_step_leaves_an_executor_that_can_be_closed(tmp_path):
    code = """
        envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
        try:
            print("ready", flush=True)
            envs.step([1, 0, 1])
            print("not interrupted")
        except KeyboardInterrupt:
            envs.close()
            print("closed", flush=True)
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        # As a terminal does: to every process of the group.
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert (out, err, process.returncode) == ("closed\n", "", 0)
        assert all_gone(pids)


def test_ctrl_c_that_nobody_catches_ends_the_process_and_its_workers(tmp_path):
    code = """
        envs = main([partial(FragileEnv, fault=partial(time.sleep, 0.6))] * 3)
        print("ready", flush=True)
        envs.step([1, 0, 1])
    """
    with script(tmp_path, code) as (process, pids):
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=10)
        assert out == ""
        # One traceback, of the parent; the workers say nothing.
        assert err.count("Traceback (most recent call last)") == 1
        assert err.splitlines()[-1] == "KeyboardInterrupt"
        assert process.returncode in (-signal.SIGINT, 130)
        assert all_gone(pids)


@pytest.mark.parametrize("leave", ["pass", "sys.exit(0)", "envs.step_async([0, 0, 0])", "del envs"])
def test_a_process_that_ends_without_closing_ends_quietly(leave, tmp_path):
    with script(tmp_path, f"envs = main([FragileEnv] * 3)\n{leave}") as (process, pids):
        out, err = process.communicate(timeout=10)
        assert (out, err, process.returncode) == ("", "", 0)
        assert all_gone(pids)


def test_workers_do_not_close_a_dropped_executor_that_they_inherit(tmp_path):
    code = """
        import gc

        class CollectingEnv(FragileEnv):
            def collect(self):
                return gc.collect() > 0

        gc.disable()
        envs = main([FragileEnv] * 3)
        envs.cycle = envs
        pids = envs.worker_pids
        del envs
        # Its workers are forked with the dropped executor, and collect it.
        others = MetaParallelEnvExecutor(CollectingEnv, 2, workers=2, context="fork")
        print(*others.call("collect"), *map(is_alive, pids), flush=True)
        others.close()
    """
    with script(tmp_path, code) as (process, pids):
        out, err = process.communicate(timeout=10)
        assert err == ""
        assert out == "True True True True\n"
        assert process.returncode == 0
        assert all_gone(pids)


def test_the_last_reference_to_an_executor_keeps_its_workers_alive_and_nothing_else_does():
    gc.collect()
    gc.disable()
    try:
        envs = parallel()
        envs.reset(seed=0)
        envs.step(NO_ACTIONS)
        pids = envs.worker_pids
        assert all(map(is_alive, pids))
        del envs
        assert not any(map(is_alive, pids))
    finally:
        gc.enable()


def test_collecting_an_executor_that_was_not_closed_ends_its_workers():
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        pids = envs.worker_pids
        envs.cycle = envs
        del envs
        gc.collect()
        assert all_gone(pids)


def test_dropping_an_executor_in_the_middle_of_a_step_ends_its_workers():
    with nothing_left_behind():
        envs = parallel()
        envs.reset(seed=0)
        envs.step_async(NO_ACTIONS)
        pids = envs.worker_pids
        del envs
        gc.collect()
        assert all_gone(pids)
