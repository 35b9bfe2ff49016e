"""`compare`: differences with intervals by hand, from published examples and against SciPy."""

import dataclasses

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import stats

from mtwrappers import protocols
from mtwrappers.evaluation import EvaluationResult, IncomparableError, Provenance, compare
from mtwrappers.evaluation.differences import (
    bootstrap,
    improvement,
    interquartile_mean,
    rate_distances,
)
from mtwrappers.evaluation.episodes import Episode

LIST = Provenance(3, {"mujoco": "3.3.0"}, "plain", goals="ab", spec={"id": "x", "kwargs": {}})


def result(seed=0, provenance=LIST, goals=None, **successes):
    """A result of tasks with these successes, each at a goal, and of the last step none."""
    episodes = [
        Episode(task, i, 0.0, 5, bool(one), False, (goals or range(99))[i])
        for task, of_task in successes.items()
        for i, one in enumerate(of_task)
    ]
    return EvaluationResult(episodes, seed, provenance=provenance)


def only(*results, **kwargs):
    one, other = results
    [found] = compare({"one": [one], "other": [other]}, **kwargs)
    return found


# Statistics.


def successes(*counts):
    return [np.repeat([1.0, 0.0], pair) for pair in counts]


def test_the_interval_of_two_rates_is_newcombes():
    """His example (a), 56 of 70 and 48 of 80: 0.0524 to 0.3339 by method 10."""
    other, one = successes((56, 14), (48, 32))
    below, above = rate_distances(one, other, False, 0.95)
    assert (0.2 - below, 0.2 + above) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_the_interval_of_paired_rates_is_newcombes():
    """Fagerland et al. 2014, a study of 21: 1 both, 1 and 7 alone, 12 neither; 0.026 to 0.507."""
    first = np.array([1] + [1] + [0] * 7 + [0] * 12, float)
    second = np.array([1] + [0] + [1] * 7 + [0] * 12, float)
    below, above = rate_distances(first, second, True, 0.95)
    assert (6 / 21 - below, 6 / 21 + above) == pytest.approx((0.026, 0.507), abs=1e-3)


def test_the_interval_of_paired_rates_covers_the_truth_as_often_as_it_says():
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        hard = rng.random(50)  # how hard each goal is, for both
        first, second = ((hard < p).astype(float) for p in (0.5, 0.6))
        flips = rng.random((2, 50)) < 0.2
        first, second = (np.where(f, 1 - v, v) for f, v in zip(flips, (first, second), strict=True))
        below, above = rate_distances(first, second, True, 0.95)
        difference = second.mean() - first.mean()
        covered += difference - below <= 0.06 <= difference + above
    assert 0.92 <= covered / 400 <= 0.99


def test_the_chance_of_improvement_is_the_mann_whitney_statistic():
    rng = np.random.default_rng(1)
    first = [rng.integers(5, size=6) / 4 for _ in range(3)]
    second = [rng.integers(5, size=4) / 4 for _ in range(3)]
    expected = [stats.mannwhitneyu(b, a).statistic / 24 for a, b in zip(first, second, strict=True)]
    assert float(improvement(first, second)) == pytest.approx(np.mean(expected))


def test_the_interquartile_mean_is_that_of_all_runs_of_all_tasks():
    runs = [np.array([0.0, 0.5, 0.9]), np.array([1.0, 0.7, 0.2]), np.array([0.4, 0.3])]
    expected = stats.trim_mean(np.concatenate(runs), 0.25)
    assert float(interquartile_mean(runs)) == pytest.approx(expected)


def test_resamples_stay_within_their_task_and_pairs_together():
    def statistic(one, other):
        return sum(b.mean(axis=-1) - a.mean(axis=-1) for a, b in zip(one, other, strict=True))

    first = [np.array([0.0, 1.0, 5.0]), np.array([9.0, 9.0])]
    second = [own + 0.5 for own in first]
    rng = np.random.default_rng(0)
    paired = bootstrap(statistic, first, second, rng, 0.95, 600, paired=True)
    assert (paired.low, paired.value, paired.high) == pytest.approx((1.0, 1.0, 1.0))
    apart = bootstrap(statistic, first, second, rng, 0.95, 600)
    assert apart.low < 0 < 2 < apart.high


# Comparisons.


def test_episodes_of_one_goal_are_compared_whatever_their_order():
    one = result(reach=[1, 1, 0, 0], goals=[4, 5, 6, 7])
    other = result(reach=[0, 0, 1, 1], goals=[7, 6, 5, 4])
    same = only(one, other)
    assert same.paired == 1
    unpaired = only(one, dataclasses.replace(other, provenance=None))
    assert unpaired.paired == 0
    [paired_row], [row] = same.tasks.values(), unpaired.tasks.values()
    assert paired_row.difference.value == row.difference.value == 0
    assert paired_row.difference.high < row.difference.high
    # Goals that a seed determines are one by one the same with the same seed alone.
    spec = {"id": "x", "kwargs": {"goals": "continuous"}}
    drawn = dataclasses.replace(LIST, spec=spec)
    one, other = (result(reach=[1, 0], goals=[0, 0], provenance=drawn, seed=s) for s in (0, 1))
    assert [only(one, other).paired, only(one, one).paired] == [0, 1]


