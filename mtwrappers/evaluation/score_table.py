"""The table that every number of results is read from: runs x tasks x episodes of one metric.

It has the shape of rliable's matrices (Agarwal et al. 2021, arXiv:2108.13264), with the episodes of
each run as a third axis, because tasks and runs may have different numbers of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from mtwrappers.common.counts import format_count
from mtwrappers.evaluation import statistics
from mtwrappers.evaluation.episodes import Episode, SuccessRule, is_success
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.scoring import TaskWeights, weigh_tasks
from mtwrappers.evaluation.statistics import LEAST_RUNS, Estimate, Values

# The names of means, in every mapping of means.
MEAN_OVER_TASKS = "mean over tasks"
INTERQUARTILE_MEAN = "interquartile mean"
Unit: TypeAlias = Literal["episodes", "trials"]


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """The values of one metric, of the runs of a policy at the same tasks.

    Args:
        metric: The name of the metric, such as ``"success_once"``.
        unit: The unit of a value: an episode, or in few-shot evaluation a trial of them.
        runs: For each run, the independent values ``(n,)`` of each task, by its name. No number
            depends on the order of runs and tasks.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult
    >>> episodes = [Episode("reach", i, 0.0, 5, i > 0, False) for i in range(4)]
    >>> table = EvaluationResult(episodes).score_table()
    >>> table.runs[0]["reach"], table.mean().value
    (array([0., 1., 1., 1.]), 0.75)
    """

    metric: str
    unit: Unit
    runs: tuple[Mapping[str, Values], ...]

    @property
    def tasks(self) -> list[str]:
        """The names of the tasks, sorted."""
        return sorted(self.runs[0])

    @property
    def is_rate(self) -> bool:
        """Whether values are in [0, 1]: successes and failures, or their means in trials."""
        return self.metric.startswith("success")

    def task_means(self, task: str) -> Values:
        """The mean of each run at a task, ``(S,)``."""
        return np.array([run[task].mean() for run in self.runs])

    def run_means(self, task_weights: TaskWeights) -> Values:
        """The weighted mean over tasks of each run, ascending, ``(S,)``."""
        means = np.array([self.task_means(task) for task in sorted(task_weights)])
        return np.sort((_as_array(task_weights)[:, None] * means).sum(axis=0))

    def mean(self, task_weights: TaskWeights | None = None) -> Estimate:
        """A weighted mean over tasks, with its interval.

        Of one run, the interval is over its episodes or trials; of several, over the runs.

        Args:
            task_weights: The weight of each task; by default, all tasks count the same.
        """
        if task_weights is None:
            task_weights = weigh_tasks(self.tasks)
        if len(self.runs) > 1:
            run_means = self.run_means(task_weights)
            if self.is_rate:
                return statistics.mean_run_rate(run_means).estimate()
            return statistics.student([run_means])
        samples = [self.runs[0][task] for task in sorted(task_weights)]
        if self.is_rate:
            return statistics.mean_rate(samples, _as_array(task_weights)).estimate()
        return statistics.student(samples, _as_array(task_weights))

    def interquartile_mean(self) -> Estimate | None:
        """The interquartile mean of all runs of all tasks.

        It is ``None`` of one task, of few runs, and of what is no rate, whose scale may differ from
        task to task.
        """
        if not self.has_interquartile_mean:
            return None
        mean, numbers = statistics.interquartile(self._rates)
        return statistics.mean_run_rate(np.sort(numbers), mean).estimate()

    @property
    def has_interquartile_mean(self) -> bool:
        """Whether there is an `interquartile_mean`."""
        return self.is_rate and len(self.runs) >= LEAST_RUNS and len(self.tasks) > 1

    @property
    def _rates(self) -> Values:
        """The mean of each run at each task, ``(M, S)``."""
        return np.array([self.task_means(task) for task in self.tasks])

    def difference(self, second: ScoreTable, task_weights: TaskWeights) -> Estimate:
        """How much higher a weighted mean over tasks of another table is, over runs."""
        first_means, second_means = self.run_means(task_weights), second.run_means(task_weights)
        if self.is_rate:
            return statistics.run_rate_difference(first_means, second_means)
        return statistics.mean_difference([first_means], [second_means], [False])

    def interquartile_difference(self, second: ScoreTable) -> Estimate:
        """How much higher the interquartile mean of another table is."""
        return statistics.interquartile_difference(self._rates, second._rates)


def success_rule(protocol: Protocol | None) -> SuccessRule:
    """When an episode counts as a success: by the protocol, or without one at any step."""
    return "any" if protocol is None else protocol.scoring.success


def name_success_rate(rule: SuccessRule) -> str:
    """The name of the metric that is the rate of success by a rule."""
    if isinstance(rule, int):
        return "success_held"
    return {"any": "success_once", "last": "success_final"}[rule]


def tabulate(
    episodes: Mapping[str, Sequence[Episode]],
    metric: str,
    rule: SuccessRule,
    *,
    reports_success: bool,
    return_ranges: Mapping[str, tuple[float, float]] | None = None,
) -> ScoreTable | None:
    """The table of a single run; ``None`` for a rate of success that no episode reports.

    Success is decided here, for every view of a result: by the rule, and so that an episode that
    reports none is a failure as soon as any episode of the result reports it.

    Args:
        episodes: The scored episodes of each task.
        metric: The name of the metric: one of `METRICS`, ``"success_held"`` (success by the rule)
            or ``"normalized"`` (the return).
        rule: When an episode is a success.
        reports_success: Whether any episode of the result reports success.
        return_ranges: For normalised returns, the returns of each task that count as 0 and as 1.

    Raises:
        ValueError: If a task has no range to normalise returns by.
    """
    if metric.startswith("success") and not reports_success:
        return None
    run: dict[str, Values] = {}
    for task, task_episodes in episodes.items():
        trials = group_by_trial(task_episodes)
        means = [
            np.mean([_measure(episode, metric, rule) for episode in trial]) for trial in trials
        ]
        run[task] = np.array(means, dtype=np.float64)
        if metric == "normalized":
            run[task] = _normalize(run[task], task, return_ranges or {})
    first_episode = next(iter(episodes.values()))[0]
    return ScoreTable(metric, "episodes" if first_episode.trial is None else "trials", (run,))


def _measure(episode: Episode, metric: str, rule: SuccessRule) -> float:
    """The value of a metric in an episode."""
    if metric in ("return", "normalized"):
        return float(episode.episode_return)
    if metric == "length":
        return float(episode.length)
    rules: Mapping[str, SuccessRule] = {
        "success_once": "any",
        "success_final": "last",
        "success_held": rule,
    }
    return float(is_success(episode, rules[metric]))


def combine_runs(tables: Sequence[ScoreTable], tasks: Iterable[str]) -> ScoreTable:
    """The table of several runs at the tasks that all of them have, from the table of each."""
    runs = itertools.chain(*(table.runs for table in tables))
    names = sorted(tasks)
    return ScoreTable(
        tables[0].metric,
        tables[0].unit,
        tuple({task: run[task] for task in names} for run in runs),
    )


def _normalize(
    returns: Values, task: str, return_ranges: Mapping[str, tuple[float, float]]
) -> Values:
    """Returns of a task as ``(return - low) / (high - low)``.

    Raises:
        ValueError: If ``low`` is not less than ``high``, or numbers are not finite.
    """
    low, high = ends = return_ranges.get(task, (np.nan, np.nan))
    with np.errstate(all="ignore"):
        normalized: Values = (returns - low) / (high - low)
    if not (low < high and np.isfinite([high - low, *normalized]).all()):
        raise ValueError(
            f"{task!r} needs two returns low < high to normalise by, finite and neither too close "
            f"to each other nor too far apart, got {ends}"
        )
    return normalized


def group_by_trial(episodes: Iterable[Episode]) -> list[list[Episode]]:
    """The episodes of a task that count as one value: each by itself, or those of each trial.

    Episodes of one trial share a goal and an adapted policy.
    """
    groups: dict[tuple[str, int], list[Episode]] = {}
    for i, episode in enumerate(episodes):
        key = ("episode", i) if episode.trial is None else ("trial", episode.trial)
        groups.setdefault(key, []).append(episode)
    return [*groups.values()]


# Means over tasks.


def weigh_means(tasks: Sequence[str], protocol: Protocol | None) -> dict[str, TaskWeights]:
    """The weights of tasks in each mean of a protocol, by the mean's name, the headline first.

    Without a protocol, the only mean is that over tasks.

    Raises:
        ValueError: If a mean is over groups, and the tasks are not those of the groups.
    """
    if protocol is None:
        return {MEAN_OVER_TASKS: weigh_tasks(tasks)}
    scoring = protocol.scoring
    return {f"mean over {mean}": weigh_tasks(tasks, mean, scoring.groups) for mean in scoring.means}


def weigh_groups(tasks: Sequence[str], protocol: Protocol | None) -> dict[str, TaskWeights]:
    """The weights of tasks in each group of a protocol, by the group's name.

    Raises:
        ValueError: If a group has none of the tasks.
    """
    groups = () if protocol is None else protocol.scoring.groups
    return {name: weigh_tasks(tasks, name, groups) for name, _ in groups}


def label_mean(name: str, num_tasks: int) -> str:
    """The name of a mean for display, with the number of its tasks."""
    counted = format_count(num_tasks, "task")
    return f"mean over {counted}" if name == MEAN_OVER_TASKS else f"{name} ({counted})"


def _as_array(task_weights: TaskWeights) -> Values:
    """The weights of tasks in the order of their names, ``(M,)``."""
    return np.array([task_weights[task] for task in sorted(task_weights)])
