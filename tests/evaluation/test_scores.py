"""`scores`: a method over its runs by hand, a single run over its episodes, and what is said."""

import csv
import dataclasses
import io

import numpy as np
import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import scores
from mtwrappers.evaluation.statistics import mean_rate, mean_run_rate
from tests.evaluation.measured import result, trials


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


def rows(table, **kwargs):
    return [*csv.DictReader(io.StringIO(table.format("csv", **kwargs)))]


def test_several_runs_have_intervals_over_runs():
    three = [result(0, a=4, b=1), result(1, a=3, b=2), result(2, a=4, b=2)]
    method = scores({"mine": three}).methods["mine"]
    assert (method.runs, method.episodes, method.unit) == (3, 24, "runs")
    assert method.counts == {"a": 3, "b": 3}
    assert method.tasks["a"] == mean_run_rate(np.array([0.75, 1, 1])).estimate()
    assert method.overall == {
        "mean over tasks": mean_run_rate(np.array([0.625, 0.625, 0.75])).estimate()
    }
    assert method.num_tasks == {"mean over tasks": 2}


def test_five_runs_have_an_interquartile_mean_of_all_runs_of_all_tasks():
    five = [result(i, a=4, b=k) for i, k in enumerate((0, 1, 1, 2, 4))]
    table = scores({"mine": five})
    middle = table.methods["mine"].overall["interquartile mean"]
    assert middle.value == pytest.approx((0.25 + 0.5 + 4) / 6)  # of 0, 1/4 x 2, 1/2, 1 x 6
    assert middle.low < middle.value < middle.high
    assert "Tukey & McLaughlin 1963" in " ".join(table.caption)
    for runs in (five[1:], [result(k, a=k) for k in range(5)]):
        assert "interquartile mean" not in str(scores({"mine": runs}))
    # Beside a method with fewer runs, tables have what both have, and CSV all.
    both = scores({"mine": five, "other": [result(a=1, b=1)]})
    assert "interquartile mean  " not in str(both)
    assert [row["method"] for row in rows(both) if "quartile" in row["name"]] == ["mine"]


def test_a_single_run_has_the_numbers_of_its_result():
    protocol = protocols["lerobot-0.6"].variant("mine", episodes_per_task=4)
    groups = dict(protocol.scoring.groups)
    tasks = sorted({task for members in groups.values() for task in members})
    run = result(fields={"protocol": protocol}, **{task: i % 5 for i, task in enumerate(tasks)})
    scored = scores({"mine": [run]})
    method = scored.methods["mine"]
    assert (method.runs, method.unit) == (1, "episodes")
    for name, estimate in {**method.overall, **method.groups}.items():
        assert ends(estimate) == pytest.approx(ends(run.headline[name]))
    assert method.tasks[tasks[1]] == mean_rate([np.array([0.0, 0, 0, 1])]).estimate()
    assert {row["name"]: int(row["n"]) for row in rows(scored, tasks=False)} == {
        **{name: 4 * len(members) for name, members in protocol.scoring.groups},
        **dict.fromkeys(("mean over tasks", "mean over groups"), 200),
    }
    assert {row["name"]: int(row["tasks"]) for row in rows(scored, tasks=False)} == {
        **{name: len(members) for name, members in protocol.scoring.groups},
        **dict.fromkeys(("mean over tasks", "mean over groups"), 50),
    }
    lines = [line[: line.index(")") + 1] for line in str(scored).splitlines() if " tasks) " in line]
    assert lines == [
        f"{name} ({len(members)} tasks)" for name, members in protocol.scoring.groups
    ] + ["mean over groups (50 tasks)"]
    assert "\nmean over 50 tasks " in str(scored)


