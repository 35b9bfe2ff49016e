"""Equality of values that a user gives, such as tasks and the arguments of constructors."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np


def same_values(value: Any, expected: Any) -> bool:
    """Whether two values have the same types and are equal, also after pickling.

    Containers, partials and arrays are compared by what they hold, other objects with ``==``, or by
    their attributes if that raises an error, as it does for a dataclass with arrays.

    >>> import numpy as np
    >>> from mtwrappers.common.equality import same_values
    >>> same_values({"goal": np.zeros(2)}, {"goal": np.zeros(2)})
    True
    """
    if type(value) is not type(expected):
        return False
    if isinstance(value, dict):
        same_keys = value.keys() == expected.keys()
        return same_keys and all(same_values(item, expected[key]) for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return len(value) == len(expected) and all(map(same_values, value, expected))
    if isinstance(value, np.ndarray):
        same_form = value.dtype == expected.dtype and value.shape == expected.shape
        return same_form and same_values(value.tolist(), expected.tolist())
    if isinstance(value, functools.partial):
        calls = [(call.func, call.args, call.keywords) for call in (value, expected)]
        return same_values(*calls)
    try:
        return bool(value == expected)
    except ValueError:
        attributes = [getattr(obj, "__dict__", None) for obj in (value, expected)]
        return None not in attributes and same_values(*attributes)
