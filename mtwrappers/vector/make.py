"""The executor that a registered id's arguments ask for."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from gymnasium.vector import AutoresetMode

from mtwrappers.checks import check_choice, positive
from mtwrappers.vector.arguments import Maker
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.iterative import MetaIterativeEnvExecutor
from mtwrappers.vector.parallel import TIMEOUT, MetaParallelEnvExecutor

Execution: TypeAlias = Literal["parallel", "iterative", "ray"]


def make_executor(
    makers: Sequence[Maker],
    meta_batch_size: int,
    envs_per_task: int = 1,
    *,
    execution: Execution | None = None,
    workers: int | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
    on_worker_failure: Literal["raise", "recover"] | None = None,
    max_recoveries: int | None = None,
    journal: bool = False,
    timeout: float | None = TIMEOUT,
    context: str | None = None,
    ray_options: Mapping[str, Any] | None = None,
) -> MetaVectorEnv:
    """Makes an executor over one constructor per environment.

    Args:
        makers: ``M * K`` constructors, task by task.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        execution: ``"parallel"``, ``"iterative"`` or ``"ray"``; by default parallel when
            ``workers`` is above 1, else iterative.
        workers: How many processes, by default as many as there are cores for this process; or
            Ray actors, by default as many as the cluster has CPUs.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        on_worker_failure: ``"raise"`` (default) or ``"recover"``.
        max_recoveries: How often in a row workers may be lost in the same call; 3 by default.
        journal: Whether the state can be read (`MetaVectorEnv.get_state`) and saved.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        context: How processes are started: ``"fork"``, ``"spawn"`` or ``"forkserver"``; ``None`` is
            Python's default.
        ray_options: See `mtwrappers.vector.ray.MetaRayEnvExecutor`.

    Raises:
        ValueError: If an argument is none of those, or does not go with the execution.
    """
    check_choice(execution, (*get_args(Execution), None), "execution")
    if workers is not None:
        workers = positive(workers, "workers")
    if execution is None:
        execution = "parallel" if (workers or 1) > 1 else "iterative"
    given: dict[str, Any] = {
        "workers": None if workers == 1 and execution == "iterative" else workers,
        "on_worker_failure": on_worker_failure,
        "max_recoveries": max_recoveries,
        "context": context,
        "ray_options": ray_options,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if timeout != TIMEOUT:
        given["timeout"] = timeout
    takes = inspect.signature(make := executor_class(execution)).parameters
    if extra := {name: value for name, value in given.items() if name not in takes}:
        what = "has no workers" if execution == "iterative" else "takes no such arguments"
        raise ValueError(f"{execution} execution {what}; got {extra}")
    envs: MetaVectorEnv = make(
        makers,
        meta_batch_size,
        envs_per_task,
        autoreset_mode=autoreset_mode,
        journal=journal,
        **given,
    )
    return envs


def executor_class(execution: Execution) -> Any:
    """The executor of this kind."""
    if execution == "ray":
        from mtwrappers.vector.ray import MetaRayEnvExecutor

        return MetaRayEnvExecutor
    return MetaParallelEnvExecutor if execution == "parallel" else MetaIterativeEnvExecutor


def fit_sizes(num_envs: int, envs_per_task: int | None, num_tasks: int, what: str) -> int:
    """How many environments each of ``num_tasks`` tasks gets, of which messages say ``what``.

    A ``num_envs`` of 1 (Gymnasium's default) and an ``envs_per_task`` of ``None`` leave it open.
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
    raise ValueError(f"{what} has {n} tasks: {fits} or 1 (which leaves it open), got {total}")
