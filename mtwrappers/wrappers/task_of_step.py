"""Which task a step belongs to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from mtwrappers.task_statistics import declared_tasks


def tasks_of(
    env: gymnasium.Env[Any, Any], num_tasks: int | None
) -> tuple[int, Sequence[str] | None]:
    """How many tasks ``info["task_id"]`` tells apart, and their names if they have any.

    Args:
        env: An environment; one that says nothing about tasks has one.
        num_tasks: Overrides what the environment says.
    """
    declared, names = declared_tasks(env.has_wrapper_attr, env.get_wrapper_attr)
    if num_tasks is None:
        return (1 if declared is None else declared), names
    return num_tasks, names


def task_of(info: dict[str, Any], num_tasks: int) -> int:
    """The task that ``info`` names, in ``[0, num_tasks - 1]``; 0 where there is but one.

    Raises:
        ValueError: If it names none of them.
    """
    task: Any = info.get("task_id", 0 if num_tasks == 1 else None)
    if task is None or not 0 <= task < num_tasks:
        found = "no task_id" if task is None else f"task_id {task!r}"
        raise ValueError(
            f"expected info['task_id'] in [0, {num_tasks - 1}], got an info with {found}; pass "
            "num_tasks= for more tasks, and add a TaskNameWrapper where an environment does not "
            "say which task it plays"
        )
    return int(task)
