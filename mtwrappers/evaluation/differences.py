"""Differences between two policies, with intervals.

Between one result each, the intervals of the two rates (see `mtwrappers.evaluation.statistics`) are
added by their squares, with the correlation of goals that both have met: for one task, that is
Newcombe's interval (Statistics in Medicine 17, 1998, p. 873, method 10; for the same goals p. 2635,
method 10). Between training runs, the means of runs have Welch's interval (Welch 1947), and
everything else a bootstrap interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mtwrappers.evaluation.statistics import Estimate, Interval, Values, mean_interval, trimmed_mean

# From the values ``(..., n)`` of each task, of both policies, to numbers ``(...,)``.
Statistic: TypeAlias = Callable[[Sequence[Values], Sequence[Values]], Values]
# Two successes and two failures differ by chance in an eighth of all cases: no interval says so.
LEAST_VALUES = 3
# From here on the bootstrap of whole runs covers what it says.
LEAST_RUNS = 5
# By the unit and how many runs there are of each policy, how often the bootstrap's intervals for
# 95 % cover the truth, as `benchmarks.coverage` simulates it.
COVERED = {
    "runs": {3: 0.88, 5: 0.96, 10: 0.97},
    "runs of each task": {3: 0.87, 5: 0.92, 10: 0.92},
}
# Resamples at a time: bounds the memory.
_BLOCK = 500


def rate_difference(
    first: Sequence[Values],
    second: Sequence[Values],
    paired: Sequence[bool],
    weights: Values,
    confidence: float,
) -> Estimate:
    """How much higher the second's mean over tasks is, of values in [0, 1].

    Args:
        first: The values ``(n_i,)`` of each task.
        second: Likewise.
        paired: Of each task, whether values at the same place are of the same goal.
        weights: Of the tasks, ``(M,)``, which sum to 1.
        confidence: Of the interval. There is none if either has less than three values.
    """
    value, low, high = map(float, difference_interval(first, second, paired, weights, confidence))
    if too_few(first, second):
        return Estimate(value, None, None)
    return Estimate(value, low, high)


def difference_interval(
    first: Sequence[Values],
    second: Sequence[Values],
    paired: Sequence[bool],
    weights: Values,
    confidence: float,
) -> Interval:
    """`rate_difference` of many results at once, whose values of a task are ``(..., n_i)``."""
    one, other = (mean_interval(values, weights, confidence) for values in (first, second))
    return apart(one, other, _correlation(first, second, paired, weights))


def too_few(first: Sequence[Values], second: Sequence[Values]) -> bool:
    """Whether two policies have less values than a difference takes."""
    return min(sum(map(len, values)) for values in (first, second)) < LEAST_VALUES


def apart(one: Interval, other: Interval, correlation: Values | float = 0.0) -> Interval:
    """The difference of two estimates, by the method of variance estimates recovery.

    Zou & Donner 2008, doi:10.1002/sim.3095.
    """

    def add(a: Values, b: Values) -> Values:
        found: Values = np.sqrt(np.maximum(0.0, a**2 - 2 * correlation * a * b + b**2))
        return found

    (p1, low1, high1), (p2, low2, high2) = one, other
    low = np.maximum(-1.0, p2 - p1 - add(p2 - low2, high1 - p1))
    return p2 - p1, low, np.minimum(1.0, p2 - p1 + add(high2 - p2, p1 - low1))


def _correlation(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Values:
    """That of the two means ``(...,)``, with Newcombe's correction for continuity."""
    shared, variances, lost = np.zeros(first[0].shape[:-1]), [0.0, 0.0], 0.0
    for one, other, pairs, weight in zip(first, second, paired, weights, strict=True):
        n = one.shape[-1]
        lost += weight**2 / n
        for i, own in enumerate((one, other)):
            variances[i] = variances[i] + weight**2 * own.var(axis=-1) / own.shape[-1]
        if pairs:
            both = (one * other).mean(axis=-1) - one.mean(axis=-1) * other.mean(axis=-1)
            shared = shared + weight**2 * both / n
    shared = np.where(shared > 0, np.maximum(0.0, shared - lost**2 / 2), shared)
    product = np.sqrt(variances[0] * variances[1])
    # Equal values may differ in the last bit of their mean.
    found = np.divide(shared, product, out=np.zeros_like(shared), where=product > 1e-15)
    return np.clip(found, -1.0, 1.0)


def welch(first: Values, second: Values, confidence: float) -> Estimate:
    """How much higher the mean of the second's runs is, with Welch's interval.

    Args:
        first: A rate of each run, in [0, 1], ``(n,)``.
        second: Likewise, ``(m,)``.
        confidence: Of the interval. There is none if either has a single run, or where no run
            differs from another.
    """
    from scipy.special import stdtrit

    value = float(second.mean() - first.mean())
    if min(len(first), len(second)) < 2:
        return Estimate(value, None, None)
    parts = [float(runs.var(ddof=1)) / len(runs) for runs in (first, second)]
    # Equal runs may differ in the last bit of their means.
    if sum(parts) < 1e-24:
        return Estimate(value, None, None)
    spread = sum(
        part**2 / (len(runs) - 1) for part, runs in zip(parts, (first, second), strict=True)
    )
    reach = -float(stdtrit(sum(parts) ** 2 / spread, (1 - confidence) / 2)) * math.sqrt(sum(parts))
    return Estimate(value, max(-1.0, value - reach), min(1.0, value + reach))


def bootstrap(
    statistic: Statistic,
    first: Sequence[Values],
    second: Sequence[Values],
    rng: Generator,
    confidence: float,
    resamples: int,
    whole: bool,
    least: int | None = None,
) -> Estimate:
    """A statistic of two policies' runs, with its percentile bootstrap interval.

    With ``whole`` a run is one network for all tasks, which is good or bad at all of them: whole
    runs are resampled, and percentiles are taken further out, as Student's quantile and the lost
    degree of freedom ask for (Hesterberg 2015, The American Statistician 69(4), p. 371, "expanded
    percentile"). Else every task's runs are resampled by themselves (Agarwal et al. 2021,
    arXiv:2108.13264, "stratified").

    Args:
        statistic: To estimate.
        first: The values ``(n_i,)`` of each task's runs; with ``whole`` in the same order.
        second: Likewise.
        rng: Draws the resamples.
        confidence: Of the interval.
        resamples: How many.
        whole: Whether the values at one place of all tasks are one run.
        least: How many runs of a task each policy must have, or there is no interval: 2 or more. By
            default 2, and 5 with ``whole``.
    """
    fewest = min(map(len, (*first, *second)))
    if fewest < (least or (LEAST_RUNS if whole else 2)):
        return Estimate(float(statistic(first, second)), None, None)

    def drawn(values: Sequence[Values], rows: int) -> list[Values]:
        shared = rng.integers(len(values[0]), size=(rows, len(values[0]))) if whole else None
        return [
            own[rng.integers(len(own), size=(rows, len(own))) if shared is None else shared]
            for own in values
        ]

    draws = []
    for start in range(0, resamples, _BLOCK):
        rows = min(_BLOCK, resamples - start)
        draws.append(statistic(drawn(first, rows), drawn(second, rows)))
    tail = _expanded_tail(fewest, confidence) if whole else (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(float(statistic(first, second)), low, high)


def _expanded_tail(n: int, confidence: float) -> float:
    """The share of resamples to leave out at either end, for ``n`` runs: Hesterberg 2015."""
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - confidence) / 2)))


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
