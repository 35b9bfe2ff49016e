"""Means, interquartile means, and their percentile bootstrap intervals.

Resamples are drawn here rather than by SciPy, so that a saved result keeps its intervals when
another version of SciPy reads it; a test compares the two.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Values = NDArray[np.float64]
Statistic = Callable[[Sequence[Values]], Values]
# Resamples at a time: bounds the memory at some tens of megabytes for 50 tasks of 50 episodes.
_BLOCK = 500


@dataclass(frozen=True)
class Estimate:
    """A number and the interval it is believed to be in.

    Args:
        value: The point estimate.
        low: The lower end of the interval; ``None`` where nothing can be resampled.
        high: The upper end.
    """

    value: float
    low: float | None
    high: float | None


def mean_of_means(samples: Sequence[Values]) -> Values:
    """The mean over tasks of each task's mean: ``(..., n_i)`` each to ``(...,)``."""
    means: Values = np.mean([sample.mean(axis=-1) for sample in samples], axis=0)
    return means


def interquartile_mean(samples: Sequence[Values]) -> Values:
    """The mean of the middle half of all samples together: ``(..., n_i)`` each to ``(...,)``.

    A quarter of the ``n`` values, rounded down, is left out at either end (Agarwal et al. 2021,
    arXiv:2108.13264, section 4.3).
    """
    pooled = np.sort(np.concatenate(samples, axis=-1), axis=-1)
    cut = pooled.shape[-1] // 4
    means: Values = pooled[..., cut : pooled.shape[-1] - cut].mean(axis=-1)
    return means


def estimate(
    samples: Sequence[Values],
    statistic: Statistic,
    rng: Generator,
    confidence: float,
    resamples: int,
) -> Estimate:
    """A statistic of one sample a task, with its stratified percentile bootstrap interval.

    Each resample draws with replacement within each task, as many values as the task has (Agarwal
    et al. 2021, section 4.2; with one task it is the ordinary bootstrap of Efron 1979).

    Args:
        samples: The values ``(n_i,)`` of each task, float64.
        statistic: Reduces the last axis of all samples to one number.
        rng: Draws the resamples.
        confidence: How likely the interval covers the truth, in (0, 1).
        resamples: How many resamples.
    """
    value = float(statistic(samples))
    if max(len(sample) for sample in samples) < 2:
        return Estimate(value, None, None)
    draws = []
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        draws.append(statistic([s[rng.integers(len(s), size=(rows, len(s)))] for s in samples]))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(value, low, high)
