"""What an evaluation found: numbers with intervals, as a table, JSON or a plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.checks import positive
from mtwrappers.evaluation.episodes import METRICS, Episode, samples_of
from mtwrappers.evaluation.statistics import (
    Estimate,
    Statistic,
    estimate,
    interquartile_mean,
    mean_of_means,
)
from mtwrappers.evaluation.stored import StoredResult
from mtwrappers.evaluation.table import result_table
from mtwrappers.seeding import check_seed

AGGREGATES: dict[str, Statistic] = {
    "mean": mean_of_means,
    "interquartile_mean": interquartile_mean,
}
Estimates = dict[str, "Estimate | None"]
# Keeps the bootstrap's streams apart from those that play episodes with the same seed.
_BOOTSTRAP = 1_000_003


@dataclass(frozen=True)
class EvaluationResult(StoredResult):
    """The episodes of an evaluation, and what they say of each task and of all.

    Intervals are percentile bootstrap intervals over the episodes (over the trials in few-shot
    evaluation) of *one* policy: they say how well these episodes know it, and nothing of how much
    another training run would differ. Metrics that no episode has, such as success where infos do
    not carry it, are ``None``. Returns are not normalised, so across tasks their aggregates say
    little where reward scales differ. Where all episodes are alike the interval has no width; that
    is no certainty: after ``n`` failures in ``n`` episodes, 95 % confidence still allows a rate of
    ``3 / n``.

    Args:
        episodes: Every episode that counts.
        seed: Determines the resamples.
        confidence: How likely an interval covers the truth, in (0, 1).
        resamples: How many bootstrap resamples.

    Raises:
        ValueError: If there is no episode, or a number is out of range.

    >>> from mtwrappers.evaluation.episodes import Episode
    >>> result = EvaluationResult([Episode("reach", i, 2.0 * i, 5, i > 0, False) for i in range(4)])
    >>> print(result)
    task   episodes       success_once      success_final          return  length
    reach         4  0.75 [0.25, 1.00]  0.00 [0.00, 0.00]  3.0 [1.0, 5.0]     5.0
    [95% bootstrap intervals over episodes, 2000 resamples]
    """

    FORMAT = "mtwrappers.EvaluationResult/1"

    episodes: Sequence[Episode]
    seed: int = 0
    confidence: float = 0.95
    resamples: int = 2000
    tasks: tuple[str, ...] = field(init=False, compare=False, default=())

    def __post_init__(self) -> None:
        object.__setattr__(self, "episodes", tuple(self.episodes))
        if not self.episodes:
            raise ValueError("an evaluation needs at least one episode, got none")
        check_confidence(self.confidence)
        object.__setattr__(self, "seed", check_seed(self.seed))
        object.__setattr__(self, "resamples", positive(self.resamples, "resamples"))
        names = dict.fromkeys(episode.task for episode in self.episodes)
        object.__setattr__(self, "tasks", tuple(names))

    def of_task(self, task: str) -> tuple[Episode, ...]:
        """The episodes of a task, in their order.

        Raises:
            ValueError: If there is no such task.
        """
        if task not in self.tasks:
            raise ValueError(f"task must be one of {list(self.tasks)}, got {task!r}")
        own = (episode for episode in self.episodes if episode.task == task)
        return tuple(sorted(own, key=lambda e: (-1 if e.trial is None else e.trial, e.number)))

    @cached_property
    def per_task(self) -> dict[str, Estimates]:
        """The mean of each metric of each task, by the task's name and the metric's."""
        return {
            task: {
                metric: self._estimate([task], metric, mean_of_means, (i, j))
                for j, metric in enumerate(METRICS)
            }
            for i, task in enumerate(self.tasks)
        }

    @cached_property
    def overall(self) -> dict[str, Estimates]:
        """``"mean"`` (of the tasks' means) and ``"interquartile_mean"`` (of all episodes together).

        Both with stratified intervals: episodes are drawn again within each task (Agarwal et al.
        2021, arXiv:2108.13264).
        """
        return {
            name: {
                metric: self._estimate(self.tasks, metric, statistic, (len(self.tasks) + i, j))
                for j, metric in enumerate(METRICS)
            }
            for i, (name, statistic) in enumerate(AGGREGATES.items())
        }

    def _estimate(
        self, tasks: Sequence[str], metric: str, statistic: Statistic, key: tuple[int, int]
    ) -> Estimate | None:
        found = [samples_of(self.of_task(task), metric) for task in tasks]
        samples = [values for values in found if values is not None]
        if not samples:
            return None
        # A stream of its own, so that no number depends on which was asked for first.
        sequence = SeedSequence(self.seed, spawn_key=(_BOOTSTRAP, *key))
        rng = Generator(PCG64(sequence))
        return estimate(samples, statistic, rng, self.confidence, self.resamples)

    def __str__(self) -> str:
        return result_table(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON: ``tasks``, ``overall``, ``episodes`` and the settings."""
        return {
            "format": self.FORMAT,
            "seed": self.seed,
            "confidence": self.confidence,
            "resamples": self.resamples,
            "tasks": [
                {"task": task, "episodes": len(self.of_task(task)), **_plain(estimates)}
                for task, estimates in self.per_task.items()
            ],
            "overall": {name: _plain(estimates) for name, estimates in self.overall.items()},
            "episodes": [asdict(episode) for episode in self.episodes],
        }

    @classmethod
    def _of_dict(cls, data: Mapping[str, Any]) -> EvaluationResult:
        episodes = [Episode(**episode) for episode in data["episodes"]]
        return cls(episodes, data["seed"], data["confidence"], data["resamples"])

    def plot(self, path: str | Path, title: str = "") -> None:
        """Draws the success of every task with its interval, or the return where there is none.

        Args:
            path: Where to write the image; its suffix says which kind.
            title: Above the plot.

        Raises:
            DependencyNotInstalled: If matplotlib is not installed.
        """
        from mtwrappers.evaluation.plot import draw_result

        draw_result(self, Path(path), title)


def check_confidence(confidence: Any) -> None:
    """Checks the coverage of an interval.

    Raises:
        ValueError: If it is no number strictly between 0 and 1.
    """
    if isinstance(confidence, bool) or not isinstance(confidence, (int, float)):
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {confidence!r}")


def _plain(estimates: Estimates) -> dict[str, Any]:
    return {
        metric: None if estimate is None else asdict(estimate)
        for metric, estimate in estimates.items()
    }
