"""`scores`: a method over its runs by hand, a single run over its episodes, and what is said."""

import csv
import dataclasses
import io

import numpy as np
import pytest
from scipy import stats

from mtwrappers import protocols
from mtwrappers.evaluation import (
    Episode,
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    Provenance,
    scores,
)
from mtwrappers.evaluation.episodes import Trials
from mtwrappers.evaluation.statistics import (
    interquartile_mean,
    rate_of_runs,
    trimmed_rate_of_runs,
)

PLAIN = Provenance(4, {"mujoco": "3.3.0"}, goals="ab", spec={"id": "x", "kwargs": {}})
UNIQUE = iter(range(10**6))


def result(seed=None, steps=None, provenance=PLAIN, **successes):
    """A result of tasks with so many successes of four, and with returns of its own."""
    provenance = dataclasses.replace(provenance, training_seed=seed, training_steps=steps)
    paid = float(next(UNIQUE))
    episodes = [
        Episode(task, i, paid, 5, i < k, False, i)
        for task, k in successes.items()
        for i in range(4)
    ]
    return EvaluationResult(episodes, provenance=provenance)


def ends(found):
    return found.value, found.low, found.high


# Intervals over runs.


def test_a_rate_of_runs_has_wilsons_interval_at_their_effective_number():
    """By hand: 0.7, 0.8, 0.9 have the variance 0.01 / 3 of their mean, and t(2) = 4.3027."""
    value, low, high = ends(rate_of_runs([np.array([0.7, 0.8, 0.9])], np.ones(1), 0.95, True))
    n, t2 = 0.8 * 0.2 / (0.01 / 3), 4.302653**2
    middle = (0.8 + t2 / 2 / n) / (1 + t2 / n)
    reach = (0.16 * t2 / n + (t2 / 2 / n) ** 2) ** 0.5 / (1 + t2 / n)
    assert value == pytest.approx(0.8)
    assert (low, high) == pytest.approx((middle - reach, middle + reach), abs=1e-6)
    # Where rates are far from 0 and 1, and runs alike, that is Student's.
    many = 0.5 + np.random.default_rng(0).normal(0, 0.02, 30)
    student = stats.ttest_1samp(many, 0).confidence_interval()
    assert ends(rate_of_runs([many], np.ones(1), 0.95, True))[1:] == pytest.approx(
        (student.low, student.high), abs=1e-4
    )


def test_runs_that_make_up_at_one_task_for_another_differ_less_as_whole_ones():
    samples = [np.array([0.2, 0.4, 0.6]), np.array([0.7, 0.6, 0.3])]
    weights = np.array([0.5, 0.5])
    whole, apart = (rate_of_runs(samples, weights, 0.95, which) for which in (True, False))
    alone = rate_of_runs([np.array([0.45, 0.5, 0.45])], np.ones(1), 0.95, True)
    assert ends(whole) == pytest.approx(ends(alone))
    assert apart.value == whole.value
    assert apart.high - apart.low > 2 * (whole.high - whole.low)


def test_independent_runs_have_satterthwaites_degrees_of_freedom():
    """Two tasks with equal variances and three runs each have 4; then t = 2.7764."""
    samples = [np.array([0.4, 0.5, 0.6]), np.array([0.4, 0.5, 0.6])]
    found = rate_of_runs(samples, np.array([0.5, 0.5]), 0.95, False)
    n, t2 = 0.25 / (0.01 / 6), 2.776445**2
    reach = (0.25 * t2 / n + (t2 / 2 / n) ** 2) ** 0.5 / (1 + t2 / n)
    assert found.high - 0.5 == pytest.approx(reach, abs=1e-6)


