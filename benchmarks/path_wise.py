"""Whole paths from where environments live, against asking the policy at every step.

    python -m benchmarks.path_wise [--quick]

MT10, one environment per class, whole episodes of 500 steps on 2 workers, with a random policy and
with two layers of 64 in NumPy. Beside `MetaSampler` step-wise and path-wise stand a loop over
Meta-World's own ``make_vec``, EnvPool stepped with the same policy (where it is installed; it has
no mixed classes, so each class in its turn), and the physics alone on 2 threads. Every player runs
for the same number of environment steps, in turns. Prints a table, writes
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

from benchmarks.common import (
    machine,
    rates,
    ratio,
    save,
    table,
    target_row,
)
from benchmarks.metaworld import EPISODE, make_pools, physics_player
from mtwrappers import MetaSampler, MetaWorldSetTaskEnv

Policy = Callable[[NDArray[Any]], NDArray[Any]]


class Random:
    """Actions that do not depend on observations."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        return self.rng.uniform(-1.0, 1.0, (len(observations), 4))


class Layers:
    """Two layers of 64."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        sizes = (39, 64), (64, 64), (64, 4)
        self.weights = [rng.normal(size=size) / 8 for size in sizes]

    def __call__(self, observations: NDArray[Any]) -> NDArray[Any]:
        hidden = observations[:, :39]
        for weights in self.weights:
            hidden = np.tanh(hidden @ weights)
        return hidden


def sampler_player(policy: Policy, **kwargs: Any) -> tuple[Callable[[], int], Callable[[], None]]:
    """`MetaSampler` on the ten classes, one path of each; and what closes it."""
    env = MetaWorldSetTaskEnv("MT10", "train", max_episode_steps=None)
    sampler = MetaSampler(env, policy, 1, 10, EPISODE, seed=0, **kwargs)
    sampler.update_tasks()

    def play() -> int:
        paths = sampler.obtain_samples()
        return sum(len(path["rewards"]) for own in paths.values() for path in own)

    return play, sampler.close


def loop_player(envs: Any, policy: Policy) -> Callable[[], int]:
    """One episode of every environment of a vector environment, with the reset at its end."""
    obs, _ = envs.reset()

    def play() -> int:
        nonlocal obs
        for _ in range(EPISODE):
            obs, *_ = envs.step(policy(obs))
        return EPISODE * len(obs)

    return play


def envpool_player(policy: Policy) -> Callable[[], int] | None:
    """EnvPool with the same policy: ten environments of each class in its turn, 2 threads."""
    envs = make_pools(num_envs=10, num_threads=2)
    players = [loop_player(env, policy) for env in envs]
    return (lambda: sum(play() for play in players)) if envs else None


def compare(policy: Policy, rounds: int) -> dict[str, list[float]]:
    """Steps per second of all players."""
    closers, players = [], {}
    for name, where in (("step-wise", "parent"), ("path-wise", "workers")):
        kwargs = {"workers": 2, "policy_in": where}
        players[f"mtwrappers {name}, 2 workers"], close = sampler_player(policy, **kwargs)
        closers.append(close)
    theirs = gymnasium.make_vec("Meta-World/MT10", vector_strategy="sync", seed=0)
    players["Meta-World make_vec"] = loop_player(theirs, policy)
    if pool := envpool_player(policy):
        players["EnvPool, 2 threads"] = pool
    players["physics alone, 2 threads"] = physics_player()
    found = rates(players, rounds)
    for close in (*closers, theirs.close):
        close()
    return found


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
    for name, policy in (("random policy", Random()), ("two layers of 64", Layers())):
        found = results[name] = compare(policy, rounds)
        for other, least in targets.items():
            if other in found:
                what = f"{name}: path-wise / {other}"
                rows.append(target_row(what, ratio(found, path_wise, other), least))
    save("path_wise", {"rates": results, "targets": rows})
    print(machine()["cpu"], machine()["cores"], "cores")
    print(table(rows))


if __name__ == "__main__":
    main()
