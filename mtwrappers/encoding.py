"""States as bytes: a line of JSON, and the bytes of its arrays one after another."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld import plain_task
from mtwrappers.state.plain_data import dict_of, is_task

_PER_CHARACTER = 64  # bytes of memory that a character of JSON can come to


def to_bytes(states: Mapping[str, Any]) -> bytes:
    """States by name as bytes; a `TypeError` names what cannot be."""
    arrays: list[bytes] = []
    encoded = {name: _encode(state, name, arrays) for name, state in states.items()}
    return b"".join([json.dumps(encoded).encode(), b"\n", *arrays])


def from_bytes(data: bytes, max_bytes: int) -> dict[str, Any]:
    """What `to_bytes` made bytes of, in arrays that nobody shares; nothing in it is run.

    Any bytes are safe to read: others raise an exception, before much is allocated.
    """
    text, _, rest = data.partition(b"\n")
    needed = _PER_CHARACTER * len(text) + len(rest)
    if needed > max_bytes:
        raise ValueError(
            f"it takes up to {needed:,} bytes of memory, and max_bytes is {max_bytes:,}"
        )
    states = json.loads(text.decode("ascii"))
    if not isinstance(states, dict):
        raise ValueError(f"expected the states by name, got {type(states).__name__}")
    arrays = _Arrays(rest)
    decoded = {name: _decode(value, arrays) for name, value in states.items()}
    arrays.require_end()
    return decoded


def _encode(value: Any, where: str, arrays: list[bytes]) -> Any:
    """Turns a state into what JSON knows, and collects the bytes of its arrays."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is np.ndarray or isinstance(value, np.generic):
        array = np.asarray(value)
        if _is_plain(array.dtype, array.dtype.str, array.size):
            # The order in memory, too: sums depend on it in their last bits.
            turned = array.flags.f_contiguous and not array.flags.c_contiguous
            arrays.append(array.tobytes("F" if turned else "C"))
            kind = "#scalar" if isinstance(value, np.generic) else "#array"
            return {kind: [array.dtype.str, list(array.shape), "F" if turned else "C"]}
    if is_task(value):
        return {"#task": _encode(plain_task.to_plain(value), where, arrays)}
    if type(value) in (list, tuple):
        items = [_encode(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]
        return items if type(value) is list else {"#tuple": items}
    if isinstance(value, dict):
        items = [
            [_encode(key, where, arrays), _encode(item, f"{where}[{key!r}]", arrays)]
            for key, item in value.items()
        ]
        return {"#dict": items}
    kind = type(value).__name__ + (f" of {value.dtype}" if hasattr(value, "dtype") else "")
    raise TypeError(
        "a checkpoint holds JSON values, plain arrays and Meta-World tasks; "
        f"{where} is {value!r} ({kind})"
    )


def _is_plain(dtype: np.dtype[Any], name: str, count: int) -> bool:
    """Whether the name says all of a dtype, so that it has no objects and no fields."""
    # There is no end to how many elements of no size an array could have.
    return (
        dtype.str == name
        and np.dtype(name) == dtype
        and not dtype.hasobject
        and (dtype.itemsize > 0 or count <= 1)
    )


class _Arrays:
    """The bytes of the arrays, which are taken one after another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def take(self, described: Any) -> NDArray[Any]:
        """The next array."""
        name, shape, order = described
        if not re.fullmatch(r"[<>|][a-zA-Z]\d{1,9}(\[\w+\])?", name) or order not in ("C", "F"):
            raise ValueError(f"expected a dtype and an order, got {name!r} and {order!r}")
        if not isinstance(shape, list) or len(shape) > 64 or {type(n) for n in shape} - {int}:
            raise ValueError(f"expected a shape, got {shape!r}")
        dtype, count = np.dtype(name), math.prod(shape)
        if not _is_plain(dtype, name, count):
            raise ValueError(f"expected a plain array, got {count} of {name!r}")
        end = self._at + count * dtype.itemsize
        if min(shape, default=0) < 0 or end > len(self._data):
            raise ValueError(f"expected an array that is in the file, got the shape {shape}")
        array: NDArray[Any] = np.ndarray(shape, dtype, self._data, self._at, None, order).copy("K")
        self._at = end
        if dtype.kind == "b" and (array.view(np.uint8) > 1).any():
            raise ValueError("expected bools that are 0 or 1")  # NumPy takes it for granted
        return array

    def require_end(self) -> None:
        """Raises `ValueError` if there are more bytes than arrays."""
        if self._at != len(self._data):
            raise ValueError(f"{len(self._data) - self._at} bytes are of no array")


def _decode(value: Any, arrays: _Arrays) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind == "#array":
        return arrays.take(content)
    if kind == "#scalar":
        return arrays.take(content)[()]
    if not isinstance(content, list):
        raise ValueError(f"expected a list in {kind!r}, got {content!r}")
    if kind == "#tuple":
        return tuple(_decode(item, arrays) for item in content)
    if kind == "#task":
        return plain_task.from_plain(_decode(content, arrays))
    if kind == "#dict":
        return dict_of([(_decode(key, arrays), _decode(item, arrays)) for key, item in content])
    raise ValueError(f"expected an array, a tuple, a task or a dict, got {kind!r}")
