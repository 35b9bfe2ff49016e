"""Kills at moments that nobody chooses."""

from __future__ import annotations

import contextlib
import math
import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

# How many in a run of Meta-World, where each takes a second; others have some times as many.
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

    def kill() -> None:
        pid = rng.choice(envs.worker_pids)
        if pid is not None:  # its successor is there already
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def strike() -> None:
        pause, most = seconds, 20 * seconds
        while not over.wait(rng.uniform(0, pause)):
            start, before = time.monotonic(), envs.recoveries
            early = rng.uniform(0, pause) if rng.random() < 0.5 else math.inf
            kill()
            passed = 0.0
            while passed < most and not over.wait(0.002):
                passed = time.monotonic() - start
                if envs.recoveries > before and all(w.ready for w in envs._crew.workers):
                    break
                if passed > early:
                    early = math.inf
                    kill()
            # A busy machine takes longer for the call that was broken off, too.
            pause = max(seconds, min(2 * passed, most))

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
