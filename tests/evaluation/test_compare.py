"""`compare`: differences with intervals by hand, from published examples and against SciPy."""

import dataclasses

import imageio.v3 as imageio
import numpy as np
import pytest
from scipy import stats

from mtwrappers import protocols
from mtwrappers.evaluation import (
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    Provenance,
    compare,
)
from mtwrappers.evaluation.episodes import Episode, Trials
from mtwrappers.evaluation.statistics import (
    bootstrap,
    difference_interval,
    improvement,
    interquartile_mean,
    rate_difference,
    welch,
)

LIST = Provenance(3, {"mujoco": "3.3.0"}, "plain", goals="ab", spec={"id": "x", "kwargs": {}})


def result(seed=0, provenance=LIST, goals=None, paid=0.0, **successes):
    """A result of tasks with these successes, each at a goal, and of the last step none."""
    episodes = [
        Episode(task, i, paid, 5, bool(one), False, (goals or range(99))[i])
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


def of_one_task(first, second, paired=False):
    return rate_difference([first], [second], [paired], np.ones(1), 0.95)


def test_the_interval_of_two_rates_is_newcombes():
    """His example (a), 56 of 70 and 48 of 80: 0.0524 to 0.3339 by method 10."""
    other, one = successes((56, 14), (48, 32))
    found = of_one_task(one, other)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=1e-4)


def test_the_interval_of_two_rates_is_that_of_statsmodels():
    proportion = pytest.importorskip("statsmodels.stats.proportion")
    for counts in ((3, 7), (10, 4)), ((0, 9), (8, 2)), ((5, 5), (5, 5)):
        other, one = successes(*counts)
        found = of_one_task(one, other)
        pairs = [(sum(own), len(own)) for own in (other, one)]
        expected = proportion.confint_proportions_2indep(*pairs[0], *pairs[1], method="newcomb")
        assert (found.low, found.high) == pytest.approx(expected)


def test_the_interval_of_paired_rates_is_newcombes():
    """Fagerland et al. 2014, a study of 21: 1 both, 1 and 7 alone, 12 neither; 0.026 to 0.507."""
    first = np.array([1] + [1] + [0] * 7 + [0] * 12, float)
    second = np.array([1] + [0] + [1] * 7 + [0] * 12, float)
    found = of_one_task(first, second, True)
    assert found.value == pytest.approx(6 / 21)
    assert (found.low, found.high) == pytest.approx((0.026, 0.507), abs=1e-3)


@pytest.mark.parametrize(("tasks", "n"), [(1, 50), (10, 5)])
def test_the_interval_of_paired_rates_covers_the_truth_as_often_as_it_says(tasks, n):
    rng, covered = np.random.default_rng(0), 0
    for _ in range(400):
        hard = rng.random((tasks, n))  # how hard each goal is, for both
        first, second = ((hard < p).astype(float) for p in (0.5, 0.6))
        flips = rng.random((2, tasks, n)) < 0.2
        first, second = (np.where(f, 1 - v, v) for f, v in zip(flips, (first, second), strict=True))
        weights = np.full(tasks, 1 / tasks)
        found = rate_difference(list(first), list(second), [True] * tasks, weights, 0.95)
        covered += found.low <= 0.06 <= found.high
    assert 0.92 <= covered / 400 <= 0.99


def test_goals_that_both_have_met_narrow_the_interval_of_a_mean_over_tasks():
    first = [np.array([1.0, 1.0, 0.0, 0.0, 1.0, 0.0])] * 10
    second = [np.array([1.0, 1.0, 0.0, 1.0, 1.0, 0.0])] * 10
    weights = np.full(10, 0.1)
    together, alone = (
        rate_difference(first, second, [paired] * 10, weights, 0.95) for paired in (True, False)
    )
    assert together.value == alone.value
    assert together.high - together.low < 0.8 * (alone.high - alone.low)


def test_less_than_three_values_have_no_interval():
    """Two successes beside two failures happen to equal policies in an eighth of all cases."""
    for n in (1, 2):
        found = of_one_task(np.zeros(n), np.ones(n))
        assert (found.value, found.low, found.high) == (1.0, None, None)
    assert of_one_task(np.zeros(3), np.ones(3)).low > 0


