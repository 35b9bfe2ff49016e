"""Means, differences and their 95% intervals: Wilson's for rates, Student's t for all else.

**Rates** (of values in [0, 1]: successes and failures, or means of them) have Wilson's interval
(Wilson 1927) at the *effective number* of values: as many as a binomial rate would need to be known
as precisely. For one task of successes and failures that is Wilson's own. The effective number is
that of Korn & Graubard (1998, Survey Methodology 24(2), p. 193), who put it into the exact binomial
interval; Franco, Little, Louis & Slud (2019, Journal of Survey Statistics and Methodology 7(3),
p. 334) put it into Wilson's and recommend that. Rates of several training runs have the same form:
the effective number follows from how much the runs differ, with Student's quantile.

**All else** (returns, lengths, differences of them, and of runs) has Student's t (1908), with the
degrees of freedom of Welch (1947) and Satterthwaite (1946) where samples differ in their variance.

The difference between the rates of one result each has the intervals of both, added by their
squares, with the correlation of goals that both have met: for one task, that is Newcombe's interval
(Statistics in Medicine 17, 1998, p. 873, method 10; for the same goals p. 2635, method 10).

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
# Two successes and two failures differ by chance in an eighth of all cases: too few values.
LEAST_VALUES = 3
# With fewer runs, an interquartile mean says little.
LEAST_RUNS = 5
CONFIDENCE = 0.95  # the level of all intervals
_TAIL = round((1 - CONFIDENCE) / 2, 9)  # rounded to exactly 0.025
_Z = -NormalDist().inv_cdf(_TAIL)


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its 95% confidence interval; ``str`` prints both.

    Args:
        value: The point estimate.
        low: The lower end of the interval; ``None`` if there is no interval.
        high: The upper end, likewise.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> episodes = [Episode("reach", i, 0.0, 5, i > 0, False) for i in range(4)]
    >>> rate = EvaluationResult(episodes).per_task["reach"]["success_once"]
    >>> rate.value, round(rate.low, 2), round(rate.high, 2)
    (0.75, 0.3, 0.95)
    >>> print(rate)
    0.750 (0.301 to 0.954, 95%)
    """

    value: float
    low: float | None = None
    high: float | None = None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.value:.3f}"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f}, {CONFIDENCE:.0%})"


# By the metric's name; None where no episode has it.
Estimates = Mapping[str, Estimate | None]


@dataclass(frozen=True)
class Intervals:
    """Point estimates of many results at once, with their 95% confidence intervals.

    Args:
        value: The point estimates, ``(...,)``.
        low: The lower ends, likewise; NaN where there is no interval.
        high: The upper ends, likewise.
    """

    value: Values
    low: Values
    high: Values

    def estimate(self) -> Estimate:
        """The estimate of a single result, whose arrays have no axes."""
        if np.isnan(self.low):
            return Estimate(float(self.value))
        return Estimate(float(self.value), float(self.low), float(self.high))


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


def equal_weights(num_tasks: int) -> Values:
    """Weights of tasks that count the same, ``(M,)``."""
    return np.full(num_tasks, 1 / num_tasks)


def mean_rate(samples: Sequence[Values], weights: Values | None = None) -> Intervals:
    """The weighted mean over tasks of values in [0, 1], with Wilson's interval.

    The effective number is ``N = p (1 - p) / v`` for the rate ``p`` and the variance ``v`` of its
    estimate, ``sum w^2 s^2 / n`` with the variances ``s^2`` of the tasks' values. As values are in
    [0, 1], ``v`` cannot be more than ``p (1 - p)`` times the largest ``w / n``. So ``N`` is at
    least the smallest ``n / w``, which is the number of all values where tasks count the same.
    ``v`` includes ``z^2 / 2`` successes or failures that could have been elsewhere, as many as
    Wilson's interval adds: without them it would be 0 where every task is at 0 or 1.

    Args:
        samples: The values of each task, ``(..., n_i)``; the leading axes are of many results.
        weights: The weights of the tasks, ``(M,)``, which sum to 1; by default all equal.
    """
    weights = equal_weights(len(samples)) if weights is None else weights
    counts = np.array([values.shape[-1] for values in samples])
    means = np.stack([values.mean(axis=-1) for values in samples], axis=-1)
    rate: Values = (means * weights).sum(axis=-1)
    binomial = rate * (1 - rate)
    # Of a single value nothing is known, so it varies as much as all of them could.
    variances = [
        values.var(axis=-1, ddof=1) if values.shape[-1] > 1 else binomial for values in samples
    ]
    variance = (weights**2 * np.stack(variances, axis=-1) / counts).sum(axis=-1)
    # The weight of a value, squared: the mean over all values.
    squares = (weights**2 / counts).sum() ** 2
    least = 1 / (weights / counts).max()
    number = np.maximum(least, binomial / (variance + _Z**2 / 2 * squares))
    return Intervals(rate, *wilson(rate, number))


