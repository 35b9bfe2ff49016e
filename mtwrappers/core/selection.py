"""Strategies that select the next task.

A strategy is a callable ``(num_tasks, last_task, rng) -> int``: ``last_task`` is the previous draw,
or ``None`` for the first draw after a seed; ``rng`` is the task stream. A strategy with memory also
has ``reset()``, which is called whenever the task stream is seeded, and, for checkpoints,
``get_state()`` and ``set_state(state)``, whose state JSON can hold; without these two it cannot be
saved. Each environment has a copy of its strategy, except of a method of an environment, which
reads the attributes of that environment.

A strategy with a fourth parameter named ``history`` is a curriculum: it also sees a `TaskHistory`,
the returns and successes of each task's last 20 episodes, which the environment keeps from the seed
on and which is part of its state. Ten lines are enough:

>>> import numpy as np
>>> def hardest_first(num_tasks, last_task, rng, history):
...     rates = history.success_rates  # NaN for a task that had no episode yet
...     unknown = np.flatnonzero(np.isnan(rates))
...     if len(unknown):
...         return rng.choice(unknown)
...     return int(np.argmin(rates + 0.1 * rng.random(num_tasks)))

Pass it instead of a name: ``MultiEnvWrapper(makers, select=hardest_first)``.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

import gymnasium
import numpy as np
from numpy.random import Generator

from mtwrappers.common.checks import check_index
from mtwrappers.common.errors import short
from mtwrappers.common.types import State
from mtwrappers.core.history import TaskHistory
from mtwrappers.state.registry import require_names

Strategy: TypeAlias = Callable[..., int]
SelectName: TypeAlias = Literal["least_success", "round_robin", "uniform", "without_replacement"]


def uniform(num_tasks: int, last_task: int | None, rng: Generator) -> int:
    """Draws any task with equal probability.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/MultiEnv-v0", select="uniform")
    >>> _ = env.reset(seed=0)
    >>> [env.reset()[1]["task_id"] for _ in range(6)]
    [1, 0, 0, 0, 1, 0]
    """
    return int(rng.integers(num_tasks))


def round_robin(num_tasks: int, last_task: int | None, rng: Generator) -> int:
    """Cycles through the tasks in order, from task 0 on.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/MultiEnv-v0", select="round_robin")
    >>> _ = env.reset(seed=0)
    >>> [env.reset()[1]["task_id"] for _ in range(6)]
    [1, 0, 1, 0, 1, 0]
    """
    return 0 if last_task is None else (last_task + 1) % num_tasks


class WithoutReplacement:
    """Sweeps: every task once in a random order, then every task once in another.

    The last task of a sweep may be the first of the next. Seeding the task stream begins a new
    sweep; tasks that are set, and not drawn, do not count.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/MultiEnv-v0", select="without_replacement")
    >>> _ = env.reset(seed=0)
    >>> [env.reset()[1]["task_id"] for _ in range(7)]
    [0, 1, 0, 0, 1, 0, 1]
    """

    def __init__(self) -> None:
        self._sweep: list[int] = []

    def reset(self) -> None:
        """Forgets what is left of the current sweep."""
        self._sweep = []

    def get_state(self) -> list[int]:
        """The tasks that are left of the current sweep."""
        return list(self._sweep)

    def set_state(self, state: list[int]) -> None:
        """Restores the sweep that `get_state` returned."""
        self._sweep = list(state)

    def __call__(self, num_tasks: int, last_task: int | None, rng: Generator) -> int:
        """Draws the next task of the sweep."""
        if not self._sweep:
            self._sweep = rng.permutation(num_tasks).tolist()
        return self._sweep.pop()


def check_sweep(sweep: object, n: int, name: str) -> None:
    """Raises `ValueError` unless `WithoutReplacement` over ``n`` tasks may have this state.

    ``name`` is the sweep's, for messages.
    """
    if not isinstance(sweep, list):
        raise ValueError(f"{name} must be a list of what is left to draw, got {short(sweep)}")
    for place, index in enumerate(sweep):
        check_index(index, n, f"entry {place} of {name}")


def least_success(
    num_tasks: int,
    last_task: int | None,
    rng: Generator,
    history: TaskHistory,
    floor: float = 0.1,
) -> int:
    """Draws tasks in proportion to their recent failure rate.

    First a group is drawn, then one of its tasks with equal probability. A group that has had no
    episode yet counts as always failing.

    Args:
        num_tasks: The number of tasks.
        last_task: Ignored.
        rng: The task stream.
        history: The recent successes of each task.
        floor: The share of draws that is split evenly among all groups, so that none starves; in
            [0, 1]. ``functools.partial(least_success, floor=0.3)`` is a strategy too.

    Raises:
        ValueError: If ``floor`` is outside [0, 1], or an episode has ended whose infos do not say
            whether it succeeded.

    >>> import numpy as np
    >>> from mtwrappers.core.history import TaskHistory
    >>> from mtwrappers.core.selection import least_success
    >>> history, rng = TaskHistory(2), np.random.default_rng(0)
    >>> for task in (0, 1):  # task 0 fails, task 1 succeeds
    ...     history.begin(task)
    ...     history.step(0.0, True, {"success": task == 1})
    >>> drawn = [least_success(2, None, rng, history) for _ in range(1000)]
    >>> drawn.count(0), drawn.count(1)
    (952, 48)
    """
    if not 0 <= floor <= 1:
        raise ValueError(f"floor of least_success must be a share in [0, 1], got {floor!r}")
    groups = [g for g in range(history.num_groups) if len(history.members(g))]
    success_rates = history.group_success_rates[groups]
    unknown_groups = np.array(groups)[np.isnan(success_rates)].tolist()
    for group in unknown_groups:
        for task in history.members(group).tolist():
            if history.returns(task):
                raise ValueError(
                    "select='least_success' needs info['success'] or info['is_success'] of every "
                    f"task; an episode of task {task} ended without either"
                )
    failure_rates = 1.0 - np.nan_to_num(success_rates)
    total = failure_rates.sum()
    n = len(groups)
    shares = failure_rates / total if total > 0 else np.full(n, 1.0 / n)
    drawn_group = groups[rng.choice(n, p=(1.0 - floor) * shares + floor / n)]
    return int(rng.choice(history.members(drawn_group)))


_NAMED: dict[str, Strategy] = {
    "least_success": least_success,
    "uniform": uniform,
    "round_robin": round_robin,
    "without_replacement": WithoutReplacement(),
}


class TaskSelector:
    """Draws task indices with a strategy and checks them.

    The environment records episodes in ``history``, which is ``None`` if the strategy ignores it.
    """

    def __init__(
        self, select: SelectName | Strategy, num_tasks: int, groups: Sequence[int] | None = None
    ) -> None:
        strategy = _NAMED.get(select) if isinstance(select, str) else select
        if not callable(strategy) or isinstance(strategy, type):
            names = sorted(_NAMED)
            hint = (
                f": pass an instance, such as {strategy.__name__}()" if callable(strategy) else ""
            )
            raise ValueError(f"select must be one of {names} or a callable, got {select!r}{hint}")
        # A copy: environments that were given one strategy must not share its memory. A method of
        # an environment has to read the attributes of that environment, not of a copy.
        is_env_method = isinstance(getattr(strategy, "__self__", None), gymnasium.Env)
        self._strategy = strategy if is_env_method else copy.deepcopy(strategy)
        self._drawn_name = f"the task drawn by the selection strategy {strategy!r}"
        self._num_tasks = num_tasks
        self._last: int | None = None
        try:
            signature = inspect.signature(strategy)
        except ValueError as exc:  # as of a built-in function
            raise ValueError(
                f"the parameters of select={strategy!r} cannot be read: wrap it in a function "
                "(num_tasks, last_task, rng)"
            ) from exc
        takes_history = "history" in signature.parameters
        try:
            signature.bind(num_tasks, None, None, **({"history": None} if takes_history else {}))
        except TypeError:
            raise TypeError(
                "select must be a function select(num_tasks, last_task, rng), or with a fourth "
                f"parameter history, got {strategy!r} with the parameters {signature}"
            ) from None
        self.history = TaskHistory(num_tasks, groups) if takes_history else None

    def reset(self) -> None:
        """Starts over, as if nothing had been drawn."""
        self._last = None
        if self.history is not None:
            self.history.reset()
        self._call_strategy("reset")

    def get_state(self) -> State:
        """The last draw, what the strategy remembers, and the history, ready for JSON.

        Raises:
            TypeError: If the strategy has ``reset``, and so a memory, but no ``get_state`` or no
                ``set_state``.
        """
        has_memory = hasattr(self._strategy, "reset")
        is_savable = all(hasattr(self._strategy, name) for name in ("get_state", "set_state"))
        if has_memory and not is_savable:
            raise TypeError(
                f"the memory of select={self._strategy!r} cannot be saved: give it get_state() and "
                "set_state(state)"
            )
        return {
            "last": self._last,
            "strategy": self._call_strategy("get_state"),
            "history": None if self.history is None else self.history.get_state(),
        }

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned; parts that are ``None`` start over.

        Raises:
            ValueError: If a task of the state does not exist, or the history does not fit. Nothing
                is changed then, unless a strategy of another class refuses its state.
        """
        require_names(state, ("last", "strategy", "history"), self)
        last, memory = state["last"], state["strategy"]
        if last is not None:
            last = check_index(last, self._num_tasks, "the last task of the state")
        if isinstance(self._strategy, WithoutReplacement) and memory is not None:
            check_sweep(memory, self._num_tasks, "the sweep of tasks")
        if self.history is not None:
            if state["history"] is None:
                self.history.reset()
            else:
                self.history.set_state(state["history"])
        self._last = last
        self._call_strategy("reset")
        if memory is not None:
            self._call_strategy("set_state", memory)

    def __call__(self, rng: Generator) -> int:
        """Draws the next task."""
        keywords = {} if self.history is None else {"history": self.history}
        drawn = self._strategy(self._num_tasks, self._last, rng, **keywords)
        self._last = check_index(drawn, self._num_tasks, self._drawn_name)
        return self._last

    def _call_strategy(self, name: str, *args: object) -> object:
        """Calls a method of the strategy, if it exists."""
        method = getattr(self._strategy, name, None)
        return None if method is None else method(*args)
