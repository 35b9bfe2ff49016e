"""Vector execution: our executors, Gymnasium's and Meta-World's own, in one run.

    python -m benchmarks.vector [--quick]

The environments are Meta-World's stock classes everywhere (``fast=False``), so that the executors
are compared and nothing else; ``benchmarks/metaworld.py`` compares the rest. Prints a table,
writes ``results/vector.json``.
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable
from functools import partial
from statistics import median
from typing import Any

import gymnasium
import metaworld  # noqa: F401 (registers Meta-World's own ids)
import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

import mtwrappers
from benchmarks.common import (
    limit_row,
    machine,
    pss,
    rates,
    ratio,
    save,
    table,
    target_row,
)
from mtwrappers.metaworld.class_env import SawyerClassEnv

SAME = AutoresetMode.SAME_STEP


class NullEnv(gymnasium.Env[Any, Any]):
    """Does nothing: what is left is the executor."""

    observation_space = Box(-1.0, 1.0, (39,), np.float64)
    action_space = Box(-1.0, 1.0, (4,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(39), {}

    def step(self, action: Any) -> Any:
        return np.zeros(39), 0.0, False, False, {}


def player(envs: Any, steps: int) -> Callable[[], int]:
    """Plays random actions; the actions are drawn beforehand."""
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(16)]

    def play() -> int:
        for t in range(steps):
            envs.step(actions[t % 16])
        return steps * envs.num_envs

    return play


def null_rates(n: int, rounds: int) -> dict[str, list[float]]:
    """Executors over environments that do nothing."""
    makers = [NullEnv] * n
    envs = {
        "Gymnasium sync": SyncVectorEnv(makers, autoreset_mode=SAME),
        "Gymnasium async, 64 processes": AsyncVectorEnv(makers, autoreset_mode=SAME),
        "mtwrappers iterative": mtwrappers.MetaIterativeEnvExecutor(makers, n),
        "mtwrappers parallel, 2 workers": mtwrappers.MetaParallelEnvExecutor(makers, n, workers=2),
    }
    steps = {"Gymnasium async, 64 processes": 30}
    found = rates({k: player(v, steps.get(k, 400)) for k, v in envs.items()}, rounds)
    for env in envs.values():
        env.close()
    return found


def built(make: Callable[[], Any]) -> tuple[Any, float, float]:
    """A vector environment after its first reset, the seconds that took, and its memory in GB."""
    gc.collect()
    before, start = pss(), time.perf_counter()
    envs = make()
    envs.reset(seed=0)
    seconds = time.perf_counter() - start
    return envs, seconds, pss() - before


def metaworld_rates(name: str, steps: int, rounds: int) -> tuple[Any, Any, Any]:
    """The stock classes under every executor: rates, seconds to the first reset, memory."""
    ours = partial(gymnasium.make_vec, f"mtwrappers/{name}-v0", fast=False)
    theirs = partial(gymnasium.make_vec, f"Meta-World/{name}", seed=0, use_one_hot=True)
    makers = {
        "Meta-World sync": partial(theirs, vector_strategy="sync"),
        "Meta-World async": partial(theirs, vector_strategy="async"),
        "mtwrappers iterative": ours,
        "mtwrappers parallel, 2 workers": partial(ours, workers=2),
    }
    envs, seconds, memory = {}, {}, {}
    for key, make in makers.items():
        envs[key], seconds[key], memory[key] = built(make)
    found = rates({key: player(env, steps) for key, env in envs.items()}, rounds)
    for env in envs.values():
        env.close()
    return found, seconds, memory


def executor_share(steps: int, rounds: int) -> float:
    """The share of the iterative executor's time that is not spent in the environments' step.

    A `SawyerClassEnv` is where an environment ends and our own layers begin: task encoding, time
    limit, episode statistics and executor all count as the executor's here.
    """
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", fast=False)
    spent, step = [0.0], SawyerClassEnv.step

    def timed(self: Any, action: Any) -> Any:
        start = time.perf_counter()
        result = step(self, action)
        spent[0] += time.perf_counter() - start
        return result

    play = player(envs, steps)
    SawyerClassEnv.step = timed  # type: ignore[method-assign]
    shares = []
    try:
        for _ in range(rounds):
            spent[0], start = 0.0, time.perf_counter()
            play()
            shares.append(1 - spent[0] / (time.perf_counter() - start))
    finally:
        SawyerClassEnv.step = step  # type: ignore[method-assign]
        envs.close()
    return median(shares)


def scaling(rounds: int) -> dict[int, float]:
    """Steps per second on 2 workers, for 10 to 200 environments of MT10."""
    envs = {
        n: gymnasium.make_vec("mtwrappers/MT10-v0", num_envs=n, workers=2, num_goals=5)
        for n in (10, 50, 200)
    }
    found = rates({str(n): player(e, 4000 // n) for n, e in envs.items()}, rounds)
    for env in envs.values():
        env.close()
    return {int(n): median(values) for n, values in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no MT50")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    rounds = 3 if quick else 7
    null = null_rates(64, rounds)
    ours, iterative = "mtwrappers parallel, 2 workers", "mtwrappers iterative"
    rows = [
        target_row(
            "null, N=64: iterative / Gymnasium sync", ratio(null, iterative, "Gymnasium sync"), 1.0
        ),
        target_row(
            "null, N=64: parallel / Gymnasium async",
            ratio(null, ours, "Gymnasium async, 64 processes"),
            10.0,
        ),
    ]
    results: dict[str, Any] = {"null": null}
    groups = {"null environment, N=64": {k: median(v) for k, v in null.items()}}
    for name in ("MT10",) if quick else ("MT10", "MT50"):
        found, seconds, memory = metaworld_rates(name, 100 if name == "MT10" else 30, rounds)
        results[name] = {"rates": found, "seconds": seconds, "pss_gb": memory}
        groups[f"{name}, stock classes"] = {k: median(v) for k, v in found.items()}
        rows += [
            target_row(f"{name}: parallel / iterative", ratio(found, ours, iterative), 1.8),
            target_row(
                f"{name}: parallel / Meta-World sync", ratio(found, ours, "Meta-World sync"), 1.9
            ),
            target_row(
                f"{name}: parallel / Meta-World async", ratio(found, ours, "Meta-World async"), 1.9
            ),
        ]
        if name == "MT50":
            share = memory[ours] / memory["Meta-World async"]
            rows.append(limit_row("MT50: memory, parallel / Meta-World async", share, 0.45, "x"))
        print(name, {k: f"{v:.1f} s, {memory[k]:.2f} GB" for k, v in seconds.items()})
    share = executor_share(200, rounds)
    rows.append(limit_row("MT10: share of the executor in a step", share, 0.08))
    scale = scaling(rounds)
    fall = 1 - scale[200] / scale[10]
    rows.append(limit_row("throughput lost from 10 to 200 environments", fall, 0.10))
    results.update(executor_share=share, scaling=scale, targets=rows)
    save("vector", results)
    print(machine()["cpu"], machine()["cores"], "cores")
    for group, bars in groups.items():
        print(group, {k: f"{v:,.0f}" for k, v in bars.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
