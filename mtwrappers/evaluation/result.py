"""Results of evaluations: what cannot be recomputed, and estimates with intervals from it."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import platform
import reprlib
import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
from gymnasium.envs.registration import registry

from mtwrappers.common.checks import check_name, check_string, not_negative, positive
from mtwrappers.common.errors import is_printable, printable
from mtwrappers.common.registration import TABLE
from mtwrappers.envs.multi_env import DEFAULT_IDS
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.episodes import (
    METRICS,
    Design,
    Episode,
    SuccessRule,
    goal_of,
    is_success,
    reporting_tasks,
    units,
    with_failures,
)
from mtwrappers.evaluation.protocol import Protocol, episodes_needed, weights
from mtwrappers.evaluation.remake import Environments
from mtwrappers.evaluation.statistics import Estimate, Estimates, Values, mean_rate, student
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.metaworld.make import (
    SIMULATION,
    draws_goals,
    select_determining_arguments,
    with_defaults,
)
from mtwrappers.metaworld.upstream_names import rename_arguments
from mtwrappers.state.files import load_json, write_atomically

FORMAT = "mtwrappers.EvaluationResult/7"
CONFIDENCE = 0.95  # the level of all intervals
# The largest size of a result's file, in bytes.
MAX_SIZE = 2**26
# The packages that can affect an episode's numbers.
PACKAGES = ("gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy")
# The columns of a table.
_HEADS = {
    "success_held": "held",
    "success_once": "once",
    "success_final": "final",
    "return": "return",
    "normalized": "normalized",
    "length": "steps",
}
# The names of rates in a plot.
_LABELS = {
    "success_held": "held",
    "success_once": "any step",
    "success_final": "last step",
}
_MAX_NOTE = 1000
# The modules of environments that need none of the packages of `SIMULATION`, except for
# Gymnasium's own of MuJoCo.
_WITHOUT_SIMULATION = ("gymnasium.envs.", "mtwrappers.envs.point_goal")
# The arguments of Meta-World's ids that determine what is scored. All others determine what a
# policy observes, which is its own affair unless a protocol fixes it, or how environments run.
SCORED = (
    *("benchmark", "kind", "env_name", "train_classes", "test_classes"),
    *("goals", "seed", "num_goals", "meta_batch_size", "max_episode_steps", "action_repeat"),
    *("idle_steps", "terminate_on_success", "reward_function_version", "wrappers"),
)
# Arguments of other ids for what is observed, for drawing tasks in training, and for sizes.
_NOT_SCORED = {"task_encoding", "task_embedding", "select"}
_NOT_SCORED |= {"num_envs", "envs_per_task"}


@dataclass(frozen=True)
class Description:
    """Statements about a result that no replay can verify.

    Args:
        policy: The name of the policy; `compare` groups results by it.
        training_seed: The seed of the training run that made the policy.
        training_steps: The agent steps of that run until then, over all environments.
        action_chunk: The number of actions of each chunk that were executed, for `ActionChunks`.
        note: A comment of at most 1000 printable characters in one line.

    Raises:
        TypeError, ValueError: If a text or a number is anything else.

    >>> from mtwrappers.evaluation import Description
    >>> Description(policy="ppo", training_seed=1, note="With the fixed seed.").policy
    'ppo'
    """

    policy: str | None = None
    training_seed: int | None = None
    training_steps: int | None = None
    action_chunk: int | None = None
    note: str = ""

    def __post_init__(self) -> None:
        check_name(self.policy, "the name of a policy")
        for name in ("training_seed", "training_steps"):
            if (number := getattr(self, name)) is not None:
                object.__setattr__(self, name, not_negative(number, name))
        if self.action_chunk is not None:
            positive(self.action_chunk, "action_chunk")
        if not is_printable(check_string(self.note, "the note")) or len(self.note) > _MAX_NOTE:
            raise ValueError(
                f"the note must have at most {_MAX_NOTE} printable characters, got "
                f"'{printable(self.note, 100)}' ({len(self.note)} characters)"
            )


@dataclass(frozen=True, repr=False)
class EvaluationResult:
    """The episodes of an evaluation, with estimates for each task and overall.

    In few-shot evaluation, the episodes after adaptation are scored; `adaptation`, `unadapted` and
    `by_episode` are results of others.

    Intervals (95 %) are over the episodes (over the trials in few-shot evaluation) of *one* policy:
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

    Raises:
        TypeError: If the episodes are not a sequence of `Episode`.
        ValueError: If there is no scored episode, or a task has no range to normalise returns by.

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
    description: Description = Description()
    normalization: Mapping[str, tuple[float, float]] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", tuple(self.episodes))
        for episode in self.episodes:
            if not isinstance(episode, Episode):
                raise TypeError(f"episodes must be of the type Episode, got {episode!r}")
        if not self.scored:
            raise ValueError("an evaluation needs at least one episode after adaptation, got none")
        if self.normalization is not None:
            for own in self._by_task.values():
                self._samples(own, "normalized")

    def __hash__(self) -> int:
        return hash((self.episodes, self.design))

    def described(
        self,
        *,
        policy: str | None = None,
        training_seed: int | None = None,
        training_steps: int | None = None,
        note: str | None = None,
    ) -> EvaluationResult:
        """The same result with another description; ``None`` keeps what is there.

        It is saved and printed with the result, and `verify` says that no replay can verify it.

        Args:
            policy: The name of the policy; `compare` groups results by it.
            training_seed: The seed of the training run that made the policy.
            training_steps: The agent steps of that run until then, over all environments.
            note: A comment of at most 1000 printable characters in one line.

        Raises:
            TypeError, ValueError: If they are anything else.

        >>> from mtwrappers.evaluation import Episode, EvaluationResult
        >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5)]).described(policy="ppo")
        >>> result.description.policy
        'ppo'
        """
        given = {
            "policy": policy,
            "training_seed": training_seed,
            "training_steps": training_steps,
            "note": note,
        }
        given = {name: value for name, value in given.items() if value is not None}
        changed: Any = given  # whose types differ by field
        return replace(self, description=replace(self.description, **changed))

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
        for name, one in (("low", low), ("high", high)):
            _check_reference(self, one, name)
        found = {task: (_mean_return(low, task), _mean_return(high, task)) for task in self.tasks}
        return replace(self, normalization=found)

    @cached_property
    def scored(self) -> tuple[Episode, ...]:
        """The episodes that the score is computed from: all, or those after adaptation."""
        first = 0 if self.design is None else self.design.adaptation_length
        return tuple(one for one in self.episodes if one.number >= first)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the order of their episodes."""
        return tuple(self._by_task)

    @cached_property
    def _by_task(self) -> dict[str, tuple[Episode, ...]]:
        found: dict[str, list[Episode]] = {}
        for episode in self.scored:
            found.setdefault(episode.task, []).append(episode)
        place = lambda one: (-1 if one.trial is None else one.trial, one.number)  # noqa: E731
        return {task: tuple(sorted(own, key=place)) for task, own in found.items()}

    def of_task(self, task: str) -> tuple[Episode, ...]:
        """The scored episodes of a task, in order.

        Raises:
            ValueError: If there is no such task.
        """
        if task not in self._by_task:
            raise ValueError(f"task must be one of {list(self.tasks)}, got {task!r}")
        return self._by_task[task]

    @cached_property
    def per_task(self) -> dict[str, Estimates]:
        """The mean of each metric of each task, by the names of task and metric.

        If the protocol counts success that was held for some steps, ``"success_held"`` is its rate.
        """
        return {task: self._estimates([self.of_task(task)]) for task in self.tasks}

    @cached_property
    def overall(self) -> dict[str, Estimates]:
        """``"mean"``, the mean of the tasks' means, by the name of the metric."""
        return {"mean": self._estimates([*self._by_task.values()])}

    @cached_property
    def per_goal(self) -> dict[str, dict[int, Estimates]]:
        """Like `per_task`, but per goal: by the names of task, goal and metric.

        A goal is a task state (on Meta-World its index in the benchmark's list). If goals are
        continuous or there are no task states, each episode (or trial of few-shot evaluation) has
        its own goal, named by the number of the episode within its task, or of the trial.
        """
        found: dict[str, dict[int, list[Episode]]] = {task: {} for task in self.tasks}
        for task, episodes in self._by_task.items():
            for one in episodes:
                found[task].setdefault(goal_of(one, self.draws_goals), []).append(one)
        return {
            task: {goal: self._estimates([own]) for goal, own in sorted(goals.items())}
            for task, goals in found.items()
        }

    def rates(self, task: str) -> Values:
        """The success of each scored episode of a task, or the rate of each trial, ``(n,)``.

        Success is defined by the protocol; without one, any step counts.

        Raises:
            ValueError: If there is no such task, or no episode of the result reports success.
        """
        values = self._samples(self.of_task(task), self._headline_metric)
        if values is None:
            raise ValueError("no episode of the result reports success")
        return values

    @cached_property
    def terms(self) -> dict[str, Any] | None:
        """Everything that determines what is scored, by name; ``None`` if it is unknown."""
        made = self.environments
        if made is None and not self.versions:
            return None
        scored = {"id": "none"} if made is None else _scored(made.spec, self.unit == "trials")
        packages = SIMULATION if made is None else _simulators(made.id, made.kwargs)
        return {**scored, **{name: self.versions.get(name) for name in packages}}

    @property
    def draws_goals(self) -> bool:
        """Whether goals are continuous, so that each episode or trial has its own."""
        return self.environments is not None and draws_goals(self.environments.spec)

    def _estimates(self, groups: Sequence[Sequence[Episode]]) -> Estimates:
        """An estimate of each metric over the episodes of some tasks or of a goal."""
        held = ["success_held"] if self._headline_metric == "success_held" else []
        normalized = ["normalized"] if self.normalization else []
        estimates: dict[str, Estimate | None] = {}
        for metric in (*METRICS, *held, *normalized):
            found = (self._samples(own, metric) for own in groups)
            samples = [values for values in found if values is not None]
            over = mean_rate if metric.startswith("success") else student
            estimates[metric] = over(samples) if samples else None
        return estimates

    def _samples(self, episodes: Sequence[Episode], metric: str) -> Values | None:
        """The independent values ``(n,)`` of a metric of a task's episodes.

        It is ``None`` for a rate of success if no episode of the result reports success. All views
        of a result get their values here.
        """
        if metric.startswith("success"):
            if not self.has_success:
                return None
            rules: dict[str, SuccessRule] = {"success_once": "any", "success_final": "last"}
            rule = rules.get(metric, self._success_rule)
            of_units = [[is_success(one, rule) for one in unit] for unit in units(episodes)]
            return np.array([np.mean(values) for values in of_units], dtype=np.float64)
        name = "return" if metric == "normalized" else metric
        # All episodes have a return and a length.
        numbers = [[one.metric(name) or 0.0 for one in unit] for unit in units(episodes)]
        found: Values = np.array([np.mean(values) for values in numbers], dtype=np.float64)
        if name == metric or self.normalization is None:
            return found
        task = episodes[0].task
        low, high = ends = self.normalization.get(task, (np.nan, np.nan))
        with np.errstate(all="ignore"):
            found = (found - low) / (high - low)
        if not (low < high and np.isfinite([high - low, *found]).all()):
            raise ValueError(
                f"{task!r} needs two returns low < high to normalise by, finite and neither too "
                f"close to each other nor too far apart, got {ends}"
            )
        return found

    @cached_property
    def headline(self) -> dict[str, Estimate] | None:
        """The success rates that the protocol defines, by what they are averaged over.

        The first is the headline; keys are ``"tasks"``, ``"groups"`` or the name of a group. It is
        ``None`` without a protocol, or for the reason in `no_score`.
        """
        protocol = self.protocol
        if protocol is None or self.no_score:
            return None
        samples = [self.rates(task) for task in self.tasks]
        return {
            name: mean_rate(samples, weights(self.tasks, name, protocol.groups))
            for name in (*protocol.means, *(group for group, _ in protocol.groups))
        }

    @property
    def no_score(self) -> str:
        """Why a result with a protocol has no score under its name; ``""`` if it has one.

        Episodes are missing, none of them reports success, or the environments were in a wrapper
        that may change what is scored.
        """
        protocol = self.protocol
        if protocol is None:
            return ""
        numbers = [episode.number for episode in self.scored]
        needed = episodes_needed(protocol)
        # Some may be of adaptation.
        if len(numbers) != needed or min(numbers) < protocol.adaptation_episodes:
            return f"not all {needed} episodes of the protocol are here"
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
    def unit(self) -> Literal["episodes", "trials"]:
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
        return "any" if self.protocol is None else self.protocol.success

    @property
    def _headline_metric(self) -> str:
        """The rate of success that the score is."""
        if isinstance(self._success_rule, int):
            return "success_held"
        return {"any": "success_once", "last": "success_final"}[self._success_rule]

    # Few-shot evaluation.

    @property
    def few_shot(self) -> bool:
        """Whether the policy adapted in trials."""
        return self.design is not None and self.design.trials > 0

    @cached_property
    def by_episode(self) -> tuple[EvaluationResult, ...]:
        """In few-shot evaluation, a result for each episode number of the trials, in order."""
        numbers = sorted({one.number for one in self.episodes})
        return tuple(self._part([number]) for number in numbers)

    @cached_property
    def adaptation(self) -> EvaluationResult:
        """In few-shot evaluation, the episodes of adaptation.

        A policy whose ``adapt`` is called once has not yet adapted in any of them.

        Raises:
            ValueError: If there are none.
        """
        length = 0 if self.design is None else self.design.adaptation_length
        return self._part(range(length))

    @cached_property
    def unadapted(self) -> EvaluationResult:
        """In few-shot evaluation, the episodes before any adaptation, to `compare` with later ones.

        For a policy with ``adapt``, these are the episodes before its first call, otherwise the
        first of each trial.

        Raises:
            ValueError: If there are none.
        """
        adapts = self.design is not None and self.design.adapts
        first = self.design.adaptation_episodes if self.design is not None and adapts else 1
        return self._part(range(first))

    def _part(self, numbers: Collection[int]) -> EvaluationResult:
        """A result of the episodes with some numbers; the evidence covers all episodes."""
        if self.design is None or not self.few_shot:
            raise ValueError("only few-shot evaluation has episodes of adaptation")
        episodes = with_failures(self.episodes, reporting_tasks(self.episodes))
        kept = tuple(one for one in episodes if one.number in numbers)
        design = Design(self.design.seed, len({one.number for one in kept}) or 1)
        return replace(self, episodes=kept, design=design, evidence=None)

    # Text and pictures.

    def __repr__(self) -> str:
        return f"<EvaluationResult: {len(self.episodes)} episodes of {len(self.tasks)} tasks>"

    def __str__(self) -> str:
        n, several = len(self.scored), len(self.tasks) > 1
        rows = [(task, len(self.of_task(task)), found) for task, found in self.per_task.items()]
        over_all = [(name, n, found) for name, found in self.overall.items()]
        lines = table("task", rows + over_all * several, self._headline_metric)
        if several:
            lines.insert(1 + len(rows), "-" * len(lines[0]))
        kinds = "Student's t"
        if self.has_success:
            lines.append(_legend(self._success_rule))
            kinds = "Wilson for rates, Student's t"
        lines += textwrap.wrap(self._silence, 80, break_on_hyphens=False)
        if self.normalization is not None:
            lines.append("normalized: (return - low) / (high - low), not clipped")
        lines.append(f"{CONFIDENCE:.0%}: intervals over {self.unit} ({kinds})")
        if self.description.action_chunk is not None:
            lines.append(f"{self.description.action_chunk} of each chunk's actions executed")
        if self.description.note:
            lines.append(textwrap.shorten(f"note: {self.description.note}", 80, placeholder="..."))
        if self.protocol is not None:
            lines += ["", *_protocol_lines(self.protocol, self.headline, self.no_score)]
        if not self.few_shot:
            return "\n".join(lines)
        length = len({one.number for one in self.episodes} - {one.number for one in self.scored})
        steps = []
        for i, step in enumerate(self.by_episode):
            kind = "adaptation" if i < length else "evaluation"
            steps.append((f"{kind}, episode {i + 1}", len(step.episodes), step.overall["mean"]))
        of_steps = table("mean over tasks", steps, self._headline_metric)
        return "\n".join(["after adaptation:", *lines, "", *of_steps])

    @property
    def _silence(self) -> str:
        """A sentence that names the `silent_tasks`, or ``""``."""
        return describe_silence(self.silent_tasks, len(self.tasks))

    @property
    def score(self) -> str:
        """The score with its interval in a line, or the mean success or return."""
        if self.headline is not None:
            over, found = next(iter(self.headline.items()))
            name = "success"
        else:
            over, metric = "tasks", self._headline_metric if self.has_success else "return"
            name = f"success {describe_rule(self._success_rule)}" if self.has_success else metric
            mean = self.overall["mean"][metric]
            assert mean is not None  # every episode has a return
            found = mean
        # Saved results contain this line and are refused if it differs, so it stays as it is.
        ends = "" if found.low is None else f" ({found.low:.3f} to {found.high:.3f}, 95 %)"
        return f"{name} {found.value:.3f}{ends}, mean over {over}"

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
        head = plot.RATE
        metrics = dict.fromkeys([self._headline_metric, "success_once", "success_final"])
        labels = {metric: _LABELS[metric] for metric in [*metrics][:2]}  # a color for each
        if not self.has_success:
            head = "return" if self.normalization is None else "normalized"
            labels = {head: ""}
        rows = {**self.per_task, **(self.overall if len(self.tasks) > 1 else {})}
        series = [
            plot.Series(label, color, [one[metric] for one in rows.values()])
            for (metric, label), color in zip(labels.items(), (plot.DARK, plot.LIGHT), strict=False)
        ]
        footer = f"lines: {CONFIDENCE:.0%} intervals over {self.unit}"
        footer += f"\n{self._silence}" * bool(self.silent_tasks)
        plot.draw_rows(Path(path), [*rows], len(self.tasks), {head: series}, title, footer)

    def _plot_trials(self, path: Path, title: str) -> None:
        """Draws each episode of the trials: the mean over all tasks, and each task."""
        metric, mean = self._headline_metric if self.has_success else "return", "mean over tasks"
        names = [mean, *(self.tasks if len(self.tasks) > 1 else ())]
        points: dict[str, dict[float, Estimate]] = {name: {} for name in names}
        for i, step in enumerate(self.by_episode, 1):
            for name, found in {mean: step.overall["mean"], **step.per_task}.items():
                if (one := found[metric]) is not None and name in points:
                    points[name][i] = one
        panels = {name: [plot.Line("", own, "curve")] for name, own in points.items()}
        length = len(self.by_episode) - len({one.number for one in self.scored})
        caption = [f"Episodes 1 to {length} are of adaptation. Bands: 95% intervals over trials."]
        caption += [self._silence] * bool(self.silent_tasks)
        head = plot.RATE if self.has_success else metric
        plot.draw_lines(path, panels, title, caption, "episode of the trial", head)

    # Files.

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON, with the format, and the `score` for the reader's eye."""
        return {"format": FORMAT, "score": self.score, **to_plain(self)}

    @classmethod
    def from_dict(cls, data: Any) -> EvaluationResult:
        """The result that `to_dict` described.

        Raises:
            ValueError: If ``data`` is something else, such as of an earlier version.
        """
        found = data.get("format") if isinstance(data, Mapping) else data
        if found != FORMAT:
            raise ValueError(f"expected an evaluation of the format {FORMAT!r}, got {found!r}")
        rest = {name: one for name, one in data.items() if name not in ("format", "score")}
        result: EvaluationResult = from_plain(cls, rest, "the result")
        return result

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `to_dict` as JSON; if that fails, an existing file is unchanged.

        Raises:
            OSError: If the file cannot be written, or exists and is not a regular file.
            ValueError: If its name ends in ``.npz``, which is for evidence, or it would have more
                than 64 MB, which `load` refuses.
        """
        _write(path, _json(self))

    @classmethod
    def load(cls, path: str | PathLike[str]) -> EvaluationResult:
        """Reads a file that `save` wrote.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is something else.

        >>> from mtwrappers import EvaluationResult
        >>> from mtwrappers.evaluation import Episode
        >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)])
        >>> result.save("result.json")
        >>> EvaluationResult.load("result.json") == result
        True
        """
        results = load_results(path)
        if len(results) != 1:
            raise ValueError(f"{path} has {len(results)} results: read it with load_results")
        return results[0]


def save_results(path: str | PathLike[str], results: Sequence[EvaluationResult]) -> None:
    """Writes several results into one file; if that fails, an existing one is unchanged.

    Raises:
        OSError: If the file cannot be written, or exists and is not a regular file.
        ValueError: If its name ends in ``.npz``, which is for evidence, or it would have more than
            64 MB, which `load_results` refuses.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, load_results, save_results
    >>> result = EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)])
    >>> save_results("results.json", [result, result])
    >>> load_results("results.json") == [result, result]
    True
    """
    text = ",\n".join(map(_json, results))
    _write(path, f"[{text}]")


def _write(path: str | PathLike[str], text: str) -> None:
    if str(path).endswith(".npz"):
        raise ValueError(
            f"a result is saved as JSON, such as result.json, got {path}: evidence= writes that"
        )
    data = f"{text}\n".encode()
    if len(data) > MAX_SIZE:
        raise ValueError(
            f"the results take {len(data):,} bytes, more than the {MAX_SIZE:,} that a file may "
            "have and can be read with: save them in several files"
        )
    write_atomically(path, data)


def load_results(path: str | PathLike[str]) -> list[EvaluationResult]:
    """Reads the results in a file: those of `save_results`, or the one of `save`.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If it is something else.

    >>> from mtwrappers.evaluation import Episode, EvaluationResult, load_results
    >>> EvaluationResult([Episode("reach", 0, 1.0, 5, True, True)]).save("one.json")
    >>> [result.score for result in load_results("one.json")]
    ['success at any step 1.000 (0.207 to 1.000, 95 %), mean over tasks']
    """
    return [EvaluationResult.from_dict(one) for one in load_data(path)]


def load_data(path: str | PathLike[str]) -> list[Any]:
    """The results in a file as untrusted JSON values."""
    try:
        data = load_json(path, MAX_SIZE)
    except ValueError as exc:
        said = printable(f"{path} is not one: {exc}")
        raise ValueError(f"expected an evaluation in JSON, {said}") from None
    return data if isinstance(data, list) else [data]


def _json(result: EvaluationResult) -> str:
    """A result as JSON, with a line for each episode."""
    data = result.to_dict()
    episodes = ",\n    ".join(json.dumps(one) for one in data.pop("episodes"))
    head = json.dumps(data, indent=2).removesuffix("\n}")
    return f'{head},\n  "episodes": [\n    {episodes}\n  ]\n}}'


# The origin of a result.


def versions() -> dict[str, str]:
    """The versions of Python and of the installed `PACKAGES`."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):  # of Meta-World, for others' environments
            found[package] = version(package)
    return found


