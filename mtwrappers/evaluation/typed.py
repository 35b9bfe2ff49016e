"""Dataclasses as JSON values, and back by their type hints.

What is read may come from anyone: every value must have exactly the type of its field. A field with
the metadata ``{"saved": False}`` is left out, and one with ``{"optional": True}`` is left out if it
has its default.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import reprlib
import sys
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

_hints = functools.cache(get_type_hints)


def to_plain(value: Any) -> Any:
    """A value with dicts for its dataclasses and mappings, and lists for its tuples."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        optional = _optional_fields(type(value))
        return {
            name: to_plain(getattr(value, name))
            for name in _saved_fields(type(value))
            if name not in optional or getattr(value, name) != optional[name]
        }
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_plain(hint: Any, data: Any, where: str) -> Any:
    """Reverses `to_plain` for a value of the type ``hint``.

    Raises:
        ValueError: If ``data`` is anything else; the message begins with the place in the data.

    >>> from mtwrappers.evaluation.typed import from_plain
    >>> from_plain(tuple[int, ...] | None, [1, 2], "sizes")
    (1, 2)
    """
    # First, because nearly all values are of these types.
    if type(data) is hint and hint in (int, bool, str) and (hint is not int or abs(data) < 2**63):
        return data
    kind, args = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        types = [arg for arg in args if arg is not NoneType]
        if data is None and len(types) < len(args):
            return None
        if len(types) == 1:
            return from_plain(types[0], data, where)
        for item_type in types:
            try:
                return from_plain(item_type, data, where)
            except ValueError:
                continue
    elif kind is tuple and isinstance(data, list):
        hints = [args[0]] * len(data) if args[-1] is ... else args
        if len(hints) == len(data):
            places = enumerate(zip(hints, data, strict=True))
            return tuple(
                from_plain(item_hint, item, f"{where}, {i}") for i, (item_hint, item) in places
            )
    elif dataclasses.is_dataclass(hint) and isinstance(data, dict):
        return _from_fields(hint, data, where)
    elif isinstance(kind, type) and issubclass(kind, Mapping) and isinstance(data, dict):
        return {key: from_plain(args[1], item, f"{where}, {key}") for key, item in data.items()}
    elif hint is Any or (kind is Literal and type(data) is str and data in args):
        return data
    elif hint is float and type(data) in (int, float) and abs(data) <= sys.float_info.max:
        return float(data)
    expected = f"of the type {inspect.formatannotation(hint)}"
    if kind is Literal:
        expected = " or ".join(map(repr, args))
    raise ValueError(f"{where} must be {expected}, got {reprlib.repr(data)}")


def _from_fields(cls: Any, data: dict[str, Any], where: str) -> Any:
    """A dataclass whose fields are all in ``data``, except for optional ones."""
    absent = _optional_fields(cls).keys() - data.keys()
    names = [name for name in _saved_fields(cls) if name not in absent]
    for name in [*names, *data]:
        if (name in data) != (name in names):
            raise ValueError(f"{where} {'has no' if name in names else 'cannot have'} {name!r}")
    hints = _hints(cls)
    fields = {name: from_plain(hints[name], data[name], f"{where}, {name}") for name in names}
    try:
        return cls(**fields)
    except (TypeError, ValueError) as exc:
        raise ValueError(f"{where}: {exc}") from None


@functools.cache
def _saved_fields(dataclass: Any) -> tuple[str, ...]:
    """The names of the fields of a dataclass that are written."""
    fields = dataclasses.fields(dataclass)
    return tuple(field.name for field in fields if field.metadata.get("saved", True))


@functools.cache
def _optional_fields(dataclass: Any) -> dict[str, Any]:
    """The defaults of the fields of a dataclass that are only written with another value."""
    fields = dataclasses.fields(dataclass)
    return {field.name: field.default for field in fields if field.metadata.get("optional")}
