"""Scores of methods over their training runs, as tables, and against training steps, as curves."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

import numpy as np

from mtwrappers.common import checks
from mtwrappers.evaluation import statistics
from mtwrappers.evaluation.plot import Kind, Line, draw_lines
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.report import Row, as_csv, write_table
from mtwrappers.evaluation.result import conditions
from mtwrappers.evaluation.runs import Method, Policies, Run, compared, methods_of, together
from mtwrappers.evaluation.scoring import Groups, Scoring, weights
from mtwrappers.evaluation.statistics import LEAST_RUNS, Estimate, Values

Format: TypeAlias = Literal["table", "markdown", "latex", "csv"]  # flat, for the command line
Unit: TypeAlias = Literal["episodes", "trials", "runs"]
# The score of each method by training steps, ascending.
Points: TypeAlias = Mapping[str, Mapping[int, "Score"]]
Record: TypeAlias = dict[str, str | float | None]
# The weight of each task in a mean, of those that have one.
Shares: TypeAlias = Mapping[str, float]
INTERQUARTILE = "interquartile mean"
_EFFECTIVE = "(Korn & Graubard 1998; Franco et al. 2019)"
_OVER_EPISODES = f"Wilson's (1927) at the effective number {_EFFECTIVE}"
_OVER_RUNS = f"Wilson's (1927) at the effective number with Student's quantile {_EFFECTIVE}"


@dataclass(frozen=True)
class Score:
    """The success rates of a method.

    Args:
        runs: The number of training runs.
        episodes: The total number of episodes.
        training_seeds: The known training seeds of the runs.
        training_steps: The agent steps of training, if they are known.
        unit: The unit that intervals are over: ``"episodes"`` or ``"trials"`` of a single run, or
            ``"runs"``.
        tasks: The rate at each task.
        groups: The mean of each group of tasks of the protocol.
        overall: The ``"mean over tasks"`` (or the means of the protocol) and, of five runs or more
            on several tasks, the ``"interquartile mean"``.
        counts: The number of units of each task.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> mine = scores({"mine": [result(False, True), result(True, True)]}).methods["mine"]
    >>> mine.runs, mine.unit, mine.tasks["reach"].value
    (2, 'runs', 0.75)
    """

    runs: int
    episodes: int
    training_seeds: tuple[int, ...]
    training_steps: int | None
    unit: Unit
    tasks: Mapping[str, Estimate]
    groups: Mapping[str, Estimate]
    overall: Mapping[str, Estimate]
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Scores:
    """The scores of methods that were measured in the same way; ``str`` is a table in 80 columns.

    Args:
        methods: The score of each method, by name.
        protocols: The protocols that were followed: one or none, unless the comparison is forced.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        forced: The reason why the results are not comparable; empty if they are.
        notes: Warnings about results that did the same, and about tasks without success.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> found = scores({"mine": [result(False, True), result(True, True)]})
    >>> str(found).splitlines()[3]
    'reach              0.750 0.010-0.999'
    """

    methods: Mapping[str, Score]
    protocols: tuple[Protocol, ...]
    adaptation: tuple[int, int] | None
    forced: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format("table")

    @property
    def caption(self) -> tuple[str, ...]:
        """Sentences: the protocol, the runs and episodes of each method, and their intervals."""
        return (*filter(None, [said_forced(self.forced)]), *_caption(self))

    def format(self, format: Format = "table", *, tasks: bool = True) -> str:
        """Formats the scores with their intervals and the caption.

        Args:
            format: ``"table"`` for a terminal, ``"markdown"`` (as GitHub renders it), ``"latex"``
                (needs the package ``booktabs``) or ``"csv"``: a row per method and task, group or
                mean, with full precision and the caption's facts as columns. Names are escaped in
                every format; in CSV, a name that begins like a formula gets a ``'`` in front.
            tasks: Whether to include single tasks.

        Raises:
            TypeError, ValueError: If an argument is none of these.
        """
        checks.check_flag(tasks, "tasks")
        if checks.check_choice(format, get_args(Format), "format") == "csv":
            of_each = (_records(self, *each, tasks) for each in self.methods.items())
            return as_csv(itertools.chain(*of_each))
        methods = [*self.methods.values()]
        over = [f"{one.runs} runs" if one.unit == "runs" else one.unit for one in methods]
        of_tasks = _rows([one.tasks for one in methods]) if tasks else []
        means = _rows([one.groups for one in methods]) + _rows([one.overall for one in methods])
        warning, caption = said_forced(self.forced), [*_caption(self)]
        return write_table(format, [*self.methods], over, (of_tasks, means), caption, warning)


def _rows(columns: Sequence[Mapping[str, Estimate]]) -> list[Row]:
    """A row for each name that all columns have."""
    names = [name for name in columns[0] if all(name in own for own in columns)]
    return [(name, [own[name] for own in columns]) for name in names]


def scores(policies: Policies, *, force: bool = False) -> Scores:
    """Computes the success rates of methods over their training runs.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. In few-shot evaluation, the episodes after adaptation count.

    **Several results of a method** are training runs with different seeds, and intervals are over
    runs: they say what another set of runs would give. If a run was evaluated at several
    ``training_steps``, the last one counts; all runs of a method must end at the same step. A run
    is one network for all tasks. Results of one run that share no episode, such as a file per task,
    count as one. Results without a ``training_seed`` are of one run if their ``training_steps``
    differ.

    **Success** that no episode of a task reports, though episodes of other tasks do, counts as 0,
    and the caption names the task.

    **A single run** has intervals over its episodes (over trials in few-shot evaluation): they say
    how precisely this run was measured, and nothing about other runs.

    Args:
        policies: The results of each method, by its name: a list of results, or a dict of them by
            their names in errors, such as file names.
        force: Whether to accept results that are not comparable, on the tasks that all have;
            `Scores.forced` is then the reason.

    Raises:
        IncomparableError: If the results of all methods together are not comparable; see
            `compare`.
        TypeError: If the policies are not a dict of results.
        ValueError: If there are no results, or a result does not record success or contains an
            episode twice.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> from mtwrappers.evaluation import scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> found = scores({"a": [result(False, True), result(True, True)]})
    >>> found.methods["a"].overall["mean over tasks"].value
    0.75
    """
    methods = methods_of(policies)
    if not methods:
        raise ValueError("there must be results of one policy or more, got none")
    found = compared(methods, force)
    scored = {name: score_of(of, found.tasks, found.ruling) for name, of in found.runs.items()}
    return Scores(scored, found.protocols, found.budget, found.forced, found.notes)


def score_of(runs: Sequence[Run], tasks: Sequence[str], protocol: Protocol | None) -> Score:
    """The score of a method, from its runs at one point."""
    names, n = sorted(tasks), len(runs)  # no sum depends on the order of files
    [first, *_] = runs
    samples = {task: first.result.rates(task) if n == 1 else means_of(runs, task) for task in names}

    def mean(shares: Shares) -> Estimate:
        chosen, parts = present(samples, shares)
        if n == 1:
            return statistics.mean_rate(chosen, parts)
        return statistics.rate_of_runs(of_runs(chosen, parts))

    overall = {name: mean(shares) for name, shares in means(names, protocol).items()}
    if n >= LEAST_RUNS and len(names) > 1:
        rate, numbers = statistics.interquartile(np.array([*samples.values()]))
        overall[INTERQUARTILE] = statistics.rate_of_runs(np.sort(numbers), rate)
    groups = () if protocol is None else protocol.scoring.groups
    steps = {one.steps for one in runs}
    return Score(
        runs=n,
        episodes=sum(len(one.result.of_task(task)) for one in runs for task in names),
        training_seeds=tuple(sorted(one.seed for one in runs if one.seed is not None)),
        training_steps=steps.pop() if len(steps) == 1 else None,
        unit="runs" if n > 1 else first.result.unit,
        tasks={task: mean({task: 1.0}) for task in tasks},
        groups={name: mean(_shares(names, name, groups)) for name, _ in groups},
        overall=overall,
        counts={task: len(samples[task]) for task in tasks},
    )


def means(tasks: Sequence[str], protocol: Protocol | None) -> dict[str, Shares]:
    """The weights of tasks in each mean over tasks, by its name in tables."""
    scoring = Scoring() if protocol is None else protocol.scoring
    over, groups = scoring.means, scoring.groups
    return {f"mean over {name}": _shares(tasks, name, groups) for name in over}


def _shares(tasks: Sequence[str], over: str, groups: Groups) -> Shares:
    return {t: w for t, w in zip(tasks, weights(tasks, over, groups), strict=True) if w}


def means_of(runs: Sequence[Run], task: str) -> Values:
    """The rate of each run at a task, ``(n,)``."""
    return np.array([one.result.rates(task).mean() for one in runs])


def present(samples: Mapping[str, Values], shares: Shares) -> tuple[list[Values], Values]:
    """The values of the tasks that have a weight, and these weights."""
    return [samples[task] for task in shares], np.array([*shares.values()])


def of_runs(samples: Sequence[Values], shares: Values) -> Values:
    """The weighted mean over tasks of each run, ascending, ``(n,)``."""
    return np.sort((shares[:, None] * np.array(samples)).sum(axis=0))


def said_forced(reason: str) -> str:
    """The sentence above results that are not comparable."""
    return f"FORCED, these results are not comparable: {reason}" if reason else ""


def _caption(found: Scores) -> Iterator[str]:
    yield _measured(found.protocols, found.adaptation)
    for name, one in found.methods.items():
        after = f" after {one.training_steps:,} training steps" if one.training_steps else ""
        yield f"{name}: {_runs(one)}{after}, {one.episodes} episode{'s' * (one.episodes > 1)}."
    methods = [*found.methods.values()]
    for unit in dict.fromkeys(one.unit for one in methods):
        if unit == "runs":
            yield f"Several runs: 95% intervals over runs: {_OVER_RUNS}."
        else:
            yield f"1 run: 95% interval over its {unit}, not over training: {_OVER_EPISODES}."
    if any(INTERQUARTILE in one.overall for one in methods):
        yield (
            f"The {INTERQUARTILE} is that of all runs of all tasks, with the variance of rates "
            "clipped at the quartiles (Tukey & McLaughlin 1963)."
        )
    several = [one for one in methods if one.unit == "runs"]
    each = (own for one in several for own in (*one.tasks.values(), *one.overall.values()))
    if any(own.low is None for own in each):
        yield "There is no interval where runs do not differ."
    yield from (f"Note: {note}." for note in found.notes)


def _measured(
    protocols: Sequence[Protocol], adaptation: tuple[int, int] | None, what: str = "Success rates"
) -> str:
    """A sentence about how results were measured: protocols, and episodes of adaptation."""
    known = [conditions(one) for one in protocols]
    when = " or ".join(dict.fromkeys(when for _, when in known) or ["at any step"])
    if adaptation is not None:
        when += f", after {adaptation[0]} episodes of adaptation in each trial"
    labels = [f"{of.label} on {where}" for of, (where, _) in zip(protocols, known, strict=True)]
    by = f"protocol{'s' * (len(labels) > 1)} {', '.join(labels)}" if labels else ""
    return f"{what} {when}, {by or 'without a protocol'}."


def _runs(one: Score) -> str:
    """The number of a method's runs, and their training seeds."""
    text = f"{one.runs} run{'s' * (one.runs > 1)}"
    if one.training_seeds:
        seeds = ", ".join(map(str, one.training_seeds))
        text += f" (training seed{'s' * (len(one.training_seeds) > 1)} {seeds})"
    elif one.runs > 1:
        text += " (training seeds not recorded)"
    return text


