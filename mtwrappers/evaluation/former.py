"""Intervals of results as files have them now: bootstrapped, and interquartile means of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mtwrappers.evaluation.statistics import Estimate, Interval, Values

_AT_A_TIME = 500


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