def _check_reference(result: EvaluationResult, one: EvaluationResult, name: str) -> None:
    """Checks that a result may be a reference for the returns of another.

    Raises:
        TypeError: If it is not a result.
        ValueError: If it has other tasks, or was measured in other environments.
    """
    if not isinstance(one, EvaluationResult):
        raise TypeError(f"the {name} reference must be an EvaluationResult, got {one!r}")
    if missing := [task for task in result.tasks if task not in one.tasks]:
        raise ValueError(f"the {name} reference has no episodes of {missing[0]!r}")
    ours, theirs = (terms or {} for terms in comparable_terms([result, one]))
    for what in (*ours, *theirs) if ours and theirs else ():
        if ours.get(what) != theirs.get(what):
            raise ValueError(
                f"the {name} reference was measured in another way: its {what} is "
                f"{reprlib.repr(theirs.get(what))}, not {reprlib.repr(ours.get(what))}"
            )


def _scored(spec: Mapping[str, Any], in_trials: bool) -> dict[str, Any]:
    """The id of environments, and their arguments that determine what is scored."""
    env_id, kwargs = select_determining_arguments(spec, in_trials)
    of_trials = ("envs_per_task",) if in_trials else ()
    if "benchmark" not in kwargs and "sequence" not in kwargs:
        left_out = _NOT_SCORED - {*of_trials}
        return {"id": env_id, **{k: v for k, v in kwargs.items() if k not in left_out}}
    try:
        made = with_defaults(rename_arguments(spec["kwargs"]))
    except (TypeError, ValueError):  # in a file, they may be anything
        made = dict(kwargs)
    of_streams = ("sequence", "steps_per_task") if "sequence" in kwargs else ()
    names = (*SCORED, *of_trials, *of_streams)
    return {"id": env_id, **{name: made.get(name) for name in names}}


