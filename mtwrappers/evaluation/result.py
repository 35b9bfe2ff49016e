"""Results of evaluations: numbers with intervals, as a table, JSON or a plot, and their origin."""

from __future__ import annotations

import abc
import functools
import json
import platform
import reprlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, TypeAlias, TypeVar

import numpy as np
from gymnasium.vector import VectorObservationWrapper, VectorWrapper
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_name, positive
from mtwrappers.common.errors import printable
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation import plot
from mtwrappers.evaluation.episodes import METRICS, Episode, Trials
from mtwrappers.evaluation.protocol import (
    Protocol,
    check_given,
    episodes_needed,
    succeeded,
    weights,
)
from mtwrappers.evaluation.statistics import (
    Estimate,
    Estimates,
    Values,
    estimate,
    mean_rate,
    trimmed_rate,
)
from mtwrappers.state.files import load_json, write_atomically
from mtwrappers.vector.calls import read_only
from mtwrappers.wrappers.normalize_observation import VectorNormalizeObservationPerTask
from mtwrappers.wrappers.normalize_reward import VectorNormalizeRewardPerTask
from mtwrappers.wrappers.rl2 import VectorRL2Observation

# Whatever takes part in an episode's numbers.
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


def _is_spec(value: Any) -> bool:
    is_of_two = isinstance(value, dict) and value.keys() == {"id", "kwargs"}
    return is_of_two and isinstance(value["id"], str) and isinstance(value["kwargs"], dict)


# Whether a value from a file may stand in a field.
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
}


@dataclass(frozen=True)
class Provenance:
    """The origin of a result. With the actions, it is all that a replay needs.

    Args:
        episodes_per_task: As `evaluate` was given it, like ``tasks`` and ``max_episode_steps``.
        versions: Of Python and of all packages that take part, by name.
        tasks: Names of tasks, or ``None`` for all.
        max_episode_steps: When episodes were cut, or ``None``.
        spec: The ``id`` and the ``kwargs`` of the environments'
            `gymnasium.envs.registration.EnvSpec`, as JSON has them; ``None`` where they have none,
            or a wrapper around them changes actions or rewards. Such a result can be verified only
            with environments that are made by hand.
        goals: A digest of the goals that the environments can be given, if there is a list.
        protocol: The protocol that was followed, if there was one.
        policy: The policy's name.
        evidence: The SHA-256 of all actions, if they were kept.
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
            TypeError, ValueError: If the policy's name is no string that can be printed.
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
        """The provenance that `to_dict` described, as it is read from a file.

        Raises:
            ValueError: If it is anything else.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(data, dict) or set(data) != names:
            raise ValueError(f"expected provenance with {sorted(names)}, got {reprlib.repr(data)}")
        for name, value in data.items():
            if not _IS[name](value):
                raise ValueError(f"{name} of the provenance cannot be {reprlib.repr(value)}")
        return cls(**{**data, "protocol": _protocol_of(data["protocol"])})


def _protocol_of(data: Mapping[str, Any] | None) -> Protocol | None:
    """A protocol from a file, which must name all of its fields."""
    if data is None:
        return None
    protocol = Protocol.from_dict(data)
    if missing := sorted(protocol.to_dict().keys() - data.keys()):
        raise ValueError(f"the protocol {protocol.name} is without its {missing[0]}")
    return protocol


def versions() -> dict[str, str]:
    """The versions of Python and of `PACKAGES`, of those that are installed."""
    found = {name: _version(name) for name in PACKAGES}
    known = {name: text for name, text in found.items() if text is not None}
    return {"python": platform.python_version(), **known}


@functools.cache
def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:  # Meta-World, where others' environments are evaluated on
        return None


def goals_of(envs: Any) -> str | None:
    """A digest of the goals that environments can be given, if there is a list."""
    digest: str | None = envs.unwrapped.call_some([0], _goals)[0]
    return digest


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


