"""Comparisons of policies, per task and overall, as a table and a plot."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mtwrappers.common.checks import check_flag
from mtwrappers.evaluation import plot, statistics
from mtwrappers.evaluation.runs import Compared, Policies, Run, compared, methods_of
from mtwrappers.evaluation.scores import (
    INTERQUARTILE,
    Score,
    Shares,
    means,
    means_of,
    of_runs,
    present,
    said_forced,
    score_of,
)
from mtwrappers.evaluation.statistics import LEAST_RUNS, LEAST_VALUES, Estimate, Values

# The reason why a difference between several runs each has no interval.
_EQUAL = "equal runs"


@dataclass(frozen=True)
class ScoreDifference:
    """The success rates of two policies, and their difference.

    Args:
        first: The rate of the first, in [0, 1].
        second: The rate of the second, in [0, 1].
        difference: ``second - first``, with its interval.

    >>> from mtwrappers import EvaluationResult, compare
    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> worse, better = result(*[False] * 9, True), result(*[True] * 8, False, False)
    >>> [found] = compare({"A": [worse], "B": [better]})
    >>> reach = found.tasks["reach"]
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
        scores: The scores of both: rates with intervals, numbers of runs and episodes.
        tasks: The difference at each task.
        overall: The differences over all tasks: the ``"mean over tasks"`` (or the means of their
            protocol) and, if both have five runs or more, the ``"interquartile mean"``.
        paired: The number of tasks at which both have episodes of the same goals, which are
            compared goal by goal.
        forced: The reason why the two are not comparable; empty if they are.
        unit: The unit that intervals are over: ``"episodes"``, ``"trials"`` or ``"runs"``.
        notes: Warnings about results that did the same, and about tasks without success.

    >>> from mtwrappers import EvaluationResult, compare
    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> worse, better = result(*[False] * 9, True), result(*[True] * 8, False, False)
    >>> [found] = compare({"A": [worse], "B": [better]})
    >>> found.names, found.scores[1].tasks["reach"].value, found.unit
    (('A', 'B'), 0.8, 'episodes')
    >>> str(found).splitlines()[4]
    'reach             0.10   0.80   +0.70  +0.27 to +0.87 *'
    """

    names: tuple[str, str]
    scores: tuple[Score, Score]
    tasks: Mapping[str, ScoreDifference]
    overall: Mapping[str, ScoreDifference]
    paired: int
    forced: str
    unit: str
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
        return "\n".join(_lines(self, check_flag(tasks, "tasks")))

    def plot(self, path: str | Path, *, tasks: bool = True) -> None:
        """Draws both scores, and beside them the differences, with intervals.

        Args:
            path: The image file; its suffix sets the format.
            tasks: Whether to include single tasks.

        Raises:
            TypeError: If ``tasks`` is not a bool.
        """
        first, second = self.names
        of_tasks = self.tasks if check_flag(tasks, "tasks") else {}
        rows = {**of_tasks, **self.overall}
        found = [row.difference for row in rows.values()]
        clear = [plot.DARK if _excludes_zero(one) else plot.LIGHT for one in found]
        scored = [
            plot.Series(name, color, [{**one.tasks, **one.overall}[row] for row in rows])
            for name, color, one in zip(self.names, plot.METHODS, self.scores, strict=False)
        ]
        panels = {plot.RATE: scored, plot.DIFFERENCE: [plot.Series("", clear, found)]}
        lines = filter(None, [said_forced(self.forced), f"{second} minus {first}"])
        footer = f"lines: {_unit(self)}; dark: the interval excludes zero"
        if any(_has_equal_runs(self, row) for row in rows.values()):
            footer += f"; without a line: {_EQUAL}"
        plot.draw_rows(Path(path), [*rows], len(of_tasks), panels, "\n".join(lines), footer)


def compare(policies: Policies, *, force: bool = False) -> list[Comparison]:
    """Compares the success of policies with the success of the first.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. In few-shot evaluation, the episodes after adaptation are compared, trial by trial; earlier
    episodes are in the result's ``unadapted``.

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
            `Comparison.forced` is then the reason.

    Returns:
        For each of the other policies, a comparison with the first.

    Raises:
        IncomparableError: If results differ in protocol, environments, versions or tasks, or only
            some record them; if a result lacks episodes of its protocol; if two have the same
            ``training_seed`` and ``training_steps`` and the same episodes; if the runs of a policy
            end at different ``training_steps``; or if results of a policy without a
            ``training_seed`` may be of one run or of several.
        TypeError: If the policies are not a dict of results.
        ValueError: If there are fewer than two policies, or a result does not record success or
            contains an episode twice.

    >>> from mtwrappers.evaluation import Episode
    >>> from mtwrappers import EvaluationResult, compare
    >>> def result(*successes):
    ...     return EvaluationResult(
    ...         [Episode("reach", i, 0.0, 5, once, once) for i, once in enumerate(successes)]
    ...     )
    >>> found = compare({"a": [result(False, True)], "b": [result(True, True)]})[0]
    >>> found.tasks["reach"].difference.value
    0.5
    """
    methods = methods_of(policies)
    if len(methods) < 2:
        raise ValueError(f"there must be two policies or more to compare, got {list(policies)}")
    first, *others = methods
    return [_pair(compared([first, other], force, unadapted=True)) for other in others]


def _pair(found: Compared) -> Comparison:
    """The comparison of two methods."""
    (name, ones), (other_name, others) = found.runs.items()
    first, second = (score_of(runs, found.tasks, found.ruling) for runs in (ones, others))
    names, several = sorted(found.tasks), len(ones) > 1 or len(others) > 1
    if several:
        samples = [(means_of(ones, task), means_of(others, task), False) for task in names]
    else:
        samples = [_of_one_each(ones[0], others[0], task) for task in names]
    columns = zip(*samples, strict=True)
    one, other, pairs = (dict(zip(names, column, strict=True)) for column in columns)

    def difference(shares: Shares) -> Estimate:
        (p1, parts), (p2, _) = present(one, shares), present(other, shares)
        if several:
            return statistics.difference_of_runs(of_runs(p1, parts), of_runs(p2, parts))
        return statistics.rate_difference(p1, p2, [pairs[task] for task in shares], parts)

    def rows(apart: Mapping[str, Estimate]) -> dict[str, ScoreDifference]:
        both = ({**of.tasks, **of.overall} for of in (first, second))
        p1, p2 = ({name: each.value for name, each in of.items()} for of in both)
        return {name: ScoreDifference(p1[name], p2[name], each) for name, each in apart.items()}

    overall = {name: difference(of) for name, of in means(names, found.ruling).items()}
    if INTERQUARTILE in first.overall and INTERQUARTILE in second.overall:
        both = (np.array([*own.values()]) for own in (one, other))
        overall[INTERQUARTILE] = statistics.interquartile_difference(*both)
    return Comparison(
        names=(name, other_name),
        scores=(first, second),
        tasks=rows({task: difference({task: 1.0}) for task in found.tasks}),
        overall=rows(overall),
        paired=sum(pairs.values()),
        forced=found.forced,
        unit="runs" if several else ones[0].result.unit,
        notes=found.notes,
    )


def _of_one_each(one: Run, other: Run, task: str) -> tuple[Values, Values, bool]:
    """The successes of two runs at a task, and whether values at one index have the same goal."""
    first, second = one.by_goal(task), other.by_goal(task)
    if one.goals is not None and one.goals == other.goals and first.keys() == second.keys():
        return np.array([*first.values()]), np.array([second[goal] for goal in first]), True
    return one.result.rates(task), other.result.rates(task), False


# The table.


def _unit(found: Comparison) -> str:
    return f"95% intervals over {found.unit}{'' if found.unit == 'runs' else ' of one run each'}"


def _lines(found: Comparison, with_tasks: bool) -> Iterator[str]:
    if found.forced:
        yield said_forced(found.forced)
    for label, name, one in zip("AB", found.names, found.scores, strict=True):
        steps = one.training_steps
        after = "" if steps is None else f" after {steps:,} training steps"
        yield f"{label}: {name} ({one.runs} run{'s' * (one.runs > 1)}{after})"
    of_tasks = found.tasks if with_tasks else {}
    width = max(len(label) for label in ("task", *of_tasks, *found.overall))
    yield from ("", f"{'task':<{width}}  {'A':>5}  {'B':>5}  {'B - A':>6}  (95%)")
    yield from (_row(found, label, row, width) for label, row in of_tasks.items())
    if of_tasks:
        yield "-" * (width + 41)
    yield from (_row(found, label, row, width) for label, row in found.overall.items())
    if any(_has_equal_runs(found, row) for row in (*of_tasks.values(), *found.overall.values())):
        yield f"{_EQUAL}: how much they scatter is unknown, so no interval and no star"
    yield f"{_unit(found)}; *: the interval excludes zero"
    if found.unit == "runs":
        yield "Welch's t (1947)"
    else:
        yield "one task: Newcombe (1998); means: likewise, from Wilson's intervals at the"
        yield "effective number (Korn & Graubard 1998, Franco et al. 2019)"
    yield from _warnings(found)
    if found.paired:
        yield f"goals compared one by one at {found.paired} of {len(found.tasks)} tasks"
    for note in found.notes:
        yield from textwrap.wrap(note, 80, break_on_hyphens=False)


def _warnings(found: Comparison) -> Iterator[str]:
    """Warnings about the reliability of the stars."""
    counts = (min(one.counts.values()) for one in found.scores)
    fewest = min(one.runs for one in found.scores) if found.unit == "runs" else min(counts)
    if found.unit != "runs" and fewest < LEAST_VALUES:
        least = f"fewer than {LEAST_VALUES} {found.unit}"
        yield f"tasks with {least} (here {fewest}) have no interval, and so no star"
    if found.unit == "runs" and fewest < 2:
        yield "a single run has no interval: it says nothing about other runs"
    elif found.unit == "runs" and fewest < LEAST_RUNS:
        yield f"{fewest} runs are few: a star is right if runs scatter normally"
    n = len([row for row in found.tasks.values() if row.difference.low is not None])
    if n >= 10:
        yield f"without any difference, about {0.05 * n:.1f} of {n} tasks get a star by chance"


def _excludes_zero(found: Estimate) -> bool:
    return found.low is not None and found.low * (found.high or 0.0) > 0


def _has_equal_runs(comparison: Comparison, row: ScoreDifference) -> bool:
    """Whether there is no interval because no run of either policy differs from its others."""
    several = comparison.unit == "runs" and min(one.runs for one in comparison.scores) > 1
    return several and row.difference.low is None


def _row(comparison: Comparison, label: str, row: ScoreDifference, width: int) -> str:
    found, ends = row.difference, ""
    if found.low is not None and found.high is not None:
        star = " *" * _excludes_zero(found)
        ends = f"  {found.low:+.2f} to {found.high:+.2f}{star}"
    elif _has_equal_runs(comparison, row):
        ends = f"  {_EQUAL}"
    return f"{label:<{width}}  {row.first:>5.2f}  {row.second:>5.2f}  {found.value:>+6.2f}{ends}"
