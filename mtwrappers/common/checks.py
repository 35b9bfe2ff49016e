"""Checks of arguments: each returns the value, or raises an error with expected and actual."""

from __future__ import annotations

import difflib
import logging
import math
import operator
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.spaces import Space

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import is_printable, printable, short, with_place
from mtwrappers.common.extras import with_or_without_opengl
from mtwrappers.common.loop_variables import warn_of_loop_variables
from mtwrappers.common.types import Info

LogSink: TypeAlias = Callable[[str, Any], object]


def positive(value: Any, name: str) -> int:
    """Returns ``value`` as an ``int`` of 1 or more, or raises `ValueError`."""
    return _whole(value, name, 1, sys.maxsize, "a positive integer")


def not_negative(value: Any, name: str) -> int:
    """Returns ``value`` as an ``int`` of 0 or more, or raises `ValueError`."""
    return _whole(value, name, 0, sys.maxsize, "zero or a positive integer")


def check_episode_steps(value: Any, default: int) -> int | None:
    """Returns the time limit of a registered id, or ``None`` for none.

    It is read as `gymnasium.make` reads ``max_episode_steps``: ``None`` is ``default``, the limit
    that the id is registered with, and -1 is no limit.

    Raises:
        ValueError: If it is none of these, nor a positive integer.
    """
    if value is None:
        return default
    limit = check_limit(value, "max_episode_steps")
    return None if limit == -1 else limit


def check_limit(value: Any, name: str) -> int:
    """Returns a number of steps of 1 or more, or -1 for no limit, or raises `ValueError`."""
    unlimited = isinstance(value, (int, np.integer)) and value == -1
    return -1 if unlimited else positive(value, f"{name}, if it is not -1 (no limit),")


def check_index(value: Any, n: int, name: str) -> int:
    """Returns ``value`` as an ``int`` in [0, n - 1], or raises `ValueError`."""
    return _whole(value, name, 0, n - 1, f"an integer in [0, {n - 1}]")


def _whole(value: Any, name: str, least: int, most: int, expected: str) -> int:
    """Returns ``value`` as an ``int`` from ``least`` to ``most``, or raises `ValueError`."""
    try:
        number = least - 1 if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = least - 1
    if number > sys.maxsize:  # larger than any size in Python
        expected = f"at most {sys.maxsize}" if most == sys.maxsize else expected
    if not least <= number <= most:
        raise ValueError(f"{name} must be {expected}, got {short(value)}")
    return number


def check_rows(value: Any, n: int, name: str) -> list[Any]:
    """Returns a list with an item for each of ``n`` environments, or raises `ValueError`."""
    listed = isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)
    if not listed or len(value) != n:
        count = len(value) if listed else short(value)
        raise ValueError(f"expected {name} of {n} environments, got {count}")
    return list(value)


def check_fraction(value: Any, name: str) -> float:
    """Returns ``value`` as a float in [0, 1], or raises `ValueError`."""
    number = number_or_nan(value)
    if not 0 <= number <= 1:
        raise ValueError(f"{name} must be in [0, 1], got {value!r}")
    return number


def above_zero(value: Any, name: str) -> float:
    """Returns ``value`` as a finite float above zero, or raises `ValueError`."""
    number = number_or_nan(value)
    if not 0 < number < math.inf:
        raise ValueError(f"{name} must be above zero and finite, got {value!r}")
    return number


def zero_or_above(value: Any, name: str) -> float:
    """Returns ``value`` as a finite float of zero or more, or raises `ValueError`."""
    number = number_or_nan(value)
    if not 0 <= number < math.inf:
        raise ValueError(f"{name} must be zero or more and finite, got {value!r}")
    return number


def check_finite(value: Any, name: str) -> float:
    """Returns ``value`` as a finite float, or raises `ValueError`."""
    number = number_or_nan(value)
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {short(value)}")
    return number


