"""Every view of a result has the same numbers, whatever its episodes report about success."""

import csv
import dataclasses
import io
import itertools
import json
import random
import re

import numpy as np
import pytest

from mtwrappers import protocols
from mtwrappers.evaluation import (
    Design,
    Episode,
    EvaluationResult,
    compare,
    curves,
    plot,
    scores,
)
from mtwrappers.evaluation.claims import read_claim

MT1 = protocols["metaworld-3.1"].on("MT1", "reach-v3")
MT10 = protocols["metaworld-3.1"].on("MT10")
# How the environment of a task reports success.
REPORTS = ("at every step", "when it happens", "never")


def longest(steps):
    """The largest number of consecutive successes."""
    return max((len([*run]) for success, run in itertools.groupby(steps) if success), default=0)


def counts(steps, rule):
    """Whether an episode with these successes is one."""
    if isinstance(rule, int):
        return longest(steps) >= rule
    return any(steps) if rule == "any" else steps[-1]


def episode(task, number, steps, reports, **kwargs):
    """The record of an episode with these successes."""
    success = {}
    if reports == "at every step" or (reports == "when it happens" and any(steps)):
        success = {"success_once": any(steps), "success_final": steps[-1]}
        success["longest_success"] = longest(steps)
    return Episode(task, number, float(number), len(steps), **success, **kwargs)


@pytest.fixture
def drawn(monkeypatch):
    """The arguments of each plot."""
    found = []
    for name in ("draw_rows", "draw_lines"):
        monkeypatch.setattr(plot, name, lambda *args: found.append(args))
    return found


def first_rate(line):
    """The first rate of a line of a table, without its interval."""
    return float(re.search(r" (\d\.\d\d) \d\.\d\d-\d\.\d\d", line)[1])


