"""Learning curves: the success of methods against training steps, as numbers and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, get_args

from mtwrappers.common.checks import (
    above_zero,
    check_choice,
    check_flag,
    check_fraction,
    check_list,
    check_mapping,
)
from mtwrappers.evaluation.plot import Kind, Line, draw_training
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.result import check_confidence
from mtwrappers.evaluation.runs import (
    IncomparableError,
    Networks,
    Policies,
    Run,
    chunks_differ,
    common_tasks,
    duplicate,
    incomplete,
    measured_unlike,
    protocols_of,
    repeated,
    runs_of,
)
from mtwrappers.evaluation.scores import (
    Score,
    Scores,
    as_csv,
    chunks_said,
    measured,
    records,
    runs_text,
    score_of,
)
from mtwrappers.evaluation.statistics import Estimate
from mtwrappers.state.files import write_atomically

# The score of each method by training steps, ascending.
Points: TypeAlias = Mapping[str, Mapping[int, Score]]
# The runs of a method at each of its points.
_Runs: TypeAlias = dict[int, list[Run]]
FEW_RUNS = 5  # with fewer, the caption states the number


@dataclass(frozen=True)
class Curves:
    """The scores of methods during training, all measured in the same way.

    Args:
        points: The `Score` of each method, by its training steps.
        unadapted: In few-shot evaluation, the same for the episodes before any adaptation.
        levels: The scores of policies whose results record no training steps, such as scripted
            experts.
        omitted: For each method, the steps at which some of its runs have no result.
        protocols: The protocols that were followed; with ``runs="per_task"`` perhaps one per task.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        forced: The reason why the results are not comparable; empty if they are.
        confidence: The confidence level of the intervals.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, Provenance, curves
    >>> def result(steps, *successes):
    ...     all_of = enumerate(successes)
    ...     episodes = [Episode("reach", i, 0.0, 5, once, once) for i, once in all_of]
    ...     return EvaluationResult(episodes, provenance=Provenance(2, {}, training_steps=steps))
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
    forced: str
    confidence: float

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
                without intervals: by label, pairs of training steps and a success rate in [0, 1].

        Raises:
            TypeError, ValueError: If an argument is not valid, or the suffix is not an image
                format.
        """
        foreign = {
            str(label): [
                (_steps(steps), check_fraction(rate, f"a rate of {label!r}"))
                for steps, rate in check_list(pairs, f"the points of {label!r}", "point")
            ]
            for label, pairs in check_mapping(beside or {}, "beside").items()
        }
        [mean, *_] = self._any.overall
        panels = {mean: self._lines(mean)}
        for label, pairs in foreign.items():
            found = {steps: Estimate(rate, None, None) for steps, rate in sorted(pairs)}
            panels[mean].append(Line(label, found, "beside"))
        if check_flag(tasks, "tasks") and len(self._any.tasks) > 1:
            panels.update({task: self._lines(task) for task in self._any.tasks})
        draw_training(Path(path), panels, title, self.caption)

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
        text = as_csv(self._records(check_flag(tasks, "tasks")))
        if path is not None:
            write_atomically(path, f"{text}\n".encode())
        return text

    @property
    def _any(self) -> Score:
        """The score of some method; all have the same tasks, groups and means."""
        return next(iter(next(iter(self.points.values())).values()))

    def _lines(self, name: str) -> list[Line]:
        """The lines of a task or of a mean over tasks."""

        def estimate(one: Score) -> Estimate:
            return one.tasks[name] if name in one.tasks else one.overall[name]

        curves: dict[Kind, Points] = {
            "curve": self.points,
            "unadapted": self.unadapted,
            "level": {method: {0: one} for method, one in self.levels.items()},
        }
        return [
            Line(method, {steps: estimate(one) for steps, one in of.items()}, kind)
            for kind, methods in curves.items()
            for method, of in methods.items()
        ]

    def _records(self, with_tasks: bool) -> Iterator[dict[str, str | float | None]]:
        of_levels = {method: {0: one} for method, one in self.levels.items()}
        after = "" if self.adaptation is None else "after"
        for when, methods in (
            ("before", self.unadapted),
            (after, {**self.points, **of_levels}),
        ):
            for method, of in methods.items():
                for one in of.values():
                    found = Scores(
                        {method: one}, self.protocols, self.adaptation, self.forced, self.confidence
                    )
                    for row in records(found, with_tasks):
                        yield {**row, "adaptation": when}


def curves(
    policies: Policies,
    *,
    runs: Networks = "all_tasks",
    force: bool = False,
    confidence: float = 0.95,
) -> Curves:
    """Computes the success rates of methods at each of their training steps.

    A result is a point of the training run with its ``training_seed``, at its ``training_steps``. A
    point of a method is the score of all its runs, as computed by `scores`: with several runs,
    intervals are over runs, with a single run over its episodes. Intervals are pointwise, not
    simultaneous for the whole curve.

    A point needs a result of *every* run of its method, because otherwise each point would average
    different runs. Steps at which a run has no result are left out, and listed in `Curves.omitted`.

    A policy whose results record no ``training_steps`` is drawn as a horizontal level.

    Args:
        policies: The results of each method, by its name: a list of `EvaluationResult` or
            `FewShotResult`, or a dict of them by their names in errors, such as file names.
        runs: Whether a training run makes one network for ``"all_tasks"``, or one ``"per_task"``.
        force: Whether to accept results that are not comparable, on the tasks that all have;
            `Curves.forced` is then the reason.
        confidence: The confidence level of each interval, in (0, 1).

    Raises:
        IncomparableError: If the results are not comparable; see `compare`. Unlike there, results
            of the same run, or of 0 training steps, may have the same episodes.
        TypeError: If the policies are not a dict of such results.
        ValueError: If no result records its training steps, several of a method at the same steps
            record no training seed, the runs of a method have no steps in common, a result does not
            record success or contains an episode twice, or an argument is out of range.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, Provenance
    >>> from mtwrappers.evaluation import curves
    >>> def result(seed, steps, *successes):
    ...     all_of = enumerate(successes)
    ...     episodes = [Episode("reach", i, 0.0, 5, once, once) for i, once in all_of]
    ...     run = Provenance(2, {}, training_seed=seed, training_steps=steps)
    ...     return EvaluationResult(episodes, provenance=run)
    >>> first = [result(0, 0, False, False), result(0, 100, False, True)]
    >>> second = [result(1, 0, False, False), result(1, 100, True, True)]
    >>> found = curves({"mine": first + second})
    >>> {steps: one.overall["mean over tasks"].value for steps, one in found.points["mine"].items()}
    {0: 0.0, 100: 0.75}
    """
    check_choice(runs, get_args(Networks), "runs")
    check_confidence(confidence)
    named = runs_of(policies)
    level = {name: of for name, of in named.items() if all(one.steps is None for one in of)}
    if len(level) == len(named):
        raise ValueError(f"no result of {list(named)} names its training_steps")
    points, omitted = {}, {}
    for name, of in named.items():
        if name not in level:
            points[name], omitted[name] = _points(name, of, runs)
    groups = [*level.values(), *(of for steps in points.values() for of in steps.values())]
    forced = _why_incomparable(points, level, groups, runs)
    if forced and not check_flag(force, "force"):
        raise IncomparableError(f"the results are not comparable: {forced}")
    tasks = common_tasks(groups, runs)
    every = [one for of in groups for one in of]
    protocols = protocols_of(every)
    ruled = protocols[0] if protocols and not forced else None

    def score(of: Sequence[Run]) -> Score:
        return score_of(of, tasks, ruled, runs, confidence)

    budgets = [one.budget for one in every if one.budget is not None]
    before = {name: _unadapted(steps) for name, steps in points.items()}
    return Curves(
        points={name: {n: score(of) for n, of in steps.items()} for name, steps in points.items()},
        unadapted={
            name: {n: score(of) for n, of in steps.items()}
            for name, steps in before.items()
            if steps
        },
        levels={name: score(of) for name, of in level.items()},
        omitted={name: tuple(steps) for name, steps in omitted.items() if steps},
        protocols=protocols,
        adaptation=budgets[0] if budgets else None,
        forced=forced,
        confidence=confidence,
    )


def _points(name: str, of: Sequence[Run], networks: Networks) -> tuple[_Runs, list[int]]:
    """The runs of a method at the steps that all of them have, and the other steps."""
    met: dict[int, dict[Any, Run]] = {}
    every: set[Any] = set()
    seeds = {one.seed for one in of}
    for one in of:
        if one.steps is None:
            raise ValueError(
                f"{one.label} does not name its training_steps, as others of {name} do"
            )
        if one.seed is None and len(seeds) > 1:
            raise ValueError(f"{one.label} does not name its training_seed, as others of {name} do")
        at = met.setdefault(one.steps, {})
        # Results without a seed belong to one run, unless there are two of the same network.
        tasks = [None] if networks == "all_tasks" else one.result.tasks
        for network in ((one.seed, task) for task in tasks):
            if one.seed is None and network in at:
                raise ValueError(
                    f"{at[network].label} and {one.label} are both after {one.steps} training "
                    "steps, and do not name their training_seed"
                )
            at[network] = one
            every.add(network)
    found, omitted = {}, []
    for steps in sorted(met):
        if met[steps].keys() == every:
            found[steps] = [one for one in of if one.steps == steps]
        else:
            omitted.append(steps)
    if not found:
        raise ValueError(
            f"the {len(every)} runs of {name} have no training_steps in common: "
            f"they have results at {', '.join(map(str, omitted[:5]))}"
            f"{' and more' * (len(omitted) > 5)}"
        )
    return found, omitted


def _why_incomparable(
    points: Mapping[str, _Runs],
    level: Mapping[str, list[Run]],
    groups: Sequence[Sequence[Run]],
    networks: Networks,
) -> str:
    """The reason why the results are not comparable, or ``""``."""
    ends = [of[max(of)] for of in points.values()]
    last = [one for of in (*level.values(), *ends) for one in of]
    every = [one for of in groups for one in of]
    reasons = [
        repeated((one for of in steps.values() for one in of), networks)
        for steps in points.values()
    ]
    reasons += [
        chunks_differ([one for of in steps.values() for one in of]) for steps in points.values()
    ]
    reasons += [chunks_differ(of) for of in level.values()]
    # Two points of a run may have the same policy, and so may all runs before training.
    reasons += [duplicate(of) for of in groups if of[0].steps != 0]
    reasons += [duplicate(last), measured_unlike(groups, networks), incomplete(every, networks)]
    return next(filter(None, reasons), "")


def _unadapted(points: _Runs) -> _Runs:
    """The episodes before any adaptation, for points of few-shot evaluation."""
    found = {}
    for steps, of in points.items():
        before = [
            one._replace(result=one.few_shot.unadapted) for one in of if one.few_shot is not None
        ]
        if len(before) == len(of):
            found[steps] = before
    return found


def _caption(found: Curves) -> Iterator[str]:
    if found.forced:
        yield f"FORCED, these results are not comparable: {found.forced}."
    yield f"Success {measured(found.protocols, found.adaptation)}."
    if found.unadapted:
        yield "Dashed: before adaptation."
    for name, points in found.points.items():
        yield f"{name}: {_described([*points.values()])} at each point."
    for name, one in found.levels.items():
        yield f"{name} (training steps not recorded): {_described([one])}."
    every = [one for points in found.points.values() for one in points.values()]
    every += found.levels.values()
    several = [one for one in every if "runs" in one.unit]
    level = f"{100 * found.confidence:g}% intervals"
    over = []
    if several:
        fewest = min(min(one.counts.values()) for one in several)
        over.append("over runs" + f" ({fewest} are few)" * (fewest < FEW_RUNS))
    if units := dict.fromkeys(one.unit for one in every if "runs" not in one.unit):
        over.append(f"of 1 run over its {' or '.join(units)}, not over training")
    yield f"Bands: {level} {'; '.join(over)}. Each is for its point alone."
    estimates = [own for one in several for own in one.overall.values()]
    if any(one.low is None for one in estimates):
        yield "There is no band where runs do not differ."
    for name, steps in found.omitted.items():
        which = ", ".join(f"{n:,}" for n in steps)
        yield f"Left out, as not all runs of {name} have them: {which} steps."


def _described(points: Sequence[Score]) -> str:
    """The runs and episodes of a method's points."""
    fewest, most = (pick(one.episodes for one in points) for pick in (min, max))
    episodes = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{runs_text(points[0])}, {episodes} episodes{chunks_said(points[0])}"


def _steps(value: Any) -> float:
    return 0.0 if value == 0 else above_zero(value, "training steps")
