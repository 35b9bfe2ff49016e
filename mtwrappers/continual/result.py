"""Forgetting and transfer along a stream of tasks, from the results of its points."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_list, positive
from mtwrappers.common.counts import format_count
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.episodes import METRICS, reporting_tasks
from mtwrappers.evaluation.origin import comparable_settings
from mtwrappers.evaluation.plot import Line
from mtwrappers.evaluation.remake import phase_label
from mtwrappers.evaluation.report import align_columns, format_csv
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.result_text import describe_rule, describe_silent_tasks
from mtwrappers.evaluation.score_table import tabulate
from mtwrappers.evaluation.statistics import CONFIDENCE, Estimate, clip_interval, student

Scores = NDArray[np.float64]
_MEANS = ("average_performance", "forgetting", "backward_transfer", "forward_transfer")
# The columns of the table, by the names in `ContinualResult.per_phase`.
_COLUMNS = {
    "score_after_phase": "after phase",
    "score_at_end": "at the end",
    "forgetting": "forgetting",
    "forward_transfer": "forward transfer",
}
# How the metrics are called in tables and plots.
_METRIC_NAMES = {
    "success_once": f"success {describe_rule('any')}",
    "success_final": f"success {describe_rule('last')}",
    "return": "return",
    "length": "length of episodes",
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
    differs. Where a metric needs a point that was not evaluated, it is ``None``. So is forward
    transfer of returns and of lengths: it is relative to the largest possible gain, which is known
    of rates of success alone.

    If any result reports success, episodes that report none are failures, as in `EvaluationResult`.

    Args:
        results: The results of all points of one run, or of several that differ in
            ``training_seed``, in any order.
        baselines: The results of learning each task alone, from `single_task_baselines`, of any
            number of runs. Forward transfer needs them, each over the budget of its phase.
        metric: The score: ``"success_once"``, ``"success_final"``, ``"return"`` or ``"length"``.
        last: How many evaluations a score at the end, of a phase or of all, is the mean of, at
            most as many as each phase has. The paper's formulas take 1, its code 5.

    Raises:
        TypeError: If there is something else among the results.
        ValueError: If results are of different streams or were measured in different environments
            or versions, the episodes of runs differ in seed or number, runs have other points, a
            result has no ``training_steps`` or does not have the metric, a baseline is of several
            phases, or a phase has fewer than ``last`` points.

    >>> from mtwrappers.continual.result import ContinualResult
    >>> from mtwrappers.evaluation import Design, Episode, EvaluationResult
    >>> stream = Design(tasks=("0 a", "1 b"), phases=(("a", 10), ("b", 10)))
    >>> def at(steps, *lengths):
    ...     episodes = [Episode(t, 0, 0.0, n) for t, n in zip(stream.tasks, lengths)]
    ...     return EvaluationResult(episodes, stream).described(training_steps=steps)
    >>> points = [at(0, 1, 1), at(10, 5, 2), at(20, 3, 4)]
    >>> print(ContinualResult(points, metric="length"))
    phase  ends at  after phase  at the end  forgetting
    0: a        10         5.00        3.00        2.00
    1: b        20         4.00        4.00        0.00
    ---------------------------------------------------
    average performance (2 phases)   3.50
    forgetting (2 phases)            1.00
    backward transfer (1 phase)     -2.00
    length of episodes, 1 run, without intervals; forward transfer is of success rates alone
    """

    results: tuple[EvaluationResult, ...]
    baselines: tuple[EvaluationResult, ...] = ()
    metric: str = "success_once"
    last: int = 1

    def __post_init__(self) -> None:
        check_choice(self.metric, METRICS, "metric")
        positive(self.last, "last")
        for name in ("results", "baselines"):
            object.__setattr__(self, name, _sort_results(getattr(self, name), name))
        if not self.results:
            raise ValueError("expected at least one result, got none")
        if len(streams := {*map(_list_phases, (*self.results, *self.baselines))}) > 1:
            raise ValueError(f"results must be of one stream, got {streams}")
        for result in self.results:
            if missing := [label for label in self._labels if label not in result.tasks]:
                steps = result.description.training_steps
                raise ValueError(
                    f"every result must have all phases, but {missing[0]!r} was not evaluated "
                    f"after {steps} steps: a PhaseEvaluator without phases=... evaluates all"
                )
        points = {seed: _list_points(run) for seed, run in self._runs.items()}
        if len({*points.values()}) > 1 or len({*self.points}) < len(self.points):
            raise ValueError(
                "runs must have the same points, each once, and different training seeds; got "
                f"{points}"
            )
        self._check_last()
        self._check_baselines()
        _check_same_measurement(self.results, self.baselines)
        self._check_scores()

    def _check_scores(self) -> None:
        """Raises `ValueError` if a result does not have the metric, or a phase no baseline."""
        _ = self.per_phase  # computed from all of them, and kept

    def _check_last(self) -> None:
        """Raises `ValueError` if the mean at the end of a phase would be of other phases, too."""
        for label, indices in zip(self._labels, self._inside, strict=True):
            if indices and len(indices) < self.last:
                raise ValueError(
                    f"last must be at most the number of evaluations in each phase, got "
                    f"{self.last}, and {label!r} has {len(indices)}"
                )

    def _check_baselines(self) -> None:
        """Raises `ValueError` if a baseline is a result of the stream."""
        for result in self.baselines:
            if len(self.phases) > 1 and len(result.tasks) > 1:
                raise ValueError(
                    "each result of baselines must be of one phase, whose task was trained alone, "
                    f"as from single_task_baselines, got one of {list(result.tasks)}"
                )

    def __repr__(self) -> str:
        runs = format_count(len(self._runs), "run")
        return f"<ContinualResult: {runs} of {format_count(len(self.phases), 'phase')}>"

    @property
    def _runs(self) -> dict[int | None, list[EvaluationResult]]:
        """The results of each run by its training seed, in the order of their points."""
        return _group_by_seed(self.results)

    @property
    def phases(self) -> tuple[str, ...]:
        """The names of the phases; one that comes again has its name again."""
        return tuple(name for name, _ in _list_phases(self.results[0]))

    @property
    def ends(self) -> tuple[int, ...]:
        """The step with which each phase ends, ``e_i``."""
        return tuple(itertools.accumulate(steps for _, steps in _list_phases(self.results[0])))

    @property
    def _labels(self) -> list[str]:
        """The phases' names as tasks of results."""
        return [phase_label(i, name) for i, name in enumerate(self.phases)]

    @property
    def _titles(self) -> list[str]:
        """The phases' numbers and names in tables and plots."""
        return [f"{i}: {name}" for i, name in enumerate(self.phases)]

    @property
    def points(self) -> tuple[int, ...]:
        """The agent steps after which the policy was evaluated, ascending."""
        return _list_points(next(iter(self._runs.values())))

    @cached_property
    def scores(self) -> Scores:
        """The score of each run, at each point, in each phase, ``(S, P, N)``."""
        return np.array(
            [
                [[self._score(result, label) for label in self._labels] for result in run]
                for run in self._runs.values()
            ]
        )

    @property
    def _is_rate(self) -> bool:
        """Whether the score is a rate of success."""
        return self.metric.startswith("success")

    @cached_property
    def _reporting(self) -> frozenset[str]:
        """The tasks of which any result reports success; early ones may have none to report."""
        results = (*self.results, *self.baselines)
        return reporting_tasks(itertools.chain(*(result.episodes for result in results)))

    @property
    def _silence(self) -> str:
        """A sentence that names the tasks of which no result reports success, or ``""``."""
        if not self._is_rate:
            return ""
        silent_phases = [
            title
            for title, label in zip(self._titles, self._labels, strict=True)
            if label not in self._reporting
        ]
        return describe_silent_tasks(silent_phases, len(self._titles))

    def _score(self, result: EvaluationResult, label: str) -> float:
        """The mean of the metric of a phase's episodes.

        Whether success is reported is decided for all results together: early ones may have none.
        """
        table = None
        if label in result.tasks:
            episodes = {label: result.of_task(label)}
            reports = bool(self._reporting)
            table = tabulate(episodes, self.metric, "any", reports_success=reports)
        if table is None:
            raise ValueError(
                f"episodes of {label!r} have no {self.metric}; if infos do not say whether they "
                "succeed, pass metric='return'"
            )
        return table.mean().value

    @property
    def R(self) -> Scores:  # noqa: N802 (as the literature calls it)
        """The mean score over runs at each point of each phase's task, ``(P, N)``."""
        mean: Scores = self.scores.mean(axis=0)
        return mean

    @property
    def _inside(self) -> list[list[int]]:
        """The indices of each phase's points: after its begin, and not after its end."""
        phases = itertools.pairwise((0, *self.ends))
        points = [*enumerate(self.points)]
        return [[k for k, point in points if begin < point <= end] for begin, end in phases]

    @cached_property
    def per_phase(self) -> dict[str, Scores]:
        """By name, a number of each run and phase, ``(S, N)``; NaN where a point is missing.

        ``score_after_phase`` is ``p_i(e_i)``, ``score_at_end`` is ``p_i(T)``, and ``forgetting`` is
        their difference. ``area`` is the area under each phase's curve during its training,
        ``AUC_i = 1 / (e_i - b_i) * integral of p_i(t) from b_i to e_i``: the mean of the
        evaluations after ``b_i`` and until ``e_i``, as Continual World's code takes it. Of rates of
        success with baselines there is ``forward_transfer``, ``FT_i = (AUC_i - AUC_i^b) / (1 -
        AUC_i^b)``.
        """
        after_phase, area = np.full((2, len(self.scores), len(self.phases)), np.nan)
        for i, indices in enumerate(self._inside):
            if indices:
                after_phase[:, i] = self.scores[:, indices[-self.last :], i].mean(axis=1)
                area[:, i] = self.scores[:, indices, i].mean(axis=1)
        at_end = self.scores[:, -self.last :].mean(axis=1)
        numbers = {
            "score_after_phase": after_phase,
            "score_at_end": at_end,
            "forgetting": after_phase - at_end,
            "area": area,
        }
        if self.baselines and self._is_rate:
            phases = _list_phases(self.results[0])
            baseline = np.array([self._baseline_area(*phase) for phase in phases])
            with np.errstate(divide="ignore", invalid="ignore"):
                transfer = (area - baseline) / (1.0 - baseline)
            numbers["forward_transfer"] = np.where(np.isfinite(transfer), transfer, np.nan)
        return numbers

    def _baseline_area(self, name: str, budget: int) -> float:
        """``AUC_i^b``, the area of a phase's baseline, the mean over its runs.

        It is NaN if a run of the baseline has no point within as many steps as the phase has, or
        ended before that many, as if it was interrupted; or if it was trained for another budget,
        that of an earlier phase of the same task, and has no point at the end of this one.
        """
        first = self.phases.index(name)
        label = phase_label(first, name)
        results = [result for result in self.baselines if label in result.tasks]
        if not results:
            raise ValueError(f"baselines must have results of {label!r}, got none")
        _, first_budget = _list_phases(self.results[0])[first]
        areas = []
        # Runs count the same, however many points each has.
        for run in _group_by_seed(results).values():
            points = _list_points(run)
            # Rollouts that do not divide the budget end after it.
            if max(points) < budget or (budget != first_budget and budget not in points):
                return np.nan
            scores = [
                self._score(result, label)
                for result, steps in zip(run, points, strict=True)
                if 0 < steps <= budget
            ]
            if not scores:
                return np.nan
            areas.append(np.mean(scores))
        return float(np.mean(areas))

    # Estimates from all runs.

    @property
    def average_performance(self) -> Estimate | None:
        """``P(T) = 1 / N * sum_i p_i(T)``."""
        return self._estimate(self.per_phase["score_at_end"].mean(axis=1), 0.0)

    @property
    def forgetting(self) -> Estimate | None:
        """``F = 1 / N * sum_i F_i`` with ``F_i = p_i(e_i) - p_i(T)``."""
        return self._estimate(self.per_phase["forgetting"].mean(axis=1), -1.0)

    @property
    def backward_transfer(self) -> Estimate | None:
        """``1 / (N - 1) * sum_{i < N} p_i(T) - p_i(e_i)``; ``None`` of a single phase."""
        if len(self.phases) == 1:
            return None
        return self._estimate(-self.per_phase["forgetting"][:, :-1].mean(axis=1), -1.0)

    @property
    def forward_transfer(self) -> Estimate | None:
        """``1 / N * sum_i FT_i`` with ``FT_i = (AUC_i - AUC_i^b) / (1 - AUC_i^b)``.

        ``AUC_i^b`` is the baseline's area, the mean of its runs, whose uncertainty is not in the
        interval. The result is ``None`` without baselines, if one of them is always perfect or was
        not scored over the budget of a phase, and for other metrics than rates of success.
        """
        if not self.baselines or not self._is_rate:
            return None
        return self._estimate(self.per_phase["forward_transfer"].mean(axis=1), -np.inf)

    def _estimate(self, values: Scores, least: float) -> Estimate | None:
        """Returns the mean over runs of a value, ``(S,)``, with its interval.

        For success rates, the interval is clipped to ``[least, 1]``.
        """
        if not np.isfinite(values).all():
            return None
        mean = student([values])
        return clip_interval(mean, least) if self._is_rate else mean

    # Table, file and picture.

    def __str__(self) -> str:
        columns = {"phase": self._titles, "ends at": [f"{end:,}" for end in self.ends]}
        scored = [self.points[indices[-1]] if indices else None for indices in self._inside]
        if any(step not in (end, None) for step, end in zip(scored, self.ends, strict=True)):
            columns["scored at"] = ["-" if step is None else f"{step:,}" for step in scored]
        for name, head in _COLUMNS.items():
            if name in self.per_phase:
                columns[head] = [*map(_format_number, self.per_phase[name].mean(axis=0))]
        lines = align_columns([[*columns], *zip(*columns.values(), strict=True)])
        lines.append("-" * len(lines[0]))
        lines += self._mean_lines()
        lines += textwrap.wrap(self._silence, 80, break_on_hyphens=False)
        intervals = "without intervals"
        if len(self.scores) > 1:
            intervals = f"{CONFIDENCE:.0%} intervals over runs (Student's t)"
        missing = ""
        if not self._is_rate:
            missing = "; forward transfer is of success rates alone"
        elif not self.baselines:
            missing = "; forward transfer needs baselines"
        elif self.forward_transfer is None:
            missing = "; forward transfer is unknown where a baseline is perfect or was not scored"
        return "\n".join([*lines, f"{self._metric_text}, {intervals}{missing}"])

    def _mean_lines(self) -> list[str]:
        """The means over phases, with the number of phases of each."""
        means = {name: getattr(self, name) for name in _MEANS}
        labels = {}
        for name, mean in means.items():
            if mean is not None:
                n = len(self.phases) - (name == "backward_transfer")  # not of the last phase
                labels[name] = f"{name.replace('_', ' ')} ({format_count(n, 'phase')})"
        width = max(map(len, labels.values()))
        lines = []
        for name, label in labels.items():
            mean, interval = means[name], ""
            if mean.low is not None:
                interval = f"  {_format_number(mean.low)} to {_format_number(mean.high)}"
            lines.append(f"{label:<{width}}  {_format_number(mean.value):>5}{interval}")
        return lines

    @property
    def _metric_text(self) -> str:
        return f"{_METRIC_NAMES[self.metric]}, {format_count(len(self.scores), 'run')}"

    def plot(self, path: str | Path, title: str = "", note: str = "") -> None:
        """Draws the average performance, and below it each phase's score, with intervals over runs.

        The part of each curve in which its phase was trained is shaded.

        Args:
            path: The image file; its suffix sets the format.
            title: The text above the plot.
            note: The text below the plot, such as by how much budgets were reduced.
        """
        footer = self._metric_text
        if len(self.scores) > 1:
            footer += f"; bands: {CONFIDENCE:.0%} intervals over runs"
        footer = "\n".join(filter(None, [note, self._silence, footer]))
        *phases, mean = (curve.line for curve in self._curves())
        plot.draw_stream(Path(path), self.ends, mean, phases, title, footer)

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
        records: list[dict[str, str | float | None]] = [
            {
                "agent_steps": int(steps),
                "phase": curve.phase,
                "name": curve.name,
                self.metric: score.value,
                "low": score.low,
                "high": score.high,
                "confidence": CONFIDENCE,
                "runs": len(self.scores),
            }
            for curve in self._curves()
            for steps, score in curve.line.points.items()
        ]
        return format_csv(records, path)

    def _curves(self) -> Iterator[_PhaseCurve]:
        """The score of each phase at each point; last, their mean."""
        for i, (name, title) in enumerate(zip(self.phases, self._titles, strict=True)):
            yield _PhaseCurve(i, name, self._make_line(title, self.scores[:, :, i]))
        name = f"mean over {format_count(len(self.phases), 'phase')}"
        yield _PhaseCurve(None, name, self._make_line(name, self.scores.mean(axis=2)))

    def _make_line(self, label: str, values: Scores) -> Line:
        """A curve of values ``(S, P)`` of each run at each point."""
        estimates = (self._estimate(run_values, 0.0) for run_values in values.T)
        # No score is missing.
        points = {
            float(steps): estimate
            for steps, estimate in zip(self.points, estimates, strict=True)
            if estimate is not None
        }
        return Line(label, points, "curve")


