"""Differences between two policies, with intervals.

Of success rates, where every value is 0 or 1, the intervals are Newcombe's: two Wilson intervals,
added by their squares (Statistics in Medicine 17, 1998, p. 873, method 10). For the same goals
their correlation counts too (p. 2635, method 10). Everything else is bootstrapped, within each task
as in Agarwal et al. (2021, arXiv:2108.13264).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mtwrappers.evaluation.statistics import Estimate, Values, trimmed_mean, wilson

# From the values ``(..., n)`` of each task, of both policies, to numbers ``(...,)``.
Statistic: TypeAlias = Callable[[Sequence[Values], Sequence[Values]], Values]
# Resamples at a time: bounds the memory.
_BLOCK = 500


def rate_distances(
    first: Values, second: Values, paired: bool, confidence: float
) -> tuple[float, float]:
    """How far the interval of ``mean(second) - mean(first)`` reaches below and above it.

    Args:
        first: Successes (1) and failures (0), ``(n,)``.
        second: Likewise, ``(m,)``; ``(n,)`` on the same goals if ``paired``.
        paired: Whether the two have played the same goals, in the same order.
        confidence: Of the interval.
    """
    p1, p2 = float(first.mean()), float(second.mean())
    low1, high1 = wilson(int(first.sum()), len(first), confidence)
    low2, high2 = wilson(int(second.sum()), len(second), confidence)
    phi = _correlation(first, second) if paired else 0.0

    def add(one: float, other: float) -> float:
        return math.sqrt(max(0.0, one**2 - 2 * phi * one * other + other**2))

    return add(p2 - low2, high1 - p1), add(high2 - p2, p1 - low1)


def _correlation(first: Values, second: Values) -> float:
    """That of a 2 x 2 table, with Newcombe's correction for continuity."""
    n, both = len(first), float((first * second).sum())
    only1, only2 = float(first.sum()) - both, float(second.sum()) - both
    neither = n - both - only1 - only2
    product = (both + only1) * (only2 + neither) * (both + only2) * (only1 + neither)
    if not product:
        return 0.0
    excess = both * neither - only1 * only2
    return (max(0.0, excess - n / 2) if excess > 0 else excess) / math.sqrt(product)


def bootstrap(
    statistic: Statistic,
    first: Sequence[Values],
    second: Sequence[Values],
    rng: Generator,
    confidence: float,
    resamples: int,
    paired: bool = False,
) -> Estimate:
    """A statistic of two policies, with its stratified percentile bootstrap interval.

    Args:
        statistic: What to estimate.
        first: The values ``(n,)`` of each task: of its goals, or of runs.
        second: Likewise.
        rng: Draws the resamples.
        confidence: Of the interval.
        resamples: How many.
        paired: Whether values at the same place belong together.
    """
    value = float(statistic(first, second))
    if max(map(len, (*first, *second))) < 2:
        return Estimate(value, None, None)
    draws = []
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        of_first = [rng.integers(len(own), size=(rows, len(own))) for own in first]
        of_second = of_first
        if not paired:
            of_second = [rng.integers(len(own), size=(rows, len(own))) for own in second]
        both = (
            [own[chosen] for own, chosen in zip(values, places, strict=True)]
            for values, places in ((first, of_first), (second, of_second))
        )
        draws.append(statistic(*both))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(value, low, high)


def interquartile_mean(values: Sequence[Values]) -> Values:
    """The mean of the middle half of all runs of all tasks, ``(..., n)`` each, to ``(...,)``.

    Agarwal et al. 2021, section 4.3.
    """
    return trimmed_mean(np.concatenate(values, axis=-1), 0.25)


def improvement(first: Sequence[Values], second: Sequence[Values]) -> Values:
    """How likely a run of the second is better than one of the first, on a random task.

    ``mean over tasks of P(Y > X) + P(Y = X) / 2``, from all pairs of runs ``(..., n)`` and
    ``(..., m)``: the Mann-Whitney U statistic over ``n * m``. Agarwal et al. 2021, section 4.3.
    """
    of_tasks: list[NDArray[np.float64]] = []
    for one, other in zip(first, second, strict=True):
        apart = other[..., :, None] - one[..., None, :]
        of_tasks.append((np.sign(apart) / 2 + 0.5).mean(axis=(-1, -2)))
    found: Values = np.mean(of_tasks, axis=0)
    return found
