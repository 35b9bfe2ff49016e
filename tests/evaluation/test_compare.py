"""`compare`: differences by hand, whatever the unit, and what the table says about them."""

import dataclasses
import re

import numpy as np
import pytest
from scipy import stats

from mtwrappers.evaluation import (
    Environments,
    EvaluationResult,
    IncomparableError,
    compare,
    plot,
)
from mtwrappers.evaluation.statistics import Estimate, rate_difference
from tests.evaluation.measured import result, trials


def compare_two(first, second):
    [comparison] = compare({"one": [first], "other": [second]})
    return comparison


def test_one_result_each_is_compared_over_episodes():
    comparison = compare_two(result(a=2, b=0), result(a=4, b=1))
    rows = [*comparison.tasks.values(), *comparison.overall.values()]
    assert [(row.first, row.second, row.difference.value) for row in rows] == [
        *((0.5, 1.0, 0.5), (0.0, 0.25, 0.25), (0.25, 0.625, 0.375))
    ]
    first = [np.array([1.0, 1, 0, 0]), np.zeros(4)]
    second = [np.ones(4), np.array([1.0, 0, 0, 0])]
    assert rows[-1].difference == (
        rate_difference(first, second, [True, True], np.array([0.5, 0.5])).estimate()
    )
    assert str(comparison).splitlines() == [
        "A: one (1 run)",
        "B: other (1 run)",
        "",
        "task                   A      B   B - A  (95%)",
        "a                   0.50   1.00   +0.50  -0.10 to +0.85",
        "b                   0.00   0.25   +0.25  -0.28 to +0.70",
        "-" * 58,
        "mean over 2 tasks   0.25   0.62   +0.38  -0.09 to +0.67",
        "95% intervals over episodes of one run each; *: the interval excludes zero",
        "one task: Newcombe (1998); means: likewise, from Wilson's intervals at the",
        "effective number (Korn & Graubard 1998, Franco et al. 2019)",
        "task states compared one by one at 2 of 2 tasks, as both met the same",
    ]


def test_episodes_of_one_goal_are_compared_whatever_their_order():
    run = result(a=[1, 1, 0, 0])
    turned = [dataclasses.replace(e, number=3 - e.number) for e in result(a=[1, 1, 0, 0]).episodes]
    same = compare_two(run, dataclasses.replace(run, episodes=turned))
    moved = [dataclasses.replace(e, task_state=e.task_state + 1) for e in turned]
    apart = compare_two(run, dataclasses.replace(run, episodes=moved))
    assert (same.paired, apart.paired) == (1, 0)
    assert same.tasks["a"].difference.high < apart.tasks["a"].difference.high
    # Goals that a seed determines are the same with the same seed alone.
    drawn = {"environments": Environments("x", {"goals": "continuous"}, "ab")}
    first, second = (result(fields=drawn, a=2) for _ in range(2))
    seeded = dataclasses.replace(second, design=dataclasses.replace(second.design, seed=1))
    assert [compare_two(first, another).paired for another in (second, seeded)] == [1, 0]


def test_the_seed_of_an_evaluation_is_not_taken_for_that_of_a_training_run():
    first, second = (
        result(fields={"environments": Environments("x", {"seed": seed}, "ab")}, a=2)
        for seed in (1, 2)
    )
    message = r"seed 1 and 2 \(.*\): it is of the evaluation; .* as --training-seed, or to result"
    with pytest.raises(IncomparableError, match=message):
        compare_two(first, second)


def test_a_comparison_says_by_which_rule_it_pairs():
    same = compare_two(result(a=1, b=0), result(a=2, b=0))
    assert same.pairing == "task states compared one by one at 2 of 2 tasks, as both met the same"
    for env_id, nouns in (("x", "task states"), ("mtwrappers/MT1-v0", "goals")):
        unknown = {"environments": Environments(env_id, {}, None)}
        apart = compare_two(result(fields=unknown, a=1), result(fields=unknown, a=2))
        sentence = f"{nouns} are not compared one by one: result 1 of 'one' does not name them"
        assert (apart.paired, apart.pairing) == (0, sentence)
    moved = [dataclasses.replace(e, task_state=9) for e in result(a=1).episodes]
    differing = compare_two(result(a=1), dataclasses.replace(result(a=1), episodes=moved))
    assert differing.pairing == "task states are not compared one by one: they are not the same"
    [runs] = compare({"one": [result(0, a=1)], "other": [result(i, a=1) for i in (0, 1)]})
    assert runs.pairing == "runs are not paired: each is a training of its own"
    for comparison in (same, apart, differing, runs):
        assert comparison.pairing in str(comparison).splitlines()


