"""Results of evaluations: estimates with intervals, as a table, JSON or a plot, and provenance."""

from __future__ import annotations

import abc
import functools
import itertools
import json
import platform
import reprlib
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from gymnasium.vector import VectorObservationWrapper, VectorWrapper
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_name, check_string, not_negative, positive
from mtwrappers.common.errors import is_printable, printable
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.episodes import METRICS, Episode, Trials
from mtwrappers.evaluation.former import estimate, mean_rate, trimmed_rate
from mtwrappers.evaluation.goals import find_goals
from mtwrappers.evaluation.normalization import Normalization, Reference
from mtwrappers.evaluation.protocol import (
    Protocol,
    check_given,
    episodes_needed,
    succeeded,
    weights,
)
from mtwrappers.evaluation.remake import goals_of
from mtwrappers.evaluation.statistics import Estimate, Estimates, Values
from mtwrappers.metaworld.make import determining, draws_goals
from mtwrappers.state.files import load_json, write_atomically
from mtwrappers.wrappers.normalize_observation import VectorNormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import VectorNormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import VectorRL2Observation

# The packages that can affect an episode's numbers.
PACKAGES = ("gymnasium", "metaworld", "mtwrappers", "mujoco", "numpy", "scipy")
# These wrappers change neither actions nor the rewards that a result reports.
_HARMLESS = (
    VectorObservationWrapper,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
    VectorRL2Observation,
)


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _is_table(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(text, str) for text in value.values())


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and 0 <= value < 2**63)


def _is_spec(value: Any) -> bool:
    is_of_two = isinstance(value, dict) and value.keys() == {"id", "kwargs"}
    return is_of_two and isinstance(value["id"], str) and isinstance(value["kwargs"], dict)


# Whether a value from a file is valid for a field.
_IS: dict[str, Callable[[Any], bool]] = {
    "episodes_per_task": lambda value: type(value) is int and 0 < value < 10**7,
    "tasks": lambda value: value is None or _is_names(value),
    "max_episode_steps": lambda value: value is None or (type(value) is int and 0 < value < 2**63),
    "spec": lambda value: value is None or _is_spec(value),
    "goals": lambda value: value is None or isinstance(value, str),
    "versions": _is_table,
    "protocol": lambda value: value is None or isinstance(value, dict),
    "policy": lambda value: value is None or isinstance(value, str),
    "evidence": lambda value: value is None or isinstance(value, str),
    "training_seed": _is_count,
    "training_steps": _is_count,
    "action_chunk": lambda value: value is None or (type(value) is int and 0 < value < 2**63),
}


