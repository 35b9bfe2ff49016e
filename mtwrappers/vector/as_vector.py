"""Any Gymnasium environments, side by side on an executor."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import gymnasium
from gymnasium.envs.registration import EnvSpec

from mtwrappers.common.checks import check_keywords
from mtwrappers.vector.arguments import Maker
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.make import EXECUTOR_OPTIONS, fit_sizes, make_executor

EnvFn: TypeAlias = str | EnvSpec | Maker


def as_vector(
    env_fns: EnvFn | Sequence[EnvFn], num_envs: int = 1, **executor: Any
) -> MetaVectorEnv:
    """Makes a vector environment of any Gymnasium environments.

    It takes the place of `gymnasium.vector.SyncVectorEnv` and `AsyncVectorEnv`, returns the same,
    bit for bit, on any number of workers, and has the methods of `MetaVectorEnv`. Environments play
    as they are: no wrapper is put around them. (Gymnasium's ``RecordEpisodeStatistics`` for vector
    environments goes on top.)

    Args:
        env_fns: A registered id, its spec, or a function that makes an environment; or a list of
            these. Ids need not be registered in workers.
        num_envs: How many environments in all, a multiple of the length of the list, so that as
            many of each stand side by side; 1 means one of each.
        **executor: The arguments of `mtwrappers.vector.make.make_executor`, as in `make_vec` of
            our ids: ``workers``, ``autoreset_mode`` (``"SameStep"`` by default, where Gymnasium
            has ``"NextStep"``), ``observation_mode``, ``journal``, ``on_worker_failure``,
            ``timeout``, ``context`` and others. Environments that draw with OpenGL in workers need
            ``context="forkserver"``.

    Returns:
        The vector environment. ``reset(seed=s)`` seeds environment ``i`` with ``s + i``. To
        `MetaVectorEnv.set_tasks` each entry of the list is a task.

    Raises:
        TypeError: If ``env_fns`` is none of those, or there is no such argument.
        ValueError: If ``num_envs`` does not fit, an argument is none of those, or the spaces of
            environments differ.
        gymnasium.error.Error: If there is no such id.
        Exception: Whatever a function raises, with the environment named.

    >>> envs = as_vector("CartPole-v1", 4, workers=2)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (4, 4)
    >>> envs.close()
    """
    check_keywords(executor, {"num_envs", *EXECUTOR_OPTIONS}, "as_vector")
    each: Sequence[Any] = env_fns if isinstance(env_fns, (list, tuple)) else [env_fns]
    if not each:
        raise ValueError("env_fns must name at least one environment, got an empty list")
    makers = [_maker(env_fn, i) for i, env_fn in enumerate(each)]
    copies = fit_sizes(num_envs, None, len(makers), "env_fns")
    return make_executor(
        [maker for maker in makers for _ in range(copies)], len(makers), copies, **executor
    )


def _maker(env_fn: Any, i: int) -> Maker:
    if isinstance(env_fn, str):
        module, _, name = env_fn.rpartition(":")
        if module:
            importlib.import_module(module)
        env_fn = gymnasium.spec(name)
    if isinstance(env_fn, EnvSpec):
        return functools.partial(gymnasium.make, env_fn)
    if callable(env_fn):
        maker: Maker = env_fn
        return maker
    what = "; give a function that makes it" if isinstance(env_fn, gymnasium.Env) else ""
    raise TypeError(
        f"entry {i} of env_fns must be an id, a spec or a function that makes an environment, got "
        f"{env_fn!r}{what}"
    )
