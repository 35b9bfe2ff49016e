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
    """How much to compare: which of Meta-World's reward functions, which actions, and so on."""

    tasks: int  # per class, each with a first reset
    steps: int  # per episode
    reward_versions: tuple[str, ...] = ("v2", "v1")
    goals_visible: tuple[bool, ...] = (True, False)
    policies: tuple[str, ...] = ("expert", "random")
    seed: int = 0  # of goals and random actions


QUICK = Extent(tasks=1, steps=40)
FULL = Extent(tasks=3, steps=500)


def verify(extent: Extent, names: Sequence[str], workers: int) -> Iterator[tuple[str, str | None]]:
    """Compares classes in workers; yields each name with its first difference, or ``None``."""
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
        returned = stock.step(action)
        obs, expected, actual = returned[0], _named(returned), _named(fast.step(action))
        if list(expected) != list(actual):
            return f"step {t}: info has {sorted(actual)}, expected {sorted(expected)}"
        for name, value in expected.items():
            if _bits(value) != _bits(actual[name]):
                return f"step {t}: {name} {actual[name]!r}, expected {value!r}"
        if state(stock) != state(fast):
            return f"step {t}: the simulation's state differs"
    return None


def _named(returned: Any) -> dict[str, Any]:
    """What a step returned, by names."""
    names = ("observation", "reward", "terminated", "truncated")
    infos = {f"info[{key!r}]": value for key, value in returned[4].items()}
    return {**dict(zip(names, returned, strict=False)), **infos}


def _bits(value: Any) -> tuple[str, bytes]:
    # Numbers of any kind are equal where their values are; arrays only of one dtype.
    array = np.asarray(value) if isinstance(value, np.ndarray) else np.float64(value)
    return str(array.dtype), array.tobytes()


def state(env: Any) -> bytes:
    """The full integration state of a Sawyer environment's simulation."""
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    values = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, values, kind)
    return values.tobytes()
