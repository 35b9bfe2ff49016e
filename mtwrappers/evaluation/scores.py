"""Scores of methods over their training runs: per task, per group and overall, as a table."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from mtwrappers.common.checks import check_choice, check_flag
from mtwrappers.common.errors import printable
from mtwrappers.evaluation.protocol import Protocol, succeeded, weights
from mtwrappers.evaluation.result import by_unit, check_confidence, chunk_text, conditions
from mtwrappers.evaluation.runs import (
    Networks,
    Policies,
    Run,
    common_tasks,
    comparable,
    protocols_of,
    runs_of,
)
from mtwrappers.evaluation.statistics import (
    LEAST_COVERED,
    Estimate,
    Values,
    mean_rate,
    rate_of_runs,
    trimmed_rate,
    trimmed_rate_of_runs,
)
from mtwrappers.evaluation.typeset import Grid, as_latex, as_markdown, as_text

Format: TypeAlias = Literal["table", "markdown", "latex", "csv"]
Unit: TypeAlias = Literal["episodes", "trials", "runs", "runs of each task"]
_TYPESET: Mapping[str, Callable[[Grid], str]] = {
    "table": as_text,
    "markdown": as_markdown,
    "latex": as_latex,
}
# The method of intervals over each unit, with its source.
_EFFECTIVE = "Korn & Graubard 1998; Franco et al. 2019"
_OVER_EPISODES = f"Wilson's (1927) at the effective number ({_EFFECTIVE})"
_OVER_RUNS = f"Wilson's (1927) at the effective number with Student's quantile ({_EFFECTIVE})"
_INTERVALS: Mapping[Unit, str] = {
    "episodes": _OVER_EPISODES,
    "trials": _OVER_EPISODES,
    "runs": _OVER_RUNS,
    "runs of each task": f"{_OVER_RUNS}; means of independent runs: Satterthwaite (1946)",
}
_TRIMMED = "interquartile mean"
_CLIPPED = "with rates clipped at the quartiles (Tukey & McLaughlin 1963)"


@dataclass(frozen=True)
class Score:
    """The success rates of a method.

    Args:
        runs: The number of training runs; with ``runs="per_task"`` the number of results.
        episodes: The total number of episodes.
        training_seeds: The known training seeds of the runs.
        training_steps: The agent steps of training, if they are known.
        unit: The unit that intervals are over: ``"episodes"`` or ``"trials"`` of a single run,
            ``"runs"`` (each a network for all tasks) or ``"runs of each task"``.
        tasks: The rate at each task.
        groups: The mean of each group of tasks of the protocol.
        overall: The ``"mean over tasks"`` (or the means of the protocol) and the
            ``"interquartile mean"``.
        counts: The number of units of each task.
        action_chunk: The number of executed actions per chunk; ``None`` if the policy returned
            single actions.

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
    action_chunk: int | None = None


