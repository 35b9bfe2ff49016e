"""The goals of a result's episodes: the object's start and goal positions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.episodes import Design, Episode, make_plan, task_choices
from mtwrappers.evaluation.protocol import Protocol
from mtwrappers.evaluation.remake import Environments, VerificationError, goals_of, remake
from mtwrappers.metaworld.make import draws_goals
from mtwrappers.samplers.task_texts import has_everywhere
from mtwrappers.vector.contract import MetaVectorEnv

Position = NDArray[np.float64]


@dataclass(frozen=True)
class Goal:
    """The start and goal positions of an episode's object.

    Args:
        start: ``(3,)`` float64, in metres; ``None`` if the hand itself has to reach the goal.
        end: ``(3,)`` float64, in metres.
    """

    start: Position | None
    end: Position


def find_goals(
    episodes: Sequence[Episode],
    design: Design,
    environments: Environments,
    protocol: Protocol | None,
) -> list[Goal]:
    """Finds the goal of each episode of a result.

    The goals are read from new environments that are reset to each of them.

    Raises:
        VerificationError: If the environments are not Meta-World's, cannot be rebuilt or have other
            goals, or if the goals of few-shot trials are continuous.
    """
    drawn = draws_goals(environments.spec)
    if drawn and design.trials:
        raise VerificationError("continuous goals of few-shot trials cannot be drawn again")
    envs = remake(environments, design, len(episodes))
    with contextlib.closing(envs):
        inner = envs.unwrapped
        if not has_everywhere(inner, "goals_digest"):
            raise VerificationError("its environments are not Meta-World's")
        if goals_of(envs) != environments.goals:
            raise VerificationError("its goals are not those of its environments")
        choices = task_choices(inner, {})
        seeds: dict[Any, int | None] = {}
        if drawn:
            plan = make_plan(choices, design.episodes_per_task, design.seed)
            seeds = {one.place: one.seed for own in plan for one in own}
        found: dict[Any, Goal] = {}
        goals = []
        for one in episodes:
            place = one.task, one.task_state, seeds.get(one.place)
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
    """The goal of an episode with this task state and seed; runs in the environment's process."""
    inner = env.unwrapped
    exact = inner.exact_task_state(task_state, seed)
    env.reset(seed=seed, options={"task_state": exact})
    # Right after a reset, window-close still reports the previous position of the handle.
    env.step(np.zeros(env.action_space.shape, env.action_space.dtype))
    return Goal(inner.object_position, inner.goal)
