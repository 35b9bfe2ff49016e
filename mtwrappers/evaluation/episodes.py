"""Episodes: their plan, which follows from a design, the record of each, and who follows them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_name
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.seeding import check_seed
from mtwrappers.samplers.rollout import Flags, Step
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.vector.contract import MetaVectorEnv

METRICS = ("success_once", "success_final", "return", "length")
# The second key is used by Stable-Baselines3 and robotics environments.
SUCCESS_KEYS = ("success", "is_success")
# A bound on counts in files, so that plans fit into memory.
_MAX_COUNT = 10**7
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
        check_seed(self.seed)
        few_shot = ("trials", "adaptation_episodes", "adaptation_steps")
        least = {"episodes_per_task": 1, **dict.fromkeys(few_shot, 1 if self.trials else 0)}
        for name, low in least.items():
            if not low <= (value := getattr(self, name)) < _MAX_COUNT:
                raise ValueError(f"{name} must be in [{low}, {_MAX_COUNT - 1:,}], got {value}")
        default = type(self).__dataclass_fields__
        alone: tuple[str, ...] = ("tasks", "phases") if self.trials else (*few_shot[1:], "adapts")
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
        order: dict[str, int] = {}
    else:
        _, infos = envs.reset(seed=stream_seed(design.seed, _FIRST_RESET))
        choices = task_choices(envs.unwrapped, infos)
        plan = make_plan(choices, design.episodes_per_task, design.seed)
        order = {task: i for i, task in enumerate(_chosen(design.tasks, plan))}
        stages = [Stage([[one for one in own if one.task in order] for own in plan])]
    every = (one for stage in stages for own in stage.episodes for one in own)
    return stages, sorted(every, key=lambda one: (one.trial or order.get(one.task, 0), one.number))


def _chosen(tasks: Sequence[str] | None, plan: Sequence[Sequence[PlannedEpisode]]) -> list[str]:
    """The tasks to evaluate, in the order of the environments."""
    known = list(dict.fromkeys(one.task for own in plan for one in own))
    if unknown := [task for task in tasks or () if task not in known]:
        hint = did_you_mean(unknown[0], known)
        raise ValueError(f"tasks must be among {known}, got {unknown}{hint and f'; {hint}'}")
    return [task for task in known if tasks is None or task in tasks]


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
        names = task_names(inner, infos)
        for stage in range(len(design.stages)):
            yield Stage(design.of_stage(trial, stage, names, row), row, trial, stage)


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
        envs.reset(seed=stream_seed(design.seed, 0))
        drawn = list(inner.call_some([0], "sample_tasks", m * design.trials)[0])
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


def units(episodes: Iterable[Episode]) -> list[list[Episode]]:
    """The independent units of a task's episodes: each by itself, or those of each trial.

    Episodes of one trial share a goal and an adapted policy, so they count as one value.
    """
    found: dict[Any, list[Episode]] = {}
    for i, one in enumerate(episodes):
        found.setdefault(("episode", i) if one.trial is None else one.trial, []).append(one)
    return [*found.values()]


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
        """Called after each step of all environments.

        An environment whose episode ended is still in its last state, unless the vector environment
        is in SAME_STEP mode and wrapped: then it was already reset.
        """

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""

    def close(self) -> None:
        """Called once at the end of the evaluation, also after an error or an interruption."""


class Tally:
    """Accumulates the steps of ``N`` environments into an `Episode` for each that ends.

    ``ended`` lists the episodes in the order in which they ended, each with the index of its
    environment among all; ``first`` is the index of the first environment here. ``scale`` and
    ``raw`` are from `undisturbed`.
    """

    def __init__(
        self,
        plan: Sequence[Sequence[PlannedEpisode]],
        scale: NDArray[np.float64],
        raw: Flags,
        observers: Sequence[Observer] = (),
        first: int = 0,
    ) -> None:
        n = len(plan)
        self.ended: list[tuple[int, Episode]] = []
        self.first = first
        self._plan, self._ended = plan, [0] * n
        self._scale, self._raw, self._observers = scale, raw, observers
        self._returns = np.zeros(n, dtype=np.float64)
        self._lengths = np.zeros(n, dtype=np.int64)
        self._reports = np.zeros(n, dtype=np.bool_)
        # The step of the first success, 0 for none so far.
        self._success_at = np.zeros(n, dtype=np.int64)
        # The current and the largest number of consecutive steps of success.
        self._run, self._longest = np.zeros((2, n), dtype=np.int64)

    def present(self, i: int) -> PlannedEpisode:
        """The current episode of environment ``i``."""
        return self._plan[i][self._ended[i]]

    def begin(self, i: int) -> None:
        """Notifies the observers that environment ``i`` was reset for its current episode."""
        for observer in self._observers:
            observer.begin(i, self.present(i))

    def names(self, rows: Sequence[int], infos: Mapping[str, Any]) -> list[str]:
        """The names of the current tasks of these environments."""
        return [self.present(i).task for i in rows]

    def __call__(self, step: Step) -> None:
        """Adds a step."""
        counts = (self._lengths, self._success_at, self._run, self._longest)
        for array in (self._returns, self._reports, *counts):
            array[step.began] = 0
        rewards = step.rewards
        if self._raw.any():
            raw, reported = step.info("raw_reward")
            rewards = np.where(self._raw & reported, raw, rewards)
        self._returns += rewards * self._scale
        self._lengths += 1
        success, reported = self._success(step)
        first = success & (self._success_at == 0)
        if first.any():
            self._success_at[first] = self._lengths[first]
        self._run = np.where(success, self._run + 1, 0)
        np.maximum(self._longest, self._run, out=self._longest)
        self._require_success(reported, step.counted)
        for observer in self._observers:
            observer.step(step)
        ends = np.flatnonzero(step.finished & step.counted).tolist()
        for i in ends:
            planned = self.present(i)
            if not np.isfinite(self._returns[i]):
                raise ValueError(
                    f"rewards must be finite, got a return of {self._returns[i]} from environment "
                    f"{self.first + i}, task {planned.task!r}"
                )
            self._ended[i] += 1
            at, reports = int(self._success_at[i]), self._reports[i]
            episode = Episode(
                task=planned.task,
                number=planned.number,
                episode_return=float(self._returns[i]),
                length=int(self._lengths[i]),
                success_once=at > 0 if reports else None,
                success_final=bool(success[i]) if reports else None,
                task_state=planned.task_state,
                trial=planned.trial,
                steps_to_success=at or None,
                longest_success=int(self._longest[i]) if reports else None,
            )
            self.ended.append((self.first + i, episode))
            for observer in self._observers:
                observer.end(i, episode)
            if self._ended[i] < len(self._plan[i]) and self.present(i).seed is None:
                self.begin(i)

    def _require_success(self, reported: Flags, counted: Flags) -> None:
        """Raises an error where a step does not report success, as earlier ones of the episode."""
        for i in np.flatnonzero(self._reports & ~reported & counted).tolist():
            planned = self.present(i)
            raise ValueError(
                "an episode whose infos report success must report it in every later step: "
                f"expected {' or '.join(SUCCESS_KEYS)}, got neither in step {self._lengths[i]} of "
                f"episode {planned.number} from environment {self.first + i}, task "
                f"{planned.task!r}"
            )
        self._reports |= reported

    def _success(self, step: Step) -> tuple[Flags, Flags]:
        """Masks of the environments whose step was a success, and of those that report it."""
        success, reported = np.zeros_like(step.finished), np.zeros_like(step.finished)
        for key in SUCCESS_KEYS:
            values, present = step.info(key)
            # Values other than arrays of numbers or objects raise an error below.
            rows = values.tolist() if isinstance(values, np.ndarray) else [values] * len(reported)
            for i in np.flatnonzero(present & step.counted & ~reported).tolist():
                value = rows[i].item() if isinstance(rows[i], np.generic) else rows[i]
                if value is None:
                    continue
                if not isinstance(value, (bool, int, float)) or value not in (0, 1):
                    raise ValueError(
                        f"info[{key!r}] must be a bool, 0 or 1, got {value!r} from environment "
                        f"{self.first + i}, task {self.present(i).task!r}"
                    )
                reported[i], success[i] = True, bool(value)
        return success, reported


def single_step(action: Any, result: Any, began: bool, cut: bool = False) -> Step:
    """The `Step` of one environment, for a `Tally` of one.

    Args:
        action: The action.
        result: What the environment's ``step`` returned.
        began: Whether the step began an episode.
        cut: Whether the episode ends here, even if the environment goes on.
    """
    _, reward, terminated, truncated, info = result
    known = {key: info[key] for key in (*SUCCESS_KEYS, "raw_reward") if key in info}
    infos = {key: np.array([value]) for key, value in known.items()}
    flags = [np.array([bool(flag)]) for flag in (terminated, truncated)]
    return Step(
        began=np.array([began]),
        counted=np.ones(1, np.bool_),
        finished=flags[0] | flags[1] | cut,
        observations=None,
        actions=np.asarray(action)[None],
        agent_infos={},
        next_observations=None,
        rewards=np.array([reward], np.float64),
        terminated=flags[0],
        truncated=flags[1],
        infos=infos | {f"_{key}": np.ones(1, np.bool_) for key in known},
    )
