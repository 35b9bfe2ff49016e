"""Stable-Baselines3 on MT10: our adapter on 2 workers, and SB3's own SubprocVecEnv, in one run.

    python -m benchmarks.sb3 [--quick]

Both build the same environments from the same constructors, those of
``make_vec("mtwrappers/MT10-v0")``; SubprocVecEnv runs each in a process of its own. *Policy
excluded* steps with actions drawn beforehand, through a `VecEnv`'s own ``step``. *PPO.learn* is
all of it: the policy's forward passes, SB3's bookkeeping and the gradient steps, with SB3's default
network; *collection* is the part of it between gradient steps. Torch has one thread, which is the
fastest for all of them, and then as many as it takes by itself. All play whole episodes, so resets
are counted. Prints a table, writes ``results/sb3.json``.
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
from benchmarks.common import machine, pss, rates, ratio, save, table, target_row, version_or_none
from mtwrappers.metaworld import make

EPISODE = 500
OURS, SUBPROC, DUMMY = "mtwrappers, 2 workers", "SB3 SubprocVecEnv", "SB3 DummyVecEnv"


def mt10_constructors() -> list[Callable[[], gymnasium.Env[Any, Any]]]:
    """The constructors of ``make_vec("mtwrappers/MT10-v0")``, one an environment."""
    taken: list[Any] = []
    make_executor = make.make_executor

    def take(makers: Any, *args: Any, **kwargs: Any) -> Any:
        taken.extend(makers)
        return make_executor(makers, *args, **kwargs)

    make.make_executor = take
    try:
        gymnasium.make_vec("mtwrappers/MT10-v0").close()
    finally:
        make.make_executor = make_executor
    return taken


def stepper(venv: VecEnv, steps: int) -> Callable[[], int]:
    """Plays random actions; the actions are drawn beforehand."""
    venv.seed(0)
    venv.reset()
    rng = np.random.default_rng(0)
    shape = (16, venv.num_envs, *venv.action_space.shape)
    actions = rng.uniform(-1, 1, shape).astype(np.float32)

    def play() -> int:
        for t in range(steps):
            venv.step(actions[t % 16])
        return steps * venv.num_envs

    return play


class CollectionClock(BaseCallback):
    """The seconds that were spent collecting, and the steps that they gave."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0
        self.steps = 0

    def _on_rollout_start(self) -> None:
        self._begun = time.perf_counter(), self.num_timesteps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        self.seconds += time.perf_counter() - self._begun[0]
        self.steps += self.num_timesteps - self._begun[1]


def learner(venv: VecEnv, steps: int, collected: list[float]) -> Callable[[], int]:
    """Plays `PPO.learn` for one rollout of ``steps`` steps and the gradient steps after it."""
    model = PPO("MlpPolicy", venv, n_steps=steps, batch_size=500, seed=0, device="cpu")

    def play() -> int:
        clock = CollectionClock()
        model.learn(steps * venv.num_envs, callback=clock, reset_num_timesteps=False)
        collected.append(clock.steps / clock.seconds)
        return clock.steps

    return play


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds, no DummyVecEnv")
    quick = parser.parse_args().quick
    rounds = 2 if quick else 4
    makers = mt10_constructors()
    make: dict[str, Callable[[], VecEnv]] = {
        OURS: lambda: mtwrappers.as_sb3_vec_env(
            mtwrappers.MetaParallelEnvExecutor(makers, len(makers), workers=2)
        ),
        SUBPROC: lambda: SubprocVecEnv(makers),
    }
    if not quick:
        make[DUMMY] = lambda: DummyVecEnv(makers)
    venvs, memory = {}, {}
    for name, build in make.items():
        before = pss()
        venvs[name] = build()
        venvs[name].reset()
        memory[name] = pss() - before
    excluded = rates({name: stepper(venv, EPISODE) for name, venv in venvs.items()}, rounds)
    measured = {"policy excluded": excluded}
    for threads in dict.fromkeys((1, torch.get_num_threads())):
        torch.set_num_threads(threads)
        collected: dict[str, list[float]] = {name: [] for name in venvs}
        learners = {name: learner(venv, EPISODE, collected[name]) for name, venv in venvs.items()}
        included = rates(learners, rounds)
        # The first is the warm-up's.
        measured[f"collection, torch threads: {threads}"] = {k: v[1:] for k, v in collected.items()}
        measured[f"PPO.learn, torch threads: {threads}"] = included
    for venv in venvs.values():
        venv.close()
    targets = [
        target_row(f"MT10, {what}: adapter / SubprocVecEnv", ratio(found, OURS, SUBPROC), 2.0)
        for what, found in measured.items()
    ]
    rows = [
        {
            "MT10": name,
            **{what: f"{median(found[name]):,.0f}" for what, found in measured.items()},
            "memory": f"{memory[name]:.2f} GB",
        }
        for name in venvs
    ]
    versions = {name: version_or_none(name) for name in ("stable-baselines3", "torch")}
    save("sb3", {"libraries": versions, "rates": measured, "pss_gb": memory, "targets": targets})
    print(machine()["cpu"], machine()["cores"], "cores", versions)
    print("steps per second")
    print(table(rows))
    print(table(targets))


if __name__ == "__main__":
    main()
