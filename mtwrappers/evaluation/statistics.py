"""Means and interquartile means over tasks, differences between two policies, and intervals.

Rates (of values in [0, 1]: successes and failures, or means of them) have Wilson's interval (Wilson
1927) at the *effective number* of values: as many as a binomial rate would need to be known as
precisely. For one task of successes and failures that is Wilson's own. The effective number is that
of Korn & Graubard (1998, Survey Methodology 24(2), p. 193), who put it into the exact binomial
interval; Franco, Little, Louis & Slud (2019, Journal of Survey Statistics and Methodology 7(3),
p. 334) put it into Wilson's and recommend that.
Everything else (returns, lengths) has percentile bootstrap intervals. Resamples are drawn here
rather than by SciPy, so that a saved result keeps its intervals when another version of SciPy reads
it; a test compares the two. ``python -m benchmarks.coverage`` simulates how often intervals cover.

Rates of several training runs have the same form: the effective number follows from how much the
runs differ, with the degrees of freedom that these leave (Korn & Graubard 1998). For the
interquartile mean, runs differ in their rates after all were clipped at the quartiles (Tukey &
McLaughlin 1963, Sankhya A 25(3), p. 331).

Of a difference between one result each, the intervals of the two rates are added by their squares,
with the correlation of goals that both have met: for one task, that is Newcombe's interval
(Statistics in Medicine 17, 1998, p. 873, method 10; for the same goals p. 2635, method 10). Between
training runs, the means of runs have Welch's interval (Welch 1947), and everything else a bootstrap
interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
# A value, and both ends of its interval.
Interval: TypeAlias = tuple[Values, Values, Values]
# A function of the values ``(..., n)`` of each task of two policies, returning ``(...,)``.
Statistic: TypeAlias = Callable[[Sequence[Values], Sequence[Values]], Values]
# Two successes and two failures differ by chance in an eighth of all cases: too few values.
LEAST_VALUES = 3
# With this many runs, the bootstrap of whole runs has its nominal coverage.
LEAST_RUNS = 5
# By the unit and how many runs there are of each policy, how often the bootstrap's intervals for
# 95 % cover the truth, as `benchmarks.coverage` simulates it.
COVERED = {
    "runs": {3: 0.88, 5: 0.96, 10: 0.97},
    "runs of each task": {3: 0.87, 5: 0.92, 10: 0.92},
}
# Of a method's runs, how often intervals for 95 % cover the truth at least, likewise. A task is one
# that no run fails altogether; ``"failing"`` is one that a tenth of the runs do.
LEAST_COVERED = {
    "runs": {"task": 0.94, "mean": 0.93, "interquartile mean": 0.91, "failing": 0.47},
    "runs of each task": {"task": 0.94, "mean": 0.87, "interquartile mean": 0.84, "failing": 0.44},
}
# Resamples at a time: bounds the memory at some tens of megabytes for 50 tasks of 50 episodes.
_AT_A_TIME = 500


@dataclass(frozen=True)
class Estimate:
    """A point estimate with its confidence interval.

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
    samples: Sequence[Values], trim: float, rng: Generator, confidence: float, resamples: int
) -> Estimate:
    """A trimmed mean over tasks of any numbers, with its bootstrap interval.

    The tasks are those of interest, not a sample of others: the interval is about their episodes.
    ``samples`` are the values ``(n_i,)`` of each task.
    """
    value = float(trimmed_mean(np.array([values.mean() for values in samples]), trim))
    if max(len(values) for values in samples) < 2:
        return Estimate(value, None, None)
    # Stratified percentile bootstrap, within each task (Agarwal et al. 2021, section 4.2; with one
    # task it is the ordinary one of Efron 1979).
    draws = []
    for start in range(0, resamples, _AT_A_TIME):
        n = min(_AT_A_TIME, resamples - start)
        means = [
            values[rng.integers(len(values), size=(n, len(values)))].mean(axis=-1)
            for values in samples
        ]
        draws.append(trimmed_mean(np.stack(means, axis=-1), trim))
    tail = (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(value, low, high)


def mean_of_runs(values: Values, confidence: float) -> Estimate:
    """The mean of a number of each training run, ``(n,)``, with Student's interval (1908).

    There is no interval for a single run, or if all runs are equal.
    """
    from scipy.special import stdtrit  # imported lazily, because training does not need it

    value, n = float(values.mean()), len(values)
    # Equal numbers may differ in the last bit of their mean.
    if n < 2 or (error := float(values.std(ddof=1)) / math.sqrt(n)) < 1e-12:
        return Estimate(value, None, None)
    reach = -float(stdtrit(n - 1, (1 - confidence) / 2)) * error
    return Estimate(value, value - reach, value + reach)


def rate_of_runs(
    samples: Sequence[Values], weights: Values, confidence: float, whole: bool
) -> Estimate:
    """The weighted mean over tasks of a method's rates, with an interval over its training runs.

    There is no interval if a task has a single run, or all runs are equal.

    Args:
        samples: The rate of each run of each task, ``(n_i,)``, in [0, 1].
        weights: The weights of the tasks, ``(M,)``, which sum to 1.
        confidence: The confidence level of the interval, in (0, 1).
        whole: Whether the rates at one index of all tasks belong to one run, a network for all
            tasks; otherwise runs of different tasks are independent (Satterthwaite 1946).
    """
    return _if_finite(runs_interval(samples, weights, confidence, whole))


def trimmed_rate_of_runs(samples: Sequence[Values], confidence: float, whole: bool) -> Estimate:
    """The interquartile mean of all runs of all tasks, as `rate_of_runs`; see there."""
    return _if_finite(trimmed_runs_interval(samples, confidence, whole))


def _if_finite(found: Interval) -> Estimate:
    value, low, high = map(float, found)
    return Estimate(value, None, None) if math.isnan(low) else Estimate(value, low, high)


def runs_interval(
    samples: Sequence[Values], weights: Values, confidence: float, whole: bool
) -> Interval:
    """`rate_of_runs` of many results at once, ``(..., n_i)`` each; NaN where there is none."""
    rate = sum(w * own.mean(axis=-1) for w, own in zip(weights, samples, strict=True))
    return _over_runs(np.asarray(rate), samples, weights, confidence, whole)


def trimmed_runs_interval(samples: Sequence[Values], confidence: float, whole: bool) -> Interval:
    """`trimmed_rate_of_runs` of many results at once, ``(..., n_i)`` each; NaN for none."""
    pooled = np.sort(np.concatenate(samples, axis=-1), axis=-1)
    n = pooled.shape[-1]
    cut = int(n * 0.25)
    low, high = pooled[..., cut, None], pooled[..., n - cut - 1, None]
    weights = np.array([own.shape[-1] / (n - 2 * cut) for own in samples])
    clipped = [own.clip(low, high) for own in samples]
    return _over_runs(interquartile_mean(samples), clipped, weights, confidence, whole)


def _over_runs(
    rate: Values, samples: Sequence[Values], weights: Values, confidence: float, whole: bool
) -> Interval:
    """Wilson's interval of a rate at the effective number of the runs that it was estimated from.

    ``N = p (1 - p) / v``, with the variance ``v`` of the weighted sum of means, and Student's
    quantile instead of the normal one.
    """
    from scipy.special import stdtrit

    if min(own.shape[-1] for own in samples) < 2:
        none = np.full(rate.shape, np.nan)
        return rate, none, none
    if whole:  # a run is a number
        samples = [np.sum([w * own for w, own in zip(weights, samples, strict=True)], axis=0)]
        weights = np.ones(1)
    counts = np.array([own.shape[-1] for own in samples])
    parts = weights**2 * np.stack([own.var(axis=-1, ddof=1) for own in samples], axis=-1) / counts
    variance = parts.sum(axis=-1)
    # Equal runs may differ in the last bit of their means.
    known = (variance > 1e-24) & (rate * (1 - rate) > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        free = variance**2 / (parts**2 / (counts - 1)).sum(axis=-1)
        reach = stdtrit(np.where(known, free, 1.0), (1 - confidence) / 2)
        number = rate * (1 - rate) / variance * (quantile(confidence) / reach) ** 2
    ends = wilson(rate, np.where(known, number, 1.0), confidence)
    low, high = (np.where(known, end, np.nan) for end in ends)
    return rate, low, high


def mean_rate(samples: Sequence[Values], weights: Values, confidence: float) -> Estimate:
    """The weighted mean over tasks of values in [0, 1], with Wilson's interval.

    Args:
        samples: The values ``(n_i,)`` of each task.
        weights: Of the tasks, ``(M,)``, which sum to 1.
        confidence: How likely the interval covers the truth, in (0, 1).
    """
    return Estimate(*map(float, mean_interval(samples, weights, confidence)))


def mean_interval(samples: Sequence[Values], weights: Values, confidence: float) -> Interval:
    """`mean_rate` of many results at once, whose values of a task are ``(..., n_i)``."""
    found = moments(samples)
    rate: Values = (found.means * weights).sum(axis=-1)
    return rate, *wilson(rate, effective_number(rate, found, weights, confidence), confidence)


def trimmed_rate(samples: Sequence[Values], trim: float, confidence: float) -> Estimate:
    """The trimmed mean over tasks of values in [0, 1], with its interval; see `trimmed_mean`.

    Which tasks are left out is itself a matter of chance: a lucky task is taken for one of the
    best. That moves the trimmed mean, at three episodes of 50 equal tasks by more than an interval
    is wide. So the tasks are also sorted by every other value, and averaged over those between,
    which are then as lucky as any. The interval reaches over Wilson's intervals around both means.
    There is none where a task has a single value.
    """
    if int(len(samples) * trim) and min(len(values) for values in samples) < 2:
        return Estimate(float(trimmed_mean(moments(samples).means, trim)), None, None)
    return Estimate(*map(float, trimmed_interval(samples, trim, confidence)))


def trimmed_interval(samples: Sequence[Values], trim: float, confidence: float) -> Interval:
    """`trimmed_rate` of many results at once, whose values of a task are ``(..., n_i)``."""
    m = len(samples)
    cut = int(m * trim)
    if not cut:
        return mean_interval(samples, np.full(m, 1 / m), confidence)
    found = moments(samples)
    rate = trimmed_mean(found.means, trim)
    weights = np.zeros(found.means.shape)
    between = np.argsort(found.means, axis=-1, kind="stable")[..., cut : m - cut]
    np.put_along_axis(weights, between, 1 / (m - 2 * cut), axis=-1)
    one, other = (moments([own[..., start::2] for own in samples]).means for start in (0, 1))
    apart = ((_shares(other, cut) * one + _shares(one, cut) * other) / 2).sum(axis=-1)
    ends = [
        wilson(value, effective_number(value, found, weights, confidence), confidence)
        for value in (rate, apart)
    ]
    low, high = (np.stack(both) for both in zip(*ends, strict=True))
    return rate, low.min(axis=0), high.max(axis=0)


def _shares(means: Values, cut: int) -> Values:
    """The weights of tasks in their mean without ``cut`` at either end; equal ones share theirs.

    From means ``(..., M)`` to weights ``(..., M)``.
    """
    m, means = means.shape[-1], means.round(9)
    below = (means[..., None, :] < means[..., :, None]).sum(axis=-1)
    not_above = (means[..., None, :] <= means[..., :, None]).sum(axis=-1)
    inside = np.clip(not_above, cut, m - cut) - np.clip(below, cut, m - cut)
    shares: Values = inside / (not_above - below) / (m - 2 * cut)
    return shares


class Moments(NamedTuple):
    """Of each task's values: means and variances ``(..., M)``, and how many there are ``(M,)``.

    The variances are unbiased, and NaN of a single value.
    """

    means: Values
    variances: Values
    counts: NDArray[np.int64]


def moments(samples: Sequence[Values]) -> Moments:
    """Those of the values ``(..., n_i)`` of each task."""
    variances = [
        own.var(axis=-1, ddof=1) if own.shape[-1] > 1 else np.full(own.shape[:-1], np.nan)
        for own in samples
    ]
    return Moments(
        np.stack([own.mean(axis=-1) for own in samples], axis=-1),
        np.stack(variances, axis=-1),
        np.array([own.shape[-1] for own in samples]),
    )


def effective_number(rate: Values, found: Moments, weights: Values, confidence: float) -> Values:
    """The number of values of a binomial rate that say as much as those of all tasks together.

    ``N = p (1 - p) / v`` for the rate ``p`` and the variance ``v`` of its estimate, ``sum w^2 s^2 /
    n`` with the variances ``s^2`` of the tasks' values. As values are in [0, 1], ``v`` cannot be
    more than ``p (1 - p)`` times the largest ``w / n``. So ``N`` is at least the smallest
    ``n / w``, which is the number of all values where tasks count the same. ``v`` includes
    ``z^2 / 2`` successes or failures that could have been elsewhere, as many as Wilson's interval
    adds: without them it would be 0 where every task is at 0 or 1.

    Args:
        rate: The means over tasks, ``(...,)``.
        found: The moments of the tasks.
        weights: Of the tasks, ``(M,)`` or ``(..., M)``, which sum to 1.
        confidence: Of the interval.
    """
    free = rate * (1 - rate)
    # Of a single value nothing is known, so it varies as much as all of them could.
    variances = np.where(found.counts < 2, free[..., None], found.variances)
    # What a value weighs, squared: the mean over all values.
    squares = (weights**2 / found.counts).sum(axis=-1) ** 2
    variance = (weights**2 * variances / found.counts).sum(axis=-1)
    variance = variance + quantile(confidence) ** 2 / 2 * squares
    least = 1 / (weights / found.counts).max(axis=-1)
    number: Values = np.maximum(least, free / variance)
    return number


def wilson(rate: Values, n: Values, confidence: float) -> tuple[Values, Values]:
    """Wilson's interval of a rate that was estimated from ``n`` values, which need not be whole."""
    z2 = quantile(confidence) ** 2
    middle = (rate + z2 / 2 / n) / (1 + z2 / n)
    inner = np.maximum(0.0, rate * (1 - rate) * z2 / n) + (z2 / 2 / n) ** 2
    reach = np.sqrt(inner) / (1 + z2 / n)
    # Rounding may leave an end beside the rate itself.
    low: Values = np.clip(np.minimum(rate, middle - reach), 0.0, 1.0)
    high: Values = np.clip(np.maximum(rate, middle + reach), 0.0, 1.0)
    return low, high


def quantile(confidence: float) -> float:
    """The quantile ``z`` of a two-sided normal interval, in standard deviations."""
    return -NormalDist().inv_cdf((1 - confidence) / 2)


def rate_difference(
    first: Sequence[Values],
    second: Sequence[Values],
    paired: Sequence[bool],
    weights: Values,
    confidence: float,
) -> Estimate:
    """The second's mean over tasks minus the first's, for values in [0, 1], with its interval.

    Args:
        first: The first's values ``(n_i,)`` of each task.
        second: The second's values, likewise.
        paired: For each task, whether values at the same index have the same goal.
        weights: The weights of the tasks, ``(M,)``, which sum to 1.
        confidence: The confidence level. There is no interval if either has fewer than three
            values.
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
    """Whether either policy has too few values for an interval of the difference."""
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


def welch(first: Values, second: Values, confidence: float) -> Estimate:
    """The mean of the second's runs minus the first's, with Welch's interval.

    Args:
        first: The rate of each run of the first, in [0, 1], ``(n,)``.
        second: The rate of each run of the second, ``(m,)``.
        confidence: The confidence level. There is no interval if either has a single run, or all
            runs are equal.
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

    With ``whole``, a run is one network for all tasks, so its values are correlated between tasks:
    whole runs are resampled, and percentiles are widened for Student's quantile and the lost degree
    of freedom (Hesterberg 2015, The American Statistician 69(4), p. 371, "expanded percentile").
    Otherwise each task's runs are resampled separately (Agarwal et al. 2021, arXiv:2108.13264,
    "stratified").

    Args:
        statistic: The statistic to estimate.
        first: The values ``(n_i,)`` of each task's runs; with ``whole`` in the same order.
        second: Likewise.
        rng: Draws the resamples.
        confidence: The confidence level of the interval.
        resamples: The number of resamples.
        whole: Whether the values at one index of all tasks belong to one run.
        least: The smallest number of runs of a task for an interval, 2 or more; by default 2, and 5
            with ``whole``.
    """
    fewest = min(map(len, (*first, *second)))
    if fewest < (least or (LEAST_RUNS if whole else 2)):
        return Estimate(float(statistic(first, second)), None, None)

    def drawn(values: Sequence[Values], n: int) -> list[Values]:
        shared = rng.integers(len(values[0]), size=(n, len(values[0]))) if whole else None
        return [
            own[rng.integers(len(own), size=(n, len(own))) if shared is None else shared]
            for own in values
        ]

    draws = []
    for start in range(0, resamples, _AT_A_TIME):
        n = min(_AT_A_TIME, resamples - start)
        draws.append(statistic(drawn(first, n), drawn(second, n)))
    tail = _expanded_tail(fewest, confidence) if whole else (1 - confidence) / 2
    low, high = np.quantile(np.concatenate(draws), (tail, 1 - tail)).tolist()
    return Estimate(float(statistic(first, second)), low, high)


def _expanded_tail(n: int, confidence: float) -> float:
    """The share of resamples to leave out at either end, for ``n`` runs (Hesterberg 2015)."""
    from scipy.special import ndtr, stdtrit

    return float(ndtr(math.sqrt(n / (n - 1)) * stdtrit(n - 1, (1 - confidence) / 2)))


def interquartile_mean(values: Sequence[Values]) -> Values:
    """The mean of the middle half of all runs of all tasks, ``(..., n)`` each, to ``(...,)``.

    Agarwal et al. 2021, section 4.3.
    """
    return trimmed_mean(np.concatenate(values, axis=-1), 0.25)


def improvement(first: Sequence[Values], second: Sequence[Values]) -> Values:
    """The probability that a run of the second is better than one of the first, on a random task.

    ``mean over tasks of P(Y > X) + P(Y = X) / 2``, from all pairs of runs ``(..., n)`` and
    ``(..., m)``: the Mann-Whitney U statistic over ``n * m``. Agarwal et al. 2021, section 4.3.
    """
    of_tasks: list[NDArray[np.float64]] = []
    for one, other in zip(first, second, strict=True):
        apart = other[..., :, None] - one[..., None, :]
        of_tasks.append((np.sign(apart) / 2 + 0.5).mean(axis=(-1, -2)))
    found: Values = np.mean(of_tasks, axis=0)
    return found