def _records(found: Scores | Curves, method: str, one: Score, with_tasks: bool) -> Iterator[Record]:
    """A row for each number of a method."""
    said: Record = {"runs": one.runs, "episodes": one.episodes}
    said |= {"training_seeds": " ".join(map(str, one.training_seeds))}
    said |= {"training_steps": one.training_steps}
    said |= {"protocol": "; ".join(of.name for of in found.protocols)}
    said |= {"digest": "; ".join(of.digest for of in found.protocols)}
    said |= {"interval": _OVER_RUNS if one.unit == "runs" else _OVER_EPISODES}
    parts = {"task": one.tasks if with_tasks else {}, "group": one.groups, "all": one.overall}
    for over, name, each in ((o, name, of[name]) for o, of in parts.items() for name in of):
        row: Record = {"method": method, "over": over, "name": name}
        row |= {"success": each.value, "low": each.low, "high": each.high, "confidence": 0.95}
        row |= {"unit": one.unit, "n": _number_of(found, one, over, name)}
        yield {**row, **said, "forced": found.forced}


def _number_of(found: Scores | Curves, one: Score, over: str, name: str) -> int:
    """The number of units of a row's interval."""
    if one.unit == "runs":
        return one.runs
    tasks = {name} if over == "task" else set(one.counts)
    if over == "group":
        tasks &= set(dict(found.protocols[0].scoring.groups)[name])
    return sum(one.counts[task] for task in tasks)


