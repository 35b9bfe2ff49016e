"""What an evaluation found: numbers with intervals, as a table, JSON or a plot."""

from __future__ import annotations

import abc
import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import positive
from mtwrappers.common.errors import printable
from mtwrappers.common.seeding import check_seed
from mtwrappers.evaluation import headline, plot
from mtwrappers.evaluation.episodes import METRICS, Episode
from mtwrappers.evaluation.provenance import Provenance
from mtwrappers.evaluation.rules import Rules
from mtwrappers.evaluation.statistics import (
    Estimate,
    Estimates,
    Values,
    estimate,
    mean_rate,
    trimmed_rate,
)
from mtwrappers.state.files import load_json, write_atomically

# How much of the tasks each leaves out at either end.
AGGREGATES = {"mean": 0.0, "interquartile_mean": 0.25}
# What is read of a result's file, in bytes.
MAX_SIZE = 2**28
# Keeps the bootstrap's streams apart from those that play episodes with the same seed.
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
        provenance: What the episodes were played with, as `evaluate` notes it. Results are equal
            whatever it is.

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

    def _estimates(self, tasks: Sequence[str], trim: float, row: int) -> Estimates:
        """What is known of each metric of some tasks; ``row`` numbers the stream of resamples."""
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
            rng = Generator(PCG64(SeedSequence(self.seed, spawn_key=(_BOOTSTRAP, row, column))))
            estimates[metric] = estimate(samples, trim, rng, self.confidence, self.resamples)
        return estimates

    @property
    def protocol(self) -> Mapping[str, Any] | None:
        """The fields of the protocol that was played, if it was one."""
        return None if self.provenance is None else self.provenance.protocol

    @cached_property
    def headline(self) -> dict[str, Estimate] | None:
        """The success rates that the protocol asks for, by what they are averaged over.

        The first is the headline; ``"tasks"``, ``"groups"`` or the name of a group. ``None``
        without a protocol, or where not all of its episodes are there.
        """
        rules = self._rules
        if rules is None or len(self.episodes) != headline.episodes_needed(rules):
            return None
        if min(episode.number for episode in self.episodes) < rules.adaptation_episodes:
            return None  # some are of adaptation
        samples = [
            _by_unit(episodes, [float(headline.succeeded(e, rules)) for e in episodes])
            for episodes in map(self.of_task, self.tasks)
        ]

        def mean(weights: Values) -> Estimate:
            return mean_rate(samples, weights, self.confidence)

        return headline.headline(self.tasks, rules, mean)

    @cached_property
    def _rules(self) -> Rules | None:
        return None if self.protocol is None else Rules.from_dict(self.protocol)

    @property
    def unit(self) -> str:
        """What the intervals are over: ``"episodes"``, or ``"trials"`` of them."""
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
        if self._rules is not None:
            lines += ["", *headline.lines(self._rules, self.headline, n, self.confidence)]
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
    return _by_unit(episodes, [value or 0.0 for value in values])


def _by_unit(episodes: Sequence[Episode], values: Sequence[float]) -> Values:
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
        shown = metric.startswith("success") or (metric == "return" and metric == known[0])
        title = f"{_HEADS[metric]} ({confidence:.0%})" if shown else _HEADS[metric]
        columns.append([title, *(_cell(metric, found[metric], shown) for _, _, found in rows)])
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
