"""Common parts of the tests of Meta-World: two classes that are quick to build, and episodes."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld import make_benchmark

PAIR = ["reach-v3", "push-v3"]
# Arguments of `MetaWorldSetTaskEnv`: these classes, with one-hots, and with hidden goals.
PAIR_ENV = {"benchmark": "CustomMT", "train_classes": PAIR, "num_goals": 3}
ONEHOT = {**PAIR_ENV, "add_env_onehot": True}
ML = {"benchmark": "CustomML", "train_classes": PAIR, "test_classes": ["drawer-open-v3"]}
HIDDEN = {**ML, "kind": "train", "num_goals": 3}
# Arguments of ids: where the environments run.
ITERATIVE = {"execution": "iterative"}
PARALLEL = {"execution": "parallel", "workers": 2}


def random_actions(n: int, seed: int = 0) -> NDArray[np.float32]:
    """Random actions, ``(n, 4)``."""
    return np.random.default_rng(seed).uniform(-1, 1, (n, 4)).astype(np.float32)


def run_episode(env: Any, n: int = 4, **reset: Any) -> list[Any]:
    """The results of a reset and ``n`` random steps after it, of one environment or of a vector."""
    shape = (getattr(env, "num_envs", 1), 1) if isinstance(env, gymnasium.vector.VectorEnv) else 1
    return [env.reset(**reset), *(env.step(np.tile(a, shape)) for a in random_actions(n))]


def untimed(results: Any) -> Any:
    """Results without the time that episodes took."""
    if isinstance(results, dict):
        return {key: untimed(value) for key, value in results.items() if key not in ("t", "_t")}
    return [*map(untimed, results)] if isinstance(results, (list, tuple)) else results


def make(name: str, **kwargs: Any) -> gymnasium.Env[Any, Any]:
    """One environment of ``mtwrappers/NAME-v0``."""
    return gymnasium.make(f"mtwrappers/{name}-v0", **kwargs)


def make_vec(name: str, num_envs: int = 1, **kwargs: Any) -> Any:
    """Its vector environment, to be used in a ``with`` statement, which closes it."""
    return closing(gymnasium.make_vec(f"mtwrappers/{name}-v0", num_envs, **kwargs))


def make_bare(name: str, task: Any = None, **kwargs: Any) -> Any:
    """Meta-World's own environment of a class, on ``task`` or on the first of the benchmark."""
    import metaworld

    env = metaworld.ALL_V3_ENVIRONMENTS[name](**kwargs)
    env.set_task(task or make_benchmark("MT1", env_name=name, num_goals=1).train_tasks[0])
    return env


def draw_task_per_class(env):
    """Draws a task of each class of a `MetaWorldSetTaskEnv`, in the order of the classes."""
    tasks = env.sample_tasks(len(env.task_names))
    return sorted(tasks, key=lambda task: env.task_names.index(task["inner"].env_name))
