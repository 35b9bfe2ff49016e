"""The record of an episode: while it runs, and when it has ended."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.plan import PlannedEpisode

METRICS = ("success_once", "success_final", "return", "length")
# When an episode counts as a success: if any step was one, if the last step was one, or if so many
# consecutive steps were.
SuccessRule: TypeAlias = Literal["any", "last"] | int
# The second key is used by Stable-Baselines3 and robotics environments.
SUCCESS_KEYS = ("success", "is_success")


@dataclass(frozen=True)
class Episode:
    """The record of one complete episode.

    Args:
        task: The name of the task.
        number: The index of the episode within its task (or trial), from 0.
        episode_return: The undiscounted sum of rewards.
        length: The number of steps.
        success_once: Whether any step was a success; ``None`` if infos do not report success.
        success_final: Whether the last step was a success; ``None`` likewise.
        task_state: The task state of the episode, if the evaluation chose it.
        trial: The trial of the episode in few-shot evaluation, else ``None``.
        steps_to_success: The number of steps to the first success; ``None`` without a success.
        longest_success: The largest number of consecutive steps of success; ``None`` if infos do
            not report success.

    >>> from mtwrappers.evaluation import Episode
    >>> episode = Episode("reach-v3", 0, 812.5, 500, success_once=True, success_final=False)
    >>> episode.metric("success_once"), episode.metric("return"), episode.length
    (1.0, 812.5, 500)
    """

    task: str
    number: int
    episode_return: float
    length: int
    success_once: bool | None = None
    success_final: bool | None = None
    task_state: int | None = None
    trial: int | None = None
    steps_to_success: int | None = None
    longest_success: int | None = None

    @property
    def place(self) -> tuple[str, int | None, int]:
        """The task, the trial and the number, which no two episodes of an evaluation share."""
        return self.task, self.trial, self.number

    def metric(self, name: str) -> float | None:
        """Returns one of `METRICS` as a number, or ``None``."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


def is_success(episode: Episode, rule: SuccessRule) -> bool:
    """Whether an episode counts as a success; one whose infos report none does not."""
    if isinstance(rule, int):
        return (episode.longest_success or 0) >= rule
    return bool(episode.success_once if rule == "any" else episode.success_final)


def reporting_tasks(episodes: Iterable[Episode]) -> frozenset[str]:
    """The tasks of which an episode reports success."""
    return frozenset(episode.task for episode in episodes if episode.success_once is not None)


def with_failures(episodes: Iterable[Episode], tasks: Collection[str]) -> tuple[Episode, ...]:
    """The episodes, of which those of ``tasks`` that report no success record a failure.

    It is for episodes that alone may not show that these tasks report success.
    """
    failure: dict[str, Any] = {"success_once": False, "success_final": False, "longest_success": 0}
    return tuple(
        replace(episode, **failure)
        if episode.success_once is None and episode.task in tasks
        else episode
        for episode in episodes
    )


def identify_goal(episode: Episode, drawn: bool) -> int:
    """The goal of an episode: its task state, or if it is new, the number of episode or trial."""
    if episode.task_state is not None and not drawn:
        return episode.task_state
    return episode.number if episode.trial is None else episode.trial


class EpisodeRecord:
    """The record of an episode while it runs.

    ``actions`` is for its actions, if they are recorded.

    Args:
        planned: The episode.
        i: The index of its environment among all, for errors.
    """

    def __init__(self, planned: PlannedEpisode, i: int = 0) -> None:
        self._planned, self._i = planned, i
        self.actions: list[NDArray[Any]] = []
        self._return = 0.0
        self._successes: list[bool | None] = []  # of each step; None if infos do not report it

    def add(self, reward: float, infos: Mapping[str, Any]) -> None:
        """Adds a step with its infos, of which `SUCCESS_KEYS` are read.

        Raises:
            ValueError: If the success is neither a bool nor 0 or 1.
        """
        self._return += float(reward)
        self._successes.append(self._success(infos) if infos else None)

    def _success(self, infos: Mapping[str, Any]) -> bool | None:
        for key in SUCCESS_KEYS:
            value = infos.get(key)
            value = value.item() if isinstance(value, np.generic) else value
            if value is None:
                continue
            if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                raise ValueError(
                    f"info[{key!r}] must be a bool, 0 or 1, got {value!r} from {self._where}"
                )
            return bool(value)
        return None

    @property
    def _where(self) -> str:
        return f"environment {self._i}, task {self._planned.task!r}"

    def episode(self) -> Episode:
        """The episode, which has ended.

        Raises:
            ValueError: If its return is not finite.
        """
        if not math.isfinite(self._return):
            raise ValueError(
                f"rewards must be finite, got a return of {self._return} from {self._where}"
            )
        planned, steps = self._planned, self._successes
        # In an episode that reports success, a step that does not is no success.
        reports = any(success is not None for success in steps)
        runs = [len([*run]) for success, run in itertools.groupby(steps) if success]
        return Episode(
            planned.task,
            planned.number,
            self._return,
            len(steps),
            success_once=bool(runs) if reports else None,
            success_final=bool(steps[-1]) if reports else None,
            task_state=planned.task_state,
            trial=planned.trial,
            steps_to_success=steps.index(True) + 1 if runs else None,
            longest_success=max(runs, default=0) if reports else None,
        )