@dataclass(frozen=True)
class Provenance:
    """The origin of a result; together with the actions, all that a replay needs.

    Args:
        episodes_per_task: The number of episodes of each task that were asked for.
        versions: The versions of Python and of all packages involved, by name.
        tasks: The names of the tasks that were chosen, or ``None`` for all.
        max_episode_steps: The number of steps after which `evaluate` cut episodes, or ``None``.
        spec: The ``id`` and the ``kwargs`` of the environments'
            `gymnasium.envs.registration.EnvSpec`, as JSON values; ``None`` if they have none, or a
            wrapper around them changes actions or rewards. Such a result can only be verified with
            environments passed as ``envs``.
        goals: A digest of the goals of the environments, if there is a list.
        protocol: The protocol that was followed, if there was one.
        policy: The policy's name.
        evidence: The SHA-256 of all actions, if they were recorded.
        training_seed: The seed of the training run that made the policy.
        training_steps: The agent steps of that run until then, over all environments.
        action_chunk: The number of actions of each chunk that were executed before the next call of
            the policy; ``None`` if it returned single actions.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, 3, policy_name="northeast", training_seed=1)
    >>> result.provenance.policy, result.provenance.training_seed, result.provenance.spec["id"]
    ('northeast', 1, 'mtwrappers/PointGoal-v0')
    """

    episodes_per_task: int
    versions: Mapping[str, str]
    tasks: Sequence[str] | None = None
    max_episode_steps: int | None = None
    spec: Mapping[str, Any] | None = None
    goals: str | None = None
    protocol: Protocol | None = None
    policy: str | None = None
    evidence: str | None = None
    training_seed: int | None = None
    training_steps: int | None = None
    action_chunk: int | None = None

    @classmethod
    def of(
        cls,
        envs: Any,
        episodes_per_task: int,
        *,
        policy: Any = None,
        **others: Any,
    ) -> Provenance:
        """The provenance of an evaluation on these environments.

        Raises:
            TypeError, ValueError: If the policy's name is not a printable string.
        """
        return cls(
            episodes_per_task,
            versions(),
            spec=_spec(envs),
            goals=goals_of(envs),
            policy=check_name(policy, "policy_name"),
            **others,
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        protocol = self.protocol and self.protocol.to_dict()
        return {**asdict(replace(self, protocol=None)), "protocol": protocol}

    @classmethod
    def from_dict(cls, data: Any) -> Provenance:
        """Reverses `to_dict`, for data from a file.

        Raises:
            ValueError: If ``data`` is not from `to_dict`.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) != names:
            raise ValueError(f"expected provenance with {sorted(names)}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if not _IS[name](value):
                raise ValueError(f"{name} of the provenance cannot be {reprlib.repr(value)}")
        return cls(**{**data, "protocol": _protocol_of(data["protocol"])})


def check_training(seed: Any, steps: Any) -> dict[str, int | None]:
    """The fields of a `Provenance` for the training run that made a policy.

    Raises:
        ValueError: If one is neither ``None`` nor an integer of 0 or more.
    """
    given = {"training_seed": seed, "training_steps": steps}
    return {name: None if n is None else not_negative(n, name) for name, n in given.items()}


def _protocol_of(data: Mapping[str, Any] | None) -> Protocol | None:
    """A protocol from a file, which must name all of its fields."""
    if data is None:
        return None
    protocol = Protocol.from_dict(data)
    if missing := sorted(protocol.to_dict().keys() - data.keys()):
        raise ValueError(f"the protocol {protocol.name} is without its {missing[0]}")
    return protocol


def versions() -> dict[str, str]:
    """The versions of Python and of the installed `PACKAGES`."""
    found = {name: _version(name) for name in PACKAGES}
    known = {name: text for name, text in found.items() if text is not None}
    return {"python": platform.python_version(), **known}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # Meta-World, where others' environments are evaluated on
        return None


def _spec(envs: Any) -> dict[str, Any] | None:
    layer = envs
    while isinstance(layer, VectorWrapper):
        if not isinstance(layer, _HARMLESS):
            return None
        layer = layer.env
    try:
        described = json.loads(layer.spec.to_json())
    except Exception:  # there is none, or arguments that no JSON holds
        return None
    return {name: described[name] for name in ("id", "kwargs")}


# The share of tasks that each leaves out at either end.
AGGREGATES = {"mean": 0.0, "interquartile_mean": 0.25}
# The largest size of a result's file, in bytes.
MAX_SIZE = 2**28
# Keeps the bootstrap's streams independent of the episodes' with the same seed.
_BOOTSTRAP = 1_000_003
# The metrics, each with its stream of resamples: a normalised return has the interval of the
# return.
_STREAMS = {metric: column for column, metric in enumerate(METRICS)}
_STREAMS["normalized"] = _STREAMS["return"]
# The columns of a table.
_HEADS = {
    "success_once": "once",
    "success_final": "final",
    "return": "return",
    "normalized": "normalized",
    "length": "steps",
}
# The maximum lengths of a note, of an author's name and of the list of authors.
_MAX_NOTE, _MAX_AUTHOR, _MAX_AUTHORS = 1000, 100, 30
Result = TypeVar("Result", bound="StoredResult")


class StoredResult(abc.ABC):
    """A result that is saved to JSON and loaded from it, under the name ``FORMAT``."""

    FORMAT: ClassVar[str]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON, with ``FORMAT`` as its ``format``."""

    @classmethod
    @abc.abstractmethod
    def _of_dict(cls: type[Result], data: Mapping[str, Any]) -> Result: ...

    @classmethod
    def from_dict(cls: type[Result], data: Mapping[str, Any]) -> Result:
        """The result that `to_dict` described.

        Raises:
            ValueError: If ``data`` has another format, such as an earlier version's.
        """
        found = data.get("format") if isinstance(data, Mapping) else data
        if found != cls.FORMAT:
            raise ValueError(f"expected an evaluation of the format {cls.FORMAT!r}, got {found!r}")
        try:
            return cls._of_dict(data)
        except KeyError as exc:
            raise ValueError(f"expected an evaluation with {exc}, got {list(data)}") from None
        except TypeError as exc:
            raise ValueError(f"expected an evaluation: {exc}") from None

    def save(self, path: str | Path) -> None:
        """Writes `to_dict` as JSON; if that fails, an existing file is unchanged.

        Raises:
            OSError: If the file cannot be written, or exists and is not a regular file.
        """
        write_atomically(path, f"{json.dumps(self.to_dict(), indent=2)}\n".encode())

    @classmethod
    def load(cls: type[Result], path: str | Path) -> Result:
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
        try:
            data = load_json(path, MAX_SIZE)
        except ValueError as exc:
            said = printable(f"{path} is not one: {exc}")
            raise ValueError(f"expected an evaluation in JSON, {said}") from None
        return cls.from_dict(data)


@dataclass(frozen=True, repr=False)
class EvaluationResult(StoredResult):
    """The episodes of an evaluation, with estimates for each task and overall.

    Intervals are over the episodes (over the trials in few-shot evaluation) of *one* policy: they
    say how precisely it was measured, not how much another training run would differ from it.
    Success rates have Wilson intervals, at the effective number of values for several tasks or
    trials; returns and lengths have percentile bootstrap intervals. Their coverage is documented
    under Scores. Metrics that no episode has, such as success if infos do not report it, are
    ``None``. Returns are not normalised, so their aggregates over tasks are not meaningful if
    reward scales differ; see `normalized`.

    Args:
        episodes: All episodes of the evaluation.
        seed: Determines the resamples.
        confidence: The confidence level of the intervals, in (0, 1).
        resamples: The number of bootstrap resamples.
        provenance: The origin of the episodes, recorded by `evaluate`. It does not affect whether
            results are equal.
        note: A comment on the result, see `described`; likewise.
        authors: The authors of the result; likewise.
        normalization: The normalization of returns, if any; see `normalized`.

    Raises:
        TypeError: If the episodes are not a sequence of `Episode`, the seed is not an integer, or
            the note or an author is not a string.
        ValueError: If there is no episode, a number is out of range, the note or an author is too
            long or not printable, or a task has no range to normalise returns by.

    >>> from mtwrappers.evaluation import Episode
    >>> from mtwrappers import EvaluationResult
    >>> result = EvaluationResult([Episode("reach", i, 2.0 * i, 5, i > 0, False) for i in range(4)])
    >>> print(result)
    task  n      once (95%)     final (95%)  return  steps
    reach 4  0.75 0.30-0.95  0.00 0.00-0.49     3.0    5.0
    once, final: success rates at any and at the last step
    95%: intervals over episodes (Wilson for rates, bootstrap, 2000 resamples)
    """

    FORMAT = "mtwrappers.EvaluationResult/6"

    episodes: Sequence[Episode]
    seed: int = 0
    confidence: float = 0.95
    resamples: int = 2000
    provenance: Provenance | None = field(default=None, compare=False, repr=False)
    note: str = field(default="", compare=False)
    authors: Sequence[str] = field(default=(), compare=False)
    normalization: Normalization | None = field(default=None, hash=False)

    def __post_init__(self) -> None:
        episodes = tuple(self.episodes)
        if not episodes:
            raise ValueError("an evaluation needs at least one episode, got none")
        for episode in episodes:
            if not isinstance(episode, Episode):
                raise TypeError(f"episodes must be of the type Episode, got {episode!r}")
        check_confidence(self.confidence)
        object.__setattr__(self, "episodes", episodes)
        object.__setattr__(self, "seed", check_seed(self.seed))
        object.__setattr__(self, "resamples", positive(self.resamples, "resamples"))
        object.__setattr__(self, "note", _text(self.note, "the note", 0, _MAX_NOTE))
        object.__setattr__(self, "authors", _authors(self.authors))
        if self.normalization is not None:
            normalization = self.normalization.of_tasks(self.tasks)
            object.__setattr__(self, "normalization", normalization)
            for task in self.tasks:
                normalization(task, np.array([one.episode_return for one in self.of_task(task)]))

    def described(
        self, *, note: str | None = None, authors: Sequence[str] | None = None
    ) -> EvaluationResult:
        """The same result with another note or other authors.

        They are saved and printed with the result. Nothing else depends on them: it is equal to the
        result without them, and is verified in the same way.

        Args:
            note: A comment of at most 1000 printable characters in one line. ``None`` keeps it.
            authors: At most 30 names. ``None`` keeps them.

        Raises:
            TypeError, ValueError: If they are anything else.
        """
        return replace(
            self,
            note=self.note if note is None else note,
            authors=self.authors if authors is None else authors,
        )

    def normalized(
        self,
        ranges: Mapping[str, tuple[float, float]] | None = None,
        *,
        low: EvaluationResult | None = None,
        high: EvaluationResult | None = None,
    ) -> EvaluationResult:
        """The same result with the metric ``"normalized"``: ``(return - low) / (high - low)``.

        It is for environments that report no success and whose returns have different scales. It is
        not clipped to [0, 1]. Intervals are those of returns, rescaled: the low and the high return
        are treated as exact.

        Args:
            ranges: ``(low, high)`` of each task, by name. Ranges of other tasks are ignored.
            low: Instead of ranges, a result on the same tasks, such as a random policy's, whose
                mean returns are used; together with ``high``.
            high: Likewise, such as an expert's.

        Raises:
            TypeError: If both ranges and results are given, or only one result, or they have
                another type.
            ValueError: If a task has no range, a number is not finite, ``low`` is not less than
                ``high``, or the results were measured in other environments.

        >>> from mtwrappers.evaluation import Episode
        >>> from mtwrappers import EvaluationResult
        >>> result = EvaluationResult([Episode("hop", i, 10.0 * i, 5) for i in range(4)])
        >>> result.normalized({"hop": (5, 25)}).per_task["hop"]["normalized"].value
        0.5
        """
        if ranges is not None and low is None and high is None:
            return replace(self, normalization=Normalization(ranges))
        if ranges is not None or low is None or high is None:
            raise TypeError(
                "normalized takes either ranges {task: (low, high)}, or two results as low and "
                f"high; got {reprlib.repr(ranges)}, low={low!r} and high={high!r}"
            )
        for name, one in (("low", low), ("high", high)):
            _check_reference(self, one, name)
        found = {task: (_mean_return(low, task), _mean_return(high, task)) for task in self.tasks}
        by = Normalization(found, _reference(low), _reference(high))
        return replace(self, normalization=by)

    @cached_property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the order of their episodes."""
        return tuple(self._by_task)

    @cached_property
    def _by_task(self) -> dict[str, tuple[Episode, ...]]:
        found: dict[str, list[Episode]] = {}
        for episode in self.episodes:
            found.setdefault(episode.task, []).append(episode)
        place = lambda one: (-1 if one.trial is None else one.trial, one.number)  # noqa: E731
        return {task: tuple(sorted(own, key=place)) for task, own in found.items()}

    def of_task(self, task: str) -> tuple[Episode, ...]:
        """The episodes of a task, in order.

        Raises:
            ValueError: If there is no such task.
        """
        if task not in self._by_task:
            raise ValueError(f"task must be one of {list(self.tasks)}, got {task!r}")
        return self._by_task[task]

    @cached_property
    def per_task(self) -> dict[str, Estimates]:
        """The mean of each metric of each task, by the names of task and metric."""
        return {
            task: self._estimates([self.of_task(task)], 0.0, i) for i, task in enumerate(self.tasks)
        }

    @cached_property
    def per_goal(self) -> dict[str, dict[int, Estimates]]:
        """Like `per_task`, but per goal: by the names of task, goal and metric.

        A goal is a task state (on Meta-World its index in the benchmark's list). If goals are
        continuous or there are no task states, each episode (or trial of few-shot evaluation) has
        its own goal, named by the number of the episode within its task, or of the trial.
        """
        place = itertools.count(len(self.tasks) + len(AGGREGATES))
        return {
            task: {
                goal: self._estimates([own], 0.0, next(place))
                for goal, own in sorted(self._by_goal(task).items())
            }
            for task in self.tasks
        }

    def _by_goal(self, task: str) -> dict[int, list[Episode]]:
        """The episodes of each goal of a task; see `per_goal`."""
        drawn = self.provenance is not None and draws_goals(self.provenance.spec)
        found: dict[int, list[Episode]] = {}
        for one in self.of_task(task):
            alone = one.number if one.trial is None else one.trial
            goal = alone if drawn or one.task_state is None else one.task_state
            found.setdefault(goal, []).append(one)
        return found

    @cached_property
    def overall(self) -> dict[str, Estimates]:
        """``"mean"`` and ``"interquartile_mean"`` of the tasks' means, by the name of the metric.

        The interquartile mean leaves out a quarter of the tasks at either end.
        """
        return {
            name: self._estimates([*self._by_task.values()], trim, len(self.tasks) + i)
            for i, (name, trim) in enumerate(AGGREGATES.items())
        }

    def _estimates(self, groups: Sequence[Sequence[Episode]], trim: float, place: int) -> Estimates:
        """An estimate of each metric over the episodes of some tasks or of a goal.

        ``place`` numbers the stream of resamples.
        """
        estimates: dict[str, Estimate | None] = {}
        for metric, column in _STREAMS.items():
            if metric == "normalized" and self.normalization is None:
                continue
            found = (self._samples(own, metric) for own in groups)
            samples = [values for values in found if values is not None]
            if not samples:
                estimates[metric] = None
                continue
            if metric.startswith("success"):
                estimates[metric] = trimmed_rate(samples, trim, self.confidence)
                continue
            # Each has its own stream, so that no number depends on the order of access.
            key = (_BOOTSTRAP, place, column)
            rng = Generator(PCG64(SeedSequence(self.seed, spawn_key=key)))
            estimates[metric] = estimate(samples, trim, rng, self.confidence, self.resamples)
        return estimates

    def _samples(self, episodes: Sequence[Episode], metric: str) -> Values | None:
        """The independent values ``(n,)`` of a metric of a task's episodes; `None` without any."""
        name = "return" if metric == "normalized" else metric
        found = _samples(episodes, name)
        if found is None or name == metric or self.normalization is None:
            return found
        return self.normalization(episodes[0].task, found)

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that was followed, if there was one."""
        return None if self.provenance is None else self.provenance.protocol

    @cached_property
    def headline(self) -> dict[str, Estimate] | None:
        """The success rates that the protocol defines, by what they are averaged over.

        The first is the headline; keys are ``"tasks"``, ``"groups"`` or the name of a group. It is
        ``None`` without a protocol, or if episodes are missing.
        """
        protocol = self.protocol
        if protocol is None or len(self.episodes) != episodes_needed(protocol):
            return None
        if min(episode.number for episode in self.episodes) < protocol.adaptation_episodes:
            return None  # some are of adaptation
        samples = [
            by_unit(episodes, [float(succeeded(e, protocol)) for e in episodes])
            for episodes in map(self.of_task, self.tasks)
        ]
        return {
            name: mean_rate(samples, weights(self.tasks, name, protocol.groups), self.confidence)
            for name in (*protocol.means, *(group for group, _ in protocol.groups))
        }

    @property
    def action_chunk(self) -> int | None:
        """The number of executed actions per chunk; ``None`` for single actions."""
        return None if self.provenance is None else self.provenance.action_chunk

    @property
    def unit(self) -> str:
        """The unit that intervals are over: ``"episodes"``, or ``"trials"`` of them."""
        return "episodes" if self.episodes[0].trial is None else "trials"

    @property
    def has_success(self) -> bool:
        """Whether any episode records success."""
        return self.overall["mean"]["success_once"] is not None

    def __repr__(self) -> str:
        return f"<EvaluationResult: {len(self.episodes)} episodes of {len(self.tasks)} tasks>"

    def __str__(self) -> str:
        n, several = len(self.episodes), len(self.tasks) > 1
        rows = [(task, len(self.of_task(task)), found) for task, found in self.per_task.items()]
        over_all = [(name.replace("_", " "), n, found) for name, found in self.overall.items()]
        lines = table("task", rows + over_all * several, self.confidence)
        if several:
            lines.insert(1 + len(rows), "-" * len(lines[0]))
        kinds = f"bootstrap, {self.resamples} resamples"
        if self.has_success:
            lines.append("once, final: success rates at any and at the last step")
            kinds = f"Wilson for rates, {kinds}"
        if self.normalization is not None:
            lines.append("normalized: (return - low) / (high - low), not clipped")
            lines += textwrap.wrap(self.normalization.source, 78, initial_indent="  ")
        lines.append(f"{self.confidence:.0%}: intervals over {self.unit} ({kinds})")
        if self.action_chunk is not None:
            lines.append(f"action_chunk: {chunk_text(self.action_chunk)}")
        if self.note or self.authors:
            lines.append(_described_line(self.note, self.authors))
        if self.protocol is not None:
            lines += ["", *_protocol_lines(self.protocol, self.headline, n, self.confidence)]
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: estimates, ``episodes`` and the settings."""
        return {
            "format": self.FORMAT,
            "seed": self.seed,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "note": self.note,
            "authors": list(self.authors),
            "provenance": self.provenance and self.provenance.to_dict(),
            "normalization": self.normalization and self.normalization.to_dict(),
            "tasks": [
                {"task": task, "episodes": len(self.of_task(task)), **_plain(estimates)}
                for task, estimates in self.per_task.items()
            ],
            "overall": {name: _plain(estimates) for name, estimates in self.overall.items()},
            "headline": self.headline and _plain(self.headline),
            "episodes": [episode.to_dict() for episode in self.episodes],
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> EvaluationResult:
        found = data["episodes"]
        if not isinstance(found, list):
            raise ValueError(f"episodes must be a list, got {reprlib.repr(found)}")
        episodes = [Episode.from_dict(episode) for episode in found]
        given = data["provenance"]
        provenance = None if given is None else Provenance.from_dict(given)
        by = data["normalization"]
        return cls(
            episodes,
            data["seed"],
            data["confidence"],
            data["resamples"],
            provenance,
            data["note"],
            data["authors"],
            None if by is None else Normalization.from_dict(by),
        )

    def plot(self, path: str | Path, title: str = "", note: str = "") -> None:
        """Draws the success of every task with its interval.

        Without success, it draws the normalised return, or the return.

        Args:
            path: The image file; its suffix sets the format.
            title: The title.
            note: A line below the plot, such as ``"interrupted: 7 of 50 episodes"``.
        """
        intervals = f"lines: {self.confidence:.0%} intervals over {self.unit}"
        footer = f"{note}\n{intervals}" if note else intervals
        plot.draw_bars(Path(path), self.per_task, self.overall, title, footer)

    def plot_goals(self, path: str | Path, title: str = "") -> None:
        """Draws which goals succeed and which fail, in a panel per task, seen from above.

        Each goal has a line from the start position of the object; see
        `MetaWorldMTEnv.object_position` for the object of each class. In reach, the hand itself has
        to reach the goal, and there is no line. Success is defined by the protocol; without one, it
        is success at any step. Positions are read from environments that are rebuilt from the
        provenance and reset to each goal, which takes about 10 ms each.

        Args:
            path: The image file; its suffix sets the format.
            title: The title.

        Raises:
            DependencyNotInstalled: If Meta-World or matplotlib is not installed.
            ValueError: If the episodes are not Meta-World's or do not record success; or (a
                `VerificationError`) if the environments cannot be rebuilt or have other goals, or
                the goals of few-shot trials are continuous.
        """
        made = self.provenance
        if made is None or not self.has_success:
            what = "has no provenance" if made is None else "does not record success"
            raise ValueError(f"a plot of goals needs provenance and successes; this result {what}")
        where = find_goals(
            self.episodes,
            self.seed,
            made.episodes_per_task,
            spec=made.spec,
            protocol=made.protocol,
            digest=made.goals,
        )
        at = dict(zip(self.episodes, where, strict=True))
        tasks = {}
        for task in self.tasks:
            marks = []
            for own in self._by_goal(task).values():
                start, end = at[own[0]].start, at[own[0]].end
                first = None if start is None else (float(start[0]), float(start[1]))
                share = sum(self._succeeded(one) for one in own) / len(own)
                marks.append(plot.GoalMark(first, (float(end[0]), float(end[1])), share))
            tasks[task] = marks
        plot.draw_goals(Path(path), tasks, title)

    def _succeeded(self, episode: Episode) -> bool:
        """Whether an episode is a success, by its protocol or else at any step."""
        if self.protocol is None:
            return bool(episode.success_once)
        return succeeded(episode, self.protocol)


@dataclass(frozen=True, repr=False)
class FewShotResult(StoredResult):
    """The adaptation episodes of a policy, and its evaluation episodes afterwards.

    Intervals are over trials, because the episodes of a trial share a goal and an adapted policy.

    Args:
        adaptation: The episodes of adaptation. A policy whose ``adapt`` is called once has not yet
            adapted in any of them.
        evaluation: The episodes after adaptation.
        trials: The numbers that determine the episodes, if `few_shot_evaluate` ran them.

    Raises:
        ValueError: If there is a protocol, and ``trials`` are missing or not the protocol's.

    >>> import gymnasium, numpy as np
    >>> from mtwrappers import few_shot_evaluate
    >>> class Steady:
    ...     "Does the same before and after."
    ...     def begin_trial(self): pass
    ...     def adapt(self, paths): pass
    ...     def __call__(self, obs): return np.full((4, 2), 0.1)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, max_episode_steps=5)
    >>> result = few_shot_evaluate(Steady(), envs, trials=2, adaptation_episodes=1)
    >>> len(result.unadapted.episodes), len(result.evaluation.episodes), result.evaluation.unit
    (8, 24, 'trials')
    >>> result.evaluation.overall["mean"]["success_once"].value
    0.0
    """

    FORMAT = "mtwrappers.FewShotResult/7"

    adaptation: EvaluationResult
    evaluation: EvaluationResult
    trials: Trials | None = None

    def __post_init__(self) -> None:
        protocol = self.evaluation.protocol
        if protocol is None:
            return
        if self.trials is None:
            raise ValueError(f"a result of {protocol.name} says how its trials were run")
        check_given(protocol, "few_shot_evaluate", self.trials.arguments)

    def described(
        self, *, note: str | None = None, authors: Sequence[str] | None = None
    ) -> FewShotResult:
        """The same result with another note or other authors; see `EvaluationResult.described`.

        Raises:
            TypeError, ValueError: As in `EvaluationResult.described`.
        """
        return replace(self, evaluation=self.evaluation.described(note=note, authors=authors))

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All episodes, adaptation first."""
        return (*self.adaptation.episodes, *self.evaluation.episodes)

    @cached_property
    def by_episode(self) -> tuple[EvaluationResult, ...]:
        """A result for each episode number of the trials: the first is before any adaptation."""
        both = self.episodes
        settings = (self.evaluation.seed, self.evaluation.confidence, self.evaluation.resamples)
        places: dict[int, list[Episode]] = {}
        for episode in both:
            places.setdefault(episode.number, []).append(episode)
        return tuple(EvaluationResult(places[place], *settings) for place in sorted(places))

    @cached_property
    def unadapted(self) -> EvaluationResult:
        """The episodes before any adaptation, to `compare` with later ones.

        For a policy with ``adapt``, these are the episodes before its first call, otherwise the
        first of each trial. They have no evidence, because that covers all episodes.
        """
        first = 1
        if self.trials is not None and self.trials.adapts:
            first = self.trials.adaptation_episodes
        of = self.evaluation
        provenance = of.provenance and replace(of.provenance, evidence=None)
        before = [episode for episode in self.adaptation.episodes if episode.number < first]
        return EvaluationResult(before, of.seed, of.confidence, of.resamples, provenance)

    @property
    def adaptation_length(self) -> int:
        """The number of adaptation episodes in `by_episode`."""
        return len({episode.number for episode in self.adaptation.episodes})

    def __str__(self) -> str:
        what = ["adaptation"] * self.adaptation_length + ["evaluation"] * len(self.by_episode)
        rows = [
            (f"{what[i]}, episode {i + 1}", len(step.episodes), step.overall["mean"])
            for i, step in enumerate(self.by_episode)
        ]
        steps = table("mean over tasks", rows, self.evaluation.confidence)
        return "\n".join(["after adaptation:", str(self.evaluation), "", *steps])

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        steps = [step.to_dict() for step in self.by_episode]
        return {
            "format": self.FORMAT,
            "trials": self.trials and self.trials.to_dict(),
            "adaptation": self.adaptation.to_dict(),
            "evaluation": self.evaluation.to_dict(),
            "by_episode": [{key: step[key] for key in ("tasks", "overall")} for step in steps],
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> FewShotResult:
        before, after = (
            EvaluationResult.from_dict(data[key]) for key in ("adaptation", "evaluation")
        )
        trials = data["trials"]
        return cls(before, after, None if trials is None else Trials.from_dict(trials))

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws success (or return) by episode of the trial, for each task and on average.

        Args:
            path: The image file; its suffix sets the format.
            title: The title.
        """
        metric = "success_once" if self.evaluation.has_success else "return"
        means = [step.overall["mean"][metric] for step in self.by_episode]
        curves = {
            task: [step.per_task.get(task, {}).get(metric) for step in self.by_episode]
            for task in self.evaluation.tasks
        }
        plot.draw_curves(Path(path), metric, curves, means, self.adaptation_length, title)


AnyResult: TypeAlias = EvaluationResult | FewShotResult


def chunk_text(action_chunk: int | None) -> str:
    """The number of executed actions per chunk, for display."""
    if action_chunk is None:
        return "no chunks of actions"
    return f"{action_chunk} action{'s' * (action_chunk > 1)} of each chunk executed"


def check_confidence(confidence: Any) -> None:
    """Raises `ValueError` unless it is a number strictly between 0 and 1."""
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")


def _text(value: Any, what: str, least: int, most: int) -> str:
    """Checks that a text has ``least`` to ``most`` printable characters."""
    if not is_printable(check_string(value, what)) or not least <= len(value) <= most:
        raise ValueError(
            f"{what} must be {least} to {most} printable characters, got "
            f"'{printable(value, 100)}' ({len(value)} characters)"
        )
    return str(value)


def _authors(value: Any) -> tuple[str, ...]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"authors must be a list of names, got {reprlib.repr(value)}")
    if len(value) > _MAX_AUTHORS:
        raise ValueError(f"there may be at most {_MAX_AUTHORS} authors, got {len(value)}")
    return tuple(_text(name, "the name of an author", 1, _MAX_AUTHOR) for name in value)


def _described_line(note: str, authors: Sequence[str]) -> str:
    """The authors and the note, truncated to 80 columns."""
    parts = {"by": ", ".join(authors), "note": note}
    line = "; ".join(f"{head}: {text}" for head, text in parts.items() if text)
    return line if len(line) <= 80 else f"{line[:77]}..."


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
    if result.provenance is None or one.provenance is None:
        return
    ours, theirs = _terms(result.provenance), _terms(one.provenance)
    for what in (*ours, *theirs):
        if ours.get(what) != theirs.get(what):
            raise ValueError(
                f"the {name} reference was measured in another way: its {what} is "
                f"{reprlib.repr(theirs.get(what))}, not {reprlib.repr(ours.get(what))}"
            )


def _terms(of: Provenance) -> dict[str, Any]:
    """The settings that must be equal for returns to be compared."""
    env_id, kwargs = determining(of.spec) if of.spec else (None, {})
    counts = ("num_envs", "envs_per_task")  # they do not affect returns
    return {
        "protocol": of.protocol and of.protocol.label,
        "max_episode_steps of the evaluation": of.max_episode_steps,
        "id": env_id,
        **{name: value for name, value in kwargs.items() if name not in counts},
    }


def _mean_return(result: EvaluationResult, task: str) -> float:
    found = result.per_task[task]["return"]
    assert found is not None  # every episode has one
    return found.value


def _reference(result: EvaluationResult) -> Reference:
    if (of := result.provenance) is None:
        return Reference(None, None)
    return Reference(of.policy, of.evidence)


def _samples(episodes: Sequence[Episode], name: str) -> Values | None:
    """The independent values ``(n,)`` of a metric, or ``None`` where no episode has it.

    Episodes of one trial share a goal and an adapted policy, so they count as one value, their
    mean. An episode that does not record success counts as a failure if other episodes record it.
    """
    values = [episode.metric(name) for episode in episodes]
    if all(value is None for value in values):
        return None
    return by_unit(episodes, [value or 0.0 for value in values])


def by_unit(episodes: Sequence[Episode], values: Sequence[float]) -> Values:
    """The mean of each trial, or the values unchanged if there are no trials."""
    units: dict[Any, list[float]] = {}
    for i, (episode, value) in enumerate(zip(episodes, values, strict=True)):
        unit = ("episode", i) if episode.trial is None else ("trial", episode.trial)
        units.setdefault(unit, []).append(value)
    return np.array([np.mean(unit) for unit in units.values()], dtype=np.float64)


def _plain(estimates: Estimates) -> dict[str, Any]:
    return {metric: found and asdict(found) for metric, found in estimates.items()}


def table(head: str, rows: Sequence[tuple[str, int, Estimates]], confidence: float) -> list[str]:
    """Formats rows of estimates as lines, in 80 columns for all of Meta-World's classes.

    Success rates have intervals, and so do returns if no success is recorded. Metrics that no row
    has are left out.

    A row is a label, the number of episodes, and the estimates; ``head`` is the head of the labels.
    """
    known = [m for m in _HEADS if any(found.get(m) is not None for _, _, found in rows)]
    no_success = known[0] == "return"
    columns = [["n", *(str(n) for _, n, _ in rows)]]
    for metric in known:
        scored = metric in ("return", "normalized") and no_success
        with_interval = scored or metric.startswith("success")
        title = f"{_HEADS[metric]} ({confidence:.0%})" if with_interval else _HEADS[metric]
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
    protocol: Protocol, found: Mapping[str, Estimate] | None, episodes: int, confidence: float
) -> list[str]:
    """The lines below a table: the protocol with its score, or that episodes are missing."""
    where, success = conditions(protocol)
    head = [f"protocol {protocol.label}", f"on {where}: success {success}"]
    if found is None:
        return [*head, f"no score: {episodes} of {episodes_needed(protocol)} episodes"]
    return [*head, *headline_lines(found, confidence)]


def conditions(protocol: Protocol) -> tuple[str, str]:
    """The tasks of a protocol, and its definition of success, for display."""
    when = {"any": "at any step", "last": "at the last step"}
    of_class = f" {protocol.env_name}" if protocol.env_name else ""
    where = f"{protocol.benchmark}{'-test' * (protocol.kind == 'test')}{of_class}"
    return where, when.get(protocol.success, f"held for {protocol.held_for} steps")


def headline_lines(found: Mapping[str, Estimate], confidence: float) -> list[str]:
    """The means of a headline with their intervals, a line each."""
    lines = []
    for name, mean in found.items():
        label = f"mean over {name}" if name in ("tasks", "groups") else f"  {name}"
        ends = ""
        if mean.low is not None and mean.high is not None:
            ends = f"  {mean.low:.3f} to {mean.high:.3f} ({100 * confidence:g}%)"
        lines.append(f"{label:<18}{mean.value:.3f}{ends}")
    return lines
