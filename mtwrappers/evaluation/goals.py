"""The goals of a result's episodes: where the object starts, and where it has to go."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.episodes import (
    Episode,
    make_plan,
    task_choices,
)
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.remake import VerificationError, goals_of, remake
from mtwrappers.metaworld.spec import draws_goals
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.vector.contract import MetaVectorEnv

Position = NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """Where the object of an episode starts, and where it has to go.

    Args:
        start: ``(3,)`` float64, in metres; ``None`` where the hand itself has to go there.
        end: Likewise.
    """

    start: Position | None
    end: Position


def find_goals(
    episodes: Sequence[Episode],
    seed: int,
    episodes_per_task: int,
    *,
    spec: Mapping[str, Any] | None,
    protocol: Protocol | None,
    digest: str | None,
) -> list[Goal]:
    """The goal of each episode of a result.

    They are read from environments that are made again and reset to each goal.

    Args:
        episodes: Of the result.
        seed: Of the evaluation.
        episodes_per_task: Likewise.
        spec: Of the environments, as the provenance has it.
        protocol: That was followed, or ``None``.
        digest: Of the goals, as the provenance has it.

    Raises:
        VerificationError: If the environments are not Meta-World's, cannot be made again or have
            other goals, or if the goals of few-shot trials are continuous.
    """
    in_trials = episodes[0].trial is not None
    if draws_goals(spec) and in_trials:
        raise VerificationError("continuous goals of few-shot trials cannot be drawn again")
    envs = remake(spec, protocol, len(episodes), in_trials=in_trials, workers=1, fast="auto")
    with contextlib.closing(envs):
        inner = envs.unwrapped
        if not has_everywhere(inner, "goals_digest"):
            raise VerificationError("its environments are not Meta-World's")
        if goals_of(envs) != digest:
            raise VerificationError("its goals are not those of its environments")
        choices = task_choices(inner, {})
        seeds: dict[tuple[str, int], int | None] = {}
        if draws_goals(spec):
            plan = make_plan(choices, episodes_per_task, seed)
            seeds = {(one.task, one.number): one.seed for own in plan for one in own}
        found: dict[Any, Goal] = {}
        goals = []
        for one in episodes:
            place = one.task, one.task_state, seeds.get((one.task, one.number))
            if place not in found:
                found[place] = _find(inner, choices, *place)
            goals.append(found[place])
    return goals


def _find(
    inner: MetaVectorEnv,
    choices: Sequence[Mapping[str, Sequence[Any]]],
    task: str,
    task_state: int | None,
    seed: int | None,
) -> Goal:
    """The goal of a task state, from the first environment that has it."""
    for i, states in enumerate(choices):
        if task_state in states.get(task, ()):
            goal: Goal = inner.call_some([i], _goal, task_state, seed or 0)[0]
            return goal
    raise VerificationError(f"its environments have no goal {task_state} of {task}")


def _goal(env: Any, task_state: int, seed: int) -> Goal:
    """The goal of an episode that begins so; runs where the environment is."""
    inner = env.unwrapped
    exact = inner.exact_task_state(task_state, seed)
    env.reset(seed=seed, options={"task_state": exact})
    # After a reset, window-close still has the window's handle where it was before it.
    env.step(np.zeros(env.action_space.shape, env.action_space.dtype))
    return Goal(inner.object_position, inner.goal)
