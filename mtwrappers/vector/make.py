"""Makes executors, for registered ids and for any Gymnasium environments."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import gymnasium
from gymnasium.envs.registration import EnvSpec

from mtwrappers.common.checks import check_choice, check_keywords, positive
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.executors import (
    Executor,
    MetaIterativeEnvExecutor,
    MetaParallelEnvExecutor,
    MetaRayEnvExecutor,
)
from mtwrappers.vector.settings import OPTIONS, Maker

Execution: TypeAlias = Literal["parallel", "iterative", "ray"]
EXECUTORS: dict[str, type[Executor]] = {
    executor.execution: executor
    for executor in (MetaParallelEnvExecutor, MetaIterativeEnvExecutor, MetaRayEnvExecutor)
}
# The arguments that registered ids pass to `make_executor`.
EXECUTOR_OPTIONS = {"execution", *OPTIONS}


def make_executor(
    makers: Sequence[Maker],
    meta_batch_size: int,
    envs_per_task: int = 1,
    *,
    execution: Execution | None = None,
    renders: bool = False,
    **options: Any,
) -> MetaVectorEnv:
    """Makes an executor from one constructor per environment.

    Args:
        makers: ``M * K`` constructors, task by task.
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        execution: ``"parallel"``, ``"iterative"`` or ``"ray"``; by default parallel if ``workers``
            is above 1, else iterative.
        renders: Whether environments draw with OpenGL, which is not fork-safe.
        **options: ``autoreset_mode``, ``unify``, ``workers``, ``on_worker_failure``, ``journal``,
            ``timeout``, ``context`` and ``ray_options``, which
            `mtwrappers.vector.settings.Settings` describes. ``None`` stands for the default,
            except for ``timeout``.

    Raises:
        TypeError: If an option is unknown; the message suggests similar names.
        ValueError: If an argument is none of those, or does not apply to the execution.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers.vector.make import make_executor
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 8.0, 10.0, 10.0)]
    >>> envs = make_executor(makers, 2, 2, autoreset_mode="NextStep")
    >>> obs, infos = envs.reset(seed=0)
    >>> type(envs).__name__, obs.shape
    ('MetaIterativeEnvExecutor', (4, 3))
    >>> envs.close()
    """
    check_choice(execution, (*EXECUTORS, None), "execution")
    check_keywords(options, EXECUTOR_OPTIONS, "make_vec")
    given = {name: value for name, value in options.items() if value is not None}
    if "timeout" in options:
        given["timeout"] = options["timeout"]
    if execution is None:
        execution = "parallel" if positive(given.get("workers", 1), "workers") > 1 else "iterative"
    if execution == "parallel" and renders:
        given.setdefault("context", "forkserver")
    return EXECUTORS[execution](makers, meta_batch_size, envs_per_task, **given)


def fit_sizes(num_envs: int, envs_per_task: int | None, num_tasks: int, what: str) -> int:
    """The number of environments per task; messages call the set of tasks ``what``.

    ``num_envs=1`` (Gymnasium's default) and ``envs_per_task=None`` stand for the default size.
    """
    n = num_tasks
    total = positive(num_envs, "num_envs")
    each = 1 if envs_per_task is None else positive(envs_per_task, "envs_per_task")
    if total in (1, n * each):
        return each
    if envs_per_task is None and total % n == 0:
        return total // n
    fits = f"num_envs must be a multiple of {n} ({n}, {2 * n}, {3 * n}, ...)"
    if envs_per_task is not None:
        fits = f"with {envs_per_task=}, num_envs must be {n * each}"
    raise ValueError(f"{what} has {n} tasks: {fits} or 1 (the default size), got {total}")


EnvFn: TypeAlias = str | EnvSpec | Maker


def as_vector(
    env_fns: EnvFn | Sequence[EnvFn], num_envs: int = 1, **executor: Any
) -> MetaVectorEnv:
    """Makes a vector environment from any Gymnasium environments.

    It replaces `gymnasium.vector.SyncVectorEnv` and `AsyncVectorEnv`: it returns the same results,
    bit for bit, on any number of workers, and has the methods of `MetaVectorEnv`. It adds no
    wrappers. (Wrap it in Gymnasium's ``RecordEpisodeStatistics`` for vector environments, if
    needed.)

    Args:
        env_fns: A registered id, its spec, or a function that makes an environment; or a list of
            these. Ids need not be registered in workers.
        num_envs: The total number of environments, a multiple of the length of the list: each entry
            is repeated equally often, in consecutive places; 1 means one of each.
        **executor: ``execution``, which `mtwrappers.vector.make.make_executor` describes, and what
            `mtwrappers.vector.settings.Settings` does: ``workers``, ``autoreset_mode``
            (by default ``"SameStep"``; Gymnasium's default is ``"NextStep"``), ``unify``,
            ``on_worker_failure``, ``journal``, ``timeout``, ``context`` and ``ray_options``.
            Environments that draw with OpenGL in workers need ``context="forkserver"``.

    Returns:
        The vector environment. ``reset(seed=s)`` seeds environment ``i`` with ``s + i``. For
        `MetaVectorEnv.set_tasks`, each entry of the list is a task.

    Raises:
        TypeError: If ``env_fns`` is none of those, or an argument is unknown.
        ValueError: If ``num_envs`` does not fit, an argument has none of the allowed values, or the
            spaces of environments differ.
        gymnasium.error.Error: If an id is unknown.
        Exception: Whatever a function raises, with the environment named.

    >>> from mtwrappers import as_vector
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
    what = "; pass a function that makes it" if isinstance(env_fn, gymnasium.Env) else ""
    raise TypeError(
        f"entry {i} of env_fns must be an id, a spec or a function that makes an environment, got "
        f"{env_fn!r}{what}"
    )
