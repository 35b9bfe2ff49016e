"""What `gymnasium.make` and `gymnasium.make_vec` call for ``mtwrappers/MultiEnv-v0``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import gymnasium
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers.checks import check_choice, check_flag, check_list, check_mapping, check_string
from mtwrappers.selection import SelectName
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.make import fit_sizes, make_executor
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.multi_env import MultiEnvWrapper

Encoding: TypeAlias = Literal["onehot", "none", "dict"]

# Two classic tasks with the same three actions, so that the id works without arguments.
DEFAULT_IDS = ("Acrobot-v1", "MountainCar-v0")


def make_env(
    env_ids: Sequence[str] | None = None,
    *,
    task_encoding: Encoding = "onehot",
    unify: Literal["pad"] | None = None,
    select: SelectName = "uniform",
    render_mode: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
) -> gymnasium.Env[Any, Any]:
    """One environment that moves between registered environments; each reset draws the next.

    Args:
        env_ids: Registered ids; two of classic control, padded, by default.
        task_encoding: ``"onehot"``, ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        unify: ``"pad"`` appends zeros to the shorter observations.
        select: How the next task is drawn; see `mtwrappers.selection`.
        render_mode: Passed to every environment.
        env_kwargs: Passed to every environment.

    Raises:
        ValueError: If an argument is none of those, or the environments do not fit together.
    """
    given = _arguments(env_ids, unify, render_mode, env_kwargs)
    return _make(task_encoding, {**given, "select": select, "sample_tasks_on_reset": True})


def make_vec_env(
    num_envs: int = 1,
    env_ids: Sequence[str] | None = None,
    *,
    unify: Literal["pad"] | None = None,
    task_encoding: Encoding = "onehot",
    render_mode: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    envs_per_task: int | None = None,
    record_episode_statistics: bool = True,
    **executor: Any,
) -> MetaVectorEnv:
    """Sub-environments that each stay with one of the registered environments.

    The arguments are those of `make_env` and of `mtwrappers.vector.make.make_executor`;
    ``num_envs``, a multiple of the number of ids, where 1 (Gymnasium's default) means one per id;
    ``envs_per_task``, how many per id; and ``record_episode_statistics``, whether infos carry
    ``episode`` at an episode's end.

    Raises:
        ValueError: If ``num_envs`` does not fit; the message names sizes that do.
    """
    given = _arguments(env_ids, unify, render_mode, env_kwargs)
    check_flag(record_episode_statistics, "record_episode_statistics")
    num_ids = len(given["task_names"])
    per_id = fit_sizes(num_envs, envs_per_task, num_ids, "MultiEnv")
    if given["unify"] == "pad":
        # Known once here, so that a sub-environment need not build all the others to learn it.
        probe = MultiEnvWrapper(**_arguments(env_ids, unify, None, env_kwargs))
        given["env_observation_space"] = probe.env_observation_space
        probe.close()
    makers = [
        functools.partial(
            _make, task_encoding, {**given, "initial_task_state": i}, record_episode_statistics
        )
        for i in range(num_ids)
        for _ in range(per_id)
    ]
    return make_executor(makers, num_ids, per_id, **executor)


def _arguments(
    env_ids: Sequence[str] | None,
    unify: Literal["pad"] | None,
    render_mode: str | None,
    env_kwargs: dict[str, Any] | None,
) -> dict[str, Any]:
    """The arguments of `MultiEnvWrapper`."""
    kwargs = dict(check_mapping({} if env_kwargs is None else env_kwargs, "env_kwargs"))
    if render_mode is not None:
        kwargs["render_mode"] = check_string(render_mode, "render_mode")
    if env_ids is None:
        env_ids, unify = DEFAULT_IDS, "pad" if unify is None else unify
    check_choice(unify, ("pad", None), "unify")
    ids = check_list(env_ids, "env_ids", "registered id")
    for i, env_id in enumerate(ids):
        check_string(env_id, f"entry {i} of env_ids")
    makers = [functools.partial(gymnasium.make, env_id, **kwargs) for env_id in ids]
    return {"funcs_to_make_envs": makers, "task_names": ids, "unify": unify}


def _make(
    task_encoding: Encoding, arguments: dict[str, Any], record: bool = False
) -> gymnasium.Env[Any, Any]:
    check_choice(task_encoding, ("onehot", "none", "dict"), "task_encoding")
    multi = MultiEnvWrapper(**arguments)
    env = multi if task_encoding == "dict" else FlattenMTEnv(multi, task_encoding)
    return RecordEpisodeStatistics(env) if record else env
