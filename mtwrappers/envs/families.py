"""The functions behind the ids of families of tasks, for `gymnasium.make` and `make_vec`."""

from __future__ import annotations

import functools
from typing import Any, Literal, TypeAlias

import gymnasium
from gymnasium.wrappers import TimeLimit

from mtwrappers.common.checks import check_choice, check_keywords, check_limit, positive
from mtwrappers.envs.family import Family, FamilyTasks, ListName, TaskFamilyEnv
from mtwrappers.envs.mujoco_families import MUJOCO_FAMILIES
from mtwrappers.envs.point_robot import POINT_FAMILIES
from mtwrappers.envs.tabular import TABULAR_FAMILIES
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import EXECUTOR_OPTIONS, VECTOR_HINT, fit_sizes, make_executor
from mtwrappers.wrappers.flatten import FlattenMTEnv

Encoding: TypeAlias = Literal["none", "dict"]

FAMILIES: dict[str, Family] = {
    family.name: family for family in (*MUJOCO_FAMILIES, *POINT_FAMILIES, *TABULAR_FAMILIES)
}

# The arguments by name of `make_env`, besides the settings of the family, and those that only
# `make_vec_env` has, besides the options of executors.
_ENV_ARGUMENTS = {"source", "tasks", "task_encoding", "episode_steps", "render_mode"}
_VECTOR_ARGUMENTS = {"num_envs", "meta_batch_size", "max_episode_steps"}
# Names that other libraries give to a number of tasks, and what is known here instead.
_COUNTS = ("n_tasks", "num_tasks")
_HINT_AT_TASKS = "tasks is 'train' or 'test', a published list; "


def make_env(
    family: str,
    source: str | None = None,
    *,
    tasks: ListName | None = None,
    task_encoding: Encoding = "none",
    episode_steps: int | None = None,
    render_mode: str | None = None,
    **settings: Any,
) -> gymnasium.Env[Any, Any]:
    """Makes a `TaskFamilyEnv`, whose resets draw a task unless one was set.

    Args:
        family: The name of the family, which the id has.
        source: The publication whose tasks, reward, observation and length it has; by default the
            first of its row in the guide to families.
        tasks: ``"train"`` or ``"test"`` draws from the list that the source has published.
        task_encoding: ``"none"`` hides the task; ``"dict"`` has the observations of `MTEnv`, in
            which ``task_obs`` is the task.
        episode_steps: The number of steps until truncation; by default that of the source, and -1
            for no limit. Gymnasium does not pass ``max_episode_steps`` of `gymnasium.make` on: it
            can only shorten episodes, and its -1 does not lift the limit.
        render_mode: Passed to the environment.
        **settings: Further arguments of the family.

    Raises:
        TypeError: If a setting is unknown.
        ValueError: If an argument is none of these.
        DependencyNotInstalled: If the environment's simulator is not installed.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/AntGoal-v0", task_encoding="dict")
    >>> obs, info = env.reset(seed=0, options={"task_state": {"goal": (0.5, -0.5)}})
    >>> obs["task_obs"]
    {'goal': array([ 0.5, -0.5])}
    """
    check_choice(task_encoding, ("none", "dict"), "task_encoding")
    row = FAMILIES[check_choice(family, tuple(FAMILIES), "family")]
    hints = dict.fromkeys(EXECUTOR_OPTIONS | _VECTOR_ARGUMENTS, VECTOR_HINT)
    draws = "env.unwrapped.sample_tasks(n) draws n tasks for env.unwrapped.set_task(task)"
    hints |= dict.fromkeys(_COUNTS, _HINT_AT_TASKS + draws)
    hints["max_path_length"] = "episode_steps is the number of steps until truncation"
    check_keywords(settings, _ENV_ARGUMENTS | {*row.settings}, f"make of {family}", hints)
    chosen = row.find_source(source)
    listed = row.load_tasks(source, tasks)
    inner: Any = chosen.make(render_mode=render_mode, **settings)
    env: gymnasium.Env[Any, Any] = TaskFamilyEnv(inner, FamilyTasks(inner.distributions, listed))
    if task_encoding == "none":
        env = FlattenMTEnv(env, "none")
    limit = chosen.episode_steps
    if episode_steps is not None:
        limit = check_limit(episode_steps, "episode_steps")
    return env if limit == -1 else TimeLimit(env, limit)


