"""Running means and variances per task, which can be saved and restored."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.checks import above_zero, check_mapping, positive

# As in Gymnasium's RunningMeanStd: a variance of one that counts as a ten-thousandth of a sample.
PRIOR_COUNT = 1e-4


class TaskStatistics:
    """The mean and variance of what was seen of each task, in samples of ``shape``.

    ``mean``, ``m2`` (the sums of squared deviations from it) and ``count`` are float64 of shape
    ``(num_tasks, *shape)``: arrays of one shape are divided fastest. ``epsilon`` is added to the
    variances. A state of another kind, or of tasks with other names, is refused.
    """

    def __init__(
        self,
        kind: str,
        num_tasks: int,
        task_names: Sequence[str] | None,
        epsilon: float,
        shape: tuple[int, ...] = (),
    ) -> None:
        self.kind = kind
        self.num_tasks = positive(num_tasks, "num_tasks")
        named = task_names is not None and len(task_names) == self.num_tasks
        self.task_names = list(task_names) if named and task_names is not None else None
        self.epsilon = above_zero(epsilon, "epsilon")
        self.mean = np.zeros((self.num_tasks, *shape))
        self.m2 = np.full_like(self.mean, PRIOR_COUNT)
        self.count = np.full_like(self.mean, PRIOR_COUNT)

    def update(self, tasks: Any, x: Any) -> None:
        """Counts samples ``x``, ``(n, *shape)`` (Welford 1962; Chan, Golub and LeVeque 1983).

        ``tasks`` is the task of each, ``(n,)`` int; or, with the same result and faster,
        ``slice(None)`` for one sample of every task, or an ``int`` for one of shape ``shape``.
        """
        if isinstance(tasks, np.ndarray):
            self._update_repeated(tasks, x)
            return
        mean, m2, count = self.mean[tasks], self.m2[tasks], self.count[tasks]
        # In place, which changes the arrays that these are views of; numbers are no views.
        count += 1.0
        delta = x - mean
        mean += delta / count
        m2 += delta * (x - mean)
        if mean.ndim == 0:
            self.mean[tasks], self.m2[tasks], self.count[tasks] = mean, m2, count

    def _update_repeated(self, tasks: NDArray[np.int64], x: NDArray[Any]) -> None:
        """Counts samples of which some may be of the same task."""
        width = math.prod(x.shape[1:])
        cells = tasks if x.ndim == 1 else (tasks[:, None] * width + np.arange(width)).ravel()

        def sums(values: NDArray[Any]) -> NDArray[Any]:
            return np.bincount(cells, values.ravel(), self.mean.size).reshape(self.mean.shape)

        n = np.bincount(tasks, np.ones(len(tasks)), self.num_tasks)
        n = n if x.ndim == 1 else n[:, None]
        mean = sums(x) / np.maximum(n, 1.0)
        deviation = x - mean.take(tasks, axis=0)
        # Where n is zero nothing changes.
        delta = (mean - self.mean) * n
        self.count += n
        self.mean += delta / self.count
        self.m2 += sums(deviation * deviation) + delta * (mean - self.mean)

    def deviation(self, tasks: Any) -> Any:
        r""":math:`\sqrt{\mathrm{Var} + \epsilon}` of tasks as in `update`."""
        if isinstance(tasks, np.ndarray):
            return self.deviation(slice(None)).take(tasks, axis=0)
        return np.sqrt(self.m2[tasks] / self.count[tasks] + self.epsilon)

    def normalize(self, tasks: Any, x: NDArray[Any]) -> NDArray[np.float64]:
        """Samples of tasks as in `update`, less the mean, divided by the deviation."""
        several = isinstance(tasks, np.ndarray)
        mean = self.mean.take(tasks, axis=0) if several else self.mean[tasks]
        normalized: NDArray[np.float64] = (x - mean) / self.deviation(tasks)
        return normalized

    def get_state(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        return {
            "kind": self.kind,
            "num_tasks": self.num_tasks,
            "task_names": None if self.task_names is None else list(self.task_names),
            "count": self.count.reshape(self.num_tasks, -1)[:, 0].tolist(),
            "mean": self.mean.tolist(),
            "m2": self.m2.tolist(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, or changes nothing and raises."""
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
        shapes = {"mean": self.mean.shape, "m2": self.mean.shape, "count": (self.num_tasks,)}
        arrays = {}
        for key, shape in shapes.items():
            try:
                arrays[key] = np.array(state.get(key), dtype=np.float64)
            except (TypeError, ValueError):  # no numbers, or rows of several lengths
                arrays[key] = np.empty(())
            if arrays[key].shape != shape:
                raise ValueError(
                    f"expected {key} of shape {shape} in the statistics, got one of shape "
                    f"{arrays[key].shape}"
                )
        self.mean, self.m2, count = arrays.values()
        self.count[...] = count if self.count.ndim == 1 else count[:, None]
