"""The fast subclass of one of Meta-World's classes: copies of its functions over a fast base."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any, NoReturn

from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld.fast.helpers import fast_globals
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.upstream import names_of, with_globals


@functools.cache
def make_fast_class(cls: Any) -> Any:
    """The fast subclass of one of Meta-World's classes; see `mtwrappers.metaworld.fast_class`."""
    names = fast_globals()
    copies: list[FunctionType] = []

    def copied(function: Any) -> FunctionType:
        copies.append(with_globals(function, names))
        return copies[-1]

    own: dict[str, Any] = {}
    for name, value in names_of(cls, SawyerXYZEnv).items():
        if isinstance(value, FunctionType) and name != "__init__":
            own[name] = copied(value)
        elif isinstance(value, property):
            own[name] = property(copied(value.fget), value.fset, value.fdel)
        elif isinstance(value, staticmethod):
            own[name] = staticmethod(copied(value.__func__))
    own["__doc__"] = f"{cls.__name__}, with the same bits in less time."
    own["__module__"] = cls.__module__
    own["__reduce__"] = _refuse_to_pickle
    # The name stays: it is the task_name by which Meta-World's own code tells the classes apart.
    made = type(cls.__name__, (cls, FastSawyer), own)
    for function in copies:
        # Classes call their static methods by their own name.
        if cls.__name__ in function.__globals__:
            function.__globals__[cls.__name__] = made
    return made


def _refuse_to_pickle(self: Any) -> NoReturn:
    raise TypeError(
        "a Sawyer environment does not survive pickling; pickle a MetaWorldSetTaskEnv, or its task"
    )