def number_or_nan(value: Any) -> float:
    """``value`` as a ``float``, or NaN if it is a bool, no number, or too large for a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def check_flag(value: Any, name: str) -> bool:
    """Returns ``value`` as a ``bool``, or raises `TypeError`: ``"no"`` would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def check_success(value: Any, name: str) -> bool:
    """Returns the success that an info reports as a ``bool``.

    Raises:
        ValueError: If it is something else than a bool, 0 or 1: NaN and ``"no"`` would count as
            true.
    """
    if not isinstance(value, (bool, int, float, np.bool_, np.number)) or value not in (0, 1):
        raise ValueError(f"{name} must be a bool, 0 or 1, got {short(value)}")
    return bool(value)


def check_choice(value: Any, choices: Sequence[Any], name: str) -> Any:
    """Returns ``value`` if it is in ``choices``, or raises `ValueError`; 1 is not ``True``."""
    if isinstance(value, np.bool_):
        value = bool(value)
    for choice in choices:
        are_strings = isinstance(choice, str) and isinstance(value, str)
        if value is choice or (are_strings and value == choice):
            return choice
    *names, last = map(repr, choices)
    expected = f"{', '.join(names)} or {last}" if names else last
    raise ValueError(f"{name} must be {expected}, got {value!r}")


def check_callable(value: Any, name: str) -> Any:
    """Returns ``value`` if it is callable, or raises `TypeError`."""
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {value!r}")
    return value


def check_maker(value: Any, name: str) -> Any:
    """Returns ``value`` if it is callable, or raises `TypeError`; ``name`` is the constructor's."""
    if not callable(value):
        raise TypeError(f"{name} must be callable, got {short(value)}{hint_at_maker(value)}")
    return value


def hint_at_maker(value: Any) -> str:
    """The end of a message: what to pass for an id, a spec or environments, else ``""``."""
    if isinstance(value, str):
        return f": pass functools.partial(gymnasium.make, {value!r})"
    if isinstance(value, EnvSpec):
        return ": pass functools.partial(gymnasium.make, spec) with this spec"
    if isinstance(value, gymnasium.Env):
        return ", an environment: pass a function that makes a new one, such as lambda: make(...)"
    if isinstance(value, gymnasium.vector.VectorEnv):
        return (
            ", a vector environment: pass a function that makes a single one, such as "
            "functools.partial(gymnasium.make, id)"
        )
    return ""


def check_makers(value: Any, name: str) -> list[Callable[[], Any]]:
    """Returns an iterable of constructors, one per task, as a list; raises as `check_list` does.

    It warns of lambdas from a loop, see `mtwrappers.common.loop_variables`.
    """
    if isinstance(value, (str, EnvSpec)):
        raise TypeError(
            f"{name} must be a list of constructors, got {short(value)}{hint_at_maker(value)} in a "
            "list"
        )
    makers = check_list(value, name, "constructor")
    for i, maker in enumerate(makers):
        check_maker(maker, f"the constructor of task {i} in {name}")
    warn_of_loop_variables(makers, name)
    return makers


