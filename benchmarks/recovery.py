"""What it costs to be able to recover workers, what a recovery takes, and what a checkpoint.

    python -m benchmarks.recovery [--quick]

Prints a table and writes ``results/recovery.json``.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import gymnasium

from benchmarks.common import limit_row, machine, save, table
from benchmarks.vector import player
from mtwrappers import load_checkpoint, save_checkpoint
from mtwrappers.vector.workers import Pool, ProcessWorker

make_vec = partial(gymnasium.make_vec, workers=2)


def seconds_of(do: Callable[[], Any]) -> float:
    start = time.perf_counter()
    do()
    return time.perf_counter() - start


def journal_cost(workers: int, steps: int) -> tuple[float, list[float]]:
    """By what share a journal makes steps of MT10 longer, and the median seconds of both.

    Two executors take the same steps in turns, so that both have the machine as it is just then.
    """
    seconds: dict[bool, list[float]] = {False: [], True: []}
    with ExitStack() as stack:
        players = {}
        for journal in seconds:
            envs = make_vec("mtwrappers/MT10-v0", workers=workers, journal=journal)
            players[journal] = player(stack.enter_context(closing(envs)), 1)
        for t in range(steps):
            for journal in (False, True) if t % 2 else (True, False):
                seconds[journal].append(seconds_of(players[journal]))
    share = median(on / off for off, on in zip(*seconds.values(), strict=True)) - 1
    return share, [median(times) for times in seconds.values()]


@contextmanager
def timed_recovery() -> Iterator[Counter[str]]:
    """The seconds that each part of a recovery takes."""
    seconds: Counter[str] = Counter()
    told = "start"
    start, send, gather = ProcessWorker.start, ProcessWorker.send, Pool._gather

    def noted_start(self: Any) -> None:
        nonlocal told
        told = "start"
        start(self)

    def noted_send(self: Any, name: str, arguments: Any) -> None:
        nonlocal told
        told = name
        send(self, name, arguments)

    def timed_gather(self: Any, *args: Any) -> Any:
        begin = time.perf_counter()
        lost = gather(self, *args)
        seconds[told] += time.perf_counter() - begin
        return lost

    with (
        mock.patch.object(ProcessWorker, "start", noted_start),
        mock.patch.object(ProcessWorker, "send", noted_send),
        mock.patch.object(Pool, "_gather", timed_gather),
    ):
        yield seconds


def recovery(rounds: int) -> dict[str, float]:
    """Seconds from the kill of a worker of MT10, in step 400 of 500, until that step returns.

    Environments build their simulations when they are reset, so the replay of a step that follows
    a reset is all building.
    """
    found: dict[int, list[Counter[str]]] = {0: [], 400: []}
    with closing(make_vec("mtwrappers/MT10-v0", on_worker_failure="recover")) as envs:
        for i in range(rounds):
            for steps, times in found.items():
                player(envs, steps)()
                with timed_recovery() as parts:
                    os.kill(envs.worker_pids[i % 2], signal.SIGKILL)
                    total = seconds_of(partial(envs.step, envs.action_space.sample()))
                times.append(parts + Counter(total=total))
        assert envs.recoveries == 2 * rounds
    early, late = ({k: median(t[k] for t in times) for k in times[0]} for times in found.values())
    simulations = early["replay"]
    build, replay = late["build"] + simulations, late["replay"] - simulations
    return {"total": late["total"], "start": late["start"], "build": build, "replay": replay}


def checkpoint(name: str, steps: int, rounds: int) -> dict[str, float]:
    """Bytes and seconds of a checkpoint in mid-episode, and of going on from it."""
    make = partial(make_vec, name, journal=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "checkpoint"
        with closing(make()) as envs:
            player(envs, steps)()
            write = partial(save_checkpoint, path, envs=envs)
            written = median(seconds_of(write) for _ in range(rounds))
        size = path.stat().st_size
        starts, loads = [], []
        for _ in range(rounds):
            begin = time.perf_counter()
            with closing(make()) as envs:
                made = time.perf_counter() - begin
                loads.append(seconds_of(partial(load_checkpoint, path, envs=envs)) + made)
            begin = time.perf_counter()
            with closing(make()) as envs:
                envs.reset(seed=0)
                starts.append(time.perf_counter() - begin)
    keys = ("bytes", "write", "start", "resume")
    return dict(zip(keys, (size, written, median(starts), median(loads)), strict=True))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer steps and rounds")
    quick = parser.parse_args().quick
    gymnasium.logger.min_level = gymnasium.logger.ERROR  # recoveries warn
    costs = {workers: journal_cost(workers, 500 if quick else 3000) for workers in (1, 2)}
    parts = recovery(2 if quick else 9)
    saved = checkpoint("mtwrappers/MT50-v0", 250, 1 if quick else 5)
    rows = [
        *(
            limit_row(f"MT10, workers={n}: how much longer a journal makes a step", share, 0.03)
            for n, (share, _) in costs.items()
        ),
        limit_row("MT10: recovery of a worker in step 400 of 500", parts["total"], 3, " s"),
        limit_row("MT10: of which replay", parts["replay"], 0.5, " s"),
        limit_row("MT50: checkpoint in step 250 of 500", saved["bytes"] / 1e6, 1, " MB"),
        limit_row("MT50: writing it", saved["write"], 0.2, " s"),
        limit_row("MT50: resuming, more than a start", saved["resume"] - saved["start"], 3, " s"),
    ]
    save("recovery", {"journal": costs, "recovery": parts, "checkpoint": saved, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    for n, (_, times) in costs.items():
        without, with_it = (f"{1e6 * seconds:,.0f} us" for seconds in times)
        print(f"MT10, workers={n}: a step of all takes {without}, with a journal {with_it}")
    print({part: f"{seconds:.2f} s" for part, seconds in parts.items()}, saved)
    print(table(rows))


if __name__ == "__main__":
    main()