@dataclass(frozen=True)
class Scores:
    """The scores of methods that were measured in the same way; ``str`` is a table in 80 columns.

    Args:
        methods: The score of each method, by name.
        protocols: The protocols that were followed; with ``runs="per_task"`` perhaps one per task.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        forced: The reason why the results are not comparable; empty if they are.
        confidence: The confidence level of the intervals.

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
    confidence: float

    def __str__(self) -> str:
        return self.format("table")

    @property
    def caption(self) -> tuple[str, ...]:
        """Sentences: the protocol, the runs and episodes of each method, and their intervals."""
        return (*_warning(self), *_caption(self))

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
        check_choice(format, get_args(Format), "format")
        tasks = check_flag(tasks, "tasks")
        if format == "csv":
            return as_csv(records(self, tasks))
        return _TYPESET[format](_grid(self, tasks))


def scores(
    policies: Policies,
    *,
    runs: Networks = "all_tasks",
    force: bool = False,
    confidence: float = 0.95,
) -> Scores:
    """Computes the success rates of methods over their training runs.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. For a `FewShotResult`, the episodes after adaptation count.

    **Several results of a method** are treated as training runs with different seeds, and intervals
    are over runs: they say what another set of runs would give. If a run was evaluated at several
    ``training_steps``, the last one counts; all runs of a method must end at the same step. A run
    is one network for all tasks unless ``runs="per_task"``.

    **A single run** has intervals over its episodes (over trials in few-shot evaluation): they say
    how precisely this run was measured, and nothing about other runs.

    Args:
        policies: The results of each method, by its name: a list of `EvaluationResult` or
            `FewShotResult`, or a dict of them by their names in errors, such as file names.
        runs: Whether a training run makes one network for ``"all_tasks"``, or one ``"per_task"``.
        force: Whether to accept results that are not comparable, on the tasks that all have;
            `Scores.forced` is then the reason.
        confidence: The confidence level of the intervals, in (0, 1).

    Raises:
        IncomparableError: If the results of all methods together are not comparable; see
            `compare`.
        TypeError: If the policies are not a dict of such results.
        ValueError: If there are no results, a result does not record success or contains an episode
            twice, or an argument is out of range.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> from mtwrappers.evaluation import scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> found = scores({"a": [result(False, True), result(True, True)]})
    >>> found.methods["a"].overall["mean over tasks"].value
    0.75
    """
    check_choice(runs, get_args(Networks), "runs")
    check_confidence(confidence)
    named = runs_of(policies)
    if not named:
        raise ValueError("there must be results of one policy or more, got none")
    last, forced = comparable(named, runs, check_flag(force, "force"))
    tasks = common_tasks([*last.values()], runs)
    every = [one for of in last.values() for one in of]
    protocols = protocols_of(every)
    ruled = protocols[0] if protocols and not forced else None
    methods = {name: score_of(of, tasks, ruled, runs, confidence) for name, of in last.items()}
    budgets = [one.budget for one in every if one.budget is not None]
    return Scores(methods, protocols, budgets[0] if budgets else None, forced, confidence)


def score_of(
    of: Sequence[Run],
    tasks: Sequence[str],
    protocol: Protocol | None,
    networks: Networks,
    confidence: float,
) -> Score:
    """The score of a method, from its last runs."""
    each = [[_rates(one, task) for one in of if task in one.result.tasks] for task in tasks]
    whole = networks == "all_tasks"
    single = all(len(own) == 1 for own in each)
    unit: Unit = "episodes" if of[0].result.unit == "episodes" else "trials"
    if single:
        samples = [own[0] for own in each]
    else:
        unit = "runs" if whole else "runs of each task"
        samples = [np.array([rates.mean() for rates in own]) for own in each]

    def mean(chosen: Sequence[Values], shares: Values) -> Estimate:
        if single:
            return mean_rate(chosen, shares, confidence)
        return rate_of_runs(chosen, shares, confidence, whole)

    groups = () if protocol is None else protocol.groups

    def mean_over(name: str) -> Estimate:
        shares = weights(tasks, name, groups)
        present = np.flatnonzero(shares)
        return mean([samples[i] for i in present], shares[present])

    overall = {
        f"mean over {name}": mean_over(name)
        for name in (("tasks",) if protocol is None else protocol.means)
    }
    if len(tasks) > 1:
        overall[_TRIMMED] = (
            trimmed_rate(samples, 0.25, confidence)
            if single
            else trimmed_rate_of_runs(samples, confidence, whole)
        )
    steps = {one.steps for one in of}
    return Score(
        runs=len(of),
        episodes=sum(
            len(one.result.of_task(t)) for one in of for t in tasks if t in one.result.tasks
        ),
        training_seeds=tuple(dict.fromkeys(one.seed for one in of if one.seed is not None)),
        training_steps=steps.pop() if len(steps) == 1 else None,
        unit=unit,
        tasks={task: mean([own], np.ones(1)) for task, own in zip(tasks, samples, strict=True)},
        groups={name: mean_over(name) for name, _ in groups},
        overall=overall,
        counts={task: len(own) for task, own in zip(tasks, samples, strict=True)},
        action_chunk=of[0].result.action_chunk,
    )


def _rates(run: Run, task: str) -> Values:
    """The success of each episode of a task, or the rate of each trial, ``(n,)``."""
    episodes, protocol = run.result.of_task(task), run.result.protocol
    return by_unit(
        episodes,
        [
            float(bool(one.success_once) if protocol is None else succeeded(one, protocol))
            for one in episodes
        ],
    )


def _grid(found: Scores, with_tasks: bool) -> Grid:
    methods = [*found.methods.values()]
    tasks = [(task, [one.tasks[task] for one in methods]) for task in methods[0].tasks]
    groups = [(group, [one.groups[group] for one in methods]) for group in methods[0].groups]
    means = [(name, [one.overall[name] for one in methods]) for name in methods[0].overall]
    return Grid(
        heads=list(found.methods),
        over=[_number(one) for one in methods],
        confidence=found.confidence,
        rows=tasks if with_tasks else [],
        summary=[*groups, *means],
        warning=_warning(found),
        caption=[*_caption(found)],
    )


def _number(one: Score) -> str:
    """The unit of a method's intervals, with the number of runs."""
    return f"{one.runs} {one.unit}" if one.unit == "runs" else one.unit


def _warning(found: Scores) -> list[str]:
    return [f"FORCED, these results are not comparable: {found.forced}"] if found.forced else []


def _caption(found: Scores) -> Iterator[str]:
    yield f"Success rates {measured(found.protocols, found.adaptation)}."
    for name, one in found.methods.items():
        yield f"{name}: {_described(one)}."
    level, of_methods = f"{100 * found.confidence:g}%", [*found.methods.values()]
    over_runs = [one for one in of_methods if "runs" in one.unit]
    trims = any(_TRIMMED in one.overall for one in of_methods)
    for unit in dict.fromkeys(one.unit for one in of_methods):
        way = f"{_INTERVALS[unit]}."
        if "runs" not in unit:
            yield f"1 run: {level} interval over its {unit}, not over training: {way}"
            if trims:
                yield f"Its {_TRIMMED} is that of the tasks."
            continue
        yield f"Several runs: {level} intervals over {unit}: {way}"
        if trims:
            yield f"Their {_TRIMMED} is that of all runs of all tasks, {_CLIPPED}."
        least = {name: f"{share:.0%}" for name, share in LEAST_COVERED[unit].items()}
        yield (
            f"In simulations, 95% intervals over {unit} cover the rate of a task in "
            f"{least['task']} of cases or more, the mean over all in {least['mean']} and the "
            f"{_TRIMMED} in {least[_TRIMMED]}; the rate of a task that one run in ten fails "
            f"altogether in {least['failing']}."
        )
    if any(each.low is None for one in over_runs for each in _estimates(one)):
        yield "There is no interval where runs do not differ."
    if any(1 in one.counts.values() for one in over_runs):
        yield "Nor is there one of a task with a single run, or of a mean over it."


