"""The episodes of few-shot trials: which there are, and which environment plays which."""

from __future__ import annotations

import math
import reprlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.evaluation.arguments import check_given
from mtwrappers.evaluation.plan import PlannedEpisode, stream_seed
from mtwrappers.evaluation.rules import Rules

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
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation; ``None``
            where that is left to the environments.
    """

    trials: int
    adaptation_episodes: int
    evaluation_episodes: int
    adaptation_steps: int
    adapts: bool
    tasks: tuple[tuple[float, ...], ...] | None = None
    adaptation_terminate_on_success: bool | None = None

    @classmethod
    def of(cls, rules: Rules, adapts: bool) -> Trials:
        """Those of a few-shot protocol, of a policy that has ``adapt`` or has none."""
        return cls(
            rules.trials,
            rules.adaptation_episodes,
            rules.episodes_per_task,
            rules.adaptation_steps,
            adapts,
            adaptation_terminate_on_success=rules.adaptation_terminate_on_success,
        )

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `few_shot_evaluate` that these trials come from."""
        given = {} if self.tasks is None else {"tasks": self.tasks}
        return {
            "trials": self.trials,
            "adaptation_episodes": self.adaptation_episodes,
            "evaluation_episodes": self.evaluation_episodes,
            "adaptation_steps": self.adaptation_steps,
            "adaptation_terminate_on_success": self.adaptation_terminate_on_success,
            **given,
        }

    def check(self, rules: Rules) -> None:
        """Raises `ValueError` unless these are the trials of a protocol."""
        check_given(rules, "few_shot_evaluate", self.arguments)

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

    def plan(
        self, trial: int, phase: int, names: Sequence[str], tasks: Sequence[Any], seed: int
    ) -> list[list[PlannedEpisode]]:
        """The episodes of each environment in a phase, in its order, the first one seeded.

        Args:
            trial: Which of the trials.
            phase: Which of the `phases`.
            names: Of each environment's task, ``(N,)``.
            tasks: Of each task group, ``(M,)``; task states are named.
            seed: Of the evaluation.
        """
        m, n = len(tasks), len(names)
        states = [task if type(task) is int else None for task in tasks]
        return [
            [
                PlannedEpisode(
                    names[i],
                    number,
                    None if place else stream_seed(seed, trial, phase, i),
                    states[i * m // n],
                    of,
                )
                for place, (of, number) in enumerate(row)
            ]
            for i, row in enumerate(self.rows(trial, phase, m, n // m))
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
        ends = data["adaptation_terminate_on_success"]
        fits = fits and type(data["adapts"]) is bool and (ends is None or type(ends) is bool)
        fits = fits and (given is None or isinstance(given, list))
        if not fits or not all(isinstance(row, list) for row in given or ()):
            raise ValueError(f"trials cannot be {reprlib.repr(data)}")
        if (tasks := numbers(given)) is None and given is not None:
            raise ValueError(f"tasks of trials must be numbers, got {reprlib.repr(given)}")
        return cls(**{**data, "tasks": tasks})


def draw_states(states: Sequence[Sequence[int]], trials: int, seed: int) -> list[list[int]]:
    """A task state of each group for each trial: in a random order, each once before any again.

    ``states`` are those that each of the ``M`` groups has; there is a row of ``M`` for each trial.
    """
    columns = []
    for group, own in enumerate(states):
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(group,))))
        sweeps = [rng.permutation(own) for _ in range(-(-trials // len(own)))]
        columns.append(np.concatenate(sweeps)[:trials].tolist())
    return [list(row) for row in zip(*columns, strict=True)]


def numbers(tasks: Any) -> tuple[tuple[float, ...], ...] | None:
    """Tasks that were given for each trial, if all of them are finite numbers."""
    if tasks is None or any(type(task) not in (int, float) for row in tasks for task in row):
        return None
    if not all(math.isfinite(task) for row in tasks for task in row):
        return None
    return tuple(tuple(row) for row in tasks)
