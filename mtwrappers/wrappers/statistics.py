"""Running means and variances per task, which can be saved and restored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import check_mapping, positive

# As in Gymnasium's RunningMeanStd: a variance of one that counts as a ten-thousandth of a sample.
PRIOR_COUNT = 1e-4


class TaskStatistics:
    """The mean and variance of what was seen of each task.

    Attributes:
        mean: Shape ``(num_tasks, *shape)``, float64.
        m2: The sums of squared deviations from the mean, likewise.
        count: How many samples, shape ``(num_tasks,)`` with a 1 for each axis of ``shape``.

    Args:
        kind: What is counted; a state of another kind is refused.
        num_tasks: How many tasks.
        task_names: Their names, if known; a state of tasks with other names is refused. Ignored
            if there are more or fewer than ``num_tasks``.
        shape: The shape of a sample.
    """

    def __init__(
        self,
        kind: str,
        num_tasks: int,
        task_names: Sequence[str] | None,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.kind = kind
        self.num_tasks = positive(num_tasks, "num_tasks")
        named = task_names is not None and len(task_names) == self.num_tasks
        self.task_names = list(task_names) if named and task_names is not None else None
        self.count = np.full((self.num_tasks,) + (1,) * len(shape), PRIOR_COUNT)
        self.mean = np.zeros((self.num_tasks, *shape))
        self.m2 = np.full_like(self.mean, PRIOR_COUNT)

    def update(self, tasks: Any, x: Any) -> None:
        """Counts samples (Chan, Golub and LeVeque 1983; for one sample this is Welford 1962).

        Args:
            tasks: The task of each sample, shape ``(n,)`` int; or one task, an ``int``.
            x: The samples, shape ``(n, *shape)``; or one sample of shape ``shape``.
        """
        if isinstance(tasks, int) or len(set(tasks.tolist())) == len(tasks):
            self._merge(tasks, 1.0, x, 0.0)
            return
        n = self._sums(tasks, np.ones(len(tasks))).reshape(self.count.shape)
        mean = self._sums(tasks, x) / np.maximum(n, 1.0)
        deviation = x - mean[tasks]
        # Where n is zero nothing changes.
        self._merge(slice(None), n, mean, self._sums(tasks, deviation * deviation))

    def _merge(self, rows: Any, n: Any, mean: Any, m2: Any) -> None:
        """Joins ``n`` samples of each of ``rows``, which differ, with this mean and ``m2``."""
        before, total = self.mean[rows], self.count[rows] + n
        delta = (mean - before) * n
        self.mean[rows] = after = before + delta / total
        self.m2[rows] += m2 + delta * (mean - after)
        self.count[rows] = total

    def _sums(self, tasks: NDArray[np.int64], x: NDArray[Any]) -> NDArray[np.float64]:
        """The sum of the samples of each task, shape ``(num_tasks, *x.shape[1:])``."""
        width = math.prod(x.shape[1:])
        cells = tasks if x.ndim == 1 else (tasks[:, None] * width + np.arange(width)).ravel()
        sums: NDArray[Any] = np.bincount(cells, x.ravel(), minlength=self.num_tasks * width)
        return sums.reshape(self.num_tasks, *x.shape[1:])

    def deviation(self, tasks: Any, epsilon: float) -> Any:
        r"""The standard deviations :math:`\sqrt{\mathrm{Var} + \epsilon}` of some tasks.

        Args:
            tasks: Shape ``(n,)`` int, or one ``int``.
            epsilon: Added to the variances.

        Returns:
            Shape ``(n, *shape)``, or ``shape`` for one task.
        """
        return np.sqrt(self.m2[tasks] / self.count[tasks] + epsilon)

    def get_state(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "kind": self.kind,
            "num_tasks": self.num_tasks,
            "task_names": None if self.task_names is None else list(self.task_names),
            "count": self.count.ravel().tolist(),
            "mean": self.mean.tolist(),
            "m2": self.m2.tolist(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, in place.

        Raises:
            TypeError: If it is no dict.
            ValueError: If it is of another kind, of other tasks, or of other sizes.
        """
        check_mapping(state, "a state")
        for key, expected in (("kind", self.kind), ("num_tasks", self.num_tasks)):
            if state.get(key) != expected:
                raise ValueError(
                    f"expected statistics with {key} {expected!r}, got {state.get(key)!r}"
                )
        names = state.get("task_names")
        if names is not None and self.task_names is not None and list(names) != self.task_names:
            raise ValueError(
                f"expected statistics of the tasks {self.task_names}, got those of {list(names)}"
            )
        arrays: dict[str, NDArray[np.float64]] = {}
        for key in ("mean", "m2", "count"):
            own = getattr(self, key)
            shape = own.ravel().shape if key == "count" else own.shape
            try:
                given = np.asarray(state.get(key), dtype=np.float64)
            except (TypeError, ValueError):
                given = np.empty(())
            if given.shape != shape:
                raise ValueError(
                    f"expected {key} of shape {shape} in the statistics, got one of shape "
                    f"{given.shape}"
                )
            arrays[key] = given.reshape(own.shape)
        for key, given in arrays.items():
            getattr(self, key)[...] = given
