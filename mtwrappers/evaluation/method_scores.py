"""Scores of methods over their training runs, as tables."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, get_args

from mtwrappers.common import checks
from mtwrappers.common.counts import format_count
from mtwrappers.evaluation.comparability import select_last_runs
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.report import (
    RATES,
    NumberFormat,
    TableRow,
    count_decimals,
    format_csv,
    write_table,
)
from mtwrappers.evaluation.result_text import describe_benchmark, describe_rule
from mtwrappers.evaluation.runs import Policies, Run, group_runs, takes_policies
from mtwrappers.evaluation.score_table import (
    INTERQUARTILE_MEAN,
    ScoreTable,
    combine_runs,
    label_mean,
    name_success_rate,
    success_rule,
    tabulate,
    weigh_groups,
    weigh_means,
)
from mtwrappers.evaluation.statistics import CONFIDENCE, Estimate

# Flat, for the command line.
TableFormat: TypeAlias = Literal["table", "markdown", "latex", "csv"]
IntervalUnit: TypeAlias = Literal["episodes", "trials", "runs"]
ScoredMetric: TypeAlias = Literal["success", "return"]
Record: TypeAlias = dict[str, str | float | None]
_EFFECTIVE = "(Korn & Graubard 1998; Franco et al. 2019)"
_OVER_EPISODES = f"Wilson's (1927) at the effective number {_EFFECTIVE}"
_OVER_RUNS = f"Wilson's (1927) at the effective number with Student's quantile {_EFFECTIVE}"
_STUDENT = "Student's t (1908)"
_SATTERTHWAITE = f"{_STUDENT}, of several tasks with the degrees of Satterthwaite (1946)"


@dataclass(frozen=True)
class Score:
    """The scores of a method: its success rates, or returns if no result records success.

    Args:
        metric: ``"success"`` or ``"return"``.
        runs: The number of training runs.
        episodes: The total number of episodes.
        training_seeds: The known training seeds of the runs.
        training_steps: The agent steps of training, if they are known.
        points: The number of different training steps, of which the last count.
        results: The number of results that the runs are put together from.
        is_reference: Whether the runs come with the package.
        unit: The unit that intervals are over: ``"episodes"`` or ``"trials"`` of a single run, or
            ``"runs"``.
        tasks: The mean at each task.
        groups: The mean of each group of tasks of the protocol.
        overall: The ``"mean over tasks"`` (or the means of the protocol) and, of the success rates
            of five runs or more on several tasks, the ``"interquartile mean"``.
        counts: The number of units of each task.
        num_tasks: The number of tasks of each group and each mean.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> first, second = (
    ...     result(*successes).described(training_seed=seed)
    ...     for seed, successes in enumerate([(False, True), (True, True)])
    ... )
    >>> mine = scores({"mine": [first, second]}).methods["mine"]
    >>> mine.runs, mine.unit, mine.tasks["reach"].value
    (2, 'runs', 0.75)
    """

    metric: ScoredMetric
    runs: int
    episodes: int
    training_seeds: tuple[int, ...]
    training_steps: int | None
    points: int
    results: int = field(compare=False)  # how episodes are divided changes nothing
    is_reference: bool
    unit: IntervalUnit
    tasks: Mapping[str, Estimate]
    groups: Mapping[str, Estimate]
    overall: Mapping[str, Estimate]
    counts: Mapping[str, int]
    num_tasks: Mapping[str, int]


@dataclass(frozen=True)
class Scores:
    """The scores of methods that were measured in the same way; ``str`` is a table in 80 columns.

    Args:
        methods: The score of each method, by name.
        protocols: The protocols that were followed: one or none, unless results are not comparable.
        adaptation: The numbers of adaptation episodes and of evaluation episodes of each trial, in
            few-shot evaluation.
        mismatch: The reason why the results are not comparable; empty if they are.
        notes: Warnings about results that are left out or did the same, and about tasks without
            success.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> first, second = (
    ...     result(*successes).described(training_seed=seed)
    ...     for seed, successes in enumerate([(False, True), (True, True)])
    ... )
    >>> table = scores({"mine": [first, second]})
    >>> str(table).splitlines()[3]
    'reach              0.750 0.010-0.999'
    """

    methods: Mapping[str, Score]
    protocols: tuple[Protocol, ...]
    adaptation: tuple[int, int] | None
    mismatch: str
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format("table")

    @property
    def caption(self) -> tuple[str, ...]:
        """Sentences: the protocol, the runs and episodes of each method, and their intervals."""
        return (*filter(None, [describe_mismatch(self.mismatch)]), *_caption(self))

    def format(self, format: TableFormat = "table", *, tasks: bool = True) -> str:
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
        if checks.check_choice(format, get_args(TableFormat), "format") == "csv":
            records = (
                list_records(name, score, self.protocols, self.mismatch, with_tasks=tasks)
                for name, score in self.methods.items()
            )
            return format_csv(itertools.chain(*records))
        scored = [*self.methods.values()]
        task_rows = _align_rows([score.tasks for score in scored]) if tasks else []
        mean_rows = [
            TableRow(label_mean(row.label, scored[0].num_tasks[row.label]), row.estimates)
            for means in ([score.groups for score in scored], [score.overall for score in scored])
            for row in _align_rows(means)
        ]
        return write_table(
            format,
            [*self.methods],
            [f"{score.runs} runs" if score.unit == "runs" else score.unit for score in scored],
            task_rows,
            mean_rows,
            [*_caption(self)],
            describe_mismatch(self.mismatch),
            number_format=_choose_format(
                scored[0].metric,
                (estimate for row in (*task_rows, *mean_rows) for estimate in row.estimates),
            ),
        )


def _choose_format(metric: ScoredMetric, estimates: Iterable[Estimate]) -> NumberFormat:
    """How the numbers of a table are written: rates with 3 decimals, returns with 4 digits."""
    if metric == "success":
        return RATES
    return NumberFormat(count_decimals(estimates), " to ")


def _align_rows(columns: Sequence[Mapping[str, Estimate]]) -> list[TableRow]:
    """A row for each name that all columns have."""
    return [
        TableRow(name, [column[name] for column in columns])
        for name in columns[0]
        if all(name in column for column in columns)
    ]


@takes_policies
def scores(policies: Policies, *, force: bool = False) -> Scores:
    """Computes the success rates of methods over their training runs.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. If no result records success, the scores are the returns. In few-shot evaluation, the
    episodes after adaptation count.

    **Several results of a method** are training runs with different seeds, and intervals are over
    runs: they say what another set of runs would give. If a run was evaluated at several
    ``training_steps``, the last one counts; all runs of a method must end at the same step. A run
    is one network for all tasks. Results of one run that share no episode, such as a file per task,
    count as one. Results without a ``training_seed`` are of one run: at the same
    ``training_steps``, they must be parts of one evaluation, by one plan.

    **Success** that no episode of a task reports, though episodes of other tasks do, counts as 0,
    and the caption names the task.

    **A single run** has intervals over its episodes (over trials in few-shot evaluation): they say
    how precisely this run was measured, and nothing about other runs.

    Args:
        policies: The results of each method, by its name: a list of results, or a dict of them by
            their names in errors, such as file names.
        force: Whether to accept results that are not comparable, on the tasks that all have;
            `Scores.mismatch` is then the reason. Of results of one training seed that share
            episodes, those with most episodes count, and `Scores.notes` names the others.

    Raises:
        IncomparableError: If the results of all methods together are not comparable; see
            `compare`.
        TypeError: If the policies are not a dict of results.
        ValueError: If there are no results, only some policies record success, or a policy has
            results of `reference` beside others.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> from mtwrappers.evaluation import scores
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> first, second = (
    ...     result(*successes).described(training_seed=seed)
    ...     for seed, successes in enumerate([(False, True), (True, True)])
    ... )
    >>> scores({"a": [first, second]}).methods["a"].overall["mean over tasks"].value
    0.75
    """
    methods = group_runs(policies)
    if not methods:
        raise ValueError("there must be results of one policy or more, got none")
    compared = select_last_runs(methods, force)
    return Scores(
        {
            method.name: score_runs(
                compared.runs[method.name],
                compared.tasks,
                compared.protocol,
                compared.has_success,
                method.num_points,
            )
            for method in methods
        },
        compared.protocols,
        compared.adaptation,
        compared.mismatch,
        compared.notes,
    )


def tabulate_runs(runs: Sequence[Run], tasks: Sequence[str], has_success: bool) -> ScoreTable:
    """The successes or returns of a method at some tasks, from its runs at one point.

    Args:
        runs: The runs. If success is compared, one that reports none has failed in every episode.
        tasks: The tasks.
        has_success: Whether success is compared, or returns.
    """
    tables = []
    for run in runs:
        rule = success_rule(run.result.protocol)
        table = tabulate(
            {task: run.result.of_task(task) for task in tasks},
            name_success_rate(rule) if has_success else "return",
            rule,
            reports_success=has_success,
        )
        assert table is not None  # as there is a return, and a success if it is compared
        tables.append(table)
    return combine_runs(tables, tasks)


def score_runs(
    runs: Sequence[Run],
    tasks: Sequence[str],
    protocol: Protocol | None,
    has_success: bool,
    num_points: int = 1,
) -> Score:
    """The score of a method.

    Args:
        runs: Its runs at one point.
        tasks: The tasks to score.
        protocol: The protocol that defines means and groups, if there is one.
        has_success: Whether success is scored, or returns.
        num_points: The number of different training steps, of which these are the last.
    """
    table = tabulate_runs(runs, tasks, has_success)
    num_runs = len(runs)
    mean_weights, group_weights = weigh_means(tasks, protocol), weigh_groups(tasks, protocol)
    overall = {name: table.mean(weights) for name, weights in mean_weights.items()}
    num_tasks = {name: len(weights) for name, weights in {**group_weights, **mean_weights}.items()}
    if (middle := table.interquartile_mean()) is not None:
        overall[INTERQUARTILE_MEAN] = middle
        num_tasks[INTERQUARTILE_MEAN] = len(tasks)
    seeds = [run.id.training_seed for run in runs]
    steps = {run.training_steps for run in runs}
    return Score(
        metric="success" if has_success else "return",
        runs=num_runs,
        episodes=sum(len(run.result.of_task(task)) for run in runs for task in tasks),
        training_seeds=tuple(sorted(seed for seed in seeds if seed is not None)),
        training_steps=steps.pop() if len(steps) == 1 else None,
        points=num_points,
        results=sum(len(run.results) for run in runs),
        is_reference=runs[0].id.is_reference,
        unit="runs" if num_runs > 1 else table.unit,
        tasks={task: table.mean({task: 1.0}) for task in tasks},
        groups={name: table.mean(weights) for name, weights in group_weights.items()},
        overall=overall,
        counts={task: num_runs if num_runs > 1 else len(table.runs[0][task]) for task in tasks},
        num_tasks=num_tasks,
    )


# Captions and rows of CSV.


def describe_mismatch(mismatch: str) -> str:
    """The sentence above results that are not comparable, or ``""``."""
    return f"FORCED, these results are not comparable: {mismatch}" if mismatch else ""


def describe_measurement(
    metric: ScoredMetric,
    protocols: Sequence[Protocol],
    adaptation: tuple[int, int] | None,
    rates: str = "Success rates",
) -> str:
    """A sentence about how results were measured: protocols, and episodes of adaptation.

    Args:
        metric: What was measured.
        protocols: The protocols that were followed.
        adaptation: The numbers of episodes of a trial, in few-shot evaluation.
        rates: The word for success rates.
    """
    when = ""
    if adaptation is not None:
        when = f", after {format_count(adaptation[0], 'episode')} of adaptation in each trial"
    if metric == "return":
        return f"Returns{when}, as no result records success."
    rules = [describe_rule(protocol.scoring.success) for protocol in protocols]
    subject = f"{rates} {' or '.join(dict.fromkeys(rules or ['at any step']))}{when}"
    labels = [f"{protocol.label} on {describe_benchmark(protocol)}" for protocol in protocols]
    if not labels:
        return f"{subject}, without a protocol."
    return f"{subject}, protocol{'s' * (len(labels) > 1)} {', '.join(labels)}."


def count_runs(score: Score) -> str:
    """The number of a method's runs, and whether they are a reference."""
    text = format_count(score.runs, "run")
    return f"reference of mtwrappers, {text}" if score.is_reference else text


