"""Results with given successes, as `compare`, `scores` and `curves` take them."""

import itertools

from mtwrappers.evaluation import Description, Design, Environments, Episode, EvaluationResult

PLAIN = {"environments": Environments("x", {}, "ab"), "versions": {"mujoco": "3.3.0"}}
_unique = itertools.count()


def measured(episodes, design, fields=None, **description):
    """A result with some of its fields, and what is said about it."""
    all_fields = {**PLAIN, **(fields or {}), "description": Description(**description)}
    return EvaluationResult(tuple(episodes), design, **all_fields)


def result(seed=None, steps=None, fields=None, paid=None, chunk=None, **successes):
    """A result of tasks with these successes, each at a goal, and with returns of its own.

    Success is at some step and never at the last; an integer stands for so many of four.
    """
    paid = float(next(_unique)) if paid is None else paid
    episodes = [
        Episode(task, i, paid, 5, bool(success), False, i)
        for task, task_successes in successes.items()
        for i, success in enumerate(
            [i < task_successes for i in range(4)]
            if isinstance(task_successes, int)
            else task_successes
        )
    ]
    description = {"training_seed": seed, "training_steps": steps, "action_chunk": chunk}
    return measured(episodes, Design(0, 4), fields, **description)


def trials(*after, before=0, seed=None, steps=None, fields=None, task="a"):
    """Trials of three episodes that count, of which so many succeed, after two to adapt on."""
    paid = float(next(_unique))

    def episodes(successes, first, n):
        return [
            Episode(task, first + i, paid, 5, i < k, False, trial, trial)
            for trial, k in enumerate(successes)
            for i in range(n)
        ]

    few = {"trials": len(after), "adaptation_episodes": 2, "adaptation_steps": 1, "adapts": True}
    every = episodes([before] * len(after), 0, 2) + episodes(after, 2, 3)
    design = Design(0, 3, **few, adaptation_terminate_on_success=False)
    return measured(every, design, fields, training_seed=seed, training_steps=steps)
