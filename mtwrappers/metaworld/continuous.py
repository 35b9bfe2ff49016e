"""Goals from a class's distribution, instead of from a benchmark's list."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_choice
from mtwrappers.core.task_list import TaskList
from mtwrappers.metaworld import plain_task
from mtwrappers.state.plain_data import set_generator

Goals: TypeAlias = Literal["list", "continuous"]
# A class by its index, and its random vector.
Exact: TypeAlias = tuple[int, tuple[float, ...]]


def check_goals(goals: Goals, benchmark: Any, options: MutableMapping[str, Any]) -> bool:
    """Whether goals are continuous; the benchmark is then made with one goal per class.

    Raises:
        ValueError: If ``goals`` is something else, or conflicts with the other arguments.
    """
    if check_choice(goals, ("list", "continuous"), "goals") == "list":
        return False
    if benchmark is None:
        raise ValueError("goals='continuous' needs a benchmark, got None")
    if (num_goals := options.get("num_goals", 50)) != 50:
        raise ValueError(f"num_goals is for goals='list', got {num_goals} with 'continuous'")
    options["num_goals"] = 1
    return True


def first_of_each_class(tasks: Sequence[Any], kinds: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """The first task of each kind and class, and the kinds."""
    first: dict[tuple[Any, str], Any] = {}
    for task, kind in zip(tasks, kinds, strict=True):
        first.setdefault((kind, task.env_name), task)
    return list(first.values()), [kind for kind, _ in first]


class ContinuousGoals:
    """A stream of random vectors of classes, seeded by resets.

    A vector, ``(3,)`` or ``(6,)``, is what Meta-World's reset draws: the goal, or an object's start
    position and the goal. The first vector after `seed` equals the one that a new environment of
    the class draws in ``reset`` after Meta-World's ``seed(s)``, with ``seeded_rand_vec`` set.

    Args:
        tasks: A `metaworld.Task` of each class; its goal is ignored.
        seed: Determines the vectors, until `seed` is called.
    """

    def __init__(self, tasks: Sequence[Any], seed: int) -> None:
        self._tasks = tasks
        self.seed(seed)

    def seed(self, seed: int) -> None:
        """Begins the stream of ``seed``."""
        self._seed = seeding.check_seed(seed)
        self._stream = seeding.goal_generator(self._seed)

    def draw(self, k: int, stream: Generator | None = None) -> NDArray[np.float64]:
        """Draws the next vector of class ``k``, from ``stream`` if it is given."""
        from mtwrappers.metaworld.blueprint import draw_vector

        return draw_vector(self._class(k), self._stream if stream is None else stream)

    def check(self, k: int, vector: Any, what: str) -> tuple[float, ...]:
        """Returns a vector that Meta-World might draw for class ``k``, or raises `ValueError`."""
        from mtwrappers.metaworld.blueprint import check_vector

        try:
            array = np.array(vector, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.ndim != 1 or not array.size or not np.isfinite(array).all():
            raise ValueError(f"{what} must be 3 or 6 finite numbers, got {vector!r}")
        check_vector(self._class(k), array, f"{what} of {self._tasks[k].env_name}")
        return tuple(array.tolist())

    def get_state(self) -> dict[str, Any]:
        """The state of the stream of vectors, ready for JSON."""
        return {"seed": self._seed, "state": dict(self._stream.bit_generator.state)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned."""
        self.seed(state["seed"])
        set_generator(self._stream, state["state"])

    def _class(self, k: int) -> Any:
        return plain_task.decode(self._tasks[k])["env_cls"]


class ContinuousTasks(TaskList):
    """A list of tasks with one entry per class, and a new goal at every draw.

    A drawn task state is exact: ``(k, vector)``. The index ``k`` alone stands for class ``k`` with
    the next goal.

    Args:
        goals: The stream of goals.
        **tasks: The arguments of `TaskList`.
    """

    def __init__(self, goals: ContinuousGoals, **tasks: Any) -> None:
        self.goals = goals
        super().__init__(**tasks)

    def first(self) -> Exact:  # type: ignore[override] # more than an index
        """The first class."""
        return self.complete(super().first())

    def draw(self, rng: Generator) -> Exact:  # type: ignore[override] # more than an index
        """The class that the selection strategy draws, with the next goal."""
        return self.complete(super().draw(rng))

    def complete(self, task_state: int | Exact, stream: Generator | None = None) -> Exact:
        """Completes a task state that is only an index with the next goal of the stream."""
        if isinstance(task_state, tuple):
            return task_state
        return task_state, tuple(self.goals.draw(task_state, stream).tolist())

    def check(self, task_state: Any, what: str) -> Any:
        """Returns a class's index, or an exact state, or raises `ValueError`."""
        if not isinstance(task_state, (tuple, list)):
            return super().check(task_state, what)
        if len(task_state) != 2:
            raise ValueError(
                f"{what} must be the index of a class, or (index, random vector), got {task_state}"
            )
        k = super().check(task_state[0], f"the class of {what}")
        return k, self.goals.check(k, task_state[1], f"the random vector of {what}")

    def describe(self, task_state: Any) -> tuple[np.int64, dict[str, Any]]:
        """The description of the class of a task state."""
        return super().describe(task_state[0])

    def place(self, task_state: Any) -> int:
        """The place of a task state's class."""
        return super().place(task_state[0])
