"""Which task each environment of a vector plays, and statistics of many samples at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from numpy.typing import NDArray

from mtwrappers.task_statistics import TaskStatistics, declared_tasks
from mtwrappers.vector.wrapper import MetaVectorWrapper


class Groups:
    """Samples of some environments, sorted by their task.

    Args:
        tasks: The task of each sample, shape ``(n,)``.
        num_tasks: How many tasks there are.
    """

    def __init__(self, tasks: NDArray[np.int64], num_tasks: int) -> None:
        order = np.argsort(tasks, kind="stable")
        present, self.starts, counts = np.unique(
            tasks[order], return_index=True, return_counts=True
        )
        self.counts = counts.astype(np.float64)
        self.distinct = len(present) == len(tasks)
        # Indexing with a slice costs nothing; with an array it copies.
        self.order = None if bool(np.all(order[:-1] < order[1:])) else order
        self.rows: Any = slice(None) if len(present) == num_tasks else present
        one_each = self.distinct and self.order is None and len(present) == num_tasks
        self.tasks: Any = slice(None) if one_each else tasks
        # The place in `rows` of each sample, once sorted.
        self.within = np.repeat(np.arange(len(present)), counts)


def update(statistics: TaskStatistics, samples: NDArray[np.float64], groups: Groups) -> None:
    """Counts one sample of each environment (Chan et al. 1983, for the samples of a task).

    Args:
        statistics: Changed in place.
        samples: Shape ``(n, *shape)``.
        groups: The tasks of the samples.
    """
    if groups.order is not None:
        samples = samples[groups.order]
    rows = groups.rows
    old = statistics.count[rows]
    if groups.distinct:
        statistics.count[rows] = count = old + 1.0
        mean = statistics.mean[rows]
        delta = samples - mean
        mean = mean + delta / count
        statistics.mean[rows] = mean
        delta *= samples - mean
        statistics.m2[rows] += delta
        return
    n = groups.counts.reshape((-1,) + (1,) * (samples.ndim - 1))
    means = np.add.reduceat(samples, groups.starts, axis=0, dtype=np.float64) / n
    within = samples - means[groups.within]
    spread = np.add.reduceat(within * within, groups.starts, axis=0)
    total = old + n
    delta = means - statistics.mean[rows]
    statistics.mean[rows] += delta * (n / total)
    statistics.m2[rows] += spread + delta * delta * (old * n / total)
    statistics.count[rows] = total


class PerTaskVectorWrapper(MetaVectorWrapper):
    """Follows which task each environment plays, and keeps statistics of each task.

    The task of an episode is its ``infos["task_id"]``; where environments do not say it, it is the
    index of the task group.

    Args:
        env: One of our vector environments, or a wrapper of one.
        num_tasks: How many values ``task_id`` has; by default what the environments say, or how
            many task groups there are.
    """

    _statistics: TaskStatistics

    def __init__(self, env: VectorEnv[Any, Any, Any], num_tasks: int | None) -> None:
        super().__init__(env)
        n = env.num_envs
        declared, self._names = declared_tasks(self._has, self._read)
        each = getattr(env, "envs_per_task", 1)
        groups = -(-n // each)
        self._n_tasks = num_tasks or declared or groups
        self._tasks = np.arange(n) // each
        self._grouped: Groups | None = None
        self._over = np.zeros(n, dtype=np.bool_)
        self._any_over = False
        mode = env.metadata.get("autoreset_mode")
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._next_step = mode is AutoresetMode.NEXT_STEP
        self.update_running_mean = True

    def _has(self, name: str) -> bool:
        return all(self._inner.call("has_wrapper_attr", name))

    def _read(self, name: str) -> Any:
        return self._inner.call(name)[0]

    def _groups(self) -> Groups:
        """The groups of all environments."""
        if self._grouped is None:
            self._grouped = Groups(self._tasks, self._n_tasks)
        return self._grouped

    def _take_tasks(self, infos: dict[str, Any], rows: NDArray[np.bool_]) -> None:
        """Notes the tasks of the episodes that have just begun in ``rows``, shape ``(N,)``.

        Raises:
            ValueError: If one is no task.
        """
        if "task_id" in infos:
            rows = rows & infos.get("_task_id", True)
            tasks = np.where(rows, infos["task_id"], self._tasks).astype(np.int64)
        else:
            tasks = self._tasks
        wrong = np.flatnonzero((tasks < 0) | (tasks >= self._n_tasks))
        if len(wrong):
            i = int(wrong[0])
            raise ValueError(
                f"expected tasks in [0, {self._n_tasks - 1}], got {int(tasks[i])} from "
                f"environment {i}; pass num_tasks= for more"
            )
        if not np.array_equal(tasks, self._tasks):
            self._tasks, self._grouped = tasks, None

    def get_state(self) -> dict[str, Any]:
        """The statistics of every task, ready for JSON."""
        return self._statistics.get_state()

    def set_state(self, state: dict[str, Any]) -> None:
        """Takes what `get_state` returned, here or in the form for a single environment.

        Raises:
            ValueError: If it is of other tasks, of another size, or of something else.
        """
        self._statistics.set_state(state)


def reset_rows(options: dict[str, Any] | None, num_envs: int) -> NDArray[np.bool_]:
    """Which environments a reset with these options resets, shape ``(num_envs,)``."""
    mask = (options or {}).get("reset_mask")
    return np.ones(num_envs, np.bool_) if mask is None else np.array(mask, dtype=np.bool_)
