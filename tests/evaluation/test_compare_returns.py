"""Comparisons of returns, where no result records success, against SciPy's tests."""

import csv
import dataclasses
import io
import re

import gymnasium
import numpy as np
import pytest
from scipy import stats

from mtwrappers import EvaluationResult, compare, evaluate, few_shot_evaluate
from mtwrappers.evaluation import Design, Episode, IncomparableError, curves, plot, scores
from mtwrappers.evaluation.remake import Environments
from mtwrappers.evaluation.runs import group_runs
from mtwrappers.evaluation.statistics import mean_difference


def make_result(returns, **described):
    """A result with these returns of each task, made by hand."""
    episodes = [
        Episode(task, i, float(value), 5, None, None)
        for task, values in returns.items()
        for i, value in enumerate(values)
    ]
    return EvaluationResult(episodes).described(**described)


def draw(seed, *shape, mean=0.0):
    return np.random.default_rng(seed).normal(mean, 30.0, shape)


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


def test_one_run_each_has_welchs_interval_at_a_task():
    first, second = draw(0, 5), draw(1, 9, mean=40.0)
    [comparison] = compare({"a": [make_result({"t": first})], "b": [make_result({"t": second})]})
    interval = stats.ttest_ind(second, first, equal_var=False).confidence_interval()
    expected = second.mean() - first.mean(), *interval
    assert ends(comparison.tasks["t"].difference) == pytest.approx(expected)
    assert comparison.tasks["t"].first == pytest.approx(first.mean())
    assert comparison.scores[0].metric == "return"
    score = stats.ttest_1samp(first, 0.0).confidence_interval()
    assert ends(comparison.scores[0].tasks["t"])[1:] == pytest.approx(tuple(score))


def test_the_mean_over_tasks_weighs_tasks_alike():
    first = {"t": draw(0, 5), "u": draw(1, 4)}
    second = {"t": draw(2, 6), "u": draw(3, 8, mean=100.0)}
    [comparison] = compare({"a": [make_result(first)], "b": [make_result(second)]})
    variances = np.array([v.var(ddof=1) / len(v) / 4 for r in (first, second) for v in r.values()])
    counts = np.array([len(v) for r in (first, second) for v in r.values()])
    degrees = variances.sum() ** 2 / (variances**2 / (counts - 1)).sum()
    value = np.mean([second[t].mean() - first[t].mean() for t in "tu"])
    reach = stats.t.ppf(0.975, degrees) * np.sqrt(variances.sum())
    difference = comparison.overall["mean over tasks"].difference
    assert ends(difference) == pytest.approx((value, value - reach, value + reach))


def test_several_runs_are_compared_over_runs_without_an_interquartile_mean():
    first, second = draw(0, 5, 2, 3), draw(1, 6, 2, 3, mean=20.0)  # runs, tasks, episodes
    policies = {
        name: [
            make_result(dict(zip("tu", run, strict=True)), training_seed=seed)
            for seed, run in enumerate(runs)
        ]
        for name, runs in (("a", first), ("b", second))
    }
    [comparison] = compare(policies)
    assert comparison.unit == "runs"
    assert [*comparison.overall] == ["mean over tasks"]
    for task, axis in (("t", 0), ("u", 1)):
        a, b = first[:, axis].mean(axis=-1), second[:, axis].mean(axis=-1)
        interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
        assert ends(comparison.tasks[task].difference)[1:] == pytest.approx(tuple(interval))
    a, b = first.mean(axis=(1, 2)), second.mean(axis=(1, 2))
    interval = stats.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert ends(comparison.overall["mean over tasks"].difference)[1:] == pytest.approx(
        tuple(interval)
    )
    mean = scores(policies).methods["a"].overall["mean over tasks"]
    interval = stats.ttest_1samp(a, 0.0).confidence_interval()
    assert ends(mean) == pytest.approx((a.mean(), *interval))


