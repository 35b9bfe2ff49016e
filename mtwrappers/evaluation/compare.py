"""Comparisons of policies, per task and overall, as a table and a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_choice, positive
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.protocol import succeeded, weights
from mtwrappers.evaluation.result import EvaluationResult, check_confidence, chunk_text
from mtwrappers.evaluation.runs import (
    Networks,
    Policies,
    Run,
    common_tasks,
    comparable,
    runs_of,
)
from mtwrappers.evaluation.statistics import (
    COVERED,
    LEAST_RUNS,
    LEAST_VALUES,
    Estimate,
    Statistic,
    Values,
    apart,
    bootstrap,
    improvement,
    interquartile_mean,
    rate_difference,
    too_few,
    trimmed_interval,
    trimmed_rate,
    welch,
)
from mtwrappers.metaworld.spec import draws_goals

# Keeps the bootstrap's stream independent of the streams of results.
_STREAM = 1_000_039
_BETTER = "chance that B is better"


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
        runs: The number of results (training runs) of each.
        training_steps: The agent steps of training of each, if they are known.
        tasks: The difference at each task.
        overall: The differences over all tasks: the ``"mean over tasks"`` (or the means of their
            protocol) and the ``"interquartile mean"``.
        improvement: The probability that a run of the second is better than a run of the first on a
            random task; ``None`` unless both have several runs.
        paired: The number of tasks at which both have episodes of the same goals, which are
            compared goal by goal.
        forced: The reason why the two are not comparable; empty if they are.
        confidence: The confidence level of the intervals.
        unit: The unit that intervals are over: ``"episodes"``, ``"trials"``, ``"runs"`` (each a
            network for all tasks) or ``"runs of each task"``.
        fewest: The smallest number of units of a task, for each policy.
        action_chunks: The number of actions of each chunk that were executed, for each policy;
            ``None`` for a policy that returned single actions.

    >>> from mtwrappers import EvaluationResult, compare
    >>> from mtwrappers.evaluation import Episode
    >>> def result(*successes):
    ...     all_of = enumerate(successes)
    ...     return EvaluationResult([Episode("reach", i, 0.0, 5, once, once) for i, once in all_of])
    >>> worse, better = result(*[False] * 9, True), result(*[True] * 8, False, False)
    >>> [found] = compare({"A": [worse], "B": [better]})
    >>> found.names, found.runs, found.unit
    (('A', 'B'), (1, 1), 'episodes')
    >>> str(found).splitlines()[4]
    'reach                     0.10   0.80   +0.70  +0.27 to +0.87 *'
    """

    names: tuple[str, str]
    runs: tuple[int, int]
    training_steps: tuple[int | None, int | None]
    tasks: Mapping[str, ScoreDifference]
    overall: Mapping[str, ScoreDifference]
    improvement: Estimate | None
    paired: int
    forced: str
    confidence: float
    unit: str
    fewest: tuple[int, int]
    action_chunks: tuple[int | None, int | None] = (None, None)

    def __str__(self) -> str:
        return "\n".join(_lines(self))

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws the differences at each task and overall, with intervals.

        Args:
            path: The image file; its suffix sets the format.
            title: The title; by default the names.
        """
        first, second = self.names
        rows = {name: row.difference for name, row in self.tasks.items()}
        over = {name: row.difference for name, row in self.overall.items()}
        text = title or f"{second} minus {first}"
        if self.forced:
            text = f"FORCED, they are not comparable: {self.forced}\n{text}"
        plot.draw_differences(Path(path), rows, over, text, f"lines: {_unit(self)}")


def compare(
    policies: Policies,
    *,
    runs: Networks = "all_tasks",
    force: bool = False,
    confidence: float = 0.95,
    resamples: int = 2000,
    seed: int = 0,
) -> list[Comparison]:
    """Compares the success of policies with the success of the first.

    Success is defined by the protocol; without a protocol, an episode is a success if any step was
    one. For a `FewShotResult`, the episodes after adaptation are compared, trial by trial; earlier
    episodes are in its `FewShotResult.unadapted`.

    **One result each.** Intervals are over episodes (over trials in few-shot evaluation): they say
    how precisely *these* two policies were measured, not what another training run would give. If
    both have episodes of the same goals, these are compared goal by goal, which removes the
    difficulty of goals from the difference. A task with fewer than three values of either policy
    has no interval.

    **Chunks of actions.** The number of executed actions per chunk is part of a policy, because
    success may depend on it. Policies with different ``action_chunk`` can be compared, and the
    table states it for both; all results of one policy must have the same.

    **Several results of a policy** are treated as training runs with different seeds, and intervals
    are over runs. If a run was evaluated at several ``training_steps``, the last one counts. A run
    is one network for all tasks, so the success of a run is correlated between tasks: means have
    Welch's interval over the means of runs, and for the interquartile mean of all runs of all tasks
    (Agarwal et al. 2021) whole runs are resampled. Use ``runs="per_task"`` for methods that train a
    separate network for each task; their runs of different tasks are independent, and each task's
    runs are resampled separately. Each of their results may cover only some tasks. With a single
    run of either policy, there is no interval.

    Args:
        policies: The results of each policy, by its name: a list of `EvaluationResult` or
            `FewShotResult`, or a dict of them by their names in errors, such as file names.
        runs: Whether a training run makes one network for ``"all_tasks"``, or one ``"per_task"``.
        force: Whether to compare results that are not comparable, on the tasks that all have;
            `Comparison.forced` is then the reason.
        confidence: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap resamples.
        seed: Determines the resamples.

    Returns:
        For each of the other policies, a comparison with the first.

    Raises:
        IncomparableError: If results differ in protocol, environments, versions or tasks, or only
            some record them; if a result is given twice or lacks episodes of its protocol; if two
            have the same ``training_seed`` and ``training_steps``; or if the results of a policy
            end at different ``training_steps`` or differ in ``action_chunk``.
        TypeError: If the policies are not a dict of such results.
        ValueError: If there are fewer than two policies, no result records success, a result
            contains an episode twice, or a number is out of range.

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
    check_choice(runs, get_args(Networks), "runs")
    check_confidence(confidence)
    resamples = positive(resamples, "resamples")
    named = runs_of(policies)
    if len(named) < 2:
        raise ValueError(f"there must be two policies or more to compare, got {list(named)}")
    first, *others = named
    rng = Generator(PCG64(SeedSequence(seed, spawn_key=(_STREAM,))))
    found = []
    for name in others:
        both = {first: named[first], name: named[name]}
        last, reason = comparable(both, runs, force, unadapted=True)
        pair = _Pair(last[first], last[name], runs, confidence, resamples, rng)
        found.append(pair.comparison((first, name), reason))
    return found


