"""Every view of results has the numbers of one table, in random small results of every kind."""

import csv
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

MT10 = protocols["metaworld-3.1"].on("MT10")
CLASSES = sorted({episode.task for episode in MT10.plan(seed=0)})
GROUPS = (("easy", tuple(CLASSES[:3])), ("hard", tuple(CLASSES[3:])))
# How the environment of a task reports success.
REPORTS = ("at every step", "when it happens", "never")


class Case:
    """Random runs of one method, and the success of each unit by hand."""

    def __init__(self, seed):
        dice = self.dice = random.Random(seed)
        self.kind = dice.choice(["plain", "one task", "few-shot", "protocol", "groups"])
        by_protocol = self.kind in ("protocol", "groups")
        self.rule = dice.choice(["any", "last", 2]) if by_protocol else "any"
        self.per_unit = dice.choice([1, 2, 4])  # episodes of a task, or of a trial
        self.tasks = CLASSES if by_protocol else list("abcde")
        if self.kind in ("plain", "few-shot"):
            self.tasks = self.tasks[: dice.randint(1, 5)]
        self.tasks = self.tasks[:1] if self.kind == "one task" else self.tasks
        self.reports = {task: dice.choice(REPORTS) for task in self.tasks}
        if dice.random() < 0.1:
            self.reports = dict.fromkeys(self.tasks, "never")
        self.rate = dice.choice([0.0, 0.3, 0.7, 1.0])
        self.design = Design(0, self.per_unit)
        self.trials = [None]
        if self.kind == "few-shot":
            self.trials = [0, 1, 2]
            sizes = {"adaptation_episodes": 1, "adaptation_steps": 1, "adapts": True}
            self.design = Design(0, self.per_unit, trials=3 * len(self.tasks), **sizes)
        self.protocol = None
        if by_protocol:
            fields = {"name": "mine", "episodes_per_task": self.per_unit, "success": self.rule}
            if self.kind == "groups":
                fields |= {"groups": GROUPS, "means": ("groups", "tasks")}
            self.protocol = MT10.variant(**fields)
        self.values, self.results = [], []
        for run in range(dice.choice([1, 1, 2, 5])):
            self.add_run(run)
        # An environment may report success in another run of the method alone.
        self.reporting = {
            episode.task
            for result in self.results
            for episode in result.episodes
            if episode.success_once is not None
        }

    def add_run(self, run):
        episodes, values = [], {task: [] for task in self.tasks}
        adaptation_length = self.design.adaptation_length
        for (i, task), trial in itertools.product(enumerate(self.tasks), self.trials):
            successes = []
            for number in range(adaptation_length + self.per_unit):
                steps = [self.dice.random() < self.rate for _ in range(self.dice.randint(1, 4))]
                place = None if trial is None else 3 * i + trial
                episodes.append(self.record(task, number, steps, place))
                if number >= adaptation_length:
                    successes.append(self.reports[task] != "never" and self.counts(steps))
            values[task] += successes if trial is None else [np.mean(successes)]
        result = EvaluationResult(episodes, self.design, self.protocol)
        self.results.append(result.described(training_seed=run, training_steps=5))
        self.values.append(values)

    def counts(self, steps):
        if isinstance(self.rule, int):
            return longest(steps) >= self.rule
        return any(steps) if self.rule == "any" else steps[-1]

    def record(self, task, number, steps, trial):
        success = {}
        reports = self.reports[task]
        if reports == "at every step" or (reports == "when it happens" and any(steps)):
            success = {"success_once": any(steps), "success_final": steps[-1]}
            success["longest_success"] = longest(steps)
        return Episode(task, number, float(number), len(steps), trial=trial, **success)

    def expected(self, values):
        """The rate of each task, group and mean, by hand."""
        rates = {
            task: float(np.mean([np.mean(run[task]) for run in values])) for task in self.tasks
        }
        means = {"mean over tasks": np.mean([rates[task] for task in self.tasks])}
        if self.kind == "groups":
            groups = {name: np.mean([rates[task] for task in tasks]) for name, tasks in GROUPS}
            means |= {"mean over groups": np.mean([*groups.values()]), **groups}
        return {**rates, **means}

    def label(self, name):
        """The name of a row in texts."""
        if name == "mean over tasks":
            return f"mean over {len(self.tasks)} task{'s' * (len(self.tasks) > 1)}"
        sizes = {**{group: len(tasks) for group, tasks in GROUPS}, "mean over groups": 10}
        sizes["interquartile mean"] = len(self.tasks)
        return name if name in self.tasks else f"{name} ({sizes[name]} tasks)"


