"""Which task comes next.

A strategy is a callable ``(num_tasks, last_task, rng) -> int``: ``last_task`` is the task that was
drawn before, or ``None`` for the first draw after a seed; ``rng`` is the task stream. A strategy
that remembers something also has ``reset()``, which is called whenever the task stream is seeded,
and ``get_state()`` and ``set_state(state)`` (ready for JSON) if checkpoints are to hold it.
"""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable
from typing import Any, Literal, TypeAlias

from numpy.random import Generator

Strategy: TypeAlias = Callable[[int, "int | None", Generator], int]
SelectName: TypeAlias = Literal["uniform", "round_robin", "without_replacement"]


def uniform(num_tasks: int, last_task: int | None, rng: Generator) -> int:
    """Any task, each as likely as the others."""
    return int(rng.integers(num_tasks))


def round_robin(num_tasks: int, last_task: int | None, rng: Generator) -> int:
    """The tasks in their order, from task 0 on, again and again."""
    return 0 if last_task is None else (last_task + 1) % num_tasks


class WithoutReplacement:
    """Sweeps: every task once in a random order, then every task once in another."""

    def __init__(self) -> None:
        self._sweep: list[int] = []

    def reset(self) -> None:
        """Forgets what is left of the present sweep."""
        self._sweep = []

    def get_state(self) -> list[int]:
        """What is left of the present sweep."""
        return list(self._sweep)

    def set_state(self, state: list[int]) -> None:
        """Goes on with a sweep that `get_state` returned."""
        self._sweep = list(state)

    def __call__(self, num_tasks: int, last_task: int | None, rng: Generator) -> int:
        """Draws the next task of the sweep."""
        if not self._sweep:
            self._sweep = rng.permutation(num_tasks).tolist()
        return self._sweep.pop()


_NAMED: dict[str, Callable[[], Strategy]] = {
    "uniform": lambda: uniform,
    "round_robin": lambda: round_robin,
    "without_replacement": WithoutReplacement,
}


class TaskSelector:
    """Draws task indices with a strategy and checks what it returns.

    Args:
        select: The name of a strategy, or a strategy.
        num_tasks: How many tasks there are to choose from.

    Raises:
        ValueError: If no strategy has that name.
        TypeError: If it is neither a name nor callable.
    """

    def __init__(self, select: SelectName | Strategy, num_tasks: int) -> None:
        if isinstance(select, str):
            if select not in _NAMED:
                raise ValueError(f"select must be one of {sorted(_NAMED)}, got {select!r}")
            self._strategy: Strategy = _NAMED[select]()
        elif callable(select):
            # A copy: environments that were given one strategy must not share its memory.
            self._strategy = copy.deepcopy(select)
        else:
            raise TypeError(f"select must be a name or a callable, got {select!r}")
        self._num_tasks = num_tasks
        self._last: int | None = None

    def reset(self) -> None:
        """Starts over, as if nothing had been drawn."""
        self._last = None
        forget: Any = getattr(self._strategy, "reset", None)
        if callable(forget):
            forget()

    def get_state(self) -> dict[str, Any]:
        """The last draw and what the strategy remembers, ready for JSON."""
        remember: Any = getattr(self._strategy, "get_state", None)
        return {"last": self._last, "strategy": remember() if callable(remember) else None}

    def set_state(self, state: dict[str, Any]) -> None:
        """Goes on from what `get_state` returned."""
        self._last = state["last"]
        recall: Any = getattr(self._strategy, "set_state", None)
        if callable(recall) and state["strategy"] is not None:
            recall(state["strategy"])

    def __call__(self, rng: Generator) -> int:
        """Draws the next task.

        Raises:
            ValueError: If the strategy returns anything but the index of a task.
        """
        drawn: Any = self._strategy(self._num_tasks, self._last, rng)
        try:
            index = operator.index(drawn)
        except TypeError:
            index = -1
        if not 0 <= index < self._num_tasks:
            raise ValueError(
                f"the selection strategy {self._strategy!r} must return an integer in "
                f"[0, {self._num_tasks - 1}], got {drawn!r}"
            )
        self._last = index
        return index