class _Task(NamedTuple):
    """The successes of both policies at a task: per goal, per trial, or per run."""

    first: Values
    second: Values
    paired: bool = False  # whether values at the same index have the same goal


class _Pair:
    """The results of two policies, and the statistics of their comparison."""

    def __init__(
        self,
        first: Sequence[Run],
        second: Sequence[Run],
        runs: Networks,
        confidence: float,
        resamples: int,
        rng: Generator,
    ) -> None:
        self._rng, self._confidence, self._resamples = rng, confidence, resamples
        self._steps = first[0].steps, second[0].steps
        self._of = [one.result for one in first], [one.result for one in second]
        self._several = len(first) > 1 or len(second) > 1
        self._whole = runs == "all_tasks"
        self._tasks: dict[str, _Task] = {}
        same_goals = _same_goals([*self._of[0], *self._of[1]])
        for task in common_tasks([first, second], runs):
            ones, others = (
                [_successes(run, task) for run in of if task in run.tasks] for of in self._of
            )
            if self._several:
                self._tasks[task] = _Task(_of_runs(ones), _of_runs(others))
                continue
            [one], [other] = ones, others
            paired = same_goals and one.keys() == other.keys()
            keys = one if paired else other
            values = np.array([*one.values()]), np.array([other[key] for key in keys])
            self._tasks[task] = _Task(*values, paired)

    def mean(self, tasks: Sequence[_Task], shares: Values) -> ScoreDifference:
        """The weighted means over tasks of both policies and of the difference."""
        both = [task.first for task in tasks], [task.second for task in tasks]
        p1, p2 = (float((shares * [own.mean() for own in of]).sum()) for of in both)
        if not self._several:
            paired = [task.paired for task in tasks]
            found = rate_difference(*both, paired, shares, self._confidence)
        elif self._whole or len(tasks) == 1:
            one, other = ((shares[:, None] * np.array(of)).sum(axis=0) for of in both)
            found = welch(one, other, self._confidence)
        else:

            def statistic(one: Sequence[Values], other: Sequence[Values]) -> Values:
                means = [b.mean(axis=-1) - a.mean(axis=-1) for a, b in zip(one, other, strict=True)]
                total: Values = sum(share * own for share, own in zip(shares, means, strict=True))
                return total

            found = self._bootstrap(statistic, tasks)
        return ScoreDifference(p1, p2, found)

    def trimmed(self, tasks: Sequence[_Task]) -> ScoreDifference:
        """The interquartile mean, over the runs of all tasks, or over tasks."""
        both = [task.first for task in tasks], [task.second for task in tasks]
        if self._several:

            def statistic(one: Sequence[Values], other: Sequence[Values]) -> Values:
                return interquartile_mean(other) - interquartile_mean(one)

            p1, p2 = (float(interquartile_mean(of)) for of in both)
            return ScoreDifference(p1, p2, self._bootstrap(statistic, tasks))
        one, other = (trimmed_rate(of, 0.25, self._confidence) for of in both)
        if one.low is None or other.low is None or too_few(*both):
            return ScoreDifference(
                one.value, other.value, Estimate(other.value - one.value, None, None)
            )
        ends = [trimmed_interval(of, 0.25, self._confidence) for of in both]
        found = Estimate(*map(float, apart(ends[0], ends[1])))
        return ScoreDifference(one.value, other.value, found)

    def _bootstrap(self, statistic: Statistic, tasks: Sequence[_Task]) -> Estimate:
        both = [task.first for task in tasks], [task.second for task in tasks]
        return bootstrap(
            statistic, *both, self._rng, self._confidence, self._resamples, self._whole
        )

    def comparison(self, names: tuple[str, str], forced: str) -> Comparison:
        """The whole comparison."""
        protocol = self._of[0][0].protocol
        all_of = list(self._tasks.values())
        rows = {name: self.mean([task], np.ones(1)) for name, task in self._tasks.items()}
        overall = {}
        for over in ("tasks",) if protocol is None or forced else protocol.means:
            shares = weights([*self._tasks], over, () if protocol is None else protocol.groups)
            overall[f"mean over {over}"] = self.mean(all_of, shares)
        overall["interquartile mean"] = self.trimmed(all_of)
        fewest = min(len(one.first) for one in all_of), min(len(one.second) for one in all_of)
        better = None
        if self._several and min(fewest) > 1:
            better = self._bootstrap(improvement, all_of)
        unit = self._of[0][0].unit
        if self._several:
            unit = "runs" if self._whole else "runs of each task"
        return Comparison(
            names=names,
            runs=(len(self._of[0]), len(self._of[1])),
            training_steps=self._steps,
            tasks=rows,
            overall=overall,
            improvement=better,
            paired=sum(task.paired for task in all_of),
            forced=forced,
            confidence=self._confidence,
            unit=unit,
            fewest=fewest,
            action_chunks=(self._of[0][0].action_chunk, self._of[1][0].action_chunk),
        )