@dataclass(frozen=True)
class _PhaseCurve:
    """The scores of a phase, or of their mean.

    Args:
        phase: The index of the phase; ``None`` for the mean.
        name: The name of the task, or of the mean.
        line: The estimates by agent steps.
    """

    phase: int | None
    name: str
    line: Line


def _list_phases(result: EvaluationResult) -> tuple[tuple[str, int], ...]:
    """The name and the steps of each phase of a result's stream."""
    design = result.design
    return () if design is None or design.phases is None else design.phases


def _check_same_measurement(
    results: Sequence[EvaluationResult], baselines: Sequence[EvaluationResult]
) -> None:
    """Raises `ValueError` unless results were measured in the same environments and episodes.

    Baselines are each of one phase, so that their episodes are others in any case.
    """
    every_result = (*results, *baselines)
    settings = comparable_settings([result.origin for result in every_result])
    _require_equal(every_result, [named or {} for named in settings])
    numbers = []
    for result in results:
        assert result.design is not None  # it has the phases of the stream
        seed, episodes_per_phase = result.design.seed, result.design.episodes_per_task
        numbers.append({"seed": seed, "episodes_per_phase": episodes_per_phase})
    _require_equal(results, numbers)


def _require_equal(
    results: Sequence[EvaluationResult], settings: Sequence[Mapping[str, Any]]
) -> None:
    """Raises `ValueError` if the settings of a result, by name, are not those of the first one."""
    first = settings[0]
    for result, named in zip(results, settings, strict=True):
        for name in dict.fromkeys((*first, *named)):
            if named.get(name) != first.get(name):
                description = result.description
                raise ValueError(
                    f"all results must be measured in the same way, got {name} "
                    f"{first.get(name)!r} and {named.get(name)!r} (of {result.tasks[0]!r} after "
                    f"{description.training_steps} steps with the training seed "
                    f"{description.training_seed})"
                )