def test_a_goal_that_is_met_twice_counts_twice_as_in_its_score():
    episodes = [dataclasses.replace(e, task_state=e.number // 3) for e in result(a=3).episodes]
    run = dataclasses.replace(result(a=0), episodes=episodes)
    assert compare_two(run, dataclasses.replace(run, evidence="other")).tasks["a"].first == 0.75


def test_several_results_of_a_policy_are_runs():
    first, second = ([result(i, a=a, b=4) for i, a in enumerate(of)] for of in ((1, 2), (4, 3)))
    [comparison] = compare({"one": first, "other": second})
    assert ([score.runs for score in comparison.scores], comparison.unit) == ([2, 2], "runs")
    row = comparison.tasks["a"].difference
    welchs = stats.ttest_ind([1, 0.75], [0.25, 0.5], equal_var=False).confidence_interval()
    assert (row.value, row.low, row.high) == (0.5, pytest.approx(welchs.low), 1.0)
    assert comparison.tasks["b"].difference.low is None  # no run differs
    mean = comparison.overall["mean over tasks"].difference
    welchs = stats.ttest_ind([1, 0.875], [0.625, 0.75], equal_var=False).confidence_interval()
    assert (mean.low, mean.high) == pytest.approx((welchs.low, welchs.high))
    assert str(comparison).splitlines()[-4:] == [
        "95% intervals over runs; *: the interval excludes zero",
        "Welch's t (1947)",
        "2 runs are few: a star is right if runs scatter normally",
        "runs are not paired: each is a training of its own",
    ]
    [single] = compare({"one": first, "other": second[:1]})
    assert all(row.difference.low is None for row in single.overall.values())
    assert "a single run has no interval: it says nothing about other runs" in str(single)


def test_an_interval_that_excludes_zero_never_shows_it():
    def lines(difference):
        [comparison] = compare({"one": [result(a=1)], "other": [result(a=3)]})
        row = dataclasses.replace(comparison.tasks["a"], difference=difference)
        return str(dataclasses.replace(comparison, tasks={"a": row}, overall={})).splitlines()

    assert "+4e-03 to +0.81 *" in "".join(lines(Estimate(0.4, 0.004, 0.81)))
    assert "-0.81 to -4e-03 *" in "".join(lines(Estimate(-0.4, -0.81, -0.004)))
    assert "+0.00 to +0.81" in "".join(lines(Estimate(0.4, 0.0, 0.81)))


def test_a_difference_without_interval_says_that_runs_are_equal(monkeypatch):
    first, second = (
        [result(i, a=k, b=k, c=4) for i, k in enumerate(ks)] for ks in ((4, 4, 4), (0, 0, 0))
    )
    second[0] = result(0, a=0, b=1, c=4)
    [comparison] = compare({"one": first, "other": second})
    lines = str(comparison).splitlines()
    assert lines[4:12] == [
        "a                   1.00   0.00   -1.00  equal runs",
        "b                   1.00   0.08   -0.92  -1.00 to -0.56 *",
        "c                   1.00   1.00   +0.00  equal runs",
        "-" * 58,
        "mean over 3 tasks   1.00   0.36   -0.64  -0.76 to -0.52 *",
        "equal runs: how much they scatter is unknown, so no interval and no star",
        "95% intervals over runs; *: the interval excludes zero",
        "Welch's t (1947)",
    ]
    assert "equal runs" not in comparison.format(tasks=False)
    # A single run, and runs of which some differ, have other reasons or none.
    assert "equal runs" not in str(compare({"one": first, "other": second[:1]})[0])
    footers = []
    monkeypatch.setattr(plot, "draw_rows", lambda *args: footers.append(args[-1]))
    comparison.plot("plot.png")
    comparison.plot("plot.png", tasks=False)
    lines = "lines: 95% intervals over runs; dark: the interval excludes zero"
    # The difference of the means has an interval, and the mean of the first has none.
    assert footers == [f"{lines}; without a line: equal runs"] * 2
    footers.clear()
    [scattered] = compare({"one": second, "other": [result(0, a=1, b=2, c=3), second[1]]})
    scattered.plot("plot.png", tasks=False)
    [single] = compare({"one": second, "other": second[:1]})
    single.plot("plot.png", tasks=False)
    reason = "; without a line: a single run has no interval over runs"
    assert footers == [lines, f"{lines}{reason}"]


@pytest.mark.parametrize(
    ("difference", "tick"), [(0.05, "0.05"), (-0.15, "0.1"), (0.2, "0.1"), (-0.5, "0.3")]
)
def test_the_axis_of_differences_is_as_long_as_they_are(difference, tick, tmp_path):
    estimate = Estimate(difference, difference - 0.03, difference)
    path = tmp_path / "plot.svg"
    panels = {plot.DIFFERENCE: [plot.Series("", plot.DARK, [estimate])]}
    plot.draw_rows(path, ["a"], 1, panels, "", "")
    assert {*re.findall(r"<!-- ([\d.]+) -->", path.read_text())} == {"0", tick}


def test_five_runs_have_an_interquartile_mean():
    first = [result(i, a=k, b=2) for i, k in enumerate((0, 1, 2, 3, 4))]
    second = [result(i, a=k, b=3) for i, k in enumerate((4, 3, 4, 4, 3))]
    [comparison] = compare({"one": first, "other": second})
    row = comparison.overall["interquartile mean"]
    assert row.first == pytest.approx((0.5 * 6) / 6)  # of 0, 1/4, 2/4, 2/4 x 5, 3/4, 1
    assert row.second == pytest.approx((0.75 * 5 + 1) / 6)
    assert row.difference.low < row.difference.value < row.difference.high
    [four] = compare({"one": first, "other": second[:4]})
    assert "interquartile mean" not in four.overall


def test_few_shot_results_are_compared_trial_by_trial():
    comparison = compare_two(trials(0, 1, 0, 2, 1, 0), trials(3, 3, 2, 3, 3, 3))
    row = comparison.tasks["a"]
    assert (row.first, row.second) == pytest.approx((4 / 18, 17 / 18))
    assert (comparison.unit, comparison.paired) == ("trials", 1)
    assert "95% intervals over trials of one run each" in str(comparison)
    two = compare_two(trials(0, 0), trials(3, 3))
    assert two.tasks["a"].difference.low is None
    assert "tasks with fewer than 3 trials (here 2) have no interval, and so no star" in str(two)


def test_two_policies_that_record_success_are_needed():
    with pytest.raises(ValueError, match=r"two policies or more to compare, got \['one'\]"):
        compare({"one": [result(a=1)]})
    none = {"success_once": None, "success_final": None}
    episodes = [dataclasses.replace(e, **none) for e in result(a=1).episodes]
    with pytest.raises(ValueError, match=r"other' .*: let a wrapper report info\[\"success\"\]"):
        compare_two(result(a=1), EvaluationResult(episodes))


def test_a_plot_over_runs_has_no_interval_of_a_single_run(monkeypatch):
    drawn = []
    monkeypatch.setattr(plot, "draw_rows", lambda *arguments: drawn.append(arguments[3]))
    [comparison] = compare({"one": [result(0, a=1)], "two": [result(0, a=1), result(1, a=3)]})
    comparison.plot("plot.png")
    single, several = drawn[0][plot.RATE]
    assert [estimate.low for estimate in single.estimates] == [None, None]
    assert None not in [estimate.low for estimate in several.estimates]
    assert comparison.scores[0].tasks["a"].low is not None