def test_the_interval_of_means_of_runs_is_welchs():
    rng = np.random.default_rng(2)
    first, second = rng.normal(0.5, 0.1, 4), rng.normal(0.6, 0.3, 7)
    found = welch(first, second, 0.9)
    expected = stats.ttest_ind(second, first, equal_var=False).confidence_interval(0.9)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    weightstats = pytest.importorskip("statsmodels.stats.weightstats")
    means = weightstats.CompareMeans.from_data(second, first)
    theirs = means.tconfint_diff(alpha=0.1, usevar="unequal")
    assert (found.low, found.high) == pytest.approx(theirs)


def test_runs_that_do_not_differ_and_a_single_one_have_no_interval():
    equal = np.full(3, 0.7)
    for one, other in ((equal, equal - 0.1), (equal, np.array([0.9])), (np.array([0.1]),) * 2):
        found = welch(one, other, 0.95)
        assert (found.low, found.high) == (None, None)
    assert welch(equal, np.array([0.1, 0.1, 0.2]), 0.95).high < 0


def runs_of(rng, n, tasks=10):
    """Success rates of equal policies: a run that is good at one task is good at all."""
    shared, own = rng.normal(0, 0.07, (1, n)), rng.normal(0, 0.1, (tasks, n))
    return list(np.clip(0.6 + shared + own, 0, 1))


@pytest.mark.parametrize("n", [3, 5])
def test_means_of_runs_cover_the_truth_where_stratified_resamples_do_not(n):
    rng, covered, stratified = np.random.default_rng(0), 0, 0
    weights = np.full(10, 0.1)

    def statistic(one, other):
        return sum((b.mean(-1) - a.mean(-1)) / 10 for a, b in zip(one, other, strict=True))

    for _ in range(200):
        one, other = runs_of(rng, n), runs_of(rng, n)
        found = welch(weights @ np.array(one), weights @ np.array(other), 0.95)
        covered += found.low <= 0 <= found.high
        alone = bootstrap(statistic, one, other, rng, 0.95, 200, whole=False)
        stratified += alone.low <= 0 <= alone.high
    assert 0.92 <= covered / 200 <= 0.99
    assert stratified / 200 < 0.75


def test_whole_runs_are_resampled_for_all_tasks_at_once():
    """At the second task, each run makes up for what it lacks at the first: no sum differs."""
    first = [np.arange(5) / 10, 1 - np.arange(5) / 10]
    second = [np.zeros(5), np.zeros(5)]

    def statistic(one, other):
        return np.round(sum(b.mean(-1) - a.mean(-1) for a, b in zip(one, other, strict=True)), 9)

    settings = np.random.default_rng(0), 0.95, 300
    whole = bootstrap(statistic, first, second, *settings, whole=True)
    assert (whole.low, whole.value, whole.high) == (-1.0, -1.0, -1.0)
    alone = bootstrap(statistic, first, second, *settings, whole=False)
    assert alone.low < -1 < alone.high
    few = [own[:4] for own in first], [own[:4] for own in second]
    assert bootstrap(statistic, *few, *settings, whole=True).low is None


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


# Comparisons.


def test_episodes_of_one_goal_are_compared_whatever_their_order():
    one = result(reach=[1, 1, 0, 0], goals=[4, 5, 6, 7])
    other = result(reach=[0, 0, 1, 1], goals=[7, 6, 5, 4])
    same = only(one, other)
    assert same.paired == 1
    unpaired = only(*(dataclasses.replace(each, provenance=None) for each in (one, other)))
    assert unpaired.paired == 0
    [paired_row], [row] = same.tasks.values(), unpaired.tasks.values()
    assert paired_row.difference.value == row.difference.value == 0
    assert paired_row.difference.high < row.difference.high
    # Goals that a seed determines are one by one the same with the same seed alone.
    spec = {"id": "x", "kwargs": {"goals": "continuous"}}
    drawn = dataclasses.replace(LIST, spec=spec)
    one, other, same = (
        result(reach=[1, 0], goals=[0, 0], provenance=drawn, seed=s, paid=p)
        for s, p in ((0, 0.0), (1, 1.0), (0, 2.0))
    )
    assert [only(one, other).paired, only(one, same).paired] == [0, 1]


