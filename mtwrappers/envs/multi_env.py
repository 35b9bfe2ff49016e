"""The functions behind ``mtwrappers/MultiEnv-v0``, for `gymnasium.make` and `make_vec`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, Unpack

import gymnasium
from gymnasium.error import DeprecatedEnv, Error, UnregisteredEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from numpy.typing import ArrayLike

from mtwrappers.common.checks import (
    check_choice,
    check_each,
    check_keywords,
    check_limit,
    check_list,
    check_mapping,
    check_string,
)
from mtwrappers.common.errors import with_place
from mtwrappers.core.pad_spaces import Padding, Unify
from mtwrappers.core.selection import SelectName
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import (
    EXECUTOR_OPTIONS,
    VECTOR_HINT,
    VectorOptions,
    fit_sizes,
    make_executor,
)
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.multi_env import MultiEnvWrapper

Encoding: TypeAlias = Literal["onehot", "none", "dict"]
EnvKwargs: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]]

# Two classic tasks with the same three actions, so that the id works without arguments.
DEFAULT_IDS = ("Acrobot-v1", "MountainCar-v0")


def make_env(
    env_ids: Sequence[str] | None = None,
    *,
    task_names: Sequence[str] | None = None,
    task_encoding: Encoding = "onehot",
    task_embedding: ArrayLike | None = None,
    action_repeat: int | Sequence[int | None] | None = None,
    unify: Unify = None,
    select: SelectName = "uniform",
    render_mode: str | None = None,
    env_kwargs: EnvKwargs | None = None,
    **unknown: Any,
) -> gymnasium.Env[Any, Any]:
    """Makes one environment that switches between registered ones; each reset draws the next.

    Args:
        env_ids: Registered ids; by default two of classic control, padded.
        task_names: The names of the tasks, which must differ; by default the ids.
        task_encoding: ``"onehot"``, ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        task_embedding: A vector for each task, ``(num_tasks, E)`` numbers, appended to the
            observation, before a one-hot.
        action_repeat: The number of environment steps for which each action is repeated, or a list
            with one number for each environment.
        unify: ``"pad"``, or a dict of settings, pads observations and actions to one length; see
            `MultiEnvWrapper`.
        select: How the next task is drawn; see `mtwrappers.core.selection`.
        render_mode: Passed to every environment.
        env_kwargs: Passed to every environment, or a list with a dict for each, which may contain
            ``max_episode_steps``.
        **unknown: Must be empty.

    Raises:
        TypeError: If an argument is unknown, with a hint, or has the wrong type, or spaces cannot
            be padded.
        DeprecatedEnv, UnregisteredEnv: If an id is not registered.
        ValueError: If an argument is none of the above, or the environments' spaces differ.

    >>> import gymnasium, mtwrappers
    >>> ids = ["Acrobot-v1", "MountainCar-v0"]  # observations of 6 and of 2 numbers
    >>> env = gymnasium.make("mtwrappers/MultiEnv-v0", env_ids=ids, unify="pad")
    >>> obs, info = env.reset(seed=0)
    >>> obs.shape, info["task_name"]
    ((8,), 'MountainCar-v0')
    """
    names = _name_arguments(make_env)
    only_vector = EXECUTOR_OPTIONS.union(_name_arguments(make_vec_env)).difference(names)
    hints = dict.fromkeys(only_vector, VECTOR_HINT)
    check_keywords(unknown, names, "make of MultiEnv", hints)
    arguments = _wrapper_arguments(env_ids, task_names, unify, render_mode, env_kwargs)
    arguments |= {
        "action_repeat": action_repeat,
        "task_embedding": task_embedding,
        "select": select,
        "sample_tasks_on_reset": True,
    }
    return _make(task_encoding, arguments)


def make_vec_env(
    num_envs: int = 1,
    env_ids: Sequence[str] | None = None,
    *,
    task_names: Sequence[str] | None = None,
    task_encoding: Encoding = "onehot",
    task_embedding: ArrayLike | None = None,
    action_repeat: int | Sequence[int | None] | None = None,
    unify: Unify = None,
    max_episode_steps: int | Sequence[int | None] | None = None,
    render_mode: str | None = None,
    env_kwargs: EnvKwargs | None = None,
    envs_per_task: int | None = None,
    **options: Unpack[VectorOptions],
) -> MetaVectorEnv:
    """Makes a vector environment in which each sub-environment runs one registered environment.

    Args:
        num_envs: The total number of environments, a multiple of the number of ids; 1 (Gymnasium's
            default) means one per id.
        env_ids: Registered ids; by default two of classic control, padded.
        task_names: The names of the tasks, which must differ; by default the ids.
        task_encoding: ``"onehot"``, ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        task_embedding: A vector for each task, ``(num_tasks, E)`` numbers, appended to the
            observation, before a one-hot.
        action_repeat: The number of environment steps for which each action is repeated, or a list
            with one number for each id.
        unify: ``"pad"``, or a dict of its arguments, pads observations and actions to one length;
            see `MultiEnvWrapper`.
        max_episode_steps: The number of environment steps after which episodes are truncated, or a
            list with one number for each id; as in `gymnasium.make`, ``None`` is the limit that the
            id is registered with, and -1 is no limit.
        render_mode: Passed to every environment.
        env_kwargs: Passed to every environment, or a list with a dict for each id.
        envs_per_task: The number of environments per id, by default 1.
        **options: ``execution``, which `mtwrappers.vector.make.make_executor` describes, and what
            `mtwrappers.vector.settings.Settings` does: ``autoreset_mode``, ``workers``,
            ``on_worker_failure``, ``journal``, ``timeout``, ``context`` and ``ray_options``.

    Raises:
        TypeError: If an argument is unknown, with a hint, or has the wrong type.
        DeprecatedEnv, UnregisteredEnv: If an id is not registered.
        ValueError: If ``num_envs`` does not fit (the message names sizes that do), or names do not
            differ.

    >>> import gymnasium, mtwrappers
    >>> ids = ["Acrobot-v1", "MountainCar-v0"]
    >>> envs = gymnasium.make_vec("mtwrappers/MultiEnv-v0", num_envs=4, env_ids=ids, unify="pad")
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, infos["task_id"]
    ((4, 8), array([0, 0, 1, 1]))
    >>> envs.close()
    """
    names = EXECUTOR_OPTIONS.union(_name_arguments(make_vec_env))
    hints = {"select": "it is for gymnasium.make: here each environment stays on its task"}
    check_keywords(options, names, "make_vec of MultiEnv", hints)
    arguments = _wrapper_arguments(
        env_ids, task_names, unify, render_mode, env_kwargs, max_episode_steps
    )
    num_ids = len(arguments["funcs_to_make_envs"])
    per_id = fit_sizes(num_envs, envs_per_task, num_ids, "MultiEnv")
    if arguments["unify"] is not None:
        undrawn = _wrapper_arguments(env_ids, task_names, unify, None, env_kwargs)
        arguments["unify"] = _compute_padding(undrawn)
    arguments |= {"action_repeat": action_repeat, "task_embedding": task_embedding}
    makers = [
        functools.partial(_make_slot, task_encoding, {**arguments, "initial_task_state": i})
        for i in range(num_ids)
        for _ in range(per_id)
    ]
    return make_executor(makers, num_ids, per_id, **options)


def _name_arguments(function: Callable[..., Any]) -> list[str]:
    """The names of a function's arguments, without that of all other ones."""
    parameters = inspect.signature(function).parameters.values()
    return [
        parameter.name for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD
    ]


