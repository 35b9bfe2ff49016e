"""Measures what `benchmarks.scale` starts from: MT10 on two actors of Ray, step- and path-wise.

    python -m benchmarks.costs

Needs the extras ``bench`` and ``rllib``, and an idle machine. The actors are the plainest that
there can be: half of the classes each, and no recovery. What the driver does is measured in the
time of its thread, without the waiting. Writes ``results/costs.json``.
"""

from __future__ import annotations

import json
import os
import pickle
import time
from dataclasses import asdict
from statistics import median
from typing import Any

# For the actors too: threads of BLAS would take their cores from each other.
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import gymnasium
import numpy as np
import ray
from numpy.typing import NDArray

from benchmarks.scale import RESULTS, Cluster, Costs, fitted
from mtwrappers.metaworld import make_benchmark

ROUNDS = 9
ACTION_BYTES = 16
SIZES = Cluster()
FIELDS = ("observations", "actions", "rewards", "terminated", "truncated")
clock = time.thread_time


class Policy:
    """Two layers of 64."""

    def __init__(self, size: int) -> None:
        rng = np.random.default_rng(0)
        self.layers = [rng.normal(size=shape) / 8 for shape in ((size, 64), (64, 64), (64, 4))]

    def __call__(self, observations: NDArray[np.float64]) -> NDArray[np.float32]:
        x = observations
        for layer in self.layers:
            x = np.tanh(x @ layer)
        return x.astype(np.float32)

    def seconds(self, rows: int) -> float:
        """How long an answer takes."""
        observations, times = np.zeros((rows, len(self.layers[0]))), []
        for _ in range(300):
            start = clock()
            self(observations)
            times.append(clock() - start)
        return median(times)


@ray.remote(num_cpus=1)
class Worker:
    """Has an environment of each of some classes."""

    def __init__(self, classes: list[str]) -> None:
        env_id = "mtwrappers:mtwrappers/CustomMT-v0"
        self.envs = gymnasium.make_vec(env_id, train_classes=classes, execution="iterative")
        self.obs: NDArray[np.float64] = self.envs.reset(seed=0)[0]

    def observe(self) -> NDArray[np.float64]:
        return self.obs

    def step(self, actions: NDArray[np.float32]) -> tuple[Any, ...]:
        """What a step returns, but for the names of tasks and what belongs to episodes."""
        *result, infos = self.envs.step(actions)
        self.obs = result[0]
        numbers = {k: v for k, v in infos.items() if getattr(v, "dtype", None) == np.float64}
        return *result, numbers

    def play(self, policy: Policy) -> tuple[dict[str, Any], float]:
        """A path of every environment, and the seconds that the environments took for it."""
        kept, seconds = [], 0.0
        for _ in range(SIZES.steps):
            obs, actions = self.obs, policy(self.obs)
            start = clock()
            _, *result, infos = self.step(actions)
            seconds += clock() - start
            kept.append(dict(zip(FIELDS, (obs, actions, *result), strict=True)) | infos)
        return {key: np.stack([step[key] for step in kept], axis=1) for key in kept[0]}, seconds


def step_wise(workers: list[Any], policy: Policy) -> dict[str, float]:
    """Steps per second, and the driver's seconds per message."""
    obs, seconds = np.concatenate(ray.get([w.observe.remote() for w in workers])), 0.0
    begin = time.perf_counter()
    for _ in range(SIZES.steps):
        blocks, start = np.split(policy(obs), len(workers)), clock()
        answers = ray.get([w.step.remote(own) for w, own in zip(workers, blocks, strict=True)])
        seconds += clock() - start
        obs = np.concatenate([answer[0] for answer in answers])
    rate = SIZES.steps * len(obs) / (time.perf_counter() - begin)
    return {"step-wise": rate, "message": seconds / SIZES.steps / len(workers)}


def path_wise(workers: list[Any], policy: Policy) -> dict[str, float]:
    """Steps per second; the driver's seconds per path; a worker's per step of an environment."""
    begin, seconds, played, paths = time.perf_counter(), 0.0, 0.0, []
    sent = ray.put(policy)
    waiting = [w.play.remote(sent) for _ in range(SIZES.paths) for w in workers]
    while waiting:
        (ready,), waiting = ray.wait(waiting)
        start = clock()
        arrays, own = ray.get(ready)
        paths += [{k: array[i].copy() for k, array in arrays.items()} for i in range(SIZES.envs)]
        seconds += clock() - start
        played += own
    steps = len(paths) * SIZES.steps
    rate = steps / (time.perf_counter() - begin)
    return {"path-wise": rate, "path": seconds / len(paths), "env_step": played / steps}


def main() -> None:
    classes = list(make_benchmark("MT10").train_classes)
    ray.init("local", num_cpus=SIZES.cores, include_dashboard=False, logging_level="error")
    workers = [Worker.remote(classes[i :: SIZES.cores]) for i in range(SIZES.cores)]
    (envs, size) = ray.get(workers[0].observe.remote()).shape
    policy = Policy(size)
    found: list[dict[str, float]] = []
    for _ in range(ROUNDS + 1):
        found.append(step_wise(workers, policy) | path_wise(workers, policy))
        print({key: f"{value:.4g}" for key, value in found[-1].items()})
    costs = {key: median(one[key] for one in found[1:]) for key in found[0]}
    one, many = policy.seconds(1), policy.seconds(1000)
    answer = ray.get(workers[0].step.remote(np.zeros((envs, 4), np.float32)))
    rates = {model: costs.pop(model) for model in ("step-wise", "path-wise")}
    measured = Costs(
        **costs,
        policy_call=one,
        policy_row=(many - one) / 1000,
        step_bytes=(len(pickle.dumps(answer)) + envs * ACTION_BYTES) / envs,
        policy_bytes=float(len(pickle.dumps(policy))),
    )
    complete = asdict(fitted(measured, SIZES, rates))
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "costs.json").write_text(json.dumps(complete, indent=2) + "\n")
    print({name: f"{value:.3g}" for name, value in (complete | rates).items()})
    ray.shutdown()


if __name__ == "__main__":
    main()