def test_tasks_and_means_have_the_differences():
    found = only(result(a=[1, 1, 0, 0], b=[0] * 4), result(a=[1, 1, 1, 1], b=[0, 0, 0, 1]))
    a, b = found.tasks.values()
    assert (a.first, a.second, a.difference.value) == (0.5, 1.0, 0.5)
    assert (b.first, b.second, b.difference.value) == (0.0, 0.25, 0.25)
    mean = found.overall["mean over tasks"]
    assert (mean.first, mean.second, mean.difference.value) == (0.25, 0.625, 0.375)
    distances = [row.difference.value - row.difference.low for row in (a, b)]
    assert 0.375 - mean.difference.low == pytest.approx(np.hypot(*distances) / 2)
    assert found.improvement is None
    lines = str(found).splitlines()
    assert lines[:2] == ["A: one (1 run)", "B: other (1 run)"]
    assert lines[4].split()[:4] == ["a", "0.50", "1.00", "+0.50"]
    assert "goals compared one by one at 2 of 2 tasks" in lines


def test_several_results_of_a_policy_are_runs():
    first = [result(a=[1, 0, 0, 0], b=[1] * 4), result(a=[1, 1, 0, 0], b=[1] * 4)]
    second = [result(a=[1] * 4, b=[1] * 4), result(a=[1, 1, 1, 0], b=[1] * 4)]
    [found] = compare({"one": first, "other": second})
    assert found.runs == (2, 2)
    assert found.tasks["a"].difference.value == 0.875 - 0.375
    assert (found.tasks["a"].difference.low, found.tasks["a"].difference.high) == (0.25, 0.75)
    trimmed = found.overall["interquartile mean"]
    assert (trimmed.first, trimmed.second) == (0.75, 1.0)  # of (1/4, 1/2, 1, 1), (3/4, 1, 1, 1)
    assert found.improvement.value == 0.75  # always at a, a tie at b
    assert "chance that B is better" in str(found)
    [alone] = compare({"one": first, "other": second[:1]})
    assert alone.improvement is None
    assert "95% intervals over runs;" in str(alone)


def test_the_rule_of_the_protocol_says_what_a_success_is():
    """Here the last step is asked for, at which nothing succeeds."""
    fields = dataclasses.replace(protocols["metaworld-3.1"], name="mine", success="last").to_dict()
    of_protocol = dataclasses.replace(LIST, protocol=fields)
    found = only(*[result(a=[1, 1], provenance=of_protocol)] * 2)
    assert found.tasks["a"].first == 0.0


def named(name, **kwargs):
    rules = dataclasses.replace(protocols["metaworld-3.1"], name=name, **kwargs)
    return dataclasses.replace(LIST, protocol=rules.to_dict())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (result(a=[1, 1], provenance=named("mine")), "protocols none and mine "),
        (result(b=[1, 1]), "b is a task of some of them alone"),
        (
            result(a=[1], provenance=dataclasses.replace(LIST, spec={"id": "y", "kwargs": {}})),
            "id x and y",
        ),
        (
            result(
                a=[1],
                provenance=dataclasses.replace(
                    LIST, spec={"id": "x", "kwargs": {"max_episode_steps": 150, "workers": 4}}
                ),
            ),
            "max_episode_steps None and 150",
        ),
        (
            result(a=[1], provenance=dataclasses.replace(LIST, versions={"mujoco": "3.2.0"})),
            "mujoco 3.3.0 and 3.2.0",
        ),
    ],
)
def test_results_that_do_not_compare_are_refused_unless_it_is_forced_and_said(change, reason):
    one = result(a=[1, 0])
    with pytest.raises(IncomparableError, match=f"one and other do not compare: {reason}"):
        only(one, change)
    if change.tasks == ("b",):
        with pytest.raises(IncomparableError, match="no task in common"):
            only(one, change, force=True)
        return
    first, *_ = str(only(one, change, force=True)).splitlines()
    assert first.startswith(f"FORCED, these results do not compare: {reason}")


def test_what_is_given_is_checked():
    with pytest.raises(ValueError, match="two policies or more to compare, got \\['one'\\]"):
        compare({"one": [result(a=[1])]})
    with pytest.raises(TypeError, match="expected results of 'other', got 3"):
        compare({"one": [result(a=[1])], "other": [3]})
    silent = EvaluationResult([Episode("a", 0, 1.0, 5)])
    with pytest.raises(ValueError, match="a result of 'other' says nothing of success"):
        compare({"one": [result(a=[1])], "other": [silent]})


def test_the_table_of_all_classes_fits_80_columns_and_the_picture_shows_them(tmp_path):
    names = ["button-press-topdown-wall-v3", *(f"task-{i}" for i in range(49))]
    one = result(**dict.fromkeys(names, [1] * 3))
    other = result(**dict.fromkeys(names, [0] * 3))
    for runs in (1, 2):
        [found] = compare({"one": [one] * runs, "other": [other] * runs})
        assert max(map(len, str(found).splitlines())) <= 80
    found.plot(tmp_path / "plot.png")
    pixels = imageio.imread(tmp_path / "plot.png")
    assert pixels.shape[1] == 960
    assert np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum() > 1000
