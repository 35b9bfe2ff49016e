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


class Moments:
    """The mean and variance of samples of a shape; floats where it is ``()``, else arrays.

    ``m2`` is the sum of squared deviations from ``mean``. Every number has the shape, ``count`` and
    the ``epsilon`` that is added to the variance too: arrays of one shape are computed fastest.
    """

    def __init__(self, shape: tuple[int, ...], epsilon: float) -> None:
        self.shape = shape
        self.mean: Any = np.zeros(shape) if shape else 0.0
        self.m2: Any = self.mean + PRIOR_COUNT
        self.count: Any = self.mean + PRIOR_COUNT
        self._one, self._epsilon = self.mean + 1.0, self.mean + epsilon
        self._sqrt: Any = np.sqrt if shape else math.sqrt  # which is much faster on a float

    def update(self, x: Any) -> Any:
        """Counts a sample and returns it less the new mean (Welford 1962)."""
        self.count += self._one
        delta = x - self.mean
        self.mean += delta / self.count
        centered = x - self.mean
        self.m2 += delta * centered
        return centered

    def update_some(self, tasks: NDArray[np.int64], x: NDArray[Any]) -> None:
        """Counts samples of some rows, ``tasks`` ``(n,)``, which may repeat (Chan et al. 1983)."""
        width = math.prod(x.shape[1:])
        cells = tasks if x.ndim == 1 else (tasks[:, None] * width + np.arange(width)).ravel()

        def sums(values: NDArray[Any]) -> NDArray[Any]:
            return np.bincount(cells, values.ravel(), self.mean.size).reshape(self.shape)

        n = np.bincount(tasks, np.ones(len(tasks)), self.shape[0])
        n = n if x.ndim == 1 else n[:, None]
        mean: NDArray[Any] = sums(x) / np.maximum(n, 1.0)
        deviation = x - mean.take(tasks, axis=0)
        # Where n is zero nothing changes.
        delta = (mean - self.mean) * n
        self.count += n
        self.mean += delta / self.count
        self.m2 += sums(deviation * deviation) + delta * (mean - self.mean)

    def deviation(self) -> Any:
        r""":math:`\sqrt{\mathrm{Var} + \epsilon}`."""
        return self._sqrt(self.m2 / self.count + self._epsilon)


class TaskStatistics:
    """The moments of what was seen of each task, in samples of ``shape``.

    They are ``moments[task]``; or, if ``together``, the rows of ``moments[0]``. A state of another
    kind, or of tasks with other names, is refused.
    """

    def __init__(
        self,
        kind: str,
        num_tasks: int,
        task_names: Sequence[str] | None,
        epsilon: float,
        shape: tuple[int, ...] = (),
        together: bool = False,
    ) -> None:
        self.kind = kind
        self.num_tasks = n = positive(num_tasks, "num_tasks")
        named = task_names is not None and len(task_names) == n
        self.task_names = list(task_names) if named and task_names is not None else None
        self._shape = (n, *shape)
        above_zero(epsilon, "epsilon")
        shapes = [self._shape] if together else [shape] * n
        self.moments = [Moments(each, float(epsilon)) for each in shapes]

    def get_state(self) -> dict[str, Any]:
        """All of it, ready for JSON."""
        count, mean, m2 = (
            np.reshape([getattr(each, name) for each in self.moments], self._shape)
            for name in ("count", "mean", "m2")
        )
        return {
            "kind": self.kind,
            "num_tasks": self.num_tasks,
            "task_names": None if self.task_names is None else list(self.task_names),
            "count": count.reshape(self.num_tasks, -1)[:, 0].tolist(),
            "mean": mean.tolist(),
            "m2": m2.tolist(),
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
        shapes = {"mean": self._shape, "m2": self._shape, "count": (self.num_tasks,)}
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
        count = arrays["count"].reshape(self.num_tasks, *[1] * (len(self._shape) - 1))
        arrays["count"] = np.array(np.broadcast_to(count, self._shape))
        for name, array in arrays.items():
            rows = array.reshape(len(self.moments), *self.moments[0].shape)
            for each, row in zip(self.moments, rows, strict=True):
                setattr(each, name, row if each.shape else float(row))
