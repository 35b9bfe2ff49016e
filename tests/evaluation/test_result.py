"""`EvaluationResult`: its numbers, table, JSON and plot."""

import itertools

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import stats

from mtwrappers.evaluation import EvaluationResult, FewShotResult
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.statistics import (
    Estimate,
    estimate,
    mean_interval,
    mean_rate,
    trimmed_interval,
    trimmed_mean,
    trimmed_rate,
)


def episodes(task, returns, successes=None, trials=None):
    nothing = [None] * len(returns)
    rows = zip(returns, successes or nothing, trials or nothing, strict=True)
    return [
        Episode(task, i, float(paid), 10 + i, once, None if once is None else False, trial=trial)
        for i, (paid, once, trial) in enumerate(rows)
    ]


def result(**kwargs):
    first = episodes("reach-v3", [1, 2, 3, 6], [True, True, False, True])
    second = episodes("push-v3", [10, 20, 30, 40], [False] * 4)
    return EvaluationResult(first + second, **kwargs)


def test_every_task_and_all_have_their_means():
    found = result()
    assert found.tasks == ("reach-v3", "push-v3")
    reach, push = found.per_task["reach-v3"], found.per_task["push-v3"]
    assert [e.value for e in reach.values()] == [0.75, 0.0, 3.0, 11.5]
    assert [e.value for e in push.values()] == [0.0, 0.0, 25.0, 11.5]
    assert [e.value for e in found.overall["mean"].values()] == [0.375, 0.0, 14.0, 11.5]
    assert found.overall["interquartile_mean"]["return"].value == 14.0  # too few to leave any out
    assert list(reach) == ["success_once", "success_final", "return", "length"]


def test_intervals_hold_the_value_and_grow_with_the_confidence():
    narrow, wide = (result(confidence=c).per_task["push-v3"]["return"] for c in (0.5, 0.99))
    assert 10 <= wide.low < narrow.low < 25 < narrow.high < wide.high <= 40


def test_no_number_depends_on_which_was_asked_for_first():
    one, other = result(), result()
    late = one.overall, one.per_task
    early = other.per_task, other.overall
    assert late == early[::-1]
    assert result(seed=1).per_task != one.per_task


def test_the_episodes_of_a_trial_are_one_value():
    """Ten equal episodes of each of two trials know no more than two."""
    trials = [0] * 10 + [1] * 10
    found = EvaluationResult(episodes("a", [0] * 10 + [1] * 10, trials=trials))
    estimate = found.per_task["a"]["return"]
    assert (estimate.low, estimate.value, estimate.high) == (0.0, 0.5, 1.0)
    alone = EvaluationResult(episodes("a", [0] * 10 + [1] * 10)).per_task["a"]["return"]
    assert 0.2 < alone.low < 0.5 < alone.high < 0.8
    uneven = EvaluationResult(episodes("a", [1, 2, 6], trials=[0, 0, 1]))
    assert uneven.per_task["a"]["return"].value == 3.75


def test_the_table():
    lines = str(EvaluationResult(episodes("a", [2, 2], [True, True]))).splitlines()
    assert lines == [
        "task n      once (95%)     final (95%)  return  steps",
        "a    2  1.00 0.34-1.00  0.00 0.00-0.66     2.0   10.5",
        "once, final: success rates at any and at the last step",
        "95%: intervals over episodes (Wilson for rates, bootstrap, 2000 resamples)",
    ]
    # Without success, the return has an interval; of one episode it has none.
    found = [*episodes("a", [1, 2, 3]), *episodes("b", [4])]
    assert str(EvaluationResult(found)).splitlines()[:3] == [
        "task               n    return (95%)  steps",
        "a                  3  2.0 1.0 to 3.0   11.0",
        "b                  1             4.0   10.0",
    ]
    # One of two tasks knows no success.
    some = str(EvaluationResult([*episodes("a", [1], [True]), *episodes("b", [1])])).splitlines()
    assert some[2].split() == ["b", "1", "-", "-", "1.0", "10.0"]
    several = str(result(confidence=0.9)).splitlines()
    assert several[0].split()[3:6:2] == ["(90%)", "(90%)"]
    assert [line.split()[:2] for line in several[1:3]] == [["reach-v3", "4"], ["push-v3", "4"]]
    assert several[3] == "-" * len(several[0])
    assert several[4].startswith("mean               8  0.38 0.16-0.65")
    assert several[5].startswith("interquartile mean 8  0.38 0.16-0.65")
    assert several[7].startswith("90%: intervals")