def test_returns_of_the_same_goals_are_compared_goal_by_goal():
    first, noise = draw(0, 8), draw(1, 8) / 30
    estimate = mean_difference([first], [first + 5 + noise], [True])
    interval = stats.ttest_rel(first + 5 + noise, first).confidence_interval()
    assert ends(estimate) == pytest.approx((5 + noise.mean(), *interval))
    assert estimate.high - estimate.low < 3  # and not as wide as the goals scatter


def test_intervals_of_differences_cover_the_truth():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(1000):
        goals = rng.normal(0, 50, 6)
        first = [goals + rng.normal(0, 10, 6), rng.exponential(30, 8)]
        second = [goals + 7 + rng.normal(0, 20, 6), rng.exponential(30, 12) + 3]
        estimate = mean_difference(first, second, [True, False])
        covered += estimate.low <= 5 <= estimate.high
    assert 0.93 < covered / 1000 < 0.97


def test_all_views_show_the_same_returns(tmp_path, monkeypatch):
    returns = {"reach": [-1200.0, -900.0, -1000.0], "push": [-3.0, 4.0, 8.0]}
    better = {task: [value + 500 for value in values] for task, values in returns.items()}
    better["push"][0] += 20
    policies = {"worse": [make_result(returns)], "better": [make_result(better)]}
    table = scores(policies)
    [comparison] = compare(policies)
    reach = table.methods["worse"].tasks["reach"]
    assert comparison.scores[0] == table.methods["worse"]
    low, high = reach.low, reach.high
    assert re.search(rf"reach +-1033 {low:.0f} to {high:.0f}", str(table))
    assert f"| -1033 ({low:.0f} to {high:.0f}) |" in table.format("markdown")
    assert f"$-$1033 {{\\scriptsize ($-${-low:.0f} to $-${-high:.0f})}}" in table.format("latex")
    [record, *_] = csv.DictReader(io.StringIO(table.format("csv")))
    assert (float(record["return"]), float(record["low"])) == (reach.value, low)
    assert record["interval"].startswith("Student's t (1908)")
    difference = comparison.tasks["reach"].difference
    line = next(line for line in str(comparison).splitlines() if line.startswith("reach"))
    assert line.split()[1:4] == ["-1033", "-533", "+500"]
    assert line.endswith(f"  {difference.low:+.0f} to {difference.high:+.0f} *")
    assert "Returns, as no result records success." in table.caption
    for text in (str(table), str(comparison)):
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "success rate" not in text
    drawn = []
    monkeypatch.setattr(plot, "draw_rows", lambda *args: drawn.append(args[3]))
    comparison.plot("x.png")
    assert [*drawn[0]] == ["return", "difference"]


def test_the_axis_of_differences_has_room_for_returns(tmp_path):
    for difference in (0.05, 1.0, 1.5, 42.0, 99_000.0):
        estimates = [plot.Estimate(difference, difference / 2, -difference)]
        series = [plot.Series("", plot.DARK, estimates)]
        plot.draw_rows(tmp_path / "x.png", ["a"], 1, {plot.DIFFERENCE: series}, "", "")
        assert difference <= plot._find_limit(series) <= 2 * difference + 0.1


def test_equal_returns_have_no_interval_and_no_star(monkeypatch):
    equal = make_result({"t": [5.0, 5.0, 5.0]})
    other = make_result({"t": [7.0, 7.0, 7.0]})
    [comparison] = compare({"a": [equal], "b": [other]})
    assert comparison.tasks["t"].difference.low is None
    text = str(comparison)
    assert "equal episodes: how much they scatter is unknown" in text
    assert " *\n" not in text
    assert "3 episodes of a task are few: its star is right if returns scatter normally" in text
    footers = []
    monkeypatch.setattr(plot, "draw_rows", lambda *args: footers.append(args[-1]))
    comparison.plot("x.png")
    assert footers[0].endswith("; without a line: equal episodes")
    assert "no interval where episodes do not differ" in " ".join(scores({"a": [equal]}).caption)


def test_a_few_returns_have_no_interval():
    few, more = make_result({"t": [5.0, 6.0]}), make_result({"t": [7.0, 8.0, 9.0]})
    [comparison] = compare({"a": [few], "b": [more]})
    assert comparison.tasks["t"].difference.low is None
    assert "fewer than 3 episodes (here 2)" in str(comparison)


