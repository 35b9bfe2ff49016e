"""Results with given successes, as `compare`, `scores` and `curves` take them."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mtwrappers.evaluation import (
    Description,
    Design,
    Environments,
    Episode,
    EvaluationResult,
    Protocol,
)

SPEC = {"id": "x", "kwargs": {}}


@dataclass(frozen=True)
class Made:
    """Where a result that is made by hand comes from."""

    versions: Mapping[str, str] = field(default_factory=lambda: {"mujoco": "3.3.0"})
    goals: str | None = "ab"
    spec: Mapping[str, Any] = field(default_factory=lambda: SPEC)
    protocol: Protocol | None = None
    evidence: str | None = None
    policy: str | None = None
    training_seed: int | None = None
    training_steps: int | None = None
    action_chunk: int | None = None

    def result(self, episodes: Sequence[Episode], design: Design | None = None) -> EvaluationResult:
        """A result of these episodes."""
        return EvaluationResult(
            tuple(episodes),
            design or Design(0, 4),
            self.protocol,
            Environments(self.spec["id"], self.spec["kwargs"], self.goals),
            self.versions,
            self.evidence,
            Description(
                self.policy, self.training_seed, self.training_steps, action_chunk=self.action_chunk
            ),
        )


PLAIN = Made()
_unique = itertools.count()


def result(seed=None, steps=None, made=PLAIN, paid=None, **successes):
    """A result of tasks with these successes, each at a goal, and with returns of its own.

    Success is at some step and never at the last; an integer stands for so many of four.
    """
    of = replace(made, training_seed=seed, training_steps=steps)
    paid = float(next(_unique)) if paid is None else paid
    episodes = [
        Episode(task, i, paid, 5, bool(one), False, i)
        for task, own in successes.items()
        for i, one in enumerate([i < own for i in range(4)] if isinstance(own, int) else own)
    ]
    return of.result(episodes)


def trials(*after, before=0, seed=None, steps=None, made=PLAIN):
    """Trials of three episodes that count, of which so many succeed, after two to adapt on."""
    of = replace(made, training_seed=seed, training_steps=steps)
    paid = float(next(_unique))

    def episodes(successes, first, n):
        return [
            Episode("a", first + i, paid, 5, i < k, False, trial, trial)
            for trial, k in enumerate(successes)
            for i in range(n)
        ]

    few = {"trials": len(after), "adaptation_episodes": 2, "adaptation_steps": 1, "adapts": True}
    every = episodes([before] * len(after), 0, 2) + episodes(after, 2, 3)
    return of.result(every, Design(0, 3, **few, adaptation_terminate_on_success=False))
