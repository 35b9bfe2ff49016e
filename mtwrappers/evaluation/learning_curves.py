"""Scores of methods against training steps, as curves."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from mtwrappers.common import checks
from mtwrappers.common.counts import format_count
from mtwrappers.evaluation.comparability import find_duplicates, select_runs
from mtwrappers.evaluation.method_scores import (
    Score,
    ScoredMetric,
    describe_measurement,
    describe_mismatch,
    describe_runs,
    list_records,
    score_runs,
)
from mtwrappers.evaluation.plot import AXES, Kind, Line, draw_lines
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.report import format_csv
from mtwrappers.evaluation.runs import (
    Method,
    Policies,
    Run,
    RunId,
    describe_missing_seeds,
    group_runs,
    takes_policies,
)
from mtwrappers.evaluation.score_table import label_mean
from mtwrappers.evaluation.statistics import CONFIDENCE, LEAST_RUNS, Estimate

# The score of each method by training steps, ascending.
Points: TypeAlias = Mapping[str, Mapping[int, Score]]


@dataclass(frozen=True)
class Curves:
    """The scores of methods during training, all measured in the same way.

    Args:
        points: The `Score` of each method, by its training steps.
        unadapted: In few-shot evaluation, the same for the episodes before any adaptation.
        levels: The scores of policies whose results record no training steps, such as scripted
            experts.
        omitted: For each method, the steps at which some of its runs have no result.
        protocols: The protocols that were followed: one or none, unless results are not comparable.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        mismatch: The reason why the results are not comparable; empty if they are.
        notes: Warnings about results that are left out, about runs that did the same at their last
            point, and about tasks without success.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, curves
    >>> def result(steps, *successes):
    ...     all_of = enumerate(successes)
    ...     episodes = [Episode("reach", i, 0.0, 5, once, once) for i, once in all_of]
    ...     return EvaluationResult(episodes).described(training_steps=steps)
    >>> found = curves({"mine": [result(0, False, False), result(100, False, True)]})
    >>> [(steps, one.tasks["reach"].value) for steps, one in found.points["mine"].items()]
    [(0, 0.0), (100, 0.5)]
    >>> found.caption[0]
    'Success at any step, without a protocol.'
    >>> found.plot("curves.png")
    """

    points: Points
    unadapted: Points
    levels: Mapping[str, Score]
    omitted: Mapping[str, Sequence[int]]
    protocols: tuple[Protocol, ...]
    adaptation: tuple[int, int] | None
    mismatch: str
    notes: tuple[str, ...] = ()

    @property
    def caption(self) -> tuple[str, ...]:
        """Sentences: the protocol, the runs of each method, and how intervals were made."""
        return tuple(_caption(self))

    def plot(
        self,
        path: str | Path,
        title: str = "",
        *,
        tasks: bool = False,
        beside: Mapping[str, Sequence[tuple[float, float]]] | None = None,
    ) -> None:
        """Draws the mean over tasks against training steps, with bands for intervals.

        Curves before adaptation are dashed. The caption is below the plot.

        Args:
            path: The image file; its suffix sets the format.
            title: The title.
            tasks: Whether to draw each task too, in its own panel.
            beside: Points from other sources, such as a publication, to draw with hollow marks and
                without intervals: by label, pairs of training steps and a success rate in [0, 1],
                or a return.

        Raises:
            TypeError, ValueError: If an argument is not valid, or the suffix is not an image
                format.
        """
        any_score = next(iter(next(iter(self.points.values())).values()))
        mean = next(iter(any_score.overall))  # all have the same tasks and means
        mean_label = label_mean(mean, any_score.num_tasks[mean])
        published = _list_published(beside, any_score.metric)
        panels = {mean_label: [*self._lines(mean), *published]}
        if checks.check_flag(tasks, "tasks") and len(any_score.tasks) > 1:
            panels |= {task: self._lines(task) for task in any_score.tasks}
        draw_lines(Path(path), panels, title, self.caption, y_label=AXES[any_score.metric])

    def to_csv(self, path: str | Path | None = None, *, tasks: bool = True) -> str:
        """Formats every point in full precision, with a row per method, steps and task or mean.

        Args:
            path: The file to write, if any.
            tasks: Whether to include single tasks.

        Returns:
            The text, with the columns of `Scores.format`, and ``adaptation``: ``"before"`` or
            ``"after"``, in few-shot evaluation.

        Raises:
            OSError: If the file cannot be written.
        """
        checks.check_flag(tasks, "tasks")
        stages: dict[str, Points] = {
            "before": self.unadapted,
            "after" if self.adaptation else "": {**self.points, **self._level_points},
        }
        records = [
            {**record, "adaptation": stage}
            for stage, methods in stages.items()
            for name, points in methods.items()
            for score in points.values()
            for record in list_records(name, score, self.protocols, self.mismatch, with_tasks=tasks)
        ]
        return format_csv(records, path)

    @property
    def _level_points(self) -> Points:
        """The levels as points before any training."""
        return {method: {0: score} for method, score in self.levels.items()}

    def _lines(self, name: str) -> list[Line]:
        """The lines of a task or of a mean over tasks."""
        kinds: dict[Kind, Points] = {
            "curve": self.points,
            "unadapted": self.unadapted,
            "level": self._level_points,
        }
        return [
            Line(method, _pick_estimates(points, name), kind)
            for kind, methods in kinds.items()
            for method, points in methods.items()
        ]


def _pick_estimates(points: Mapping[int, Score], name: str) -> dict[float, Estimate]:
    """The estimates of a mean over tasks, or else of a task, by training steps."""
    return {
        steps: score.overall[name] if name in score.overall else score.tasks[name]
        for steps, score in points.items()
    }


def _list_published(
    beside: Mapping[str, Sequence[tuple[float, float]]] | None, metric: ScoredMetric
) -> list[Line]:
    """The lines of points from other sources, of success rates or returns.

    Raises:
        TypeError, ValueError: If they are anything else.
    """
    lines = []
    for label, pairs in checks.check_mapping(beside or {}, "beside").items():
        points = {}
        for pair in checks.check_list(pairs, f"the points of {label!r}", "point"):
            try:
                number, score = pair
            except (TypeError, ValueError):
                raise TypeError(
                    f"the points of {label!r} must be pairs of training steps and a score, "
                    f"got {pair!r}"
                ) from None
            steps = checks.zero_or_above(number, f"the training steps of {label!r}")
            if metric == "success":
                points[steps] = Estimate(checks.check_fraction(score, f"a rate of {label!r}"))
            else:
                points[steps] = Estimate(checks.check_finite(score, f"a return of {label!r}"))
        lines.append(Line(str(label), dict(sorted(points.items())), "beside"))
    return lines


@takes_policies
def curves(policies: Policies, *, force: bool = False) -> Curves:
    """Computes the success rates of methods at each of their training steps, or their returns.

    A result is a point of the training run with its ``training_seed``, at its ``training_steps``. A
    point of a method is the score of all its runs, as computed by `scores`: with several runs,
    intervals are over runs, with a single run over its episodes. Intervals are pointwise, not
    simultaneous for the whole curve.

    A point needs a result of *every* run of its method, because otherwise each point would average
    different runs. Steps at which a run has no result are left out, and listed in `Curves.omitted`.

    A policy whose results record no ``training_steps`` is drawn as a horizontal level.

    Args:
        policies: The results of each method, by its name: a list of results, or a dict of them by
            their names in errors, such as file names.
        force: Whether to accept results that are not comparable, on the tasks that all have;
            `Curves.mismatch` is then the reason.

    Raises:
        IncomparableError: If the results are not comparable; see `compare`.
        TypeError: If the policies are not a dict of results.
        ValueError: If no result records its training steps, several of a method at the same steps
            record no training seed, the runs of a method have no steps in common, or only some
            policies record success.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> from mtwrappers.evaluation import curves
    >>> def result(seed, steps, *successes):
    ...     all_of = enumerate(successes)
    ...     episodes = [Episode("reach", i, 0.0, 5, once, once) for i, once in all_of]
    ...     run = EvaluationResult(episodes)
    ...     return run.described(training_seed=seed, training_steps=steps)
    >>> first = [result(0, 0, False, False), result(0, 100, False, True)]
    >>> second = [result(1, 0, False, False), result(1, 100, True, True)]
    >>> found = curves({"mine": first + second})
    >>> {steps: one.overall["mean over tasks"].value for steps, one in found.points["mine"].items()}
    {0: 0.0, 100: 0.75}
    """
    methods = group_runs(policies)
    trained = [
        method for method in methods if any(run.training_steps is not None for run in method.runs)
    ]
    if not trained:
        names = [method.name for method in methods]
        raise ValueError(
            f"no result of {names} names its training_steps: give them to rollout as "
            "--training-steps, or to result.described(training_steps=...)"
        )
    untrained = [method for method in methods if method not in trained]
    sorted_runs = {method.name: _sort_by_steps(method) for method in trained}
    runs: dict[str, Sequence[Run]] = {method.name: method.runs for method in untrained}
    for name, runs_by_steps in sorted_runs.items():
        runs[name] = runs_by_steps.complete_runs
    mismatch = next((method.mismatch for method in methods if method.mismatch), "")
    left_out = [sentence for method in methods for sentence in method.left_out]
    compared = select_runs(runs, force, mismatch, left_out)
    # At other points, such as before training, runs of several seeds may be of one policy.
    last_runs = [run for method in untrained for run in method.last_runs]
    for runs_by_steps in sorted_runs.values():
        last_runs += [*runs_by_steps.complete.values()][-1]
    score = functools.partial(
        score_runs,
        tasks=compared.tasks,
        protocol=compared.protocol,
        has_success=compared.has_success,
    )
    return Curves(
        points={
            name: {
                steps: score(runs_at_step) for steps, runs_at_step in runs_by_steps.complete.items()
            }
            for name, runs_by_steps in sorted_runs.items()
        },
        unadapted={
            name: {
                steps: score([_select_unadapted(run) for run in runs_at_step])
                for steps, runs_at_step in runs_by_steps.complete.items()
            }
            for name, runs_by_steps in sorted_runs.items()
            if all(run.result.few_shot for run in runs_by_steps.complete_runs)
        },
        levels={method.name: score(method.last_runs) for method in untrained},
        omitted={
            name: runs_by_steps.omitted
            for name, runs_by_steps in sorted_runs.items()
            if runs_by_steps.omitted
        },
        protocols=compared.protocols,
        adaptation=compared.adaptation,
        mismatch=compared.mismatch,
        notes=(*compared.left_out, *find_duplicates(last_runs), *compared.silence),
    )


def _select_unadapted(run: Run) -> Run:
    """A run of few-shot evaluation with the episodes before any adaptation alone."""
    return dataclasses.replace(run, result=run.result.unadapted)


@dataclass(frozen=True)
class _RunsBySteps:
    """The runs of a method by their training steps.

    Args:
        complete: The runs at the steps that all runs have, ascending.
        omitted: The steps at which some runs have no result, ascending.
    """

    complete: Mapping[int, Sequence[Run]]
    omitted: tuple[int, ...]

    @property
    def complete_runs(self) -> list[Run]:
        """The runs at all complete steps."""
        return [run for runs in self.complete.values() for run in runs]


def _sort_by_steps(method: Method) -> _RunsBySteps:
    """The runs of a method at each of its training steps.

    Raises:
        ValueError: If a run names no steps, several without a seed have the same steps, or the runs
            have no steps in common.
    """
    by_steps: dict[int, dict[RunId, Run]] = {}
    ids = {run.id for run in method.runs}
    for run in method.runs:
        unnamed = "training_steps" if run.training_steps is None else ""
        if run.id.training_seed is None and len(ids) > 1:
            unnamed = unnamed or "training_seed"
        if unnamed:
            raise ValueError(
                f"{run.label} does not name its {unnamed}, as others of {method.name} do"
            )
        first = by_steps.setdefault(run.training_steps or 0, {}).setdefault(run.id, run)
        if run.id.training_seed is None and first is not run:
            raise ValueError(
                describe_missing_seeds(first.label, run.label, run.training_steps or 0)
            )
    complete = {
        steps: [*by_steps[steps].values()]
        for steps in sorted(by_steps)
        if by_steps[steps].keys() == ids
    }
    if not complete:
        listed_steps = ", ".join(map(str, sorted(by_steps)[:5]))
        and_more = " and more" * (len(by_steps) > 5)
        raise ValueError(
            f"the {format_count(len(ids), 'run')} of {method.name} have no training_steps in "
            f"common: they have results at {listed_steps}{and_more}"
        )
    omitted = tuple(steps for steps in sorted(by_steps) if steps not in complete)
    return _RunsBySteps(complete, omitted)


def _caption(drawn: Curves) -> Iterator[str]:
    if drawn.mismatch:
        yield f"{describe_mismatch(drawn.mismatch)}."
    all_scores = [score for points in drawn.points.values() for score in points.values()]
    all_scores += drawn.levels.values()
    metric = all_scores[0].metric
    yield describe_measurement(metric, drawn.protocols, drawn.adaptation, "Success")
    if drawn.unadapted:
        yield "Dashed: before adaptation."
    for name, points in drawn.points.items():
        yield f"{name}: {_describe_points([*points.values()])} at each point."
    for name, level in drawn.levels.items():
        yield f"{name} (training steps not recorded): {_describe_points([level])}."
    over_runs = [score for score in all_scores if score.unit == "runs"]
    units = []
    if over_runs:
        fewest = min(score.runs for score in over_runs)
        units.append("over runs" + f" ({fewest} are few)" * (fewest < LEAST_RUNS))
    if single := dict.fromkeys(score.unit for score in all_scores if score.unit != "runs"):
        units.append(f"of 1 run over its {' or '.join(single)}, not over training")
    yield f"Bands: {CONFIDENCE:.0%} intervals {'; '.join(units)}. Each is for its point alone."
    if any(mean.low is None for score in over_runs for mean in score.overall.values()):
        yield "There is no band where runs do not differ."
    for name, steps in drawn.omitted.items():
        listed = ", ".join(f"{number:,}" for number in steps)
        yield f"Left out, as not all runs of {name} have them: {listed} steps."
    yield from (f"Note: {note}." for note in drawn.notes)


def _describe_points(points: Sequence[Score]) -> str:
    """The runs and episodes of a method's points."""
    fewest = min(score.episodes for score in points)
    most = max(score.episodes for score in points)
    episodes = format_count(most, "episode")
    if fewest < most:
        episodes = f"{fewest:,} to {episodes}"
    return f"{describe_runs(points[0])}, {episodes}"
