"""Measures vector environments: our executors, Gymnasium's and Meta-World's, in one run.

    python -m benchmarks.vector [--quick]

The environments are empty ones and Meta-World's stock classes (``fast=False``), so that executors
alone are compared; only the rates with 10 to 200 environments are those of the fast classes, which
``benchmarks/metaworld.py`` compares. Prints tables and writes ``results/vector.json``.
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
    measure_pss,
    measure_rates,
    median_ratio,
    save,
    table,
    target_row,
)
from mtwrappers.metaworld.class_env import SawyerClassEnv

SAME = AutoresetMode.SAME_STEP


class NullEnv(gymnasium.Env[Any, Any]):
    """Does nothing, so that a step costs what the executor costs."""

    observation_space = Box(-1.0, 1.0, (39,), np.float64)
    action_space = Box(-1.0, 1.0, (4,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(39), {}

    def step(self, action: Any) -> Any:
        return np.zeros(39), 0.0, False, False, {}


def make_workload(envs: Any, steps: int) -> Callable[[], int]:
    """A workload of steps with random actions, which are drawn beforehand."""
    envs.reset(seed=0)
    envs.action_space.seed(0)
    actions = [envs.action_space.sample() for _ in range(16)]

    def run() -> int:
        for t in range(steps):
            envs.step(actions[t % 16])
        return steps * envs.num_envs

    return run


def measure_null_rates(num_envs: int, rounds: int) -> dict[str, list[float]]:
    """Steps per second of executors over environments that do nothing."""
    makers = [NullEnv] * num_envs
    envs = {
        "Gymnasium sync": SyncVectorEnv(makers, autoreset_mode=SAME),
        "Gymnasium async, 64 processes": AsyncVectorEnv(makers, autoreset_mode=SAME),
        "mtwrappers iterative": mtwrappers.MetaIterativeEnvExecutor(makers, num_envs),
        "mtwrappers parallel, 2 workers": mtwrappers.MetaParallelEnvExecutor(
            makers, num_envs, workers=2
        ),
    }
    steps = dict.fromkeys(envs, 400)
    steps["Gymnasium async, 64 processes"] = 30
    workloads = {name: make_workload(env, steps[name]) for name, env in envs.items()}
    rates = measure_rates(workloads, rounds)
    for env in envs.values():
        env.close()
    return rates


def make_and_reset(make: Callable[[], Any]) -> tuple[Any, float, float]:
    """Makes a vector environment and resets it; returns it, the seconds, and its memory in GB."""
    gc.collect()
    memory_before = measure_pss()
    start = time.perf_counter()
    envs = make()
    envs.reset(seed=0)
    seconds = time.perf_counter() - start
    return envs, seconds, measure_pss() - memory_before


def measure_metaworld_rates(name: str, steps: int, rounds: int) -> tuple[Any, Any, Any]:
    """Measures every executor of the stock classes: rates, seconds to the first reset, GB."""
    ours = partial(gymnasium.make_vec, f"mtwrappers/{name}-v0", fast=False)
    theirs = partial(gymnasium.make_vec, f"Meta-World/{name}", seed=0, use_one_hot=True)
    makers = {
        "Meta-World sync": partial(theirs, vector_strategy="sync"),
        "Meta-World async": partial(theirs, vector_strategy="async"),
        "mtwrappers iterative": ours,
        "mtwrappers parallel, 2 workers": partial(ours, workers=2),
    }
    envs, seconds, memory = {}, {}, {}
    for executor, make in makers.items():
        envs[executor], seconds[executor], memory[executor] = make_and_reset(make)
    workloads = {executor: make_workload(env, steps) for executor, env in envs.items()}
    rates = measure_rates(workloads, rounds)
    for env in envs.values():
        env.close()
    return rates, seconds, memory


def measure_executor_share(steps: int, rounds: int) -> float:
    """The share of the iterative executor's time that is not spent in the environments' step.

    The environment is a `SawyerClassEnv`; the layers around it (task encoding, time limit, episode
    statistics) count as the executor.
    """
    envs = gymnasium.make_vec("mtwrappers/MT10-v0", fast=False)
    step, step_seconds = SawyerClassEnv.step, 0.0

    def timed_step(self: Any, action: Any) -> Any:
        nonlocal step_seconds
        start = time.perf_counter()
        result = step(self, action)
        step_seconds += time.perf_counter() - start
        return result

    run = make_workload(envs, steps)
    SawyerClassEnv.step = timed_step  # type: ignore[method-assign]
    shares = []
    try:
        for _ in range(rounds):
            step_seconds = 0.0
            start = time.perf_counter()
            run()
            shares.append(1 - step_seconds / (time.perf_counter() - start))
    finally:
        SawyerClassEnv.step = step  # type: ignore[method-assign]
        envs.close()
    return median(shares)


def measure_scaling(rounds: int) -> dict[int, float]:
    """Median steps per second on 2 workers, by the number of environments of MT10."""
    envs = {
        n: gymnasium.make_vec("mtwrappers/MT10-v0", num_envs=n, workers=2, num_goals=5)
        for n in (10, 50, 200)
    }
    workloads = {str(n): make_workload(env, 4000 // n) for n, env in envs.items()}
    rates = measure_rates(workloads, rounds)
    for env in envs.values():
        env.close()
    return {n: median(rates[str(n)]) for n in envs}


def medians(rates: dict[str, list[float]]) -> dict[str, float]:
    """The median rate of each workload."""
    return {name: median(values) for name, values in rates.items()}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no MT50")
    quick = parser.parse_args().quick
    warnings.simplefilter("ignore")
    rounds = 3 if quick else 7
    null_rates = measure_null_rates(64, rounds)
    ours, iterative = "mtwrappers parallel, 2 workers", "mtwrappers iterative"
    rows = [
        target_row(
            "null, N=64: iterative / Gymnasium sync",
            median_ratio(null_rates, iterative, "Gymnasium sync"),
            1.0,
        ),
        target_row(
            "null, N=64: parallel / Gymnasium async",
            median_ratio(null_rates, ours, "Gymnasium async, 64 processes"),
            10.0,
        ),
    ]
    results: dict[str, Any] = {"null": null_rates}
    groups = {"null environment, N=64": medians(null_rates)}
    for name in ("MT10",) if quick else ("MT10", "MT50"):
        steps = 100 if name == "MT10" else 30
        rates, seconds, memory = measure_metaworld_rates(name, steps, rounds)
        results[name] = {"rates": rates, "seconds": seconds, "pss_gb": memory}
        groups[f"{name}, stock classes"] = medians(rates)
        rows += [
            target_row(f"{name}: parallel / iterative", median_ratio(rates, ours, iterative), 1.8),
            target_row(
                f"{name}: parallel / Meta-World sync",
                median_ratio(rates, ours, "Meta-World sync"),
                1.9,
            ),
            target_row(
                f"{name}: parallel / Meta-World async",
                median_ratio(rates, ours, "Meta-World async"),
                1.9,
            ),
        ]
        if name == "MT50":
            share = memory[ours] / memory["Meta-World async"]
            rows.append(limit_row("MT50: memory, parallel / Meta-World async", share, 0.45, "x"))
        print(name, {k: f"{seconds[k]:.1f} s, {memory[k]:.2f} GB" for k in seconds})
    share = measure_executor_share(200, rounds)
    rows.append(limit_row("MT10: share of the executor in a step", share, 0.08))
    scaling = measure_scaling(rounds)
    loss = 1 - scaling[200] / scaling[10]
    rows.append(limit_row("throughput lost from 10 to 200 environments", loss, 0.10))
    results.update(executor_share=share, scaling=scaling, targets=rows)
    save("vector", results)
    print(machine()["cpu"], machine()["cores"], "cores")
    for group, bars in groups.items():
        print(group, {k: f"{v:,.0f}" for k, v in bars.items()})
    print(table(rows))


if __name__ == "__main__":
    main()
