"""What `gymnasium.make` and `gymnasium.make_vec` call for Meta-World's ids."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import operator
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np

from mtwrappers.checks import check_keywords, positive
from mtwrappers.metaworld.benchmarks import Kind, is_meta_learning, make_benchmark, split_of
from mtwrappers.metaworld.class_env import METADATA, SawyerSettings
from mtwrappers.metaworld.inputs import INPUTS, Inputs, take_inputs
from mtwrappers.metaworld.mt_env import BenchmarkPart, MetaWorldMTEnv, part_of
from mtwrappers.metaworld.task_control import RecordingTaskControl, TaskControl
from mtwrappers.metaworld.upstream_keywords import KEYWORDS, translated
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.make import fit_sizes, make_executor
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

Env: TypeAlias = gymnasium.Env[Any, Any]
SETTINGS = [field.name for field in dataclasses.fields(SawyerSettings)]


def make_env(benchmark: str, **kwargs: Any) -> Env:
    """One environment that moves between the tasks of a benchmark.

    Args:
        benchmark: The benchmark's name.
        **kwargs: The arguments of `MetaWorldMTEnv` and of `Inputs`, or Meta-World's own names for
            them. With ``seed`` the action space is seeded too.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If an argument is none of those.
    """
    own = [name for name in inspect.signature(MetaWorldMTEnv).parameters if name != "settings"]
    known = [*own, *SETTINGS, *INPUTS, *KEYWORDS]
    vector: set[str] = {*inspect.signature(_make_vec_env).parameters}
    only_vector = (vector | {*inspect.signature(make_executor).parameters}) - {*known}
    check_keywords(kwargs, known, f"make of {benchmark}", dict.fromkeys(only_vector, _ONLY_VECTOR))
    kwargs = translated(benchmark, kwargs)
    kwargs.pop("execution", None)
    inputs = take_inputs(benchmark, kwargs)
    env = MetaWorldMTEnv(benchmark, **kwargs)
    if kwargs.get("seed") is not None:
        env.action_space.seed(kwargs["seed"])
    if inputs.task_encoding == "dict":
        return inputs.apply(env)
    return inputs.apply(FlattenMTEnv(env, inputs.task_encoding))


_ONLY_VECTOR = "it is for make_vec, without vectorization_mode"
# What `gymnasium.make` looks for on what it calls.
make_env.metadata = METADATA  # type: ignore[attr-defined]


def make_vec_env(benchmark: str, num_envs: int = 1, **kwargs: Any) -> MetaVectorEnv:
    """Environments that each stay with one class, on one of our executors.

    Multi-task: one task group per class, of ``envs_per_task`` environments. Meta-learning:
    ``meta_batch_size`` groups spread over the classes as evenly as it goes; the groups of a class
    share its tasks out among them.

    Args:
        benchmark: The benchmark's name.
        num_envs: How many environments in all; 1 (Gymnasium's default) means the natural size.
        **kwargs: The arguments of `_make_vec_env`, of `Inputs`, of `SawyerSettings` and of
            `make_executor`, or Meta-World's own names for them.

    Raises:
        TypeError: If there is no such argument; the message names what comes close.
        ValueError: If sizes do not fit (the message names some that do), or an argument is none of
            those.
    """
    known = [
        *(set(inspect.signature(_make_vec_env).parameters) - {"rest"}),
        *(set(inspect.signature(make_executor).parameters) - {"makers"}),
        *SETTINGS,
        *INPUTS,
        *KEYWORDS,
    ]
    check_keywords(kwargs, known, f"make_vec of {benchmark}")
    kwargs = translated(benchmark, kwargs)
    return _make_vec_env(benchmark, num_envs, take_inputs(benchmark, kwargs), **kwargs)


def _make_vec_env(
    benchmark: str,
    num_envs: int,
    inputs: Inputs,
    *,
    kind: Kind = "train",
    env_name: str | None = None,
    train_classes: Sequence[str] | None = None,
    test_classes: Sequence[str] | None = None,
    num_goals: int = 50,
    seed: int | None = None,
    envs_per_task: int | None = None,
    meta_batch_size: int | None = None,
    total_tasks_per_cls: int | None = None,
    select: Any = None,
    sample_tasks_on_reset: bool | None = None,
    terminate_on_success: bool = False,
    max_episode_steps: int | None = 500,
    record_episode_statistics: bool = True,
    **rest: Any,
) -> MetaVectorEnv:
    """Makes the environments; see `make_vec_env`.

    Args:
        benchmark: The benchmark's name.
        num_envs: How many environments in all; 1 (Gymnasium's default) means the natural size.
        inputs: How observations and rewards reach the learner.
        kind: ``"train"`` or ``"test"`` tasks.
        env_name: The class of MT1 and ML1.
        train_classes: The classes of CustomMT and CustomML.
        test_classes: The test classes of CustomML.
        num_goals: How many tasks per class.
        seed: Determines the goals, the action space's samples, and the first reset that is given no
            seed; ``None`` takes the goals of seed 0, and entropy for the rest.
        envs_per_task: How many environments per task group, 1 by default.
        meta_batch_size: How many task groups, for meta-learning; one per class by default.
        total_tasks_per_cls: Use only this many tasks of each class; all by default.
        select: How the next task is drawn; see `MetaWorldMTEnv`.
        sample_tasks_on_reset: Whether each reset draws a task: by default yes for multi-task, and
            for meta-learning only with ``call("sample_tasks")``.
        terminate_on_success: Whether a success ends the episode.
        max_episode_steps: When to truncate, ``None`` for never.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        **rest: The arguments of `SawyerSettings` and of `make_executor`.
    """
    made = make_benchmark(
        benchmark,
        env_name=env_name,
        train_classes=train_classes,
        test_classes=test_classes,
        seed=0 if seed is None else seed,
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
    if max_episode_steps is not None:
        positive(max_episode_steps, "max_episode_steps")
    settings = {name: rest.pop(name) for name in SETTINGS if name in rest}
    if sample_tasks_on_reset is None:
        sample_tasks_on_reset = not meta_learning
    makers = []
    for group, (c, own) in enumerate(groups):
        part = part_of(made, kind, [c * num_goals + goal for goal in own])
        for k in range(each):
            i = group * each + k
            make = functools.partial(
                make_slot,
                part,
                inputs,
                checkpoint_id=f"{benchmark}-{kind}/{classes[c]}/{i}",
                record_episode_statistics=record_episode_statistics,
                kind=kind,
                seed=None if seed is None else seed + i,
                select=select,
                sample_tasks_on_reset=sample_tasks_on_reset,
                terminate_on_success=terminate_on_success,
                max_episode_steps=max_episode_steps,
                **settings,
            )
            makers.append(make)
    workers = rest.get("workers")
    parallel = rest.get("execution") == "parallel" or (
        rest.get("execution") is None and workers not in (None, 1)
    )
    if rest.get("context") is None and parallel and settings.get("render_mode") is not None:
        rest["context"] = "forkserver"  # OpenGL does not survive a fork
    envs = make_executor(makers, len(groups), each, **rest)
    if seed is not None:
        envs.action_space.seed(seed)
    return envs


def make_slot(
    part: BenchmarkPart,
    inputs: Inputs,
    *,
    checkpoint_id: str,
    record_episode_statistics: bool,
    **kwargs: Any,
) -> TaskControl:
    """One environment of a vector: one class with its one-hot, and Meta-World's calls around it.

    Args:
        part: The tasks among which it moves, all of one class.
        inputs: How observations and rewards reach the learner.
        checkpoint_id: What tells its checkpoint from the others'.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        **kwargs: The arguments of `MetaWorldMTEnv`.
    """
    env: Env = MetaWorldMTEnv(part, **kwargs)
    if inputs.task_encoding != "dict":
        env = FlattenMTEnv(env, "none")
    if inputs.task_encoding == "onehot":
        env = TaskOnehotWrapper(env, part.task_ids[part.task_states[0]], max(part.task_ids) + 1)
    control = RecordingTaskControl if record_episode_statistics else TaskControl
    return control(inputs.apply(env), checkpoint_id)


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
