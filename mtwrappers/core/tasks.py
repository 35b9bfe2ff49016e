"""Declared sets of tasks: the interface, a list of tasks, and the elements of a space."""

from __future__ import annotations

import abc
import copy
from collections.abc import Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np
from gymnasium.spaces import Discrete
from numpy.random import Generator

from mtwrappers.common.checks import check_index, check_task_names
from mtwrappers.common.errors import short
from mtwrappers.common.spaces import as_element, summary
from mtwrappers.common.types import AnySpace, State
from mtwrappers.core.history import TaskHistory
from mtwrappers.core.selection import SelectName, Strategy, TaskSelector

TaskState = TypeVar("TaskState")
# The observation of a task, and its infos.
Description: TypeAlias = tuple[object, dict[str, object]]


class Tasks(abc.ABC, Generic[TaskState]):
    """A declared set of tasks: how they are drawn, checked, named and observed.

    It owns the choice of the next task, not the current one, which the environment owns.

    Attributes:
        space: The space of ``task_obs``.
        names: The name of every task id; ``None`` if tasks have no names.
        ids: The task id of every task state; ``None`` if task states are not indices.
        states: The task states that are drawn; ``None`` if they are not indices.
        history: The recent episodes of each of these; ``None`` if draws do not depend on them.
    """

    space: AnySpace
    names: tuple[str, ...] | None = None
    ids: tuple[int, ...] | None = None
    states: tuple[int, ...] | None = None
    history: TaskHistory | None = None

    @abc.abstractmethod
    def first(self) -> TaskState:
        """The task state of an environment that was just made."""

    @abc.abstractmethod
    def draw(self, rng: Generator) -> TaskState:
        """Draws the next task state from the task stream."""

    @abc.abstractmethod
    def check(self, task_state: object, name: str) -> TaskState:
        """Returns a task state that can be set.

        Args:
            task_state: A value of any type, which is not changed.
            name: The name of the value in messages.

        Raises:
            ValueError: If there is no such task.
        """

    @abc.abstractmethod
    def describe(self, task_state: TaskState) -> Description:
        """The observation of a task, an element of ``space``, and the infos that it adds."""

    @abc.abstractmethod
    def get_state(self) -> State:
        """The state that `draw` continues from, ready for JSON; empty if there is none."""

    @abc.abstractmethod
    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned."""

    def restart(self) -> None:
        """Makes `draw` start over; called when the task stream is seeded."""

    def draw_missing(self, task_state: TaskState) -> TaskState:
        """Draws what a task state leaves open, such as a goal, when the task is set."""
        return task_state

    def begin_episode(self, task_state: TaskState) -> None:
        """Begins an episode of the task in the history."""


class TaskList(Tasks[int]):
    """A list of tasks, whose task states are the indices into it, and how to draw the next one.

    Args:
        task_ids: The id of every task state, integers from 0 on.
        task_names: The name of every task id, if they have names.
        task_states: The task states that can be drawn and set; by default all.
        select: How to draw; see `mtwrappers.core.selection`.
    """

    ids: tuple[int, ...]
    states: tuple[int, ...]

    def __init__(
        self,
        task_ids: Sequence[int],
        task_names: Sequence[str] | None = None,
        task_states: Sequence[int] | None = None,
        select: SelectName | Strategy = "uniform",
    ) -> None:
        self.ids = tuple(task_ids)
        num_ids = max(self.ids) + 1
        self.names = check_task_names(task_names, num_ids)
        self.space = Discrete(num_ids)
        self.states = tuple(range(len(self.ids)) if task_states is None else task_states)
        self._places = {state: place for place, state in enumerate(self.states)}
        drawn_ids = [self.ids[state] for state in self.states]
        # A curriculum weighs ids, or single tasks if there is only one id.
        groups = drawn_ids if len(set(drawn_ids)) > 1 else None
        self._selector = TaskSelector(select, len(drawn_ids), groups)
        self.history = self._selector.history

    def first(self) -> int:
        """The first task state."""
        return self.states[0]

    def draw(self, rng: Generator) -> int:
        """The task state that the selection strategy draws."""
        return self.states[self._selector(rng)]

    def check(self, task_state: object, name: str) -> int:
        """Returns ``task_state`` as an `int`, or raises `ValueError`."""
        if self.names is not None and isinstance(task_state, str) and task_state in self.names:
            named_id = self.names.index(task_state)
            if named_id in self.ids:
                name = f"{name} ({self.ids.index(named_id)} for {task_state!r})"
        if isinstance(task_state, dict):  # a task for `set_task` of environments
            raise ValueError(
                f"{name} must be an integer in [0, {len(self.ids) - 1}], an index of its tasks, "
                f"got {short(task_state)}; only environments with the method set_task take the "
                "task itself"
            )
        state = check_index(task_state, len(self.ids), name)
        if state not in self._places:
            states = self.states
            listed = (
                list(states) if len(states) < 6 else f"{states[0]}, {states[1]}, ..., {states[-1]}"
            )
            raise ValueError(
                f"{name} must be one of this environment's own {len(states)}: {listed}; got "
                f"{state}. In a vector environment, options={{'env_options': [{{'task_state': "
                "...}, ...]} has one for each environment"
            )
        return state

    def describe(self, task_state: int) -> Description:
        """The task id, ``np.int64``, and the infos ``task_id`` and ``task_name``."""
        task_id = self.ids[task_state]
        infos: dict[str, object] = {"task_id": task_id}
        if self.names is not None:
            infos["task_name"] = self.names[task_id]
        return np.int64(task_id), infos

    def restart(self) -> None:
        """Makes the selection strategy start over."""
        self._selector.reset()

    def begin_episode(self, task_state: int) -> None:
        """Begins an episode of the task in the history, if there is one."""
        if self.history is not None:
            self.history.begin(self._places[task_state])

    def get_state(self) -> State:
        """The state of the selection strategy and its history, ready for JSON."""
        return self._selector.get_state()

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned."""
        self._selector.set_state(state)


class TaskSpace(Tasks[object]):
    """Tasks that are the elements of a space; the elements are also the task states."""

    def __init__(self, space: AnySpace) -> None:
        self._space = copy.deepcopy(space)
        self.space = copy.deepcopy(space)

    def first(self) -> object:
        """An element drawn from entropy."""
        return self._space.sample()

    def draw(self, rng: Generator) -> object:
        """Draws the next element."""
        self._space.seed(int(rng.integers(2**32)))
        return self._space.sample()

    def check(self, task_state: object, name: str) -> object:
        """Returns a copy of ``task_state``, with arrays for lists, or raises `ValueError`."""
        try:
            return copy.deepcopy(as_element(self._space, task_state))
        except ValueError:
            raise ValueError(
                f"{name} must be an element of {summary(self._space)}, got {task_state!r}"
            ) from None

    def describe(self, task_state: object) -> Description:
        """The element, and no infos."""
        return task_state, {}

    def get_state(self) -> State:
        """Returns an empty dict: draws depend on the task stream alone."""
        return {}

    def set_state(self, state: State) -> None:
        """Restores nothing."""