def describe_results(score: Score) -> str:
    """The number of results that a method's runs are put together from, or ``""``."""
    if score.results <= score.runs:
        return ""
    return f"from {score.results} results that share no episode"


def describe_runs(score: Score) -> str:
    """The number of a method's runs, and by which rule its results were taken for them."""
    text = count_runs(score)
    rules = []
    if score.training_seeds:
        seeds = ", ".join(map(str, score.training_seeds))
        rules.append(f"training seed{'s' * (len(score.training_seeds) > 1)} {seeds}")
    elif score.runs > 1:
        rules.append("training seeds not recorded")
    if results := describe_results(score):
        rules.append(results)
    return f"{text} ({'; '.join(rules)})" if rules else text


def describe_steps(score: Score) -> str:
    """The training steps of a method's runs as a part of a sentence, or ``""``."""
    if not score.training_steps:
        return ""
    last = f", the last of {score.points} points" if score.points > 1 else ""
    return f" after {score.training_steps:,} training steps{last}"


def _caption(scored: Scores) -> Iterator[str]:
    all_scores = [*scored.methods.values()]
    metric = all_scores[0].metric
    yield describe_measurement(metric, scored.protocols, scored.adaptation)
    for name, score in scored.methods.items():
        episodes = format_count(score.episodes, "episode")
        yield f"{name}: {describe_runs(score)}{describe_steps(score)}, {episodes}."
    for unit in dict.fromkeys(score.unit for score in all_scores):
        interval = _name_interval(metric, unit)
        if unit == "runs":
            yield f"Several runs: {CONFIDENCE:.0%} intervals over runs: {interval}."
        else:
            scope = f"{CONFIDENCE:.0%} interval over its {unit}"
            yield f"1 run: {scope}, not over training: {interval}."
    mean_rows = _align_rows([score.overall for score in all_scores])
    has_interquartile_mean = any(row.label == INTERQUARTILE_MEAN for row in mean_rows)
    if has_interquartile_mean:
        yield (
            f"The {INTERQUARTILE_MEAN} is that of all runs of all tasks, with the variance of "
            "rates clipped at the quartiles (Tukey & McLaughlin 1963)."
        )
    lacking = dict.fromkeys(
        score.unit
        for score in all_scores
        for estimate in (*score.tasks.values(), *(score.overall[row.label] for row in mean_rows))
        if estimate.low is None
    )
    if lacking:
        where = f"{' or '.join(lacking)} do not differ"
        single = dict.fromkeys(
            score.unit.removesuffix("s")
            for score in all_scores
            if score.unit in lacking and min(score.counts.values()) == 1
        )
        if single:
            where = f"a task has a single {' or '.join(single)}, or where {where}"
        if has_interquartile_mean:
            where += ", or where all rates in the middle half are 0 or 1"
        yield f"There is no interval where {where}."
    yield from (f"Note: {note}." for note in scored.notes)


