"""What an evaluation is made of: one record per episode, and who makes it from the steps."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.samplers.rollout import Flags, Step

# Whether a value from a file is of a field's type, in a size that arrays hold.
_IS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: type(value) is str,
    "float": lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
    "int": lambda value: type(value) is int and 0 <= value < 2**63,
    "int | None": lambda value: value is None or _IS["int"](value),
    "bool | None": lambda value: value is None or type(value) is bool,
}
METRICS = ("success_once", "success_final", "return", "length")
# The second is what Stable-Baselines3 and robotics environments call it.
SUCCESS_KEYS = ("success", "is_success")


@dataclass(frozen=True)
class Episode:
    """One whole episode.

    Args:
        task: The name of its task.
        number: Which of its task's (or its trial's) episodes it is, from 0.
        episode_return: The undiscounted sum of rewards.
        length: Steps.
        success_once: Whether any step was a success; ``None`` where infos do not say.
        success_final: Whether the last step was one.
        task_state: The task state that was played, where the evaluation chose it.
        trial: The trial it belongs to; ``None`` where every episode stands alone.
        steps_to_success: How many steps it took to the first success; ``None`` if there was none.
        longest_success: For how many steps in a row success lasted at most; ``None`` where infos
            do not say.
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

    @classmethod
    def from_dict(cls, data: Any) -> Episode:
        """The episode that `dataclasses.asdict` has described, as it is read from a file.

        Raises:
            ValueError: If it is anything else.
        """
        known = fields(cls)
        if not isinstance(data, dict) or set(data) - {field.name for field in known}:
            raise ValueError(f"expected an episode, got {reprlib.repr(data)}")
        for field in known:
            value = data.get(field.name, field.default)
            if not _IS[str(field.type)](value):
                got = "nothing" if value is MISSING else reprlib.repr(value)
                raise ValueError(
                    f"{field.name} of an episode must be of the type {field.type}, got {got}"
                )
        return cls(**data)

    def metric(self, name: str) -> float | None:
        """One of `METRICS` as a number."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


class ForeignEpisodeError(ValueError):
    """Finished episodes are not all of the evaluation that they were given to."""


class Observer:
    """Follows an evaluation: a progress bar, a recorder of frames, a list of what is finished.

    A subclass overrides what it needs. Between the calls the environments stand still, so that an
    observer that holds them may ask them (``envs.call_some([i], "render")``).
    """

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Called once, before the first, with all episodes that count, ``finished`` ones too."""

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Called when environment ``i`` was reset for an episode, before the policy is asked."""

    def step(self, step: Step) -> None:
        """Called after each step of all environments.

        Where an episode ended, the environment still stands at its end, unless there are wrappers
        around vector environments in SAME_STEP mode: there it has been reset already.
        """

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""


class Tally:
    """Adds up the steps of ``N`` environments, and makes an `Episode` of each that ends.

    ``ended`` lists the episodes in the order in which they ended, each with the index of its
    environment among all; these environments are those from ``first`` on. ``scale`` and ``raw`` are
    what `frozen` yields of them.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[PlannedEpisode]],
        scale: NDArray[np.float64],
        raw: Flags,
        observers: Sequence[Observer] = (),
        first: int = 0,
    ) -> None:
        n = len(plan)
        self.ended: list[tuple[int, Episode]] = []
        self._first = first
        self._plan, self._played = plan, [0] * n
        self._scale, self._raw, self._observers = scale, raw, observers
        self._returns = np.zeros(n, dtype=np.float64)
        self._lengths = np.zeros(n, dtype=np.int64)
        self._reports = np.zeros(n, dtype=np.bool_)
        # The step of the first success, 0 for none so far.
        self._success_at = np.zeros(n, dtype=np.int64)
        # For how many steps in a row success has lasted, now and at most.
        self._run, self._longest = np.zeros((2, n), dtype=np.int64)

    def present(self, i: int) -> PlannedEpisode:
        """The episode that environment ``i`` plays."""
        return self._plan[i][self._played[i]]

    def __call__(self, step: Step) -> None:
        """Adds a step."""
        for array in (self._returns, self._lengths, self._reports):
            array[step.began] = 0
        for array in (self._success_at, self._run, self._longest):
            array[step.began] = 0
        rewards = step.rewards
        if self._raw.any():
            raw, reported = step.info("raw_reward")
            rewards = np.where(self._raw & reported, raw, rewards)
        self._returns += rewards * self._scale
        self._lengths += 1
        success, reported = self._success(step)
        first = success & (self._success_at == 0)
        if first.any():
            self._success_at[first] = self._lengths[first]
        self._run = np.where(success, self._run + 1, 0)
        np.maximum(self._longest, self._run, out=self._longest)
        self._reports |= reported
        for observer in self._observers:
            observer.step(step)
        for i in np.flatnonzero(step.finished & step.counted).tolist():
            planned = self.present(i)
            if not np.isfinite(self._returns[i]):
                raise ValueError(
                    f"rewards must be finite, got a return of {self._returns[i]} from environment "
                    f"{self._first + i}, task {planned.task!r}"
                )
            self._played[i] += 1
            at, reports = int(self._success_at[i]), self._reports[i]
            episode = Episode(
                task=planned.task,
                number=planned.number,
                episode_return=float(self._returns[i]),
                length=int(self._lengths[i]),
                success_once=at > 0 if reports else None,
                success_final=bool(success[i]) if reports else None,
                task_state=planned.task_state,
                trial=planned.trial,
                steps_to_success=at or None,
                longest_success=int(self._longest[i]) if reports else None,
            )
            self.ended.append((self._first + i, episode))
            for observer in self._observers:
                observer.end(i, episode)

    def _success(self, step: Step) -> tuple[Flags, Flags]:
        """Which environments say that the step was a success, and which say anything of it."""
        success, reported = np.zeros_like(step.finished), np.zeros_like(step.finished)
        for key in SUCCESS_KEYS:
            values, present = step.info(key)
            # What is no array of numbers or objects is refused below.
            rows = values.tolist() if isinstance(values, np.ndarray) else [values] * len(reported)
            for i in np.flatnonzero(present & step.counted & ~reported).tolist():
                value = rows[i].item() if isinstance(rows[i], np.generic) else rows[i]
                if value is None:
                    continue
                if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                    raise ValueError(
                        f"info[{key!r}] must be a bool, 0 or 1, got {value!r} from environment "
                        f"{self._first + i}, task {self.present(i).task!r}"
                    )
                reported[i], success[i] = True, bool(value)
        return success, reported
