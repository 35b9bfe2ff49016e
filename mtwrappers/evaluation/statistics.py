"""Means and interquartile means over tasks, and their intervals.

Rates (where every value is 0 or 1) have Wilson intervals (Wilson 1927), which are as wide as they
should be after five successes of five too; several tasks' are combined by the method of variance
estimates recovery (Zou & Donner 2008, doi:10.1002/sim.3095). Everything else has percentile
bootstrap intervals. Resamples are drawn here rather than by SciPy, so that a saved result keeps its
intervals when another version of SciPy reads it; a test compares the two.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Values = NDArray[np.float64]
# Resamples at a time: bounds the memory at some tens of megabytes for 50 tasks of 50 episodes.
_BLOCK = 500


@dataclass(frozen=True)
class Estimate:
    """A number and the interval it is believed to be in.

    Args:
        value: The point estimate.
        low: The lower end of the interval; ``None`` where nothing can be said.
        high: The upper end.
    """

    value: float
    low: float | None
    high: float | None


# By the metric's name; None where no episode has it.
Estimates = Mapping[str, Estimate | None]


def trimmed_mean(means: Values, trim: float) -> Values:
    """The mean of the tasks' means without the lowest and the highest: ``(..., M)`` to ``(...,)``.

    ``trim`` is the share left out at either end, rounded down to whole tasks: 0 is the mean, 0.25
    the interquartile mean (Agarwal et al. 2021, arXiv:2108.13264), here of tasks: of pooled
    successes and failures it would be 1 from a rate of 75 % on.
    """
    cut = int(means.shape[-1] * trim)
    if cut:
        means = np.sort(means, axis=-1)[..., cut : means.shape[-1] - cut]
    trimmed: Values = means.mean(axis=-1)
    return trimmed


def estimate(
    samples: Sequence[Values],
    trim: float,
    rng: Generator,
    confidence: float,
    resamples: int,
    rate: bool = False,
    weights: Values | None = None,
) -> Estimate:
    """A trimmed or weighted mean over tasks, with its interval.

    The tasks are those of interest, not a sample of others: the interval is about their episodes.
    ``samples`` are the values ``(n_i,)`` of each task; with ``rate`` they are successes (1) and
    failures (0), or means of them. ``weights`` ``(M,)`` are those of the tasks, which sum to 1;
    without them all weigh the same.
    """

    def mean(means: Values) -> Values:
        if weights is None:
            return trimmed_mean(means, trim)
        weighted: Values = (means * weights).sum(axis=-1)
        return weighted

    value = float(mean(np.array([values.mean() for values in samples])))
    if rate and all(((values == 0) | (values == 1)).all() for values in samples):
        below, above = _wilson_distances(samples, trim, confidence, weights)
        return Estimate(value, max(0.0, value - below), min(1.0, value + above))
    if max(len(values) for values in samples) < 2:
        return Estimate(value, None, None)
    # Stratified percentile bootstrap, within each task (Agarwal et al. 2021, section 4.2; with one
    # task it is the ordinary one of Efron 1979).
    draws = []
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        means = [
            values[rng.integers(len(values), size=(rows, len(values)))].mean(axis=-1)
            for values in samples
        ]
        draws.append(mean(np.stack(means, axis=-1)))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(value, low, high)


def _wilson_distances(
    samples: Sequence[Values], trim: float, confidence: float, weights: Values | None
) -> tuple[float, float]:
    """How far a trimmed or weighted mean of rates is from the ends of its interval.

    Each is the root of the sum of the tasks' squared weighted distances; those left out have no
    weight.
    """
    rates = np.array([values.mean() for values in samples])
    ends = np.array([wilson(int(values.sum()), len(values), confidence) for values in samples])
    cut = int(len(samples) * trim)
    kept = np.argsort(rates, kind="stable")[cut : len(samples) - cut]
    shares = np.full(len(rates), 1 / len(kept)) if weights is None else weights
    distances = (ends[kept] - rates[kept, None]) * shares[kept, None]
    low, high = np.sqrt((distances**2).sum(axis=0))
    return float(low), float(high)


@functools.lru_cache(maxsize=4096)
def wilson(successes: int, n: int, confidence: float) -> tuple[float, float]:
    """The Wilson interval of a rate."""
    from scipy.stats import binomtest  # half a second, which those who only train need not wait

    low, high = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return float(low), float(high)
