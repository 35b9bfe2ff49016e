"""What a comparison of two policies has found: as numbers, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtwrappers.evaluation import plot
from mtwrappers.evaluation.statistics import Estimate

_BETTER = "chance that B is better"


@dataclass(frozen=True)
class Difference:
    """The success of two policies, and how much higher that of the second is.

    Args:
        first: The rate of the first, in [0, 1].
        second: That of the second.
        difference: ``second - first``, with its interval.
    """

    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True)
class Comparison:
    """Two policies, compared.

    Args:
        names: Of the first and the second.
        runs: How many results (training runs) there are of each.
        tasks: The difference at each task.
        overall: Over all tasks: the ``"mean over tasks"`` (or what their protocol takes means over)
            and the ``"interquartile mean"``.
        improvement: How likely a run of the second is better than one of the first, on a random
            task; ``None`` unless both have several runs.
        paired: At how many tasks the two have played the same goals, which are compared one by one.
        forced: Why the two do not compare; empty if they do.
        confidence: Of the intervals.
    """

    names: tuple[str, str]
    runs: tuple[int, int]
    tasks: Mapping[str, Difference]
    overall: Mapping[str, Difference]
    improvement: Estimate | None
    paired: int
    forced: str
    confidence: float

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws the difference at each task and over all, with intervals.

        Args:
            path: Where to write the image; its suffix says which kind.
            title: Above the plot; by default the names.
        """
        first, second = self.names
        rows = {name: row.difference for name, row in self.tasks.items()}
        over = {name: row.difference for name, row in self.overall.items()}
        text = title or f"{second} minus {first}"
        if self.forced:
            text = f"FORCED, they do not compare: {self.forced}\n{text}"
        plot.draw_differences(Path(path), rows, over, text, f"lines: {_unit(self)}")


def _unit(found: Comparison) -> str:
    several = max(found.runs) > 1
    over = "runs" if several else "episodes of one run each"
    return f"{found.confidence:.0%} intervals over {over}"


def _lines(found: Comparison) -> list[str]:
    """A table in 80 columns."""
    lines = []
    if found.forced:
        lines.append(f"FORCED, these results do not compare: {found.forced}")
    for label, name, runs in zip("AB", found.names, found.runs, strict=True):
        lines.append(f"{label}: {name} ({runs} run{'s' * (runs > 1)})")
    rows = [(task, row) for task, row in found.tasks.items()]
    width = max(len(label) for label in (*found.tasks, *found.overall, _BETTER))
    head = f"{'task':<{width}}  {'A':>5}  {'B':>5}  {'B - A':>6}  ({found.confidence:.0%})"
    lines += ["", head, *(_row(label, row, width) for label, row in rows), "-" * (width + 41)]
    lines += [_row(label, row, width) for label, row in found.overall.items()]
    if found.improvement is not None:
        better = found.improvement
        ends = "" if better.low is None else f"   {better.low:.2f} to  {better.high:.2f}"
        lines.append(f"{_BETTER:<{width + 14}}  {better.value:>6.2f}{ends}")
    lines.append(f"{_unit(found)}; *: the interval is without zero")
    if found.paired:
        lines.append(f"goals compared one by one at {found.paired} of {len(found.tasks)} tasks")
    return lines


def _row(label: str, row: Difference, width: int) -> str:
    found = row.difference
    ends = "" if found.low is None else f"  {found.low:+.2f} to {found.high:+.2f}"
    star = " *" if found.low is not None and found.low * (found.high or 0.0) > 0 else ""
    return (
        f"{label:<{width}}  {row.first:>5.2f}  {row.second:>5.2f}  {found.value:>+6.2f}{ends}{star}"
    )
