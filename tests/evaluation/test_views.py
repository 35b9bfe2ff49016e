"""Results whose episodes do not all report success, by hand; see test_score_table for all views."""

import dataclasses
import itertools

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

MT1 = protocols["metaworld-3.1"].on("MT1", "reach-v3")


def longest(steps):
    """The largest number of consecutive successes."""
    return max((len([*run]) for success, run in itertools.groupby(steps) if success), default=0)


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
    plots = []
    for name in ("draw_rows", "draw_lines"):
        monkeypatch.setattr(plot, name, lambda *args: plots.append(args))
    return plots


def make_result(**tasks):
    """A result with the success of each step of each episode, or ``None``, by the task's name."""
    return EvaluationResult(
        [
            episode(task, i, steps or [False], "at every step" if steps else "never")
            for task, task_steps in tasks.items()
            for i, steps in enumerate(task_steps)
        ]
    )


def test_a_task_that_never_reports_success_counts_as_0_and_is_named():
    result = make_result(easy=[[True]] * 4, impossible=[None] * 4, silent=[None] * 4)
    assert str(result).splitlines() == [
        "task               n      once (95%)     final (95%)  return  steps",
        "easy               4  1.00 0.51-1.00  1.00 0.51-1.00     1.5    1.0",
        "impossible         4  0.00 0.00-0.49  0.00 0.00-0.49     1.5    1.0",
        "silent             4  0.00 0.00-0.49  0.00 0.00-0.49     1.5    1.0",
        "-" * 67,
        "mean over 3 tasks 12  0.33 0.16-0.57  0.33 0.16-0.57     1.5    1.0",
        "once, final: success rates at any and at the last step",
        "2 of 3 tasks report no success and count as 0: impossible, silent",
        "95%: intervals over episodes (Wilson for rates, Student's t)",
    ]
    assert result.score.startswith("success at any step 0.333 (")
    assert result.per_goal["silent"][0]["success_once"].value == 0.0
    table = scores({"mine": [result]})
    assert table.methods["mine"].overall["mean over tasks"].value == pytest.approx(1 / 3)
    assert table.notes == (
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
        result = dataclasses.replace(
            make_result(**{MT1.settings.env_name: steps}), protocol=protocol
        )
        lines = str(result).splitlines()
        assert lines[0].split() == ["task", "n", *heads[rule].split(), "return", "steps"]
        assert lines[1].split()[2:4] == rate.split()
        assert lines[2] == legends[rule]
        assert lines[-1].split()[4] == f"{float(rate[:4]):.3f}"
        # Of too few episodes, the score is by the same rule.
        few = dataclasses.replace(result, episodes=result.episodes[:2])
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
    result = EvaluationResult(episodes, design).described(training_steps=5)
    means = [
        episode_result.overall["mean over tasks"]["success_once"].value
        for episode_result in result.by_episode
    ]
    assert means == [0.0, 0.5, 0.5]
    assert result.unadapted.overall["mean over tasks"]["success_once"].value == 0.0
    assert result.unadapted.silent_tasks == result.silent_tasks == ("b",)
    [comparison] = compare({"before": [result.unadapted], "after": [result]})
    row = comparison.overall["mean over tasks"]
    assert (row.first, row.second) == (0.0, 0.5)
    assert curves({"mine": [result]}).unadapted["mine"][5].tasks["a"].value == 0.0
    result.plot("plot.png")
    [[_, panels, _, caption, *_]] = drawn
    points = {
        name: [estimate.value for estimate in line.points.values()]
        for name, [line] in panels.items()
    }
    assert points == {"mean over 2 tasks": means, "a": [0.0, 1.0, 1.0], "b": [0.0] * 3}
    assert caption[-1] == "1 of 2 tasks reports no success and counts as 0: b"
    # Of an adaptation that makes it worse, nothing but the adaptation reports success.
    worse = [episode("a", i, [i == 0], "when it happens", trial=0) for i in range(3)]
    assert EvaluationResult(worse, design).score.startswith("success at any step 0.000")


def test_how_episodes_are_divided_into_results_changes_no_success():
    """A file per task: that of a task which never succeeds reports nothing."""
    result = make_result(a=[[True], [False, True]], b=[None, None])
    per_task = [dataclasses.replace(result, episodes=result.of_task(task)) for task in "ab"]
    [first, second] = (scores({"mine": results}) for results in ([result], per_task))
    assert first == second
    assert first.methods["mine"].overall["mean over tasks"].value == 0.5


def test_a_run_without_any_success_counts_as_0_among_runs_that_report_some():
    runs = [make_result(a=[[True], None]), make_result(a=[None, None])]
    runs = [run.described(training_seed=i) for i, run in enumerate(runs)]
    assert scores({"mine": runs}).methods["mine"].tasks["a"].value == 0.25
    with pytest.raises(ValueError, match=r"as .* does: let a wrapper report info"):
        scores({"mine": runs[:1], "other": runs[1:]})
