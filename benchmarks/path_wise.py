"""Compares whole paths that workers collect with asking the policy at every step.

    python -m benchmarks.path_wise [--quick]

MT10, one environment per class, whole episodes of 500 steps on 2 workers, with a random policy and
with a network in NumPy that has two layers of 64. `MetaSampler`, step-wise and path-wise, is
compared with a loop over Meta-World's own ``make_vec``, with EnvPool (if it is installed) and with
the physics alone on 2 threads. A pool of EnvPool has one class, so ten environments of each class
are stepped in turn with the same policy. Workloads take turns. Prints a table and writes
``results/path_wise.json``.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from benchmarks.common import machine, measure_rates, median_ratio, save, table, target_row
from benchmarks.metaworld import EPISODE, make_physics_workload, make_pools
from mtwrappers import MetaSampler, MetaWorldSetTaskEnv

Policy = Callable[[NDArray[Any]], NDArray[Any]]


def act_randomly(observations: NDArray[Any]) -> NDArray[Any]:
    """Actions that do not depend on observations.

    They are drawn from the global generator, because workers would get copies of another one.
    """
    return np.random.uniform(-1.0, 1.0, (len(observations), 4))


class NetworkPolicy:
    """A network with two hidden layers of 64 and random weights."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        sizes = (39, 64), (64, 64), (64, 4)
        self.weights = [rng.normal(size=size) / 8 for size in sizes]

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        hidden = observations[:, :39]
        for weights in self.weights:
            hidden = np.tanh(hidden @ weights)
        return hidden


def make_sampler_workload(
    policy: Policy, **kwargs: Any
) -> tuple[Callable[[], int], Callable[[], None]]:
    """A workload of `MetaSampler` on MT10, a path of each class; and a function that closes it."""
    env = MetaWorldSetTaskEnv("MT10", "train", max_episode_steps=None)
    sampler = MetaSampler(env, policy, 1, 10, EPISODE, seed=0, **kwargs)
    sampler.update_tasks()

    def run() -> int:
        samples = sampler.obtain_samples()
        return sum(len(path["rewards"]) for paths in samples.values() for path in paths)

    return run, sampler.close


def make_loop_workload(envs: Any, policy: Policy) -> Callable[[], int]:
    """A workload of one episode of every environment, with the reset at its end."""
    obs, _ = envs.reset()

    def run() -> int:
        nonlocal obs
        for _ in range(EPISODE):
            obs, *_ = envs.step(policy(obs))
        return EPISODE * len(obs)

    return run


def make_envpool_workload(policy: Policy) -> Callable[[], int] | None:
    """A workload of EnvPool, ten environments of each class in turn; ``None`` without EnvPool."""
    pools = make_pools(num_envs=10, num_threads=2)
    if not pools:
        return None
    workloads = [make_loop_workload(pool, policy) for pool in pools]
    return lambda: sum(run() for run in workloads)


def measure_policy_rates(policy: Policy, rounds: int) -> dict[str, list[float]]:
    """Measures steps per second of all workloads with a policy."""
    workloads, close_functions = {}, []
    for name, policy_in in (("step-wise", "parent"), ("path-wise", "workers")):
        run, close = make_sampler_workload(policy, workers=2, policy_in=policy_in)
        workloads[f"mtwrappers {name}, 2 workers"] = run
        close_functions.append(close)
    theirs = gymnasium.make_vec("Meta-World/MT10", vector_strategy="sync", seed=0)
    workloads["Meta-World make_vec"] = make_loop_workload(theirs, policy)
    if envpool_workload := make_envpool_workload(policy):
        workloads["EnvPool, 2 threads"] = envpool_workload
    workloads["physics alone, 2 threads"] = make_physics_workload()
    rates = measure_rates(workloads, rounds)
    for close in (*close_functions, theirs.close):
        close()
    return rates


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = 3 if parser.parse_args().quick else 7
    warnings.simplefilter("ignore")
    rows, results = [], {}
    path_wise = "mtwrappers path-wise, 2 workers"
    targets = {
        "mtwrappers step-wise, 2 workers": 1.3,
        "Meta-World make_vec": 5.0,
        "EnvPool, 2 threads": 1.0,
        "physics alone, 2 threads": 0.7,
    }
    for name, policy in (("random policy", act_randomly), ("two layers of 64", NetworkPolicy())):
        rates = results[name] = measure_policy_rates(policy, rounds)
        for baseline, at_least in targets.items():
            if baseline in rates:
                speedup = median_ratio(rates, path_wise, baseline)
                rows.append(target_row(f"{name}: path-wise / {baseline}", speedup, at_least))
    save("path_wise", {"rates": results, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    print(table(rows))


if __name__ == "__main__":
    main()