@read_only
def _goals(env: Any) -> str | None:
    """A digest of the goals of an environment; runs where the environment is."""
    digest: str | None = getattr(env.unwrapped, "goals_digest", None)
    return digest


# How much of the tasks each leaves out at either end.
AGGREGATES = {"mean": 0.0, "interquartile_mean": 0.25}
# What is read of a result's file, in bytes.
MAX_SIZE = 2**28
# Keeps the bootstrap's streams apart from those of episodes with the same seed.
_BOOTSTRAP = 1_000_003
# The columns of a table.
_HEADS = {"success_once": "once", "success_final": "final", "return": "return", "length": "steps"}
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
            ValueError: If it is of another format, such as that of an earlier version.
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
        """Writes `to_dict` as JSON, or leaves the file that is there as it was.

        Raises:
            OSError: If it cannot be written, or is there and not a regular file.
        """
        write_atomically(path, f"{json.dumps(self.to_dict(), indent=2)}\n".encode())

    @classmethod
    def load(cls: type[Result], path: str | Path) -> Result:
        """Reads what `save` wrote.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is something else.
        """
        try:
            data = load_json(path, MAX_SIZE)
        except ValueError as exc:
            said = printable(f"{path} is none: {exc}")
            raise ValueError(f"expected an evaluation in JSON, {said}") from None
        return cls.from_dict(data)


