"""The outcomes of each task's last episodes, for curricula."""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import add
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_index, check_success
from mtwrappers.common.errors import short
from mtwrappers.common.types import State
from mtwrappers.state.registry import require_names

WINDOW = 20
# The return and the success of an episode; ``None`` if its infos did not report any.
Outcome: TypeAlias = tuple[float, bool | None]


class TaskHistory:
    """The returns and successes of the last 20 episodes of each task.

    An environment records an episode when it ends: terminated, truncated, or cut by a reset after
    at least one step (as when a ``TimeLimit`` around the environment ended it). An episode is a
    success if ``info["success"]`` (or ``info["is_success"]``) was true at any of its steps. Tasks
    can be grouped, such as the goals of one class; each group has its own last 20 episodes.

    Args:
        num_tasks: The number of tasks to choose from.
        groups: The group of each task, ``num_tasks`` integers from 0 on. By default every task is
            a group of its own.

    Raises:
        ValueError: If there is not a group for each task, or a group is not an integer from 0 on.

    >>> from mtwrappers.core.history import TaskHistory
    >>> history = TaskHistory(3, groups=[0, 0, 1])
    >>> history.begin(1)
    >>> history.step(2.5, True, {"success": 1.0})
    >>> history.returns(1), history.success_rates, history.group_success_rates
    ((2.5,), array([nan,  1., nan]), array([ 1., nan]))
    """

    def __init__(self, num_tasks: int, groups: Sequence[int] | None = None) -> None:
        self.num_tasks = num_tasks
        groups = range(num_tasks) if groups is None else groups
        if len(groups) != num_tasks:
            raise ValueError(f"expected the groups of {num_tasks} tasks, got {len(groups)} groups")
        self._groups = [
            check_index(group, sys.maxsize, f"the group of task {task}")
            for task, group in enumerate(groups)
        ]
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        # The (return, success) of each of the last episodes, the oldest first.
        self._tasks = _windows([] for _ in range(self.num_tasks))
        self._by_group = _windows([] for _ in range(self.num_groups))
        self.begin(None)

    @property
    def num_groups(self) -> int:
        """One more than the highest group; some may be empty."""
        return max(self._groups) + 1

    def members(self, group: int) -> NDArray[np.int64]:
        """The tasks of a group, in ascending order."""
        return np.flatnonzero(np.equal(self._groups, group))

    def returns(self, task: int) -> tuple[float, ...]:
        """The undiscounted returns of the last episodes of ``task``, the oldest first."""
        return tuple(episode_return for episode_return, _ in self._tasks[task])

    def successes(self, task: int) -> tuple[bool | None, ...]:
        """The success of each of these episodes; ``None`` where its infos did not report any."""
        return tuple(success for _, success in self._tasks[task])

    @property
    def mean_returns(self) -> NDArray[np.float64]:
        """The mean of each task's `returns`, shape ``(num_tasks,)``; NaN without an episode."""
        return _means(map(self.returns, range(self.num_tasks)))

    @property
    def success_rates(self) -> NDArray[np.float64]:
        """The mean of each task's `successes`, shape ``(num_tasks,)``; NaN where none is known."""
        return _means(map(self.successes, range(self.num_tasks)))

    @property
    def group_success_rates(self) -> NDArray[np.float64]:
        """The success rate of each group's last episodes, shape ``(num_groups,)``; NaN if none."""
        return _means([success for _, success in episodes] for episodes in self._by_group)

    def begin(self, task: int | None) -> None:
        """Begins an episode of ``task``; ``None`` means that no episode is under way."""
        self._task = task
        self._steps, self._return = 0, 0.0
        self._success: bool | None = None

    def step(self, reward: float, ended: bool, info: Mapping[str, object]) -> None:
        """Counts a step of the current episode, and records the episode if it has ``ended``.

        Raises:
            ValueError: If the info reports something else than a bool, 0 or 1 as success.
        """
        self._steps += 1
        self._return += float(reward)  # JSON cannot hold NumPy's numbers
        if not self._success:
            key = "success" if info.get("success") is not None else "is_success"
            success = info.get(key)
            if success is not None:
                self._success = check_success(success, f"info[{key!r}]")
        if ended:
            self.end()

    def end(self) -> None:
        """Records the current episode, if it had a step and was not recorded already."""
        if self._steps and self._task is not None:
            for episodes in (self._tasks[self._task], self._by_group[self._groups[self._task]]):
                episodes.append((float(self._return), self._success))
        self.begin(None)

    def get_state(self) -> State:
        """Everything, the current episode included, ready for JSON."""
        return {
            "groups": list(self._groups),
            "tasks": [list(map(list, episodes)) for episodes in self._tasks],
            "by_group": [list(map(list, episodes)) for episodes in self._by_group],
            "episode": [self._task, self._steps, self._return, self._success],
        }

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            ValueError: If the state has other groups, or is malformed; nothing is changed then.
        """
        require_names(state, ("groups", "tasks", "by_group", "episode"), self)
        if state["groups"] != self._groups:
            raise ValueError(
                f"expected a history with groups {self._groups}, got one with {state['groups']}"
            )
        tasks = _check_windows(state["tasks"], self.num_tasks, "tasks")
        by_group = _check_windows(state["by_group"], self.num_groups, "groups")
        episode = state["episode"]
        if not (isinstance(episode, Sequence) and len(episode) == 4):
            raise ValueError(
                "the current episode must be its task, steps, return and success, got "
                f"{short(episode)}"
            )
        task, steps, episode_return, success = episode
        if task is not None:
            task = check_index(task, self.num_tasks, "the task of the current episode")
        steps = check_index(steps, sys.maxsize, "the steps of the current episode")
        episode_return, success = _check_outcome([episode_return, success])
        self._tasks, self._by_group = tasks, by_group
        self._task, self._steps, self._return, self._success = task, steps, episode_return, success


def _check_windows(episodes_by_task: object, n: int, name: str) -> list[deque[Outcome]]:
    """The last episodes of ``n`` tasks or groups from a state, or `ValueError`."""
    if not isinstance(episodes_by_task, list) or len(episodes_by_task) != n:
        count = len(episodes_by_task) if isinstance(episodes_by_task, list) else "no list"
        raise ValueError(f"expected the episodes of {n} {name}, got {count}")
    for episodes in episodes_by_task:
        if not isinstance(episodes, list):
            raise ValueError(f"the episodes of one of the {name} must be a list, got {episodes!r}")
    return _windows([map(_check_outcome, episodes) for episodes in episodes_by_task])


def _check_outcome(outcome: object) -> Outcome:
    """The return and the success of an episode from a state, or `ValueError`."""
    if isinstance(outcome, list) and len(outcome) == 2:
        episode_return, success = outcome
        is_number = isinstance(episode_return, (int, float)) and not isinstance(
            episode_return, bool
        )
        if is_number and (success is None or isinstance(success, bool)):
            return float(episode_return), success
    raise ValueError(f"an episode must be a return and a success, got {short(outcome)}")


def _windows(episodes_by_task: Iterable[Iterable[Outcome]]) -> list[deque[Outcome]]:
    return [deque(episodes, WINDOW) for episodes in episodes_by_task]


def _means(values_by_task: Iterable[Iterable[float | None]]) -> NDArray[np.float64]:
    """The mean of each task's values, of those that are known; NaN without one."""
    means = []
    for values in values_by_task:
        numbers = [value for value in values if value is not None]
        # Added in order: since Python 3.12, `sum` of floats gives other last bits.
        means.append(reduce(add, numbers, 0) / len(numbers) if numbers else math.nan)
    return np.array(means)
