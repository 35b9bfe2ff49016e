"""Checks that a long run whose workers are killed equals an undisturbed one to the last bit.

    python -m benchmarks.soak --steps 1000000 --out benchmarks/soak.md

Both step MT10 with the same seeds, in chapters of 300 steps: tasks that are set or drawn, resets,
changed settings, evaluations. In the disturbed run a worker is killed (-9) in the middle of a step
in every chapter, and in evaluations, and every fifth chapter ends in a checkpoint, from which
another executor continues. One of these executors has no workers, so nothing is killed in its
chapters, and its simulations stay in the memory of this process; whether memory is flat is
therefore checked from 200,000 steps. Prints a report, and exits with 1 if the runs differ, if
something is left over, or if memory is not flat.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import itertools
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import psutil
from numpy.typing import NDArray

import mtwrappers
from benchmarks.common import cpu_name, measure_pss, table

CHAPTER = 300  # steps of each of the 10 environments
make = partial(gymnasium.make_vec, "mtwrappers/MT10-v0")
recovering = partial(make, execution="parallel", on_worker_failure="recover")
# The executors that continue from successive checkpoints.
SUCCESSORS = [partial(make, journal=True)] + [partial(recovering, workers=n) for n in (3, 2, 1, 2)]


class Memory(NamedTuple):
    """The memory of a run at a point of it."""

    progress: float  # the share of the steps that have been taken
    parent: float  # MB
    workers: float  # MB


def median_memory(samples: Sequence[Memory]) -> NDArray[np.float64]:
    """The medians of the parent's and the workers' memory, in MB, ``(2,)``; NaN without samples."""
    megabytes = [(sample.parent, sample.workers) for sample in samples]
    return np.median(np.array(megabytes, np.float64).reshape(-1, 2), axis=0)


class Run:
    """Makes one of the two runs, with a digest of everything that its environments returned."""

    def __init__(self, disturbed: bool, steps: int) -> None:
        self.envs: Any = recovering(workers=2) if disturbed else make(workers=2)
        self.disturbed = disturbed
        self.digest, self.rng = hashlib.sha256(), random.Random(0)
        self.steps = self.kills = self.recoveries = self.checkpoints = 0
        self.memory: list[Memory] = []
        start, chapter = time.perf_counter(), 0
        with tempfile.TemporaryDirectory() as folder:
            while self.steps < steps:
                self.run_chapter(chapter)
                chapter += 1
                if getattr(self.envs, "num_workers", 0) == 2:  # comparable only with 2 workers
                    parent = psutil.Process().memory_info().rss / 1e6
                    workers = 1000 * measure_pss(include_self=False)
                    self.memory.append(Memory(self.steps / steps, parent, workers))
                if disturbed and chapter % 5 == 0:
                    self.change_executor(Path(folder) / "checkpoint")
        self.close()
        self.minutes = (time.perf_counter() - start) / 60

    def kill_worker(self) -> None:
        """Kills one of the workers, if this run is disturbed and has workers."""
        if self.disturbed and (pids := getattr(self.envs, "worker_pids", ())):
            os.kill(self.rng.choice(pids), signal.SIGKILL)
            self.kills += 1

    def update_digest(self, arrays: Any) -> None:
        """Adds arrays to the digest."""
        for array in arrays:
            self.digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())

    def run_chapter(self, chapter: int) -> None:
        """Runs a chapter, in which everything except the kill depends on its number alone."""
        envs, rng = self.envs, np.random.default_rng(chapter)
        kill_step = self.rng.randrange(CHAPTER)
        if chapter % 4 == 1:
            envs.call("toggle_terminate_on_success", bool(rng.integers(2)))
        if chapter % 3 == 0:
            envs.call("toggle_sample_tasks_on_reset", bool(rng.integers(2)))
            envs.set_tasks([50 * i + int(rng.integers(50)) for i in range(10)])
            self.update_digest(envs.reset(seed=chapter)[:1])
        elif chapter % 10 == 5:
            self.evaluate(chapter)
            self.update_digest(envs.reset()[:1])
        for t in range(CHAPTER):
            envs.step_async(rng.uniform(-1, 1, (10, 4)).astype(np.float32))
            if t == kill_step:
                time.sleep(self.rng.uniform(0, 1e-3))
                self.kill_worker()
            *result, infos = envs.step_wait()
            self.update_digest([*result, *infos.get("final_obs", ())])
        self.steps += 10 * CHAPTER

    def evaluate(self, seed: int) -> None:
        """Evaluates a policy, and kills a worker at one of its first 50 steps."""
        kill_step, steps = self.rng.randrange(50), itertools.count()

        def policy(obs: Any) -> Any:
            if next(steps) == kill_step:
                self.kill_worker()
            return np.tanh(obs[:, :4])

        result = mtwrappers.evaluate(policy, self.envs, 1, seed=seed)
        self.digest.update(repr(result.episodes).encode())
        self.steps += sum(episode.length for episode in result.episodes)

    def change_executor(self, path: Path) -> None:
        """Saves a checkpoint and continues from it in another executor."""
        mtwrappers.save_checkpoint(path, envs=self.envs)
        self.close()
        self.envs = SUCCESSORS[self.checkpoints % len(SUCCESSORS)]()
        mtwrappers.load_checkpoint(path, envs=self.envs)
        self.checkpoints += 1

    def close(self) -> None:
        """Closes the executor and counts its recoveries."""
        self.recoveries += getattr(self.envs, "recoveries", 0)
        self.envs.close()
        self.envs = None

    def make_row(self) -> dict[str, Any]:
        """The run's row of the report."""
        early = median_memory([memory for memory in self.memory if 0.1 < memory.progress <= 0.5])
        late = median_memory([memory for memory in self.memory if memory.progress > 0.5])
        names = ("steps", "kills", "recoveries", "checkpoints")
        return {
            "run": "killed" if self.disturbed else "left alone",
            **{name: getattr(self, name) for name in names},
            "minutes": f"{self.minutes:.1f}",
            "parent, MB": f"{early[0]:.0f} / {late[0]:.0f}",
            "2 workers, MB": f"{early[1]:.0f} / {late[1]:.0f}",
            "flat": bool((late <= 1.05 * early).all()),
            "sha256": self.digest.hexdigest()[:16],
        }


def count_resources() -> dict[str, int]:
    """Counts the descriptors, processes and shared segments that this process holds."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "processes": len(psutil.Process().children(recursive=True)),
        "shared segments": Path("/proc/self/maps").read_text().count("memfd:mtwrappers"),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1_000_000, help="of environments, per run")
    parser.add_argument("--out", type=Path, help="where to write the report")
    args = parser.parse_args()
    gymnasium.logger.min_level = gymnasium.logger.ERROR  # recoveries warn
    forkserver.ensure_running()  # from which workers start, and which Python keeps
    resources = count_resources()
    rows = [Run(disturbed, args.steps).make_row() for disturbed in (True, False)]
    resources_after = count_resources()
    equal = rows[0]["sha256"] == rows[1]["sha256"]
    report = f"""# MT10 on 2 workers of {cpu_name()}

`python -m benchmarks.soak --steps {args.steps}`

{table(rows)}

Equal to the last bit: {equal}. Left over: {resources_after}; there before: {resources}.
Memory: the median from a tenth to half of the run / in its second half.
"""
    print(report)
    if args.out:
        args.out.write_text(report)
    # In a shorter run, the simulations that are built on first use still add memory.
    flat = args.steps < 200_000 or all(row["flat"] for row in rows)
    sys.exit(not (equal and resources_after == resources and flat))


if __name__ == "__main__":
    main()
