"""Results as text, in at most 80 columns."""

from __future__ import annotations

from collections.abc import Sequence

from mtwrappers.evaluation.statistics import Estimate, Estimates

# A label, how many episodes, and the estimates; None is a rule.
Row = tuple[str, int, Estimates] | None
COLUMNS = 80
_HEADS = {"success_once": "once", "success_final": "final", "return": "return", "length": "steps"}


def table(head: str, rows: Sequence[Row], confidence: float) -> list[str]:
    """Rows of estimates as lines: each number, and its interval beside it.

    Metrics that no row has get no column. Where the lines would not fit into 80 columns, intervals
    are left out, first that of the return and then those of the success rates.

    Args:
        head: Above the labels.
        rows: What to show.
        confidence: Of the intervals, in (0, 1).
    """
    found = [row[2] for row in rows if row is not None]
    metrics = [m for m in _HEADS if any(estimates[m] is not None for estimates in found)]
    left = [[head, *("" if row is None else row[0] for row in rows)]]
    left.append(["n", *("" if row is None else str(row[1]) for row in rows)])
    # A column of numbers and one of their intervals for each metric; empty ones are left out.
    pairs = []
    for metric in metrics:
        texts = [("", "") if row is None else _texts(metric, row[2][metric]) for row in rows]
        values, intervals = ([text[i] for text in texts] for i in (0, 1))
        title = f"{confidence:.0%}" if any(intervals) else ""
        pairs.append(([_HEADS[metric], *values], [title, *intervals]))
    lines = _lines(left, pairs, rows)
    for i in reversed(range(len(pairs))):
        if max(map(len, lines)) > COLUMNS:
            pairs[i] = (pairs[i][0], [])
            lines = _lines(left, pairs, rows)
    return lines


def _lines(
    left: list[list[str]], pairs: list[tuple[list[str], list[str]]], rows: Sequence[Row]
) -> list[str]:
    """The columns side by side, the labels to the left and everything else to the right."""
    lines = ["" for _ in left[0]]
    for place, column in enumerate([*left, *(column for pair in pairs for column in pair)]):
        if any(column):
            width = max(map(len, column))
            # One space before an interval, so that it stands close to its number.
            gap = "" if place == 0 else " " if place > len(left) and place % 2 else "  "
            cells = [cell.rjust(width) if place else cell.ljust(width) for cell in column]
            lines = [line + gap + cell for line, cell in zip(lines, cells, strict=True)]
    whole = [None if row is None else line for row, line in zip(rows, lines[1:], strict=True)]
    return [lines[0].rstrip(), *("-" * len(lines[0]) if w is None else w.rstrip() for w in whole)]


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