def test_the_interquartile_mean_of_runs_varies_with_rates_that_are_clipped_at_the_quartiles():
    """A single wild rate at either end changes neither the mean nor its interval."""
    calm = [
        np.array([0.5, 0.6]),
        np.array([0.55, 0.65]),
        np.array([0.4, 0.8]),
        np.array([0.6, 0.6]),
    ]
    wild = [*calm[:2], np.array([0.0, 1.0]), calm[3]]
    both = [trimmed_rate_of_runs(samples, 0.95, True) for samples in (calm, wild)]
    assert both[0] == both[1]
    assert both[0].value == pytest.approx(float(interquartile_mean(calm)))
    assert both[0].low < both[0].value < both[0].high
    # By hand: clipped at 0.55 and 0.6, of both runs 4 of 8 rates count.
    runs = 2 / 4 * np.array([0.55 + 0.55 + 0.55 + 0.6, 0.6 + 0.6 + 0.6 + 0.6])
    p, v = both[0].value, runs.var(ddof=1) / 2
    n, t2 = p * (1 - p) / v, 12.706205**2
    middle = (p + t2 / 2 / n) / (1 + t2 / n)
    reach = (p * (1 - p) * t2 / n + (t2 / 2 / n) ** 2) ** 0.5 / (1 + t2 / n)
    assert (both[0].low, both[0].high) == pytest.approx((middle - reach, middle + reach), abs=1e-6)


def test_there_is_no_interval_of_a_single_run_or_where_runs_do_not_differ():
    for samples in ([np.array([0.5])], [np.full(3, 0.1 + 0.2)], [np.ones(4)]):
        for whole in (True, False):
            found = rate_of_runs(samples, np.ones(1), 0.95, whole)
            assert (found.low, found.high) == (None, None)
            assert trimmed_rate_of_runs(samples, 0.95, whole).low is None
    # Equal runs whose means differ in the last bit.
    samples = [np.array(own) for own in ([0.1, 0.3], [0.2, 0.2], [0.3, 0.1])]
    assert np.sum([1 / 3 * own for own in samples], axis=0).std() > 0
    assert rate_of_runs(samples, np.full(3, 1 / 3), 0.95, True).low is None
    one_alone = [np.array([0.5, 0.6]), np.array([0.5])]
    assert rate_of_runs(one_alone, np.array([0.5, 0.5]), 0.95, False).low is None


# Scores.


def test_several_runs_have_intervals_over_runs():
    three = [result(a=4, b=1), result(a=3, b=2), result(a=4, b=2)]
    found = scores({"mine": three}).methods["mine"]
    assert (found.runs, found.episodes, found.unit) == (3, 24, "runs")
    assert found.counts == {"a": 3, "b": 3}
    assert found.tasks["a"] == rate_of_runs([np.array([1, 0.75, 1])], np.ones(1), 0.95, True)
    mean = found.overall["mean over tasks"]
    assert ends(mean) == pytest.approx(
        ends(rate_of_runs([np.array([0.625, 0.625, 0.75])], np.ones(1), 0.95, True))
    )
    trimmed = found.overall["interquartile mean"].value
    assert trimmed == pytest.approx((0.5 + 0.5 + 0.75 + 1) / 4)


def test_a_single_run_has_the_numbers_of_its_result():
    protocol = dataclasses.replace(protocols["lerobot-0.6"], episodes_per_task=4, name="mine")
    groups = dict(protocol.groups)
    tasks = sorted({task for members in groups.values() for task in members})
    rng = np.random.default_rng(0)
    kept = dataclasses.replace(PLAIN, protocol=protocol)
    one = result(provenance=kept, **{task: int(rng.integers(5)) for task in tasks})
    found = scores({"mine": [one]}).methods["mine"]
    assert (found.runs, found.unit) == (1, "episodes")
    headline = one.headline
    assert ends(found.overall["mean over tasks"]) == pytest.approx(ends(headline["tasks"]))
    assert ends(found.overall["mean over groups"]) == pytest.approx(ends(headline["groups"]))
    for name in groups:
        assert ends(found.groups[name]) == pytest.approx(ends(headline[name]))
    trimmed = one.overall["interquartile_mean"]["success_once"]
    assert found.overall["interquartile mean"] == trimmed
    assert found.tasks[tasks[0]] == one.per_task[tasks[0]]["success_once"]
    rows = csv.DictReader(io.StringIO(scores({"mine": [one]}).format("csv", tasks=False)))
    counts = {row["name"]: int(row["n"]) for row in rows}
    assert counts == {
        **{name: 4 * len(members) for name, members in protocol.groups},
        **dict.fromkeys(("mean over tasks", "mean over groups", "interquartile mean"), 200),
    }
    # Several of them: groups over runs.
    more = [
        result(provenance=kept, **{task: int(rng.integers(5)) for task in tasks}) for _ in range(3)
    ]
    found = scores({"mine": more}).methods["mine"]
    members = groups["hard"]
    rates = np.array([[r.per_task[task]["success_once"].value for task in members] for r in more])
    expected = rate_of_runs([rates.mean(axis=1)], np.ones(1), 0.95, True)
    assert ends(found.groups["hard"]) == pytest.approx(ends(expected))


