"""Results as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mtwrappers.evaluation.statistics import Estimate

if TYPE_CHECKING:
    from mtwrappers.evaluation.few_shot_result import FewShotResult
    from mtwrappers.evaluation.result import EvaluationResult

Row = tuple[str, ...]
_DIGITS = {"success_once": 2, "success_final": 2, "return": 1, "length": 1}
# Episode lengths are looked up rather than compared: their intervals would only take room.
_BARE = frozenset({"length"})


def format_estimate(found: Estimate | None, metric: str) -> str:
    """Such as ``0.92 [0.84, 0.98]``; ``-`` where there is no number."""
    if found is None:
        return "-"
    digits = _DIGITS[metric]
    text = f"{found.value:.{digits}f}"
    if metric in _BARE or found.low is None or found.high is None:
        return text
    return f"{text} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


def result_rows(result: EvaluationResult) -> tuple[Row, list[Row], list[Row]]:
    """The head, a row a task, and the rows of aggregates (none for a single task).

    Metrics that no task has get no column.
    """
    metrics = [m for m in _DIGITS if result.overall["mean"][m] is not None]
    body = [
        (
            task,
            str(len(result.of_task(task))),
            *(format_estimate(found[metric], metric) for metric in metrics),
        )
        for task, found in result.per_task.items()
    ]
    foot = [
        (
            name.replace("_", " "),
            str(len(result.episodes)),
            *(format_estimate(found[metric], metric) for metric in metrics),
        )
        for name, found in result.overall.items()
    ]
    return ("task", "episodes", *metrics), body, foot if len(body) > 1 else []


def align(rows: Sequence[Row]) -> list[str]:
    """Rows as lines: the first column to the left, the others to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def result_table(result: EvaluationResult) -> str:
    """A result as a table of text, with a line that says what the intervals are."""
    head, body, foot = result_rows(result)
    lines = align([head, *body, *foot])
    if foot:
        lines.insert(1 + len(body), "-" * max(len(line) for line in lines))
    return "\n".join([*lines, interval_note(result)])


def few_shot_table(result: FewShotResult) -> str:
    """Evaluation as `result_table`, and a line for each episode of the trials."""
    metrics = [m for m in _DIGITS if result.evaluation.overall["mean"][m] is not None]
    rows: list[Row] = [("mean over tasks", "episodes", *metrics)]
    for place, step in enumerate(result.by_episode):
        what = "adaptation" if place < result.adaptation_length else "evaluation"
        mean = step.overall["mean"]
        cells = (format_estimate(mean[metric], metric) for metric in metrics)
        rows.append((f"{what}, episode {place + 1}", str(len(step.episodes)), *cells))
    return "\n".join(["after adaptation:", result_table(result.evaluation), "", *align(rows)])


def interval_note(result: EvaluationResult) -> str:
    """What the intervals are."""
    unit = "episodes" if result.episodes[0].trial is None else "trials"
    return (
        f"[{result.confidence:.0%} bootstrap intervals over {unit}, {result.resamples} resamples]"
    )
