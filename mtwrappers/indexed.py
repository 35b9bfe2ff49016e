"""Multi-task environments whose task state is the index into a finite list of tasks."""

from __future__ import annotations

import abc
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete, Space

from mtwrappers.core import MTEnv, Observation
from mtwrappers.selection import SelectName, Strategy, TaskSelector


def check_index(index: Any, n: int, what: str) -> int:
    """Returns ``index`` as an ``int`` in ``[0, n - 1]``.

    Raises:
        ValueError: If it is anything else; the message names ``what`` and the valid range.
    """
    try:
        value = None if isinstance(index, (bool, np.bool_)) else operator.index(index)
    except TypeError:
        value = None
    if value is None or not 0 <= value < n:
        raise ValueError(f"{what} must be an integer in [0, {n - 1}], got {index!r}")
    return value


def check_task_names(task_names: Sequence[str] | None, num_tasks: int) -> tuple[str, ...] | None:
    """Returns the names as a tuple.

    Raises:
        ValueError: If there is not exactly one name for each task.
    """
    if task_names is None:
        return None
    names = tuple(task_names)
    if isinstance(task_names, str) or len(names) != num_tasks:
        raise ValueError(
            f"task_names must hold one name for each of {num_tasks} tasks, got {task_names!r}"
        )
    return names


class IndexedMTEnv(MTEnv):
    """An `MTEnv` over a list of tasks: the task state is an index, ``task_obs`` is `Discrete`.

    A subclass implements `_activate`, which makes a task the active one or raises and changes
    nothing, and calls `_begin_episode` in its ``reset`` and `_check_stepping` in its ``step``.
    Where ``_history`` is not ``None``, its ``step`` also feeds it.

    With ``sample_tasks_on_reset`` every reset draws the next task, unless a task was set since the
    last one; such an environment seeds itself from entropy when nobody did, as Gymnasium's do.

    Args:
        num_tasks: How many tasks there are.
        action_space: The action space of all tasks.
        env_observation_space: The space of ``env_obs`` of all tasks.
        task_observation_space: The space of ``task_obs``; ``Discrete(num_tasks)`` by default.
        initial_task_state: The task at the start.
        select: How `sample_task_state` draws; see `mtwrappers.selection`.
        num_choices: How many tasks `sample_task_state` draws from, ``num_tasks`` by default.
        choice_groups: The group of each of these, for strategies that see a history.
        sample_tasks_on_reset: Whether every reset draws a task.
    """

    def __init__(
        self,
        num_tasks: int,
        action_space: Space[Any],
        env_observation_space: Space[Any],
        task_observation_space: Space[Any] | None = None,
        *,
        initial_task_state: int = 0,
        select: SelectName | Strategy = "uniform",
        num_choices: int | None = None,
        choice_groups: Sequence[int] | None = None,
        sample_tasks_on_reset: bool = False,
    ) -> None:
        super().__init__(
            action_space,
            env_observation_space,
            Discrete(num_tasks) if task_observation_space is None else task_observation_space,
        )
        self._num_tasks = num_tasks
        self._task_state = initial_task_state
        self._selector = TaskSelector(
            select, num_tasks if num_choices is None else num_choices, choice_groups
        )
        self._history = self._selector.history
        self._reset_needed = True
        self._task_was_set = False
        self.sample_tasks_on_reset = bool(sample_tasks_on_reset)

    @property
    def num_tasks(self) -> int:
        """How many tasks there are."""
        return self._num_tasks

    @property
    def task_ids(self) -> tuple[int, ...]:
        """The task id of each task state, ``num_tasks`` integers."""
        return tuple(range(self._num_tasks))

    @property
    def task_states(self) -> tuple[int, ...]:
        """The task states among which resets move by themselves."""
        return tuple(range(self._num_tasks)) if self.sample_tasks_on_reset else (self._task_state,)

    @abc.abstractmethod
    def _activate(self, index: int) -> None:
        """Makes task ``index`` the active one, or raises and leaves everything as it was."""

    def get_task_obs(self) -> Any:
        """The index of the present task, ``np.int64``."""
        return np.int64(self._task_state)

    def get_task_state(self) -> int:
        """The index of the present task."""
        return self._task_state

    def set_task_state(self, task_state: Any) -> None:
        """Makes task ``task_state`` the present one, from the next `reset` on.

        Raises:
            ValueError: If it is not an integer in ``[0, num_tasks - 1]``.
        """
        index = check_index(task_state, self._num_tasks, "task state")
        self._activate(index)
        self._task_state = index
        self._reset_needed = self._task_was_set = True

    def sample_task_state(self) -> int:
        """Draws the index of a task with the selection strategy, without setting it.

        Raises:
            SeedNotSetError: If no task seed was set.
        """
        return self._selector(self.np_random_task)

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the task stream and starts the selection strategy over."""
        seeds = super().seed_task(seed)
        self._selector.reset()
        return seeds

    def _draws_on_reset(self, seed: int | None) -> bool:
        """Whether this reset is to draw a task, if none was set."""
        return self.sample_tasks_on_reset

    def _choice(self) -> int | None:
        """The present task's place among those that `sample_task_state` draws from, if any."""
        return self._task_state

    def _begin_episode(self) -> None:
        self._reset_needed = self._task_was_set = False
        if self._history is not None:
            self._history.begin(self._choice())

    def _check_stepping(self) -> None:
        if self._reset_needed:
            raise ResetNeeded(
                f"task {self._task_state} was set but not reset: call reset() before step() "
                "and render()"
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """See `MTEnv.reset`; draws the next task where the class says so."""
        if self._history is not None:
            self._history.end()  # an episode that was cut counts too, and before the next draw
        draws = self._draws_on_reset(seed)
        if draws and seed is None and self._env_seed is None:
            self.seed()
        if draws and seed is None and self._task_seed is None:
            self.seed_task()
        super().reset(seed=seed, options=options)
        if draws and not self._task_was_set:
            self.reset_task_state()
        return {}, {}