# Against training steps.


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
        notes: Warnings about tasks without success.

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
    notes: tuple[str, ...] = ()

    @property
    def caption(self) -> tuple[str, ...]:
        """Sentences: the protocol, the runs of each method, and how intervals were made."""
        return tuple(_caption_of_curves(self))

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
        one = next(iter(next(iter(self.points.values())).values()))  # all have the same tasks
        [mean, *_] = one.overall
        panels = {mean: self._lines(mean)}
        for label, given in checks.check_mapping(beside or {}, "beside").items():
            found = {}
            for n, rate in sorted(checks.check_list(given, f"the points of {label!r}", "point")):
                steps = float(n and checks.above_zero(n, "training steps"))
                found[steps] = Estimate(checks.check_fraction(rate, f"a rate of {label!r}"))
            panels[mean].append(Line(str(label), found, "beside"))
        if checks.check_flag(tasks, "tasks") and len(one.tasks) > 1:
            panels |= {task: self._lines(task) for task in one.tasks}
        draw_lines(Path(path), panels, title, self.caption)

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
        after = {**self.points, **self._of_levels}
        parts = {"before": self.unadapted, "after" if self.adaptation else "": after}
        rows = [
            {**row, "adaptation": when}
            for when, methods in parts.items()
            for name, points in methods.items()
            for one in points.values()
            for row in _records(self, name, one, tasks)
        ]
        return as_csv(rows, path)

    @property
    def _of_levels(self) -> Points:
        return {method: {0: one} for method, one in self.levels.items()}

    def _lines(self, name: str) -> list[Line]:
        """The lines of a task or of a mean over tasks."""
        kinds: dict[Kind, Points] = {"curve": self.points, "unadapted": self.unadapted}
        kinds["level"] = self._of_levels
        return [
            Line(method, {n: {**one.overall, **one.tasks}[name] for n, one in of.items()}, kind)
            for kind, methods in kinds.items()
            for method, of in methods.items()
        ]


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
    trained = [one for one in methods if any(run.steps is not None for run in one.runs)]
    if not trained:
        raise ValueError(
            f"no result of {[one.name for one in methods]} names its training_steps: give them to "
            "rollout as --training-steps, or to result.described(training_steps=...)"
        )
    points, omitted = {}, {}
    for method in trained:
        points[method.name], omitted[method.name] = _points(method)
    level = {one.name: one for one in methods if one not in trained}
    every = {name: list(one.runs) for name, one in level.items()}
    every |= {name: [run for runs in own.values() for run in runs] for name, own in points.items()}
    found = together(every, force, next((one.unlike for one in methods if one.unlike), ""))
    score = functools.partial(score_of, tasks=found.tasks, protocol=found.ruling)
    before = {
        name: {n: [Run(run.label, run.result.unadapted) for run in runs] for n, runs in own.items()}
        for name, own in points.items()
        if all(run.result.few_shot for run in every[name])
    }
    return Curves(
        points={name: {n: score(of) for n, of in own.items()} for name, own in points.items()},
        unadapted={name: {n: score(of) for n, of in own.items()} for name, own in before.items()},
        levels={name: score(one.last) for name, one in level.items()},
        omitted={name: tuple(steps) for name, steps in omitted.items() if steps},
        protocols=found.protocols,
        adaptation=found.budget,
        forced=found.forced,
        notes=found.silence,
    )


