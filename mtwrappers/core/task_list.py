"""The multi-task protocol over a set of tasks, such as a list, and their inner environments."""

from __future__ import annotations

import abc
import copy
import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete, Space
from numpy.random import Generator

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_flag, check_index, check_task_names
from mtwrappers.common.spaces import as_element, summary
from mtwrappers.core.mtenv import MTEnv, Observation
from mtwrappers.core.selection import SelectName, Strategy, TaskSelector
from mtwrappers.state.env_state import get_state, set_state


class TaskList:
    """A list of tasks, whose task states are the indices into it, and how to draw the next one.

    Args:
        task_ids: The id of every task state, integers from 0 on.
        task_names: The name of every task id, if they have names.
        task_states: The task states that can be drawn and set; by default all.
        select: How to draw; see `mtwrappers.core.selection`.
    """

    def __init__(
        self,
        task_ids: Sequence[int],
        task_names: Sequence[str] | None = None,
        task_states: Sequence[int] | None = None,
        select: SelectName | Strategy = "uniform",
    ) -> None:
        self.task_ids = tuple(task_ids)
        num_ids = max(self.task_ids) + 1
        self.task_names = check_task_names(task_names, num_ids)
        self.task_observation_space = Discrete(num_ids)
        self.states = tuple(range(len(self.task_ids)) if task_states is None else task_states)
        self.num_tasks = len(self.states)
        self._places = {state: place for place, state in enumerate(self.states)}
        ids = [self.task_ids[state] for state in self.states]
        # A curriculum weighs ids, or single tasks if there is only one id.
        self.selector = TaskSelector(select, len(ids), ids if len(set(ids)) > 1 else None)

    def first(self) -> int:
        """The first task state."""
        return self.states[0]

    def draw(self, rng: Generator) -> int:
        """The task state that the selection strategy draws."""
        return self.states[self.selector(rng)]

    def check(self, task_state: Any, what: str) -> int:
        """Returns ``task_state`` as an `int`, or raises `ValueError`."""
        state = check_index(task_state, len(self.task_ids), what)
        if state not in self._places:
            own = self.states
            some = list(own) if len(own) < 6 else f"{own[0]}, {own[1]}, ..., {own[-1]}"
            raise ValueError(
                f"{what} must be one of this environment's own {len(own)}: {some}; got {state}. In "
                "a vector environment, options={'env_options': [{'task_state': ...}, ...]} has one "
                "for each environment"
            )
        return state

    def place(self, task_state: int) -> int:
        """The place of a task state in `states`."""
        return self._places[task_state]

    def describe(self, task_state: int) -> tuple[np.int64, dict[str, Any]]:
        """The task id, and the infos ``task_id`` and ``task_name``."""
        task_id = self.task_ids[task_state]
        named = {} if self.task_names is None else {"task_name": self.task_names[task_id]}
        return np.int64(task_id), {"task_id": task_id, **named}


class TaskSpace:
    """Tasks that are the elements of a space; the elements are also the task states."""

    task_names = selector = None

    def __init__(self, space: Space[Any]) -> None:
        self._space = copy.deepcopy(space)
        self.task_observation_space = copy.deepcopy(space)

    def first(self) -> Any:
        """An element drawn from entropy."""
        return self._space.sample()

    def draw(self, rng: Generator) -> Any:
        """Draws the next element."""
        self._space.seed(int(rng.integers(2**32)))
        return self._space.sample()

    def check(self, task_state: Any, what: str) -> Any:
        """Returns a copy of ``task_state``, with arrays for lists, or raises `ValueError`."""
        try:
            return copy.deepcopy(as_element(self._space, task_state))
        except ValueError:
            raise ValueError(
                f"{what} must be an element of {summary(self._space)}, got {task_state!r}"
            ) from None

    def describe(self, task_state: Any) -> tuple[Any, dict[str, Any]]:
        """The element, and no infos."""
        return task_state, {}


class ResetDraws(enum.Enum):
    """Which resets draw a task, if none was set since the last reset and no option names one."""

    NEVER = "never"
    AFTER_SEEDING = "the first reset after the task stream was seeded"
    ALWAYS = "every reset"


class TaskChange(enum.Enum):
    """How the choice of the task changed since the last reset.

    Seeding the task stream turns ``NONE`` into ``SEEDED``, setting a task turns both into ``SET``,
    and a reset turns each into ``NONE``.
    """

    NONE = "not at all"
    SEEDED = "the task stream was seeded"
    SET = "a task was set, which the next reset begins"


