"""What `gymnasium.make` and `gymnasium.make_vec` call for Meta-World's ids."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from mtwrappers.metaworld.benchmarks import is_meta_learning
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.mt_env import MetaWorldMTEnv
from mtwrappers.wrappers.entry_points import envs_per_task
from mtwrappers.wrappers.flatten_mtenv import FlattenMTEnv

TASK_ENCODINGS = ("onehot", "none", "dict")


class EntryPoint:
    """A function with the ``metadata`` that `gymnasium.make` looks for on what it calls."""

    def __init__(self, function: Callable[..., Any], metadata: dict[str, Any]) -> None:
        self.metadata = metadata
        functools.update_wrapper(self, function)
        self._function = function

    def __call__(self, **kwargs: Any) -> Any:
        """Calls the function."""
        return self._function(**kwargs)


def default_task_encoding(benchmark: str) -> str:
    """One-hot where there are several tasks to tell apart; meta-learners must find out."""
    return "none" if is_meta_learning(benchmark) or benchmark == "MT1" else "onehot"


def _single(
    benchmark: str, *, task_encoding: str | None = None, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    """One environment that moves between the tasks of a benchmark.

    Args:
        benchmark: The benchmark's name.
        task_encoding: ``"onehot"``, ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        **kwargs: See `MetaWorldMTEnv`.
    """
    if task_encoding is None:
        task_encoding = default_task_encoding(benchmark)
    if task_encoding not in TASK_ENCODINGS:
        raise ValueError(
            f"task_encoding must be one of {list(TASK_ENCODINGS)}, got {task_encoding!r}"
        )
    env = MetaWorldMTEnv(benchmark, **kwargs)
    return env if task_encoding == "dict" else FlattenMTEnv(env, task_encoding)  # type: ignore[arg-type]


make_env = EntryPoint(_single, METADATA)


def make_class_env(
    *, max_episode_steps: int | None, record_episode_statistics: bool, **kwargs: Any
) -> gymnasium.Env[Any, Any]:
    """A sub-environment: one environment with its time limit and statistics."""
    env = _single(**kwargs)
    if max_episode_steps is not None and max_episode_steps > 0:
        env = TimeLimit(env, max_episode_steps)
    return RecordEpisodeStatistics(env) if record_episode_statistics else env


def make_vec_env(
    benchmark: str,
    num_envs: int = 1,
    *,
    kind: str = "train",
    max_episode_steps: int | None = 500,
    record_episode_statistics: bool = True,
    autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
    num_goals: int = 50,
    **kwargs: Any,
) -> VectorEnv[Any, Any, Any]:
    """Sub-environments that each stay with one class.

    Args:
        benchmark: The benchmark's name.
        num_envs: A multiple of the number of classes; 1 (Gymnasium's default) means one a class.
        kind: ``"train"`` or ``"test"`` tasks.
        max_episode_steps: When to truncate.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        num_goals: How many tasks a class.
        **kwargs: See `make_env`.

    Raises:
        ValueError: If ``num_envs`` does not fit; the message names sizes that do.
    """
    shared = {"benchmark": benchmark, "kind": kind, "num_goals": num_goals, **kwargs}
    probe = MetaWorldMTEnv(**{k: v for k, v in shared.items() if k != "task_encoding"})
    n = len(probe.class_names)
    per_class = envs_per_task(num_envs, n, benchmark)
    makers = [
        functools.partial(
            make_class_env,
            max_episode_steps=max_episode_steps,
            record_episode_statistics=record_episode_statistics,
            task_indices=range(i * num_goals, (i + 1) * num_goals),
            **shared,
        )
        for i in range(n)
        for _ in range(per_class)
    ]
    return SyncVectorEnv(makers, autoreset_mode=autoreset_mode)
