"""Equality of values that a user gives, such as tasks and the arguments of constructors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def same_values(value: Any, other: Any) -> bool:
    """Whether two values have the same types and are equal, also after pickling.

    Containers, partials and arrays are compared by what they hold, other objects with ``==``, or by
    their attributes if that raises an error, as it does for a dataclass with arrays.

    >>> import numpy as np
    >>> from mtwrappers.common.equality import same_values
    >>> same_values({"goal": np.zeros(2)}, {"goal": np.zeros(2)})
    True
    """
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(same_values(value[k], other[k]) for k in value)
    if isinstance(value, (list, tuple)):
        return len(value) == len(other) and all(map(same_values, value, other))
    if isinstance(value, np.ndarray):
        same_form = value.dtype == other.dtype and value.shape == other.shape
        return same_form and same_values(value.tolist(), other.tolist())
    if isinstance(value, functools.partial):
        parts = [(part.func, part.args, part.keywords) for part in (value, other)]
        return same_values(*parts)
    try:
        return bool(value == other)
    except ValueError:
        attributes = [getattr(part, "__dict__", None) for part in (value, other)]
        return None not in attributes and same_values(*attributes)