def test_the_rule_of_the_protocol_says_what_a_success_is():
    last = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    last = dataclasses.replace(last, name="mine", success="last", episodes_per_task=4)
    one = result(provenance=dataclasses.replace(PLAIN, protocol=last), a=4)
    assert scores({"mine": [one]}).methods["mine"].tasks["a"].value == 0.0
    assert "success" not in str(scores({"mine": [one]})).partition("Success")[0]
    caption = scores({"mine": [one]}).caption
    label = f"mine ({last.digest[:10]}, not a published protocol) on MT1 reach-v3"
    assert caption[0] == f"Success rates at the last step, protocol {label}."


def test_the_last_steps_of_each_training_count_and_are_named():
    results = [
        result(s, n, a=k) for s, n, k in ((0, 5, 1), (0, 20000, 2), (1, 20000, 4), (1, 5, 3))
    ]
    found = scores({"mine": results})
    of = found.methods["mine"]
    assert (of.runs, of.episodes, of.training_seeds, of.training_steps) == (2, 8, (0, 1), 20000)
    assert of.tasks["a"].value == 0.75
    expected = "mine: 2 runs (training seeds 0, 1) after 20,000 training steps, 8 episodes."
    assert expected in found.caption
    with pytest.raises(IncomparableError, match="the ends of training, 20000 steps and 5 steps"):
        scores({"mine": [*results[:2], results[3]]})


def test_the_caption_and_the_csv_say_how_many_actions_of_each_chunk_were_executed():
    chunked = dataclasses.replace(PLAIN, action_chunk=8)
    found = scores({"x": [result(provenance=chunked, a=1)], "y": [result(a=3)]})
    assert found.caption[1] == "x: 1 run, 4 episodes, 8 actions of each chunk executed."
    assert found.caption[2] == "y: 1 run, 4 episodes."
    rows = csv.DictReader(io.StringIO(found.format("csv", tasks=False)))
    assert [(row["method"], row["action_chunk"]) for row in rows] == [("x", "8"), ("y", "")]


def test_the_caption_says_of_what_intervals_are():
    found = scores({"x": [result(a=1), result(a=1)], "y": [result(a=3)]})
    caption = found.caption
    assert caption[:3] == (
        "Success rates at any step, without a protocol.",
        "x: 2 runs (training seeds not recorded), 8 episodes.",
        "y: 1 run, 4 episodes.",
    )
    for start in (
        "Several runs: 95% intervals over runs: Wilson's",
        "1 run: 95% interval over its episodes, not over training: Wilson's",
    ):
        assert any(one.startswith(start) for one in caption)
    assert "Tukey & McLaughlin 1963" not in " ".join(caption)  # of one task
    assert "Tukey & McLaughlin 1963" in str(scores({"x": [result(a=1, b=4), result(a=2, b=4)]}))
    assert "There is no interval where runs do not differ." in caption
    assert any("interquartile mean in 91%;" in one for one in caption)
    alone = scores({"y": [result(a=3, b=4)]}, confidence=0.9).caption
    assert len(alone) == 4
    assert alone[2].startswith("1 run: 90% interval over its episodes")
    assert alone[3] == "Its interquartile mean is that of the tasks."