def longest(steps):
    """The largest number of consecutive successes."""
    return max((len([*run]) for success, run in itertools.groupby(steps) if success), default=0)


@pytest.fixture
def drawn(monkeypatch):
    """The arguments of each plot."""
    arguments = []
    for module in (plot, "mtwrappers.evaluation.learning_curves"):
        for name in ("draw_rows", "draw_lines"):
            if module is plot:
                monkeypatch.setattr(plot, name, lambda *args: arguments.append(args))
            elif name == "draw_lines":
                monkeypatch.setattr(f"{module}.{name}", lambda *args, **_: arguments.append(args))
    return arguments


def ends(estimate):
    return estimate.value, estimate.low, estimate.high


def list_estimates(score):
    """All estimates of a score by name."""
    return {**score.tasks, **score.groups, **score.overall}


def check_result(case, result, values, drawn, path):
    """All views of a single result; returns its estimates by name."""
    metric = {"any": "success_once", "last": "success_final"}.get(case.rule, "success_held")
    result.save(path)
    saved = json.loads(path.read_text())["score"]
    assert saved == result.score
    assert read_claim(path) == result
    drawn.clear()
    result.plot(path.with_suffix(".png"))
    if not result.has_success:
        assert result.headline is None
        assert result.score_table() is None
        assert result.per_task[case.tasks[0]][metric] is None
        assert result.score.startswith("return ")
        assert "success" not in str(result).partition("\n\n")[0]
        return None
    expected = case.expected([values])
    estimates = {task: result.per_task[task][metric] for task in case.tasks}
    estimates["mean over tasks"] = result.overall["mean over tasks"][metric]
    if case.protocol is not None:
        assert result.headline["mean over tasks"] == estimates["mean over tasks"]
        estimates |= result.headline
        for line, mean in zip(result.headline_lines(), result.headline.values(), strict=True):
            assert line.endswith(f"  {mean.value:.3f}  {mean.low:.3f} to {mean.high:.3f} (95%)")
    assert {name: estimate.value for name, estimate in estimates.items()} == pytest.approx(expected)
    for task in case.tasks:
        assert result.rates(task).tolist() == values[task]
    head = next(iter(result.headline or ["mean over tasks"]))
    value, low, high = ends(estimates[head])
    assert result.score.endswith(f" {value:.3f} ({low:.3f} to {high:.3f}, 95%), {case.label(head)}")
    # The printed table, whose first rate is by the rule.
    lines = {}
    for line in str(result).splitlines():
        if match := re.match(r"(.*?) +\d+  (\d\.\d\d) (\d\.\d\d)-(\d\.\d\d)  ", line):
            lines.setdefault(match[1], match.groups()[1:])
    names = [*case.tasks, *["mean over tasks"] * (len(case.tasks) > 1)]
    for name in names:
        assert lines[case.label(name)] == tuple(f"{x:.2f}" for x in ends(estimates[name]))
    # The picture.
    if result.few_shot:
        [[_, panels, *_]] = drawn
        adapted = [result.design.adaptation_length + 1 + i for i in range(case.per_unit)]
        for name in names:
            line = panels[case.label(name) if len(case.tasks) > 1 else "mean over 1 task"][0]
            points = [line.points[number].value for number in adapted]
            assert np.mean(points) == pytest.approx(expected[name])
    else:
        [[_, rows, _, panels, *_]] = drawn
        shown = dict(zip(rows, panels[plot.RATE][0].estimates, strict=True))
        assert shown == {case.label(name): estimates[name] for name in names}
    return estimates