def check_string(value: Any, name: str) -> str:
    """Returns ``value`` if it is a string, or raises `TypeError`."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, got {value!r}")
    return value


def check_name(value: str | None, name: str) -> str | None:
    """Returns ``value``, a name to be saved and printed, or ``None``.

    Raises:
        TypeError: If it is not a string.
        ValueError: If it cannot be printed as it is, see `mtwrappers.common.errors.printable`.
    """
    if value is not None and not is_printable(check_string(value, name)):
        raise ValueError(f"{name} must be printable, got '{printable(value)}'")
    return value


def refuse_rendering(render_mode: str | None, owner: str) -> None:
    """Raises `ValueError` if an environment that draws nothing is made with a render mode."""
    if render_mode is not None:
        raise ValueError(f"{owner} renders nothing; render_mode must be None, got {render_mode!r}")


def check_space(value: Any, name: str) -> Any:
    """Returns ``value`` if it is a Gymnasium space, or raises `TypeError`."""
    if not isinstance(value, Space):
        raise TypeError(f"{name} must be a gymnasium.Space, got {value!r}")
    return value


def check_mapping(value: Any, name: str) -> Mapping[Any, Any]:
    """Returns ``value`` if it is a mapping, or raises `TypeError`."""
    if not isinstance(value, (dict, Mapping)):  # dict first, because it is faster
        raise TypeError(f"{name} must be a dict, got {short(value)}")
    return value


def check_list(value: Any, name: str, item_name: str) -> list[Any]:
    """Returns an iterable as a list, or raises `TypeError`, or `ValueError` if it is empty.

    ``item_name`` is the word for an item in messages.
    """
    try:
        # A set has no order.
        items = None if isinstance(value, (str, bytes, Mapping, set, frozenset)) else iter(value)
    except TypeError:
        items = None
    if items is None:
        raise TypeError(f"{name} must be a list of at least one {item_name}, got {short(value)}")
    items = list(items)
    if not items:
        raise ValueError(f"{name} must hold at least one {item_name}, got none")
    return items


def check_task_names(task_names: Sequence[str] | None, n: int) -> tuple[str, ...] | None:
    """Returns ``n`` different strings as a tuple, or raises `TypeError` or `ValueError`."""
    if task_names is None:
        return None
    names = tuple(check_list(task_names, "task_names", "name"))
    if not all(isinstance(name, str) for name in names):
        raise TypeError(f"task_names must be strings, got {task_names!r}")
    if len(names) != n:
        raise ValueError(f"task_names must hold one name for each of {n} tasks, got {task_names!r}")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        # Results and statistics of tasks are kept by name.
        raise ValueError(f"task_names must differ, got {repeated} more than once")
    return names


def check_each(value: Any, n: int, name: str, check: Callable[[Any, str], Any]) -> tuple[Any, ...]:
    """Returns ``n`` checked values from one value for all tasks, or a list; ``None`` is kept."""
    if isinstance(value, np.ndarray) and not value.ndim:
        value = value.item()
    listed = isinstance(value, (list, tuple, np.ndarray))
    values = list(value) if listed else [value] * n
    if len(values) != n:
        raise ValueError(f"{name} must hold one value for each of {n} tasks, got {value!r}")
    return tuple(
        None if item is None else check(item, f"{name} of task {i}" if listed else name)
        for i, item in enumerate(values)
    )


# The end of a message about what may be an environment of the old Gym.
OLD_GYM_HINT = (
    "; an environment of the old Gym needs the class on the page 'Coming from other packages' "
    "(docs/migration.md)"
)


def check_env(value: Any, name: str, method: str | None = None) -> Any:
    """Returns ``value`` if it is a `gymnasium.Env` (with ``method``), or raises `TypeError`."""
    if not isinstance(value, gymnasium.Env):
        hint = ""
        if isinstance(value, gymnasium.vector.VectorEnv):
            hint = ", a vector environment: pass one environment, as its constructors make them"
        elif callable(value):
            hint = ": call it, and pass the environment that it makes"
        elif hasattr(value, "step"):
            hint = OLD_GYM_HINT
        raise TypeError(f"{name} must be a gymnasium.Env, got {value!r}{hint}")
    if method is not None and not value.has_wrapper_attr(method.partition("(")[0]):
        raise TypeError(f"{value} has no {method}")
    return value


def construct_env(maker: Callable[[], Any], name: str) -> Any:
    """Constructs a `gymnasium.Env` and checks its spaces; errors name it."""
    try:
        env = with_or_without_opengl(maker)
    except Exception as exc:
        with_place(exc, f"the constructor of {name} failed")
        raise
    if not isinstance(env, gymnasium.Env):
        hint = OLD_GYM_HINT if hasattr(env, "step") else ""
        raise TypeError(f"the constructor of {name} must return a gymnasium.Env, got {env!r}{hint}")
    for space_name in ("observation_space", "action_space"):
        if not isinstance(getattr(env, space_name, None), Space):
            raise TypeError(f"{name} must have an {space_name}, {env!r} has none")
    return env


def check_reset(result: Any) -> tuple[Any, Info]:
    """Returns the observation and info that a reset returned, or raises `TypeError`."""
    is_pair = isinstance(result, tuple) and len(result) == 2
    if is_pair and isinstance(result[1], dict):
        return result[0], result[1]
    hint = "" if is_pair else OLD_GYM_HINT
    raise TypeError(f"expected (observation, info dict) from reset(), got {result!r}{hint}")


def check_step(result: Any) -> tuple[Any, float, Any, Any, Info]:
    """Returns the values of a step with its reward as a float, or raises `TypeError`."""
    try:
        obs, reward, terminated, truncated, info = result
        return obs, float(reward), terminated, truncated, info
    except (TypeError, ValueError) as exc:
        raise explain_step(result) from exc


def explain_step(result: Any) -> TypeError:
    """Makes the error for a step that did not return Gymnasium's five values."""
    length = len(result) if isinstance(result, tuple) else 0
    if length == 5 and result[1] is None:
        return TypeError("expected a reward that is a number, got None")
    return TypeError(
        "expected (observation, reward, terminated, truncated, info) from step(), with a number as "
        f"reward, got {result!r}{OLD_GYM_HINT if length == 4 else ''}"
    )


