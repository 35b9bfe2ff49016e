"""Scores of methods over their training runs: per task, per group and overall, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

import numpy as np

from mtwrappers.common.checks import check_choice, check_flag
from mtwrappers.evaluation.protocol import Protocol, weights
from mtwrappers.evaluation.report import Table, as_csv
from mtwrappers.evaluation.result import conditions
from mtwrappers.evaluation.runs import Policies, Run, compared, methods_of
from mtwrappers.evaluation.statistics import (
    LEAST_RUNS,
    Estimate,
    Values,
    estimate_of,
    interquartile,
    mean_rate,
    rate_of_runs,
    runs_interval,
)

Format: TypeAlias = Literal["table", "markdown", "latex", "csv"]
Unit: TypeAlias = Literal["episodes", "trials", "runs"]
INTERQUARTILE = "interquartile mean"
_EFFECTIVE = "(Korn & Graubard 1998; Franco et al. 2019)"
_OVER_EPISODES = f"Wilson's (1927) at the effective number {_EFFECTIVE}"
_INTERVALS: Mapping[str, str] = {
    "episodes": _OVER_EPISODES,
    "trials": _OVER_EPISODES,
    "runs": f"Wilson's (1927) at the effective number with Student's quantile {_EFFECTIVE}",
}


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
        action_chunk: The number of executed actions per chunk; ``None`` for single actions.

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
    action_chunk: int | None


@dataclass(frozen=True)
class Scores:
    """The scores of methods that were measured in the same way; ``str`` is a table in 80 columns.

    Args:
        methods: The score of each method, by name.
        protocols: The protocols that were followed: one or none, unless the comparison is forced.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        forced: The reason why the results are not comparable; empty if they are.
        notes: Warnings about results that did the same.

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
        check_choice(format, get_args(Format), "format")
        if format == "csv":
            return as_csv(records(self, check_flag(tasks, "tasks")))
        methods = [*self.methods.values()]
        table = Table(
            heads=[*self.methods],
            over=[f"{one.runs} runs" if one.unit == "runs" else one.unit for one in methods],
            parts=(
                _rows([one.tasks for one in methods]) if check_flag(tasks, "tasks") else [],
                _rows([one.groups for one in methods]) + _rows([one.overall for one in methods]),
            ),
            warning=said_forced(self.forced),
            caption=[*_caption(self)],
        )
        as_text = {"table": table.text, "markdown": table.markdown, "latex": table.latex}
        return as_text[format]()


def _rows(columns: Sequence[Mapping[str, Estimate]]) -> list[tuple[str, list[Estimate]]]:
    """A row for each name that all columns have."""
    return [(name, [own[name] for own in columns]) for name in columns[0] if _in_all(name, columns)]


def _in_all(name: str, columns: Sequence[Mapping[str, Estimate]]) -> bool:
    return all(name in own for own in columns)