def test_tasks_and_means_have_the_differences():
    found = only(result(a=[1, 1, 0, 0], b=[0] * 4), result(a=[1, 1, 1, 1], b=[0, 0, 0, 1]))
    a, b = found.tasks.values()
    assert (a.first, a.second, a.difference.value) == (0.5, 1.0, 0.5)
    assert (b.first, b.second, b.difference.value) == (0.0, 0.25, 0.25)
    mean = found.overall["mean over tasks"]
    assert (mean.first, mean.second, mean.difference.value) == (0.25, 0.625, 0.375)
    assert a.difference.low < mean.difference.low < 0.375 < mean.difference.high
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
    row = found.tasks["a"].difference
    assert row.value == 0.875 - 0.375
    welchs = stats.ttest_ind([1, 0.75], [0.25, 0.5], equal_var=False).confidence_interval()
    assert (row.low, row.high) == pytest.approx((welchs.low, 1.0))
    assert found.tasks["b"].difference.low is None  # no run differs
    mean = found.overall["mean over tasks"].difference
    welchs = stats.ttest_ind([1, 0.875], [0.625, 0.75], equal_var=False).confidence_interval()
    assert (mean.low, mean.high) == pytest.approx((welchs.low, welchs.high))
    trimmed = found.overall["interquartile mean"]
    assert (trimmed.first, trimmed.second) == (0.75, 1.0)  # of (1/4, 1/2, 1, 1), (3/4, 1, 1, 1)
    assert found.improvement.value == 0.75  # always at a, a tie at b
    assert trimmed.difference.low is found.improvement.low is None
    lines = str(found).splitlines()
    assert "chance that B is better" in str(found)
    assert lines[-5:] == [
        "95% intervals over runs; *: the interval excludes zero",
        "tasks and means: Welch's t (1947); all else: bootstrap of whole runs, expanded",
        "(Hesterberg 2015); for 95% it covers 88% at 3, 96% at 5 and 97% at 10 runs",
        "2 runs are few: a star is right if runs scatter normally",
        "the bootstrap takes 5 runs of each; below, it has no interval",
    ]
    [alone] = compare({"one": first, "other": second[:1]})
    assert alone.improvement is None
    assert all(row.difference.low is None for row in alone.overall.values())
    assert "a single run has no interval" in str(alone)


def many(rng, n, paid, p=0.5):
    """Results of ``n`` runs on two tasks, with rates that scatter."""
    return [
        result(paid=paid + i, **{t: rng.random(20) < p + rng.normal(0, 0.1) for t in "ab"})
        for i in range(n)
    ]


def test_five_runs_have_a_bootstrap_interval_of_what_has_no_mean():
    rng = np.random.default_rng(0)
    [found] = compare({"one": many(rng, 5, 0), "other": many(rng, 5, 9)})
    trimmed = found.overall["interquartile mean"].difference
    assert trimmed.low < trimmed.value < trimmed.high
    assert found.improvement.low <= found.improvement.value <= found.improvement.high
    assert not any("takes 5 runs" in line for line in str(found).splitlines())


def test_runs_that_are_networks_of_one_task_each_are_resampled_by_themselves():
    rng = np.random.default_rng(1)
    first, second = many(rng, 5, 0), many(rng, 5, 9)
    [shared] = compare({"one": first, "other": second})
    [own] = compare({"one": first, "other": second}, runs="per_task")
    assert own.tasks == shared.tasks
    means = [each.overall["mean over tasks"].difference for each in (own, shared)]
    assert means[0].value == pytest.approx(means[1].value)
    assert means[0].low != means[1].low
    assert "bootstrap of each task's runs by themselves" in str(own)

    def of_task(results, task):
        return [dataclasses.replace(one, episodes=one.of_task(task)) for one in results]

    # Nor need a result be of all tasks.
    apart = {
        name: of_task(results, "a") + of_task(results[:3], "b")
        for name, results in (("one", first), ("other", second))
    }
    with pytest.raises(IncomparableError, match="only some of them have the task b"):
        compare(apart)
    [found] = compare(apart, runs="per_task")
    assert (found.runs, found.fewest) == ((8, 8), (3, 3))
    assert found.tasks["a"] == own.tasks["a"]
    assert str(found).startswith("A: one (8 results)")
    with pytest.raises(ValueError, match="runs must be 'all_tasks' or 'per_task', got 'mine'"):
        compare(apart, runs="mine")


