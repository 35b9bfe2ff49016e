"""Which episodes are to be played, by which environment, decided before the first one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_name
from mtwrappers.vector.contract import MetaVectorEnv


@dataclass(frozen=True)
class PlannedEpisode:
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

    def __post_init__(self) -> None:
        check_name(self.task, "the name of a task")


def stream_seed(seed: int, *key: int) -> int:
    """A seed (32 bits) for the place ``key`` of what ``seed`` determines."""
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def has_everywhere(inner: MetaVectorEnv, name: str) -> bool:
    """Whether every environment has this attribute."""
    return all(inner.call("has_wrapper_attr", name))


def task_names(inner: MetaVectorEnv, infos: dict[str, Any]) -> list[str]:
    """The name of each environment's present task, from infos of its reset, or of its group."""
    for key, form in (("task_name", "{}"), ("task_id", "task {}")):
        if key in infos and infos[f"_{key}"].all():
            return [form.format(value) for value in infos[key]]
    if has_everywhere(inner, "task_name"):
        return [str(name) for name in inner.get_attr("task_name")]
    return [f"task {i // inner.envs_per_task}" for i in range(inner.num_envs)]


def task_choices(inner: MetaVectorEnv, infos: dict[str, Any]) -> list[dict[str, list[Any]]]:
    """The tasks of each environment by their names, and the task states that each may play.

    These are ``[None]`` where resets do not take one.
    """
    if not has_everywhere(inner, "task_states"):
        return [{name: [None]} for name in task_names(inner, infos)]
    choices: list[dict[str, list[Any]]] = []
    described = (inner.get_attr(name) for name in ("task_states", "task_ids", "task_names"))
    for states, ids, names in zip(*described, strict=True):
        by_name: dict[str, list[Any]] = {}
        for state in states:
            name = f"task {ids[state]}" if names is None else names[ids[state]]
            by_name.setdefault(name, []).append(state)
        choices.append(by_name)
    return choices


def make_plan(
    choices: Sequence[dict[str, list[Any]]], episodes_per_task: int, seed: int
) -> list[list[PlannedEpisode]]:
    """The episodes of each environment, in the order in which it plays them.

    A task's episodes go to its environments in turn. Their goals come in a random order, none
    again before all have come. An episode's goal and seed depend on its number within its task,
    not on the number of environments that share the task. ``choices`` are what `task_choices`
    returns.
    """
    able: dict[str, list[int]] = {}
    for i, names in enumerate(choices):
        for task in names:
            able.setdefault(task, []).append(i)
    plan: list[list[PlannedEpisode]] = [[] for _ in choices]
    for row, (task, envs) in enumerate(able.items()):
        goals = sorted({state for i in envs for state in choices[i][task]})
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(row,))))
        played: Counter[int | None] = Counter()
        orders: list[dict[int | None, int]] = []  # of each sweep: when a goal's turn comes
        for number in range(episodes_per_task):
            i = envs[number % len(envs)]
            states = choices[i][task]
            sweep = min(played[goal] for goal in states)
            if sweep == len(orders):
                order = rng.permutation(goals).tolist()
                orders.append({goal: place for place, goal in enumerate(order)})
            left = [goal for goal in states if played[goal] == sweep]
            state = min(left, key=orders[sweep].__getitem__)
            played[state] += 1
            plan[i].append(PlannedEpisode(task, number, stream_seed(seed, row, number), state))
    return plan
