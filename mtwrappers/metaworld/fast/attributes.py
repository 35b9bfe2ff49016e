"""The Python attributes that a reset reads, and those that it leaves."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mtwrappers.metaworld.fast.memory import address, is_part_of

_IMMUTABLE = (bool, int, float, str, type(None))


def traced(env: Any, run: Callable[[], Any]) -> tuple[Any, set[str], set[str]]:
    """Calls ``run`` and watches which attributes of ``env`` it reads and assigns.

    Returns:
        What ``run`` returned, the names of the attributes that it read and had not assigned before,
        and the names of those that it assigned.
    """
    cls: Any = type(env)
    read: set[str] = set()
    assigned: set[str] = set()
    env.__dict__["_trace"] = read, assigned
    env.__class__ = _tracing(cls)
    try:
        result = run()
    finally:
        object.__setattr__(env, "__class__", cls)
        del env.__dict__["_trace"]
    return result, {name for name in read if name[:2] != "__"}, assigned


@functools.cache
def _tracing(cls: Any) -> Any:
    """A subclass of ``cls`` that notes which attributes are read and assigned."""

    def get(self: Any, name: str) -> Any:
        read, assigned = object.__getattribute__(self, "__dict__")["_trace"]
        if name not in assigned:
            read.add(name)
        return object.__getattribute__(self, name)

    def assign(self: Any, name: str, value: Any) -> None:
        object.__getattribute__(self, "__dict__")["_trace"][1].add(name)
        object.__setattr__(self, name, value)

    return type(cls.__name__, (cls,), {"__getattribute__": get, "__setattr__": assign})


def values(env: Any, names: Iterable[str]) -> list[Any]:
    """The attributes of these names, of the instance or else of its class, to be compared."""
    own, cls = env.__dict__, type(env)
    return [_frozen(own[name] if name in own else getattr(cls, name, None)) for name in names]


def _frozen(value: Any) -> Any:
    """Something that differs as soon as ``value`` does, be it by a bit or in place."""
    if isinstance(value, np.ndarray):
        return value.dtype.char, value.shape, value.tobytes()
    if isinstance(value, float):
        return type(value), repr(value)
    if isinstance(value, dict):
        return tuple((key, _frozen(item)) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), *map(_frozen, value)
    return value


class Left:
    """The attributes that a reset left, to be assigned again.

    Arrays and lists are copied, so that what a user writes into them stays out of the next reset.
    Two kinds of arrays are views of something else, and must stay so: of the simulation's memory,
    and of the task's random vector.

    Args:
        env: The environment after the reset.
        names: The names of the attributes that the reset assigned.
    """

    def __init__(self, env: Any, names: Iterable[str]) -> None:
        self._kept: dict[str, Any] = {}
        self._copied: dict[str, Any] = {}
        self._of_task: dict[str, slice] = {}
        vector = env._last_rand_vec
        for name in names:
            value = env.__dict__[name]
            if isinstance(value, np.ndarray) and not is_part_of(env.data, value):
                if np.shares_memory(value, vector):
                    start = (address(value) - address(vector)) // vector.itemsize
                    self._of_task[name] = slice(start, start + value.size)
                else:
                    self._copied[name] = value.copy()
            elif isinstance(value, (np.ndarray, *_IMMUTABLE)):
                self._kept[name] = value
            else:
                self._copied[name] = copy.deepcopy(value)

    def assign(self, env: Any) -> None:
        """Gives the attributes to ``env``, which is on the same task."""
        attributes = env.__dict__
        attributes.update(self._kept)
        for name, value in self._copied.items():
            attributes[name] = copy.deepcopy(value)
        for name, part in self._of_task.items():
            attributes[name] = env._last_rand_vec[part]