@pytest.mark.parametrize("evidence", [None, "ab"])
def test_one_result_is_not_several_runs(evidence):
    kept = dataclasses.replace(LIST, evidence=evidence)
    one, again = (result(a=[1, 0, 1], provenance=kept) for _ in range(2))
    other = result(a=[1, 1, 1])
    message = "result 1 of 'one' and result 2 of 'one' have the same"
    with pytest.raises(IncomparableError, match=message):
        compare({"one": [one, again], "other": [other]})
    with pytest.raises(IncomparableError, match=r"mine\.json and theirs\.json have the same"):
        compare({"one": {"mine.json": one}, "other": {"theirs.json": again}})
    forced = only(one, again, force=True)
    assert "have the same" in forced.forced
    # Other actions may come to the same, where nothing is ever paid.
    kept = dataclasses.replace(LIST, evidence="cd")
    if evidence:
        only(one, result(a=[1, 0, 1], provenance=kept))


def test_an_episode_that_stands_twice_is_refused():
    twice = EvaluationResult([*result(a=[1, 0]).episodes, result(a=[1]).episodes[0]])
    with pytest.raises(ValueError, match="result 1 of 'other' has 'a', episode 0 twice"):
        only(result(a=[1, 1]), twice)


def test_a_result_that_does_not_say_what_it_was_measured_on_is_refused_beside_others():
    one, other = result(a=[1, 0, 1]), result(a=[1, 1, 1], provenance=None)
    with pytest.raises(IncomparableError, match="result 1 of 'other' has no provenance"):
        only(one, other)
    # What it does not say does not keep the others from being looked at.
    older = result(a=[0, 1, 1], provenance=dataclasses.replace(LIST, versions={"mujoco": "2"}))
    with pytest.raises(IncomparableError, match="does not say"):
        compare({"one": [one], "other": [other, older]})
    assert only(one, other, force=True).forced


def test_the_table_says_how_many_stars_are_chance_and_what_is_too_few():
    ten, again = (result(**{f"t{i}": [1, k, 0] for i in range(10)}) for k in (0, 1))
    assert "without any difference, about 0.5 of 10 tasks get a star by chance" in str(
        only(ten, again)
    )
    two = only(result(a=[1, 0], b=[1, 0]), result(a=[1, 1], b=[1, 1]))
    assert two.tasks["a"].difference.low is None
    assert two.overall["mean over tasks"].difference.low is not None
    assert "tasks with fewer than 3 episodes (here 2) have no interval, and so no star" in str(two)
    assert "by chance" not in str(two)


def trials(*rates, before=None, paid=0.0, seed=0):
    """Three counted episodes in each trial, of which so many succeed, after two to adapt on."""

    def episodes(successes, first, n):
        return [
            Episode("a", first + i, paid + trial, 5, i < k, False, trial, trial)
            for trial, k in enumerate(successes)
            for i in range(n)
        ]

    design = Trials(len(rates), 2, 3, 1, True)
    adaptation = EvaluationResult(episodes(before or [0] * len(rates), 0, 2), seed)
    evaluation = EvaluationResult(episodes(rates, 2, 3), seed, provenance=LIST)
    return FewShotResult(adaptation, evaluation, design)


def test_few_shot_results_are_compared_trial_by_trial():
    one, other = trials(0, 1, 0, 2, 1, 0), trials(3, 3, 2, 3, 3, 3)
    found = only(one, other)
    row = found.tasks["a"]
    assert (row.first, row.second) == pytest.approx((4 / 18, 17 / 18))
    assert row.difference.low > 0
    assert (found.unit, found.paired, found.fewest) == ("trials", 1, (6, 6))
    assert "95% intervals over trials of one run each" in str(found)
    # Adapted against unadapted, of the same trials.
    adapted = only(other.unadapted, other)
    assert adapted.tasks["a"].first == 0.0
    assert adapted.paired == 1
    assert len(other.unadapted.episodes) == 12
    memory = dataclasses.replace(other, trials=dataclasses.replace(other.trials, adapts=False))
    assert len(memory.unadapted.episodes) == 6
    longer = dataclasses.replace(one, trials=dataclasses.replace(one.trials, adaptation_steps=2))
    message = r"episodes to adapt on, and after, \(4, 3\) and \(2, 3\)"
    with pytest.raises(IncomparableError, match=message):
        only(longer, other)


def test_two_trials_bear_no_star():
    found = only(trials(0, 0), trials(3, 3, paid=1.0))
    assert found.tasks["a"].difference.value == 1.0
    assert found.tasks["a"].difference.low is None
    assert "*" not in str(found).split("---")[0]
    assert "tasks with fewer than 3 trials (here 2) have no interval" in str(found)