def _simulators(env_id: str, kwargs: Mapping[str, Any]) -> tuple[str, ...]:
    """The packages whose versions may change episodes of an id, as far as it is registered.

    Of ids that are not known to do without them, these are all.
    """
    ids = [env_id]
    if env_id == "mtwrappers/MultiEnv-v0":
        given = kwargs.get("env_ids") or DEFAULT_IDS
        ids = [*given] if isinstance(given, (list, tuple)) else [given]
    packages: set[str] = set()
    for name in ids:
        # Looked up and not imported: in a file, an id may name any module.
        spec = registry.get(name) if isinstance(name, str) else None
        entry_point = spec.entry_point if spec is not None else None
        module = entry_point if isinstance(entry_point, str) else ""
        if module.startswith("gymnasium.envs.mujoco"):
            packages.add("mujoco")
        elif not module.startswith(_WITHOUT_SIMULATION):
            packages.update(SIMULATION)
    return tuple(name for name in SIMULATION if name in packages)


def comparable_terms(results: Sequence[EvaluationResult]) -> list[dict[str, Any] | None]:
    """The `EvaluationResult.terms` of results that are to be compared with each other.

    A package that was not installed where one of them was measured takes no part in their
    environments, so its versions are left out. Those of Meta-World need all packages.
    """
    absent = {
        package
        for result in results
        for package in SIMULATION
        if result.versions and package not in result.versions and not _is_metaworld(result)
    }
    return [
        terms and {name: value for name, value in terms.items() if name not in absent}
        for terms in (result.terms for result in results)
    ]