def scores(policies: Policies, *, force: bool = False) -> Scores:
    """Computes the success rates of methods over their training runs.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. In few-shot evaluation, the episodes after adaptation count.

    **Several results of a method** are training runs with different seeds, and intervals are over
    runs: they say what another set of runs would give. If a run was evaluated at several
    ``training_steps``, the last one counts; all runs of a method must end at the same step. A run
    is one network for all tasks. Results of one run that share no episode, such as a file per task,
    count as one.

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
    names = sorted(tasks)  # no sum depends on the order of files
    n = len(runs)
    if n == 1:
        samples = [runs[0].rates(task) for task in names]
    else:
        samples = [np.array([one.rates(task).mean() for one in runs]) for task in names]
    groups = () if protocol is None else protocol.groups

    def mean(shares: Values) -> Estimate:
        present = np.flatnonzero(shares)
        chosen, parts = [samples[i] for i in present], shares[present]
        return mean_rate(chosen, parts) if n == 1 else rate_of_runs(of_runs(chosen, parts))

    def mean_over(name: str) -> Estimate:
        return mean(weights(names, name, groups))

    overall = {
        f"mean over {name}": mean_over(name)
        for name in (("tasks",) if protocol is None else protocol.means)
    }
    if n >= LEAST_RUNS and len(names) > 1:
        rate, numbers = interquartile(np.array(samples))
        overall[INTERQUARTILE] = estimate_of(runs_interval(np.sort(numbers), rate))
    steps = {one.steps for one in runs}
    alone = np.eye(len(names))
    return Score(
        runs=n,
        episodes=sum(len(one.by_task[task]) for one in runs for task in names),
        training_seeds=tuple(sorted(one.seed for one in runs if one.seed is not None)),
        training_steps=steps.pop() if len(steps) == 1 else None,
        unit="runs" if n > 1 else "episodes" if runs[0].unit == "episodes" else "trials",
        tasks={task: mean(alone[names.index(task)]) for task in tasks},
        groups={name: mean_over(name) for name, _ in groups},
        overall=overall,
        counts={task: len(samples[names.index(task)]) for task in tasks},
        action_chunk=runs[0].chunk,
    )


def of_runs(samples: Sequence[Values], shares: Values) -> Values:
    """The weighted mean over tasks of each run, ascending, ``(n,)``."""
    return np.sort((shares[:, None] * np.array(samples)).sum(axis=0))


def said_forced(reason: str) -> str:
    """The sentence above results that are not comparable."""
    return f"FORCED, these results are not comparable: {reason}" if reason else ""


def _caption(found: Scores) -> Iterator[str]:
    yield f"Success rates {measured(found.protocols, found.adaptation)}."
    for name, one in found.methods.items():
        after = f" after {one.training_steps:,} training steps" if one.training_steps else ""
        yield f"{name}: {runs_text(one)}{after}, {one.episodes} episodes."
    methods = [*found.methods.values()]
    for unit in dict.fromkeys(one.unit for one in methods):
        over = f"1 run: 95% interval over its {unit}, not over training"
        over = "Several runs: 95% intervals over runs" if unit == "runs" else over
        yield f"{over}: {_INTERVALS[unit]}."
    if any(INTERQUARTILE in one.overall for one in methods):
        yield (
            f"The {INTERQUARTILE} is that of all runs of all tasks, with the variance of rates "
            "clipped at the quartiles (Tukey & McLaughlin 1963)."
        )
    several = [one for one in methods if one.unit == "runs"]
    if any(
        each.low is None for one in several for each in (*one.tasks.values(), *one.overall.values())
    ):
        yield "There is no interval where runs do not differ."
    yield from (f"{note[:1].upper()}{note[1:]}." for note in found.notes)


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
    return f"{text}, protocol{'s' * (len(labels) > 1)} {', '.join(labels)}"


def runs_text(one: Score) -> str:
    """The number of a method's runs, and their training seeds."""
    text = f"{one.runs} run{'s' * (one.runs > 1)}"
    if one.training_seeds:
        seeds = ", ".join(map(str, one.training_seeds))
        text += f" (training seed{'s' * (len(one.training_seeds) > 1)} {seeds})"
    elif one.runs > 1:
        text += " (training seeds not recorded)"
    return f"{text}{chunk_text(one.action_chunk)}"


def chunk_text(action_chunk: int | None) -> str:
    """The number of executed actions per chunk, in the middle of a sentence."""
    return "" if action_chunk is None else f", {action_chunk} of each chunk's actions executed"


def records(found: Scores, with_tasks: bool) -> Iterator[dict[str, str | float | None]]:
    """A row for each number of each method."""
    for method, one in found.methods.items():
        parts = {"task": one.tasks if with_tasks else {}, "group": one.groups, "all": one.overall}
        for over, name, each in (
            (over, name, each) for over, rows in parts.items() for name, each in rows.items()
        ):
            yield {
                "method": method,
                "over": over,
                "name": name,
                "success": each.value,
                "low": each.low,
                "high": each.high,
                "confidence": 0.95,
                "unit": one.unit,
                "n": _number_of(found, one, over, name),
                "runs": one.runs,
                "episodes": one.episodes,
                "training_seeds": " ".join(map(str, one.training_seeds)),
                "training_steps": one.training_steps,
                "action_chunk": one.action_chunk,
                "protocol": "; ".join(of.name for of in found.protocols),
                "digest": "; ".join(of.digest for of in found.protocols),
                "interval": _INTERVALS[one.unit],
                "forced": found.forced,
            }


def _number_of(found: Scores, one: Score, over: str, name: str) -> int:
    """The number of units of a row's interval."""
    if one.unit == "runs":
        return one.runs
    tasks = {name} if over == "task" else set(one.counts)
    if over == "group":
        tasks &= set(dict(found.protocols[0].groups)[name])
    return sum(one.counts[task] for task in tasks)