def test_networks_of_a_task_each_count_by_themselves():
    results = [result(0, a=1), result(1, a=2), result(0, b=3), result(1, b=4), result(2, b=1)]
    found = scores({"mine": results}, runs="per_task")
    of = found.methods["mine"]
    assert (of.runs, of.unit, of.counts) == (5, "runs of each task", {"a": 2, "b": 3})
    rates = [np.array([0.25, 0.5]), np.array([0.75, 1.0, 0.25])]
    expected = rate_of_runs(rates, np.array([0.5, 0.5]), 0.95, False)
    assert ends(of.overall["mean over tasks"]) == pytest.approx(ends(expected))
    assert "mine: 5 results (training seeds 0, 1, 2), 20 episodes." in found.caption
    assert any("mean over all in 87% and" in one for one in found.caption)
    single = scores({"mine": results[::2]}, runs="per_task").methods["mine"]  # a, b, b
    assert (single.tasks["a"].low, single.overall["mean over tasks"].low) == (None, None)
    once = scores({"mine": [results[0], results[2]]}, runs="per_task").methods["mine"]
    assert (once.unit, once.runs) == ("episodes", 2)
    caption = scores({"mine": [results[0], results[2]]}, runs="per_task").caption
    assert caption[1] == "mine: 1 run of each task in 2 results (training seed 0), 8 episodes."
    assert once.overall["mean over tasks"].low is not None


def few_shot(seed, *rates):
    """Three counted episodes in each trial, of which so many succeed, after two to adapt on."""
    paid = float(next(UNIQUE))

    def episodes(successes, first, n):
        return [
            Episode("a", first + i, paid, 5, i < k, False, trial, trial)
            for trial, k in enumerate(successes)
            for i in range(n)
        ]

    provenance = dataclasses.replace(PLAIN, training_seed=seed)
    return FewShotResult(
        EvaluationResult(episodes([0] * len(rates), 0, 2)),
        EvaluationResult(episodes(rates, 2, 3), provenance=provenance),
        Trials(len(rates), 2, 3, 1, True),
    )


def test_few_shot_results_count_by_trials():
    one, two = few_shot(0, 3, 2, 0), few_shot(1, 3, 3, 1)
    alone = scores({"maml": [one]})
    of = alone.methods["maml"]
    assert (of.unit, of.counts, of.episodes) == ("trials", {"a": 3}, 9)
    assert of.tasks["a"] == one.evaluation.per_task["a"]["success_once"]
    assert "1 run: 95% interval over its trials, not over training" in str(alone)
    caption = " ".join(scores({"maml": [one, two]}).caption)
    assert "at any step, after 2 episodes of adaptation in each trial, without a" in caption
    assert scores({"maml": [one, two]}).methods["maml"].tasks["a"].value == pytest.approx(12 / 18)
    plain = EvaluationResult(
        [Episode("a", i, 7.0, 5, True, False, 0) for i in range(3)],
        provenance=two.evaluation.provenance,
    )
    with pytest.raises(IncomparableError, match="scores over trials and episodes"):
        scores({"maml": [one], "sac": [plain]})


