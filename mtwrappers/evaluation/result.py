"""Results of evaluations: what cannot be recomputed, and estimates with intervals from it."""

from __future__ import annotations

import dataclasses
import reprlib
import textwrap
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import check_choice, check_list
from mtwrappers.common.counts import format_count
from mtwrappers.evaluation import plot, result_files
from mtwrappers.evaluation.by_name import ByMean, ByMetric, ByTask
from mtwrappers.evaluation.description import Description
from mtwrappers.evaluation.episodes import (
    METRICS,
    Episode,
    SuccessRule,
    identify_goal,
    label_episode,
    reporting_tasks,
    with_failures,
)
from mtwrappers.evaluation.origin import Origin, comparable_settings
from mtwrappers.evaluation.plan import Design
from mtwrappers.evaluation.protocol import Protocol, count_needed_episodes
from mtwrappers.evaluation.remake import Environments
from mtwrappers.evaluation.result_text import (
    EstimatesRow,
    describe_benchmark,
    describe_other_numbers,
    describe_rates,
    describe_rule,
    describe_silent_tasks,
    format_estimates,
    format_means,
)
from mtwrappers.evaluation.score_table import (
    MEAN_OVER_TASKS,
    ScoreTable,
    Unit,
    label_mean,
    name_success_rate,
    success_rule,
    tabulate,
    weigh_groups,
    weigh_means,
)
from mtwrappers.evaluation.scoring import TaskWeights
from mtwrappers.evaluation.statistics import CONFIDENCE, Estimate, Estimates, Values
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.metaworld.make import draws_goals

