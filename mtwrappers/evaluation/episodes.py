"""Episodes: the plan of an evaluation, fixed before the first step, and the record of each episode.

`make_plan` makes the plan of `evaluate`, `Trials` of `few_shot_evaluate`. A `Tally` turns the steps
of each episode into an `Episode`, and an `Observer` can follow an evaluation.
"""

from __future__ import annotations

import math
import reprlib
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.common.checks import check_name
from mtwrappers.samplers.rollout import Flags, Step
from mtwrappers.samplers.task_texts import has_everywhere, task_names
from mtwrappers.vector.contract import MetaVectorEnv

# Whether a value from a file has a field's type, in a range that arrays can hold.
_IS: dict[str, Callable[[Any], bool]] = {
    "str": lambda value: type(value) is str,
    "float": lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max,
    "int": lambda value: type(value) is int and 0 <= value < 2**63,
    "int | None": lambda value: value is None or _IS["int"](value),
    "bool | None": lambda value: value is None or type(value) is bool,
}
METRICS = ("success_once", "success_final", "return", "length")
# The second key is used by Stable-Baselines3 and robotics environments.
SUCCESS_KEYS = ("success", "is_success")


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

    def to_dict(self) -> dict[str, Any]:
        """All fields, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Episode:
        """Reverses `to_dict`, for data from a file.

        Raises:
            ValueError: If ``data`` is not from `to_dict`.
        """
        known = fields(cls)
        if not isinstance(data, dict) or set(data) - {field.name for field in known}:
            raise ValueError(f"expected an episode, got {reprlib.repr(data)}")
        for field in known:
            value = data.get(field.name, field.default)
            if not _IS[str(field.type)](value):
                got = "nothing" if value is MISSING else reprlib.repr(value)
                raise ValueError(
                    f"{field.name} of an episode must be of the type {field.type}, got {got}"
                )
        return cls(**data)

    def metric(self, name: str) -> float | None:
        """Returns one of `METRICS` as a number, or ``None``."""
        value = getattr(self, "episode_return" if name == "return" else name)
        return None if value is None else float(value)


class ForeignEpisodeError(ValueError):
    """An episode in ``finished`` does not belong to the evaluation."""


class Observer:
    """Follows an evaluation, such as a progress bar, a recorder of frames, or a list of episodes.

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
        """Called once before the first episode, with all episodes, including ``finished`` ones."""

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Called when environment ``i`` was reset for an episode, before the policy is called."""

    def step(self, step: Step) -> None:
        """Called after each step of all environments.

        An environment whose episode ended is still in its last state, unless the vector environment
        is in SAME_STEP mode and wrapped: then it was already reset.
        """

    def end(self, i: int, episode: Episode) -> None:
        """Called when environment ``i`` has finished an episode."""


class Tally:
    """Accumulates the steps of ``N`` environments into an `Episode` for each that ends.

    ``ended`` lists the episodes in the order in which they ended, each with the index of its
    environment among all; ``first`` is the index of the first environment here. ``scale`` and
    ``raw`` are from `frozen`.
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
        self._first = first
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

    def names(self, rows: Sequence[int], infos: Mapping[str, Any]) -> list[str]:
        """The names of the current tasks of these environments."""
        return [self.present(i).task for i in rows]

    def __call__(self, step: Step) -> None:
        """Adds a step."""
        for array in (self._returns, self._lengths, self._reports):
            array[step.began] = 0
        for array in (self._success_at, self._run, self._longest):
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
                    f"{self._first + i}, task {planned.task!r}"
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
            self.ended.append((self._first + i, episode))
            for observer in self._observers:
                observer.end(i, episode)

    def _require_success(self, reported: Flags, counted: Flags) -> None:
        """Raises an error where a step does not report success, as earlier ones of the episode."""
        for i in np.flatnonzero(self._reports & ~reported & counted).tolist():
            planned = self.present(i)
            raise ValueError(
                "an episode whose infos report success must report it in every later step: "
                f"expected {' or '.join(SUCCESS_KEYS)}, got neither in step {self._lengths[i]} of "
                f"episode {planned.number} from environment {self._first + i}, task "
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
                        f"{self._first + i}, task {self.present(i).task!r}"
                    )
                reported[i], success[i] = True, bool(value)
        return success, reported


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


def stream_seed(seed: int, *key: int) -> int:
    """Derives a seed (32 bits) from ``seed`` for the place ``key``."""
    return int(SeedSequence(seed, spawn_key=key).generate_state(1)[0])


def task_choices(inner: MetaVectorEnv, infos: dict[str, Any]) -> list[dict[str, list[Any]]]:
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


Place: TypeAlias = tuple[int, int]  # the number of a trial, and of an episode within it
_MAX_COUNT = 10**7