@pytest.mark.parametrize("rule", ["none", "any", "last", 2])
@pytest.mark.parametrize("seed", range(15))
def test_all_views_have_one_number(rule, seed, drawn, tmp_path):
    """The table, the score, `scores`, `compare`, `curves`, plots, CSV and the file agree."""
    dice = random.Random(seed)
    one_task, n = seed % 5 == 0, dice.choice([1, 2, 5])
    protocol = (MT1 if one_task else MT10).variant("mine", episodes_per_task=n)
    if rule != "none":
        protocol = protocol.variant("mine", success=rule)
    counted = "any" if rule == "none" else rule
    tasks = ["a"] if one_task else [*"abcdefghij"]
    reports = {task: dice.choice(REPORTS) for task in tasks}
    if seed % 7 == 0:
        reports = dict.fromkeys(tasks, "never")
    episodes, values = [], {task: [] for task in tasks}
    for task, number in itertools.product(tasks, range(n)):
        steps = [dice.random() < dice.choice([0.0, 0.4, 1.0]) for _ in range(dice.randint(1, 4))]
        episodes.append(episode(task, number, steps, reports[task]))
        values[task].append(reports[task] != "never" and counts(steps, counted))
    reporting = {one.task for one in episodes if one.success_once is not None}
    silent = [task for task in tasks if reporting and task not in reporting]
    rates = {task: float(np.mean(own)) for task, own in values.items()}
    mean = float(np.mean([*rates.values()]))

    result = EvaluationResult(episodes, Design(0, n), protocol=None if rule == "none" else protocol)
    result.save(tmp_path / "result.json")
    saved = json.loads((tmp_path / "result.json").read_text())["score"]
    assert read_claim(tmp_path / "result.json") == result
    assert result.silent_tasks == tuple(silent)
    policies = {"mine": [result]}
    result.plot(tmp_path / "plot.png")
    [[_, names, _, panels, _, footer]] = drawn
    if not reporting:
        assert saved == result.score
        assert saved.startswith("return ")
        assert result.headline is None
        assert "success" not in str(result).partition("\n\n")[0]
        assert [*panels] == ["return"]
        for function in (scores, curves):
            with pytest.raises(ValueError, match="does not record success"):
                function({"mine": [result.described(training_steps=1)]})
        return

    assert float(re.search(r"success\D* (\d\.\d{3})", result.score)[1]) == round(mean, 3)
    assert saved == result.score
    lines = str(result).splitlines()
    assert [first_rate(line) for line in lines[1 : 1 + len(tasks)]] == pytest.approx(
        [*rates.values()], abs=0.0051
    )
    assert first_rate(lines[1 if one_task else 2 + len(tasks)]) == pytest.approx(mean, abs=0.0051)
    found = scores(policies).methods["mine"]
    assert found.overall["mean over tasks"].value == pytest.approx(mean)
    assert {task: own.value for task, own in found.tasks.items()} == pytest.approx(rates)
    for task in tasks:
        assert result.rates(task).tolist() == values[task]
    [same] = compare({"mine": [result], "again": [result]})
    row = same.overall["mean over tasks"]
    assert (row.first, row.second, row.difference.value) == pytest.approx((mean, mean, 0.0))
    if rule != "none":
        headline = result.headline["tasks"]
        # The table and the score by the protocol have one interval too.
        own = found.overall["mean over tasks"]
        assert (own.low, own.high) == pytest.approx((headline.low, headline.high))
        assert headline.value == pytest.approx(mean)
    series = panels[plot.RATE][0].found
    by_name = {name: one.value for name, one in zip(names, series, strict=True)}
    assert by_name == pytest.approx(rates if one_task else {**rates, "mean": mean})
    curve = curves({"mine": [result.described(training_steps=1)]})
    assert curve.points["mine"][1].overall["mean over tasks"].value == pytest.approx(mean)
    [*_, last] = csv.DictReader(io.StringIO(scores(policies).format("csv")))
    assert float(last["success"]) == pytest.approx(mean)

    # Tasks that never report success are named wherever a text stands below the numbers.
    texts = [str(result), footer, str(scores(policies)), str(same), "\n".join(curve.caption)]
    said = f"{len(silent)} of {len(tasks)} tasks report"
    for text in texts:
        text = text.replace("\n", " ")
        assert (said in text) == bool(silent)
        assert not silent or f" as 0: {', '.join(silent)}" in text


# By hand.


def result(**tasks):
    """A result with the success of each step of each episode, or ``None``, by the task's name."""
    return EvaluationResult(
        [
            episode(task, i, steps or [False], "at every step" if steps else "never")
            for task, own in tasks.items()
            for i, steps in enumerate(own)
        ]
    )


def test_a_task_that_never_reports_success_counts_as_0_and_is_named():
    one = result(easy=[[True]] * 4, impossible=[None] * 4, silent=[None] * 4)
    assert str(one).splitlines() == [
        "task        n      once (95%)     final (95%)  return  steps",
        "easy        4  1.00 0.51-1.00  1.00 0.51-1.00     1.5    1.0",
        "impossible  4  0.00 0.00-0.49  0.00 0.00-0.49     1.5    1.0",
        "silent      4  0.00 0.00-0.49  0.00 0.00-0.49     1.5    1.0",
        "-" * 60,
        "mean       12  0.33 0.16-0.57  0.33 0.16-0.57     1.5    1.0",
        "once, final: success rates at any and at the last step",
        "2 of 3 tasks report no success and count as 0: impossible, silent",
        "95%: intervals over episodes (Wilson for rates, Student's t)",
    ]
    assert one.score.startswith("success at any step 0.333 (")
    assert one.per_goal["silent"][0]["success_once"].value == 0.0
    found = scores({"mine": [one]})
    assert found.methods["mine"].overall["mean over tasks"].value == pytest.approx(1 / 3)
    assert found.notes == (
        "mine: 2 of 3 tasks report no success and count as 0: impossible, silent",
    )