_NO_DESCRIPTION = Description()
# Before the name of a reference result, on the command line and in prints.
REFERENCE_PREFIX = "reference:"
# The names of rates in a plot.
_LABELS = {
    "success_held": "held",
    "success_once": "any step",
    "success_final": "last step",
}


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """The episodes of an evaluation, with estimates for each task and overall.

    In few-shot evaluation, the episodes after adaptation are scored; `adaptation`, `unadapted` and
    `by_episode` are results of others.

    Intervals (95%) are over the episodes (over the trials in few-shot evaluation) of *one* policy:
    they say how precisely it was measured, not how much another training run would differ from it.
    Success rates have Wilson intervals, at the effective number of values for several tasks or
    trials; returns and lengths have Student's. How often they cover is in
    ``benchmarks/coverage.md``. Returns are not normalised, so their means over tasks are not
    meaningful if reward scales differ; see `normalized`.

    If any episode reports success, one that reports none is a failure, also on a task that never
    reports it; `silent_tasks` are those, and the table names them. If no episode reports success,
    its metrics are ``None``.

    Results are equal if episodes, design, protocol, description and normalization are. Where they
    were measured does not count.

    Args:
        episodes: All episodes.
        design: The numbers that determine the episodes; ``None`` if they were made by hand.
        protocol: The protocol that was followed, if there was one.
        environments: The environments, if a file can name them.
        versions: The versions of Python and of all packages involved, by name.
        evidence: The SHA-256 of all actions, if they were recorded.
        description: What was said about the result; see `described`.
        normalization: For normalised scores, the returns of each task that count as 0 and as 1; see
            `normalized`.
        reference: The name of a result that comes with the package, from `reference`; else
            ``None``. It is not saved.

    Raises:
        TypeError: If the episodes are not a sequence of `Episode`.
        ValueError: If there is no scored episode, an episode is repeated, only some episodes are of
            trials, or a task has no range to normalise returns by.

    >>> from mtwrappers.evaluation import Episode
    >>> from mtwrappers import EvaluationResult
    >>> result = EvaluationResult([Episode("reach", i, 2.0 * i, 5, i > 0, False) for i in range(4)])
    >>> print(result)
    task  n      once (95%)     final (95%)  return  steps
    reach 4  0.75 0.30-0.95  0.00 0.00-0.49     3.0    5.0
    once, final: success rates at any and at the last step
    95%: intervals over episodes (Wilson for rates, Student's t)
    """

    episodes: tuple[Episode, ...]
    design: Design | None = None
    protocol: Protocol | None = None
    environments: Environments | None = dataclasses.field(default=None, compare=False)
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    evidence: str | None = dataclasses.field(default=None, compare=False)
    description: Description = _NO_DESCRIPTION
    normalization: Mapping[str, tuple[float, float]] | None = None
    reference: str | None = dataclasses.field(
        default=None, compare=False, metadata={"saved": False}, kw_only=True
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", tuple(self.episodes))
        for episode in self.episodes:
            if not isinstance(episode, Episode):
                raise TypeError(f"episodes must be of the type Episode, got {episode!r}")
        if not self.scored:
            raise ValueError("an evaluation needs at least one episode after adaptation, got none")
        self._check_places()
        if self.normalization is not None:
            self.score_table("normalized")  # which checks it

    def _check_places(self) -> None:
        """Raises `ValueError` if an episode is repeated, or only some are of trials."""
        if len({episode.trial is None for episode in self.episodes}) > 1:
            raise ValueError("all episodes must be of trials or none, got some of each")
        if len({episode.place for episode in self.episodes}) < len(self.episodes):
            counts = Counter(episode.place for episode in self.episodes)
            repeated = next(e for e in self.episodes if counts[e.place] > 1)
            raise ValueError(f"episodes must differ, got {label_episode(repeated)} twice")

    def __hash__(self) -> int:
        return hash((self.episodes, self.design))

    @explains_arguments(
        hints={
            "name": "did you mean 'policy'?",
            "seed": "did you mean 'training_seed'?",
            "steps": "did you mean 'training_steps'?",
        }
    )
    def described(
        self,
        *,
        policy: str | None = None,
        training_seed: int | None = None,
        training_steps: float | None = None,
        note: str | None = None,
    ) -> EvaluationResult:
        """The same result with another description.

        An argument of ``None`` keeps the value that is there; no argument removes a value. The
        description is saved and printed with the result, and `verify` says that no replay can
        verify it.

        Args:
            policy: The name of the policy; `compare` groups results by it.
            training_seed: The seed of the training run that made the policy.
            training_steps: The agent steps of that run until then, over all environments; a whole
                number, such as 2e6.
            note: A comment of at most 1000 printable characters in one line.

        Raises:
            TypeError, ValueError: If they are anything else.

        >>> from mtwrappers.evaluation import Episode, EvaluationResult
        >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5)]).described(policy="ppo")
        >>> result.description.policy
        'ppo'
        """
        arguments = {
            "policy": policy,
            "training_seed": training_seed,
            "training_steps": training_steps,
            "note": note,
        }
        # Their types differ by field.
        changes: Any = {name: value for name, value in arguments.items() if value is not None}
        return replace(self, description=replace(self.description, **changes))

    def normalized(self, *, low: EvaluationResult, high: EvaluationResult) -> EvaluationResult:
        """The same result with the metric ``"normalized"``: ``(return - low) / (high - low)``.

        It is for environments that report no success and whose returns have different scales. It is
        not clipped to [0, 1]. Intervals are those of returns, rescaled: the low and the high return
        are treated as exact.

        Args:
            low: A result on the same tasks, such as a random policy's, whose mean returns count as
                0.
            high: Likewise, such as an expert's, whose mean returns count as 1.

        Raises:
            TypeError: If one is not a result.
            ValueError: If ``low`` is not less than ``high``, or the results have other tasks or
                were measured in other environments.

        >>> from mtwrappers.evaluation import Episode, EvaluationResult
        >>> def result(*returns):
        ...     return EvaluationResult([Episode("hop", i, r, 5) for i, r in enumerate(returns)])
        >>> scaled = result(10.0, 20.0).normalized(low=result(5.0), high=result(25.0))
        >>> scaled.per_task["hop"]["normalized"].value
        0.5
        """
        _check_return_reference(self, low, "low")
        _check_return_reference(self, high, "high")
        return_ranges = {
            task: (_mean_return(low, task), _mean_return(high, task)) for task in self.tasks
        }
        return replace(self, normalization=return_ranges)

    @cached_property
    def scored(self) -> tuple[Episode, ...]:
        """The episodes that the score is computed from: all, or those after adaptation."""
        first = 0 if self.design is None else self.design.adaptation_length
        return tuple(episode for episode in self.episodes if episode.number >= first)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the order of their episodes."""
        return tuple(self._by_task)

    @cached_property
    def _by_task(self) -> dict[str, tuple[Episode, ...]]:
        """The scored episodes of each task, in order."""
        by_task: dict[str, list[Episode]] = {}
        for episode in self.scored:
            by_task.setdefault(episode.task, []).append(episode)

        def place(episode: Episode) -> tuple[int, int]:
            return -1 if episode.trial is None else episode.trial, episode.number

        return {task: tuple(sorted(episodes, key=place)) for task, episodes in by_task.items()}

    def of_task(self, task: str) -> tuple[Episode, ...]:
        """The scored episodes of a task, in order.

        Raises:
            ValueError: If there is no such task.
        """
        if task not in self._by_task:
            raise ValueError(f"task must be one of {list(self.tasks)}, got {task!r}")
        return self._by_task[task]

    # Numbers, all of which are read from tables of scores.

    def score_table(self, metric: str | None = None) -> ScoreTable | None:
        """The values of a metric of all tasks; ``None`` for success that no episode reports.

        Args:
            metric: The name of a metric in `per_task`; by default the rate of success that is the
                score.

        Raises:
            ValueError: If the result has no such metric.
        """
        if metric is None:
            metric = self._headline_metric
        return self._tabulate(self._by_task, check_choice(metric, self._metrics, "metric"))

    def _tabulate(
        self, episodes: Mapping[str, Sequence[Episode]], metric: str
    ) -> ScoreTable | None:
        return tabulate(
            episodes,
            metric,
            self._success_rule,
            reports_success=self.has_success,
            return_ranges=self.normalization,
        )

    @property
    def _metrics(self) -> list[str]:
        """The names of all metrics."""
        metrics = [*METRICS]
        if self._headline_metric == "success_held":
            metrics.append("success_held")
        if self.normalization is not None:
            metrics.append("normalized")
        return metrics

    def _estimate_metrics(self, episodes: Mapping[str, Sequence[Episode]]) -> Estimates:
        """The mean of each metric over tasks with these episodes."""
        estimates = ByMetric[Estimate | None]()
        for metric in self._metrics:
            table = self._tabulate(episodes, metric)
            estimates[metric] = None if table is None else table.mean()
        return estimates

    @cached_property
    def per_task(self) -> dict[str, Estimates]:
        """The mean of each metric of each task, by the names of task and metric.

        If the protocol counts success that was held for some steps, ``"success_held"`` is its rate.
        """
        return ByTask(
            (task, self._estimate_metrics({task: episodes}))
            for task, episodes in self._by_task.items()
        )

    @cached_property
    def overall(self) -> dict[str, Estimates]:
        """``"mean over tasks"``, the mean of the tasks' means, by the name of the metric."""
        return ByMean({MEAN_OVER_TASKS: self._estimate_metrics(self._by_task)})

    @cached_property
    def per_goal(self) -> dict[str, dict[int, Estimates]]:
        """Like `per_task`, but per goal: by the names of task, goal and metric.

        A goal is a task state (on Meta-World its index in the benchmark's list). If goals are
        continuous or there are no task states, each episode (or trial of few-shot evaluation) has
        its own goal, named by the number of the episode within its task, or by `Episode.trial`: of
        three trials on 20 tasks, those of the first task are 0, 20 and 40.
        """
        per_goal = ByTask[dict[int, Estimates]]()
        for task, episodes in self._by_task.items():
            by_goal: dict[int, list[Episode]] = {}
            for episode in episodes:
                by_goal.setdefault(identify_goal(episode, self.draws_goals), []).append(episode)
            per_goal[task] = {
                goal: self._estimate_metrics({task: goal_episodes})
                for goal, goal_episodes in sorted(by_goal.items())
            }
        return per_goal

    def rates(self, task: str) -> Values:
        """The success of each scored episode of a task, or the rate of each trial, ``(n,)``.

        Success is defined by the protocol; without one, any step counts.

        Raises:
            ValueError: If there is no such task, or no episode of the result reports success.
        """
        table = self._tabulate({task: self.of_task(task)}, self._headline_metric)
        if table is None:
            raise ValueError("no episode of the result reports success")
        return table.runs[0][task]

    @cached_property
    def headline(self) -> dict[str, Estimate] | None:
        """The success rates that the protocol defines, by the names of means and groups.

        The first is the headline: ``"mean over tasks"`` or ``"mean over groups"``. It is ``None``
        without a protocol, or for the reason in `no_score`.
        """
        table = self.score_table()
        if self.protocol is None or self.no_score or table is None:
            return None
        return {name: table.mean(weights) for name, weights in self._headline_weights.items()}

    @property
    def _headline_weights(self) -> dict[str, TaskWeights]:
        """The weights of tasks in each mean of the headline."""
        groups = weigh_groups(self.tasks, self.protocol)
        return {**weigh_means(self.tasks, self.protocol), **groups}

    def headline_lines(self) -> list[str]:
        """The means of the headline with their intervals, a line each; none without a headline."""
        if self.headline is None:
            return []
        num_tasks = {name: len(weights) for name, weights in self._headline_weights.items()}
        return format_means(self.headline, num_tasks)

    @property
    def no_score(self) -> str:
        """Why a result with a protocol has no score under its name; ``""`` if it has one.

        Episodes are missing, none of them reports success, or the environments were in a wrapper
        that may change what is scored.
        """
        protocol = self.protocol
        if protocol is None:
            return ""
        scored, needed = self.scored, count_needed_episodes(protocol)
        # Some may be of adaptation.
        is_adapted = all(e.number >= protocol.scoring.adaptation_length for e in scored)
        if len(scored) != needed.total() or not is_adapted:
            return f"not all {needed.total()} episodes of the protocol are here"
        if difference := describe_other_numbers(scored, needed):
            return difference
        if not self.has_success:
            return "no episode reports success"
        return self.other_environments

    @property
    def other_environments(self) -> str:
        """Why the environments may not be those of a protocol; ``""`` if it is known that they are.

        A result that was made by hand, without versions, has no environments.
        """
        if self.environments is not None and (wrappers := self.environments.wrappers):
            return (
                f"the environments were in {', '.join(wrappers)}, which may change what is scored"
            )
        if self.environments is None and self.versions:
            return "no file can name the environments, which may not be the protocol's"
        return ""

    @property
    def origin(self) -> Origin:
        """Where it was measured."""
        return Origin(self.environments, self.versions, self.unit == "trials")

    @property
    def draws_goals(self) -> bool:
        """Whether goals are continuous, so that each episode or trial has its own."""
        return self.environments is not None and draws_goals(self.environments.spec)

    @property
    def unit(self) -> Unit:
        """The unit that intervals are over: ``"episodes"``, or ``"trials"`` of them."""
        return "episodes" if self.scored[0].trial is None else "trials"

    @cached_property
    def has_success(self) -> bool:
        """Whether any episode reports success; then one that reports none is a failure."""
        return bool(reporting_tasks(self.episodes))

    @cached_property
    def silent_tasks(self) -> tuple[str, ...]:
        """The tasks of which no episode reports success, though episodes of others do.

        Their episodes count as failures. Their environments may not report success at all, or only
        when it happens, which it never did.
        """
        reporting = reporting_tasks(self.episodes)
        return tuple(task for task in self.tasks if reporting and task not in reporting)

    @property
    def _success_rule(self) -> SuccessRule:
        """When an episode counts as a success."""
        return success_rule(self.protocol)

    @property
    def _headline_metric(self) -> str:
        """The rate of success that the score is: by the protocol, or without one at any step."""
        return name_success_rate(self._success_rule)

    # Few-shot evaluation.

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapted in trials."""
        return self.design is not None and self.design.trials > 0

    @cached_property
    def by_episode(self) -> tuple[EvaluationResult, ...]:
        """In few-shot evaluation, a result for each episode number of the trials, in order."""
        numbers = sorted({episode.number for episode in self.episodes})
        return tuple(self._select_numbers([number]) for number in numbers)

    @cached_property
    def adaptation(self) -> EvaluationResult:
        """In few-shot evaluation, the episodes of adaptation.

        A policy whose ``adapt`` is called once has not yet adapted in any of them.

        Raises:
            ValueError: If there are none.
        """
        length = 0 if self.design is None else self.design.adaptation_length
        return self._select_numbers(range(length))

    @cached_property
    def unadapted(self) -> EvaluationResult:
        """In few-shot evaluation, the episodes before any adaptation, to `compare` with later ones.

        For a policy with ``adapt``, these are the episodes before its first call, otherwise the
        first of each trial.

        Raises:
            ValueError: If there are none.
        """
        adapts = self.design is not None and self.design.adapts
        length = self.design.adaptation_episodes if self.design is not None and adapts else 1
        return self._select_numbers(range(length))

    def _select_numbers(self, numbers: Collection[int]) -> EvaluationResult:
        """A result of the episodes with some numbers; the evidence covers all episodes."""
        if self.design is None or not self.few_shot:
            raise ValueError("only few-shot evaluation has episodes of adaptation")
        episodes = with_failures(self.episodes, reporting_tasks(self.episodes))
        selected = tuple(episode for episode in episodes if episode.number in numbers)
        if not selected:
            raise ValueError(
                f"the result has no episodes of adaptation, which are the first "
                f"{self.design.adaptation_length} of each trial"
            )
        num_numbers = len({episode.number for episode in selected})
        design = Design(self.design.seed, num_numbers)
        return replace(self, episodes=selected, design=design, evidence=None)

    # Text and pictures.

    def __repr__(self) -> str:
        episodes = format_count(len(self.episodes), "episode")
        return f"<EvaluationResult: {episodes} of {format_count(len(self.tasks), 'task')}>"

    def __str__(self) -> str:
        lines = self._table_lines()
        intervals = "Student's t"
        if self.has_success:
            lines.append(describe_rates(self._success_rule))
            intervals = "Wilson for rates, Student's t"
        lines += textwrap.wrap(self._silence, 80, break_on_hyphens=False)
        if self.normalization is not None:
            lines.append("normalized: (return - low) / (high - low), not clipped")
        lines.append(f"{CONFIDENCE:.0%}: intervals over {self.unit} ({intervals})")
        if self.reference is not None:
            lines.append(f"{REFERENCE_PREFIX}{self.reference}, a result that comes with mtwrappers")
        if self.description.action_chunk is not None:
            lines.append(f"{self.description.action_chunk} of each chunk's actions executed")
        if self.description.note:
            lines.append(textwrap.shorten(f"note: {self.description.note}", 80, placeholder="..."))
        if self.protocol is not None:
            where = describe_benchmark(self.protocol)
            success = describe_rule(self.protocol.scoring.success)
            lines += ["", f"protocol {self.protocol.label}", f"on {where}: success {success}"]
            lines += self.headline_lines() or textwrap.wrap(f"no score: {self.no_score}", 80)
        if self.few_shot:
            lines = ["after adaptation:", *lines, "", *self._adaptation_lines()]
        return "\n".join(lines)

    def _table_lines(self) -> list[str]:
        """The table of all tasks, and of their mean if there are several."""
        rows = [
            EstimatesRow(task, len(self.of_task(task)), estimates)
            for task, estimates in self.per_task.items()
        ]
        if len(self.tasks) == 1:
            return format_estimates("task", rows, self._headline_metric)
        mean = EstimatesRow(self._mean_label, len(self.scored), self.overall[MEAN_OVER_TASKS])
        lines = format_estimates("task", [*rows, mean], self._headline_metric)
        lines.insert(1 + len(rows), "-" * len(lines[0]))
        return lines

    def _adaptation_lines(self) -> list[str]:
        """The table of each episode of the trials, over all tasks."""
        rows = []
        for number, result in enumerate(self.by_episode, 1):
            stage = "adaptation" if number <= self._num_adaptation_episodes else "evaluation"
            label = f"{stage}, episode {number}"
            estimates = result.overall[MEAN_OVER_TASKS]
            rows.append(EstimatesRow(label, len(result.episodes), estimates))
        return format_estimates(self._mean_label, rows, self._headline_metric)

    @property
    def _mean_label(self) -> str:
        """The name of the mean over tasks, with their number."""
        return label_mean(MEAN_OVER_TASKS, len(self.tasks))

    @property
    def _num_adaptation_episodes(self) -> int:
        """The number of episodes of each trial that are not scored."""
        scored = {episode.number for episode in self.scored}
        return len({episode.number for episode in self.episodes} - scored)

    @property
    def _silence(self) -> str:
        """A sentence that names the `silent_tasks`, or ``""``."""
        return describe_silent_tasks(self.silent_tasks, len(self.tasks))

    @property
    def score(self) -> str:
        """The score with its interval in a line, or the mean success or return.

        The return is normalised if there is a normalization.
        """
        if self.headline is not None:
            metric_name = "success"
            mean_name, estimate = next(iter(self.headline.items()))
        else:
            metric_name = self._main_metric_text
            mean_name, mean = MEAN_OVER_TASKS, self.overall[MEAN_OVER_TASKS][self._main_metric]
            assert mean is not None  # every episode has a return
            estimate = mean
        # A mean over groups has every task as well.
        mean_label = label_mean(mean_name, len(self.tasks))
        return f"{metric_name} {estimate}, {mean_label}"

    @property
    def _main_metric(self) -> str:
        """The metric of the score and of plots: the rate of success, or without it the return.

        The return is normalised if there is a normalization.
        """
        if self.has_success:
            return self._headline_metric
        return "return" if self.normalization is None else "normalized"

    @property
    def _main_metric_text(self) -> str:
        """The main metric, for display."""
        if self.has_success:
            return f"success {describe_rule(self._success_rule)}"
        return "return" if self.normalization is None else "normalized return"

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws the success of every task with its interval.

        Without success, it draws the normalised return, or the return. In few-shot evaluation, it
        draws them by episode of the trial, for each task and on average.

        Args:
            path: The image file; its suffix sets the format.
            title: The title.
        """
        if self.few_shot:
            self._plot_trials(Path(path), title)
            return
        axis = plot.RATE
        metrics = dict.fromkeys([self._headline_metric, "success_once", "success_final"])
        labels = {metric: _LABELS[metric] for metric in [*metrics][:2]}  # a color for each
        if not self.has_success:
            axis = self._main_metric
            labels = {axis: ""}
        rows = dict(self.per_task)
        if len(self.tasks) > 1:
            rows[self._mean_label] = self.overall[MEAN_OVER_TASKS]
        series = [
            plot.Series(label, color, [estimates[metric] for estimates in rows.values()])
            for (metric, label), color in zip(labels.items(), (plot.DARK, plot.LIGHT), strict=False)
        ]
        footer = f"lines: {CONFIDENCE:.0%} intervals over {self.unit}"
        footer += f"\n{self._silence}" * bool(self.silent_tasks)
        plot.draw_rows(Path(path), [*rows], len(self.tasks), {axis: series}, title, footer)

    def _plot_trials(self, path: Path, title: str) -> None:
        """Draws each episode of the trials: the mean over all tasks, and each task."""
        metric = self._main_metric
        points: dict[str, dict[float, Estimate]] = {self._mean_label: {}}
        if len(self.tasks) > 1:
            points |= {task: {} for task in self.tasks}
        for number, result in enumerate(self.by_episode, 1):
            rows = {self._mean_label: result.overall[MEAN_OVER_TASKS], **result.per_task}
            for name, estimates in rows.items():
                if (estimate := estimates[metric]) is not None and name in points:
                    points[name][number] = estimate
        panels = {name: [plot.Line("", curve, "curve")] for name, curve in points.items()}
        length = self._num_adaptation_episodes
        trials = {len({episode.trial for episode in self.of_task(task)}) for task in self.tasks}
        least = format_count(min(trials), "trial")
        caption = [
            f"Shaded: {format_count(length, 'episode')} of adaptation. Bands: {CONFIDENCE:.0%} "
            f"intervals over trials, {'at least ' * (len(trials) > 1)}{least} of each task."
        ]
        caption += [self._silence] * bool(self.silent_tasks)
        axis = plot.RATE if self.has_success else metric
        plot.draw_lines(path, panels, title, caption, "episode of the trial", axis, length)

    # Files.

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON, with the format, and the `score` for the reader's eye.

        It has not the `reference`: a copy of a reference is a result as any other.
        """
        return {"format": result_files.FORMAT, "score": self.score, **to_plain(self)}

    @classmethod
    def from_dict(cls, data: Any) -> EvaluationResult:
        """The result that `to_dict` described.

        Raises:
            ValueError: If ``data`` is something else, such as of an earlier version.
        """
        file_format = data.get("format") if isinstance(data, Mapping) else data
        if file_format != result_files.FORMAT:
            raise ValueError(
                f"expected an evaluation of the format {result_files.FORMAT!r}, got {file_format!r}"
            )
        fields = {name: value for name, value in data.items() if name not in ("format", "score")}
        result: EvaluationResult = from_plain(cls, fields, "the result")
        return result

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_dict` as JSON; if that fails, an existing file is unchanged.

        If the result is ``a.json``, `verify` looks for its evidence in ``a.npz``.

        Raises:
            OSError: If the file cannot be written, or exists and is not a regular file.
            ValueError: If its name ends in ``.npz``, which is for evidence, or it would have more
                than 64 MB, which `load` refuses.
        """
        result_files.write_text(path, result_files.format_result(self.to_dict()))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> EvaluationResult:
        """Reads a file that `save` wrote.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is something else, or its score is not that of its episodes.

        >>> from mtwrappers import EvaluationResult
        >>> from mtwrappers.evaluation import Episode
        >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)])
        >>> result.save("result.json")
        >>> EvaluationResult.load("result.json") == result
        True
        """
        results = load_results(path)
        if len(results) != 1:
            raise ValueError(
                f"{path} has {format_count(len(results), 'result')}: read it with load_results"
            )
        return results[0]


def save_results(path: str | PathLike[str], results: Sequence[EvaluationResult]) -> None:
    """Writes several results into one file; if that fails, an existing one is unchanged.

    Raises:
        OSError: If the file cannot be written, or exists and is not a regular file.
        TypeError: If the results are no list.
        ValueError: If there are no results, the name of the file ends in ``.npz``, which is for
            evidence, or the file would have more than 64 MB, which `load_results` refuses.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, load_results, save_results
    >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)])
    >>> save_results("results.json", [result, result])
    >>> load_results("results.json") == [result, result]
    True
    """
    listed = check_list(results, "results", "result")
    text = result_files.format_results([result.to_dict() for result in listed])
    result_files.write_text(path, text)


def load_results(path: str | PathLike[str]) -> list[EvaluationResult]:
    """Reads the results in a file: those of `save_results`, or the one of `save`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is something else, or a score in it is not that of its episodes.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, load_results
    >>> EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)]).save("one.json")
    >>> [result.score for result in load_results("one.json")]
    ['success at any step 1.000 (0.207 to 1.000, 95%), mean over 1 task']
    """
    listed = result_files.read_results(path)
    results = [EvaluationResult.from_dict(data) for data in listed]
    for data, result in zip(listed, results, strict=True):
        try:
            check_score(data, result)
        except ValueError as exc:
            raise ValueError(
                f"{path} contradicts itself: {exc}; if it was edited, load it as save() wrote it"
            ) from None
    return results


def check_score(data: Mapping[str, Any], result: EvaluationResult) -> None:
    """Raises `ValueError` unless the score in a file is the one of the episodes in it.

    Args:
        data: What `EvaluationResult.to_dict` has put into the file.
        result: The result that was read from it.
    """
    if data.get("score") != result.score:
        got = str(data.get("score"))
        raise ValueError(f"its score is {result.score!r} by its episodes, got {got!r}")


def _check_return_reference(
    result: EvaluationResult, reference: EvaluationResult, name: str
) -> None:
    """Checks that a result may be a reference for the returns of another.

    Raises:
        TypeError: If it is not a result.
        ValueError: If it has other tasks, or was measured in other environments.
    """
    if not isinstance(reference, EvaluationResult):
        raise TypeError(f"the {name} reference must be an EvaluationResult, got {reference!r}")
    if missing := [task for task in result.tasks if task not in reference.tasks]:
        raise ValueError(f"the {name} reference has no episodes of {missing[0]!r}")
    expected, actual = comparable_settings([result.origin, reference.origin])
    if not expected or not actual:
        return
    for setting in (*expected, *actual):
        if expected.get(setting) != actual.get(setting):
            raise ValueError(
                f"the {name} reference was measured in another way: its {setting} is "
                f"{reprlib.repr(actual.get(setting))}, not {reprlib.repr(expected.get(setting))}"
            )


def _mean_return(result: EvaluationResult, task: str) -> float:
    mean = result.per_task[task]["return"]
    assert mean is not None  # every episode has one
    return mean.value
