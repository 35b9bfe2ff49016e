"""Results as text."""

from __future__ import annotations

from collections.abc import Sequence

from mtwrappers.evaluation.statistics import Estimate, Estimates

_HEADS = {"success_once": "once", "success_final": "final", "return": "return", "length": "steps"}


def table(head: str, rows: Sequence[tuple[str, int, Estimates]], confidence: float) -> list[str]:
    """Rows of estimates as lines, in 80 columns for all of Meta-World's classes.

    Success rates have their intervals beside them, and returns where no success is known. Metrics
    that no row has get no column.

    Args:
        head: Above the labels.
        rows: A label, how many episodes, and the estimates.
        confidence: Of the intervals, in (0, 1).
    """
    known = [m for m in _HEADS if any(found[m] is not None for _, _, found in rows)]
    columns = [["n", *(str(n) for _, n, _ in rows)]]
    for metric in known:
        shown = metric.startswith("success") or (metric == "return" and metric == known[0])
        title = f"{_HEADS[metric]} ({confidence:.0%})" if shown else _HEADS[metric]
        columns.append([title, *(_cell(metric, found[metric], shown) for _, _, found in rows)])
    columns = [[cell.rjust(max(map(len, own))) for cell in own] for own in columns]
    labels = [head, *(label for label, _, _ in rows)]
    lines = zip(labels, map("  ".join, zip(*columns, strict=True)), strict=True)
    return [f"{label:<{max(map(len, labels))}} {line}" for label, line in lines]


def _cell(metric: str, found: Estimate | None, with_interval: bool) -> str:
    if found is None:
        return "-"
    rate = metric.startswith("success")

    def number(value: float) -> str:
        return f"{value:.{2 if rate else int(abs(value) < 1000)}f}"

    if not with_interval or found.low is None or found.high is None:
        return number(found.value)
    to = "-" if rate else " to "
    return f"{number(found.value)} {number(found.low)}{to}{number(found.high)}"