class TaskSetMTEnv(MTEnv):
    """An `MTEnv` over a set of tasks, with an inner environment for each of them.

    A subclass implements `_activate`, which switches ``_env`` to a task. If
    ``sample_tasks_on_reset`` is set, every reset draws the next task, unless one was set since the
    last reset; such an environment seeds itself at its first reset if it was not seeded before.

    Each inner environment has a branch of the environment seed (``_branch`` for the current one),
    which seeds it at its first reset after each `seed`. So results do not depend on which
    environments were used before.

    Args:
        action_space: The action space of all tasks.
        env_observation_space: The space of ``env_obs`` of all tasks.
        task_observation_space: The space of ``task_obs``; by default that of ``tasks``.
        tasks: The set of tasks.
        initial_task_state: The task at the start; by default the first.
        sample_tasks_on_reset: Whether every reset draws a task.
        draws_after_seeding: Whether the first reset after each task seed draws a task, even if
            ``sample_tasks_on_reset`` is not set.
        first_seed: The seed that an unseeded environment gives itself; ``None`` for entropy.

    Raises:
        TypeError: If ``sample_tasks_on_reset`` is not a bool.
        ValueError: If ``initial_task_state`` is not one of the tasks.
    """

    # The environment of the current task, ``None`` until the first reset needs it.
    _env: Any = None
    # Its branch of the environment seed; ``None`` if it is deterministic.
    _branch: int | None = None
    # The inner environments that were built and have a random stream, by branch.
    _envs: Mapping[int, Any] = MappingProxyType({})
    # The observation and the infos of the current task.
    _task_obs: Any
    _task_info: dict[str, Any]
    _change = TaskChange.NONE

    def __init__(
        self,
        action_space: Space[Any],
        env_observation_space: Space[Any],
        task_observation_space: Space[Any] | None,
        tasks: TaskList | TaskSpace,
        *,
        initial_task_state: Any = None,
        sample_tasks_on_reset: bool = False,
        draws_after_seeding: bool = False,
        first_seed: int | None = None,
    ) -> None:
        self._seeded: set[int] = set()  # the branches whose environments were seeded
        self._task_set: Any = tasks
        self._selector = tasks.selector
        self._history = None if tasks.selector is None else tasks.selector.history
        self.task_names = tasks.task_names
        space = task_observation_space
        super().__init__(
            action_space,
            env_observation_space,
            tasks.task_observation_space if space is None else space,
        )
        self._draws_by_itself = (
            ResetDraws.AFTER_SEEDING if draws_after_seeding else ResetDraws.NEVER
        )
        self.sample_tasks_on_reset = sample_tasks_on_reset
        self._first_seed = first_seed
        self._in_episode = False  # whether `step` may be called
        self._task_state: Any = tasks.first()
        if initial_task_state is not None:
            self._task_state = tasks.check(initial_task_state, "initial_task_state")
        self._task_obs, self._task_info = self._task_set.describe(self._task_state)

    @property
    def sample_tasks_on_reset(self) -> bool:
        """Whether every reset draws a task. Can be set at any time."""
        return self._resets_draw is ResetDraws.ALWAYS

    @sample_tasks_on_reset.setter
    def sample_tasks_on_reset(self, on: bool) -> None:
        every_reset = check_flag(on, "sample_tasks_on_reset")
        self._resets_draw = ResetDraws.ALWAYS if every_reset else self._draws_by_itself

    # Only for a list of tasks; an environment over a space has no such attributes.

    @property
    def num_tasks(self) -> int:
        """The number of task states."""
        return int(self._task_set.num_tasks)

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The task id of each task state."""
        ids: tuple[int, ...] = self._task_set.task_ids
        return ids

    @property
    def task_states(self) -> tuple[int, ...]:
        """The task states that resets switch between without options."""
        states: tuple[int, ...] = self._task_set.states
        return (self._task_state,) if self._resets_draw is ResetDraws.NEVER else states

    @abc.abstractmethod
    def _activate(self, task_state: Any) -> None:
        """Switches ``_env`` to a task, or raises and changes nothing."""

    def _build(self, branch: int) -> Any:
        """One of ``_envs``, built if necessary."""
        return self._envs[branch]

    def get_task_obs(self) -> Any:
        """The observation of the current task; for a list of tasks, its id, ``np.int64``."""
        return self._task_obs

    def get_task_state(self) -> Any:
        """The current task's state."""
        return self._task_state

    def set_task_state(self, task_state: Any) -> None:
        """Makes ``task_state`` the current task, from the next `reset` on."""
        self._turn_to(self._task_set.check(task_state, "task state"))

    def _turn_to(self, task_state: Any) -> None:
        self._activate(task_state)
        self._task_state = task_state
        self._change, self._in_episode = TaskChange.SET, False
        self._task_obs, self._task_info = self._task_set.describe(task_state)

    def sample_task_state(self) -> Any:
        """Draws a task state from the task stream, without setting it."""
        return self._task_set.draw(self.np_random_task)

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment stream; inner environments are seeded at their next reset."""
        seeds = super().seed(seed)
        self._seeded = set()
        return seeds

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the task stream and the space of ``task_obs``; the selection starts over."""
        seeds = super().seed_task(seed)
        if self._change is TaskChange.NONE:
            self._change = TaskChange.SEEDED
        if self._selector is not None:
            self._selector.reset()
        return seeds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begins an episode as `MTEnv.reset` does; other options reach the inner environment."""
        asked, others = self._split_options(options)
        state = None
        if "task_state" in asked:
            state = self._task_set.check(asked["task_state"], "task state")
        if seed is None:
            self._seed_itself()
        else:
            self.seed(seed)
            self.seed_task(seed)
        if self._history is not None:
            self._history.end()  # records an episode that is cut here, before the next draw
        if "resample_task" in asked or (state is None and self._next_reset_draws()):
            state = self.sample_task_state()
        if state is not None:
            self._turn_to(state)
        elif self._env is None:
            self._activate(self._task_state)
        env_obs, info = self._reset_below(others)
        self._change = TaskChange.NONE
        self._in_episode = True
        if self._history is not None:
            self._history.begin(self._task_set.place(self._task_state))
        return self.observe(env_obs), {**info, **self._task_info}

    def _seed_itself(self) -> None:
        """Seeds the streams that were not seeded, if resets draw tasks."""
        if self._resets_draw is not ResetDraws.NEVER:
            if self._env_seed is None:
                self.seed(self._first_seed)
            if self._task_seed is None:
                self.seed_task(self._first_seed)

    def _next_reset_draws(self) -> bool:
        """Whether a reset whose options name no task draws one."""
        if self._change is TaskChange.SET or self._resets_draw is ResetDraws.NEVER:
            return False
        return self._resets_draw is ResetDraws.ALWAYS or self._change is TaskChange.SEEDED

    def _reset_below(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Resets the environment of the current task, at first with the seed of its branch."""
        branch, seed = self._branch, None
        if branch is not None and self._env_seed is not None and branch not in self._seeded:
            seed = seeding.child_seed(self._env_seed, branch)
        result: tuple[Any, dict[str, Any]] = self._env.reset(seed=seed, options=options or None)
        if seed is not None and branch is not None:
            self._seeded.add(branch)
        return result

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Steps the environment of the current task, or raises `ResetNeeded`."""
        if not self._in_episode:
            self._require_reset()
        env_obs, reward, terminated, truncated, info = self._env.step(action)
        if self._history is not None:
            self._history.step(float(reward), bool(terminated or truncated), info)
        return (
            self.observe(env_obs),
            float(reward),
            bool(terminated),
            bool(truncated),
            {**info, **self._task_info},
        )

    def render(self) -> Any:
        """Renders the environment of the current task; needs a `reset`, as `step` does."""
        self._require_reset()
        return self._env.render()

    def _require_reset(self) -> None:
        if not self._in_episode:
            why = "was set but not reset"
            if self._change is not TaskChange.SET:
                why = "has no episode since the environment was made, copied or closed"
            raise ResetNeeded(
                f"task {self._task_state} {why}: call reset() before step() and render()"
            )

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes: task, streams, settings and inner environments."""
        self._seed_itself()
        return {
            **super().get_state(),
            "was_set": self._change is TaskChange.SET,
            "was_seeded": self._change is TaskChange.SEEDED,
            "sample_tasks_on_reset": self.sample_tasks_on_reset,
            "selection": None if self._selector is None else self._selector.get_state(),
            "seeded": sorted(self._seeded),
            "envs": {str(i): get_state(env) for i, env in self._envs.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Raises:
            TypeError: If ``state`` is not a dict.
            ValueError: If ``state`` does not fit.
        """
        super().set_state(state)
        if self._selector is not None:
            self._selector.set_state(state["selection"])
        self._seeded = set(state["seeded"])
        for branch, kept in state["envs"].items():
            set_state(self._build(int(branch)), kept)
        self.sample_tasks_on_reset = state["sample_tasks_on_reset"]
        self._change = TaskChange.SEEDED if state["was_seeded"] else TaskChange.NONE
        if state["was_set"]:
            self._change = TaskChange.SET
