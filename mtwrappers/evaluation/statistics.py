"""Means, differences and their 95% intervals: Wilson's for rates, Student's t for all else.

**Rates** (of values in [0, 1]: successes and failures, or means of them) have Wilson's interval
(Wilson 1927) at the *effective number* of values: as many as a binomial rate would need to be known
as precisely. For one task of successes and failures that is Wilson's own. The effective number is
that of Korn & Graubard (1998, Survey Methodology 24(2), p. 193), who put it into the exact binomial
interval; Franco, Little, Louis & Slud (2019, Journal of Survey Statistics and Methodology 7(3),
p. 334) put it into Wilson's and recommend that. Rates of several training runs have the same form:
the effective number follows from how much the runs differ, with Student's quantile.

**All else** (returns, lengths, differences of runs) has Student's t (1908), with the degrees of
freedom of Welch (1947) and Satterthwaite (1946) where samples differ in their variance.

The difference between one result each has the intervals of both rates, added by their squares, with
the correlation of goals that both have met: for one task, that is Newcombe's interval (Statistics
in Medicine 17, 1998, p. 873, method 10; for the same goals p. 2635, method 10).

``python -m benchmarks.coverage`` simulates how often the intervals cover the truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
# A value, and both ends of its interval; NaN where there is none.
Interval: TypeAlias = tuple[Values, Values, Values]
# Two successes and two failures differ by chance in an eighth of all cases: too few values.
LEAST_VALUES = 3
# With fewer runs, an interquartile mean says little.
LEAST_RUNS = 5
_TAIL = 0.025
_Z = -NormalDist().inv_cdf(_TAIL)


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its 95% confidence interval.

    Args:
        value: The point estimate.
        low: The lower end of the interval; ``None`` if there is no interval.
        high: The upper end, likewise.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> episodes = [Episode("reach", i, 0.0, 5, i > 0, False) for i in range(4)]
    >>> rate = EvaluationResult(episodes).per_task["reach"]["success_once"]
    >>> rate.value, round(rate.low, 2), round(rate.high, 2)
    (0.75, 0.3, 0.95)
    """

    value: float
    low: float | None = None
    high: float | None = None


# By the metric's name; None where no episode has it.
Estimates = Mapping[str, Estimate | None]


def estimate_of(found: Interval) -> Estimate:
    """The estimate of a single result."""
    value, low, high = map(float, found)
    return Estimate(value) if np.isnan(low) else Estimate(value, low, high)


def wilson(rate: Values, n: Values) -> tuple[Values, Values]:
    """Wilson's interval of a rate that was estimated from ``n`` values, which need not be whole."""
    z2 = _Z**2
    middle = (rate + z2 / 2 / n) / (1 + z2 / n)
    inner = np.maximum(0.0, rate * (1 - rate) * z2 / n) + (z2 / 2 / n) ** 2
    reach = np.sqrt(inner) / (1 + z2 / n)
    # Rounding may leave an end beside the rate itself.
    low: Values = np.clip(np.minimum(rate, middle - reach), 0.0, 1.0)
    high: Values = np.clip(np.maximum(rate, middle + reach), 0.0, 1.0)
    return low, high


def mean_rate(samples: Sequence[Values], weights: Values | None = None) -> Estimate:
    """The weighted mean over tasks of values in [0, 1], with Wilson's interval.

    Args:
        samples: The values ``(n_i,)`` of each task.
        weights: The weights of the tasks, ``(M,)``, which sum to 1; by default all equal.
    """
    return estimate_of(mean_interval(samples, even(samples) if weights is None else weights))


def mean_interval(samples: Sequence[Values], weights: Values) -> Interval:
    """`mean_rate` of many results at once, whose values of a task are ``(..., n_i)``.

    The effective number is ``N = p (1 - p) / v`` for the rate ``p`` and the variance ``v`` of its
    estimate, ``sum w^2 s^2 / n`` with the variances ``s^2`` of the tasks' values. As values are in
    [0, 1], ``v`` cannot be more than ``p (1 - p)`` times the largest ``w / n``. So ``N`` is at
    least the smallest ``n / w``, which is the number of all values where tasks count the same.
    ``v`` includes ``z^2 / 2`` successes or failures that could have been elsewhere, as many as
    Wilson's interval adds: without them it would be 0 where every task is at 0 or 1.
    """
    counts = np.array([own.shape[-1] for own in samples])
    rate: Values = (np.stack([own.mean(axis=-1) for own in samples], axis=-1) * weights).sum(
        axis=-1
    )
    free = rate * (1 - rate)
    # Of a single value nothing is known, so it varies as much as all of them could.
    variances = [own.var(axis=-1, ddof=1) if own.shape[-1] > 1 else free for own in samples]
    variance = (weights**2 * np.stack(variances, axis=-1) / counts).sum(axis=-1)
    # What a value weighs, squared: the mean over all values.
    squares = (weights**2 / counts).sum() ** 2
    least = 1 / (weights / counts).max()
    return rate, *wilson(rate, np.maximum(least, free / (variance + _Z**2 / 2 * squares)))


def even(samples: Sequence[Values]) -> Values:
    """Weights of tasks that count the same."""
    return np.full(len(samples), 1 / len(samples))


def rate_of_runs(runs: Values, rate: Values | None = None) -> Estimate:
    """The mean of the rates of training runs, ``(n,)`` in [0, 1], with an interval over runs.

    There is no interval of a single run, or if all runs are equal. ``rate`` is as for
    `runs_interval`.
    """
    return estimate_of(runs_interval(runs, rate))