def _estimates(one: Score) -> list[Estimate]:
    return [*one.tasks.values(), *one.groups.values(), *one.overall.values()]


def measured(protocols: Sequence[Protocol], adaptation: tuple[int, int] | None) -> str:
    """A description of how results were measured: protocols, and episodes of adaptation."""
    known = [conditions(one) for one in protocols]
    text = " or ".join(dict.fromkeys(when for _, when in known) or ["at any step"])
    if adaptation is not None:
        text = f"{text}, after {adaptation[0]} episodes of adaptation in each trial"
    if not known:
        return f"{text}, without a protocol"
    of_each = zip(protocols, known, strict=True)
    labels = [f"{one.label} on {where}" for one, (where, _) in of_each]
    if len(labels) > 3:
        labels[2:] = [f"{len(labels) - 2} more"]
    return f"{text}, protocol{'s' * (len(labels) > 1)} {', '.join(labels)}"


def _described(one: Score) -> str:
    """The runs and episodes of a method."""
    text = runs_text(one)
    if one.training_steps is not None:
        text += f" after {one.training_steps:,} training steps"
    return f"{text}, {one.episodes} episodes{chunks_said(one)}"


def chunks_said(one: Score) -> str:
    """The number of executed actions per chunk, as the end of a sentence."""
    return "" if one.action_chunk is None else f", {chunk_text(one.action_chunk)}"


def runs_text(one: Score) -> str:
    """The number of a method's runs, and their training seeds."""
    text = f"{one.runs} run{'s' * (one.runs > 1)}"
    if one.unit == "runs of each task":
        text = f"{one.runs} results"
    elif one.unit != "runs" and one.runs > 1:
        text = f"1 run of each task in {one.runs} results"
    if one.training_seeds:
        seeds = ", ".join(map(str, one.training_seeds))
        text += f" (training seed{'s' * (len(one.training_seeds) > 1)} {seeds})"
    elif one.runs > 1:
        text += " (training seeds not recorded)"
    return text


def as_csv(rows: Iterable[Mapping[str, str | float | None]]) -> str:
    """Formats rows with the same columns; values cannot be formulas in a spreadsheet."""
    text = io.StringIO()
    writer: csv.DictWriter[str] | None = None
    for row in rows:
        if writer is None:
            writer = csv.DictWriter(text, [*row], lineterminator="\n")
            writer.writeheader()
        writer.writerow({name: _cell(value) for name, value in row.items()})
    return text.getvalue().rstrip("\n")


def records(found: Scores, with_tasks: bool) -> Iterator[dict[str, str | float | None]]:
    """A row for each number of each method."""
    for method, one in found.methods.items():
        parts = {"task": one.tasks if with_tasks else {}, "group": one.groups, "all": one.overall}
        for over, rows in parts.items():
            for name, each in rows.items():
                yield {
                    "method": method,
                    "over": over,
                    "name": name,
                    "success": each.value,
                    "low": each.low,
                    "high": each.high,
                    "confidence": found.confidence,
                    "unit": one.unit,
                    "n": _number_of(found, one, over, name),
                    "runs": one.runs,
                    "episodes": one.episodes,
                    "training_seeds": " ".join(map(str, one.training_seeds)),
                    "training_steps": one.training_steps,
                    "action_chunk": one.action_chunk,
                    "protocol": "; ".join(of.name for of in found.protocols),
                    "digest": "; ".join(of.digest for of in found.protocols),
                    "interval": _way(one.unit, name),
                    "forced": found.forced,
                }


def _number_of(found: Scores, one: Score, over: str, name: str) -> int:
    """The number of units of a row's interval: all episodes, or the smallest number of runs."""
    tasks = {name} if over == "task" else set(one.counts)
    if over == "group":
        tasks &= set(dict(found.protocols[0].groups)[name])
    counts = [one.counts[task] for task in tasks]
    return min(counts) if "runs" in one.unit else sum(counts)


def _way(unit: Unit, name: str) -> str:
    """The method of a row's interval."""
    clips = name == _TRIMMED and "runs" in unit
    return f"{_INTERVALS[unit]}, {_CLIPPED}" if clips else _INTERVALS[unit]


def _cell(value: str | float | None) -> str | float | None:
    """Escapes a value that a spreadsheet would take for a formula."""
    if not isinstance(value, str):
        return value
    value = printable(value)
    first = unicodedata.normalize("NFKC", value).lstrip()[:1]  # wide ones count as well
    return f"'{value}" if first and first in "=+-@" else value