def test_a_single_episode_is_no_equal_one(monkeypatch):
    tasks = {f"task {i}": [i] for i in range(4)}
    policies = {"a": [make_result(tasks)], "b": [make_result({**tasks, "task 0": [3.0]})]}
    caption = " ".join(scores(policies).caption)
    assert (
        "no interval where a task has a single episode, or where episodes do not differ" in caption
    )
    [comparison] = compare(policies)
    assert comparison.overall["mean over tasks"].difference.low is None
    assert "\nnor does a mean over them, where a task has a single one\n" in str(comparison)
    footers = []
    monkeypatch.setattr(plot, "draw_rows", lambda *args: footers.append(args[-1]))
    comparison.plot("x.png")
    assert footers[0].endswith("; without a line: fewer than 3 episodes")


def test_curves_of_returns(tmp_path):
    results = [
        make_result({"t": draw(seed, 3)}, training_seed=seed, training_steps=steps)
        for seed in range(2)
        for steps in (0, 100)
    ]
    drawn = curves({"mine": results})
    assert drawn.caption[0] == "Returns, as no result records success."
    drawn.plot(tmp_path / "x.png", beside={"a publication": [(50, -300.0)]})
    with pytest.raises(ValueError, match="a return of 'x' must be a finite number"):
        drawn.plot(tmp_path / "x.png", beside={"x": [(50, float("nan"))]})
    assert "return" in drawn.to_csv().partition("\n")[0].split(",")


def test_success_is_not_compared_with_returns():
    with_success = EvaluationResult([Episode("t", 0, 1.0, 5, True, True)])
    with pytest.raises(ValueError, match="result 1 of 'b' does not record success, as result 1 of"):
        compare({"a": [with_success], "b": [make_result({"t": [1.0]})]})


class Constant:
    """A policy with one action for all, which does not adapt."""

    def __init__(self, action):
        self.action = action

    def begin_trial(self):
        """Forgets nothing."""

    def __call__(self, observations):
        return np.full((len(observations), 2), self.action)


class Adapting(Constant):
    """A policy with one action for all, with ``adapt``."""

    def adapt(self, paths):
        """Learns nothing."""


def make_point_robots(num_envs=2, **arguments):
    return gymnasium.make_vec(
        "mtwrappers/PointRobot-v0", num_envs=num_envs, max_episode_steps=5, **arguments
    )


def make_few_shot_result(action, seed=0, trials=4, policy=Constant, **arguments):
    envs = make_point_robots(**arguments)
    return few_shot_evaluate(policy(action), envs, trials, 1, 1, seed=seed)


def evaluate_constant(action, given_tasks=None, tasks=None, **arguments):
    envs = make_point_robots(**arguments)
    if given_tasks is not None:
        envs.set_tasks(given_tasks)
    return evaluate(lambda obs: np.full((len(obs), 2), action), envs, 4, tasks=tasks)


def test_families_are_compared_task_by_task():
    """Their seeds determine the tasks, so policies are given the same ones."""
    first, second = make_few_shot_result(0.0), make_few_shot_result(0.1)
    [comparison] = compare({"a": [first], "b": [second]})
    assert comparison.paired == 2
    assert comparison.pairing.startswith("task states compared one by one at 2 of 2 tasks")
    for task in first.tasks:
        returns = [result.score_table("return").runs[0][task] for result in (first, second)]
        interval = stats.ttest_rel(returns[1], returns[0]).confidence_interval()
        assert ends(comparison.tasks[task].difference)[1:] == pytest.approx(tuple(interval))
    [comparison] = compare({"a": [first], "b": [make_few_shot_result(0.1, seed=1)]})
    assert comparison.paired == 0


def test_given_tasks_of_trials_are_compared_one_by_one():
    tasks = [[{"goal": (x, 0.5)}, {"goal": (0.5, x)}] for x in (-0.5, 0.0, 0.5)]
    results = [make_few_shot_result(action, trials=tasks) for action in (0.0, 0.1)]
    [comparison] = compare({"a": results[:1], "b": results[1:]})
    assert comparison.paired == 2
    other_seed = make_few_shot_result(0.1, trials=tasks, seed=1)
    [comparison] = compare({"a": results[:1], "b": [other_seed]})
    assert comparison.paired == 2


