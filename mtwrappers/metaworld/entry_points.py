"""What `gymnasium.make` and `gymnasium.make_vec` call for Meta-World's ids."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics, TimeLimit

from mtwrappers import seeding
from mtwrappers.checks import positive
from mtwrappers.metaworld.benchmarks import Kind, is_meta_learning, make_benchmark, split_of
from mtwrappers.metaworld.class_env import METADATA
from mtwrappers.metaworld.mt_env import MetaWorldMTEnv
from mtwrappers.metaworld.task_control import TaskControl
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.make import Execution, fit_sizes, make_executor
from mtwrappers.vector.parallel import TIMEOUT
from mtwrappers.wrappers.flatten import FlattenMTEnv

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
    *,
    checkpoint_id: str,
    max_episode_steps: int | None,
    record_episode_statistics: bool,
    **kwargs: Any,
) -> gymnasium.Env[Any, Any]:
    """An environment of a vector: with its time limit, statistics, and Meta-World's calls."""
    env = _single(**kwargs)
    if max_episode_steps is not None and max_episode_steps > 0:
        env = TimeLimit(env, max_episode_steps)
    if record_episode_statistics:
        env = RecordEpisodeStatistics(env)
    return TaskControl(env, checkpoint_id)


def make_vec_env(
    benchmark: str,
    num_envs: int = 1,
    *,
    kind: Kind = "train",
    env_name: str | None = None,
    train_classes: Sequence[str] | None = None,
    test_classes: Sequence[str] | None = None,
    num_goals: int = 50,
    seed: int | None = 0,
    envs_per_task: int | None = None,
    meta_batch_size: int | None = None,
    total_tasks_per_cls: int | None = None,
    max_episode_steps: int | None = 500,
    record_episode_statistics: bool = True,
    sample_tasks_on_reset: bool | None = None,
    execution: Execution | None = None,
    workers: int | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
    on_worker_failure: Literal["raise", "restart"] | None = None,
    timeout: float | None = TIMEOUT,
    context: str | None = None,
    **kwargs: Any,
) -> MetaVectorEnv:
    """Environments that each stay with one class, on one of our executors.

    Multi-task: a task group a class, ``envs_per_task`` environments each. Meta-learning:
    ``meta_batch_size`` groups spread over the classes as evenly as it goes; the groups of a class
    share its tasks out among them.

    Args:
        benchmark: The benchmark's name.
        num_envs: How many environments in all; 1 (Gymnasium's default) means the natural size.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: See `MetaWorldMTEnv`, as for the next four.
        train_classes: See `MetaWorldMTEnv`.
        test_classes: See `MetaWorldMTEnv`.
        num_goals: See `MetaWorldMTEnv`.
        seed: See `MetaWorldMTEnv`.
        envs_per_task: How many environments a task group, 1 by default.
        meta_batch_size: How many task groups, for meta-learning; one a class by default.
        total_tasks_per_cls: Use only this many tasks of each class; all by default.
        max_episode_steps: When to truncate.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        sample_tasks_on_reset: Whether each reset draws a task: by default yes for multi-task, and
            for meta-learning only with ``call("sample_tasks")``.
        execution: See `mtwrappers.vector.make.make_executor`, as for the last six.
        workers: See `make_executor`.
        autoreset_mode: See `make_executor`.
        on_worker_failure: See `make_executor`.
        timeout: See `make_executor`.
        context: See `make_executor`; with a ``render_mode``, ``"forkserver"`` by default.
        **kwargs: See `make_env`.

    Raises:
        ValueError: If sizes do not fit (the message names some that do), or an argument is none of
            those.
    """
    made = make_benchmark(
        benchmark,
        env_name=env_name,
        train_classes=train_classes,
        test_classes=test_classes,
        seed=seed,
        num_goals=num_goals,
    )
    classes = list(split_of(made, kind)[0])
    meta_learning = is_meta_learning(benchmark)
    goals = _goals_per_class(total_tasks_per_cls, num_goals)
    if meta_learning:
        each = 1 if envs_per_task is None else positive(envs_per_task, "envs_per_task")
        m = _meta_batch_size(meta_batch_size, num_envs, each, len(classes), goals)
        groups = _spread(m, len(classes), goals, f"{benchmark}-{kind}")
    else:
        if meta_batch_size is not None:
            raise ValueError(
                f"meta_batch_size is for meta-learning benchmarks, got {meta_batch_size} for "
                f"{benchmark}: pass envs_per_task"
            )
        each = fit_sizes(num_envs, envs_per_task, len(classes), benchmark)
        groups = [(c, range(goals)) for c in range(len(classes))]
    shared = {
        "benchmark": benchmark,
        "kind": kind,
        "env_name": env_name,
        "train_classes": train_classes,
        "test_classes": test_classes,
        "num_goals": num_goals,
        # Every environment must have the same goals, so entropy is drawn once, here.
        "seed": seeding.fresh_seed() if seed is None else seed,
        "sample_tasks_on_reset": (
            not meta_learning if sample_tasks_on_reset is None else sample_tasks_on_reset
        ),
        **kwargs,
    }
    makers = [
        functools.partial(
            make_class_env,
            checkpoint_id=f"{benchmark}-{kind}/{classes[c]}/{group * each + k}",
            max_episode_steps=max_episode_steps,
            record_episode_statistics=record_episode_statistics,
            task_states=[c * num_goals + goal for goal in own],
            **shared,
        )
        for group, (c, own) in enumerate(groups)
        for k in range(each)
    ]
    parallel = execution == "parallel" or (execution is None and workers not in (None, 1))
    if context is None and parallel and kwargs.get("render_mode") is not None:
        context = "forkserver"  # OpenGL does not survive a fork
    return make_executor(
        makers,
        len(groups),
        each,
        execution=execution,
        workers=workers,
        autoreset_mode=autoreset_mode,
        on_worker_failure=on_worker_failure,
        timeout=timeout,
        context=context,
    )


