"""Measures Stable-Baselines3 on MT10: our adapter on 2 workers beside SB3's SubprocVecEnv.

    python -m benchmarks.sb3 [--quick]

Both make the same environments from the same constructors, those of
``make_vec("mtwrappers/MT10-v0")``; SubprocVecEnv runs each in a process of its own. Three rates are
measured over whole episodes, so resets count:

- *policy excluded*: a `VecEnv`'s ``step`` with actions that are drawn beforehand;
- *PPO.learn*: the policy's forward passes, SB3's bookkeeping and the gradient steps, with SB3's
  default network;
- *collection*: the time of ``PPO.learn`` without the gradient steps.

The last two are measured with one thread of Torch, which is the fastest for all, and with as many
as Torch takes by default. Prints two tables and writes ``results/sb3.json``.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

import mtwrappers
from benchmarks.common import (
    machine,
    measure_pss,
    measure_rates,
    median_ratio,
    save,
    table,
    target_row,
    version_or_none,
)
from mtwrappers.metaworld import make

EPISODE = 500
OURS, SUBPROC, DUMMY = "mtwrappers, 2 workers", "SB3 SubprocVecEnv", "SB3 DummyVecEnv"


def mt10_constructors() -> list[Callable[[], gymnasium.Env[Any, Any]]]:
    """The constructors of ``make_vec("mtwrappers/MT10-v0")``, one for each environment."""
    constructors: list[Any] = []
    make_executor = make.make_executor

    def record(makers: Any, *args: Any, **kwargs: Any) -> Any:
        constructors.extend(makers)
        return make_executor(makers, *args, **kwargs)

    make.make_executor = record
    try:
        gymnasium.make_vec("mtwrappers/MT10-v0").close()
    finally:
        make.make_executor = make_executor
    return constructors


def make_step_workload(venv: VecEnv, steps: int) -> Callable[[], int]:
    """A workload of steps with random actions, which are drawn beforehand."""
    venv.seed(0)
    venv.reset()
    rng = np.random.default_rng(0)
    shape = (16, venv.num_envs, *venv.action_space.shape)
    actions = rng.uniform(-1, 1, shape).astype(np.float32)

    def run() -> int:
        for t in range(steps):
            venv.step(actions[t % 16])
        return steps * venv.num_envs

    return run


class CollectionClock(BaseCallback):
    """Counts the seconds of collection, and the environment steps that were collected."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.steps = 0

    def _on_rollout_start(self) -> None:
        self._start, self._steps_at_start = time.perf_counter(), self.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.seconds += time.perf_counter() - self._start
        self.steps += self.num_timesteps - self._steps_at_start


def make_learn_workload(
    venv: VecEnv, steps: int, collection_rates: list[float]
) -> Callable[[], int]:
    """A workload of `PPO.learn`: a rollout of ``steps`` steps, and the gradient steps after it.

    Each run appends its steps per second of collection to ``collection_rates``.
    """
    model = PPO("MlpPolicy", venv, n_steps=steps, batch_size=500, seed=0, device="cpu")

    def run() -> int:
        clock = CollectionClock()
        model.learn(steps * venv.num_envs, callback=clock, reset_num_timesteps=False)
        collection_rates.append(clock.steps / clock.seconds)
        return clock.steps

    return run


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no DummyVecEnv")
    quick = parser.parse_args().quick
    rounds = 2 if quick else 4
    constructors = mt10_constructors()
    makers: dict[str, Callable[[], VecEnv]] = {
        OURS: lambda: mtwrappers.as_sb3_vec_env(
            mtwrappers.MetaParallelEnvExecutor(constructors, len(constructors), workers=2)
        ),
        SUBPROC: lambda: SubprocVecEnv(constructors),
    }
    if not quick:
        makers[DUMMY] = lambda: DummyVecEnv(constructors)
    venvs, memory = {}, {}
    for name, make_venv in makers.items():
        memory_before = measure_pss()
        venvs[name] = make_venv()
        venvs[name].reset()
        memory[name] = measure_pss() - memory_before
    workloads = {name: make_step_workload(venv, EPISODE) for name, venv in venvs.items()}
    measurements = {"policy excluded": measure_rates(workloads, rounds)}
    for threads in dict.fromkeys((1, torch.get_num_threads())):
        torch.set_num_threads(threads)
        collection: dict[str, list[float]] = {name: [] for name in venvs}
        workloads = {
            name: make_learn_workload(venv, EPISODE, collection[name])
            for name, venv in venvs.items()
        }
        learning = measure_rates(workloads, rounds)
        # The first rate of each is of the warm-up.
        collection = {name: rates[1:] for name, rates in collection.items()}
        measurements[f"collection, torch threads: {threads}"] = collection
        measurements[f"PPO.learn, torch threads: {threads}"] = learning
    for venv in venvs.values():
        venv.close()
    targets = [
        target_row(
            f"MT10, {label}: adapter / SubprocVecEnv", median_ratio(rates, OURS, SUBPROC), 2.0
        )
        for label, rates in measurements.items()
    ]
    rows = [
        {
            "MT10": name,
            **{label: f"{median(rates[name]):,.0f}" for label, rates in measurements.items()},
            "memory": f"{memory[name]:.2f} GB",
        }
        for name in venvs
    ]
    versions = {name: version_or_none(name) for name in ("stable-baselines3", "torch")}
    save(
        "sb3", {"libraries": versions, "rates": measurements, "pss_gb": memory, "targets": targets}
    )
    print(machine()["cpu"], machine()["cores"], "cores", versions)
    print("steps per second")
    print(table(rows))
    print(table(targets))


if __name__ == "__main__":
    main()