def test_a_table_leads_with_the_rule_of_its_protocol():
    steps = [[True, False], [True, True, False], [False, True], [True]]
    rules = {"any": "1.00 0.51-1.00", "last": "0.50 0.15-0.85", 2: "0.25 0.05-0.70"}
    heads = {"any": "once (95%)  final (95%)", "last": "final (95%)  once (95%)"}
    heads[2] = "held (95%)  once  final"
    legends = {
        "any": "once, final: success rates at any and at the last step",
        "last": "final, once: success rates at the last and at any step",
        2: "held: success held for 2 steps; once, final: at any and at the last step",
    }
    for rule, rate in rules.items():
        protocol = MT1.variant("mine", episodes_per_task=4, success=rule)
        one = dataclasses.replace(result(a=steps), protocol=protocol)
        lines = str(one).splitlines()
        assert lines[0].split() == ["task", "n", *heads[rule].split(), "return", "steps"]
        assert lines[1].split()[2:4] == rate.split()
        assert lines[2] == legends[rule]
        assert lines[-1].split()[3] == f"{float(rate[:4]):.3f}"
        # Of too few episodes, the score is by the same rule.
        few = dataclasses.replace(one, episodes=one.episodes[:2])
        when = {"any": "at any step 1.000", "last": "at the last step 0.000"}
        assert f"success {when.get(rule, 'held for 2 steps 0.500')} (" in few.score


def test_the_parts_of_a_few_shot_result_count_as_the_whole_does(drawn):
    """Before adaptation nothing succeeds, so environments that report successes report none."""
    few = {"trials": 3, "adaptation_episodes": 1, "adaptation_steps": 1, "adapts": True}
    design = Design(0, 2, **few)
    episodes = [
        episode(task, number, [number > 0], reports, trial=trial)
        for task, reports in (("a", "when it happens"), ("b", "never"))
        for trial in ((0, 1, 2) if task == "a" else (3, 4, 5))
        for number in range(3)
    ]
    one = EvaluationResult(episodes, design).described(training_steps=5)
    means = [part.overall["mean"]["success_once"].value for part in one.by_episode]
    assert means == [0.0, 0.5, 0.5]
    assert one.unadapted.overall["mean"]["success_once"].value == 0.0
    assert one.unadapted.silent_tasks == one.silent_tasks == ("b",)
    [found] = compare({"before": [one.unadapted], "after": [one]})
    row = found.overall["mean over tasks"]
    assert (row.first, row.second) == (0.0, 0.5)
    assert curves({"mine": [one]}).unadapted["mine"][5].tasks["a"].value == 0.0
    one.plot("plot.png")
    [[_, panels, _, caption, *_]] = drawn
    points = {name: [own.value for own in line.points.values()] for name, [line] in panels.items()}
    assert points == {"mean over tasks": means, "a": [0.0, 1.0, 1.0], "b": [0.0] * 3}
    assert caption[-1] == "1 of 2 tasks reports no success and counts as 0: b"
    # Of an adaptation that makes it worse, nothing but the adaptation reports success.
    worse = [episode("a", i, [i == 0], "when it happens", trial=0) for i in range(3)]
    assert EvaluationResult(worse, design).score.startswith("success at any step 0.000")


def test_how_episodes_are_divided_into_results_changes_no_success():
    """A file per task: that of a task which never succeeds reports nothing."""
    whole = result(a=[[True], [False, True]], b=[None, None])
    parts = [dataclasses.replace(whole, episodes=whole.of_task(task)) for task in "ab"]
    [first, second] = (scores({"mine": given}) for given in ([whole], parts))
    assert first == second
    assert first.methods["mine"].overall["mean over tasks"].value == 0.5


def test_a_run_without_any_success_counts_as_0_among_runs_that_report_some():
    runs = [result(a=[[True], None]), result(a=[None, None])]
    runs = [one.described(training_seed=i) for i, one in enumerate(runs)]
    assert scores({"mine": runs}).methods["mine"].tasks["a"].value == 0.25
    with pytest.raises(ValueError, match=r"can report False in all other steps"):
        scores({"mine": runs[1:]})
