"""Which task a step belongs to, and wrappers that keep statistics of each task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv
from numpy.typing import NDArray

from mtwrappers.wrappers.statistics import Moments, TaskStatistics
from mtwrappers.wrappers.vector import EpisodeVectorWrapper


class _KeepsStatistics:
    """The state that the single and the vector form share.

    Attributes:
        update_running_mean: Where it is false, the statistics stay as they are.
    """

    _statistics: TaskStatistics
    _ask: Callable[[str], Any]  # reads an attribute of the environment, None if it has none
    _num_groups: int | None = None  # where given, the number of task groups of a vector
    update_running_mean: bool = True

    def _keep(
        self, kind: str, num_tasks: int | None, epsilon: float, shape: tuple[int, ...] = ()
    ) -> None:
        """Begins statistics of samples of a shape; the caller's own ``num_tasks`` wins."""
        names = self._ask("task_names")
        if num_tasks is None:
            ids = self._ask("task_ids")
            own = len(names) if names is not None else self._ask("n_total_tasks")
            num_tasks = own or (self._num_groups or 1 if ids is None else max(ids) + 1)
        together = self._num_groups is not None
        self._statistics = TaskStatistics(kind, num_tasks, names, epsilon, shape, together)

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        return self._statistics.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, here or in the other form of this wrapper.

        Raises:
            TypeError: If it is no dict.
            ValueError: If it is of other tasks, of another size, or of something else.
        """
        self._statistics.set_state(state)


class PerTaskWrapper(_KeepsStatistics, gymnasium.Wrapper[Any, Any, Any, Any]):
    """Keeps statistics of each task of an environment; the task is ``info["task_id"]``."""

    def _ask(self, name: str) -> Any:
        return self.env.get_wrapper_attr(name) if self.env.has_wrapper_attr(name) else None

    def _moments(self, info: Mapping[str, Any]) -> Moments:
        """Those of the task id of ``info``, or of task 0 where there is but one."""
        moments = self._statistics.moments
        task: Any = info.get("task_id", 0 if len(moments) == 1 else None)
        if task is None or not 0 <= task < len(moments):
            raise ValueError(
                f"expected info['task_id'] in [0, {len(moments) - 1}], got an info with task_id "
                f"{task!r}; pass num_tasks= for more tasks, and add a TaskNameWrapper where an "
                "environment does not say which task it plays"
            )
        return moments[int(task)]


class PerTaskVectorWrapper(_KeepsStatistics, EpisodeVectorWrapper):
    """Keeps statistics of each task that the environments play.

    The task of an episode is its ``infos["task_id"]``; where infos do not have it, it is the index
    of the environment's task group.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        super().__init__(env)
        self._num_groups = self.meta_batch_size
        self._tasks = np.arange(self.num_envs) // self.envs_per_task
        self._one_each = False  # environment i plays task i, which is faster to compute

    @property
    def _moments(self) -> Moments:
        """Those of all tasks."""
        return self._statistics.moments[0]

    def _ask(self, name: str) -> Any:
        return self._inner.call(name)[0] if self._envs_have(name) else None

    def _take_tasks(self, infos: dict[str, Any], rows: NDArray[np.bool_] | None) -> None:
        """Notes the tasks of the episodes that have just begun in ``rows``, ``(N,)`` bool."""
        if rows is None:
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
        self._keep_tasks(self._tasks)

    def _keep_tasks(self, tasks: NDArray[np.int64]) -> None:
        self._tasks = tasks
        self._one_each = np.array_equal(tasks, np.arange(self._statistics.num_tasks))

    def get_state(self) -> dict[str, Any]:
        return {**super().get_state(), "episodes": self._episodes()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        super().set_state(state)
        if "episodes" in state:
            self._set_episodes(state["episodes"])

    def _episodes(self) -> dict[str, Any]:
        return {"tasks": self._tasks.tolist(), "due": self._due_rows()}

    def _set_episodes(self, state: Mapping[str, Any]) -> None:
        self._keep_tasks(np.array(state["tasks"]))
        self._set_due(state["due"])

    def _count(self, x: NDArray[Any], rows: Any) -> None:
        """Counts the samples of some environments; ``rows`` is a mask, or a slice for all."""
        if not self.update_running_mean:
            return
        if self._one_each and isinstance(rows, slice):
            self._moments.update(x)
        else:
            self._moments.update_some(self._tasks[rows], x[rows])

    def _each(self, of_tasks: NDArray[Any]) -> NDArray[Any]:
        """Of every environment what an array ``(num_tasks, ...)`` has for its task."""
        return of_tasks if self._one_each else of_tasks.take(self._tasks, axis=0)
