"""The plan of an evaluation: its episodes, which follow from a design before the first step."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_name
from mtwrappers.common.seeding import check_seed
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.vector.contract import MetaVectorEnv

# A bound on counts in files, so that plans fit into memory.
_MAX_COUNT = 10**7


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode that is to be run.

    Args:
        task: The name of the task.
        number: The index of the episode within its task (or trial), from 0.
        seed: The seed of its reset; ``None`` if it continues from the previous episode.
        task_state: The task state for its reset, or ``None`` if resets do not take one.
        trial: The trial of the episode in few-shot evaluation, else ``None``.

    >>> from mtwrappers import protocols
    >>> plan = protocols["metaworld-3.1"].on("MT1", "reach-v3").plan(seed=0)
    >>> len(plan), plan[0].task, plan[0].number, plan[0].task_state
    (50, 'reach-v3', 0, 12)
    """

    task: str
    number: int
    seed: int | None = None
    task_state: int | None = None
    trial: int | None = None

    def __post_init__(self) -> None:
        check_name(self.task, "the name of a task")

    @property
    def place(self) -> tuple[str, int | None, int]:
        """The task, the trial and the number, which no two episodes of a plan share."""
        return self.task, self.trial, self.number


@dataclass(frozen=True)
class Design:
    """The numbers that determine the episodes of an evaluation, before the first step.

    Args:
        seed: The seed of the evaluation.
        episodes_per_task: The number of episodes per task; in few-shot evaluation, per trial after
            adaptation.
        tasks: The names of the tasks that were chosen, or ``None`` for all.
        max_episode_steps: The number of steps after which episodes were cut, or ``None``.
        trials: The number of trials of few-shot evaluation, each on one task of each of the ``M``
            task groups; 0 for any other evaluation.
        adaptation_episodes: The number of episodes per adaptation step.
        adaptation_steps: The number of adaptation steps.
        adapts: Whether the policy has ``adapt``: then the ``K`` environments of a task share its
            episodes; otherwise each environment runs its own trial.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation; ``None``
            leaves it to the environments.
        trial_tasks: The ``M`` given tasks of each trial; ``None`` if they follow from the seed.
        phases: In a stream, the name and the steps of each phase; see `continual_evaluate`.

    Raises:
        ValueError: If a number is out of range, or numbers contradict each other.

    >>> from mtwrappers.evaluation import Design
    >>> Design(seed=1, episodes_per_task=3, trials=2, adaptation_episodes=10, adaptation_steps=1)
    Design(seed=1, episodes_per_task=3, trials=2, adaptation_episodes=10, adaptation_steps=1)
    """

    seed: int = 0
    episodes_per_task: int = 50
    tasks: tuple[str, ...] | None = None
    max_episode_steps: int | None = None
    trials: int = 0
    adaptation_episodes: int = 0
    adaptation_steps: int = 0
    adapts: bool = False
    adaptation_terminate_on_success: bool | None = None
    trial_tasks: tuple[tuple[int | float, ...], ...] | None = None
    phases: tuple[tuple[str, int], ...] | None = None

    def __post_init__(self) -> None:
        check_seed(self.seed)
        few_shot = ("trials", "adaptation_episodes", "adaptation_steps")
        least = {"episodes_per_task": 1, **dict.fromkeys(few_shot, 1 if self.trials else 0)}
        if self.max_episode_steps is not None:
            least["max_episode_steps"] = 1
        for name, low in least.items():
            if not low <= (value := getattr(self, name)) < _MAX_COUNT:
                raise ValueError(f"{name} must be in [{low}, {_MAX_COUNT - 1:,}], got {value}")
        default = type(self).__dataclass_fields__
        alone: tuple[str, ...] = (
            ("tasks", "max_episode_steps", "phases") if self.trials else (*few_shot[1:], "adapts")
        )
        alone += () if self.trials else ("adaptation_terminate_on_success", "trial_tasks")
        for name in alone:
            if (value := getattr(self, name)) != default[name].default:
                kind = "few-shot" if self.trials else "this"
                raise ValueError(f"{kind} evaluation has no {name}, got {value!r}")
        if self.trial_tasks is not None and len(self.trial_tasks) != self.trials:
            raise ValueError(f"there are tasks for {len(self.trial_tasks)} of {self.trials} trials")

    def __repr__(self) -> str:
        of = ((one.name, getattr(self, one.name), one.default) for one in fields(self))
        return f"Design({', '.join(f'{name}={value!r}' for name, value, d in of if value != d)})"

    @property
    def adaptation_length(self) -> int:
        """The number of adaptation episodes of each trial."""
        return self.adaptation_episodes * self.adaptation_steps

    @property
    def trial_length(self) -> int:
        """The number of episodes of each trial."""
        return self.adaptation_length + self.episodes_per_task

    @property
    def stages(self) -> list[int]:
        """The number of episodes in each stage of a trial; the policy adapts between stages."""
        before, after = self.adaptation_episodes, self.episodes_per_task
        return [before] * self.adaptation_steps + [after] if self.adapts else [before + after]

    def of_stage(
        self, trial: int, stage: int, names: Sequence[str], tasks: Sequence[Any]
    ) -> list[list[PlannedEpisode]]:
        """Plans the episodes of each environment in a stage; the first one of each is seeded.

        Args:
            trial: The index of the trial, of those that all environments run together.
            stage: The index in `stages`.
            names: The name of each environment's task, ``(N,)``.
            tasks: The task of each task group, ``(M,)``; task states are recorded.
        """
        n, k = len(names), len(names) // len(tasks)
        share = k if self.adapts else 1  # environments that run a trial's episodes
        first, before = trial * (n // share), sum(self.stages[:stage])
        states = [task if type(task) is int else None for task in tasks]
        found = []
        for i, name in enumerate(names):
            numbers = range(before + i % share, before + self.stages[stage], share)
            seeds = itertools.chain(
                [stream_seed(self.seed, trial, stage, i)], itertools.repeat(None)
            )
            found.append(
                [
                    PlannedEpisode(name, number, seed, states[i // k], first + i // share)
                    for number, seed in zip(numbers, seeds, strict=False)
                ]
            )
        return found


def stream_seed(seed: int, *key: int) -> int:
    """Derives a seed (32 bits) from ``seed`` for the place ``key``."""
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def task_choices(inner: MetaVectorEnv, infos: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The task names of each environment, with the task states of each.

    The states are ``[None]`` if resets do not take a task state.
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
    """Plans the episodes of each environment, in order.

    A task's episodes are distributed to its environments in turn. Goals are drawn without
    replacement until all were drawn. An episode's goal and seed depend on its number within its
    task, not on the number of environments that share the task. ``choices`` is the result of
    `task_choices`.
    """
    able: dict[str, list[int]] = {}
    for i, names in enumerate(choices):
        for task in names:
            able.setdefault(task, []).append(i)
    plan: list[list[PlannedEpisode]] = [[] for _ in choices]
    for row, (task, envs) in enumerate(able.items()):
        goals = sorted({state for i in envs for state in choices[i][task]})
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(row,))))
        taken: Counter[int | None] = Counter()
        orders: list[dict[int | None, int]] = []  # for each sweep, the position of each goal
        for number in range(episodes_per_task):
            i = envs[number % len(envs)]
            states = choices[i][task]
            sweep = min(taken[goal] for goal in states)
            if sweep == len(orders):
                order = rng.permutation(goals).tolist()
                orders.append({goal: place for place, goal in enumerate(order)})
            left = [goal for goal in states if taken[goal] == sweep]
            state = min(left, key=orders[sweep].__getitem__)
            taken[state] += 1
            plan[i].append(PlannedEpisode(task, number, stream_seed(seed, row, number), state))
    return plan


def draw_states(states: Sequence[Sequence[int]], trials: int, seed: int) -> list[list[int]]:
    """Draws a task state of each group for each trial, in random sweeps over all states.

    ``states`` are the task states of each of the ``M`` groups; there is a row of ``M`` per trial.
    """
    columns = []
    for group, own in enumerate(states):
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(group,))))
        sweeps = [rng.permutation(own) for _ in range(-(-trials // len(own)))]
        columns.append(np.concatenate(sweeps)[:trials].tolist())
    return [list(row) for row in zip(*columns, strict=True)]


def trial_tasks(envs: Any, design: Design) -> Iterator[list[Any]]:
    """The tasks of each trial, as given or drawn from those of the environments.

    Where a goal is to be drawn, it follows from the seed: all environments of a group then have one
    goal, whatever their seeds and streams.

    Raises:
        ValueError: If tasks are to be drawn, and the environments have none.
    """
    inner: MetaVectorEnv = envs.unwrapped
    m, k = inner.meta_batch_size, inner.envs_per_task
    if design.trial_tasks is not None:
        rows: list[list[Any]] = [list(row) for row in design.trial_tasks]
    elif has_everywhere(inner, "task_states"):
        rows = [
            list(row)
            for row in draw_states(inner.get_attr("task_states")[::k], design.trials, design.seed)
        ]
    elif has_everywhere(inner, "sample_tasks"):
        envs.reset(seed=stream_seed(design.seed, 0))
        drawn = list(inner.call_some([0], "sample_tasks", m * design.trials)[0])
        rows = [drawn[t * m : (t + 1) * m] for t in range(design.trials)]
    else:
        raise ValueError(
            "the environments have neither task_states nor sample_tasks: pass tasks, "
            f"{m} for each of {design.trials} trials"
        )
    return with_goals(inner, rows, design.seed)


def with_goals(
    inner: MetaVectorEnv, rows: Sequence[Sequence[Any]], seed: int
) -> Iterator[list[Any]]:
    """The tasks of each trial, with goals that follow from the seed where they are to be drawn."""
    draws, k = has_everywhere(inner, "exact_task_state"), inner.envs_per_task
    for trial, row in enumerate(rows):
        found = list(row)
        for group, state in enumerate(row if draws else ()):
            if isinstance(state, (int, np.integer)):
                exact = state, stream_seed(seed, group, trial)
                [found[group]] = inner.call_some([group * k], "exact_task_state", *exact)
        yield found
