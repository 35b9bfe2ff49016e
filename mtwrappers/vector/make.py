"""The executor that a registered id's arguments ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

from gymnasium.vector import AutoresetMode

from mtwrappers.checks import positive
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.iterative import MetaIterativeEnvExecutor
from mtwrappers.vector.makers import Maker
from mtwrappers.vector.parallel import MetaParallelEnvExecutor

Execution: TypeAlias = Literal["parallel", "iterative"]


def make_executor(
    makers: Sequence[Maker],
    meta_batch_size: int,
    envs_per_task: int,
    *,
    execution: Execution | None = None,
    workers: int | None = None,
    autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
    on_worker_failure: Literal["raise", "restart"] | None = None,
    timeout: float | None = None,
    context: str | None = None,
) -> MetaVectorEnv:
    """Makes an executor over one constructor an environment.

    Args:
        makers: ``M * K`` constructors, task by task.
        meta_batch_size: ``M``.
        envs_per_task: ``K``.
        execution: ``"parallel"`` or ``"iterative"``; by default parallel when ``workers`` is above
            1, else iterative.
        workers: See `MetaParallelEnvExecutor`, as for the next three.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        on_worker_failure: ``"raise"`` by default.
        timeout: 300 seconds by default.
        context: Python's default.

    Raises:
        ValueError: If an argument is none of those, or does not go with the execution.
    """
    if execution not in (None, "parallel", "iterative"):
        raise ValueError(f"execution must be 'parallel' or 'iterative', got {execution!r}")
    if workers is not None:
        workers = positive(workers, "workers")
    if execution is None:
        execution = "parallel" if (workers or 1) > 1 else "iterative"
    options: dict[str, Any] = {
        "on_worker_failure": on_worker_failure,
        "timeout": timeout,
        "context": context,
    }
    given = {name: value for name, value in options.items() if value is not None}
    if execution == "parallel":
        return MetaParallelEnvExecutor(
            makers,
            meta_batch_size,
            envs_per_task,
            autoreset_mode=autoreset_mode,
            workers=workers,
            **given,
        )
    if given or (workers or 1) > 1:
        extra = {"workers": workers} if (workers or 1) > 1 else {}
        raise ValueError(f"iterative execution has no workers; got {extra | given}")
    return MetaIterativeEnvExecutor(
        makers, meta_batch_size, envs_per_task, autoreset_mode=autoreset_mode
    )


def fit_sizes(num_envs: int, envs_per_task: int | None, num_tasks: int, what: str) -> int:
    """How many environments each task gets.

    Args:
        num_envs: How many environments in all; 1 (Gymnasium's default) leaves it open.
        envs_per_task: How many a task; ``None`` leaves it open.
        num_tasks: How many tasks there are.
        what: What the message is about.

    Raises:
        ValueError: If the sizes do not go together; the message names some that do.
    """
    n = num_tasks
    each = 1 if envs_per_task is None else positive(envs_per_task, "envs_per_task")
    if num_envs == 1 or num_envs == n * each:
        return each
    if envs_per_task is not None:
        raise ValueError(
            f"{what} has {n} tasks: with envs_per_task={each}, num_envs must be {n * each} (or 1, "
            f"which leaves it open), got {num_envs}"
        )
    if isinstance(num_envs, bool) or num_envs < 1 or num_envs % n:
        raise ValueError(
            f"{what} has {n} tasks: num_envs must be a multiple of {n} ({n}, {2 * n}, {3 * n}, "
            f"...), or 1 for one environment a task; got {num_envs}"
        )
    return num_envs // n
