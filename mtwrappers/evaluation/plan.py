"""Which episodes are to be played, by which environment, decided before the first one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.vector import VectorEnv
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.vector.base import MetaVectorEnv


@dataclass(frozen=True)
class Slot:
    """An episode that is to be played.

    Args:
        task: The name of its task.
        number: Which of the task's (or the trial's) episodes it is, from 0.
        seed: Of its reset; ``None`` where it follows the episode before it.
        task_state: The task state to play, or ``None`` where resets do not take one.
        trial: The trial it belongs to; ``None`` where every episode stands alone.
    """

    task: str
    number: int
    seed: int | None = None
    task_state: int | None = None
    trial: int | None = None


def executor_of(envs: Any) -> MetaVectorEnv:
    """The executor below vector wrappers.

    Raises:
        TypeError: If there is none of ours.
    """
    inner = envs.unwrapped if isinstance(envs, VectorEnv) else envs
    if not isinstance(inner, MetaVectorEnv):
        raise TypeError(
            "envs must be a vector environment of this package (what gymnasium.make_vec or "
            f"MetaIterativeEnvExecutor makes) or a wrapper of one, got {inner!r}"
        )
    return inner


def stream_seed(seed: int, *key: int) -> int:
    """A seed (32 bits) for the place ``key`` of what ``seed`` determines."""
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def has_everywhere(inner: MetaVectorEnv, name: str) -> bool:
    """Whether every environment has this attribute."""
    return all(inner.call("has_wrapper_attr", name))


def task_choices(inner: MetaVectorEnv) -> list[dict[str, list[int]]] | None:
    """The task states among which each environment moves, by their task's name.

    ``None`` where environments have no list of tasks, so that there is nothing to choose.
    """
    if not has_everywhere(inner, "task_states"):
        return None
    choices: list[dict[str, list[int]]] = []
    described = (inner.get_attr(name) for name in ("task_states", "task_ids", "task_names"))
    for states, ids, names in zip(*described, strict=True):
        by_name: dict[str, list[int]] = {}
        for state in states:
            name = f"task {ids[state]}" if names is None else names[ids[state]]
            by_name.setdefault(name, []).append(state)
        choices.append(by_name)
    return choices


def task_names(inner: MetaVectorEnv, infos: dict[str, Any]) -> list[str]:
    """The name of each environment's present task.

    From the infos of its reset (``task_name``, else ``task_id``), else its attribute
    ``task_name``, else the index of its group.
    """
    k, n = inner.envs_per_task, inner.num_envs
    for key, form in (("task_name", "{}"), ("task_id", "task {}")):
        if key in infos and infos[f"_{key}"].all():
            return [form.format(value) for value in infos[key]]
    if has_everywhere(inner, "task_name"):
        return [str(name) for name in inner.get_attr("task_name")]
    return [f"task {i // k}" for i in range(n)]


def make_plan(
    names: Sequence[str],
    choices: Sequence[dict[str, list[int]]] | None,
    episodes_per_task: int,
    seed: int,
) -> list[list[Slot]]:
    """The episodes of each environment, in the order in which it plays them.

    A task's episodes go to its environments in turn. Their goals come in a random order, none
    again before all have come. An episode's goal and seed depend on its number within its task,
    not on the number of environments that share the task.

    Args:
        names: Each environment's task, where there is nothing to choose.
        choices: The task states that each environment may play, by their task's name; ``None``
            where there is nothing to choose.
        episodes_per_task: How many episodes per task.
        seed: Determines the order of goals and every reset.
    """
    able: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        for task in [name] if choices is None else choices[i]:
            able.setdefault(task, []).append(i)
    plan: list[list[Slot]] = [[] for _ in names]
    for row, (task, envs) in enumerate(able.items()):
        own = [] if choices is None else [choices[i][task] for i in envs]
        goals = _GoalOrder(own, SeedSequence(seed, spawn_key=(row,)))
        for number in range(episodes_per_task):
            turn = number % len(envs)
            state = goals.next_of(own[turn]) if own else None
            slot = Slot(task, number, stream_seed(seed, row, number), state)
            plan[envs[turn]].append(slot)
    return plan


class _GoalOrder:
    """Deals out the goals of a task: sweeps in random orders, the least played first.

    Args:
        own: The goals that each environment can play.
        sequence: Seeds the orders.
    """

    def __init__(self, own: Sequence[Sequence[int]], sequence: SeedSequence) -> None:
        self._goals = sorted({state for states in own for state in states})
        self._rng = Generator(PCG64(sequence))
        self._played: Counter[int] = Counter()
        self._ranks: list[dict[int, int]] = []

    def next_of(self, states: Sequence[int]) -> int:
        """The next goal among ``states``."""
        sweep = min(self._played[state] for state in states)
        while len(self._ranks) <= sweep:
            order = self._rng.permutation(self._goals).tolist()
            self._ranks.append({state: place for place, state in enumerate(order)})
        rank = self._ranks[sweep]
        left = [state for state in states if self._played[state] == sweep]
        chosen = min(left, key=rank.__getitem__)
        self._played[chosen] += 1
        return chosen


class PlannedResets:
    """Begins the episodes of a plan, each with a reset to its own seed and task state.

    The reset is explicit in every autoreset mode, so that all modes play the same episodes.

    Args:
        envs: The vector environment.
        plan: The episodes of each environment, in their order.

    Attributes:
        present: The episode that each environment plays, ``None`` where it has played all.
    """

    def __init__(self, envs: Any, plan: Sequence[Sequence[Slot]]) -> None:
        self._envs = envs
        self._waiting = [iter(slots) for slots in plan]
        self.present: list[Slot | None] = [None] * len(plan)

    def begin(self, which: np.ndarray[Any, np.dtype[np.bool_]]) -> Any:
        """Resets environments ``which``, ``(N,)``, to their next episodes; returns observations.

        Options are the same for all environments of a reset, so there is one reset per task state.

        Raises:
            ValueError: If a reset leads to another task than the plan says.
        """
        groups: dict[int | None, list[int]] = {}
        for i in np.flatnonzero(which).tolist():
            slot = self.present[i] = next(self._waiting[i], None)
            groups.setdefault(None if slot is None else slot.task_state, []).append(i)
        obs: Any = None
        for state, members in groups.items():
            mask = np.zeros(len(which), dtype=np.bool_)
            mask[members] = True
            slots = [self.present[i] if mask[i] else None for i in range(len(which))]
            options: dict[str, Any] = {"reset_mask": mask}
            if state is not None:
                options["task_state"] = state
            seeds = [None if slot is None else slot.seed for slot in slots]
            obs, infos = self._envs.reset(seed=seeds, options=options)
            _check_names(infos, slots)
        return obs


def _check_names(infos: dict[str, Any], slots: Sequence[Slot | None]) -> None:
    if "task_name" not in infos:
        return
    for i, (slot, name, told) in enumerate(
        zip(slots, infos["task_name"], infos["_task_name"], strict=True)
    ):
        if slot is not None and told and name != slot.task:
            raise ValueError(
                f"environment {i} was on task {slot.task!r} and its reset went to {name!r}: "
                "evaluate needs environments that stay with their task, or that draw it from "
                "task_states"
            )