def _name_interval(metric: ScoredMetric, unit: IntervalUnit) -> str:
    """The method of intervals over a unit, with its source."""
    if metric == "return":
        return _STUDENT if unit == "runs" else _SATTERTHWAITE
    return _OVER_RUNS if unit == "runs" else _OVER_EPISODES


def list_records(
    method: str,
    score: Score,
    protocols: Sequence[Protocol],
    mismatch: str,
    *,
    with_tasks: bool,
) -> Iterator[Record]:
    """A record for each number of a method, with full precision."""
    facts: Record = {
        "runs": score.runs,
        "episodes": score.episodes,
        "training_seeds": " ".join(map(str, score.training_seeds)),
        "training_steps": score.training_steps,
        "protocol": "; ".join(protocol.name for protocol in protocols),
        "digest": "; ".join(protocol.digest for protocol in protocols),
        "interval": _name_interval(score.metric, score.unit),
        "reference": "yes" if score.is_reference else "no",
        "mismatch": mismatch,
    }
    sections = {
        "task": score.tasks if with_tasks else {},
        "group": score.groups,
        "all": score.overall,
    }
    for section, estimates in sections.items():
        for name, estimate in estimates.items():
            yield {
                "method": method,
                "over": section,
                "name": name,
                score.metric: estimate.value,
                "low": estimate.low,
                "high": estimate.high,
                "confidence": CONFIDENCE,
                "unit": score.unit,
                "n": _count_units(score, section, name, protocols),
                "tasks": 1 if section == "task" else score.num_tasks[name],
                **facts,
            }


def _count_units(score: Score, section: str, name: str, protocols: Sequence[Protocol]) -> int:
    """The number of units of the interval of a record."""
    if score.unit == "runs":
        return score.runs
    tasks = {name} if section == "task" else {*score.counts}
    if section == "group":
        tasks &= {*dict(protocols[0].scoring.groups)[name]}
    return sum(score.counts[task] for task in tasks)