def test_the_caption_says_what_was_measured_and_of_what_intervals_are():
    table = scores({"x": [result(0, 20_000, a=1), result(1, 20_000, a=1)], "y": [result(a=3)]})
    effective = "Wilson's (1927) at the effective number"
    sources = "(Korn & Graubard 1998; Franco et al. 2019)."
    assert table.caption == (
        "Success rates at any step, without a protocol.",
        "x: 2 runs (training seeds 0, 1) after 20,000 training steps, 8 episodes.",
        "y: 1 run, 4 episodes.",
        f"Several runs: 95% intervals over runs: {effective} with Student's quantile {sources}",
        f"1 run: 95% interval over its episodes, not over training: {effective} {sources}",
        "There is no interval where runs do not differ.",
    )
    same = scores({"x": [result(seed, a=4, b=4) for seed in range(5)]})
    assert same.caption[-1] == (
        "There is no interval where runs do not differ, or where all rates in the middle half are "
        "0 or 1."
    )
    last = protocols["metaworld-3.1"].on("MT1", "reach-v3")
    last = last.variant("mine", success="last", episodes_per_task=4)
    last_step_table = scores({"mine": [result(fields={"protocol": last}, **{"reach-v3": 4})]})
    assert last_step_table.methods["mine"].tasks["reach-v3"].value == 0.0
    label = f"mine ({last.digest[:10]}, not a published protocol) on MT1 reach-v3"
    assert last_step_table.caption[0] == f"Success rates at the last step, protocol {label}."


def test_few_shot_results_count_by_trials():
    first, second = trials(3, 2, 0, seed=0), trials(3, 3, 1, seed=1)
    single = scores({"maml": [first]})
    of = single.methods["maml"]
    assert (of.unit, of.counts, of.episodes) == ("trials", {"a": 3}, 9)
    assert of.tasks["a"] == mean_rate([np.array([0, 2 / 3, 1])]).estimate()
    assert "1 run: 95% interval over its trials, not over training" in " ".join(single.caption)
    both = scores({"maml": [first, second]})
    assert "any step, after 2 episodes of adaptation in each trial, without" in both.caption[0]
    assert both.methods["maml"].tasks["a"].value == pytest.approx(12 / 18)


def test_what_is_forced_is_said_in_every_format():
    older = result(fields={"versions": {"mujoco": "3.2.0"}}, a=3)
    methods = {"x": [result(a=1)], "z": {"z.json": older}}
    table, reason = scores(methods, force=True), "mujoco 3.3.0 and 3.2.0 (z.json)"
    warning = f"FORCED, these results are not comparable: {reason}"
    assert str(table).splitlines()[0] == table.caption[0] == warning
    assert table.format("markdown").startswith("**FORCED")
    assert r"\caption{FORCED" in table.format("latex")
    assert {row["mismatch"] for row in rows(table)} == {reason}
    # Nor are there the groups of one of several protocols.
    grouped = result(fields={"protocol": protocols["lerobot-0.6"]}, a=1, b=2)
    [of, _] = scores({"x": [grouped], "y": [result(a=2, b=1)]}, force=True).methods.values()
    assert (of.groups, [*of.overall]) == ({}, ["mean over tasks"])


def test_the_csv_has_full_precision_and_its_facts_in_columns():
    table = scores({"=mine": [result(s, 10, a=[1, 0, 0], b=[1, 1, s]) for s in (0, 1)]})
    task, _, mean = rows(table)
    expected = {"method": "'=mine", "over": "task", "name": "a", "success": repr(1 / 3), "low": ""}
    assert {name: task[name] for name in expected} == expected
    assert [float(mean[name]) for name in ("success", "low", "high")] == [
        *ends(table.methods["=mine"].overall["mean over tasks"])
    ]
    expected = {"unit": "runs", "n": "2", "runs": "2", "episodes": "12", "confidence": "0.95"}
    expected |= {"training_seeds": "0 1", "training_steps": "10", "protocol": "", "digest": ""}
    assert {name: mean[name] for name in expected} == expected


def test_a_run_that_reports_no_success_counts_as_a_run():
    """Only run 0 has a task that reports success, and task b reports it in neither."""
    first = result(0, a=4, b=[True] * 4)
    without_success = [
        dataclasses.replace(episode, success_once=None, success_final=None)
        for episode in first.of_task("b")
    ]
    first = dataclasses.replace(first, episodes=(*first.of_task("a"), *without_success))
    second = dataclasses.replace(result(1, b=4), episodes=without_success)
    mine = scores({"mine": [first, second]}, force=True).methods["mine"]
    assert (mine.runs, mine.unit, mine.episodes) == (2, "runs", 8)
    assert ends(mine.tasks["b"]) == (0.0, None, None)


def test_the_caption_is_about_the_means_that_are_in_the_table():
    five = [result(seed, a=seed % 3 + 1, b=seed % 2 + 1) for seed in range(5)]
    two = [result(seed, a=seed + 1, b=seed + 1) for seed in range(2)]
    assert "interquartile" in str(scores({"five": five}))
    assert "interquartile" not in str(scores({"five": five, "two": two}))
