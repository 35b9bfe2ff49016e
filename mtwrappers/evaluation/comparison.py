"""Comparisons of policies, per task and overall, as a table and a plot."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtwrappers.common.checks import check_flag
from mtwrappers.common.counts import format_count
from mtwrappers.evaluation import plot, statistics
from mtwrappers.evaluation.comparability import ComparedRuns, select_last_runs
from mtwrappers.evaluation.method_scores import (
    IntervalUnit,
    Score,
    count_runs,
    describe_mismatch,
    describe_results,
    describe_steps,
    score_runs,
    tabulate_runs,
)
from mtwrappers.evaluation.report import align_columns, count_decimals
from mtwrappers.evaluation.runs import Method, Policies, Run, group_runs, takes_policies
from mtwrappers.evaluation.score_table import (
    INTERQUARTILE_MEAN,
    label_mean,
    weigh_means,
)
from mtwrappers.evaluation.scoring import TaskWeights
from mtwrappers.evaluation.statistics import (
    CONFIDENCE,
    LEAST_RUNS,
    LEAST_VALUES,
    Estimate,
    Values,
)

_FEW_RETURNS = 10  # values, of which Student's interval needs that they scatter normally
_INTERVAL_WIDTH = 19  # characters of a line for the interval of a difference of rates


@dataclass(frozen=True)
class ScoreDifference:
    """The success rates of two policies, or their mean returns, and their difference.

    Args:
        first: The rate of the first, in [0, 1], or its mean return.
        second: That of the second.
        difference: ``second - first``, with its interval.

    >>> from mtwrappers import EvaluationResult, compare
    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> worse, better = result(*[False] * 9, True), result(*[True] * 8, False, False)
    >>> [comparison] = compare({"A": [worse], "B": [better]})
    >>> reach = comparison.tasks["reach"]
    >>> reach.first, reach.second, round(reach.difference.low, 2), round(reach.difference.high, 2)
    (0.1, 0.8, 0.27, 0.87)
    """

    first: float
    second: float
    difference: Estimate


@dataclass(frozen=True)
class Comparison:
    """A comparison of two policies.

    Args:
        names: The names of the first and the second.
        scores: The scores of both: rates or returns with intervals, numbers of runs and episodes.
        tasks: The difference at each task.
        overall: The differences over all tasks: the ``"mean over tasks"`` (or the means of their
            protocol) and, of the success rates of five runs or more each, the ``"interquartile
            mean"``.
        paired: The number of tasks at which both have episodes of the same goals, which are
            compared goal by goal.
        pairing: A sentence: by which rule values of both were compared one by one, or not.
        mismatch: The reason why the two are not comparable; empty if they are.
        unit: The unit that intervals are over: ``"episodes"``, ``"trials"`` or ``"runs"``.
        notes: Warnings about results that are left out or did the same, and about tasks without
            success.

    >>> from mtwrappers import EvaluationResult, compare
    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> worse, better = result(*[False] * 9, True), result(*[True] * 8, False, False)
    >>> [comparison] = compare({"A": [worse], "B": [better]})
    >>> comparison.names, comparison.scores[1].tasks["reach"].value, comparison.unit
    (('A', 'B'), 0.8, 'episodes')
    >>> str(comparison).splitlines()[4]
    'reach              0.10   0.80   +0.70  +0.27 to +0.87 *'
    """

    names: tuple[str, str]
    scores: tuple[Score, Score]
    tasks: Mapping[str, ScoreDifference]
    overall: Mapping[str, ScoreDifference]
    paired: int
    pairing: str
    mismatch: str
    unit: IntervalUnit
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.format()

    def format(self, *, tasks: bool = True) -> str:
        """Formats the differences with their intervals as a table in 80 columns.

        Args:
            tasks: Whether to include single tasks.

        Raises:
            TypeError: If ``tasks`` is not a bool.
        """
        return "\n".join(_list_lines(self, check_flag(tasks, "tasks")))

    def plot(self, path: str | Path, *, tasks: bool = True) -> None:
        """Draws both scores, and beside them the differences, with intervals.

        Args:
            path: The image file; its suffix sets the format.
            tasks: Whether to include single tasks.

        Raises:
            TypeError: If ``tasks`` is not a bool.
        """
        rows = _list_rows(self, check_flag(tasks, "tasks"))
        labels = [row.label for row in rows]
        columns = [row.first for row in rows], [row.second for row in rows]
        scores = []
        for name, color, score, estimates in zip(
            self.names, plot.METHODS, self.scores, columns, strict=False
        ):
            if score.unit != self.unit:
                # A single run has intervals over its episodes, and those of the plot are over runs.
                estimates = [Estimate(estimate.value) for estimate in estimates]
            scores.append(plot.Series(name, color, estimates))
        differences = [row.difference for row in rows]
        colors = [
            plot.DARK if _excludes_zero(difference) else plot.LIGHT for difference in differences
        ]
        axis = plot.AXES[self.scores[0].metric]
        panels = {axis: scores, plot.DIFFERENCE: [plot.Series("", colors, differences)]}
        title = [describe_mismatch(self.mismatch), f"{self.names[1]} minus {self.names[0]}"]
        footer = f"lines: {_describe_unit(self)}; dark: the interval excludes zero"
        if reasons := _list_lacking_lines(self, rows):
            footer += f"; without a line: {', or '.join(reasons)}"
        num_tasks = sum(row.is_task for row in rows)
        plot.draw_rows(
            Path(path), labels, num_tasks, panels, "\n".join(filter(None, title)), footer
        )


@takes_policies
def compare(policies: Policies, *, force: bool = False) -> list[Comparison]:
    """Compares the success of policies with the success of the first.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. If no result records success, as in most of the families of meta-RL, returns are compared,
    with Student's intervals. In few-shot evaluation, the episodes after adaptation are compared,
    trial by trial; earlier episodes are in the result's ``unadapted``.

    **One run each.** Intervals are over episodes (over trials in few-shot evaluation): they say how
    precisely *these* two policies were measured, not what another training run would give. If both
    have episodes of the same goals, these are compared goal by goal, which removes the difficulty
    of goals from the difference. A task with fewer than three values of either policy has no
    interval.

    **Several runs of a policy** are training runs with different seeds, and intervals are over runs
    (Welch's). If a run was evaluated at several ``training_steps``, the last one counts. A run is
    one network for all tasks, so a mean over tasks is a number of each run. With a single run of
    either policy, there is no interval, nor at a task where all runs of both policies are equal,
    however large the difference: how much they scatter is unknown. Results of one run that share no
    episode, such as a file per task, count as one.

    Two results are comparable if the same was scored: all fields of their protocols are equal, and
    so is every setting of the environments that changes what is scored. What a policy observes is
    its own affair unless a protocol fixes it. The versions of Meta-World and MuJoCo have to be
    equal, except for environments that do not need these packages.

    Args:
        policies: The results of each policy, by its name: a list of results, or a dict of them by
            their names in errors, such as file names.
        force: Whether to compare results that are not comparable, on the tasks that all have;
            `Comparison.mismatch` is then the reason. Of results of one training seed that share
            episodes, those with most episodes count, and `Comparison.notes` names the others.

    Returns:
        For each of the other policies, a comparison with the first.

    Raises:
        IncomparableError: If results differ in protocol, environments, versions or tasks, or only
            some record them; if a result lacks episodes of its protocol; if two of a policy have
            the same episodes, and the same ``training_seed`` and ``training_steps`` or no seed; or
            if the runs of a policy end at different ``training_steps``.
        TypeError: If the policies are not a dict of results.
        ValueError: If there are fewer than two policies, only some of them record success, or a
            policy has results of `reference` beside others.

    >>> from mtwrappers.evaluation import Episode
    >>> from mtwrappers import EvaluationResult, compare
    >>> def result(*successes):
    ...     return EvaluationResult(
    ...         [Episode("reach", i, 0.0, 5, once, once) for i, once in enumerate(successes)]
    ...     )
    >>> [comparison] = compare({"a": [result(False, True)], "b": [result(True, True)]})
    >>> comparison.tasks["reach"].difference.value
    0.5
    """
    methods = group_runs(policies)
    if len(methods) < 2:
        raise ValueError(f"there must be two policies or more to compare, got {list(policies)}")
    first, *later_methods = methods
    return [_compare_methods(first, second, force) for second in later_methods]


def _compare_methods(first: Method, second: Method, force: bool) -> Comparison:
    compared = select_last_runs([first, second], force, allow_unadapted=True)
    methods = first, second
    scores = [
        score_runs(
            compared.runs[method.name],
            compared.tasks,
            compared.protocol,
            compared.has_success,
            method.num_points,
        )
        for method in methods
    ]
    several = any(score.runs > 1 for score in scores)
    differences = (
        _compare_runs(compared, methods) if several else _compare_values(compared, methods)
    )
    if several:
        pairing = "runs are not paired: each is a training of its own"
    else:
        pairing = _describe_pairing(differences.num_paired, compared, methods)
    first_score, second_score = scores
    return Comparison(
        names=(first.name, second.name),
        scores=(first_score, second_score),
        tasks={
            task: ScoreDifference(
                first_score.tasks[task].value, second_score.tasks[task].value, estimate
            )
            for task, estimate in differences.tasks.items()
        },
        overall={
            name: ScoreDifference(
                first_score.overall[name].value, second_score.overall[name].value, estimate
            )
            for name, estimate in differences.overall.items()
        },
        paired=differences.num_paired,
        pairing=pairing,
        mismatch=compared.mismatch,
        unit="runs" if several else first_score.unit,
        notes=compared.notes,
    )


@dataclass(frozen=True)
class _Differences:
    """How much higher the second method's scores are.

    Args:
        tasks: The difference at each task.
        overall: The difference of each mean.
        num_paired: The number of tasks at which values were compared goal by goal.
    """

    tasks: Mapping[str, Estimate]
    overall: Mapping[str, Estimate]
    num_paired: int


def _compare_runs(compared: ComparedRuns, methods: tuple[Method, Method]) -> _Differences:
    """Differences between several runs of either method, with intervals over runs."""
    first, second = (
        tabulate_runs(compared.runs[method.name], compared.tasks, compared.has_success)
        for method in methods
    )
    overall = {
        name: first.difference(second, weights)
        for name, weights in weigh_means(compared.tasks, compared.protocol).items()
    }
    if first.has_interquartile_mean and second.has_interquartile_mean:
        overall[INTERQUARTILE_MEAN] = first.interquartile_difference(second)
    tasks = {task: first.difference(second, {task: 1.0}) for task in compared.tasks}
    return _Differences(tasks, overall, 0)


def _compare_values(compared: ComparedRuns, methods: tuple[Method, Method]) -> _Differences:
    """Differences between one run each, with intervals over their episodes or trials."""
    [first], [second] = (compared.runs[method.name] for method in methods)
    [first_values], [second_values] = (
        tabulate_runs(compared.runs[method.name], compared.tasks, compared.has_success).runs
        for method in methods
    )
    pairs = {
        task: _pair_values(first, second, first_values[task], second_values[task], task)
        for task in compared.tasks
    }

    def difference(task_weights: TaskWeights) -> Estimate:
        weighed = sorted(task_weights)
        firsts = [pairs[task].first for task in weighed]
        seconds = [pairs[task].second for task in weighed]
        paired = [pairs[task].same_goals for task in weighed]
        weights = np.array([task_weights[task] for task in weighed])
        if compared.has_success:
            return statistics.rate_difference(firsts, seconds, paired, weights).estimate()
        estimate = statistics.mean_difference(firsts, seconds, paired, weights)
        fewest = min(sum(map(len, firsts)), sum(map(len, seconds)))
        return estimate if fewest >= LEAST_VALUES else Estimate(estimate.value)

    return _Differences(
        {task: difference({task: 1.0}) for task in compared.tasks},
        {
            name: difference(weights)
            for name, weights in weigh_means(compared.tasks, compared.protocol).items()
        },
        sum(pair.same_goals for pair in pairs.values()),
    )


@dataclass(frozen=True)
class _PairedValues:
    """The successes or returns of two runs at a task.

    Args:
        first: The first's values, ``(n,)``.
        second: The second's values, ``(m,)``.
        same_goals: Whether values at one index have the same goal.
    """

    first: Values
    second: Values
    same_goals: bool


def _pair_values(
    first: Run, second: Run, first_values: Values, second_values: Values, task: str
) -> _PairedValues:
    first_by_goal = first.values_by_goal(first_values, task)
    second_by_goal = second.values_by_goal(second_values, task)
    if _have_same_goals(first, second) and first_by_goal.keys() == second_by_goal.keys():
        return _PairedValues(
            np.array([*first_by_goal.values()]),
            np.array([second_by_goal[goal] for goal in first_by_goal]),
            True,
        )
    return _PairedValues(first_values, second_values, False)


def _have_same_goals(first: Run, second: Run) -> bool:
    return first.goals is not None and first.goals == second.goals


def _describe_pairing(
    num_paired: int, compared: ComparedRuns, methods: tuple[Method, Method]
) -> str:
    """The sentence about which values of one run each are compared one by one."""
    [first], [second] = (compared.runs[method.name] for method in methods)
    nouns = f"{first.result.origin.state_noun}s"
    if num_paired:
        return (
            f"{nouns} compared one by one at {num_paired} of "
            f"{format_count(len(compared.tasks), 'task')}, as both met the same"
        )
    if not compared.mismatch and first.keeps_tasks and second.keeps_tasks:
        return "each task stays on one task state, the same for both"
    for run in (first, second):
        if run.goals is None:
            return f"{nouns} are not compared one by one: {run.label} does not name them"
    return f"{nouns} are not compared one by one: they are not the same"


# The table.


@dataclass(frozen=True)
class _Row:
    """A row of the table and of the plot."""

    label: str
    is_task: bool
    first: Estimate
    second: Estimate
    difference: Estimate


def _list_rows(comparison: Comparison, with_tasks: bool) -> list[_Row]:
    """The rows of tasks and of means."""
    first, second = comparison.scores
    rows = [
        _Row(task, True, first.tasks[task], second.tasks[task], rates.difference)
        for task, rates in comparison.tasks.items()
        if with_tasks
    ]
    for name, rates in comparison.overall.items():
        label = label_mean(name, first.num_tasks[name])
        means = first.overall[name], second.overall[name]
        rows.append(_Row(label, False, *means, rates.difference))
    return rows


def _describe_unit(comparison: Comparison) -> str:
    single = "" if comparison.unit == "runs" else " of one run each"
    return f"{CONFIDENCE:.0%} intervals over {comparison.unit}{single}"


def _list_lines(comparison: Comparison, with_tasks: bool) -> Iterator[str]:
    if comparison.mismatch:
        yield describe_mismatch(comparison.mismatch)
    for letter, name, score in zip("AB", comparison.names, comparison.scores, strict=True):
        yield f"{letter}: {name} ({_describe_run_count(score)}{describe_steps(score)})"
    rows = _list_rows(comparison, with_tasks)
    yield ""
    yield from _format_rows(comparison, rows)
    if any(_has_equal_values(comparison, row.difference) for row in rows):
        equal = _name_equal_values(comparison)
        yield f"{equal}: how much they scatter is unknown, so no interval and no star"
    yield f"{_describe_unit(comparison)}; *: the interval excludes zero"
    if comparison.unit == "runs":
        yield "Welch's t (1947)"
    elif comparison.scores[0].metric == "return":
        yield "Student's t (1908), with the degrees of Welch (1947) and Satterthwaite (1946)"
    else:
        yield "one task: Newcombe (1998); means: likewise, from Wilson's intervals at the"
        yield "effective number (Korn & Graubard 1998, Franco et al. 2019)"
    yield from _list_warnings(comparison)
    for sentence in (comparison.pairing, *comparison.notes):
        yield from textwrap.wrap(sentence, 80, break_on_hyphens=False)


def _describe_run_count(score: Score) -> str:
    """The number of runs, of how many results, and whether they are a reference."""
    return " ".join(filter(None, [count_runs(score), describe_results(score)]))


def _list_warnings(comparison: Comparison) -> Iterator[str]:
    """Warnings about the reliability of the stars."""
    if comparison.unit == "runs":
        fewest = min(score.runs for score in comparison.scores)
        if fewest < 2:
            yield "a single run has no interval: it says nothing about other runs"
        elif fewest < LEAST_RUNS:
            yield f"{fewest} runs are few: a star is right if runs scatter normally"
    else:
        fewest = min(map(_count_fewest, comparison.scores))
        if fewest < LEAST_VALUES:
            least = f"fewer than {LEAST_VALUES} {comparison.unit}"
            yield f"tasks with {least} (here {fewest}) have no interval, and so no star"
            if fewest == 1 and comparison.scores[0].metric == "return":
                yield "nor does a mean over them, where a task has a single one"
        elif fewest < _FEW_RETURNS and comparison.scores[0].metric == "return":
            few = f"{fewest} {comparison.unit} of a task are few"
            yield f"{few}: its star is right if returns scatter normally"
    n = sum(rates.difference.low is not None for rates in comparison.tasks.values())
    if n >= 10:
        by_chance = (1 - CONFIDENCE) * n
        yield f"without any difference, about {by_chance:.1f} of {n} tasks get a star by chance"


def _excludes_zero(estimate: Estimate) -> bool:
    low, high = estimate.low, estimate.high
    return low is not None and high is not None and (low > 0 or high < 0)


def _has_equal_values(comparison: Comparison, difference: Estimate) -> bool:
    """Whether there is no interval because no values of either policy, or no pairs, differ."""
    if comparison.unit == "runs":
        has_enough = min(score.runs for score in comparison.scores) > 1
    else:
        fewest = min(map(_count_fewest, comparison.scores))
        has_enough = fewest >= LEAST_VALUES
    return has_enough and difference.low is None


def _name_equal_values(comparison: Comparison) -> str:
    """The reason why a difference has no interval although there are enough values."""
    # Of the same goals, their differences are the sample.
    return "equal differences" if comparison.paired else f"equal {comparison.unit}"


def _list_lacking_lines(comparison: Comparison, rows: Sequence[_Row]) -> list[str]:
    """The reasons why points of a plot have no interval."""
    over_runs = comparison.unit == "runs"
    reasons = []
    if over_runs and any(score.runs == 1 for score in comparison.scores):
        reasons.append("a single run has no interval over runs")
    has_few_values = not over_runs and min(map(_count_fewest, comparison.scores)) < LEAST_VALUES
    if has_few_values and comparison.scores[0].metric == "return":
        reasons.append(f"fewer than {LEAST_VALUES} {comparison.unit}")
    columns = [row.first for row in rows], [row.second for row in rows]
    if any(
        (score.runs > 1 if over_runs else _count_fewest(score) > 1) and estimate.low is None
        for score, estimates in zip(comparison.scores, columns, strict=True)
        for estimate in estimates
    ):
        reasons.append(f"equal {comparison.unit}")
    if any(_has_equal_values(comparison, row.difference) for row in rows):
        reasons.append(_name_equal_values(comparison))
    return [*dict.fromkeys(reasons)]


def _count_fewest(score: Score) -> int:
    """The number of values of the task that has fewest."""
    return min(score.counts.values())


def _format_rows(comparison: Comparison, rows: Sequence[_Row]) -> Iterator[str]:
    """The lines of the table: its head, tasks, and means below a line."""
    decimals = 2
    if comparison.scores[0].metric == "return":
        decimals = count_decimals(
            estimate for row in rows for estimate in (row.first, row.second, row.difference)
        )
    cells = [
        [
            row.label,
            f"{row.first.value:.{decimals}f}",
            f"{row.second.value:.{decimals}f}",
            f"{row.difference.value:+.{decimals}f}",
        ]
        for row in rows
    ]
    head = ["task", "    A", "    B", " B - A"]  # at least as wide as rates
    head_line, *lines = align_columns([head, *cells])
    yield f"{head_line}  ({CONFIDENCE:.0%})"
    num_tasks = sum(row.is_task for row in rows)
    for i, (row, line) in enumerate(zip(rows, lines, strict=True)):
        if i == num_tasks > 0:
            yield "-" * (len(head_line) + _INTERVAL_WIDTH)
        yield f"{line}{_format_interval(comparison, row.difference, decimals)}"


def _format_interval(comparison: Comparison, difference: Estimate, decimals: int) -> str:
    """The end of a line of the table: an interval and its star, or why there is none."""
    if difference.low is None or difference.high is None:
        has_equal_values = _has_equal_values(comparison, difference)
        return f"  {_name_equal_values(comparison)}" * has_equal_values
    ends = f"{_format_end(difference.low, decimals)} to {_format_end(difference.high, decimals)}"
    return f"  {ends}{' *' * _excludes_zero(difference)}"


def _format_end(value: float, decimals: int) -> str:
    """An end of an interval, which is shown as zero only if it is zero."""
    rounded = f"{value:+.{decimals}f}"
    return rounded if value == 0 or float(rounded) != 0 else f"{value:+.0e}"
