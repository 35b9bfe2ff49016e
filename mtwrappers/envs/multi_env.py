"""What `gymnasium.make` and `gymnasium.make_vec` call for ``mtwrappers/MultiEnv-v0``."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
from gymnasium.spaces import Space
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers.checks import check_flag, check_list, check_mapping
from mtwrappers.selection import SelectName
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.make import fit_sizes, make_executor
from mtwrappers.wrappers.flatten import FlattenMTEnv
from mtwrappers.wrappers.multi_env import MultiEnvWrapper

# Two classic tasks with the same three actions, so that the id works without arguments.
DEFAULT_IDS = ("Acrobot-v1", "MountainCar-v0")


def make_env(
    env_ids: Sequence[str] | None = None,
    *,
    task_encoding: Literal["onehot", "none", "dict"] = "onehot",
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
    _check_encoding(task_encoding)
    ids, pad = _choose(env_ids, unify)
    env = MultiEnvWrapper(
        _makers(ids, render_mode, env_kwargs),
        task_names=ids,
        select=select,
        unify=pad,
        sample_tasks_on_reset=True,
    )
    return env if task_encoding == "dict" else FlattenMTEnv(env, task_encoding)


def make_vec_env(
    num_envs: int = 1,
    env_ids: Sequence[str] | None = None,
    *,
    unify: Literal["pad"] | None = None,
    task_encoding: Literal["onehot", "none", "dict"] = "onehot",
    render_mode: str | None = None,
    env_kwargs: dict[str, Any] | None = None,
    envs_per_task: int | None = None,
    record_episode_statistics: bool = True,
    **executor: Any,
) -> MetaVectorEnv:
    """Sub-environments that each stay with one of the registered environments.

    Args:
        num_envs: A multiple of the number of ids; 1 (Gymnasium's default) means one per id.
        env_ids: Registered ids; two of classic control, padded, by default.
        unify: ``"pad"`` appends zeros to the shorter observations.
        task_encoding: ``"onehot"``, ``"none"``, or ``"dict"`` for the observations of `MTEnv`.
        render_mode: Passed to every environment.
        env_kwargs: Passed to every environment.
        envs_per_task: How many environments per id.
        record_episode_statistics: Whether infos carry ``episode`` at an episode's end.
        **executor: The arguments of `mtwrappers.vector.make.make_executor`.

    Raises:
        ValueError: If ``num_envs`` does not fit; the message names sizes that do.
    """
    _check_encoding(task_encoding)
    ids, pad = _choose(env_ids, unify)
    check_flag(record_episode_statistics, "record_episode_statistics")
    per_id = fit_sizes(num_envs, envs_per_task, len(ids), "MultiEnv")
    space = None
    if pad:
        # Known once here, so that a sub-environment need not build all the others to learn it.
        probe = MultiEnvWrapper(_makers(ids, None, env_kwargs), unify=pad)
        space = probe.env_observation_space
        probe.close()
    makers = [
        functools.partial(
            _make_fixed,
            ids,
            index,
            pad,
            space,
            task_encoding,
            render_mode,
            env_kwargs,
            record_episode_statistics,
        )
        for index in range(len(ids))
        for _ in range(per_id)
    ]
    return make_executor(makers, len(ids), per_id, **executor)


def _check_encoding(task_encoding: Any) -> None:
    if task_encoding not in ("onehot", "none", "dict"):
        raise ValueError(
            f"task_encoding must be one of ['onehot', 'none', 'dict'], got {task_encoding!r}"
        )


def _choose(
    env_ids: Sequence[str] | None, unify: Literal["pad"] | None
) -> tuple[tuple[str, ...], Literal["pad"] | None]:
    if unify not in (None, "pad"):
        raise ValueError(f"unify must be 'pad' or None, got {unify!r}")
    if env_ids is None:
        return DEFAULT_IDS, "pad"
    return tuple(check_list(env_ids, "env_ids", "registered id")), unify


def _makers(
    ids: Sequence[str], render_mode: str | None, env_kwargs: dict[str, Any] | None
) -> list[functools.partial[gymnasium.Env[Any, Any]]]:
    kwargs = dict(check_mapping({} if env_kwargs is None else env_kwargs, "env_kwargs"))
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return [functools.partial(gymnasium.make, env_id, **kwargs) for env_id in ids]


def _make_fixed(
    ids: tuple[str, ...],
    index: int,
    pad: Literal["pad"] | None,
    space: Space[Any] | None,
    task_encoding: Literal["onehot", "none", "dict"],
    render_mode: str | None,
    env_kwargs: dict[str, Any] | None,
    record_episode_statistics: bool,
) -> gymnasium.Env[Any, Any]:
    """A sub-environment that stays with ``ids[index]``."""
    multi = MultiEnvWrapper(
        _makers(ids, render_mode, env_kwargs),
        index,
        task_names=ids,
        unify=pad,
        env_observation_space=space,
    )
    env = multi if task_encoding == "dict" else FlattenMTEnv(multi, task_encoding)
    return RecordEpisodeStatistics(env) if record_episode_statistics else env