def _group_by_seed(
    results: Sequence[EvaluationResult],
) -> dict[int | None, list[EvaluationResult]]:
    """The results of each run by its training seed, in the order of their points."""
    runs = itertools.groupby(results, lambda result: result.description.training_seed)
    return {seed: [*run] for seed, run in runs}


def _list_points(run: Sequence[EvaluationResult]) -> tuple[int, ...]:
    """The agent steps of the results of a run."""
    return tuple(result.description.training_steps or 0 for result in run)


def _sort_results(results: Any, name: str) -> tuple[EvaluationResult, ...]:
    """Sorts results of points along a stream, or raises `TypeError` or `ValueError`."""
    listed = check_list(results, name, "result") if results else []
    for result in listed:
        if not isinstance(result, EvaluationResult):
            raise TypeError(f"{name} must be a list of EvaluationResult, got {result!r}")
        if not _list_phases(result) or result.description.training_steps is None:
            raise ValueError(
                f"{name} must be of continual_evaluate or a PhaseEvaluator, with phases and "
                f"training_steps, got {result!r}"
            )

    def place(result: EvaluationResult) -> tuple[Any, ...]:
        seed = result.description.training_seed
        return -1 if seed is None else seed, result.description.training_steps, result.tasks

    return tuple(sorted(listed, key=place))


def _format_number(value: Any) -> str:
    if not np.isfinite(value):
        return "-"
    return f"{round(float(value), 2) + 0.0:.2f}"  # no minus before zero