def mean_run_rate(runs: Values, rate: Values | None = None) -> Intervals:
    """The mean of the rates of training runs, which are in [0, 1], with an interval over runs.

    There is no interval of a single run, or if all runs are equal.

    Args:
        runs: A number of each run, ``(..., n)``; the leading axes are of many methods.
        rate: The rate, ``(...,)``; by default the mean of the runs.
    """
    from scipy.special import stdtrit  # imported lazily, because training does not need it

    n = runs.shape[-1]
    rate = np.asarray(runs.mean(axis=-1) if rate is None else rate)
    variance = runs.var(axis=-1, ddof=1) / n if n > 1 else np.zeros(rate.shape)
    # Equal runs may differ in the last bit of their means.
    differ = (variance > 1e-24) & (rate * (1 - rate) > 0)
    student = stdtrit(max(n - 1, 1), _TAIL)
    number = rate * (1 - rate) / np.where(differ, variance, 1.0) * (_Z / student) ** 2
    low, high = wilson(rate, np.where(differ, number, 1.0))
    return Intervals(rate, np.where(differ, low, np.nan), np.where(differ, high, np.nan))


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
    *leading, m, n = rates.shape
    pooled = np.sort(rates.reshape(*leading, m * n), axis=-1)
    cut = m * n // 4
    middle = m * n - 2 * cut
    low, high = pooled[..., cut, None, None], pooled[..., m * n - cut - 1, None, None]
    numbers = rates.clip(low, high).sum(-2) * n / middle
    return pooled[..., cut : cut + middle].mean(axis=-1), numbers


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

    weights = equal_weights(len(samples)) if weights is None else np.asarray(weights)
    if value is None:
        value = float((weights * [numbers.mean() for numbers in samples]).sum())
    # Equal numbers may differ in the last bit.
    equal = all(np.ptp(numbers) <= 1e-12 * max(1.0, np.abs(numbers).max()) for numbers in samples)
    if equal or min(map(len, samples)) < 2:
        return Estimate(value)
    counts = np.array([len(numbers) for numbers in samples])
    variances = weights**2 * [numbers.var(ddof=1) for numbers in samples] / counts
    degrees = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    reach = -float(stdtrit(degrees, _TAIL)) * float(np.sqrt(variances.sum()))
    return Estimate(value, value - reach, value + reach)


def mean_difference(
    first: Sequence[Values],
    second: Sequence[Values],
    paired: Sequence[bool],
    weights: Values | None = None,
) -> Estimate:
    """The second's mean over tasks minus the first's, of any numbers, with Student's interval.

    Args:
        first: The first's values of each task, ``(n_i,)``, of episodes or of runs.
        second: The second's values, likewise.
        paired: For each task, whether values at the same index have the same goal. Then their
            differences are the sample.
        weights: The weights of the tasks, ``(M,)``; by default all equal.
    """
    weights = equal_weights(len(first)) if weights is None else weights
    samples: list[Values] = []
    sample_weights: list[float] = []
    tasks = zip(first, second, paired, weights.tolist(), strict=True)
    for first_values, second_values, is_paired, weight in tasks:
        if is_paired:
            samples.append(second_values - first_values)
            sample_weights.append(weight)
        else:
            samples += [second_values, first_values]
            sample_weights += [weight, -weight]
    return student(samples, np.array(sample_weights))


