"""Results as text, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from mtwrappers.evaluation.statistics import Estimate, Estimates

# A label, how many episodes, and the estimates; None is a rule.
Row = tuple[str, int, Estimates] | None
_HEADS = {"success_once": "once", "success_final": "final", "return": "return", "length": "length"}


def table(head: str, rows: Sequence[Row]) -> list[str]:
    """Rows of estimates as lines: each number, and its interval in the line below.

    Metrics that no row has get no column.

    Args:
        head: Above the labels.
        rows: What to show.
    """
    found = [row[2] for row in rows if row is not None]
    metrics = [m for m in _HEADS if any(estimates[m] is not None for estimates in found)]
    cells = [[head, "n", *(_HEADS[m] for m in metrics)]]
    for row in rows:
        if row is None:
            cells.append([])
            continue
        label, n, estimates = row
        values, intervals = zip(*(_texts(m, estimates[m]) for m in metrics), strict=True)
        cells.append([label, str(n), *values])
        if any(intervals):
            cells.append(["", "", *intervals])
    widths = [max(map(len, column)) for column in zip(*filter(None, cells), strict=True)]
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    lines = []
    for own in cells:
        # The label to the left, the numbers to the right.
        padded = [cell.rjust(width) for cell, width in zip(own, widths, strict=False)]
        padded[:1] = [cell.ljust(widths[0]) for cell in own[:1]]
        lines.append("  ".join(padded).rstrip() if own else rule)
    return lines


def _texts(metric: str, found: Estimate | None) -> tuple[str, str]:
    """An estimate's value, and its interval."""
    if found is None:
        return "-", ""
    rate = metric.startswith("success")

    def number(value: float) -> str:
        return f"{value:.{2 if rate else int(abs(value) < 1000)}f}"

    # Episode lengths are looked up rather than compared: their intervals would only take room.
    if found.low is None or found.high is None or metric == "length":
        return number(found.value), ""
    dash = "-" if rate else " to "
    return number(found.value), f"{number(found.low)}{dash}{number(found.high)}"
