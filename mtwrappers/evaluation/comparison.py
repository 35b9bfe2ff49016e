"""What a comparison of two policies has found: as numbers, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from mtwrappers.evaluation import plot
from mtwrappers.evaluation.differences import COVERED, LEAST_RUNS, LEAST_VALUES
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
        unit: Of what the intervals are over: ``"episodes"``, ``"trials"``, ``"runs"`` (each a
            network for all tasks) or ``"runs of each task"``.
        fewest: How many of these there are of a task at least, of either.
    """

    names: tuple[str, str]
    runs: tuple[int, int]
    tasks: Mapping[str, Difference]
    overall: Mapping[str, Difference]
    improvement: Estimate | None
    paired: int
    forced: str
    confidence: float
    unit: str
    fewest: tuple[int, int]

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
    over = found.unit if "runs" in found.unit else f"{found.unit} of one run each"
    return f"{found.confidence:.0%} intervals over {over}"


def _lines(found: Comparison) -> list[str]:
    """A table in 80 columns."""
    lines = []
    if found.forced:
        lines.append(f"FORCED, these results do not compare: {found.forced}")
    of_what = "result" if found.unit == "runs of each task" else "run"
    for label, name, runs in zip("AB", found.names, found.runs, strict=True):
        lines.append(f"{label}: {name} ({runs} {of_what}{'s' * (runs > 1)})")
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
    lines += [*_methods(found), *_warnings(found)]
    if found.paired:
        lines.append(f"goals compared one by one at {found.paired} of {len(found.tasks)} tasks")
    return lines


def _methods(found: Comparison) -> list[str]:
    """How the intervals were made, and who says so."""
    if found.unit in ("episodes", "trials"):
        return [
            "one task: Newcombe (1998); means: likewise, from Wilson's intervals at the",
            "effective number (Korn & Graubard 1998, Franco et al. 2019)",
        ]
    covered = [f"{share:.0%} at {runs}" for runs, share in COVERED[found.unit].items()]
    simulated = f"for 95% it covers {', '.join(covered[:-1])} and {covered[-1]} runs"
    if found.unit == "runs":
        return [
            "tasks and means: Welch's t (1947); all else: bootstrap of whole runs, expanded",
            f"(Hesterberg 2015); {simulated}",
        ]
    return [
        "tasks: Welch's t (1947); all else: bootstrap of each task's runs by themselves",
        f"(Agarwal et al. 2021); {simulated}",
    ]


def _warnings(found: Comparison) -> list[str]:
    """How far the stars can be trusted."""
    lines, fewest = [], min(found.fewest)
    if found.unit in ("episodes", "trials"):
        if fewest < LEAST_VALUES:
            least = f"fewer than {LEAST_VALUES} {found.unit}"
            lines.append(f"tasks with {least} (here {fewest}) have no interval, and so no star")
    elif fewest < 2:
        lines.append("a single run leaves no interval: another would differ, nobody knows how much")
    elif fewest < LEAST_RUNS:
        lines.append(f"{fewest} runs are few: a star is right if runs scatter normally")
        if found.unit == "runs":
            lines.append(
                f"the bootstrap takes {LEAST_RUNS} runs of each; below, it has no interval"
            )
    n = len([row for row in found.tasks.values() if row.difference.low is not None])
    by_chance = (1 - found.confidence) * n
    if by_chance >= 0.5:
        lines.append(
            f"without any difference, about {by_chance:.1f} of {n} tasks get a star by chance"
        )
    return lines


def _row(label: str, row: Difference, width: int) -> str:
    found = row.difference
    ends = "" if found.low is None else f"  {found.low:+.2f} to {found.high:+.2f}"
    star = " *" if found.low is not None and found.low * (found.high or 0.0) > 0 else ""
    return (
        f"{label:<{width}}  {row.first:>5.2f}  {row.second:>5.2f}  {found.value:>+6.2f}{ends}{star}"
    )
