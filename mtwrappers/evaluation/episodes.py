"""Episodes: their plan, which follows from a design, the record of each, and who follows them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_list, check_name, check_string, positive
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.seeding import check_seed
from mtwrappers.samplers.rollout import Flags, Step
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.tasks.draws import digest_tasks, kept_random_states, warn_of_unseeded_tasks
from mtwrappers.vector.contract import MetaVectorEnv

METRICS = ("success_once", "success_final", "return", "length")
# When an episode counts as a success: if any step was one, if the last step was one, or if so many
# consecutive steps were.
SuccessRule: TypeAlias = Literal["any", "last"] | int
# The fields of a `Design` with trials alone.
OF_TRIALS = (
    *("trials", "adaptation_episodes", "adaptation_steps"),
    *("adapts", "adaptation_terminate_on_success", "trial_tasks"),
)
# The second key is used by Stable-Baselines3 and robotics environments.
SUCCESS_KEYS = ("success", "is_success")
_NONE: Mapping[str, Any] = {}
# Keeps the seed of the first reset, before any episode, different from the episodes' seeds.
_FIRST_RESET = 1_000_033


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
        TypeError: If ``tasks`` are not names.
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
    trial_tasks: tuple[tuple[int | float, ...], ...] | None = None
    phases: tuple[tuple[str, int], ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", check_seed(self.seed))
        for name in ("episodes_per_task", *OF_TRIALS[: 3 if self.trials else 0]):
            object.__setattr__(self, name, positive(getattr(self, name), name))
        if self.tasks is not None:
            tasks = tuple(check_list(self.tasks, "tasks", "task name"))
            for task in tasks:
                check_string(task, "each of tasks")
            if len({*tasks}) < len(tasks):
                [(task, count)] = Counter(tasks).most_common(1)
                raise ValueError(f"tasks must differ, got {task!r} {count} times")
            object.__setattr__(self, "tasks", tasks)
        kind, others = ("few-shot", ("tasks", "phases")) if self.trials else ("this", OF_TRIALS)
        for field in fields(self):
            if field.name in others and (value := getattr(self, field.name)) != field.default:
                raise ValueError(f"{kind} evaluation has no {field.name}, got {value!r}")
        if self.trial_tasks is not None:
            object.__setattr__(self, "trial_tasks", tuple(map(_plain_numbers, self.trial_tasks)))
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
    def stages(self) -> list[int]:
        """The number of episodes in each stage of a trial; the policy adapts between stages."""
        before, after = self.adaptation_episodes, self.episodes_per_task
        return [before] * self.adaptation_steps + [after] if self.adapts else [before + after]

    def of_trial(self, trial: int, names: Sequence[str], tasks: Sequence[Any]) -> Iterator[Stage]:
        """Plans the stages of a trial; in each, the first episode of an environment is seeded.

        Args:
            trial: The index of the trial, of those that all environments run together.
            names: The name of each environment's task, ``(N,)``.
            tasks: The task of each task group, ``(M,)``; task states are recorded.
        """
        n, k = len(names), len(names) // len(tasks)
        share = k if self.adapts else 1  # environments that run a trial's episodes
        first, before = trial * (n // share), 0
        for part, size in enumerate(self.stages):
            episodes = []
            for i, name in enumerate(names):
                state = tasks[i // k] if type(tasks[i // k]) is int else None
                seed: int | None = stream_seed(self.seed, trial, part, i)
                own = []
                for number in range(before + i % share, before + size, share):
                    own.append(PlannedEpisode(name, number, seed, state, first + i // share))
                    seed = None
                episodes.append(own)
            before += size
            yield Stage(episodes, list(tasks), trial, part)


def _plain_numbers(row: Any) -> Any:
    """A row of tasks, with Python's numbers for NumPy's."""
    if not isinstance(row, tuple):
        return row
    return tuple(task.item() if isinstance(task, np.number) else task for task in row)


@dataclass(frozen=True)
class Stage:
    """The episodes that all environments run before a policy adapts again, or until the end.

    Args:
        episodes: The episodes of each environment, ``N`` lists. An episode with a seed begins with
            a reset, and one without continues from the previous one.
        tasks: In few-shot evaluation, the task of each task group, ``(M,)``.
        trial: The index of the trial, of those that all environments run together.
        part: The index of the stage in its trial.
    """

    episodes: list[list[PlannedEpisode]]
    tasks: list[Any] | None = None
    trial: int = 0
    part: int = 0

    @property
    def places(self) -> set[Any]:
        """The places of the episodes."""
        return {one.place for own in self.episodes for one in own}

    def without(self, done: Collection[Any]) -> Stage:
        """The stage without the episodes at some places."""
        left = [[one for one in own if one.place not in done] for own in self.episodes]
        return replace(self, episodes=left)


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
        other = first.setdefault(name, i)
        if other // inner.envs_per_task != i // inner.envs_per_task and alike[other] != alike[i]:
            raise ValueError(
                f"tasks must have names that differ, got {name!r} for environments {other} and "
                f"{i}: name them by TaskNameWrapper(env, task_name=...) or task_names=[...], or "
                "make environments of one task as one group, with envs_per_task"
            )


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


def plan_of(envs: Any, design: Design) -> tuple[list[Stage], list[PlannedEpisode]]:
    """Plans an evaluation: its stages in order, and its episodes in the order of the result.

    Args:
        envs: The environments, which are reset.
        design: The numbers that determine the episodes.

    Raises:
        ValueError: If a chosen task is unknown, or the environments have no tasks to draw.
    """
    if design.trials:
        stages = [*_stages_of_trials(envs, design)]
        return stages, in_order(stages)
    _, infos = envs.reset(seed=stream_seed(design.seed, _FIRST_RESET))
    plan = make_plan(task_choices(envs.unwrapped, infos), design.episodes_per_task, design.seed)
    known = list(dict.fromkeys(one.task for own in plan for one in own))
    if unknown := [task for task in design.tasks or () if task not in known]:
        hint = did_you_mean(unknown[0], known)
        raise ValueError(f"tasks must be among {known}, got {unknown}{hint and f'; {hint}'}")
    chosen = known if design.tasks is None else design.tasks
    stages = [Stage([[one for one in own if one.task in chosen] for own in plan])]
    return stages, in_order(stages)


def in_order(stages: Iterable[Stage]) -> list[PlannedEpisode]:
    """The episodes of a plan in the order of a result: by trial, or by task and then by number."""
    every = [one for stage in stages for own in stage.episodes for one in own]
    place = {task: i for i, task in enumerate(dict.fromkeys(one.task for one in every))}
    return sorted(
        every, key=lambda one: (place[one.task] if one.trial is None else one.trial, one.number)
    )


def _stages_of_trials(envs: Any, design: Design) -> Iterator[Stage]:
    """The stages of each trial, on given tasks or on those that are drawn.

    Where a goal is to be drawn, it follows from the seed: all environments of a group then have one
    goal, whatever their seeds and streams.
    """
    inner: MetaVectorEnv = envs.unwrapped
    k, draws = inner.envs_per_task, has_everywhere(inner, "exact_task_state")
    for trial, row in enumerate(_tasks_of_trials(envs, design)):
        for group, state in enumerate(row if draws else ()):
            if isinstance(state, (int, np.integer)):
                exact = state, stream_seed(design.seed, group, trial)
                [row[group]] = inner.call_some([group * k], "exact_task_state", *exact)
        getattr(envs, "set_tasks", inner.set_tasks)(row)
        _, infos = envs.reset(seed=stream_seed(design.seed, trial, 0, 0))
        if trial == 0:
            task_choices(inner, infos)  # which checks the names
        yield from design.of_trial(trial, task_names(inner, infos), row)


def _tasks_of_trials(envs: Any, design: Design) -> list[list[Any]]:
    """The tasks of each trial, as given or drawn from those of the environments."""
    inner: MetaVectorEnv = envs.unwrapped
    m = inner.meta_batch_size
    if design.trial_tasks is not None:
        return [list(row) for row in design.trial_tasks]
    if has_everywhere(inner, "task_states"):
        states = inner.get_attr("task_states")[:: inner.envs_per_task]
        return draw_states(states, design.trials, design.seed)
    if has_everywhere(inner, "sample_tasks"):
        # What is drawn must not depend on whether resets draw as well.
        if has_everywhere(inner, "sample_tasks_on_reset"):
            inner.set_attr("sample_tasks_on_reset", [False] * inner.num_envs)

        def draw() -> list[Any]:
            envs.reset(seed=stream_seed(design.seed, 0))
            return list(inner.call_some([0], "sample_tasks", m * design.trials)[0])

        drawn = draw()
        with kept_random_states():
            again = draw()
        if digest_tasks(drawn) != digest_tasks(again):
            warn_of_unseeded_tasks(envs, design.seed, "or pass trials with tasks", stacklevel=3)
        return [drawn[t * m : (t + 1) * m] for t in range(design.trials)]
    raise ValueError(
        "the environments have neither task_states nor sample_tasks: pass tasks, "
        f"{m} for each of {design.trials} trials"
    )


@dataclass(frozen=True)
class Episode:
    """The record of one complete episode.

    Args:
        task: The name of the task.
        number: The index of the episode within its task (or trial), from 0.
        episode_return: The undiscounted sum of rewards.
        length: The number of steps.
        success_once: Whether any step was a success; ``None`` if infos do not report success.
        success_final: Whether the last step was a success; ``None`` likewise.
        task_state: The task state of the episode, if the evaluation chose it.
        trial: The trial of the episode in few-shot evaluation, else ``None``.
        steps_to_success: The number of steps to the first success; ``None`` without a success.
        longest_success: The largest number of consecutive steps of success; ``None`` if infos do
            not report success.

    >>> from mtwrappers.evaluation import Episode
    >>> episode = Episode("reach-v3", 0, 812.5, 500, success_once=True, success_final=False)
    >>> episode.metric("success_once"), episode.metric("return"), episode.length
    (1.0, 812.5, 500)
    """

    task: str
    number: int
    episode_return: float
    length: int
    success_once: bool | None = None
    success_final: bool | None = None
    task_state: int | None = None
    trial: int | None = None
    steps_to_success: int | None = None
    longest_success: int | None = None

    @property
    def place(self) -> tuple[str, int | None, int]:
        """The task, the trial and the number, which no two episodes of an evaluation share."""
        return self.task, self.trial, self.number

    def metric(self, name: str) -> float | None:
        """Returns one of `METRICS` as a number, or ``None``."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


