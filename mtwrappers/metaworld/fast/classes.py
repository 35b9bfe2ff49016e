"""`fast_class`: a Sawyer class that gives the same bits several times sooner."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld.fast.helpers import fast_globals
from mtwrappers.metaworld.fast.sawyer import FastSawyer
from mtwrappers.metaworld.rebind import names_of, undecorated, with_globals


@functools.cache
def make_fast_class(cls: Any) -> Any:
    """The fast subclass of a Sawyer class; see `mtwrappers.metaworld.fast_class`."""
    names = fast_globals()
    twin = _StaticTwin(cls)
    own: dict[str, Any] = {}

    def copied(function: FunctionType) -> FunctionType:
        # A class calls its static methods by its own name.
        own_name = function.__globals__.get(cls.__name__) is cls
        return with_globals(function, {**names, cls.__name__: twin} if own_name else names)

    for name, value in names_of(cls, SawyerXYZEnv).items():
        if isinstance(value, FunctionType) and name != "__init__":
            own[name] = copied(value)
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            own[name] = property(copied(value.fget), value.fset, value.fdel)
        elif isinstance(value, staticmethod):
            copy = copied(value.__func__)  # type: ignore[arg-type]
            own[name] = staticmethod(copy)
            setattr(twin, name, copy)
    own["_evaluate"] = undecorated(own["evaluate_state"])
    own["__doc__"] = f"{cls.__name__}, with the same bits several times sooner."
    own["__module__"] = cls.__module__
    own["__reduce__"] = _reduce
    own["_upstream_class"] = cls
    # The name stays: it is the task_name by which Meta-World's own code tells the classes apart.
    return type(cls.__name__, (cls, FastSawyer), own)


class _StaticTwin:
    """Stands for a Sawyer class where its own methods name it; its static methods are fast."""

    def __init__(self, cls: Any) -> None:
        self._cls = cls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cls, name)


def _reduce(self: Any) -> Any:
    raise TypeError(
        "a Sawyer environment does not survive pickling; pickle a MetaWorldSetTaskEnv, or its task"
    )
