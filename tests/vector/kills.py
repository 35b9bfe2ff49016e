"""Kills at moments that nobody chooses."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any

# How many in a run of Meta-World, where each takes a second.
MANY = int(os.environ.get("MTWRAPPERS_KILLS", "2"))
# Options of executors that come through any number of them.
RECOVER: dict[str, Any] = {"workers": 2, "on_worker_failure": "recover", "max_recoveries": 20}


@contextlib.contextmanager
def kills(envs: Any, seconds: float, seed: int = 0) -> Iterator[None]:
    """Kills a worker again and again: in a step, a reset or a call, or once while it is replaced.

    Args:
        envs: The executor.
        seconds: At most so long after the last one.
        seed: Of the moments.
    """
    rng, over = random.Random(seed), threading.Event()

    def strike() -> None:
        early = False
        while not over.wait(rng.uniform(0, seconds)):
            ready = all(worker.ready for worker in envs._crew.workers)
            if early and not ready:  # a busy machine would never come to its next step
                continue
            early = not ready
            pid = rng.choice(envs.worker_pids)
            if pid is not None:  # its successor is there already
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    thread = threading.Thread(target=strike)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def play_until_killed(
    envs: Any, n: int, play: Callable[[int], Any], seconds: float = 0.06
) -> list[Any]:
    """What ``play(0)``, ``play(1)``, ... return until ``n`` workers were killed meanwhile."""
    results: list[Any] = []
    before = envs.recoveries
    with kills(envs, seconds):
        while envs.recoveries < before + n:
            results.append(play(len(results)))
    return results