@pytest.mark.parametrize(("tasks", "n"), [(1, 3), (1, 5), (5, 2), (10, 2)])
@pytest.mark.parametrize("paired", [False, True])
def test_policies_that_adapt_as_well_get_no_more_stars_than_announced(tasks, n, paired):
    rng = np.random.default_rng(0)
    goals = rng.beta(0.5, 0.5, (2, 1500, tasks, n))
    first = rng.binomial(3, goals[0]) / 3
    second = rng.binomial(3, goals[0 if paired else 1]) / 3
    _, low, high = difference_interval(
        [first[:, i] for i in range(tasks)],
        [second[:, i] for i in range(tasks)],
        [paired] * tasks,
        np.full(tasks, 1 / tasks),
        0.95,
    )
    assert ((low > 0) | (high < 0)).mean() <= 0.06


def test_the_rule_of_the_protocol_says_what_a_success_is():
    """Here the last step is asked for, at which nothing succeeds."""
    last = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    last = dataclasses.replace(last, name="mine", success="last", episodes_per_task=2)
    of_protocol = dataclasses.replace(LIST, protocol=last)
    found = only(*(result(a=[1, 1], provenance=of_protocol, paid=paid) for paid in (0.0, 1.0)))
    assert found.tasks["a"].first == 0.0


def named(name, **kwargs):
    protocol = dataclasses.replace(protocols["metaworld-3.1"], name=name, **kwargs)
    return dataclasses.replace(LIST, protocol=protocol)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (result(a=[1, 1], provenance=named("mine")), "protocols none and mine "),
        (result(b=[1, 1]), "only some of them have the task b"),
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
    with pytest.raises(IncomparableError, match=f"one and other are not comparable: {reason}"):
        only(one, change)
    if change.tasks == ("b",):
        with pytest.raises(IncomparableError, match="no task in common"):
            only(one, change, force=True)
        return
    first, *_ = str(only(one, change, force=True)).splitlines()
    assert first.startswith(f"FORCED, these results are not comparable: {reason}")


def test_what_is_given_is_checked():
    with pytest.raises(ValueError, match="two policies or more to compare, got \\['one'\\]"):
        compare({"one": [result(a=[1])]})
    with pytest.raises(TypeError, match="EvaluationResult or FewShotResult as result 1 of 'oth"):
        compare({"one": [result(a=[1])], "other": [3]})
    with pytest.raises(TypeError) as caught:
        compare({"one": [result(a=[1])], "other": trials(*[1] * 999)})
    assert len(str(caught.value)) < 200
    silent = EvaluationResult([Episode("a", 0, 1.0, 5)])
    with pytest.raises(ValueError, match="result 1 of 'other' does not record success"):
        compare({"one": [result(a=[1])], "other": [silent]})


@pytest.mark.slow
def test_the_table_of_all_classes_fits_80_columns_and_the_picture_shows_them(tmp_path):
    names = ["button-press-topdown-wall-v3", *(f"task-{i}" for i in range(49))]

    def results(once, n):
        return [result(paid=float(i), **dict.fromkeys(names, [once] * 3)) for i in range(n)]

    for n, runs in ((2, "all_tasks"), (2, "per_task"), (1, "all_tasks")):
        [found] = compare({"one": results(1, n), "other": results(0, n)}, runs=runs)
        assert max(map(len, str(found).splitlines())) <= 80
    found.plot(tmp_path / "plot.png")
    pixels = imageio.imread(tmp_path / "plot.png")
    assert pixels.shape[1] == 960
    assert np.all(pixels[..., :3] == (0x2A, 0x6F, 0xB0), axis=-1).sum() > 1000


def test_policies_with_other_chunks_are_compared_and_the_table_says_it_of_both():
    chunked = [dataclasses.replace(LIST, action_chunk=n) for n in (1, 16)]
    found = only(*(result(provenance=one, paid=i, a=[1, 0, 1]) for i, one in enumerate(chunked)))
    assert found.action_chunks == (1, 16)
    lines = str(found).splitlines()
    assert lines[0] == "A: one (1 run, 1 action of each chunk executed)"
    assert lines[1] == "B: other (1 run, 16 actions of each chunk executed)"
    found = only(result(a=[1, 0, 1]), result(provenance=chunked[1], a=[1, 1, 1]))
    assert str(found).splitlines()[0] == "A: one (1 run, no chunks of actions)"
    assert "chunk" not in str(only(result(a=[1, 0, 1]), result(a=[1, 0, 0])))
