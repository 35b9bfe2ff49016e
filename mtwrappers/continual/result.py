"""The result of learning along a stream of tasks: scores, forgetting and transfer."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_list, positive
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.episodes import METRICS
from mtwrappers.evaluation.remake import phase_label
from mtwrappers.evaluation.report import as_csv
from mtwrappers.evaluation.result import CONFIDENCE, EvaluationResult
from mtwrappers.evaluation.statistics import Estimate, student
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


@dataclass(frozen=True, repr=False)
class ContinualResult:
    """Forgetting and transfer along a stream, from the results of `continual_evaluate`.

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
        results: The results of all points of one run, or of several that differ in
            ``training_seed``, in any order.
        baselines: The results of learning each task alone, from `single_task_baselines`, of any
            number of runs. Forward transfer needs them.
        metric: The score: ``"success_once"``, ``"success_final"``, ``"return"`` or ``"length"``.
        last: How many evaluations a score at the end, of a phase or of all, is the mean of. The
            paper's formulas take 1, its code 5.

    Raises:
        TypeError: If there is something else among the results.
        ValueError: If results are of different streams, runs have other points, or a result has no
            ``training_steps`` or does not have the metric.

    >>> from mtwrappers.continual.result import ContinualResult
    >>> from mtwrappers.evaluation import Design, Episode, EvaluationResult
    >>> stream = Design(tasks=("0 a", "1 b"), phases=(("a", 10), ("b", 10)))
    >>> def at(steps, *lengths):
    ...     episodes = [Episode(t, 0, 0.0, n) for t, n in zip(stream.tasks, lengths)]
    ...     return EvaluationResult(episodes, stream).described(training_steps=steps)
    >>> points = [at(0, 1, 1), at(10, 5, 2), at(20, 3, 4)]
    >>> print(ContinualResult(points, metric="length"))
    phase  ends at  after phase  at the end  forgetting
    0 a         10         5.00        3.00        2.00
    1 b         20         4.00        4.00        0.00
    ---------------------------------------------------
    average performance   3.50
    forgetting            1.00
    backward transfer    -2.00
    length of 1 run, without intervals; forward transfer needs baselines
    """

    results: tuple[EvaluationResult, ...]
    baselines: tuple[EvaluationResult, ...] = ()
    metric: str = "success_once"
    last: int = 1

    def __post_init__(self) -> None:
        keep = object.__setattr__
        check_choice(self.metric, METRICS, "metric")
        keep(self, "last", positive(self.last, "last"))
        for name in ("results", "baselines"):
            given = getattr(self, name)
            given = check_list(given, name, "result") if given else []
            for one in given:
                _check(one, name)
            # So that nothing depends on their order.
            keep(self, name, tuple(sorted(given, key=_place)))
        if not self.results:
            raise ValueError("expected at least one result, got none")
        streams = {one.design and one.design.phases for one in (*self.results, *self.baselines)}
        if len(streams) > 1:
            raise ValueError(f"results must be of one stream, got {streams}")
        points = [tuple(one.description.training_steps for one in run) for run in self._runs]
        if len(set(points)) > 1 or len(set(points[0])) < len(points[0]):
            raise ValueError(
                "runs must have the same points, each once, and different training seeds; got "
                f"{dict(zip(self._seeds, points, strict=True))}"
            )
        self.scores  # noqa: B018 (which checks them)
        if self.baselines:
            self._alone  # noqa: B018

    def __repr__(self) -> str:
        return f"<ContinualResult: {len(self._runs)} runs of {len(self.phases)} phases>"

    @property
    def _seeds(self) -> list[int | None]:
        return list(dict.fromkeys(one.description.training_seed for one in self.results))

    @property
    def _runs(self) -> list[list[EvaluationResult]]:
        """The results of each run, by their points."""
        return [
            [one for one in self.results if one.description.training_seed == seed]
            for seed in self._seeds
        ]

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of the phases; one that comes again has its name again."""
        return tuple(name for name, _ in phases_of(self.results[0]))

    @property
    def ends(self) -> tuple[int, ...]:
        """The step with which each phase ends, ``e_i``."""
        return tuple(itertools.accumulate(steps for _, steps in phases_of(self.results[0])))

    @property
    def points(self) -> tuple[int, ...]:
        """The agent steps after which the policy was evaluated, ascending."""
        return tuple(one.description.training_steps or 0 for one in self._runs[0])

    @cached_property
    def scores(self) -> Scores:
        """The score of each run, at each point, in each phase, ``(S, P, N)``."""
        labels = [phase_label(i, name) for i, name in enumerate(self.phases)]
        scores: Scores = np.array(
            [[[self._score(one, label) for label in labels] for one in run] for run in self._runs]
        )
        scores.setflags(write=False)
        return scores

    def _score(self, result: EvaluationResult, label: str) -> float:
        found = [episode.metric(self.metric) for episode in result.of_task(label)]
        if None in found:
            raise ValueError(
                f"episodes have no {self.metric}, because infos do not say whether they succeed: "
                "pass metric='return'"
            )
        return float(np.mean(np.array(found, dtype=np.float64)))

    @cached_property
    def _alone(self) -> Scores:
        """``AUC_i^b``, the area of each phase's baseline, the mean over its runs, ``(N,)``."""
        found = []
        for name, budget in phases_of(self.results[0]):
            label = phase_label(self.phases.index(name), name)
            own = [one for one in self.baselines if label in one.tasks]
            inside = [one for one in own if 0 < (one.description.training_steps or 0) <= budget]
            if not inside:
                raise ValueError(f"baselines must have results of {label!r}, got none")
            found.append(np.mean([self._score(one, label) for one in inside]))
        return np.array(found)

    @property
    def R(self) -> Scores:  # noqa: N802 (as the literature calls it)
        """The mean score over runs at each point of each phase's task, ``(P, N)``."""
        mean: Scores = self.scores.mean(axis=0)
        return mean

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
        if not self.baselines:
            return None
        alone = self._alone
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
        found = student([values])
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
        names = [n for n in _COLUMNS if n != "forward_transfer" or self.baselines]
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
            how = f"{CONFIDENCE:.0%} intervals over runs (Student's t)"
        missing = ""
        if not self.baselines:
            missing = "; forward transfer needs baselines"
        elif self.forward_transfer is None:
            missing = "; forward transfer is unknown where a baseline is perfect or was not scored"
        return f"{self._metric_of_runs()}, {how}{missing}"

    def _metric_of_runs(self) -> str:
        runs = len(self.scores)
        return f"{self.metric} of {runs} run{'s' * (runs > 1)}"

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
            footer += f"; bands: {CONFIDENCE:.0%} intervals over runs"
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
                    "confidence": CONFIDENCE,
                    "runs": len(self.scores),
                }

    def _curve(self, values: Scores) -> list[Estimate]:
        found = [self._estimate(values[:, k], 0.0) for k in range(len(self.points))]
        return [one for one in found if one is not None]  # no score is missing at a point


def phases_of(result: EvaluationResult) -> tuple[tuple[str, int], ...]:
    """The name and the steps of each phase of a result's stream."""
    design = result.design
    return () if design is None or design.phases is None else design.phases


def _place(result: EvaluationResult) -> tuple[Any, ...]:
    of = result.description
    seed = -1 if of.training_seed is None else of.training_seed
    return seed, of.training_steps, result.tasks


def _check(result: Any, name: str) -> None:
    """Raises an error unless this is a result of a point along a stream."""
    if not isinstance(result, EvaluationResult):
        raise TypeError(f"{name} must be a list of EvaluationResult, got {result!r}")
    if not phases_of(result) or result.description.training_steps is None:
        raise ValueError(
            f"{name} must be of continual_evaluate or a PhaseEvaluator, with phases and "
            f"training_steps, got {result!r}"
        )


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