def test_policies_that_adapt_in_other_ways_meet_the_same_tasks_of_a_family():
    recurrent = make_few_shot_result(0.0)
    adapting = make_few_shot_result(0.1, policy=Adapting, num_envs=4, meta_batch_size=2)
    [comparison] = compare({"recurrent": [recurrent], "adapting": [adapting]})
    assert comparison.paired == 2


def test_a_file_per_task_changes_no_comparison_of_a_family():
    first, second = evaluate_constant(0.0), evaluate_constant(0.1, num_envs=4, meta_batch_size=2)
    files = [evaluate_constant(0.1, tasks=[task]) for task in second.tasks]
    [whole] = compare({"a": [first], "b": [second]})
    [divided] = compare({"a": [first], "b": files})
    assert whole.paired == divided.paired == 2
    assert whole.tasks == divided.tasks


def test_episodes_before_adaptation_do_not_name_their_tasks():
    """Their design has no trials, so other given tasks or numbers of trials do not show."""
    tasks = [[[{"goal": (x, y)}] for x in (-0.5, 0.5)] for y in (0.0, 0.5)]
    results = [
        make_few_shot_result(0.1, trials=trials, num_envs=1).unadapted for trials in (*tasks, 2)
    ]
    for other in results[1:]:
        [comparison] = compare({"a": results[:1], "b": [other]})
        assert comparison.paired == 0
        assert comparison.pairing.endswith("result 1 of 'a' does not name them")


def test_kept_tasks_are_not_compared_with_those_that_each_episode_draws():
    kept = evaluate_constant(0.0, given_tasks=[{"goal": (0.5, 0.5)}, {"goal": (-0.5, 0.5)}])
    policies = {"a": [kept], "b": [evaluate_constant(0.1)]}
    with pytest.raises(IncomparableError, match="of 'a' keeps the tasks that were set, and result"):
        compare(policies)
    [comparison] = compare(policies, force=True)
    assert comparison.paired == 0


def test_equal_differences_of_the_same_tasks_are_no_equal_episodes(monkeypatch):
    first = make_few_shot_result(0.0)
    returns = dict(zip(first.tasks, [(1.0, 3.0, 4.0, 8.0), (2.0, 3.0, 5.0, 9.0)], strict=True))

    def with_returns(added):
        left = {task: [value + added for value in values] for task, values in returns.items()}
        episodes = [
            dataclasses.replace(episode, episode_return=left[episode.task].pop(0))
            if episode.number == 1
            else episode
            for episode in first.episodes
        ]
        return dataclasses.replace(first, episodes=tuple(episodes))

    [comparison] = compare({"a": [with_returns(0.0)], "b": [with_returns(2.0)]})
    assert comparison.paired == 2
    assert "\nequal differences: how much they scatter is unknown" in str(comparison)
    assert "equal trials" not in str(comparison)
    footers = []
    monkeypatch.setattr(plot, "draw_rows", lambda *args: footers.append(args[-1]))
    comparison.plot("x.png")
    assert footers[0].endswith("; without a line: equal differences")


def test_goals_of_other_trials_are_not_paired():
    """Trial 1 of two is another goal than that of the second environment in a single trial."""
    goals = Environments("mtwrappers/ML1-test-v0", {"goals": "continuous"}, "0" * 32)
    two = Design(episodes_per_task=1, trials=2, adaptation_episodes=1, adaptation_steps=1)
    episodes = [Episode("t", 1, float(trial), 5, None, None, trial=trial) for trial in range(2)]
    results = [
        EvaluationResult(episodes, design, environments=goals)
        for design in (two, dataclasses.replace(two, trials=1))
    ]
    runs = [group_runs({"a": [result]})[0].runs[0] for result in results]
    assert runs[0].goals is not None
    assert runs[0].goals == group_runs({"a": [results[0]]})[0].runs[0].goals
    assert runs[0].goals != runs[1].goals
