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
    own: dict[str, Any] = {}
    for name, value in names_of(cls, SawyerXYZEnv).items():
        if isinstance(value, FunctionType) and name != "__init__":
            own[name] = with_globals(value, names)
        elif isinstance(value, property) and isinstance(value.fget, FunctionType):
            own[name] = property(with_globals(value.fget, names), value.fset, value.fdel)
        elif isinstance(value, staticmethod):
            own[name] = staticmethod(with_globals(value.__func__, names))  # type: ignore[arg-type]
    own["_evaluate"] = undecorated(own["evaluate_state"])
    own.setdefault(
        "_gripper_caging_reward", with_globals(SawyerXYZEnv._gripper_caging_reward, names)
    )
    own["__doc__"] = f"{cls.__name__}, with the same bits several times sooner."
    own["__module__"] = cls.__module__
    own["__reduce__"] = _reduce
    own["_upstream_class"] = cls
    # The name stays: it is the task_name by which Meta-World's own code tells the classes apart.
    return type(cls.__name__, (cls, FastSawyer), own)


def _reduce(self: Any) -> Any:
    raise TypeError(
        "a Sawyer environment does not survive pickling; pickle a MetaWorldSetTaskEnv, or its task"
    )
