"""Access to Meta-World, an optional dependency: its classes, and copies of their functions.

Nothing is patched: the modules that functions are copied from are not changed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from types import CellType, FunctionType
from typing import Any

from mtwrappers.common.checks import check_list
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.extras import import_extra
from mtwrappers.metaworld.interfaces import Classes

# Imports Meta-World, or raises an error that names the extra to install.
metaworld = functools.partial(import_extra, "metaworld", "metaworld")


def all_classes() -> Classes:
    """Every Sawyer class by its name, such as ``"reach-v3"``, in Meta-World's order."""
    return dict(metaworld().ALL_V3_ENVIRONMENTS)


def is_upstream(cls: type) -> bool:
    """Whether a Sawyer class is Meta-World's own, not one that a user added to its table."""
    return cls.__module__.startswith("metaworld.envs.") and cls in all_classes().values()


def classes_by_name(names: Iterable[str], argument: str = "classes") -> Classes:
    """The Sawyer classes with these names, in this order; names must exist and be unique.

    ``argument`` is the name of their list, for messages.
    """
    listed, classes = check_list(names, argument, "class name"), all_classes()
    for name in listed:
        if not isinstance(name, str) or name not in classes:
            hint = did_you_mean(name, classes) or f"expected one of {sorted(classes)}"
            raise ValueError(f"unknown class {name!r} in {argument}; {hint}")
    if len(set(listed)) != len(listed):
        raise ValueError(f"{argument} must be different class names, got {listed}")
    return {name: classes[name] for name in listed}


def with_globals(function: FunctionType, names: Mapping[str, object]) -> FunctionType:
    """A copy of ``function`` in which globals of its module are replaced by ``names``."""
    # A decorated function holds the original one in a cell.
    closure = function.__closure__ and tuple(
        CellType(with_globals(cell.cell_contents, names))
        if isinstance(cell.cell_contents, FunctionType)
        else cell
        for cell in function.__closure__
    )
    values = {name: names.get(name, value) for name, value in function.__globals__.items()}
    copy = FunctionType(function.__code__, values, argdefs=function.__defaults__, closure=closure)
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function)
    return copy


def collect_members(cls: type, base: type) -> dict[str, Any]:
    """The names that ``cls`` and its bases before ``base`` define, nearest first."""
    members: dict[str, Any] = {}
    for owner in cls.__mro__:
        if owner is base:
            break
        for name, value in vars(owner).items():
            members.setdefault(name, value)
    return members