def run_rate_difference(first: Values, second: Values, value: float | None = None) -> Estimate:
    """How much higher the second's rate is, from the rate of each run, ``(n,)`` and ``(m,)``.

    ``value`` is as for `student`.
    """
    return clip_interval(student([second, first], np.array([1.0, -1.0]), value), -1.0)


def interquartile_difference(first: Values, second: Values) -> Estimate:
    """How much higher the second's interquartile mean is, from rates ``(M, n)`` and ``(M, m)``."""
    first_mean, first_runs = interquartile(first)
    second_mean, second_runs = interquartile(second)
    return run_rate_difference(first_runs, second_runs, float(second_mean - first_mean))


def clip_interval(estimate: Estimate, least: float) -> Estimate:
    """An estimate whose interval is cut off where no value can be: below ``least``, above 1."""
    if estimate.low is None or estimate.high is None:
        return estimate
    return Estimate(estimate.value, max(least, estimate.low), min(1.0, estimate.high))


def rate_difference(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Intervals:
    """The second's mean over tasks minus the first's, of one result each, with its interval.

    The method of variance estimates recovery (Zou & Donner 2008, doi:10.1002/sim.3095). There is no
    interval if either has fewer than `LEAST_VALUES` values.

    Args:
        first: The first's values of each task, ``(..., n_i)``, in [0, 1]; the leading axes are of
            many results.
        second: The second's values, likewise.
        paired: For each task, whether values at the same index have the same goal.
        weights: The weights of the tasks, ``(M,)``, which sum to 1.
    """
    first_mean, second_mean = mean_rate(first, weights), mean_rate(second, weights)
    correlation = _correlation(first, second, paired, weights)

    def add(a: Values, b: Values) -> Values:
        reach: Values = np.sqrt(np.maximum(0.0, a**2 - 2 * correlation * a * b + b**2))
        return reach

    difference = second_mean.value - first_mean.value
    low_reach = add(second_mean.value - second_mean.low, first_mean.high - first_mean.value)
    high_reach = add(second_mean.high - second_mean.value, first_mean.value - first_mean.low)
    low = np.maximum(-1.0, difference - low_reach)
    high = np.minimum(1.0, difference + high_reach)
    fewest = min(sum(values.shape[-1] for values in samples) for samples in (first, second))
    if fewest < LEAST_VALUES:
        low = high = np.full_like(difference, np.nan)
    return Intervals(difference, low, high)


def _correlation(
    first: Sequence[Values], second: Sequence[Values], paired: Sequence[bool], weights: Values
) -> Values:
    """The correlation of the two means ``(...,)``, with Newcombe's continuity correction."""
    shape = first[0].shape[:-1]
    first_variance, second_variance = np.zeros(shape), np.zeros(shape)
    covariance, correction = np.zeros(shape), 0.0
    tasks = zip(first, second, paired, weights, strict=True)
    for first_values, second_values, pairs, weight in tasks:
        n, second_n = first_values.shape[-1], second_values.shape[-1]
        first_variance = first_variance + weight**2 * first_values.var(axis=-1) / n
        second_variance = second_variance + weight**2 * second_values.var(axis=-1) / second_n
        if pairs:
            correction += weight**2 / n
            product = (first_values * second_values).mean(axis=-1)
            deviation = product - first_values.mean(axis=-1) * second_values.mean(axis=-1)
            covariance = covariance + weight**2 * deviation / n
    covariance = np.where(
        covariance > 0, np.maximum(0.0, covariance - correction**2 / 2), covariance
    )
    scale = np.sqrt(first_variance * second_variance)
    # Equal values may differ in the last bit of their mean.
    correlation = np.divide(covariance, scale, out=np.zeros_like(covariance), where=scale > 1e-15)
    return np.clip(correlation, -1.0, 1.0)
