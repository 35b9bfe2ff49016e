"""Running means and variances of one task, or of all of them at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