def _is_metaworld(result: EvaluationResult) -> bool:
    """Whether environments are Meta-World's."""
    made = result.environments
    if made is None:
        return False
    module, *_ = TABLE.get(made.id, ("",))
    of_metaworld = ("mtwrappers.metaworld", "mtwrappers.continual")
    return "benchmark" in made.kwargs or module.startswith(of_metaworld)


def _mean_return(result: EvaluationResult, task: str) -> float:
    found = result.per_task[task]["return"]
    assert found is not None  # every episode has one
    return found.value


# Text.


def table(head: str, rows: Sequence[tuple[str, int, Estimates]], first: str) -> list[str]:
    """Formats rows of estimates as lines, in 80 columns for all of Meta-World's classes.

    Success rates have intervals, and so do returns if no success is recorded. Metrics that no row
    has are left out. If ``"success_held"`` is among them, it alone has an interval.

    A row is a label, the number of episodes, and the estimates; ``head`` is the head of the labels,
    and ``first`` the metric that is first among those that are known.
    """
    metrics = dict.fromkeys([first, *_HEADS])
    known = [m for m in metrics if any(found.get(m) is not None for _, _, found in rows)]
    no_success = known[0] == "return"
    with_intervals = {first} if first == "success_held" else {"success_once", "success_final"}
    columns = [["n", *(str(n) for _, n, _ in rows)]]
    for metric in known:
        scored = metric in ("return", "normalized") and no_success
        with_interval = scored or metric in with_intervals
        title = f"{_HEADS[metric]} ({CONFIDENCE:.0%})" if with_interval else _HEADS[metric]
        columns.append(
            [title, *(_cell(metric, found[metric], with_interval) for _, _, found in rows)]
        )
    columns = [[cell.rjust(max(map(len, column))) for cell in column] for column in columns]
    labels = [head, *(label for label, _, _ in rows)]
    lines = zip(labels, map("  ".join, zip(*columns, strict=True)), strict=True)
    return [f"{label:<{max(map(len, labels))}} {line}" for label, line in lines]


