"""The plan of an evaluation: the episodes to run, which follow from a design and a seed."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_flag, check_list, check_name, check_string, positive
from mtwrappers.common.counts import format_count
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.seeding import check_seed
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.tasks.draws import (
    digest_tasks,
    kept_random_states,
    read_task,
    warn_of_unseeded_tasks,
)
from mtwrappers.vector.contract import MetaVectorEnv

# The numbers of few-shot evaluation, and the fields of a `Design` with trials alone.
TRIAL_NUMBERS = ("trials", "adaptation_episodes", "adaptation_steps")
TRIAL_FIELDS = (*TRIAL_NUMBERS, "adapts", "adaptation_terminate_on_success", "trial_tasks")
# Keep the seeds of the resets before any episode different from the episodes' seeds.
_FIRST_RESET, _SECOND_RESET = 1_000_033, 1_000_037
# The way out for tasks of one name.
_NAMES_DIFFER = "name them by TaskNameWrapper(env, task_name=...) or task_names=[...]"


@dataclass(frozen=True)
class PlannedEpisode:
    """An episode that is to be run.

    Args:
        task: The name of the task.
        number: The index of the episode within its task (or trial), from 0.
        seed: The seed of its reset; ``None`` if it continues from the previous episode.
        task_state: The task state for its reset, or ``None`` if resets do not take one.
        trial: The number of the trial in few-shot evaluation, else ``None``; see `Episode`.

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
        trials: The number of trials of few-shot evaluation, each on one task of each of the ``M``
            task groups; 0 for any other evaluation.
        adaptation_episodes: The number of episodes per adaptation step.
        adaptation_steps: The number of adaptation steps.
        adapts: Whether the policy has ``adapt``: then the ``K`` environments of a task share its
            episodes; otherwise each environment runs its own trial.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation; ``None``
            leaves it to the environments.
        trial_tasks: The ``M`` given tasks of each trial, numbers or dicts of numbers; ``None`` if
            they follow from the seed.
        phases: In a stream, the name and the steps of each phase; see `continual_evaluate`.
        kept_tasks: The task that environments keep, by its name: what their ``get_task`` (or
            ``get_task_state``) returns, numbers or dicts of them; ``None`` if resets take a task
            state, or if the environments have no such tasks.

    Raises:
        TypeError: If ``tasks`` are not names, ``phases`` are not pairs of a name and a number, or
            ``adapts`` or ``adaptation_terminate_on_success`` is not a bool.
        ValueError: If a number is out of range, or numbers contradict each other.

    >>> from mtwrappers.evaluation import Design
    >>> Design(seed=1, episodes_per_task=3, trials=2, adaptation_episodes=10, adaptation_steps=1)
    Design(seed=1, episodes_per_task=3, trials=2, adaptation_episodes=10, adaptation_steps=1)
    """

    seed: int = 0
    episodes_per_task: int = 50
    tasks: tuple[str, ...] | None = None
    trials: int = 0
    adaptation_episodes: int = 0
    adaptation_steps: int = 0
    adapts: bool = False
    adaptation_terminate_on_success: bool | None = None
    # Without a hash, as dicts have none.
    trial_tasks: tuple[tuple[int | float | Mapping[str, Any], ...], ...] | None = field(
        default=None, hash=False
    )
    phases: tuple[tuple[str, int], ...] | None = None
    kept_tasks: Mapping[str, Any] | None = field(
        default=None, hash=False, metadata={"optional": True}
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        for name in ("episodes_per_task", *(TRIAL_NUMBERS if self.trials else ())):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if self.tasks is not None:
            object.__setattr__(self, "tasks", _check_task_names(self.tasks))
        for name in ("adapts", "adaptation_terminate_on_success"):
            if (flag := getattr(self, name)) is not None:
                object.__setattr__(self, name, check_flag(flag, name))
        if self.phases is not None:
            phases = check_list(self.phases, "phases", "pair (name, steps)")
            object.__setattr__(self, "phases", tuple(map(_check_phase, phases)))
        self._check_excluded()
        if self.kept_tasks is not None:
            object.__setattr__(self, "kept_tasks", convert_numbers(self.kept_tasks))
            for name in self.kept_tasks:
                check_name(name, "the name of a task")
            if not all(map(is_plain, self.kept_tasks.values())):
                raise ValueError(
                    f"kept_tasks must be numbers or dicts of them, got {self.kept_tasks}"
                )
        if self.trial_tasks is not None:
            object.__setattr__(self, "trial_tasks", tuple(map(convert_numbers, self.trial_tasks)))
            if len(self.trial_tasks) != self.trials:
                trials = format_count(self.trials, "trial")
                raise ValueError(f"there are tasks for {len(self.trial_tasks)} of {trials}")

    def _check_excluded(self) -> None:
        """Raises `ValueError` for a field that this kind of evaluation does not have."""
        kind = "few-shot" if self.trials else "this"
        excluded = ("tasks", "phases", "kept_tasks") if self.trials else TRIAL_FIELDS
        for attribute in fields(self):
            value = getattr(self, attribute.name)
            if attribute.name in excluded and value != attribute.default:
                raise ValueError(f"{kind} evaluation has no {attribute.name}, got {value!r}")

    def __repr__(self) -> str:
        shown = [
            f"{attribute.name}={getattr(self, attribute.name)!r}"
            for attribute in fields(self)
            if getattr(self, attribute.name) != attribute.default
        ]
        return f"Design({', '.join(shown)})"

    @property
    def adaptation_length(self) -> int:
        """The number of adaptation episodes of each trial."""
        return self.adaptation_episodes * self.adaptation_steps

    @property
    def stages(self) -> list[int]:
        """The number of episodes in each stage of a trial; the policy adapts between stages."""
        if not self.adapts:
            return [self.adaptation_episodes + self.episodes_per_task]
        return [self.adaptation_episodes] * self.adaptation_steps + [self.episodes_per_task]

    def plan_trial(self, trial: int, names: Sequence[str], tasks: Sequence[Any]) -> Iterator[Stage]:
        """Plans the stages of a trial; in each, the first episode of an environment is seeded.

        Args:
            trial: The index of the trial, of those that all environments run together.
            names: The name of each environment's task, ``(N,)``.
            tasks: The task of each task group, ``(M,)``; task states are recorded.
        """
        num_envs, envs_per_task = len(names), len(names) // len(tasks)
        # The number of environments that run the episodes of one trial together.
        sharing = envs_per_task if self.adapts else 1
        first_trial, first_number = trial * (num_envs // sharing), 0
        for index, size in enumerate(self.stages):
            queues = []
            for i, name in enumerate(names):
                task = tasks[i // envs_per_task]
                numbers = range(first_number + i % sharing, first_number + size, sharing)
                seed = stream_seed(self.seed, trial, index, i)
                queues.append(
                    [
                        PlannedEpisode(
                            name,
                            number,
                            seed if number == numbers[0] else None,
                            task_state=task if type(task) is int else None,
                            trial=first_trial + i // sharing,
                        )
                        for number in numbers
                    ]
                )
            first_number += size
            yield Stage(queues, list(tasks), trial, index)


def _check_task_names(names: Any) -> tuple[str, ...]:
    """Returns the names of chosen tasks; raises `TypeError` or `ValueError`."""
    tasks = tuple(check_list(names, "tasks", "task name"))
    for task in tasks:
        check_string(task, "each of tasks")
    if len({*tasks}) < len(tasks):
        [(task, count)] = Counter(tasks).most_common(1)
        raise ValueError(f"tasks must differ, got {task!r} {count} times")
    return tasks


def _check_phase(phase: Any) -> tuple[str, int]:
    """Returns the name and the steps of a phase; raises `TypeError` or `ValueError`."""
    if not isinstance(phase, (tuple, list)) or len(phase) != 2:
        raise TypeError(f"each of phases must be a pair (name, steps), got {phase!r}")
    name, steps = phase
    return check_string(name, "the name of a phase"), positive(steps, f"the steps of {name!r}")


def convert_numbers(value: Any) -> Any:
    """Tasks with Python's numbers for NumPy's, and tuples for arrays and lists.

    Then they are equal to the tasks that are read from a file.
    """
    if isinstance(value, np.number) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return value.item()
    if isinstance(value, Mapping):
        return {name: convert_numbers(item) for name, item in value.items()}
    if isinstance(value, (tuple, list, np.ndarray)):
        return tuple(map(convert_numbers, value))
    return value


def is_plain_task(task: Any) -> bool:
    """Whether a file can have a task: a number, or a dict of numbers by their names."""
    if isinstance(task, dict):
        return all(type(name) is str and is_plain(item) for name, item in task.items())
    return type(task) in (int, float)


def is_plain(value: Any) -> bool:
    """Whether a value is a number, or nested tuples or dicts of numbers."""
    if isinstance(value, tuple):
        return all(map(is_plain, value))
    return type(value) is bool or is_plain_task(value)


@dataclass(frozen=True)
class Stage:
    """The episodes that all environments run before a policy adapts again, or until the end.

    Args:
        queues: The episodes of each environment, ``N`` lists. An episode with a seed begins with a
            reset to it, and one without continues from the previous one.
        tasks: In few-shot evaluation, the task of each task group, ``(M,)``.
        trial: The index of the trial, of those that all environments run together.
        index: The index of the stage in its trial.
    """

    queues: list[list[PlannedEpisode]]
    tasks: list[Any] = field(default_factory=list)
    trial: int = 0
    index: int = 0

    @property
    def places(self) -> set[Any]:
        """The places of the episodes."""
        return {episode.place for queue in self.queues for episode in queue}

    def select(self, places: Collection[Any]) -> Stage:
        """The stage with the episodes at some places alone."""
        queues = [
            [episode for episode in queue if episode.place in places] for queue in self.queues
        ]
        return replace(self, queues=queues)


@dataclass(frozen=True)
class Plan:
    """All episodes of an evaluation.

    Args:
        design: The numbers that determine them.
        stages: The stages, in the order in which they are run.
    """

    design: Design
    stages: tuple[Stage, ...]

    @cached_property
    def episodes(self) -> list[PlannedEpisode]:
        """The episodes in the order of a result: by trial, or by task and then by number."""
        episodes = [episode for stage in self.stages for queue in stage.queues for episode in queue]
        order = {task: i for i, task in enumerate(dict.fromkeys(e.task for e in episodes))}

        def key(episode: PlannedEpisode) -> tuple[int, int]:
            first = order[episode.task] if episode.trial is None else episode.trial
            return first, episode.number

        return sorted(episodes, key=key)

    @property
    def tasks(self) -> tuple[str, ...]:
        """The names of the tasks, in the order of their episodes."""
        return tuple(dict.fromkeys(episode.task for episode in self.episodes))

    def select(self, places: Collection[Any]) -> Plan:
        """The plan with the episodes at some places alone, without stages that have none."""
        stages = (stage.select(places) for stage in self.stages)
        return replace(self, stages=tuple(stage for stage in stages if any(stage.queues)))


def stream_seed(seed: int, *key: int) -> int:
    """Derives a seed (32 bits) from ``seed`` for the place ``key``."""
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def task_choices(inner: MetaVectorEnv, infos: Mapping[str, Any]) -> list[dict[str, list[Any]]]:
    """The task names of each environment, with the task states of each.

    The states are ``[None]`` if resets do not take a task state.

    Raises:
        ValueError: If different tasks have one name.
    """
    if not has_everywhere(inner, "task_states"):
        names = task_names(inner, infos)
        _check_names(inner, names)
        return [{name: [None]} for name in names]
    choices: list[dict[str, list[Any]]] = []
    id_of: dict[str, Any] = {}
    described = (inner.get_attr(name) for name in ("task_states", "task_ids", "task_names"))
    for states, ids, names in zip(*described, strict=True):
        by_name: dict[str, list[Any]] = {}
        for state in states:
            name = f"task {ids[state]}" if names is None else names[ids[state]]
            if id_of.setdefault(name, ids[state]) != ids[state]:
                raise ValueError(
                    f"tasks must have names that differ, got {name!r} for the tasks {id_of[name]} "
                    f"and {ids[state]}: name them by task_names=[...]"
                )
            by_name.setdefault(name, []).append(state)
        choices.append(by_name)
    return choices


def _check_names(inner: MetaVectorEnv, names: Sequence[str]) -> None:
    """Raises `ValueError` if environments of different tasks have one name.

    Environments of one group, and those with the same constructor, have one task.
    """
    alike: Sequence[int] = getattr(inner, "first_alike", range(len(names)))
    first: dict[str, int] = {}
    for i, name in enumerate(names):
        j = first.setdefault(name, i)
        if j // inner.envs_per_task != i // inner.envs_per_task and alike[j] != alike[i]:
            raise ValueError(
                f"tasks must have names that differ, got {name!r} for environments {j} and "
                f"{i}: {_NAMES_DIFFER}, or make environments of one task as one group, with "
                "envs_per_task"
            )


def queue_episodes(
    choices: Sequence[dict[str, list[Any]]], episodes_per_task: int, seed: int
) -> list[list[PlannedEpisode]]:
    """Plans the episodes of each environment, in order.

    A task's episodes are distributed to its environments in turn. Goals are drawn without
    replacement until all were drawn. An episode's goal and seed depend on its number within its
    task, not on the number of environments that share the task. ``choices`` is the result of
    `task_choices`.
    """
    envs_of_task: dict[str, list[int]] = {}
    for i, names in enumerate(choices):
        for task in names:
            envs_of_task.setdefault(task, []).append(i)
    queues: list[list[PlannedEpisode]] = [[] for _ in choices]
    for row, (task, envs) in enumerate(envs_of_task.items()):
        goals = sorted({state for i in envs for state in choices[i][task]})
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(row,))))
        times_drawn: Counter[int | None] = Counter()
        ranks: list[dict[int | None, int]] = []  # for each sweep, the position of each goal
        for number in range(episodes_per_task):
            i = envs[number % len(envs)]
            states = choices[i][task]
            sweep = min(times_drawn[goal] for goal in states)
            if sweep == len(ranks):
                order = rng.permutation(goals).tolist()
                ranks.append({goal: rank for rank, goal in enumerate(order)})
            undrawn = [goal for goal in states if times_drawn[goal] == sweep]
            state = min(undrawn, key=ranks[sweep].__getitem__)
            times_drawn[state] += 1
            episode = PlannedEpisode(task, number, stream_seed(seed, row, number), state)
            queues[i].append(episode)
    return queues


def draw_states(states: Sequence[Sequence[int]], trials: int, seed: int) -> list[list[int]]:
    """Draws a task state of each group for each trial, in random sweeps over all states.

    ``states`` are the task states of each of the ``M`` groups; there is a row of ``M`` per trial.
    """
    columns = []
    for group, group_states in enumerate(states):
        rng = Generator(PCG64(SeedSequence(seed, spawn_key=(group,))))
        num_sweeps = -(-trials // len(group_states))
        sweeps = [rng.permutation(group_states) for _ in range(num_sweeps)]
        columns.append(np.concatenate(sweeps)[:trials].tolist())
    return [list(row) for row in zip(*columns, strict=True)]


def plan_episodes(envs: Any, design: Design) -> Plan:
    """Plans an evaluation.

    Args:
        envs: The environments, which are reset.
        design: The numbers that determine the episodes.

    Raises:
        ValueError: If a chosen task is unknown, or the environments have no tasks to draw.
    """
    if design.trials:
        return Plan(design, tuple(_plan_trials(envs, design)))
    _, infos = envs.reset(seed=stream_seed(design.seed, _FIRST_RESET))
    choices = task_choices(envs.unwrapped, infos)
    queues = queue_episodes(choices, design.episodes_per_task, design.seed)
    plan = Plan(design, (Stage(queues),))
    if design.tasks is None:
        return plan
    tasks = list(plan.tasks)
    if unknown := [task for task in design.tasks if task not in tasks]:
        hint = did_you_mean(unknown[0], tasks)
        raise ValueError(f"tasks must be among {tasks}, got {unknown}{hint and f'; {hint}'}")
    return plan.select({e.place for e in plan.episodes if e.task in design.tasks})


def read_kept_tasks(envs: Any, plan: Plan) -> dict[str, Any] | None:
    """The tasks that environments keep, for `Design.kept_tasks`; they are reset.

    Args:
        envs: The environments.
        plan: A plan for them, without trials.

    Raises:
        ValueError: If environments of one name are on different tasks.
    """
    inner: MetaVectorEnv = envs.unwrapped
    keeps_tasks = has_everywhere(inner, "set_task") or has_everywhere(inner, "set_task_state")
    if has_everywhere(inner, "task_states") or not keeps_tasks:
        return None
    # Where tasks are few, such as two directions, a reset may draw the same one again.
    draws = "sample_tasks_on_reset"
    if has_everywhere(inner, draws) and any(inner.get_attr(draws)):
        return None
    tasks = convert_numbers(inner.call(read_task))
    if not all(map(is_plain, tasks)):
        return None
    envs.reset(seed=stream_seed(plan.design.seed, _SECOND_RESET))
    if convert_numbers(inner.call(read_task)) != tasks:  # resets draw them
        return None
    kept_tasks: dict[str, Any] = {}
    for queue, task in zip(plan.stages[0].queues, tasks, strict=True):
        for name in {episode.task for episode in queue}:
            if kept_tasks.setdefault(name, task) != task:
                raise ValueError(
                    f"environments of one task must be on one task, got {kept_tasks[name]} and "
                    f"{task} for {name!r}: {_NAMES_DIFFER}"
                )
    return kept_tasks


def _plan_trials(envs: Any, design: Design) -> Iterator[Stage]:
    """The stages of each trial, on given tasks or on those that are drawn.

    Where a goal is to be drawn, it follows from the seed: all environments of a group then have one
    goal, whatever their seeds and streams.
    """
    inner: MetaVectorEnv = envs.unwrapped
    draws_goals = has_everywhere(inner, "exact_task_state")
    for trial, row in enumerate(_choose_trial_tasks(envs, design)):
        for group, state in enumerate(row if draws_goals else ()):
            if isinstance(state, (int, np.integer)):
                i, goal_seed = group * inner.envs_per_task, stream_seed(design.seed, group, trial)
                [row[group]] = inner.call_some([i], "exact_task_state", state, goal_seed)
        getattr(envs, "set_tasks", inner.set_tasks)(row)
        _, infos = envs.reset(seed=stream_seed(design.seed, trial, 0, 0))
        if trial == 0:
            task_choices(inner, infos)  # which checks the names
        yield from design.plan_trial(trial, task_names(inner, infos), row)


def _choose_trial_tasks(envs: Any, design: Design) -> list[list[Any]]:
    """The tasks of each trial, as given or drawn from those of the environments."""
    inner: MetaVectorEnv = envs.unwrapped
    num_groups = inner.meta_batch_size
    if design.trial_tasks is not None:
        return [copy.deepcopy([*row]) for row in design.trial_tasks]  # environments may change them
    if has_everywhere(inner, "task_states"):
        states = inner.get_attr("task_states")[:: inner.envs_per_task]
        return draw_states(states, design.trials, design.seed)
    if not has_everywhere(inner, "sample_tasks"):
        raise ValueError(
            "the environments have neither task_states nor sample_tasks: pass tasks, "
            f"{num_groups} for each of {format_count(design.trials, 'trial')}"
        )
    num_tasks = num_groups * design.trials
    tasks = _sample_tasks(envs, num_tasks, design.seed)
    return [tasks[start : start + num_groups] for start in range(0, num_tasks, num_groups)]


def _sample_tasks(envs: Any, n: int, seed: int) -> list[Any]:
    """Draws tasks with ``sample_tasks``; a warning says so if the seed does not determine them."""
    inner: MetaVectorEnv = envs.unwrapped
    # What is drawn must not depend on whether resets draw as well.
    if has_everywhere(inner, "sample_tasks_on_reset"):
        inner.set_attr("sample_tasks_on_reset", [False] * inner.num_envs)

    def draw() -> list[Any]:
        envs.reset(seed=stream_seed(seed, 0))
        return list(inner.call_some([0], "sample_tasks", n)[0])

    tasks = draw()
    with kept_random_states():
        repeated_tasks = draw()
    if digest_tasks(tasks) != digest_tasks(repeated_tasks):
        warn_of_unseeded_tasks(envs, seed, "or pass trials with tasks")
    return tasks