@dataclass(frozen=True, repr=False)
class EvaluationResult(StoredResult):
    """The episodes of an evaluation, and what they say of each task and of all.

    Intervals are over the episodes (over the trials in few-shot evaluation) of *one* policy: they
    say how precisely it was measured, not how much another training run would differ from it.
    Success rates have Wilson intervals, those of several tasks or trials at their effective number,
    and returns and lengths percentile bootstrap intervals; how often each covers the truth is
    in the docs (Scores). Metrics that no episode has, such as success where infos do not
    carry it, are ``None``. Returns are not normalised, so across tasks their aggregates say little
    where reward scales differ.

    Args:
        episodes: Every episode that counts.
        seed: Determines the resamples.
        confidence: How likely an interval covers the truth, in (0, 1).
        resamples: How many bootstrap resamples.
        provenance: Where the episodes come from, as `evaluate` notes it. Results are equal whatever
            it is.

    Raises:
        TypeError: If the episodes are no sequence of `Episode`, or the seed is no integer.
        ValueError: If there is no episode, or a number is out of range.

    >>> from mtwrappers.evaluation import Episode
    >>> result = EvaluationResult([Episode("reach", i, 2.0 * i, 5, i > 0, False) for i in range(4)])
    >>> print(result)
    task  n      once (95%)     final (95%)  return  steps
    reach 4  0.75 0.30-0.95  0.00 0.00-0.49     3.0    5.0
    once, final: success rates at any and at the last step
    95%: intervals over episodes (Wilson for rates, bootstrap, 2000 resamples)
    """

    FORMAT = "mtwrappers.EvaluationResult/4"

    episodes: Sequence[Episode]
    seed: int = 0
    confidence: float = 0.95
    resamples: int = 2000
    provenance: Provenance | None = field(default=None, compare=False, repr=False)

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
        """The episodes of a task, in their order.

        Raises:
            ValueError: If there is no such task.
        """
        if task not in self._by_task:
            raise ValueError(f"task must be one of {list(self.tasks)}, got {task!r}")
        return self._by_task[task]

    @cached_property
    def per_task(self) -> dict[str, Estimates]:
        """The mean of each metric of each task, by the task's name and the metric's."""
        return {task: self._estimates([task], 0.0, i) for i, task in enumerate(self.tasks)}

    @cached_property
    def overall(self) -> dict[str, Estimates]:
        """``"mean"`` and ``"interquartile_mean"`` of the tasks' means, by the metric's name.

        The interquartile mean leaves out a quarter of the tasks at either end.
        """
        return {
            name: self._estimates(self.tasks, trim, len(self.tasks) + i)
            for i, (name, trim) in enumerate(AGGREGATES.items())
        }

    def _estimates(self, tasks: Sequence[str], trim: float, place: int) -> Estimates:
        """An estimate of each metric over some tasks; ``place`` numbers the stream of resamples."""
        estimates: dict[str, Estimate | None] = {}
        for column, metric in enumerate(METRICS):
            found = (_samples(self.of_task(task), metric) for task in tasks)
            samples = [values for values in found if values is not None]
            if not samples:
                estimates[metric] = None
                continue
            if metric.startswith("success"):
                estimates[metric] = trimmed_rate(samples, trim, self.confidence)
                continue
            # A stream each, so that no number depends on which was asked for first.
            rng = Generator(PCG64(SeedSequence(self.seed, spawn_key=(_BOOTSTRAP, place, column))))
            estimates[metric] = estimate(samples, trim, rng, self.confidence, self.resamples)
        return estimates

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that was followed, if there was one."""
        return None if self.provenance is None else self.provenance.protocol

    @cached_property
    def headline(self) -> dict[str, Estimate] | None:
        """The success rates that the protocol asks for, by what they are averaged over.

        The first is the headline; ``"tasks"``, ``"groups"`` or the name of a group. ``None``
        without a protocol, or where not all of its episodes are there.
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
    def unit(self) -> str:
        """The unit that intervals are over: ``"episodes"``, or ``"trials"`` of them."""
        return "episodes" if self.episodes[0].trial is None else "trials"

    @property
    def has_success(self) -> bool:
        """Whether any episode says whether it succeeded."""
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
        lines.append(f"{self.confidence:.0%}: intervals over {self.unit} ({kinds})")
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
            "provenance": self.provenance and self.provenance.to_dict(),
            "tasks": [
                {"task": task, "episodes": len(self.of_task(task)), **_plain(estimates)}
                for task, estimates in self.per_task.items()
            ],
            "overall": {name: _plain(estimates) for name, estimates in self.overall.items()},
            "headline": self.headline and _plain(self.headline),
            "episodes": [asdict(episode) for episode in self.episodes],
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> EvaluationResult:
        found = data["episodes"]
        if not isinstance(found, list):
            raise ValueError(f"episodes must be a list, got {reprlib.repr(found)}")
        episodes = [Episode.from_dict(episode) for episode in found]
        given = data["provenance"]
        provenance = None if given is None else Provenance.from_dict(given)
        return cls(episodes, data["seed"], data["confidence"], data["resamples"], provenance)

    def plot(self, path: str | Path, title: str = "", note: str = "") -> None:
        """Draws the success of every task with its interval, or the return where there is none.

        Args:
            path: Where to write the image; its suffix says which kind.
            title: Above the plot.
            note: Below it, such as ``"interrupted: 7 of 50 episodes"``.
        """
        intervals = f"lines: {self.confidence:.0%} intervals over {self.unit}"
        footer = f"{note}\n{intervals}" if note else intervals
        plot.draw_bars(Path(path), self.per_task, self.overall, title, footer)


