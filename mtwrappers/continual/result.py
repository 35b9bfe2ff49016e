"""The result of learning along a stream of tasks: scores, forgetting and transfer."""

from __future__ import annotations

import reprlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import positive
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.former import mean_of_runs
from mtwrappers.evaluation.report import as_csv
from mtwrappers.evaluation.result import StoredResult, check_confidence
from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.state.files import write_atomically

Scores = NDArray[np.float64]
_METRICS = {
    "average_performance": "average performance",
    "forgetting": "forgetting",
    "backward_transfer": "backward transfer",
    "forward_transfer": "forward transfer",
}
_COLUMNS = {
    "score_after_phase": "after phase",
    "score_at_end": "at the end",
    "forgetting": "forgetting",
    "forward_transfer": "forward transfer",
}


@dataclass(frozen=True)
class ContinualResult(StoredResult):
    """Scores of every phase of a stream, at points along it.

    Where a learner was not evaluated at the end of a phase, its last score inside of the phase is
    taken for ``p_i(e_i)``, and the table says at which step that is.

    The scores are those of ``S`` runs, of ``P`` points and of ``N`` phases. All metrics are those
    of Continual World (Wolczyk et al. 2021, arXiv:2105.10919), with its names; backward transfer is
    that of Lopez-Paz & Ranzato (2017, arXiv:1706.08840, equation 3). ``p_i(t)`` is the score of
    phase ``i`` after ``t`` agent steps, phase ``i`` goes from step ``b_i`` to ``e_i``, and ``T`` is
    the last point.

    Intervals are Student's over the runs, cut off where no rate of success can be: they say how
    well the mean of all such runs is known. A single run has none, nor have runs of which none
    differs. Where a metric needs a point that was not evaluated, it is ``None``.

    Args:
        phases: The names of the phases; one that comes again has its name again.
        ends: The step with which each phase ends, ``e_i``.
        points: After how many agent steps the policy was evaluated, ascending.
        scores: ``(S, P, N)``, in [0, 1] for success rates.
        metric: The metric of the scores.
        baselines: By a phase's name, the result of learning its task alone, of one phase each;
            `single_task_baselines` makes them. Forward transfer needs them.
        last: How many evaluations a score at the end, of a phase or of all, is the mean of. The
            paper's formulas take 1, its code 5.
        confidence: How likely an interval covers the truth, in (0, 1).

    Raises:
        ValueError: If shapes do not go together, points are not ascending, or a number is out of
            range.

    >>> from mtwrappers.continual.result import ContinualResult
    >>> scores = [[[0.0, 0.0], [1.0, 0.25], [0.5, 0.75]]]
    >>> print(ContinualResult(["a", "b"], [10, 20], [0, 10, 20], scores))
    phase  ends at  after phase  at the end  forgetting
    0 a         10         1.00        0.50        0.50
    1 b         20         0.75        0.75        0.00
    ---------------------------------------------------
    average performance   0.62
    forgetting            0.25
    backward transfer    -0.50
    success_once of 1 run, without intervals; forward transfer needs baselines
    """

    FORMAT = "mtwrappers.ContinualResult/2"

    phases: Sequence[str]
    ends: Sequence[int]
    points: Sequence[int]
    scores: Any
    metric: str = "success_once"
    baselines: Mapping[str, ContinualResult] | None = None
    last: int = 1
    confidence: float = 0.95

    def __post_init__(self) -> None:
        keep = object.__setattr__
        keep(self, "phases", tuple(str(name) for name in self.phases))
        for name in ("ends", "points"):
            steps = tuple(int(step) for step in getattr(self, name))
            if not steps or list(steps) != sorted(set(steps)) or steps[0] < 0:
                raise ValueError(f"{name} must be ascending steps, got {steps}")
            keep(self, name, steps)
        scores = np.array(self.scores, dtype=np.float64)
        shape = (len(self.points), len(self.phases))
        if scores.ndim != 3 or not len(scores) or scores.shape[1:] != shape:
            raise ValueError(
                f"scores must be of shape (runs, {shape[0]} points, {shape[1]} phases), got "
                f"{scores.shape}"
            )
        if len(self.ends) != len(self.phases):
            raise ValueError(f"expected one end per phase of {self.phases}, got {self.ends}")
        if not np.isfinite(scores).all():
            raise ValueError("scores must be finite")
        scores.setflags(write=False)
        keep(self, "scores", scores)
        if self.baselines is not None:
            keep(self, "baselines", _checked(self.baselines, self.phases, self.metric))
        keep(self, "last", positive(self.last, "last"))
        check_confidence(self.confidence)

    @classmethod
    def pool(cls, results: Sequence[ContinualResult]) -> ContinualResult:
        """Combines the runs of several results, which must have the same phases and points.

        Raises:
            ValueError: If there are no results, or their phases or points differ.
        """
        if not results:
            raise ValueError("expected at least one result to pool, got none")
        first = results[0]
        for result in results:
            for name in ("phases", "ends", "points", "metric"):
                if getattr(result, name) != getattr(first, name):
                    raise ValueError(
                        f"results must have the same {name}, got {getattr(first, name)} and "
                        f"{getattr(result, name)}"
                    )
        return replace(first, scores=np.concatenate([result.scores for result in results]))

    @property
    def R(self) -> Scores:  # noqa: N802 (as the literature calls it)
        """The mean score over runs at each point of each phase's task, ``(P, N)``."""
        mean: Scores = self.scores.mean(axis=0)
        return mean

    def with_baselines(self, baselines: Mapping[str, ContinualResult]) -> ContinualResult:
        """Returns this result with the baselines that forward transfer needs.

        Raises:
            ValueError: If a phase has no baseline.
        """
        return replace(self, baselines=baselines)

    # Per run and phase, (S, N); NaN where a point is missing.

    @cached_property
    def score_after_phase(self) -> Scores:
        """``p_i(e_i)``, the score of each phase at its end, ``(S, N)``."""
        columns = [self._mean(inside[-self.last :], i) for i, inside in enumerate(self._inside)]
        return np.stack(columns, axis=-1)

    @cached_property
    def score_at_end(self) -> Scores:
        """``p_i(T)``, the score of each phase at the last point, ``(S, N)``."""
        mean: Scores = self.scores[:, -self.last :].mean(axis=1)
        return mean

    @cached_property
    def area(self) -> Scores:
        """``AUC_i``, the area under each phase's curve during its training, ``(S, N)``.

        ``AUC_i = 1 / (e_i - b_i) * integral of p_i(t) from b_i to e_i``: the mean of the
        evaluations after ``b_i`` and until ``e_i``, as Continual World's code takes it.
        """
        columns = [self._mean(inside, i) for i, inside in enumerate(self._inside)]
        return np.stack(columns, axis=-1)

    @cached_property
    def performance(self) -> Scores:
        """``P(t)``, the mean of ``p_i(t)`` over all phases at each point, ``(S, P)``."""
        mean: Scores = self.scores.mean(axis=2)
        return mean

    # Estimates from all runs.

    @cached_property
    def average_performance(self) -> Estimate | None:
        """``P(T) = 1 / N * sum_i p_i(T)``."""
        return self._estimate(self.score_at_end.mean(axis=1), 0.0)

    @cached_property
    def forgetting(self) -> Estimate | None:
        """``F = 1 / N * sum_i F_i`` with ``F_i = p_i(e_i) - p_i(T)``."""
        forgotten = self.score_after_phase - self.score_at_end
        return self._estimate(forgotten.mean(axis=1), -1.0)

    @cached_property
    def backward_transfer(self) -> Estimate | None:
        """``1 / (N - 1) * sum_{i < N} p_i(T) - p_i(e_i)``; ``None`` of a single phase."""
        changed = (self.score_at_end - self.score_after_phase)[:, :-1]
        if not changed.shape[1]:
            return None
        return self._estimate(changed.mean(axis=1), -1.0)

    @cached_property
    def forward_transfer(self) -> Estimate | None:
        """``1 / N * sum_i FT_i`` with ``FT_i = (AUC_i - AUC_i^b) / (1 - AUC_i^b)``.

        ``AUC_i^b`` is the baseline's area, the mean of its runs, whose uncertainty is not in the
        interval. The result is ``None`` without baselines, or if one of them is always perfect.
        """
        transfer = self._forward_transfer
        if transfer is None:
            return None
        return self._estimate(transfer.mean(axis=1), -np.inf)

    @cached_property
    def per_phase(self) -> list[dict[str, float | None]]:
        """For each phase ``score_after_phase``, ``score_at_end``, ``forgetting``, ``area`` and
        ``forward_transfer``, means over runs.
        """  # noqa: D205
        arrays = {
            "score_after_phase": self.score_after_phase,
            "score_at_end": self.score_at_end,
            "forgetting": self.score_after_phase - self.score_at_end,
            "area": self.area,
            "forward_transfer": self._forward_transfer,
        }
        return [
            {
                name: None if array is None else _or_none(array[:, i].mean())
                for name, array in arrays.items()
            }
            for i in range(len(self.phases))
        ]

    @cached_property
    def _forward_transfer(self) -> Scores | None:
        if self.baselines is None:
            return None
        alone = np.array([self.baselines[name].area.mean() for name in self.phases])
        with np.errstate(divide="ignore", invalid="ignore"):
            transfer: Scores = (self.area - alone) / (1.0 - alone)
        return np.where(np.isfinite(transfer), transfer, np.nan)

    @cached_property
    def _inside(self) -> list[list[int]]:
        """Returns which points are in each phase: after its begin, and not after its end."""
        begins = (0, *self.ends)
        return [
            [k for k, point in enumerate(self.points) if begin < point <= end]
            for begin, end in zip(begins, self.ends, strict=False)
        ]

    def _mean(self, points: Sequence[int], phase: int) -> Scores:
        """Returns the mean of some points of each run, ``(S,)``."""
        if not points:
            return np.full(len(self.scores), np.nan)
        mean: Scores = self.scores[:, points, phase].mean(axis=1)
        return mean

    def _estimate(self, values: Scores, least: float) -> Estimate | None:
        """Returns the mean over runs of a value, ``(S,)``, with its interval.

        For success rates, the interval is clipped to ``[least, 1]``.
        """
        if not np.isfinite(values).all():
            return None
        found = mean_of_runs(values, self.confidence)
        if found.low is None or found.high is None or not self.metric.startswith("success"):
            return found
        return Estimate(found.value, max(least, found.low), min(1.0, found.high))

    # Table, file and picture.

    def __str__(self) -> str:
        lines = _aligned(self._rows())
        lines.append("-" * len(lines[0]))
        found = {text: getattr(self, name) for name, text in _METRICS.items()}
        width = max(map(len, found))
        lines += [
            f"{text:<{width}}  {_cell(value.value):>5}{_interval(value)}"
            for text, value in found.items()
            if value is not None
        ]
        return "\n".join([*lines, self._note()])

    def _rows(self) -> list[list[str]]:
        """Returns the cells of the table: the heads, and a row per phase."""
        names = [n for n in _COLUMNS if n != "forward_transfer" or self.baselines is not None]
        heads = ["phase", "ends at", *(_COLUMNS[name] for name in names)]
        rows = [
            [f"{i} {name}", f"{end:,}", *(_cell(values[column]) for column in names)]
            for i, (name, end, values) in enumerate(
                zip(self.phases, self.ends, self.per_phase, strict=True)
            )
        ]
        scored = [self.points[inside[-1]] if inside else None for inside in self._inside]
        if any(step not in (end, None) for step, end in zip(scored, self.ends, strict=True)):
            heads.insert(2, "scored at")
            for row, step in zip(rows, scored, strict=True):
                row.insert(2, "-" if step is None else f"{step:,}")
        return [heads, *rows]

    def _note(self) -> str:
        """Returns the last line of the table: the metric, the runs, and the missing values."""
        how = "without intervals"
        if len(self.scores) > 1:
            how = f"{self.confidence:.0%} intervals over runs (Student's t)"
        missing = ""
        if self.baselines is None:
            missing = "; forward transfer needs baselines"
        elif self.forward_transfer is None:
            missing = "; forward transfer is unknown where a baseline is perfect or was not scored"
        return f"{self._metric_of_runs()}, {how}{missing}"

    def _metric_of_runs(self) -> str:
        runs = len(self.scores)
        return f"{self.metric} of {runs} run{'s' * (runs > 1)}"

    def to_dict(self) -> dict[str, Any]:
        """Returns all data as JSON types; ``metrics`` and ``per_phase`` follow from the scores."""
        metrics = {name: getattr(self, name) for name in _METRICS}
        baselines = self.baselines
        return {
            "format": self.FORMAT,
            **{name: list(getattr(self, name)) for name in ("phases", "ends", "points")},
            "metric": self.metric,
            "last": self.last,
            "confidence": self.confidence,
            "metrics": {name: found and asdict(found) for name, found in metrics.items()},
            "per_phase": self.per_phase,
            "scores": self.scores.tolist(),
            "baselines": baselines and {name: one.to_dict() for name, one in baselines.items()},
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> ContinualResult:
        names = ("phases", "ends", "points", "scores", "metric", "last", "confidence")
        given = {name: data[name] for name in names}
        baselines = data["baselines"]
        if baselines is not None:
            if not isinstance(baselines, dict):
                raise ValueError(f"baselines must be a dict, got {reprlib.repr(baselines)}")
            baselines = {name: cls.from_dict(one) for name, one in baselines.items()}
        return cls(**given, baselines=baselines)

    def plot(self, path: str | Path, title: str = "", note: str = "") -> None:
        """Draws the average performance, and below it each phase's score, with intervals over runs.

        The part of each curve in which its phase was trained is shaded.

        Args:
            path: The image file; its suffix sets the format.
            title: The text above the plot.
            note: The text below the plot, such as by how much budgets were reduced.
        """
        names = [f"{i} {name}" for i, name in enumerate(self.phases)]
        each = {name: self._curve(self.scores[:, :, i]) for i, name in enumerate(names)}
        mean = self._curve(self.performance)
        footer = self._metric_of_runs()
        if len(self.scores) > 1:
            footer += f"; bands: {self.confidence:.0%} intervals over runs"
        footer = f"{note}\n{footer}" if note else footer
        plot.draw_stream(Path(path), self.points, self.ends, mean, each, title, footer)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The points of all curves in full precision: a row per point and phase, or mean of phases.

        Args:
            path: The file to write, if any.

        Returns:
            The text, with columns for the ``agent_steps``, the ``phase`` by its number (empty for
            the mean) and its ``name``, the score under the name of its metric, ``low`` and
            ``high`` of its interval (empty where there is none), ``confidence`` and the number of
            ``runs``.

        Raises:
            OSError: If ``path`` cannot be written.
        """
        text = as_csv(self._points())
        if path is not None:
            write_atomically(path, f"{text}\n".encode())
        return text

    def _points(self) -> Iterator[dict[str, str | float | None]]:
        curves = [(i, name, self.scores[:, :, i]) for i, name in enumerate(self.phases)]
        for phase, name, scores in (*curves, (None, "mean of all", self.performance)):
            for steps, one in zip(self.points, self._curve(scores), strict=True):
                yield {
                    "agent_steps": steps,
                    "phase": phase,
                    "name": name,
                    self.metric: one.value,
                    "low": one.low,
                    "high": one.high,
                    "confidence": self.confidence,
                    "runs": len(self.scores),
                }

    def _curve(self, values: Scores) -> list[Estimate]:
        found = [self._estimate(values[:, k], 0.0) for k in range(len(self.points))]
        return [one for one in found if one is not None]  # no score is missing at a point


def _checked(baselines: Any, phases: Sequence[str], metric: str) -> dict[str, ContinualResult]:
    """Returns the baselines of all phases' tasks, or raises `ValueError`."""
    for name in phases:
        found = baselines.get(name) if isinstance(baselines, Mapping) else None
        if not isinstance(found, ContinualResult) or len(found.phases) != 1:
            raise ValueError(
                f"baselines must have a ContinualResult of one phase for {name!r}, got "
                f"{reprlib.repr(found)}"
            )
        if found.metric != metric:
            raise ValueError(f"baselines must be of {metric}, got {found.metric} for {name!r}")
    return {name: baselines[name] for name in dict.fromkeys(phases)}


def _aligned(rows: list[list[str]]) -> list[str]:
    """Formats rows as lines: the first column left-aligned, the others right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    ]


def _or_none(value: Any) -> float | None:
    return float(value) if np.isfinite(value) else None


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{round(value, 2) + 0.0:.2f}"  # no minus before zero


def _interval(found: Estimate) -> str:
    if found.low is None or found.high is None:
        return ""
    return f"  {_cell(found.low)} to {_cell(found.high)}"