def check_log_sink(sink: LogSink | logging.Logger | None) -> LogSink:
    """Returns a callable ``(key, value)``, by default logging to the logger ``mtwrappers``."""
    if sink is None:
        sink = logging.getLogger("mtwrappers")
    if isinstance(sink, logging.Logger):
        logger = sink
        return lambda key, value: logger.info("%s: %s", key, value)
    if not callable(sink):
        raise TypeError(f"a log sink must be a callable (key, value) or a Logger, got {sink!r}")
    return sink


# Options of wrappers that pass all of them on.
_FOREIGN_OPTIONS = ("minari_",)


def check_options(
    options: Mapping[str, object] | None,
    names: Collection[str],
    owner: str,
    *,
    passes_on: bool = False,
    prefixes: tuple[str, ...] = (),
    hint: str = "",
) -> None:
    """Raises `ValueError` for unknown reset options.

    If the environment passes options on to another, only options that are spelled almost like a
    known one, or begin as one of ``prefixes``, are refused. Minari's wrapper passes its own options
    on, which are accepted.

    Args:
        options: The options of a reset.
        names: The options that the environment reads.
        owner: The environment, for the message.
        passes_on: Whether another environment may read the others.
        prefixes: The beginnings of options that no other environment reads, such as ``"task_"``,
            which refuses ``task`` as well.
        hint: The end of the message.
    """
    if options is None:
        return
    unknown = []
    for key in map(str, check_mapping(options, f"options of {owner}")):
        folded = key.casefold()
        similar = bool(difflib.get_close_matches(folded, names, 1, 0.85))
        similar = similar or f"{folded}_".startswith(prefixes)
        refused = similar or not (passes_on or key.startswith(_FOREIGN_OPTIONS))
        if key not in names and refused:
            unknown.append(key)
    if unknown:
        expected = f"takes the reset options {sorted(names)}" if names else "takes no reset options"
        hints = [*(did_you_mean(key, names) for key in sorted(unknown)[:1]), hint]
        end = "; ".join([f"got {sorted(unknown)}", *filter(None, hints)])
        raise ValueError(f"{owner} {expected}, {end}")


def check_keywords(
    keywords: Iterable[str],
    names: Iterable[str],
    function: str,
    hints: Mapping[str, str] | None = None,
) -> None:
    """Raises `TypeError` for an unknown keyword argument, with a hint at similar names.

    The message has Python's own words, because libraries such as TorchRL look for them when they
    try a keyword argument. ``hints`` maps names that are known elsewhere to the end of the message.
    """
    names = sorted(names)
    for name in (name for name in keywords if name not in names):
        hint = (hints or {}).get(name) or did_you_mean(name, names) or f"it takes {names}"
        raise TypeError(f"{function} got an unexpected keyword argument {name!r}: {hint}")
