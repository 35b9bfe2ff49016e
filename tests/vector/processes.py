"""Ways to look at processes, and to kill them at moments that nobody chooses."""

from __future__ import annotations

import contextlib
import functools
import gc
import math
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import pytest

from mtwrappers.vector.workers import WorkerState

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children(parent: int | None = None) -> set[int]:
    """Returns the children of a process, by default of this one, zombies included."""
    parent = os.getpid() if parent is None else parent
    pids = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                pids.add(int(entry.name))
    return pids


def workers() -> set[int]:
    """Returns the children of this process, and their children, as those of a fork server."""
    direct_children = children()
    return direct_children.union(*map(children, direct_children))


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


# Seconds that a busy machine may take for what would otherwise take much longer, or for ever.
PATIENCE = 30.0


def wait_until(condition: Callable[[], Any], seconds: float = PATIENCE) -> bool:
    """Whether ``condition`` comes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def all_gone(pids: Iterable[int], seconds: float = PATIENCE) -> bool:
    """Whether none of the processes is alive within ``seconds``."""
    return wait_until(functools.partial(_none_alive, list(pids)), seconds)


def _none_alive(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Requires that the block leaves no process and no open file behind.

    The helpers of `multiprocessing` itself stay, and do not count.
    """
    forkserver.ensure_running()
    gc.collect()
    workers_before, files_before = workers(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: workers() <= workers_before), workers() - workers_before
    assert open_files() <= files_before


# How many in a run of Meta-World, where each takes a second; others have some times as many.
MANY = int(os.environ.get("MTWRAPPERS_KILLS", "1"))
# Options of executors that come through any number of them.
RECOVER: dict[str, Any] = {"workers": 2, "on_worker_failure": "recover"}


def all_ready(workers: Iterable[Any]) -> bool:
    return all(worker.state is WorkerState.READY for worker in workers)


def run_until_killed(
    envs: Any, n: int, run_steps: Callable[[int], Any], seconds: float = 0.06
) -> list[Any]:
    """Returns ``run_steps(0)``, ``run_steps(1)``, ... until ``n`` workers were killed meanwhile.

    Each is killed within ``seconds`` of the last: in a step, a reset or a call, or while another
    worker is replaced.
    """
    rng = random.Random(0)
    finished = threading.Event()
    recoveries_at_start = envs.recoveries
    longest_pause = 20 * seconds

    def kill() -> None:
        pid = rng.choice(envs.worker_pids)
        if pid is not None:  # its successor is there already
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def kill_repeatedly() -> None:
        pause = seconds
        while not finished.wait(rng.uniform(0, pause)):
            start_time, recoveries_before = time.monotonic(), envs.recoveries
            # Half of the time, a second worker is killed before the first one is replaced.
            second_kill = rng.uniform(0, pause) if rng.random() < 0.5 else math.inf
            kill()
            seconds_passed = 0.0
            while seconds_passed < longest_pause and not finished.wait(0.002):
                seconds_passed = time.monotonic() - start_time
                if envs.recoveries > recoveries_before and all_ready(envs._pool.workers):
                    break
                if seconds_passed > second_kill:
                    second_kill = math.inf
                    kill()
            # A busy machine takes longer for the call that was broken off, too.
            pause = max(seconds, min(2 * seconds_passed, longest_pause))

    envs._pool._max_recoveries = 20  # one call may be struck more often than a machine fails
    thread = threading.Thread(target=kill_repeatedly)
    thread.start()
    results: list[Any] = []
    try:
        while envs.recoveries < recoveries_at_start + n:
            results.append(run_steps(len(results)))
    finally:
        finished.set()
        thread.join()
    return results
