"""Results with given successes, as `compare`, `scores` and `curves` take them."""

import dataclasses
import itertools

from mtwrappers.evaluation import Episode, EvaluationResult, FewShotResult, Provenance
from mtwrappers.evaluation.episodes import Trials

SPEC = {"id": "x", "kwargs": {}}
PLAIN = Provenance(4, {"mujoco": "3.3.0"}, goals="ab", spec=SPEC)
_unique = itertools.count()


def result(seed=None, steps=None, provenance=PLAIN, paid=None, **successes):
    """A result of tasks with these successes, each at a goal, and with returns of its own.

    Success is at some step and never at the last; an integer stands for so many of four.
    """
    of = dataclasses.replace(provenance, training_seed=seed, training_steps=steps)
    paid = float(next(_unique)) if paid is None else paid
    episodes = [
        Episode(task, i, paid, 5, bool(one), False, i)
        for task, own in successes.items()
        for i, one in enumerate([i < own for i in range(4)] if isinstance(own, int) else own)
    ]
    return EvaluationResult(episodes, provenance=of)


def trials(*after, before=0, seed=None, steps=None, provenance=PLAIN):
    """Trials of three episodes that count, of which so many succeed, after two to adapt on."""
    of = dataclasses.replace(provenance, training_seed=seed, training_steps=steps)
    paid = float(next(_unique))

    def episodes(successes, first, n):
        return [
            Episode("a", first + i, paid, 5, i < k, False, trial, trial)
            for trial, k in enumerate(successes)
            for i in range(n)
        ]

    return FewShotResult(
        EvaluationResult(episodes([before] * len(after), 0, 2), provenance=of),
        EvaluationResult(episodes(after, 2, 3), provenance=of),
        Trials(len(after), 2, 3, 1, True, adaptation_terminate_on_success=False),
    )
