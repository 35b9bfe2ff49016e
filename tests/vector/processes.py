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


def children(of: int | None = None) -> set[int]:
    """The processes that this one, or another, has started, zombies included."""
    found, parent = set(), os.getpid() if of is None else of
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.add(int(entry.name))
    return found


def workers() -> set[int]:
    """The processes that this one has started, and those that a fork server has."""
    own = children()
    return own.union(*map(children, own))


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
    """Requires that no process and no open file is left of what happens inside.

    But for the helpers of `multiprocessing` itself, which stay.
    """
    forkserver.ensure_running()
    gc.collect()
    before = workers(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: workers() <= before[0]), workers() - before[0]
    assert open_files() <= before[1]


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

    One is killed within ``seconds`` of the last: in a step, a reset or a call, or while another one
    is replaced.
    """
    rng, over, begin, most = random.Random(0), threading.Event(), envs.recoveries, 20 * seconds

    def kill() -> None:
        pid = rng.choice(envs.worker_pids)
        if pid is not None:  # its successor is there already
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strike() -> None:
        pause = seconds
        while not over.wait(rng.uniform(0, pause)):
            start, before = time.monotonic(), envs.recoveries
            early = rng.uniform(0, pause) if rng.random() < 0.5 else math.inf
            kill()
            passed = 0.0
            while passed < most and not over.wait(0.002):
                passed = time.monotonic() - start
                if envs.recoveries > before and all_ready(envs._pool.workers):
                    break
                if passed > early:
                    early = math.inf
                    kill()
            # A busy machine takes longer for the call that was broken off, too.
            pause = max(seconds, min(2 * passed, most))

    envs._pool._max_recoveries = 20  # one call may be struck more often than a machine fails
    thread = threading.Thread(target=strike)
    thread.start()
    results: list[Any] = []
    try:
        while envs.recoveries < begin + n:
            results.append(run_steps(len(results)))
    finally:
        over.set()
        thread.join()
    return results
