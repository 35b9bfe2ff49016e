"""What a file may say was done with an environment: a reset, steps, and calls of a short list.

It decides no more than that: which method is called, how large its arguments may be and which
attributes are set stands here.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Sequence
from typing import Any

import numpy as np

_STEPS_PER_TASK = 10  # to draw a task may take as long as some steps

# Methods that are called with any plain values: what a task is, only its environment knows. (One of
# Meta-World's takes nothing but tasks, see `mtwrappers.state.env_state.guard`.)
_WITH_ANYTHING = frozenset({"set_task", "set_task_state"})
# Methods that are called with numbers, texts and lists of these.
_WITH_SCALARS = frozenset(
    {
        "sample_task_state",
        "reset_task_state",
        "sample_tasks",
        "seed",
        "seed_task",
        "set_wrapper_attr",
        "toggle_terminate_on_success",
        "toggle_sample_tasks_on_reset",
        "set_statistics_updates",
    }
)
SAVED_CALLS = _WITH_ANYTHING | _WITH_SCALARS
# The attributes that are set: switches, and the place in a stream of tasks.
SAVED_ATTRIBUTES = frozenset(
    {
        "sample_tasks_on_reset",
        "terminate_on_success",
        "update_running_mean",
        "keeps_selection",
        "held_phase",
        "stream_steps",
    }
)


def check_saved(calls: Sequence[Any], entries: Sequence[Any], of: str) -> None:
    """Refuses what a file may not hold of an environment, by name.

    Args:
        calls: What it was called with before its last reset.
        entries: That reset, and what was done since; see `mtwrappers.vector.replay`.
        of: Which environment that is.

    Raises:
        TypeError, ValueError: If anything is of another form or kind.
    """
    for what, *given in calls:
        if what in ("reset", "step", "steps"):
            raise ValueError(f"{of}: expected calls before a reset, got {what!r}")
        _check_call(what, given, of)
    begun = False
    for place, (what, *given) in enumerate(entries, 1):
        if what not in ("reset", "step", "steps"):
            _check_call(what, given, of)
        elif begun == (what == "reset"):
            expected = "expected one reset and then steps"
            raise ValueError(f"{of}: {expected}, got {what!r} as entry {place}")
        elif what == "reset":
            begun = True
            _check_reset(given, of)
        elif what == "steps":
            _check_actions(given, of)


def count_steps(log: Any) -> float:
    """How many steps the log of an environment in a file takes to replay.

    A call counts as one, and ten more for each task that it draws.
    """
    count = 0.0
    for what, *given in (*log["calls"], *log["entries"]):
        count += cost_of(what, given[0] if what == "steps" else given)
    return count


def cost_of(what: str, given: Any) -> float:
    """As how many steps an entry counts."""
    if what == "steps":
        return len(given)
    if what in ("reset", "step") or given[0] != "sample_tasks":
        return 1
    _, args, kwargs = given
    numbers = (*args, *(value for name, value in kwargs.items() if name != "seed"))
    drawn = sum(abs(float(value)) for value in numbers if _is_number(value))
    return 1 + _STEPS_PER_TASK * drawn


class Budget:
    """How many steps of environments may still be replayed; ``None`` sets no limit."""

    def __init__(self, max_steps: int | None) -> None:
        self._max = math.inf if max_steps is None else max_steps
        self._taken = 0.0

    def take(self, steps: float) -> None:
        """Counts steps before they are taken.

        Raises:
            ValueError: If there are more of them than may be.
        """
        self._taken += steps
        if not self._taken <= self._max:  # not a number, either
            raise ValueError(
                f"it takes {self._taken:,.0f} steps of environments to replay, and max_steps is "
                f"{self._max:,}"
            )


def _check_call(what: str, given: Sequence[Any], of: str) -> None:
    if what not in ("call", "tried", "cut"):
        raise TypeError(f"{of}: expected a reset, steps or a call, got {what!r}")
    name, args, kwargs = given
    if not isinstance(name, str) or name not in SAVED_CALLS:
        raise TypeError(
            f"{of} was called with {name!r}, which a checkpoint cannot hold: it holds calls of "
            f"{', '.join(sorted(SAVED_CALLS))}; keep what others change in get_state()"
        )
    if not isinstance(args, (list, tuple)) or not isinstance(kwargs, dict):
        raise TypeError(f"{of}: expected arguments of {name!r}, got {reprlib.repr([args, kwargs])}")
    if name == "set_wrapper_attr":
        attribute = args[0] if args else kwargs.get("name")
        if not isinstance(attribute, str) or attribute not in SAVED_ATTRIBUTES:
            raise TypeError(
                f"the attribute {attribute!r} of {of} was set, which a "
                f"checkpoint cannot hold: it holds {', '.join(sorted(SAVED_ATTRIBUTES))}; let "
                "a method set_task() of the environment set others"
            )
    if name in _WITH_SCALARS:
        for value in (*args, *kwargs.values()):
            if not all(map(_is_scalar, value if isinstance(value, (list, tuple)) else [value])):
                raise TypeError(
                    f"{of} was called with {name!r} and {reprlib.repr(value)}, which a checkpoint "
                    "cannot hold: for this call it holds numbers, texts and lists of these"
                )


def _check_reset(given: Sequence[Any], of: str) -> None:
    seed, options = given
    if not (seed is None or isinstance(seed, (int, np.integer))):
        raise TypeError(f"{of}: expected a seed, got {seed!r}")
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"{of}: expected options of a reset, got {options!r}")


def _check_actions(given: Sequence[Any], of: str) -> None:
    (actions,) = given
    if not isinstance(actions, np.ndarray) or not actions.ndim:
        raise TypeError(f"{of}: expected an array of actions, got {reprlib.repr(actions)}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{of}: expected actions that are numbers, got NaN")


def _is_scalar(value: Any) -> bool:
    return value is None or isinstance(value, str) or _is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, np.bool_, np.integer, np.floating))