def is_success(episode: Episode, rule: SuccessRule) -> bool:
    """Whether an episode counts as a success; one whose infos report none does not."""
    if isinstance(rule, int):
        return (episode.longest_success or 0) >= rule
    return bool(episode.success_once if rule == "any" else episode.success_final)


def reporting_tasks(episodes: Iterable[Episode]) -> frozenset[str]:
    """The tasks of which an episode reports success."""
    return frozenset(one.task for one in episodes if one.success_once is not None)


def with_failures(episodes: Iterable[Episode], tasks: Collection[str]) -> tuple[Episode, ...]:
    """The episodes, of which those of ``tasks`` that report no success record a failure.

    It is for episodes that alone may not show that these tasks report success.
    """
    failure: dict[str, Any] = {"success_once": False, "success_final": False, "longest_success": 0}
    return tuple(
        replace(episode, **failure)
        if episode.success_once is None and episode.task in tasks
        else episode
        for episode in episodes
    )


def goal_of(one: Episode, drawn: bool) -> int:
    """The goal of an episode: its task state, or if it is new, the number of episode or trial."""
    if one.task_state is not None and not drawn:
        return one.task_state
    return one.number if one.trial is None else one.trial


class Observer:
    """Follows an evaluation, such as a recorder of frames or a list of episodes.

    A subclass overrides the methods that it needs. The environments are idle during these calls, so
    an observer may use them (``envs.call_some([i], "render")``).

    >>> import gymnasium, numpy as np
    >>> import mtwrappers as mt
    >>> from mtwrappers.evaluation import Observer
    >>> class Printer(Observer):
    ...     def end(self, i, episode):
    ...         print(i, episode.task, episode.number, episode.length)
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mt.evaluate(policy, envs, episodes_per_task=1, observers=[Printer()])
    0 task 0 0 100
    1 task 1 0 100
    """

    def plan(self, episodes: Sequence[PlannedEpisode]) -> None:
        """Called once before the first episode, with the episodes that are to be run."""

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Called when environment ``i`` was reset for an episode, before the policy is called."""

    def step(self, step: Step) -> None:
        """Called after each step of all environments, before those that ended are reset."""

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""

    def close(self) -> None:
        """Called once at the end of the evaluation, also after an error or an interruption."""


class Record:
    """The record of an episode while it runs.

    ``actions`` is for its actions, if they are recorded.

    Args:
        planned: The episode.
        i: The index of its environment among all, for errors.
    """

    def __init__(self, planned: PlannedEpisode, i: int = 0) -> None:
        self._planned, self._i = planned, i
        self.actions: list[NDArray[Any]] = []
        self._return = 0.0
        self._successes: list[bool | None] = []  # of each step; None if infos do not report it

    def add(self, reward: float, infos: Mapping[str, Any]) -> None:
        """Adds a step with its infos, of which `SUCCESS_KEYS` are read.

        Raises:
            ValueError: If the success is neither a bool nor 0 or 1.
        """
        self._return += float(reward)
        self._successes.append(self._success(infos) if infos else None)

    def _success(self, infos: Mapping[str, Any]) -> bool | None:
        for key in SUCCESS_KEYS:
            value = infos.get(key)
            value = value.item() if isinstance(value, np.generic) else value
            if value is None:
                continue
            if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                raise ValueError(
                    f"info[{key!r}] must be a bool, 0 or 1, got {value!r} from {self._where}"
                )
            return bool(value)
        return None

    @property
    def _where(self) -> str:
        return f"environment {self._i}, task {self._planned.task!r}"

    def episode(self) -> Episode:
        """The episode, which has ended.

        Raises:
            ValueError: If its return is not finite.
        """
        if not math.isfinite(self._return):
            raise ValueError(
                f"rewards must be finite, got a return of {self._return} from {self._where}"
            )
        planned, steps = self._planned, self._successes
        # In an episode that reports success, a step that does not is no success.
        reports = any(success is not None for success in steps)
        runs = [len([*run]) for success, run in itertools.groupby(steps) if success]
        return Episode(
            planned.task,
            planned.number,
            self._return,
            len(steps),
            success_once=bool(runs) if reports else None,
            success_final=bool(steps[-1]) if reports else None,
            task_state=planned.task_state,
            trial=planned.trial,
            steps_to_success=steps.index(True) + 1 if runs else None,
            longest_success=max(runs, default=0) if reports else None,
        )


class Tally:
    """Records the episodes of ``N`` environments, for the stages of a plan.

    Args:
        keep: Called with each episode that ends: the index of its environment, the `Episode`, and
            its actions.
        scale: The factors of rewards, from `undisturbed`.
        raw: The mask from `undisturbed`.
        records: Whether to record actions.
        observers: They are called after ``keep``.
        rows: The environments that are followed, among all of a plan.

    Raises:
        ValueError: As `Record`, or if recorded actions change their dtype.
    """

    def __init__(
        self,
        keep: Callable[[int, Episode, NDArray[Any] | None], object],
        scale: NDArray[np.float64],
        raw: Flags,
        records: bool = False,
        observers: Sequence[Observer] = (),
        rows: slice = slice(None),
    ) -> None:
        self._keep, self._scale, self._raw = keep, scale[rows], raw[rows]
        self._records, self._observers, self._rows = records, observers, rows
        self.first = rows.start or 0  # the index of the first environment among all
        self._dtype: np.dtype[Any] | None = None  # of the actions so far

    def plan(self, episodes: Sequence[Sequence[PlannedEpisode]]) -> NDArray[np.int64]:
        """Sets the next episodes of all environments; returns the number of each here, ``(N,)``."""
        self._left = [[*reversed(own)] for own in episodes[self._rows]]
        self._running: list[Any] = [None] * len(self._left)  # a `Record` of each
        return np.array([len(own) for own in self._left], dtype=np.int64)

    def present(self, i: int) -> PlannedEpisode:
        """The current episode of environment ``i``."""
        return self._left[i][-1]

    def begin(self, i: int) -> None:
        """Notifies the observers that environment ``i`` was reset for its current episode."""
        for observer in self._observers:
            observer.begin(i, self.present(i))

    def names(self, rows: Sequence[int], infos: Mapping[str, Any]) -> list[str]:
        """The names of the current tasks of these environments."""
        return [self.present(i).task for i in rows]

    def __call__(self, step: Step) -> None:
        """Adds a step."""
        before, self._dtype = self._dtype, step.actions.dtype
        if self._records and before is not None and before != self._dtype:
            raise ValueError(
                "actions that are recorded as evidence must keep their dtype, got "
                f"{before} and then {self._dtype}"
            )
        rewards, infos = step.rewards, _success_infos(step)
        if self._raw.any():
            raw, reported = step.info("raw_reward")
            rewards = np.where(self._raw & reported, raw, rewards)
        rewards = (rewards * self._scale).tolist()
        for i in np.flatnonzero(step.counted).tolist():
            if step.began[i]:
                self._running[i] = Record(self.present(i), self.first + i)
            self._running[i].add(rewards[i], infos.get(i, _NONE))
            if self._records:
                self._running[i].actions.append(step.actions[i])
        for observer in self._observers:
            observer.step(step)
        for i in np.flatnonzero(step.finished & step.counted).tolist():
            episode = self._running[i].episode()
            self._left[i].pop()
            self._keep(i, episode, np.array(self._running[i].actions) if self._records else None)
            for observer in self._observers:
                observer.end(i, episode)


def _success_infos(step: Step) -> dict[int, dict[str, Any]]:
    """What environments report under `SUCCESS_KEYS`, by their indices."""
    found: dict[int, dict[str, Any]] = {}
    for key in SUCCESS_KEYS:
        values, reported = step.info(key)
        # Values other than arrays of numbers or objects raise an error when they are read.
        rows = values.tolist() if isinstance(values, np.ndarray) else [values] * len(reported)
        for i in np.flatnonzero(reported).tolist():
            found.setdefault(i, {})[key] = rows[i]
    return found