def _cell(metric: str, found: Estimate | None, with_interval: bool) -> str:
    if found is None:
        return "-"
    rate = metric.startswith("success")
    decimals = 2 if rate or metric == "normalized" else None

    def number(value: float) -> str:
        return f"{value:.{int(abs(value) < 1000) if decimals is None else decimals}f}"

    if not with_interval or found.low is None or found.high is None:
        return number(found.value)
    to = "-" if rate else " to "
    return f"{number(found.value)} {number(found.low)}{to}{number(found.high)}"


def _protocol_lines(
    protocol: Protocol, found: Mapping[str, Estimate] | None, no_score: str
) -> list[str]:
    """The lines below a table: the protocol with its score, or why there is none."""
    where, success = conditions(protocol)
    head = [f"protocol {protocol.label}", f"on {where}: success {success}"]
    if found is None:
        return [*head, *textwrap.wrap(f"no score: {no_score}", 80)]
    return [*head, *headline_lines(found)]


def conditions(protocol: Protocol) -> tuple[str, str]:
    """The tasks of a protocol, and its definition of success, for display."""
    of_class = f" {protocol.env_name}" if protocol.env_name else ""
    where = f"{protocol.benchmark}{'-test' * (protocol.kind == 'test')}{of_class}"
    return where, describe_rule(protocol.success)


