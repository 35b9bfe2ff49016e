"""Estimates by hand, and against SciPy's bootstrap."""

import numpy as np
import pytest
from scipy import stats

from mtwrappers.evaluation.statistics import Estimate, estimate, trimmed_mean


def rng(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def found(samples, trim=0.0, resamples=300, **kwargs):
    return estimate([np.array(own) for own in samples], trim, rng(), 0.95, resamples, **kwargs)


@pytest.mark.parametrize(
    ("means", "expected"),
    [
        ([1.0, 2.0, 3.0, 100.0], 2.5),
        ([7.0], 7.0),
        ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 90.0, -90.0], 3.0),  # two of nine at either end
        ([1.0, 2.0, 6.0], 3.0),  # too few to leave any out
    ],
)
def test_the_interquartile_mean_leaves_a_quarter_of_the_tasks_out_at_either_end(means, expected):
    assert trimmed_mean(np.array(means), 0.25) == expected
    assert found([[mean - 1, mean + 1] for mean in means], 0.25).value == expected


def test_the_interquartile_mean_of_successes_tells_rates_above_three_quarters_apart():
    """Of the pooled successes it would be 1.0 for both."""
    rates = [found([[1.0] * k + [0.0] * (20 - k)] * 8, 0.25, rate=True).value for k in (16, 19)]
    assert rates == [0.8, 0.95]


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(5, 5, 0.5655, 1.0), (0, 5, 0.0, 0.4345), (1, 1, 0.2065, 1.0), (8, 10, 0.4902, 0.9433)],
)
def test_the_interval_of_a_rate_is_wilsons(k, n, low, high):
    rate = found([[1.0] * k + [0.0] * (n - k)], rate=True)
    assert (rate.value, rate.low, rate.high) == pytest.approx((k / n, low, high), abs=1e-4)


@pytest.mark.parametrize(("trim", "kept"), [(0.0, 4), (0.25, 2)])
def test_the_interval_of_several_rates_covers_their_mean_and_shrinks_with_their_number(trim, kept):
    four, sixteen = (found([[1.0] * 5] * m, trim, rate=True) for m in (4, 16))
    assert four.high == sixteen.high == 1.0
    assert 1 - four.low == pytest.approx((1 - 0.5655) / np.sqrt(kept), abs=1e-4)
    assert 1 - sixteen.low == pytest.approx((1 - four.low) / 2)


def test_tasks_that_are_left_out_do_not_widen_the_interval():
    trimmed = found([[0.0], *[[1.0] * 100] * 3], 0.25, rate=True)
    assert trimmed.value == 1.0
    assert trimmed.low == pytest.approx(1 - (1 - 0.9630) / np.sqrt(2), abs=1e-4)


def test_means_of_trials_are_bootstrapped():
    halves = found([[0.5, 1.0, 0.0, 0.5]], rate=True)
    assert halves == found([[0.5, 1.0, 0.0, 0.5]])
    # A return of 0 or 1 is no rate.
    assert found([[1.0] * 5]) == Estimate(1.0, 1.0, 1.0)


@pytest.mark.parametrize(("trim", "confidence"), [(0.0, 0.8), (0.25, 0.95)])
def test_the_interval_is_scipys_stratified_percentile_bootstrap(trim, confidence):
    samples = [rng(3).normal(size=40), 5 + rng(4).exponential(size=25), rng(5).normal(size=10)]
    samples.append(rng(6).normal(size=20) - 1)

    def of_all(*resampled, axis=-1):
        return trimmed_mean(np.stack([own.mean(axis=axis) for own in resampled], -1), trim)

    theirs = stats.bootstrap(
        samples,
        of_all,
        n_resamples=20_000,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
    ).confidence_interval
    ours = estimate(samples, trim, rng(), confidence, 20_000)
    assert ours.value == pytest.approx(of_all(*samples))
    near = 0.04 * (theirs.high - theirs.low)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=near)


def test_resamples_stay_within_their_task_and_one_value_has_no_interval():
    assert found([[0.0] * 10, [4.0] * 10]) == Estimate(2.0, 2.0, 2.0)
    assert found([[1.0], [3.0]]) == Estimate(2.0, None, None)
