"""The Python attributes that a reset reads, and those that it leaves."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from mtwrappers.metaworld.fast.memory import is_part_of, offset


def traced(env: Any, run: Callable[[], Any]) -> tuple[Any, set[str], set[str]]:
    """What ``run`` returns, the attributes of ``env`` that it reads first, and all it assigns."""
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
    kind = type(value)
    if kind not in _FREEZE:
        return value
    return kind, _FREEZE[kind](value)


# How to freeze what changes in place, and floats, of which 0.0 equals -0.0.
_FREEZE: dict[type[Any], Callable[[Any], Any]] = {
    np.ndarray: lambda value: (value.dtype.char, value.shape, value.tobytes()),
    float: float.hex,
    np.float64: float.hex,
    dict: lambda value: [(key, _frozen(item)) for key, item in value.items()],
    list: lambda value: list(map(_frozen, value)),
    tuple: lambda value: list(map(_frozen, value)),
}


class Left:
    """The attributes that a reset left, to be assigned again.

    They are copied, so that what a user writes into them stays out of the next reset. Two kinds of
    arrays are views of something else, and must stay so: of the simulation's memory, and of the
    task's random vector.
    """

    def __init__(self, env: Any, names: Iterable[str]) -> None:
        self._kept: dict[str, Any] = {}
        self._copies: dict[str, Callable[[], Any]] = {}
        self._of_task: dict[str, slice] = {}
        vector = env._last_rand_vec
        for name in names:
            value = env.__dict__[name]
            if not isinstance(value, np.ndarray):
                if isinstance(value, (bool, int, float, str, type(None))):
                    self._kept[name] = value
                else:
                    self._copies[name] = functools.partial(copy.deepcopy, copy.deepcopy(value))
            elif is_part_of(env.data, value):
                self._kept[name] = value
            elif np.shares_memory(value, vector):
                start = offset(value, vector)
                self._of_task[name] = slice(start, start + value.size)
            else:
                self._copies[name] = value.copy().copy

    def assign(self, env: Any) -> None:
        """Gives the attributes to ``env``, which is on the same task."""
        attributes = env.__dict__
        attributes.update(self._kept)
        for name, copied in self._copies.items():
            attributes[name] = copied()
        for name, part in self._of_task.items():
            attributes[name] = env._last_rand_vec[part]
