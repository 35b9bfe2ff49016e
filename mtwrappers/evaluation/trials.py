"""The episodes of few-shot trials: which there are, and which environment plays which."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

Place: TypeAlias = tuple[int, int]  # the number of a trial, and of an episode within it
_MAX_COUNT = 10**7


@dataclass(frozen=True)
class Trials:
    """What decides, before the first step, which episodes `few_shot_evaluate` plays.

    Args:
        trials: How many tasks each of the ``M`` task groups plays.
        adaptation_episodes: How many episodes there are to adapt on (for each step).
        evaluation_episodes: How many after that.
        adaptation_steps: How often the policy adapts.
        adapts: Whether it has ``adapt``: then the ``K`` environments of a task share its episodes;
            else each is a trial by itself.
        tasks: For each trial the ``M`` tasks that were given, as numbers; ``None`` where they
            follow from the seed.
    """

    trials: int
    adaptation_episodes: int
    evaluation_episodes: int
    adaptation_steps: int
    adapts: bool
    tasks: tuple[tuple[float, ...], ...] | None = None

    @property
    def phases(self) -> list[int]:
        """How many episodes there are in each phase; the policy adapts between two of them."""
        before, after = self.adaptation_episodes, self.evaluation_episodes
        return [before] * self.adaptation_steps + [after] if self.adapts else [before + after]

    @property
    def adaptation_length(self) -> int:
        """How many episodes of each trial are adaptation."""
        return self.adaptation_episodes * self.adaptation_steps

    def length(self, m: int, k: int) -> int:
        """How many episodes there are in all, of ``m`` task groups of ``k`` environments."""
        return self.trials * sum(self.phases) * (m if self.adapts else m * k)

    def rows(self, trial: int, phase: int, m: int, k: int) -> list[list[Place]]:
        """What each of ``m * k`` environments plays in a phase, in its order."""
        share = k if self.adapts else 1  # environments that play a trial's episodes
        first, played = trial * (m * k // share), sum(self.phases[:phase])
        count = self.phases[phase]
        return [
            [(first + i // share, played + n) for n in range(i % share, count, share)]
            for i in range(m * k)
        ]

    def of_trial(self, trial: int, m: int, k: int) -> Iterator[Place]:
        """All that is played in a trial, by all environments."""
        for phase in range(len(self.phases)):
            for row in self.rows(trial, phase, m, k):
                yield from row

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        tasks = None if self.tasks is None else [list(row) for row in self.tasks]
        return {**asdict(self), "tasks": tasks}

    @classmethod
    def from_dict(cls, data: Any) -> Trials:
        """What `to_dict` described, as it is read from a file.

        Raises:
            ValueError: If it is anything else.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(data, dict) or set(data) != set(names):
            raise ValueError(f"expected trials with {names}, got {reprlib.repr(data)}")
        given = data["tasks"]
        counts = (data[name] for name in names[:4])
        fits = all(type(n) is int and 0 < n < _MAX_COUNT for n in counts)
        fits = fits and type(data["adapts"]) is bool and (given is None or isinstance(given, list))
        if not fits or not all(isinstance(row, list) for row in given or ()):
            raise ValueError(f"trials cannot be {reprlib.repr(data)}")
        if (tasks := numbers(given)) is None and given is not None:
            raise ValueError(f"tasks of trials must be numbers, got {reprlib.repr(given)}")
        return cls(**{**data, "tasks": tasks})


def numbers(tasks: Any) -> tuple[tuple[float, ...], ...] | None:
    """Tasks that were given for each trial, if all of them are finite numbers."""
    if tasks is None or any(type(task) not in (int, float) for row in tasks for task in row):
        return None
    if not all(math.isfinite(task) for row in tasks for task in row):
        return None
    return tuple(tuple(row) for row in tasks)