def test_the_table_of_all_classes_fits_80_columns():
    name, many = "button-press-topdown-wall-v3", [-4321.0 - i for i in range(999)]
    two = [*episodes(name, many, [True] * 999), *episodes("b", many, [False] * 999)]
    lines = str(EvaluationResult(two, resamples=9)).splitlines()
    assert max(map(len, lines)) == 80
    assert [line.split()[2:] for line in lines[1:3]] == [
        ["1.00", "1.00-1.00", "0.00", "0.00-0.00", "-4820", "509.0"],
        ["0.00", "0.00-0.00", "0.00", "0.00-0.00", "-4820", "509.0"],
    ]


def test_a_file_brings_everything_back(tmp_path):
    before = result(seed=7, confidence=0.8, resamples=100)
    before.save(tmp_path / "result.json")
    after = EvaluationResult.load(tmp_path / "result.json")
    assert after == before
    assert after.to_dict() == before.to_dict()
    described = before.to_dict()
    assert described["tasks"][0]["success_once"]["value"] == 0.75
    assert described["overall"]["mean"]["return"]["value"] == 14.0
    assert described["episodes"][5]["episode_return"] == 20.0


def test_another_file_is_refused(tmp_path):
    path = tmp_path / "other.json"
    for text, got in (
        ('{"format": "mtwrappers.FewShotResult/1"}', "'mtwrappers.FewShotResult/1'"),
        ("{}", "None"),
        ("[1]", r"\[1\]"),
    ):
        path.write_text(text)
        for kind in (EvaluationResult, FewShotResult):
            with pytest.raises(ValueError, match=f"format {kind.FORMAT!r}, got {got}"):
                kind.load(path)


def test_a_plot_shows_success_or_the_return_and_that_the_evaluation_was_interrupted(tmp_path):
    def drawn(made, *texts):
        made.plot(tmp_path / "plot.png", *texts)
        pixels = imageio.imread(tmp_path / "plot.png")
        assert pixels.shape[1] == 960
        bars = np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum()
        return bars, (pixels[-60:, :, 0] < 128).sum()

    # Half of the axes for a return of 2 out of about 2.1.
    assert drawn(EvaluationResult(episodes("a", [1, 2, 3])))[0] > 10_000
    # A note has a line of its own, which leaves less room for the axes.
    plain, ink = drawn(result(), "Title")
    noted, more = drawn(result(), "Title", "interrupted: 7 of 50 episodes")
    assert 0 < noted < plain
    assert more > ink


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"task": 3}, "task of an episode must be of the type str, got 3"),
        ({"length": "5"}, "length of an episode must be of the type int, got '5'"),
        ({"length": 10**400}, "length of an episode must be of the type int, got 1000"),
        ({"episode_return": float("inf")}, "episode_return of an episode must be of the type floa"),
        ({"success_once": "no"}, r"success_once of an episode must be of the type bool \| None"),
        ({"more": 1}, "expected an episode, got {"),
    ],
)
def test_episodes_of_a_file_are_checked(change, message):
    data = result().to_dict()
    data["episodes"][1].update(change)
    with pytest.raises(ValueError, match=message):
        EvaluationResult.from_dict(data)
    del data["episodes"][1]["task"]
    with pytest.raises(ValueError, match=r"expected an episode|task of an episode"):
        EvaluationResult.from_dict(data)
    with pytest.raises(ValueError, match="episodes must be a list, got 3"):
        EvaluationResult.from_dict({**data, "episodes": 3})