def _compute_padding(arguments: Mapping[str, Any]) -> Padding | None:
    """The common padding, computed once so that no environment has to build the others."""
    probe = MultiEnvWrapper(**arguments)
    probe.close()
    return probe.padding


def _wrapper_arguments(
    env_ids: Sequence[str] | None,
    task_names: Sequence[str] | None,
    unify: Unify,
    render_mode: str | None,
    env_kwargs: EnvKwargs | None,
    max_episode_steps: int | Sequence[int | None] | None = None,
) -> dict[str, Any]:
    """The arguments of `MultiEnvWrapper`."""
    if env_ids is None:
        env_ids, unify = DEFAULT_IDS, "pad" if unify is None else unify
    ids = check_list(env_ids, "env_ids", "registered id")
    for i, env_id in enumerate(ids):
        if callable(env_id):
            raise TypeError(
                f"entry {i} of env_ids must be a string, got {env_id!r}; register the function "
                "with gymnasium.register under an id of its own"
            )
        _check_registered(check_string(env_id, f"entry {i} of env_ids"), i)
    common = {}
    if render_mode is not None:
        common["render_mode"] = check_string(render_mode, "render_mode")
    kwargs_per_id = check_each(env_kwargs, len(ids), "env_kwargs", check_mapping)
    limits = check_each(max_episode_steps, len(ids), "max_episode_steps", check_limit)
    makers = []
    for env_id, kwargs, limit in zip(ids, kwargs_per_id, limits, strict=True):
        arguments = {**(kwargs or {}), **common}
        if limit is not None:
            if "max_episode_steps" in arguments:
                raise ValueError(
                    f"pass max_episode_steps of {env_id!r} as an argument or in env_kwargs, got "
                    f"{limit} and {arguments['max_episode_steps']!r}"
                )
            arguments["max_episode_steps"] = limit
        makers.append(functools.partial(gymnasium.make, env_id, **arguments))
    repeated = sorted({env_id for env_id in ids if ids.count(env_id) > 1})
    if task_names is None and repeated:
        raise ValueError(
            f"env_ids has {repeated} more than once, and tasks need different names: pass a name "
            "for each of them as task_names"
        )
    names = ids if task_names is None else task_names
    return {"funcs_to_make_envs": makers, "task_names": names, "unify": unify}


def _check_registered(env_id: str, i: int) -> None:
    """Raises Gymnasium's error for an unknown id, even if its environment is built much later."""
    if ":" in env_id:  # the module before the colon registers it when it is built
        return
    try:
        gymnasium.spec(env_id)
    except (DeprecatedEnv, UnregisteredEnv) as exc:
        with_place(exc, f"entry {i} of env_ids")
        raise
    except Error:
        pass  # an id without its version, which gymnasium.make completes


def _make_slot(task_encoding: Encoding, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    return RecordEpisodeStatistics(_make(task_encoding, arguments))


def _make(task_encoding: Encoding, arguments: dict[str, Any]) -> gymnasium.Env[Any, Any]:
    check_choice(task_encoding, ("onehot", "none", "dict"), "task_encoding")
    multi = MultiEnvWrapper(**arguments)
    return multi if task_encoding == "dict" else FlattenMTEnv(multi, task_encoding)
