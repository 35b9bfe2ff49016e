"""Calls of environments: those known by name, and how calls are recorded and replayed.

The tables of names are for every package of environments, so that a parent process needs no modules
that only its workers import.
"""

from __future__ import annotations

import copy
import functools
import importlib
import reprlib
from collections.abc import Callable
from typing import Any, TypeVar

import gymnasium

from mtwrappers.common.checks import check_callable
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.state import env_state as layers
from mtwrappers.vector.commands import Entry

Function = TypeVar("Function", bound=Callable[..., Any])
# Calls that change nothing, so that they need not be replayed.
READ_ONLY_CALLS = frozenset(
    {
        "exact_task_state",
        "render",
        "has_wrapper_attr",
        "get_wrapper_attr",
        "get_task",
        "get_task_obs",
        "get_task_state",
        "get_checkpoint",
        "get_state",
    }
)
# If one of these is called several times in a row, only the last call matters.
_SETTERS = frozenset({"set_task", "set_task_state", "set_wrapper_attr"})
# Functions of an environment that are called by name, like its methods.
_NAMED_FUNCTIONS = {"set_statistics_updates": layers.set_statistics_updates}


def read_only(function: Function) -> Function:
    """Marks a function or method that does not change the environment that it is called with.

    An executor that keeps a journal does not replay calls of it.

    >>> from mtwrappers import as_vector
    >>> from mtwrappers.vector.calls import read_only
    >>> angle = read_only(lambda env: float(env.unwrapped.state[0]))
    >>> envs = as_vector("Pendulum-v1", 2, journal=True)
    >>> obs, infos = envs.reset(seed=0)
    >>> [round(one, 2) for one in envs.call(angle)]
    [0.86, 0.07]
    >>> envs.close()
    """
    function.read_only = True  # type: ignore[attr-defined]
    return function


def call_entry(
    name: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Entry | None:
    """The entry of a journal for a call; ``None`` if it changes nothing.

    Raises:
        TypeError: If the call could not be replayed.
    """
    if name in READ_ONLY_CALLS or getattr(name, "read_only", False):
        return None
    if not isinstance(name, str) and not _is_importable(name):
        raise TypeError(
            f"an executor that keeps a journal must be able to replay a call, and {name!r} cannot "
            "be imported by its name: pass the name of a method, or a function that "
            "can be imported, or mark one that changes nothing with "
            "mtwrappers.vector.calls.read_only"
        )
    try:
        return "call", name, copy.deepcopy(args), copy.deepcopy(kwargs)
    except Exception as exc:  # any class may refuse to be copied in any way
        raise TypeError(
            "an executor that keeps a journal must be able to replay a call, and the "
            f"arguments of {name!r} cannot be copied: {exc}"
        ) from exc


def find_call(
    env: gymnasium.Env[Any, Any],
    name: str | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[[], Any], bool]:
    """Finds the target of a call: a function, or a method or attribute of the environment.

    Returns:
        A callable that makes the call, or reads the attribute; and whether it may change the
        environment.
    """
    if not isinstance(name, str):
        function = check_callable(name, "a name that is not a string")
        changes = not getattr(function, "read_only", False)
        return functools.partial(function, env, *args, **kwargs), changes
    if name in _NAMED_FUNCTIONS:
        return functools.partial(_NAMED_FUNCTIONS[name], env, *args, **kwargs), True
    value = env.get_wrapper_attr(name)
    if not callable(value):
        return lambda: value, False
    changes = name not in READ_ONLY_CALLS and not getattr(value, "read_only", False)
    return functools.partial(value, *args, **kwargs), changes


def call_again(env: gymnasium.Env[Any, Any], call: Entry) -> None:
    """Replays a call of a log.

    Raises:
        NotDeterministicError: If it succeeded before and now raises, or the other way round.
    """
    what, name, args, kwargs = call
    said = f"the call {describe_call(call)}"
    try:
        do, _ = find_call(env, name, copy.deepcopy(args), copy.deepcopy(kwargs))
        do()
    except Exception as exc:
        if what == "call":
            raise NotDeterministicError(
                f"{said} succeeded, and raises when it is replayed in a new environment: "
                f"{type(exc).__name__}: {exc}"
            ) from exc
    else:
        if what == "tried":
            raise NotDeterministicError(
                f"{said} raised, and does not when it is replayed in a new environment"
            )


def describe_call(call: Entry) -> str:
    """A call as it is written in Python, with long arguments shortened."""
    _, name, args, kwargs = call
    given = [reprlib.repr(value) for value in args]
    given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
    return f"{name if isinstance(name, str) else repr(name)}({', '.join(given)})"


def target_of(call: Entry) -> str | None:
    """The name of the method or attribute in a call, ``""`` for a function of an environment.

    It is ``None`` for a function that changes only what has a state.
    """
    _, name, args, kwargs = call
    if name == "set_wrapper_attr":
        name = args[0] if args else kwargs.get("name")
    if name in _NAMED_FUNCTIONS:
        return None
    return name if isinstance(name, str) else ""


def undoes(entry: Entry, before: Any) -> bool:
    """Whether a call overrides the call just before it."""
    what = _set_by(entry)
    return what is not None and _set_by(before) == what


def _set_by(entry: Any) -> tuple[Any, ...] | None:
    if not isinstance(entry, tuple) or entry[0] != "call" or entry[1] not in _SETTERS:
        return None
    return (entry[1], entry[2][0]) if entry[1] == "set_wrapper_attr" and entry[2] else entry[1:2]


def _is_importable(function: Any) -> bool:
    """Whether a function can be imported by its module and name."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return False
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function