def _of_runs(runs: Sequence[Mapping[Any, float]]) -> Values:
    """The success rate of each run, ``(n,)``."""
    return np.array([np.mean([*run.values()]) for run in runs], dtype=np.float64)


def _same_goals(results: Sequence[EvaluationResult]) -> bool:
    """Whether episodes of different results can be paired by goal, or by number."""
    described = [one.provenance for one in results]
    if any(one is None or one.goals is None for one in described):
        return False
    if len({one.goals for one in described if one is not None}) > 1:
        return False
    return not draws_goals(_spec(results[0])) or len({one.seed for one in results}) == 1


def _spec(result: EvaluationResult) -> Mapping[str, Any] | None:
    return None if result.provenance is None else result.provenance.spec


def _successes(result: EvaluationResult, task: str) -> dict[Any, float]:
    """The success at each goal or trial of a task, the mean over its episodes."""
    found: dict[Any, list[float]] = {}
    numbered, protocol = draws_goals(_spec(result)), result.protocol
    for one in result.of_task(task):
        key = one.number if one.trial is None else ("trial", one.trial)
        if one.task_state is not None and not numbered:
            key = one.task_state
        success = one.success_once if protocol is None else succeeded(one, protocol)
        found.setdefault(key, []).append(float(bool(success)))
    return {key: float(np.mean(values)) for key, values in found.items()}


