"""The comparison of the fast classes with upstream's, bit for bit: ``mtwrappers verify-fast``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from itertools import product
from multiprocessing import get_context
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.metaworld.benchmarks import make_benchmark
from mtwrappers.metaworld.experts import expert
from mtwrappers.metaworld.known_good import fast_class
from mtwrappers.metaworld.upstream import all_classes


@dataclass(frozen=True)
class Extent:
    """How much to compare.

    Args:
        tasks: How many tasks a class, each with a first reset.
        steps: How many steps an episode.
        reward_versions: Of Meta-World's reward functions.
        goals_visible: Whether observations show goals.
        policies: ``"expert"`` and ``"random"`` actions.
        seed: Determines goals and random actions.
    """

    tasks: int
    steps: int
    reward_versions: tuple[str, ...] = ("v2", "v1")
    goals_visible: tuple[bool, ...] = (True, False)
    policies: tuple[str, ...] = ("expert", "random")
    seed: int = 0


QUICK = Extent(tasks=1, steps=40)
FULL = Extent(tasks=3, steps=500)


def verify(
    extent: Extent, names: Sequence[str] | None = None, workers: int = 1
) -> Iterator[tuple[str, str | None]]:
    """Compares classes; yields each name with its first difference, or ``None``.

    Args:
        extent: How much to compare.
        names: Which classes; all by default.
        workers: How many processes.
    """
    names = list(all_classes()) if names is None else list(names)
    if workers == 1:
        for name in names:
            yield name, first_difference(name, extent)
        return
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(first_difference, name, extent): name for name in names}
        for future in as_completed(futures):
            yield futures[future], future.result()


def first_difference(name: str, extent: Extent) -> str | None:
    """Where a fast class first differs from upstream's, or ``None``."""
    cls = all_classes()[name]
    for version, visible in product(extent.reward_versions, extent.goals_visible):
        benchmark = make_benchmark(
            "MT1" if visible else "ML1", env_name=name, seed=extent.seed, num_goals=extent.tasks
        )
        tasks = benchmark.train_tasks
        stock = cls(reward_function_version=version)
        fast = fast_class(cls)(reward_function_version=version)
        # Every task twice: its first reset runs upstream's code, its later one a snapshot.
        for turn, policy in enumerate(extent.policies * 2):
            for k, task in enumerate(tasks):
                found = _compare_episode(name, stock, fast, task, policy, extent, (turn, k))
                if found is not None:
                    shown = "visible" if visible else "hidden"
                    return f"{version} reward, {shown} goal, {policy} actions, task {k}: {found}"
        stock.close()
        fast.close()
    return None


def _compare_episode(
    name: str, stock: Any, fast: Any, task: Any, policy: str, extent: Extent, key: tuple[int, int]
) -> str | None:
    rng = Generator(PCG64(SeedSequence(extent.seed, spawn_key=key)))
    act = expert(name)
    for env in (stock, fast):
        env.set_task(task)
    obs, other = stock.reset()[0], fast.reset()[0]
    if obs.tobytes() != other.tobytes() or state(stock) != state(fast):
        return f"reset gives {other}, expected {obs}"
    # Later turns are there for their resets: a tenth of the steps is enough for them.
    for t in range(extent.steps if key[0] < len(extent.policies) else extent.steps // 10):
        if policy == "expert":
            action = act(obs, stock._target_pos)
        else:
            action = rng.uniform(-1, 1, 4).astype(np.float32)
        expected, actual = stock.step(action), fast.step(action)
        obs = expected[0]
        difference = _difference(expected, actual)
        if difference is None and state(stock) != state(fast):
            difference = "the simulation's state differs"
        if difference is not None:
            return f"step {t}: {difference}"
    return None


def _difference(expected: Any, actual: Any) -> str | None:
    if expected[0].tobytes() != actual[0].tobytes() or expected[0].dtype != actual[0].dtype:
        return f"observation {actual[0]}, expected {expected[0]}"
    for what, one, two in zip(
        ("reward", "terminated", "truncated"), expected[1:4], actual[1:4], strict=True
    ):
        if _bits(one) != _bits(two):
            return f"{what} {two!r}, expected {one!r}"
    if list(expected[4]) != list(actual[4]):
        return f"info has {sorted(actual[4])}, expected {sorted(expected[4])}"
    for key, value in expected[4].items():
        if _bits(value) != _bits(actual[4][key]):
            return f"info[{key!r}] {actual[4][key]!r}, expected {value!r}"
    return None


def _bits(value: Any) -> bytes:
    return np.float64(value).tobytes()


def state(env: Any) -> bytes:
    """The full integration state of a Sawyer environment's simulation."""
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    values = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, values, kind)
    return values.tobytes()
