"""Compares the fast classes with upstream's bit for bit, for ``mtwrappers verify-fast``."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import product
from multiprocessing import active_children, get_context, parent_process
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.types import Info
from mtwrappers.metaworld.experts import Expert, expert
from mtwrappers.metaworld.fast import fast_class
from mtwrappers.metaworld.interfaces import Sawyer, Task
from mtwrappers.metaworld.tasks import make_benchmark
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.vector.start_methods import deaf_to_ctrl_c

# The extent of a comparison: tasks per class, and steps per episode.
QUICK, FULL = (1, 40), (3, 500)


def compare_classes(
    extent: tuple[int, int], names: Sequence[str], workers: int
) -> Iterator[tuple[str, str | None]]:
    """Compares classes in workers; yields each name with its first difference, or ``None``.

    With ``workers=0``, this process compares them.
    """
    if workers == 0:
        for name in names:
            yield name, first_difference(name, *extent)
        return
    with ProcessPoolExecutor(workers, get_context("spawn"), _begin_worker) as pool:
        other_processes, interrupts = active_children(), []
        # Ctrl-C waits until workers have started, so that none of them prints a traceback.
        handler = signal.signal(signal.SIGINT, lambda *_: interrupts.append(signal.SIGINT))
        try:
            try:
                with deaf_to_ctrl_c("spawn"):
                    futures = {pool.submit(first_difference, name, *extent): name for name in names}
            finally:
                signal.signal(signal.SIGINT, handler)
            if interrupts:
                signal.raise_signal(signal.SIGINT)
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            for worker in active_children():
                if worker not in other_processes:
                    worker.terminate()
            raise


def _begin_worker() -> None:
    """Makes a worker end at Ctrl-C, and as soon as its parent has ended, in whatever way."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    # A pool's workers hold both ends of its pipes, so reading from them would wait for ever.
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def first_difference(name: str, num_tasks: int, steps: int) -> str | None:
    """The first difference of a fast class from upstream's, or ``None``."""
    cls = all_classes()[name]
    for version, benchmark in product(("v2", "v1"), ("MT1", "ML1")):  # the latter hides the goal
        tasks = make_benchmark(benchmark, env_name=name, num_goals=num_tasks).train_tasks
        stock = cls(reward_function_version=version)
        fast = fast_class(cls)(reward_function_version=version)
        # Every task is run twice: the first reset runs upstream's code, the later one restores a
        # snapshot, for which a tenth of the steps is enough.
        for turn, policy in enumerate(("expert", "random") * 2):
            n = steps if turn < 2 else steps // 10
            for k, task in enumerate(tasks):
                act = expert(name) if policy == "expert" else _random_policy(turn, k)
                difference = _compare_episode(stock, fast, task, act, n)
                if difference is not None:
                    run = f"{version} reward, {benchmark}, {policy} actions, task {k}"
                    return f"{run}: {difference}"
        stock.close()
        fast.close()
    return None


def _random_policy(*key: int) -> Expert:
    rng = Generator(PCG64(SeedSequence(0, spawn_key=key)))
    return lambda obs, goal: rng.uniform(-1, 1, 4).astype(np.float32)


def _compare_episode(
    stock: Sawyer, fast: Sawyer, task: Task, act: Expert, steps: int
) -> str | None:
    for env in (stock, fast):
        env.set_task(task)
    obs, fast_obs = stock.reset()[0], fast.reset()[0]
    if obs.tobytes() != fast_obs.tobytes() or integration_state(stock) != integration_state(fast):
        return f"reset gives {fast_obs}, expected {obs}"
    for t in range(steps):
        action = act(obs, stock._target_pos)
        returned = stock.step(action)
        obs = returned[0]
        expected, actual = _name_values(returned), _name_values(fast.step(action))
        if list(expected) != list(actual):
            return f"step {t}: info has {sorted(actual)}, expected {sorted(expected)}"
        for name, value in expected.items():
            if _bits(value) != _bits(actual[name]):
                return f"step {t}: {name} {actual[name]!r}, expected {value!r}"
        if integration_state(stock) != integration_state(fast):
            return f"step {t}: the simulation's state differs"
    return None


def _name_values(
    returned: tuple[NDArray[np.float64], float, bool, bool, Info],
) -> dict[str, object]:
    """The values that a step returned, by name."""
    names = ("observation", "reward", "terminated", "truncated")
    infos = {f"info[{key!r}]": value for key, value in returned[4].items()}
    return {**dict(zip(names, returned, strict=False)), **infos}


def _bits(value: Any) -> tuple[str, bytes]:
    # Scalars are compared by value, arrays also by dtype.
    array = value if isinstance(value, np.ndarray) else np.float64(value)
    return str(array.dtype), array.tobytes()


def integration_state(env: Sawyer) -> bytes:
    """The full integration state of a Sawyer environment's simulation."""
    import mujoco

    kind = mujoco.mjtState.mjSTATE_INTEGRATION
    values = np.empty(mujoco.mj_stateSize(env.model, kind))
    mujoco.mj_getState(env.model, env.data, values, kind)
    return values.tobytes()
