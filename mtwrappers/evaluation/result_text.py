"""Lines and sentences about results: tables of estimates, protocols and their scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import printable
from mtwrappers.evaluation.episodes import Episode, SuccessRule
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.score_table import label_mean
from mtwrappers.evaluation.statistics import CONFIDENCE, Estimate, Estimates

# The columns of a table, by the metric.
_HEADS = {
    "success_held": "held",
    "success_once": "once",
    "success_final": "final",
    "return": "return",
    "normalized": "normalized",
    "length": "steps",
}


@dataclass(frozen=True)
class EstimatesRow:
    """A row of a table of estimates.

    Args:
        label: The name of the task, or of the mean.
        num_episodes: The number of episodes.
        estimates: The estimate of each metric.
    """

    label: str
    num_episodes: int
    estimates: Estimates


def format_estimates(head: str, rows: Sequence[EstimatesRow], first_metric: str) -> list[str]:
    """Formats rows of estimates as lines, in 80 columns for all of Meta-World's classes.

    Success rates have intervals, and so do returns if no success is recorded. Metrics that no row
    has are left out. If ``"success_held"`` is among them, it alone has an interval.

    Args:
        head: The head of the labels.
        rows: The rows.
        first_metric: The metric whose column is first, if it is known.
    """
    metrics = [
        metric
        for metric in dict.fromkeys([first_metric, *_HEADS])
        if any(row.estimates.get(metric) is not None for row in rows)
    ]
    with_intervals = {"success_once", "success_final"}
    if first_metric == "success_held":
        with_intervals = {first_metric}
    if metrics[0] == "return":  # no success is recorded
        with_intervals = {"return", "normalized"}
    columns = [["n", *(str(row.num_episodes) for row in rows)]]
    for metric in metrics:
        with_interval = metric in with_intervals
        title = f"{_HEADS[metric]} ({CONFIDENCE:.0%})" if with_interval else _HEADS[metric]
        cells = [_format_cell(metric, row.estimates[metric], with_interval) for row in rows]
        columns.append([title, *cells])
    columns = [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
    labels = [head, *(row.label for row in rows)]
    lines = zip(labels, map("  ".join, zip(*columns, strict=True)), strict=True)
    return [f"{label:<{max(map(len, labels))}} {line}" for label, line in lines]


def _format_cell(metric: str, estimate: Estimate | None, with_interval: bool) -> str:
    if estimate is None:
        return "-"
    is_rate = metric.startswith("success")
    numbers = [estimate.value]
    if with_interval and estimate.low is not None and estimate.high is not None:
        numbers += [estimate.low, estimate.high]
    # A single decimal would hide most of returns below 1, or all.
    has_small_numbers = 0 < max(map(abs, numbers)) < 1

    def format_number(value: float) -> str:
        if is_rate or metric == "normalized":
            return f"{value:.2f}"
        if has_small_numbers:
            return f"{value:.3f}"
        return f"{value:.{int(abs(value) < 1000)}f}"

    value, *ends = map(format_number, numbers)
    return f"{value} {('-' if is_rate else ' to ').join(ends)}".rstrip()


def describe_benchmark(protocol: Protocol) -> str:
    """The tasks of a protocol, for display."""
    env_name = f" {protocol.settings.env_name}" if protocol.settings.env_name else ""
    return f"{protocol.settings.benchmark}{'-test' * (protocol.settings.kind == 'test')}{env_name}"


def describe_rule(rule: SuccessRule) -> str:
    """When an episode counts as a success, for display."""
    if isinstance(rule, int):
        return f"held for {format_count(rule, 'step')}"
    return {"any": "at any step", "last": "at the last step"}[rule]


def describe_rates(rule: SuccessRule) -> str:
    """The line below a table about its rates, of which the first is by the rule."""
    if isinstance(rule, int):
        return f"held: success {describe_rule(rule)}; once, final: at any and at the last step"
    if rule == "last":
        return "final, once: success rates at the last and at any step"
    return "once, final: success rates at any and at the last step"


def describe_other_numbers(episodes: Iterable[Episode], needed: Mapping[str, int]) -> str:
    """A sentence about the first task with another number of episodes than needed, or ``""``.

    Args:
        episodes: The episodes that are there.
        needed: The number of episodes of each task that a protocol needs.
    """
    present = Counter(episode.task for episode in episodes)
    for task in dict.fromkeys((*needed, *present)):
        if present[task] != needed.get(task, 0):
            name = printable(task)
            count = format_count(present[task], "episode")
            return f"it has {count} of {name}, the protocol {needed.get(task, 0)}"
    return ""


def describe_silent_tasks(silent_tasks: Sequence[str], num_tasks: int) -> str:
    """A sentence about tasks that never report success, or ``""``."""
    if not silent_tasks:
        return ""
    n = len(silent_tasks)
    verbs = "reports no success and counts" if n == 1 else "report no success and count"
    names = ", ".join(map(printable, silent_tasks))
    return f"{n} of {format_count(num_tasks, 'task')} {verbs} as 0: {names}"


def format_means(means: Mapping[str, Estimate], num_tasks: Mapping[str, int]) -> list[str]:
    """The means of a protocol with their intervals, a line each.

    Args:
        means: The means by their names.
        num_tasks: The number of tasks of each.
    """
    labels = {}
    for name in means:
        indent = "" if name.startswith("mean over ") else "  "
        labels[name] = f"{indent}{label_mean(name, num_tasks[name])}"
    width = max(map(len, labels.values()))
    lines = []
    for name, mean in means.items():
        interval = ""
        if mean.low is not None and mean.high is not None:
            interval = f"  {mean.low:.3f} to {mean.high:.3f} ({CONFIDENCE:.0%})"
        lines.append(f"{labels[name]:<{width}}  {mean.value:.3f}{interval}")
    return lines