def runs_interval(runs: Values, rate: Values | None = None) -> Interval:
    """`rate_of_runs` of many results at once, ``(..., n)``.

    Args:
        runs: A number of each run.
        rate: The rate, ``(...,)``; by default the mean of the runs.
    """
    from scipy.special import stdtrit  # imported lazily, because training does not need it

    n = runs.shape[-1]
    rate = np.asarray(runs.mean(axis=-1) if rate is None else rate)
    variance = runs.var(axis=-1, ddof=1) / n if n > 1 else np.zeros(rate.shape)
    # Equal runs may differ in the last bit of their means.
    known = (variance > 1e-24) & (rate * (1 - rate) > 0)
    student = stdtrit(max(n - 1, 1), _TAIL)
    number = rate * (1 - rate) / np.where(known, variance, 1.0) * (_Z / student) ** 2
    low, high = wilson(rate, np.where(known, number, 1.0))
    return rate, np.where(known, low, np.nan), np.where(known, high, np.nan)


def interquartile(rates: Values) -> tuple[Values, Values]:
    """The interquartile mean of all runs of all tasks, and a number of each run that varies as it.

    The mean is that of the middle half of all rates (Agarwal et al. 2021, arXiv:2108.13264, section
    4.3). Its variance is that of rates clipped at the quartiles (Tukey & McLaughlin 1963, Sankhya A
    25(3), p. 331), summed over the tasks of a run, because a run is one network for all tasks.

    Args:
        rates: The rate of each run at each task, ``(..., M, n)``.

    Returns:
        ``(...,)`` and ``(..., n)``.
    """
    *many, m, n = rates.shape
    pooled = np.sort(rates.reshape(*many, m * n), axis=-1)
    cut = m * n // 4
    kept = m * n - 2 * cut
    low, high = pooled[..., cut, None, None], pooled[..., m * n - cut - 1, None, None]
    return pooled[..., cut : cut + kept].mean(axis=-1), rates.clip(low, high).sum(-2) * n / kept


def student(
    samples: Sequence[Values], weights: Values | None = None, value: float | None = None
) -> Estimate:
    """The weighted sum of the means of any numbers, with Student's interval.

    Args:
        samples: The values ``(n_i,)`` of each task, of episodes or of runs. There is no interval if
            one is alone, or none differ.
        weights: The weights of the tasks, ``(M,)``, by default their mean; ``(1, -1)`` is Welch's
            interval of a difference.
        value: A point estimate that varies as the weighted sum does, to be used instead of it.
    """
    from scipy.special import stdtrit

    weights = even(samples) if weights is None else np.asarray(weights)
    if value is None:
        value = float((weights * [own.mean() for own in samples]).sum())
    # Equal numbers may differ in the last bit.
    equal = all(np.ptp(own) <= 1e-12 * max(1.0, np.abs(own).max()) for own in samples)
    if equal or min(map(len, samples)) < 2:
        return Estimate(value)
    counts = np.array([len(own) for own in samples])
    parts = weights**2 * [own.var(ddof=1) for own in samples] / counts
    free = parts.sum() ** 2 / (parts**2 / (counts - 1)).sum()
    reach = -float(stdtrit(free, _TAIL)) * float(np.sqrt(parts.sum()))
    return Estimate(value, value - reach, value + reach)


def difference_of_runs(first: Values, second: Values, value: float | None = None) -> Estimate:
    """How much higher the second's rate is, from the rate of each run, ``(n,)`` and ``(m,)``.

    ``value`` is as for `student`.
    """
    return within(student([second, first], np.array([1.0, -1.0]), value), -1.0)


def interquartile_difference(first: Values, second: Values) -> Estimate:
    """How much higher the second's interquartile mean is, from rates ``(M, n)`` and ``(M, m)``."""
    (p1, one), (p2, other) = interquartile(first), interquartile(second)
    return difference_of_runs(one, other, float(p2 - p1))


def within(found: Estimate, least: float) -> Estimate:
    """An estimate whose interval is cut off where no value can be: below ``least``, above 1."""
    if found.low is None or found.high is None:
        return found
    return Estimate(found.value, max(least, found.low), min(1.0, found.high))


def rate_difference(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Estimate:
    """The second's mean over tasks minus the first's, of one result each, with its interval.

    Args:
        first: The first's values ``(n_i,)`` of each task, in [0, 1].
        second: The second's values, likewise.
        paired: For each task, whether values at the same index have the same goal.
        weights: The weights of the tasks, ``(M,)``, which sum to 1.
    """
    found = estimate_of(difference_interval(first, second, paired, weights))
    few = min(sum(map(len, values)) for values in (first, second)) < LEAST_VALUES
    return Estimate(found.value) if few else found


def difference_interval(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Interval:
    """`rate_difference` of many results at once, whose values of a task are ``(..., n_i)``.

    The method of variance estimates recovery (Zou & Donner 2008, doi:10.1002/sim.3095).
    """
    p1, low1, high1 = mean_interval(first, weights)
    p2, low2, high2 = mean_interval(second, weights)
    correlation = _correlation(first, second, paired, weights)

    def add(a: Values, b: Values) -> Values:
        found: Values = np.sqrt(np.maximum(0.0, a**2 - 2 * correlation * a * b + b**2))
        return found

    low = np.maximum(-1.0, p2 - p1 - add(p2 - low2, high1 - p1))
    return p2 - p1, low, np.minimum(1.0, p2 - p1 + add(high2 - p2, p1 - low1))


def _correlation(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Values:
    """The correlation of the two means ``(...,)``, with Newcombe's continuity correction."""
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
