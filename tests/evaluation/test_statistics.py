"""Intervals by hand, against other libraries, and as their coverage is documented."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage
from mtwrappers.evaluation.statistics import (
    Estimate,
    _correlation,
    interquartile,
    interquartile_difference,
    mean_rate,
    mean_run_rate,
    rate_difference,
    run_rate_difference,
    student,
)

DOCS = Path(__file__).parents[2] / "benchmarks/coverage.md"


def make_successes(successes, n):
    return np.array([1.0] * successes + [0.0] * (n - successes))


def ends(estimate):
    return tuple(map(float, (estimate.value, estimate.low, estimate.high)))


def near(*values):
    return pytest.approx(values, abs=1e-4)


def test_an_estimate_is_printed_with_its_interval():
    assert str(Estimate(0.75, 0.3006, 0.9544)) == "0.750 (0.301 to 0.954, 95%)"
    assert str(Estimate(-12.3456)) == "-12.346"


# Rates.


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(5, 5, 0.5655, 1.0), (0, 5, 0.0, 0.4345), (1, 1, 0.2065, 1.0), (8, 10, 0.4902, 0.9433)],
)
def test_the_interval_of_a_rate_is_wilsons(k, n, low, high):
    estimate = mean_rate([make_successes(k, n)]).estimate()
    assert ends(estimate) == near(k / n, low, high)
    scipys = stats.binomtest(k, n).proportion_ci(method="wilson")
    assert (estimate.low, estimate.high) == pytest.approx(tuple(scipys), abs=1e-12)


@pytest.mark.parametrize("k", [0, 2, 5])
def test_tasks_at_one_rate_have_wilsons_interval_of_all_their_episodes(k):
    assert ends(mean_rate([make_successes(k, 5)] * 10)) == pytest.approx(
        ends(mean_rate([make_successes(10 * k, 50)]))
    )


def test_tasks_at_different_rates_have_the_effective_number_of_episodes():
    """By hand: the variance of the mean of two tasks at 0.1 and 0.9 is 0.01 / 2, and z^2 / 800."""
    z2 = 1.959964**2
    n = 0.25 / (0.1 / 10 / 2 + z2 / 800)
    reach = (0.25 * z2 / n + (z2 / 2 / n) ** 2) ** 0.5 / (1 + z2 / n)
    assert ends(mean_rate([make_successes(1, 10), make_successes(9, 10)])) == near(
        0.5, 0.5 - reach, 0.5 + reach
    )
    # Tasks at 0 and 1 do not vary, and keep an interval.
    estimate = mean_rate([make_successes(0, 5)] * 25 + [make_successes(5, 5)] * 25)
    assert 0.01 < estimate.high - 0.5 < 0.05


def test_weights_count():
    samples = [make_successes(5, 10), make_successes(1, 10)]
    assert ends(mean_rate(samples, np.array([1.0, 0.0]))) == ends(mean_rate(samples[:1]))
    assert mean_rate(samples, np.array([0.75, 0.25])).value == pytest.approx(0.4)


def test_the_interval_of_a_rate_over_runs_has_students_quantile():
    """By hand: 0.7, 0.8, 0.9 have the variance 0.01 / 3 of their mean, and t(2) = 4.3027."""
    n, t2 = 0.8 * 0.2 / (0.01 / 3), 4.302653**2
    middle = (0.8 + t2 / 2 / n) / (1 + t2 / n)
    reach = (0.16 * t2 / n + (t2 / 2 / n) ** 2) ** 0.5 / (1 + t2 / n)
    estimate = mean_run_rate(np.array([0.7, 0.8, 0.9]))
    assert ends(estimate) == near(0.8, middle - reach, middle + reach)


def test_runs_that_do_not_differ_and_a_single_one_have_no_interval():
    for runs in ([0.7], [0.1 + 0.2, 0.3], [1.0] * 4):
        runs = np.array(runs)
        assert mean_run_rate(runs).estimate().low is None
        assert student([runs]).low is None
        assert run_rate_difference(runs, runs).low is None
    assert run_rate_difference(np.array([0.1, 0.5]), np.array([0.9])) == Estimate(
        pytest.approx(0.6)
    )


def test_many_results_at_once_have_the_numbers_of_each():
    rng = np.random.default_rng(0)
    samples = [rng.integers(2, size=(40, n)).astype(float) for n in (1, 4, 9)]
    other_samples = [rng.integers(2, size=(40, n)).astype(float) for n in (2, 4, 9)]
    weights, paired = np.array([0.5, 0.2, 0.3]), [False, True, True]
    means = mean_rate(samples, weights)
    runs = mean_run_rate(samples[1])
    differences = rate_difference(samples, other_samples, paired, weights)
    for i in range(40):
        first, second = [values[i] for values in samples], [values[i] for values in other_samples]
        single = mean_rate(first, weights), mean_run_rate(first[1])
        single += (rate_difference(first, second, paired, weights),)
        for many, expected in zip((means, runs, differences), single, strict=True):
            assert np.array_equal(
                [many.value[i], many.low[i], many.high[i]],
                [expected.value, expected.low, expected.high],
                equal_nan=True,
            )


# All else.


def test_the_mean_of_anything_has_students_interval():
    values = np.array([3.0, -1.0, 4.0, 10.0])
    expected = stats.ttest_1samp(values, 0).confidence_interval()
    assert ends(student([values])) == pytest.approx((4.0, *expected))
    # Of two tasks with the same variance, Satterthwaite's degrees are 2 + 2, and t(4) = 2.7764.
    reach = 2.776445 * (1 / 3 / 2) ** 0.5
    two = [np.array([1.0, 2.0, 3.0]), np.array([7.0, 8.0, 9.0])]
    assert ends(student(two)) == near(5.0, 5.0 - reach, 5.0 + reach)


def test_the_interval_of_a_difference_of_runs_is_welchs():
    first, second = np.array([0.5, 0.6, 0.45, 0.5]), np.array([0.9, 0.6, 0.7])
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    estimate = run_rate_difference(first, second)
    assert ends(estimate) == pytest.approx((second.mean() - first.mean(), *expected))
    assert run_rate_difference(np.array([0.0, 0.1]), np.array([1.0, 0.9])).high == 1.0


def test_the_interquartile_mean_of_runs_varies_with_rates_that_are_clipped_at_the_quartiles():
    """By hand: of 8 rates the middle 4 count; clipped at 0.55 and 0.6, runs sum to 2.25 and 2.4."""
    rates = np.array([[0.5, 0.6], [0.55, 0.65], [0.4, 0.8], [0.6, 0.6]])
    wild = np.array([[0.5, 0.6], [0.55, 0.65], [0.0, 1.0], [0.6, 0.6]])
    for run_rates in (rates, wild):
        value, numbers = interquartile(run_rates)
        assert float(value) == pytest.approx((0.55 + 0.6 * 3) / 4)
        assert numbers == pytest.approx([2.25 / 2, 2.4 / 2])
    # The middle of the others is 0.3925, and theirs sum to 1.45 and 1.64.
    estimate = interquartile_difference(rates - 0.2 + 0.01 * np.arange(2), rates)
    welchs = stats.ttest_ind([1.125, 1.2], [0.725, 0.82], equal_var=False).confidence_interval()
    reach = (welchs.high - welchs.low) / 2
    assert ends(estimate) == near(0.195, 0.195 - reach, 0.195 + reach)


# Differences of one result each.


def compare_task(first, second, paired=False):
    return rate_difference([first], [second], [paired], np.ones(1)).estimate()


def test_the_interval_of_two_rates_is_newcombes():
    """His example (a), 56 of 70 and 48 of 80: 0.0524 to 0.3339 by method 10."""
    assert ends(compare_task(make_successes(48, 80), make_successes(56, 70))) == near(
        0.2, 0.0524, 0.3339
    )


def test_the_interval_of_paired_rates_is_newcombes():
    """Fagerland et al. 2014, a study of 21: 1 both, 1 and 7 alone, 12 neither; 0.026 to 0.507."""
    first = np.array([1] + [1] + [0] * 7 + [0] * 12, float)
    second = np.array([1] + [0] + [1] * 7 + [0] * 12, float)
    estimate = compare_task(first, second, True)
    assert ends(estimate) == pytest.approx((6 / 21, 0.026, 0.507), abs=1e-3)


def test_less_than_three_values_have_no_interval():
    for n in (1, 2):
        assert compare_task(np.zeros(n), np.ones(n)) == Estimate(1.0)
    assert compare_task(np.zeros(3), np.ones(3)).low > 0


# The docs have the tables of `benchmarks.coverage`.


@pytest.fixture(scope="module")
def saved():
    return json.loads(coverage.DATA.read_text())


def test_the_docs_have_the_tables(saved):
    text = DOCS.read_text()
    for name, table in coverage.render_tables(saved).items():
        assert table in text, name


@pytest.mark.parametrize("name", ["single", "groups", "returns"])
def test_the_figures_are_seeded(name, saved):
    """The first draws are those of the benchmark, so few of them come near its figures."""
    rows = coverage.simulate(name, 300)
    assert rows == coverage.simulate(name, 300)
    for row, saved_row in zip(rows, saved[name], strict=True):
        assert row["covers"] == pytest.approx(saved_row["covers"], abs=0.06)


def test_intervals_cover_the_truth_as_often_as_the_docs_say(saved):
    """Where there are enough episodes for a failure to be seen."""
    for row in saved["means"]:
        if row["rates"] != "four fifths 0.98, else 0":
            assert 0.93 < row["covers"] < (0.975 if row["tasks"] == 50 else 1.0), row
    assert min(row["covers"] for row in saved["groups"]) > 0.945
    assert min(row["covers"] for row in saved["single"] if row["episodes"] == 50) > 0.91
    for row in saved["trials"]:
        assert max(row[goals] or 0.0 for goals in ("other goals", "same goals")) < 0.068, row
    for row in saved["runs"]:
        assert min(row["a task"], row["mean"], row["interquartile mean"] or 1.0) > 0.94, row
    for row in saved["method"]:
        assert min(row["mean"], row["interquartile mean"] or 1.0) > 0.90, row


def test_the_continuity_correction_is_of_paired_tasks():
    """A task that is not paired adds to the variances alone, however few values it has."""
    first, second = np.repeat([1.0, 0.0], [10, 10]), np.repeat([1.0, 0.0], [9, 11])
    unpaired = np.array([1.0, 0.0, 1.0])
    weights = np.array([0.5, 0.5])
    correlation = _correlation([first, unpaired], [second, unpaired], [True, False], weights)
    covariance = (0.45 - 0.5 * 0.45) / 4 / 20 - (1 / 4 / 20) ** 2 / 2
    variances = [0.25 * (rates.var() / 20 + unpaired.var() / 3) for rates in (first, second)]
    assert correlation == pytest.approx(covariance / np.sqrt(np.prod(variances)))