def _points(method: Method) -> tuple[dict[int, list[Run]], list[int]]:
    """The runs of a method at the steps that all of them have, and the other steps."""
    met: dict[int, dict[int | None, Run]] = {}
    seeds = {one.seed for one in method.runs}
    for one in method.runs:
        silent = {"training_steps": one.steps is None}
        silent["training_seed"] = one.seed is None and len(seeds) > 1
        for what in (name for name, missing in silent.items() if missing):
            raise ValueError(f"{one.label} does not name its {what}, as others of {method.name} do")
        other = met.setdefault(one.steps or 0, {}).setdefault(one.seed, one)
        if one.seed is None and other is not one:
            raise ValueError(
                f"{other.label} and {one.label} are both after {one.steps} training steps, and do "
                "not name their training_seed"
            )
    found = {n: [*met[n].values()] for n in sorted(met) if met[n].keys() == seeds}
    if not found:
        steps = sorted(met)
        raise ValueError(
            f"the {len(seeds)} runs of {method.name} have no training_steps in common: they have "
            f"results at {', '.join(map(str, steps[:5]))}{' and more' * (len(steps) > 5)}"
        )
    return found, [n for n in sorted(met) if n not in found]


def _caption_of_curves(found: Curves) -> Iterator[str]:
    if found.forced:
        yield f"{said_forced(found.forced)}."
    yield _measured(found.protocols, found.adaptation, "Success")
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
    yield from (f"Note: {note}." for note in found.notes)


def _described(points: Sequence[Score]) -> str:
    """The runs and episodes of a method's points."""
    fewest, most = (pick(one.episodes for one in points) for pick in (min, max))
    episodes = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return f"{_runs(points[0])}, {episodes} episodes"
