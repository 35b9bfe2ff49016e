"""Equality of values that a user gives, such as tasks and the arguments of constructors."""

from __future__ import annotations

import functools
import types
from typing import Any

import numpy as np

_DEFINITIONS = (
    type,
    types.FunctionType,
    types.MethodType,
    types.BuiltinFunctionType,
    types.ModuleType,
)


def same_values(value: Any, expected: Any) -> bool:
    """Whether two values have the same types and are equal, also after pickling.

    Containers, partials and arrays are compared by what they hold, other objects with ``==``. If
    their class does not define it, or it raises an error, as it does for a dataclass with arrays,
    they are compared by their attributes. NaN equals NaN.

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
    return _same_objects(value, expected)


def _same_objects(value: Any, expected: Any) -> bool:
    """Whether two objects of the same type, which are no containers, are equal."""
    if value is expected:
        return True
    if isinstance(value, (float, np.floating)) and np.isnan(value) and np.isnan(expected):
        return True
    # Functions and classes have attributes too, but these do not make them what they are.
    value_type: Any = type(value)
    is_plain = value_type.__eq__ is object.__eq__ and not isinstance(value, _DEFINITIONS)
    if not is_plain:
        try:
            return bool(value == expected)
        except Exception:  # any class may raise anything
            pass
    attributes, expected_attributes = (getattr(obj, "__dict__", None) for obj in (value, expected))
    if not attributes or not expected_attributes:
        return False
    try:
        return same_values(attributes, expected_attributes)
    except RecursionError:  # objects that refer to each other
        return False
