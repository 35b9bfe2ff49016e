"""Results as text, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mtwrappers.evaluation.statistics import Estimate

Estimates = Mapping[str, Estimate | None]
# A label, how many episodes, and the estimates; None is a rule.
Row = tuple[str, int, Estimates] | None
_HEADS = {
    "success_once": "once",
    "success_final": "final",
    "return": "return",
    "length": "length",
}
# Episode lengths are looked up rather than compared: their intervals would only take room.
_WITH_INTERVAL = frozenset({"success_once", "success_final", "return"})


def table(head: str, rows: Sequence[Row]) -> list[str]:
    """Rows of estimates as lines: each number, and its interval in the line below.

    Metrics that no row has get no column.

    Args:
        head: Above the labels.
        rows: What to show.
    """
    found = [row[2] for row in rows if row is not None]
    metrics = [m for m in _HEADS if any(estimates[m] is not None for estimates in found)]
    cells: list[list[str] | None] = [[head, "n", *(_HEADS[m] for m in metrics)]]
    for row in rows:
        if row is None:
            cells.append(None)
            continue
        label, n, estimates = row
        cells.append([label, str(n), *(_value(m, estimates[m]) for m in metrics)])
        intervals = [_interval(m, estimates[m]) for m in metrics]
        if any(intervals):
            cells.append(["", "", *intervals])
    widths = [max(map(len, column)) for column in zip(*filter(None, cells), strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    return [rule if own is None else _line(own, widths) for own in cells]


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    """The first cell to the left, the others to the right."""
    padded = [cells[0].ljust(widths[0])]
    padded += [cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True)]
    return "  ".join(padded).rstrip()


def _value(metric: str, found: Estimate | None) -> str:
    return "-" if found is None else _number(metric, found.value)


def _interval(metric: str, found: Estimate | None) -> str:
    if found is None or found.low is None or found.high is None or metric not in _WITH_INTERVAL:
        return ""
    dash = " to " if metric == "return" else "-"
    return f"{_number(metric, found.low)}{dash}{_number(metric, found.high)}"


def _number(metric: str, value: float) -> str:
    if metric.startswith("success"):
        return f"{value:.2f}"
    return f"{value:.1f}" if abs(value) < 1000 else f"{value:.0f}"


def notes(confidence: float, unit: str, resamples: int, success: bool) -> list[str]:
    """What the columns and the intervals are.

    Args:
        confidence: How likely the intervals cover the truth.
        unit: What they are over: ``"episodes"`` or ``"trials"``.
        resamples: How many bootstrap resamples.
        success: Whether there are rates.
    """
    lines = ["once, final: success rates at any and at the last step"] if success else []
    rates = "Wilson for rates, " if success else ""
    return [
        *lines,
        f"below: {confidence:.0%} intervals over {unit} ({rates}bootstrap, {resamples} resamples)",
    ]