def make_vec_env(
    num_envs: int = 1,
    *,
    family: str,
    source: str | None = None,
    tasks: ListName | None = None,
    meta_batch_size: int | None = None,
    max_episode_steps: int | None = None,
    **options: Any,
) -> MetaVectorEnv:
    """Makes a vector environment of a family, for `gymnasium.make_vec`.

    Until `MetaVectorEnv.set_tasks` is called, each environment draws a task of its own at every
    reset. With a published list and no ``meta_batch_size``, there is a group of environments for
    each task of the list instead, which stays on it.

    Args:
        num_envs: The total number of environments; 1 (Gymnasium's default) means one per task.
        family: The name of the family, which the id has.
        source: As in `make_env`.
        tasks: As in `make_env`.
        meta_batch_size: The number of tasks; by default ``num_envs``, or that of the list.
        max_episode_steps: The number of steps until truncation, the same as ``episode_steps`` of
            `make_env`.
        **options: ``task_encoding``, ``render_mode`` and the settings of the family, as in
            `make_env`; ``execution``, ``workers``, ``autoreset_mode`` and the other arguments of
            `mtwrappers.vector.make.make_executor`.

    Raises:
        TypeError: If an option is unknown.
        ValueError: If ``num_envs`` does not fit, or where `make_env` raises it.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/AntGoal-v0", num_envs=6, meta_batch_size=3)
    >>> obs, infos = envs.reset(seed=0)  # determines the tasks that are drawn later
    >>> envs.set_tasks(envs.call("sample_tasks", 3)[0])
    >>> obs, infos = envs.reset()
    >>> obs.shape, infos["task"]["goal"].shape
    ((6, 113), (6, 2))
    >>> infos["task"]["goal"][::2].round(2)  # each is the task of two environments
    array([[-1.49, -1.26],
           [ 1.17, -2.36],
           [-2.3 , -0.91]])
    >>> envs.close()
    """
    row = FAMILIES[check_choice(family, tuple(FAMILIES), "family")]
    env_names = _ENV_ARGUMENTS | {*row.settings}
    hints = {"envs_per_task": "pass num_envs and meta_batch_size"}
    hints |= dict.fromkeys(_COUNTS, _HINT_AT_TASKS + "meta_batch_size is the number of tasks")
    hints["max_path_length"] = "max_episode_steps is the number of steps until truncation"
    names = EXECUTOR_OPTIONS | _VECTOR_ARGUMENTS | env_names
    check_keywords(options, names, f"make_vec of {family}", hints)
    listed = row.load_tasks(source, tasks)
    arguments = {name: options.pop(name) for name in env_names & set(options)}
    arguments |= {"family": family, "source": source, "tasks": tasks}
    if max_episode_steps is not None:
        if "episode_steps" in arguments:
            raise ValueError(
                "pass max_episode_steps or episode_steps, which are the same; got "
                f"{max_episode_steps=} and episode_steps={arguments['episode_steps']!r}"
            )
        arguments["episode_steps"] = check_limit(max_episode_steps, "max_episode_steps")
    if meta_batch_size is not None:
        num_tasks = positive(meta_batch_size, "meta_batch_size")
    else:
        num_tasks = positive(num_envs, "num_envs") if listed is None else len(listed)
    name = family if meta_batch_size is None else f"{family} with {meta_batch_size=}"
    envs_per_task = fit_sizes(num_envs, None, num_tasks, name)
    keeps_tasks = listed is not None and meta_batch_size is None
    makers = [
        functools.partial(_make_slot, task if keeps_tasks else None, arguments)
        for task in range(num_tasks)
        for _ in range(envs_per_task)
    ]
    renders = arguments.get("render_mode") is not None
    return make_executor(makers, num_tasks, envs_per_task, renders=renders, **options)


def _make_slot(task: int | None, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    """Makes an environment, which stays on a task of its list if there is an index of one."""
    env = make_env(**arguments)
    if task is not None:
        family_env: Any = env.unwrapped
        family_env.set_task(family_env.tasks[task])
    return env
