"""Estimates by hand and against SciPy, and how often intervals cover the truth."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from benchmarks import coverage
from mtwrappers.evaluation.statistics import (
    COVERED,
    LEAST_COVERED,
    Estimate,
    estimate,
    mean_interval,
    mean_rate,
    trimmed_interval,
    trimmed_mean,
    trimmed_rate,
)

DOCS = Path(__file__).parents[2] / "docs/intervals.md"

# Estimates by hand, and against SciPy's bootstrap.


def rng(seed=0):
    return np.random.Generator(np.random.PCG64(seed))


def estimated(samples, trim=0.0, resamples=300):
    return estimate([np.array(own) for own in samples], trim, rng(), 0.95, resamples)


def rate(samples, trim=0.0, confidence=0.95):
    return trimmed_rate([np.array(own, float) for own in samples], trim, confidence)


def of(successes, n):
    return [1.0] * successes + [0.0] * (n - successes)


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
    assert estimated([[mean - 1, mean + 1] for mean in means], 0.25).value == expected


def test_the_interquartile_mean_of_successes_tells_rates_above_three_quarters_apart():
    """Of the pooled successes it would be 1.0 for both."""
    assert [rate([of(k, 20)] * 8, 0.25).value for k in (16, 19)] == [0.8, 0.95]


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(5, 5, 0.5655, 1.0), (0, 5, 0.0, 0.4345), (1, 1, 0.2065, 1.0), (8, 10, 0.4902, 0.9433)],
)
def test_the_interval_of_a_rate_is_wilsons(k, n, low, high):
    found = rate([of(k, n)])
    assert (found.value, found.low, found.high) == pytest.approx((k / n, low, high), abs=1e-4)


def test_the_interval_of_a_rate_is_that_of_statsmodels_and_scipy():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for k, n, confidence in ((0, 4, 0.95), (3, 7, 0.8), (48, 50, 0.99), (50, 50, 0.95)):
        found = rate([of(k, n)], confidence=confidence)
        theirs = proportion.proportion_confint(k, n, 1 - confidence, "wilson")
        assert (found.low, found.high) == pytest.approx(theirs, abs=1e-12)
        scipys = stats.binomtest(k, n).proportion_ci(confidence, method="wilson")
        assert (found.low, found.high) == pytest.approx(tuple(scipys), abs=1e-12)


@pytest.mark.parametrize("m", [4, 50])
def test_tasks_at_one_rate_have_wilsons_interval_of_all_their_episodes(m):
    for k in (0, 2, 5):
        found, pooled = rate([of(k, 5)] * m), rate([of(k * m, 5 * m)])
        assert (found.value, found.low, found.high) == pytest.approx(
            (pooled.value, pooled.low, pooled.high)
        )


def test_tasks_at_different_rates_know_more_than_their_episodes_pooled():
    apart = rate([of(1, 10)] * 20 + [of(9, 10)] * 20)
    pooled = rate([of(200, 400)])
    # The variance between episodes is 0.09 * 10 / 9 a task instead of 0.25, and a few more.
    assert 0.6 < (apart.high - apart.low) / (pooled.high - pooled.low) < 0.72
    assert apart.low < 0.5 < apart.high


@pytest.mark.parametrize("high", [5, 4])
def test_tasks_at_zero_and_one_keep_an_interval(high):
    found = rate([of(0, 5)] * 25 + [of(high, 5)] * 25)
    assert 0.01 < found.high - found.value < 0.05
    assert 0.01 < found.value - found.low < 0.05


def test_weights_count():
    """A group of one task weighs as much as that of nine, so it is known as badly as that task."""
    samples = [np.array(of(5, 10))] * 10
    even = mean_rate(samples, np.full(10, 0.1), 0.95)
    groups = mean_rate(samples, np.array([0.5, *[0.5 / 9] * 9]), 0.95)
    assert groups.value == even.value == 0.5
    assert 1.6 < (groups.high - groups.low) / (even.high - even.low) < 2.1
    alone = mean_rate(samples, np.array([1.0, *[0.0] * 9]), 0.95)
    expected = rate(samples[:1])
    assert (alone.low, alone.high) == pytest.approx((expected.low, expected.high))


def test_one_episode_of_each_task_counts_as_one_of_all():
    """How much the episodes of one task vary is not known, so they are taken for equal tasks."""
    found, pooled = rate([[1.0]] * 7 + [[0.0]] * 3), rate([of(7, 10)])
    assert (found.low, found.high) == pytest.approx((pooled.low, pooled.high))
    trimmed = rate([[1.0]] * 7 + [[0.0]] * 3, 0.25)
    assert (trimmed.value, trimmed.low, trimmed.high) == (pytest.approx(5 / 6), None, None)
    assert estimated([[1.0], [3.0]]) == Estimate(2.0, None, None)


def test_the_interval_of_trials_does_not_jump():
    """Rates of trials are between 0 and 1. A few of them have no narrow interval, and all some."""
    trials = ([1] * 5, [1] * 4 + [2 / 3], [1] * 3 + [2 / 3] * 2, [2 / 3] * 5)
    found = [rate([own]) for own in trials]
    lows = [one.low for one in found]
    assert lows == sorted(lows, reverse=True)
    assert max(a - b for a, b in itertools.pairwise(lows)) < 0.16
    assert all(one.high - one.low > 0.4 for one in found)
    # Many trials that hardly vary know more than as many episodes would.
    many = rate([[0.5, 2 / 3] * 30])
    assert many.high - many.low < 0.5 * (rate([of(35, 60)]).high - rate([of(35, 60)]).low)


def test_the_interval_of_an_interquartile_mean_allows_for_luck():
    """Which of 50 equal tasks seem to be the worst is chance, and leaving them out is no news."""
    episodes = (rng().random((300, 50, 3)) < 0.9).astype(float)
    found, low, high = trimmed_interval([episodes[:, i] for i in range(50)], 0.25, 0.95)
    assert found.mean() > 0.96
    assert ((low <= 0.9) & (high >= 0.9)).mean() > 0.92


# Means, groups, interquartile means: in 500 draws, 0.92 to 0.975 is what 0.95 comes to.
CASES = {
    "50 tasks at 0.95": ("mean", np.full(50, 0.95), 10),
    "10 tasks at 0.8": ("mean", np.full(10, 0.8), 50),
    "10 tasks from 0.05 to 0.95": ("mean", np.linspace(0.05, 0.95, 10), 10),
    "four groups": ("groups", np.repeat([0.95, 0.77, 0.5, 0.6], (28, 11, 6, 5)), 10),
    "middle of 50 tasks from 0.5 to 1": ("trimmed", np.linspace(0.5, 1, 50), 10),
}


@pytest.mark.parametrize("case", CASES)
def test_intervals_cover_the_truth_as_often_as_they_say(case):
    kind, rates, n = CASES[case]
    episodes = (rng().random((500, len(rates), n)) < rates[:, None]).astype(float)
    samples = [episodes[:, i] for i in range(len(rates))]
    weights = np.full(len(rates), 1 / len(rates))
    if kind == "groups":
        weights = np.repeat([1 / 28, 1 / 11, 1 / 6, 1 / 5], (28, 11, 6, 5)) / 4
    if kind == "trimmed":
        truth = trimmed_mean(rates, 0.25)
        _, low, high = trimmed_interval(samples, 0.25, 0.95)
    else:
        truth = weights @ rates
        _, low, high = mean_interval(samples, weights, 0.95)
    assert 0.92 <= ((low <= truth) & (truth <= high)).mean() <= 0.985
    assert (high < truth).any()
    assert (low > truth).any()


def test_a_return_of_zero_or_one_is_no_rate():
    assert estimated([[1.0] * 5]) == Estimate(1.0, 1.0, 1.0)


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
    assert estimated([[0.0] * 10, [4.0] * 10]) == Estimate(2.0, 2.0, 2.0)
    assert estimated([[1.0], [3.0]]) == Estimate(2.0, None, None)


# The docs say what `benchmarks.coverage` has drawn.


@pytest.fixture(scope="module")
def kept():
    return json.loads(coverage.DATA.read_text())


def test_the_docs_have_the_tables(kept):
    text = DOCS.read_text()
    for name, table in coverage.shown(kept).items():
        assert table in text, name


def test_the_figures_are_seeded(kept):
    """The first draws are those of the benchmark, so few of them come near its figures."""
    once, again = (coverage.part_groups(300, np.random.default_rng([0, 1])) for _ in range(2))
    assert once == again
    for few, many in zip(once, kept["groups"], strict=True):
        assert few["covers"] == pytest.approx(many["covers"], abs=0.045)


def test_means_over_tasks_are_covered_as_often_as_is_said(kept):
    """Where there are enough episodes for a failure to be seen."""
    named = [r for r in kept["means"] if r["tasks"] == 50 or r["episodes"] == 50]
    sparse = "four fifths 0.98, else 0"
    for row in named:
        if row["rates"] != sparse:
            assert 0.94 <= row["covers"] <= 0.975, row
            assert row["below"] > 0, row
    for row in kept["groups"]:
        assert 0.94 <= row["covers"] <= (0.985 if row["episodes"] < 50 else 0.96), row
    assert min(row["covers"] for row in kept["means"]) > 0.935


def test_equal_policies_get_few_stars(kept):
    for row in kept["trials"]:
        for goals in ("other goals", "same goals"):
            assert (row[goals] or 0.0) < 0.068, row


def test_tables_of_runs_say_what_was_simulated(kept):
    column = {"runs": "interquartile mean", "runs of each task": "mean"}
    found = {unit: {} for unit in column}
    for row in kept["runs"]:
        if row["runs"] > 2:
            found[row["unit"]][row["runs"]] = round(row[column[row["unit"]]], 2)
    assert found == COVERED
    assert all(row["mean"] >= 0.95 for row in kept["runs"] if row["unit"] == "runs")


def test_scores_say_how_often_intervals_over_runs_cover_at_least(kept):
    names = {"task": "a task", "failing": "a task"}
    for unit, said in LEAST_COVERED.items():
        of_unit = [row for row in kept["method"] if row["unit"] == unit]
        assert len(of_unit) == 48
        for name, least in said.items():
            fails = {"task": (False,), "failing": (True,)}.get(name, (False, True))
            shares = [
                row[names.get(name, name)] for row in of_unit if ("fails" in row["rates"]) in fails
            ]
            assert least == int(100 * min(shares)) / 100, (unit, name)
    # Where no run fails at a task, groups are covered as well.
    fine = [row for row in kept["method"] if "fails" not in row["rates"]]
    assert min(row["five tasks"] for row in fine) >= 0.94
    assert min(row["covers"] for row in kept["group"]) > 0.915
