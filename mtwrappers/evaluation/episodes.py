"""The record of an episode: while it runs, and when it has ended."""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from types import NoneType
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_success
from mtwrappers.common.errors import short
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
        trial: The number of the trial in few-shot evaluation, else ``None``. Each trial of each
            task (or environment, without ``adapt``) has its own number: with 20 tasks, the first
            trials have 0 to 19, and the second ones 20 to 39.
        steps_to_success: The number of steps to the first success; ``None`` without a success.
        longest_success: The largest number of consecutive steps of success; ``None`` if infos do
            not report success.

    Scalars of NumPy are converted to Python's.

    Raises:
        TypeError: If a value has another type.
        ValueError: If the return is not finite, the length less than 1, the number negative, or
            only one of ``success_once`` and ``success_final`` ``None``.

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

    def __post_init__(self) -> None:
        types = map(type, _list_values(self))
        # Nearly all episodes are from a file or an evaluation, where nothing is to be converted.
        if not all(map(operator.contains, _FIELD_TYPES.values(), types)):
            self._convert_fields()
        if not math.isfinite(self.episode_return):
            raise ValueError(f"episode_return must be finite, got {self.episode_return}")
        if self.length < 1:
            raise ValueError(f"length must be 1 or more, got {self.length}")
        if self.number < 0:
            raise ValueError(f"number must be 0 or more, got {self.number}")
        if (self.success_once is None) != (self.success_final is None):
            raise ValueError(
                "success_once and success_final must both be None or neither, got "
                f"{self.success_once} and {self.success_final}"
            )

    def _convert_fields(self) -> None:
        """Converts NumPy scalars to Python's, which JSON has; raises `TypeError` for the rest."""
        for name, types in _FIELD_TYPES.items():
            value = getattr(self, name)
            if isinstance(value, np.generic):
                value = value.item()
                object.__setattr__(self, name, value)
            if type(value) not in types:
                expected = " or ".join("None" if t is NoneType else t.__name__ for t in types)
                raise TypeError(f"{name} must be of the type {expected}, got {value!r}")

    @property
    def place(self) -> tuple[str, int | None, int]:
        """The task, the trial and the number, which no two episodes of an evaluation share."""
        return self.task, self.trial, self.number

    def metric(self, name: str) -> float | None:
        """Returns one of `METRICS` as a number, or ``None``.

        Raises:
            ValueError: If there is no such metric.
        """
        check_choice(name, METRICS, "metric")
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


_OPTIONAL_BOOL, _OPTIONAL_INT = (bool, NoneType), (int, NoneType)
# The types of each field of an episode, in the order of the fields.
_FIELD_TYPES: dict[str, tuple[type, ...]] = {
    "task": (str,),
    "number": (int,),
    "episode_return": (float, int),
    "length": (int,),
    "success_once": _OPTIONAL_BOOL,
    "success_final": _OPTIONAL_BOOL,
    "task_state": _OPTIONAL_INT,
    "trial": _OPTIONAL_INT,
    "steps_to_success": _OPTIONAL_INT,
    "longest_success": _OPTIONAL_INT,
}
# Not `vars`, which would give each episode a dict and so make loading slower.
_list_values = operator.attrgetter(*_FIELD_TYPES)


def label_episode(episode: Episode) -> str:
    """The task, the trial and the number of an episode, for display."""
    trial = "" if episode.trial is None else f"trial {episode.trial}, "
    return f"{episode.task!r}, {trial}episode {episode.number}"


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
            if (value := infos.get(key)) is None:
                continue
            try:
                return check_success(value, f"info[{key!r}]")
            except ValueError as exc:
                raise ValueError(f"{exc} from {self._where}") from None
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


def describe_copies(episodes: Iterable[Episode]) -> str:
    """A sentence about tasks whose episodes are copies of others, or ``""``.

    Where resets depend on the goal alone, as on Meta-World, a deterministic policy repeats its
    episode if a goal is drawn again. Trials of few-shot evaluation repeat their goals on purpose.
    """
    by_task: dict[str, list[Episode]] = {}
    for episode in episodes:
        if episode.trial is None:
            by_task.setdefault(episode.task, []).append(episode)
    num_goals: dict[str, int] = {}  # of each task whose episodes are copies
    for task, task_episodes in by_task.items():
        goals = {episode.task_state for episode in task_episodes}
        outcomes = {(e.task_state, e.episode_return, e.length) for e in task_episodes}
        if 1 < len(goals) == len(outcomes) < len(task_episodes):
            num_goals[task] = len(goals)
    if not num_goals:
        return ""
    fewest, most = min(num_goals.values()), max(num_goals.values())
    numbers = f"{fewest}" if fewest == most else f"{fewest} to {most}"
    return (
        f"the episodes of {short([*num_goals])} are copies of those on {numbers} goals, which "
        "intervals count as independent: evaluate each goal once"
    )