def _goals_per_class(total: int | None, num_goals: int) -> int:
    if total is None:
        return num_goals
    if not isinstance(total, (int, np.integer)) or not 1 <= total <= num_goals:
        raise ValueError(
            f"total_tasks_per_cls must be an integer and must be in [1, {num_goals}], got {total!r}"
        )
    return operator.index(total)


def _meta_batch_size(
    meta_batch_size: int | None, num_envs: int, each: int, num_classes: int, goals: int
) -> int:
    """How many task groups there are to be."""
    if meta_batch_size is not None:
        m = positive(meta_batch_size, "meta_batch_size")
        if num_envs not in (1, m * each):
            raise ValueError(
                f"num_envs must be meta_batch_size * envs_per_task = {m * each} (or 1, which "
                f"leaves it open), got {num_envs}"
            )
        return m
    if num_envs == 1:
        return num_classes
    low, high = num_classes, num_classes * goals
    if num_envs % each or not low <= num_envs // each <= high:
        raise ValueError(
            f"meta_batch_size must be in [{low}, {high}], got {num_envs / each:g}; so num_envs "
            f"must be a multiple of envs_per_task={each} from {low * each} to {high * each} (or "
            f"1, which leaves it open), got {num_envs}"
        )
    return num_envs // each


def _spread(
    meta_batch_size: int, num_classes: int, goals: int, what: str
) -> list[tuple[int, range]]:
    """The class of each task group, and which of the class's tasks are its own."""
    low, high = num_classes, num_classes * goals
    if not low <= meta_batch_size <= high:
        raise ValueError(
            f"{what} has {num_classes} classes of {goals} tasks: meta_batch_size must be in "
            f"[{low}, {high}], got {meta_batch_size}"
        )
    sizes = [
        meta_batch_size // num_classes + (c < meta_batch_size % num_classes)
        for c in range(num_classes)
    ]
    return [(c, range(i, goals, size)) for c, size in enumerate(sizes) for i in range(size)]
