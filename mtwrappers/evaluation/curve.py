"""Learning curves: the success of methods against training steps, as numbers and as a plot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from mtwrappers.common.checks import (
    above_zero,
    check_flag,
    check_fraction,
    check_list,
    check_mapping,
)
from mtwrappers.evaluation.plot import Kind, Line, draw_training
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.report import as_csv
from mtwrappers.evaluation.runs import Method, Policies, Run, methods_of, together
from mtwrappers.evaluation.scores import (
    Score,
    Scores,
    measured,
    records,
    runs_text,
    said_forced,
    score_of,
)
from mtwrappers.evaluation.statistics import LEAST_RUNS, Estimate
from mtwrappers.state.files import write_atomically

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
        protocols: The protocols that were followed: one or none, unless it is forced.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        forced: The reason why the results are not comparable; empty if they are.

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
    forced: str

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
                    found = Scores({method: one}, self.protocols, self.adaptation, self.forced)
                    for row in records(found, with_tasks):
                        yield {**row, "adaptation": when}


def curves(policies: Policies, *, force: bool = False) -> Curves:
    """Computes the success rates of methods at each of their training steps.

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
            `Curves.forced` is then the reason.

    Raises:
        IncomparableError: If the results are not comparable; see `compare`.
        TypeError: If the policies are not a dict of results.
        ValueError: If no result records its training steps, several of a method at the same steps
            record no training seed, the runs of a method have no steps in common, or a result does
            not record success or contains an episode twice.

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
    methods = methods_of(policies)
    level = [one for one in methods if all(run.steps is None for run in one.runs)]
    if len(level) == len(methods):
        raise ValueError(f"no result of {[one.name for one in methods]} names its training_steps")
    points, omitted = {}, {}
    for method in methods:
        if method not in level:
            points[method.name], omitted[method.name] = _points(method)
    groups = {(one.name, 0): list(one.runs) for one in level}
    groups |= {(name, n): runs for name, own in points.items() for n, runs in own.items()}
    reason = next(filter(None, (one.unlike for one in methods)), "")
    every = {
        name: [r for (own, _), runs in groups.items() if own == name for r in runs]
        for name, _ in groups
    }
    found = together(every, force, reason=reason)

    def score(runs: Sequence[Run]) -> Score:
        return score_of(runs, found.tasks, found.ruling)

    before = {
        name: {n: [run.unadapted() for run in runs] for n, runs in own.items()}
        for name, own in points.items()
        if all(run.before for runs in own.values() for run in runs)
    }
    return Curves(
        points={name: {n: score(of) for n, of in own.items()} for name, own in points.items()},
        unadapted={name: {n: score(of) for n, of in own.items()} for name, own in before.items()},
        levels={one.name: score(one.last) for one in level},
        omitted={name: tuple(steps) for name, steps in omitted.items() if steps},
        protocols=found.protocols,
        adaptation=found.budget,
        forced=found.forced,
    )


def _points(method: Method) -> tuple[dict[int, list[Run]], list[int]]:
    """The runs of a method at the steps that all of them have, and the other steps."""
    met: dict[int, dict[Any, Run]] = {}
    seeds = {one.seed for one in method.runs}
    for one in method.runs:
        silent = {"training_steps": one.steps is None, "training_seed": one.seed is None}
        silent["training_seed"] &= len(seeds) > 1
        for what in (name for name, missing in silent.items() if missing):
            raise ValueError(f"{one.label} does not name its {what}, as others of {method.name} do")
        at = met.setdefault(one.steps or 0, {})
        if one.seed is None and one.seed in at:
            raise ValueError(
                f"{at[one.seed].label} and {one.label} are both after {one.steps} training "
                "steps, and do not name their training_seed"
            )
        at.setdefault(one.seed, one)
    found = {n: [*met[n].values()] for n in sorted(met) if met[n].keys() == seeds}
    if not found:
        steps = sorted(met)
        raise ValueError(
            f"the {len(seeds)} runs of {method.name} have no training_steps in common: they have "
            f"results at {', '.join(map(str, steps[:5]))}{' and more' * (len(steps) > 5)}"
        )
    return found, [n for n in sorted(met) if n not in found]


def _caption(found: Curves) -> Iterator[str]:
    if found.forced:
        yield f"{said_forced(found.forced)}."
    yield f"Success {measured(found.protocols, found.adaptation)}."
    if found.unadapted:
        yield "Dashed: before adaptation."
    for name, points in found.points.items():
        yield f"{name}: {_described([*points.values()])} at each point."
    for name, one in found.levels.items():
        yield f"{name} (training steps not recorded): {_described([one])}."
    every = [one for points in found.points.values() for one in points.values()]
    every += found.levels.values()
    several = [one for one in every if one.unit == "runs"]
    over = []
    if several:
        fewest = min(one.runs for one in several)
        over.append("over runs" + f" ({fewest} are few)" * (fewest < LEAST_RUNS))
    if units := dict.fromkeys(one.unit for one in every if one.unit != "runs"):
        over.append(f"of 1 run over its {' or '.join(units)}, not over training")
    yield f"Bands: 95% intervals {'; '.join(over)}. Each is for its point alone."
    if any(own.low is None for one in several for own in one.overall.values()):
        yield "There is no band where runs do not differ."
    for name, steps in found.omitted.items():
        which = ", ".join(f"{n:,}" for n in steps)
        yield f"Left out, as not all runs of {name} have them: {which} steps."


def _described(points: Sequence[Score]) -> str:
    """The runs and episodes of a method's points."""
    fewest, most = (pick(one.episodes for one in points) for pick in (min, max))
    episodes = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{runs_text(points[0])}, {episodes} episodes"


def _steps(value: Any) -> float:
    return 0.0 if value == 0 else above_zero(value, "training steps")