def check_method(case, single, drawn):
    """All views of a method, with the estimates of its only result if it has one run."""
    table = scores({"mine": case.results})
    score = table.methods["mine"]
    estimates = list_estimates(score)
    expected = case.expected(case.values)
    values = {name: estimate.value for name, estimate in estimates.items()}
    middle = values.pop("interquartile mean", None)
    assert values == pytest.approx(expected)
    assert (middle is not None) == (len(case.results) == 5 and len(case.tasks) > 1)
    if len(case.results) == 1:
        assert estimates == single
    cells = {name: tuple(None if x is None else f"{x:.3f}" for x in ends(estimate))
             for name, estimate in estimates.items()}  # fmt: skip

    def texts(name, left, to, right):
        value, low, high = cells[name]
        return value if low is None else f"{value}{left}{low}{to}{high}{right}"

    for format, ends_of_cell in (
        ("table", (" ", "-", "")),
        ("markdown", (" (", "\u2013", ")")),
        ("latex", (r" {\scriptsize (", "--", ")}")),
    ):
        text = table.format(format).partition("\n\n")[0]
        for name in estimates:
            label = case.label(name)
            label = f"**{label}**" if format == "markdown" and name not in case.tasks else label
            [line] = [
                line for line in text.splitlines() if line.strip("| ").startswith(f"{label} ")
            ]
            cell = line.strip("| \\").removeprefix(label).strip("| &")
            assert cell == texts(name, *ends_of_cell)
    records = [*csv.DictReader(io.StringIO(table.format("csv")))]
    for record in records:
        estimate = estimates[record["name"]]
        numbers = [record[field] for field in ("success", "low", "high")]
        assert numbers == ["" if x is None else repr(x) for x in ends(estimate)]
        sizes = {**dict.fromkeys(case.tasks, 1), **score.num_tasks}
        assert int(record["tasks"]) == sizes[record["name"]]
    assert {record["name"] for record in records} == estimates.keys()
    # A comparison with itself.
    [comparison] = compare({"mine": case.results, "again": case.results})
    differences = {**comparison.tasks, **comparison.overall}
    for name, row in differences.items():
        assert (row.first, row.second) == (estimates[name].value,) * 2
        assert row.difference.value == pytest.approx(0.0, abs=1e-12)
        pattern = f"{re.escape(case.label(name))} +{row.first:.2f} +{row.second:.2f} "
        assert re.search(rf"^{pattern}", str(comparison), re.M)
    drawn.clear()
    comparison.plot("plot.png")
    [[_, rows, _, panels, *_]] = drawn
    for series in panels[plot.RATE]:
        shown = dict(zip(rows, series.estimates, strict=True))
        assert shown == {case.label(name): estimates[name] for name in differences}
    # A curve with one point.
    curve = curves({"mine": case.results})
    point = curve.points["mine"][5]
    assert list_estimates(point) == estimates
    drawn.clear()
    curve.plot("plot.png", tasks=True)
    [[_, panels, *_]] = drawn
    head = next(iter(score.overall))
    names = [head, *(case.tasks if len(case.tasks) > 1 else ())]
    for name in names:
        assert panels[case.label(name)][0].points[5] == estimates[name]
    adapted = [record for record in csv.DictReader(io.StringIO(curve.to_csv()))
             if record["adaptation"] != "before"]  # fmt: skip
    assert [record["success"] for record in adapted] == [record["success"] for record in records]
    # Tasks that never report success are named wherever a text stands below the numbers.
    silent_tasks = [task for task in case.tasks if task not in case.reporting]
    for text in (str(table), str(comparison), "\n".join(curve.caption)):
        sentence = f"{len(silent_tasks)} of {len(case.tasks)} tasks report"
        assert (sentence in text.replace("\n", " ")) == bool(silent_tasks)


def check(seed, drawn, tmp_path):
    case = Case(seed)
    single = None
    for result, values in zip(case.results, case.values, strict=True):
        single = check_result(case, result, values, drawn, tmp_path / "result.json")
    if case.reporting:
        check_method(case, single, drawn)
        return
    if case.protocol is None:
        assert scores({"mine": case.results}).methods["mine"].metric == "return"
        return
    for function in (scores, curves):
        with pytest.raises(ValueError, match=r"does not record success, which .* scores"):
            function({"mine": case.results})


def test_all_views_of_results_have_one_number(drawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(30):
        check(seed, drawn, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(30, 500, 94))
def test_all_views_of_many_results_have_one_number(first, drawn, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for seed in range(first, first + 94):
        check(seed, drawn, tmp_path)


@pytest.mark.parametrize("metric", ["success_last", "success_held", "normalized", "number", ""])
def test_a_metric_that_a_result_has_not_is_refused(metric):
    result = EvaluationResult([Episode("reach", 0, 1.0, 5, True, False)])
    message = "metric must be 'success_once', 'success_final', 'return' or 'length', got"
    with pytest.raises(ValueError, match=message):
        result.score_table(metric)
    with pytest.raises(ValueError, match=message):
        result.episodes[0].metric(metric)