def test_what_does_not_compare_is_refused_over_all_methods_or_said():
    older = dataclasses.replace(PLAIN, versions={"mujoco": "3.2.0"})
    methods = {
        "x": [result(a=1)],
        "y": [result(a=2)],
        "z": {"z.json": result(None, None, older, a=3)},
    }
    message = r"x, y and z are not comparable: mujoco 3\.3\.0 and 3\.2\.0 \(z\.json\)"
    with pytest.raises(IncomparableError, match=message):
        scores(methods)
    forced = scores(methods, force=True)
    said = r"FORCED, these results are not comparable: mujoco 3.3.0 and 3.2.0 (z.json)"
    assert str(forced).splitlines()[0] == said
    assert forced.caption[0] == said
    assert forced.format("markdown").startswith("**FORCED")
    assert r"\caption{FORCED" in forced.format("latex")
    rows = csv.DictReader(io.StringIO(forced.format("csv")))
    assert all(row["forced"] == "mujoco 3.3.0 and 3.2.0 (z.json)" for row in rows)
    # Nor are there the groups or the means of one of several protocols.
    grouped = dataclasses.replace(PLAIN, protocol=protocols["lerobot-0.6"])
    [of, _] = scores(
        {"x": [result(provenance=grouped, a=1, b=2)], "y": [result(a=2, b=1)]}, force=True
    ).methods.values()
    assert (of.groups, list(of.overall)) == ({}, ["mean over tasks", "interquartile mean"])
    twice = methods["y"][0]
    with pytest.raises(IncomparableError, match=r"x and z are not.* have the same episodes"):
        scores({"x": [twice], "z": [twice]})
    with pytest.raises(IncomparableError, match=r"results of x are not comparable: .* the same"):
        scores({"x": [twice, twice]})
    with pytest.raises(IncomparableError, match="no task in common"):
        scores({"x": [result(a=1)], "y": [result(b=1)]}, force=True)


def test_arguments_are_checked():
    one = {"x": [result(a=1)]}
    for kwargs, message in (
        ({"runs": "mine"}, "runs must be 'all_tasks' or 'per_task', got 'mine'"),
        ({"confidence": 1.5}, r"confidence must be a number in \(0, 1\), got 1.5"),
    ):
        with pytest.raises(ValueError, match=message):
            scores(one, **kwargs)
    with pytest.raises(ValueError, match="results of one policy or more, got none"):
        scores({})
    with pytest.raises(ValueError, match="the results of 'x'"):
        scores({"x": []})
    with pytest.raises(ValueError, match="format must be 'table', 'markdown', 'latex' or 'csv'"):
        scores(one).format("html")
    with pytest.raises(TypeError, match="tasks must be True or False"):
        scores(one).format("csv", tasks="no")


# CSV.


def test_csv_has_full_precision_and_the_caption_as_columns():
    protocol = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    protocol = dataclasses.replace(protocol, name="mine", episodes_per_task=4)
    kept = dataclasses.replace(PLAIN, protocol=protocol)
    found = scores({"x": [result(s, 9, kept, **{"reach-v3": s + 1}) for s in range(3)]})
    [task, mean] = csv.DictReader(io.StringIO(found.format("csv")))
    estimate = found.methods["x"].tasks["reach-v3"]
    assert float(task["success"]) == estimate.value == 0.5
    assert (float(task["low"]), float(task["high"])) == (estimate.low, estimate.high)
    expected = {
        "method": "x",
        "over": "task",
        "name": "reach-v3",
        "confidence": "0.95",
        "unit": "runs",
        "n": "3",
        "runs": "3",
        "episodes": "12",
        "training_seeds": "0 1 2",
        "training_steps": "9",
        "action_chunk": "",
        "protocol": "mine",
        "digest": protocol.digest,
        "forced": "",
    }
    assert {name: task[name] for name in expected} == expected
    assert "Student" in task["interval"]
    assert (mean["over"], mean["name"]) == ("all", "mean over tasks")
    [only] = csv.DictReader(io.StringIO(found.format("csv", tasks=False)))
    assert only == mean
    equal = scores({"x": [result(a=4), result(a=4)]}).format("csv")
    assert next(csv.DictReader(io.StringIO(equal)))["low"] == ""


@pytest.mark.parametrize(
    "name", ["=cmd()", "+1", "-1", "@SUM(A1)", " =1", "\uff1d1", '"=1', "a,b", "a\n=1"]
)
def test_csv_has_no_name_that_a_spreadsheet_takes_for_a_formula(name):
    text = scores({name: [result(a=1, b=2)]}).format("csv")
    rows = [*csv.reader(io.StringIO(text))]
    assert {len(row) for row in rows} == {18}
    method = rows[1][0]
    assert method.lstrip()[0] not in "=+-@"
    assert method.removeprefix("'") == name.replace("\n", "\\n")
    assert "\n".join(text.splitlines()) == text