@dataclass(frozen=True)
class Trials:
    """The numbers that determine the episodes of `few_shot_evaluate`, before the first step.

    Args:
        trials: The number of trials, each on one task of each of the ``M`` task groups.
        adaptation_episodes: The number of episodes per adaptation step.
        evaluation_episodes: The number of episodes after adaptation.
        adaptation_steps: The number of adaptation steps.
        adapts: Whether the policy has ``adapt``: then the ``K`` environments of a task share its
            episodes; otherwise each environment runs its own trial.
        tasks: The ``M`` given tasks of each trial, as numbers; ``None`` if they follow from the
            seed.
        adaptation_terminate_on_success: Whether a success ends an episode of adaptation; ``None``
            leaves it to the environments.
    """

    trials: int
    adaptation_episodes: int
    evaluation_episodes: int
    adaptation_steps: int
    adapts: bool
    tasks: tuple[tuple[float, ...], ...] | None = None
    adaptation_terminate_on_success: bool | None = None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of `few_shot_evaluate` that these trials come from."""
        given = {} if self.tasks is None else {"tasks": self.tasks}
        return {
            "trials": self.trials,
            "adaptation_episodes": self.adaptation_episodes,
            "evaluation_episodes": self.evaluation_episodes,
            "adaptation_steps": self.adaptation_steps,
            "adaptation_terminate_on_success": self.adaptation_terminate_on_success,
            **given,
        }

    @property
    def stages(self) -> list[int]:
        """The number of episodes in each stage; the policy adapts between stages."""
        before, after = self.adaptation_episodes, self.evaluation_episodes
        return [before] * self.adaptation_steps + [after] if self.adapts else [before + after]

    @property
    def adaptation_length(self) -> int:
        """The number of adaptation episodes of each trial."""
        return self.adaptation_episodes * self.adaptation_steps

    def length(self, m: int, k: int) -> int:
        """The total number of episodes of ``m`` task groups of ``k`` environments."""
        return self.trials * sum(self.stages) * (m if self.adapts else m * k)

    def by_env(self, trial: int, stage: int, m: int, k: int) -> list[list[Place]]:
        """The episodes of each of ``m * k`` environments in a stage, in order."""
        share = k if self.adapts else 1  # environments that run a trial's episodes
        first, before = trial * (m * k // share), sum(self.stages[:stage])
        count = self.stages[stage]
        return [
            [(first + i // share, before + n) for n in range(i % share, count, share)]
            for i in range(m * k)
        ]

    def plan(
        self, trial: int, stage: int, names: Sequence[str], tasks: Sequence[Any], seed: int
    ) -> list[list[PlannedEpisode]]:
        """Plans the episodes of each environment in a stage; the first one of each is seeded.

        Args:
            trial: The index of the trial.
            stage: The index in `stages`.
            names: The name of each environment's task, ``(N,)``.
            tasks: The task of each task group, ``(M,)``; task states are recorded.
            seed: The seed of the evaluation.
        """
        m, n = len(tasks), len(names)
        states = [task if type(task) is int else None for task in tasks]
        return [
            [
                PlannedEpisode(
                    names[i],
                    number,
                    None if place else stream_seed(seed, trial, stage, i),
                    states[i * m // n],
                    of,
                )
                for place, (of, number) in enumerate(own)
            ]
            for i, own in enumerate(self.by_env(trial, stage, m, n // m))
        ]

    def of_trial(self, trial: int, m: int, k: int) -> Iterator[Place]:
        """The episodes of a trial, of all environments."""
        for stage in range(len(self.stages)):
            for own in self.by_env(trial, stage, m, k):
                yield from own

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        tasks = None if self.tasks is None else [list(row) for row in self.tasks]
        return {**asdict(self), "tasks": tasks}

    @classmethod
    def from_dict(cls, data: Any) -> Trials:
        """Reverses `to_dict`, for data from a file.

        Raises:
            ValueError: If ``data`` is not from `to_dict`.
        """
        names = [field.name for field in fields(cls)]
        if not isinstance(data, dict) or set(data) != set(names):
            raise ValueError(f"expected trials with {names}, got {reprlib.repr(data)}")
        if not all(_OF_TRIALS[name](value) for name, value in data.items()):
            raise ValueError(f"trials cannot be {reprlib.repr(data)}")
        given = data["tasks"]
        if (tasks := numbers(given)) is None and given is not None:
            raise ValueError(f"tasks of trials must be numbers, got {reprlib.repr(given)}")
        return cls(**{**data, "tasks": tasks})


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 < value < _MAX_COUNT


def _is_lists(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(own, list) for own in value)


# Whether a value from a file is valid for a field of `Trials`.
_OF_TRIALS: dict[str, Callable[[Any], bool]] = {
    "trials": _is_count,
    "adaptation_episodes": _is_count,
    "evaluation_episodes": _is_count,
    "adaptation_steps": _is_count,
    "adapts": lambda value: type(value) is bool,
    "tasks": lambda value: value is None or _is_lists(value),
    "adaptation_terminate_on_success": lambda value: value is None or type(value) is bool,
}


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


def numbers(tasks: Any) -> tuple[tuple[float, ...], ...] | None:
    """The given tasks of each trial as tuples, if all are finite numbers, else ``None``."""
    if tasks is None or any(type(task) not in (int, float) for row in tasks for task in row):
        return None
    if not all(math.isfinite(task) for row in tasks for task in row):
        return None
    return tuple(tuple(row) for row in tasks)
