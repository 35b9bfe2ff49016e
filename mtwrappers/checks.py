"""Checks of what callers give."""

from __future__ import annotations

import difflib
import logging
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np

LogSink: TypeAlias = Callable[[str, Any], object]


def positive(value: Any, name: str) -> int:
    """Returns ``value`` as an ``int`` of 1 or more, or raises `ValueError`."""
    number = _whole(value)
    if number < 1:
        raise ValueError(f"{name} must be a positive integer, got {value!r}")
    return number


def not_negative(value: Any, name: str) -> int:
    """Returns ``value`` as an ``int`` of 0 or more, or raises `ValueError`."""
    number = _whole(value)
    if number < 0:
        raise ValueError(f"{name} must be zero or a positive integer, got {value!r}")
    return number


def _whole(value: Any) -> int:
    """``value`` as an ``int``, or -1 if it is no integer."""
    try:
        return -1 if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TypeError:
        return -1


def check_fraction(value: Any, name: str) -> float:
    """Returns ``value`` as a float in [0, 1], or raises `ValueError`."""
    if not isinstance(value, (int, float, np.number)) or not 0 <= value <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return float(value)


def above_zero(value: Any, name: str) -> float:
    """Returns ``value`` as a finite float above zero, or raises `ValueError`."""
    if not isinstance(value, (int, float, np.number)) or not 0 < value < float("inf"):
        raise ValueError(f"{name} must be above zero and finite, got {value!r}")
    return float(value)


def check_flag(value: Any, name: str) -> bool:
    """Returns a ``bool``, or raises `TypeError`: ``"no"`` would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_callable(value: Any, name: str) -> Any:
    """Returns ``value`` if it is callable, or raises `TypeError`."""
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {value!r}")
    return value


def check_list(value: Any, name: str, what: str) -> list[Any]:
    """Returns ``value``, an iterable of one or more, as a list; ``what`` names one of them.

    Raises:
        TypeError: If it is no list or the like.
        ValueError: If it is empty.
    """
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)):
        raise TypeError(f"{name} must be a list of at least one {what}, got {value!r}")
    items = list(value)
    if not items:
        raise ValueError(f"{name} must hold at least one {what}, got none")
    return items


def check_env(value: Any, name: str, method: str | None = None) -> Any:
    """Returns a `gymnasium.Env`, with ``method`` if one is named, or raises `TypeError`."""
    if not isinstance(value, gymnasium.Env):
        raise TypeError(f"{name} must be a gymnasium.Env, got {value!r}")
    if method is not None and not value.has_wrapper_attr(method.partition("(")[0]):
        raise TypeError(f"{value} has no {method}")
    return value


def check_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """Returns ``value`` if it is a dict or the like, or raises `TypeError`."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a dict, got {value!r}")
    return value


def check_log_sink(sink: LogSink | logging.Logger | None) -> LogSink:
    """Returns a callable ``(key, value)`` for figures, by default of the logger ``mtwrappers``.

    Raises:
        TypeError: If it is neither callable nor a logger.
    """
    if sink is None:
        sink = logging.getLogger("mtwrappers")
    if isinstance(sink, logging.Logger):
        logger = sink
        return lambda key, value: logger.info("%s: %s", key, value)
    if not callable(sink):
        raise TypeError(f"a log sink must be a callable (key, value) or a Logger, got {sink!r}")
    return sink


def check_index(value: Any, n: int, name: str) -> int:
    """Returns ``value`` as an ``int`` in [0, n - 1], or raises `ValueError`."""
    index = _whole(value)
    if not 0 <= index < n:
        raise ValueError(f"{name} must be an integer in [0, {n - 1}], got {value!r}")
    return index


def check_options(options: dict[str, Any] | None, known: Collection[str], what: str) -> None:
    """Checks the options of a reset.

    Options that do not speak of tasks may be somebody else's: Minari and Gymnasium's wrappers pass
    their own.

    Raises:
        TypeError: If they are no dict.
        ValueError: If one speaks of a task and is unknown.
    """
    if options is None:
        return
    if not isinstance(options, dict):
        raise TypeError(f"options of {what} must be a dict, got {options!r}")
    unknown = sorted(key for key in map(str, set(options) - set(known)) if "task" in key)
    if unknown:
        expected = f"knows {sorted(known)}" if known else "has none"
        raise ValueError(f"{what} {expected} as options of reset, got {unknown}")


def check_keywords(
    given: Iterable[str], known: Iterable[str], what: str, hints: Mapping[str, str] | None = None
) -> None:
    """Checks the names of keyword arguments.

    Args:
        given: The names that came.
        known: The names that there are.
        what: What takes them, for the message.
        hints: What to say of a name that is known elsewhere.

    Raises:
        TypeError: If a name is unknown; the message names what comes close.
    """
    names = sorted(known)
    for name in given:
        if name in names:
            continue
        hint = (hints or {}).get(name)
        close = difflib.get_close_matches(name, names, n=3)
        if hint is None and close:
            hint = f"did you mean {' or '.join(repr(match) for match in close)}?"
        raise TypeError(f"{what} takes no {name!r}: {hint or f'it takes {names}'}")


def check_task_names(task_names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Returns the names as a tuple.

    Raises:
        TypeError: If they are no list of strings.
        ValueError: If there is not exactly one name for each of ``n`` task ids.
    """
    if task_names is None:
        return None
    names = tuple(check_list(task_names, "task_names", "name"))
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"task_names must be strings, got {task_names!r}")
    if len(names) != n:
        raise ValueError(f"task_names must hold one name for each of {n} tasks, got {task_names!r}")
    return names
