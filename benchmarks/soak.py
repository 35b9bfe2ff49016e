"""A long run whose workers are killed, beside one that is left alone: equal to the last bit?

    python -m benchmarks.soak --steps 1000000 --out benchmarks/soak.md

Both play MT10 with the same seeds: tasks that are set or drawn, resets, settings, evaluations. In
one of them a worker is killed (-9) in every chapter, in the middle of a step or of an evaluation,
and every fifth chapter ends in a checkpoint, from which another executor goes on. Whether memory is
flat shows in 200,000 steps and more: one of the executors has its simulations in this process.
"""

from __future__ import annotations

import argparse
import gc
import hashlib
import os
import random
import signal
import sys
import tempfile
import time
from functools import partial
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import psutil

import mtwrappers
from benchmarks.common import cpu_name, pss, table

CHAPTER = 300  # steps of each of the 10 environments
make = partial(gymnasium.make_vec, "mtwrappers/MT10-v0")
recovering = partial(make, execution="parallel", on_worker_failure="recover")
# What goes on from one checkpoint after the other.
OTHERS = [partial(make, journal=True)] + [partial(recovering, workers=n) for n in (3, 2, 1, 2)]


class Run:
    """One of the two runs, with a digest of all that it returned."""

    def __init__(self, disturbed: bool, steps: int) -> None:
        self.envs: Any = recovering(workers=2) if disturbed else make(workers=2)
        self.digest, self.rng, start = hashlib.sha256(), random.Random(0), time.perf_counter()
        self.steps = self.kills = self.recoveries = self.checkpoints = chapter = 0
        self.memory: list[tuple[float, ...]] = []  # part of the run, MB here, MB of the workers
        self.disturbed = disturbed
        with tempfile.TemporaryDirectory() as folder:
            while self.steps < steps:
                self.play(chapter)
                chapter += 1
                if getattr(self.envs, "num_workers", 0) == 2:  # others take other memory
                    here = psutil.Process().memory_info().rss / 1e6
                    self.memory.append((self.steps / steps, here, 1000 * pss(include_self=False)))
                if disturbed and chapter % 5 == 0:
                    self.move(Path(folder) / "checkpoint")
        self.close()
        self.minutes = (time.perf_counter() - start) / 60

    def kill(self) -> None:
        if self.disturbed and (pids := getattr(self.envs, "worker_pids", ())):
            os.kill(self.rng.choice(pids), signal.SIGKILL)
            self.kills += 1

    def note(self, arrays: Any) -> None:
        for array in arrays:
            self.digest.update(b"" if array is None else np.ascontiguousarray(array).tobytes())

    def play(self, chapter: int) -> None:
        """A chapter, in which all but the kill depends on its number alone."""
        envs, rng, at = self.envs, np.random.default_rng(chapter), self.rng.randrange(CHAPTER)
        if chapter % 4 == 1:
            envs.call("toggle_terminate_on_success", bool(rng.integers(2)))
        if chapter % 3 == 0:
            envs.call("toggle_sample_tasks_on_reset", bool(rng.integers(2)))
            envs.set_tasks([50 * i + int(rng.integers(50)) for i in range(10)])
            self.note(envs.reset(seed=chapter)[:1])
        elif chapter % 10 == 5:
            self.evaluate(chapter)
            self.note(envs.reset()[:1])
        for t in range(CHAPTER):
            envs.step_async(rng.uniform(-1, 1, (10, 4)).astype(np.float32))
            if t == at:
                time.sleep(self.rng.uniform(0, 1e-3))
                self.kill()
            *result, infos = envs.step_wait()
            self.note([*result, *infos.get("final_obs", ())])
        self.steps += 10 * CHAPTER

    def evaluate(self, seed: int) -> None:
        left = iter(range(self.rng.randrange(50), -10_000, -1))

        def policy(obs: Any) -> Any:
            _ = next(left) or self.kill()
            return np.tanh(obs[:, :4])

        result = mtwrappers.evaluate(policy, self.envs, 1, seed=seed)
        self.digest.update(repr(result.episodes).encode())
        self.steps += sum(episode.length for episode in result.episodes)

    def move(self, path: Path) -> None:
        """Goes on from a checkpoint in another executor."""
        mtwrappers.save_checkpoint(path, envs=self.envs)
        self.close()
        self.envs = OTHERS[self.checkpoints % len(OTHERS)]()
        mtwrappers.load_checkpoint(path, envs=self.envs)
        self.checkpoints += 1

    def close(self) -> None:
        self.recoveries += getattr(self.envs, "recoveries", 0)
        self.envs.close()
        self.envs = None

    def row(self) -> dict[str, Any]:
        found = np.array(self.memory)
        early = np.median(found[(found[:, 0] > 0.1) & (found[:, 0] <= 0.5), 1:], axis=0)
        late = np.median(found[found[:, 0] > 0.5, 1:], axis=0)
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


def left_over() -> dict[str, int]:
    """What this process holds of the system."""
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
    steps, out = vars(parser.parse_args()).values()
    gymnasium.logger.min_level = gymnasium.logger.ERROR  # recoveries warn
    forkserver.ensure_running()  # from which workers start, and which Python keeps
    before = left_over()
    rows = [Run(disturbed, steps).row() for disturbed in (True, False)]
    after, equal = left_over(), rows[0]["sha256"] == rows[1]["sha256"]
    report = f"""# MT10 on 2 workers of {cpu_name()}

`python -m benchmarks.soak --steps {steps}`

{table(rows)}

Equal to the last bit: {equal}. Left over: {after}; there before: {before}.
Memory: the median from a tenth to half of the run / in its second half.
"""
    print(report)
    if out:
        out.write_text(report)
    # Before, the simulations that are built on first use are still to come.
    flat = steps < 200_000 or all(row["flat"] for row in rows)
    sys.exit(not (equal and after == before and flat))


if __name__ == "__main__":
    main()
