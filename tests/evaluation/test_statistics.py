"""Estimates by hand, and against SciPy's bootstrap."""

import numpy as np
import pytest
from scipy import stats

from mtwrappers.evaluation.statistics import Estimate, estimate, interquartile_mean, mean_of_means


def rng(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def test_the_mean_gives_every_task_the_same_weight():
    samples = [np.array([0.0, 0.0, 0.0, 4.0]), np.array([5.0])]
    assert mean_of_means(samples) == 3.0


@pytest.mark.parametrize(
    ("samples", "expected"),
    [
        ([[1.0, 2.0, 3.0, 100.0]], 2.5),
        ([[-50.0, 2.0], [4.0, 100.0]], 3.0),
        ([[7.0]], 7.0),
        ([[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 90.0, -90.0]], 3.0),  # two of nine at either end
        ([[1.0, 2.0, 6.0]], 3.0),  # too few to leave any out
    ],
)
def test_the_interquartile_mean_leaves_a_quarter_out_at_either_end(samples, expected):
    assert interquartile_mean([np.array(own) for own in samples]) == expected


@pytest.mark.parametrize("statistic", [mean_of_means, interquartile_mean])
def test_statistics_reduce_the_last_axis(statistic):
    samples = [rng(1).normal(size=(3, 8)), rng(2).normal(size=(3, 5))]
    rows = [float(statistic([own[i] for own in samples])) for i in range(3)]
    assert statistic(samples).tolist() == rows


@pytest.mark.parametrize("statistic", [mean_of_means, interquartile_mean])
@pytest.mark.parametrize("confidence", [0.8, 0.95])
def test_the_interval_is_scipys_stratified_percentile_bootstrap(statistic, confidence):
    samples = [rng(3).normal(size=40), 5 + rng(4).exponential(size=25), rng(5).normal(size=10)]

    def of_all(*resampled, axis=-1):
        return statistic(resampled)

    theirs = stats.bootstrap(
        samples,
        of_all,
        n_resamples=20_000,
        confidence_level=confidence,
        method="percentile",
        vectorized=True,
    ).confidence_interval
    ours = estimate(samples, statistic, rng(), confidence, 20_000)
    assert ours.value == statistic(samples)
    width = theirs.high - theirs.low
    assert ours.low == pytest.approx(theirs.low, abs=0.04 * width)
    assert ours.high == pytest.approx(theirs.high, abs=0.04 * width)


def test_resamples_stay_within_their_task():
    samples = [np.zeros(10), np.full(10, 4.0)]
    assert estimate(samples, mean_of_means, rng(), 0.95, 300) == Estimate(2.0, 2.0, 2.0)


def test_one_value_a_task_has_no_interval():
    samples = [np.array([1.0]), np.array([3.0])]
    assert estimate(samples, mean_of_means, rng(), 0.95, 300) == Estimate(2.0, None, None)


def test_as_many_resamples_are_drawn_as_asked_for(monkeypatch):
    drawn = []

    def counting(samples):
        drawn.append(np.shape(samples[0]))
        return mean_of_means(samples)

    estimate([np.arange(4.0)], counting, rng(), 0.95, 1234)
    assert drawn[0] == (4,)
    assert sum(shape[0] for shape in drawn[1:]) == 1234


def test_95_of_100_intervals_cover_the_mean_about_95_times():
    covered = 0
    for seed in range(400):
        found = estimate([rng(seed).normal(size=50)], mean_of_means, rng(10_000 + seed), 0.95, 500)
        covered += found.low <= 0.0 <= found.high
    assert 365 <= covered <= 393
