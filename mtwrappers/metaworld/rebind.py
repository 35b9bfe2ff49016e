"""Meta-World's own functions with other helpers: copies in which global names mean something else.

Nothing is patched. The module that a function comes from keeps its names, and whoever uses the
function from there sees no change.
"""

from __future__ import annotations

from types import CellType, FunctionType
from typing import Any


def with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    """A copy of ``function`` in which those of ``names`` that its module defines mean these."""
    # A decorated function holds the one that does the work in a cell.
    closure = function.__closure__ and tuple(
        CellType(with_globals(cell.cell_contents, names))
        if isinstance(cell.cell_contents, FunctionType)
        else cell
        for cell in function.__closure__
    )
    copy = FunctionType(
        function.__code__,
        {name: names.get(name, value) for name, value in function.__globals__.items()},
        function.__name__,
        function.__defaults__,
        closure,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    copy.__qualname__, copy.__doc__ = function.__qualname__, function.__doc__
    return copy


def names_of(cls: type[Any], base: type[Any]) -> dict[str, Any]:
    """What ``cls`` and its bases before ``base`` define, nearest first."""
    found: dict[str, Any] = {}
    for owner in cls.__mro__:
        if owner is base:
            break
        for name, value in vars(owner).items():
            found.setdefault(name, value)
    return found