def describe_rule(rule: SuccessRule) -> str:
    """When an episode counts as a success, for display."""
    if isinstance(rule, int):
        return f"held for {rule} steps"
    return {"any": "at any step", "last": "at the last step"}[rule]


def _legend(rule: SuccessRule) -> str:
    """The line below a table about its rates, of which the first is by the rule."""
    if isinstance(rule, int):
        return f"held: success {describe_rule(rule)}; once, final: at any and at the last step"
    if rule == "last":
        return "final, once: success rates at the last and at any step"
    return "once, final: success rates at any and at the last step"


def describe_silence(silent_tasks: Sequence[str], num_tasks: int) -> str:
    """A sentence about tasks that never report success, or ``""``."""
    if not silent_tasks:
        return ""
    n = len(silent_tasks)
    verbs = "reports no success and counts" if n == 1 else "report no success and count"
    names = ", ".join(map(printable, silent_tasks))
    return f"{n} of {num_tasks} tasks {verbs} as 0: {names}"


def headline_lines(found: Mapping[str, Estimate]) -> list[str]:
    """The means of a headline with their intervals, a line each."""
    lines = []
    for name, mean in found.items():
        label = f"mean over {name}" if name in ("tasks", "groups") else f"  {name}"
        ends = ""
        if mean.low is not None and mean.high is not None:
            ends = f"  {mean.low:.3f} to {mean.high:.3f} (95%)"
        lines.append(f"{label:<18}{mean.value:.3f}{ends}")
    return lines