@dataclass(frozen=True, repr=False)
class FewShotResult(StoredResult):
    """The episodes that a policy adapted on, and those that it was then evaluated on.

    Intervals are over trials: the episodes of one trial share a goal and what was learnt.

    Args:
        adaptation: The episodes of adaptation. A policy whose ``adapt`` is called once has not yet
            adapted in any of them.
        evaluation: The episodes after it.
        trials: The numbers that decided which episodes were run, if `few_shot_evaluate` did.

    Raises:
        ValueError: If there is a protocol, and these are not its trials.
    """

    FORMAT = "mtwrappers.FewShotResult/5"

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

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """All episodes: those of adaptation, and then the others."""
        return (*self.adaptation.episodes, *self.evaluation.episodes)

    @cached_property
    def by_episode(self) -> tuple[EvaluationResult, ...]:
        """A result for each place in a trial: the first is before any adaptation."""
        both = self.episodes
        settings = (self.evaluation.seed, self.evaluation.confidence, self.evaluation.resamples)
        places: dict[int, list[Episode]] = {}
        for episode in both:
            places.setdefault(episode.number, []).append(episode)
        return tuple(EvaluationResult(places[place], *settings) for place in sorted(places))

    @cached_property
    def unadapted(self) -> EvaluationResult:
        """The episodes before any adaptation, to `compare` with those after it.

        With ``adapt`` these are the episodes until its first call, with a memory the first of each
        trial. They name no evidence, which is that of all episodes.
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
        """How many of `by_episode` are adaptation."""
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
            path: Where to write the image; its suffix says which kind.
            title: Above the plot.
        """
        metric = "success_once" if self.evaluation.has_success else "return"
        means = [step.overall["mean"][metric] for step in self.by_episode]
        curves = {
            task: [step.per_task.get(task, {}).get(metric) for step in self.by_episode]
            for task in self.evaluation.tasks
        }
        plot.draw_curves(Path(path), metric, curves, means, self.adaptation_length, title)


AnyResult: TypeAlias = EvaluationResult | FewShotResult


def check_confidence(confidence: Any) -> None:
    """Raises `ValueError` unless it is a number strictly between 0 and 1."""
    if not isinstance(confidence, (int, float)) or not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")


def _samples(episodes: Sequence[Episode], name: str) -> Values | None:
    """The independent values ``(n,)`` of a metric, or ``None`` where no episode has it.

    Episodes of one trial share their goal and what was learnt, so they count as one value: their
    mean. An episode that does not say whether it succeeded, among others that do, did not.
    """
    values = [episode.metric(name) for episode in episodes]
    if all(value is None for value in values):
        return None
    return by_unit(episodes, [value or 0.0 for value in values])


def by_unit(episodes: Sequence[Episode], values: Sequence[float]) -> Values:
    """The mean of each trial, or the values as they are where episodes stand alone."""
    units: dict[Any, list[float]] = {}
    for i, (episode, value) in enumerate(zip(episodes, values, strict=True)):
        unit = ("episode", i) if episode.trial is None else ("trial", episode.trial)
        units.setdefault(unit, []).append(value)
    return np.array([np.mean(unit) for unit in units.values()], dtype=np.float64)


def _plain(estimates: Estimates) -> dict[str, Any]:
    return {metric: found and asdict(found) for metric, found in estimates.items()}


def table(head: str, rows: Sequence[tuple[str, int, Estimates]], confidence: float) -> list[str]:
    """Rows of estimates as lines, in 80 columns for all of Meta-World's classes.

    Success rates have their intervals beside them, and returns where no success is known. Metrics
    that no row has get no column.

    A row is a label, how many episodes, and the estimates; ``head`` stands above the labels.
    """
    known = [m for m in _HEADS if any(found[m] is not None for _, _, found in rows)]
    columns = [["n", *(str(n) for _, n, _ in rows)]]
    for metric in known:
        with_interval = metric.startswith("success") or (metric == "return" and metric == known[0])
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

    def number(value: float) -> str:
        return f"{value:.{2 if rate else int(abs(value) < 1000)}f}"

    if not with_interval or found.low is None or found.high is None:
        return number(found.value)
    to = "-" if rate else " to "
    return f"{number(found.value)} {number(found.low)}{to}{number(found.high)}"


def _protocol_lines(
    protocol: Protocol, found: Mapping[str, Estimate] | None, episodes: int, confidence: float
) -> list[str]:
    """The lines below a table: the protocol and its numbers, or how many episodes are missing."""
    where, success = conditions(protocol)
    head = [f"protocol {protocol.label}", f"on {where}: success {success}"]
    if found is None:
        return [*head, f"no score: {episodes} of {episodes_needed(protocol)} episodes"]
    return [*head, *headline_lines(found, confidence)]


def conditions(protocol: Protocol) -> tuple[str, str]:
    """The tasks that a protocol measures on, and when an episode is a success, for people."""
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