# The table.


def _unit(found: Comparison) -> str:
    over = found.unit if "runs" in found.unit else f"{found.unit} of one run each"
    return f"{found.confidence:.0%} intervals over {over}"


def _lines(found: Comparison) -> list[str]:
    """A table in 80 columns."""
    lines = []
    if found.forced:
        lines.append(f"FORCED, these results are not comparable: {found.forced}")
    of_what = "result" if found.unit == "runs of each task" else "run"
    chunks, chunked = found.action_chunks, any(found.action_chunks)
    both = zip("AB", found.names, found.runs, found.training_steps, chunks, strict=True)
    for label, name, runs, steps, chunk in both:
        after = "" if steps is None else f" after {steps} training steps"
        after += f", {chunk_text(chunk)}" * chunked
        lines.append(f"{label}: {name} ({runs} {of_what}{'s' * (runs > 1)}{after})")
    rows = [(task, row) for task, row in found.tasks.items()]
    width = max(len(label) for label in (*found.tasks, *found.overall, _BETTER))
    head = f"{'task':<{width}}  {'A':>5}  {'B':>5}  {'B - A':>6}  ({found.confidence:.0%})"
    lines += ["", head, *(_row(label, row, width) for label, row in rows), "-" * (width + 41)]
    lines += [_row(label, row, width) for label, row in found.overall.items()]
    if found.improvement is not None:
        better = found.improvement
        ends = "" if better.low is None else f"   {better.low:.2f} to  {better.high:.2f}"
        lines.append(f"{_BETTER:<{width + 14}}  {better.value:>6.2f}{ends}")
    lines.append(f"{_unit(found)}; *: the interval excludes zero")
    lines += [*_methods(found), *_warnings(found)]
    if found.paired:
        lines.append(f"goals compared one by one at {found.paired} of {len(found.tasks)} tasks")
    return lines


def _methods(found: Comparison) -> list[str]:
    """The methods of the intervals, with their sources."""
    if found.unit in ("episodes", "trials"):
        return [
            "one task: Newcombe (1998); means: likewise, from Wilson's intervals at the",
            "effective number (Korn & Graubard 1998, Franco et al. 2019)",
        ]
    covered = [f"{share:.0%} at {runs}" for runs, share in COVERED[found.unit].items()]
    simulated = f"for 95% it covers {', '.join(covered[:-1])} and {covered[-1]} runs"
    if found.unit == "runs":
        return [
            "tasks and means: Welch's t (1947); all else: bootstrap of whole runs, expanded",
            f"(Hesterberg 2015); {simulated}",
        ]
    return [
        "tasks: Welch's t (1947); all else: bootstrap of each task's runs by themselves",
        f"(Agarwal et al. 2021); {simulated}",
    ]


def _warnings(found: Comparison) -> list[str]:
    """Warnings about the reliability of the stars."""
    lines, fewest = [], min(found.fewest)
    if found.unit in ("episodes", "trials"):
        if fewest < LEAST_VALUES:
            least = f"fewer than {LEAST_VALUES} {found.unit}"
            lines.append(f"tasks with {least} (here {fewest}) have no interval, and so no star")
    elif fewest < 2:
        lines.append("a single run has no interval: it says nothing about other runs")
    elif fewest < LEAST_RUNS:
        lines.append(f"{fewest} runs are few: a star is right if runs scatter normally")
        if found.unit == "runs":
            lines.append(
                f"the bootstrap takes {LEAST_RUNS} runs of each; below, it has no interval"
            )
    n = len([row for row in found.tasks.values() if row.difference.low is not None])
    by_chance = (1 - found.confidence) * n
    if by_chance >= 0.5:
        lines.append(
            f"without any difference, about {by_chance:.1f} of {n} tasks get a star by chance"
        )
    return lines


def _row(label: str, row: ScoreDifference, width: int) -> str:
    found = row.difference
    ends = "" if found.low is None else f"  {found.low:+.2f} to {found.high:+.2f}"
    star = " *" if found.low is not None and found.low * (found.high or 0.0) > 0 else ""
    return (
        f"{label:<{width}}  {row.first:>5.2f}  {row.second:>5.2f}  {found.value:>+6.2f}{ends}{star}"
    )
