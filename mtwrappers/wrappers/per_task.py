"""Which task a step belongs to, and wrappers that keep statistics of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.wrappers.statistics import TaskStatistics
from mtwrappers.wrappers.vector import EpisodeVectorWrapper


def count_tasks(
    has: Callable[[str], bool], get: Callable[[str], Any], num_tasks: int | None, otherwise: int
) -> tuple[int, Sequence[str] | None]:
    """How many values ``info["task_id"]`` has in an environment, and their names if it has any.

    Args:
        has: Whether the environment has an attribute.
        get: The value of that attribute.
        num_tasks: The caller's own number, which wins.
        otherwise: How many there are where the environment says nothing about its tasks.
    """
    names = get("task_names") if has("task_names") else None
    if num_tasks is not None:
        return num_tasks, names
    if names is not None:
        return len(names), names
    if has("n_total_tasks"):
        return int(get("n_total_tasks")), None
    return (max(get("task_ids")) + 1 if has("task_ids") else otherwise), None


def task_of(info: Mapping[str, Any], num_tasks: int) -> int:
    """The ``task_id`` of ``info``, in ``[0, num_tasks - 1]``; 0 where there is but one.

    Raises:
        ValueError: If it is none of them.
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


class _KeepsStatistics:
    """The state that the single and the vector form share.

    Attributes:
        update_running_mean: Where it is false, the statistics stay as they are.
    """

    _statistics: TaskStatistics
    update_running_mean: bool = True

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        return self._statistics.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, here or in the other form of this wrapper.

        Raises:
            ValueError: If it is of other tasks, of another size, or of something else.
        """
        self._statistics.set_state(state)


class PerTaskWrapper(_KeepsStatistics, gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps statistics of each task of an environment; the task is ``info["task_id"]``.

    Args:
        env: Any environment.
    """

    def _track(self, kind: str, num_tasks: int | None, shape: tuple[int, ...] = ()) -> None:
        """Begins statistics of ``kind``, of samples of shape ``shape``."""
        n, names = count_tasks(self.env.has_wrapper_attr, self.env.get_wrapper_attr, num_tasks, 1)
        self._statistics = TaskStatistics(kind, n, names, shape)


class PerTaskVectorWrapper(_KeepsStatistics, EpisodeVectorWrapper):
    """Keeps statistics of each task that the environments play.

    The task of an episode is its ``infos["task_id"]``; where infos do not have it, it is the index
    of the environment's task group.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one.
    """

    def _track(self, kind: str, num_tasks: int | None, shape: tuple[int, ...] = ()) -> None:
        """Begins statistics of ``kind``, of samples of shape ``shape``."""
        n, names = count_tasks(
            self._envs_have, self._first_envs, num_tasks, otherwise=self.meta_batch_size
        )
        self._statistics = TaskStatistics(kind, n, names, shape)
        self._tasks = np.arange(self.num_envs) // self.envs_per_task

    def _take_tasks(self, infos: dict[str, Any], rows: NDArray[np.bool_]) -> None:
        """Notes the tasks of the episodes that have just begun in ``rows``, shape ``(N,)`` bool.

        Raises:
            ValueError: If one is no task.
        """
        if not rows.any():
            return
        if "task_id" in infos:
            rows = rows & infos.get("_task_id", True)
            self._tasks = np.where(rows, infos["task_id"], self._tasks).astype(np.int64)
        n = self._statistics.num_tasks
        wrong = np.flatnonzero((self._tasks < 0) | (self._tasks >= n))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                f"expected tasks in [0, {n - 1}], got {int(self._tasks[i])} from environment {i}; "
                "pass num_tasks= for more"
            )
