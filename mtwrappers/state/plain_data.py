"""Plain data as a state: JSON values, tuples, arrays, and objects of `packages`."""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from gymnasium.wrappers.utils import RunningMeanStd

from mtwrappers.state import packages

T = TypeVar("T")

_SCALARS = {type(None), bool, int, float, str, np.float64, np.float32, np.int64, np.bool_}
# Dicts, and subclasses that are packed as dicts.
PLAIN_DICTS: set[type] = {dict}
_MOMENTS = ("mean", "var", "count")
_CONTAINERS: dict[Any, Callable[..., Any]] = {"list": list, "tuple": tuple, "deque": deque}
_BIT_GENERATORS = {
    each.__name__: each
    for each in (
        *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937),
        *(np.random.Philox, np.random.SFC64),
    )
}


def pack(value: Any) -> Any:
    """Packs plain data: every container becomes a list that begins with its type.

    For other data, the message of the `TypeError` is the offending value.
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if isinstance(value, (np.ndarray, np.generic)) and not value.dtype.hasobject:
        return value.copy()
    if kind in (list, tuple, deque):
        scalars = _SCALARS.issuperset(map(type, value))
        items = list(value) if scalars else [pack(item) for item in value]
        return [kind.__name__, items, value.maxlen] if kind is deque else [kind.__name__, items]
    if kind in PLAIN_DICTS:
        return ["dict", [[pack(key), pack(item)] for key, item in value.items()]]
    if kind is RunningMeanStd:
        return ["RunningMeanStd", *(pack(getattr(value, name)) for name in _MOMENTS)]
    if kind is np.random.Generator and type(value.bit_generator).__name__ in _BIT_GENERATORS:
        return ["Generator", copied(value.bit_generator.state, copy.deepcopy)]
    if packages.is_plain(value):
        return value
    raise TypeError(f"{kind.__name__} {value!r}")


def unpack(packed: Any, present: Any = None) -> Any:
    """Unpacks the result of `pack`.

    If ``present`` is a generator or statistics of the same type, it is updated in place, because
    other objects may share it.
    """
    if not isinstance(packed, list):
        return packed.copy() if isinstance(packed, np.ndarray) else packed
    kind, *parts = packed
    if kind == "Generator":
        name = parts[0]["bit_generator"]
        if type(getattr(present, "bit_generator", None)).__name__ != name:
            present = np.random.Generator(_BIT_GENERATORS[name]())
        set_generator(present, parts[0])
        return present
    if kind == "RunningMeanStd":
        moments = [unpack(part) for part in parts]
        if type(present) is not RunningMeanStd:
            present = RunningMeanStd(shape=np.shape(moments[0]))  # type: ignore[no-untyped-call]
        if {np.shape(each) for each in moments[:2]} != {np.shape(present.mean)}:
            raise ValueError(
                f"expected statistics of shape {np.shape(present.mean)}, got {np.shape(moments[0])}"
            )
        for name, moment in zip(_MOMENTS, moments, strict=True):
            setattr(present, name, moment)
        return present
    if kind == "dict":
        return dict_of([(unpack(key), unpack(item)) for key, item in parts[0]])
    return _CONTAINERS[kind]([unpack(item) for item in parts[0]], *parts[1:])


def dict_of(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Builds a dict of untrusted pairs; raises `ValueError` if too many hashes collide."""
    hashes = Counter(hash(key) for key, _ in pairs)
    if max(hashes.values(), default=0) > 100:
        raise ValueError("expected the keys of a dict to have different hashes")
    return dict(pairs)


def set_generator(generator: np.random.Generator, state: Any) -> None:
    """Gives a generator the state of another generator of the same type.

    Raises:
        TypeError, ValueError: If ``state`` is not a state of this type of generator.
    """
    check_generator(state)
    generator.bit_generator.state = state


def check_generator(state: Any) -> None:
    """Raises an error if a generator's state contains an index out of range."""
    if not isinstance(state, dict):
        raise TypeError(f"expected the state of a generator, got {state!r}")
    # NumPy does not check these indices into its arrays.
    inner = state.get("state")
    places = {
        "pos": (inner.get("pos", 0) if isinstance(inner, dict) else 0, 624),
        "buffer_pos": (state.get("buffer_pos", 0), 4),
    }
    for name, (place, end) in places.items():
        if type(place) is not int or not 0 <= place <= end:
            raise ValueError(f"expected {name} of a generator in [0, {end}], got {place!r}")


def copied(value: Any, other: Callable[[Any], Any] | None = None) -> Any:
    """A value with copies of its containers and arrays, however deep.

    Args:
        value: Anything.
        other: Copies all other objects in it; by default, they are not copied.
    """
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if kind in PLAIN_DICTS:
        return {key: copied(item, other) for key, item in value.items()}
    if kind in (list, tuple):
        return kind(copied(item, other) for item in value)
    if isinstance(value, np.ndarray):
        if value.dtype != object or not value.ndim:
            return value.copy("K")
        array = np.empty_like(value)
        for i in np.ndindex(value.shape):
            array[i] = copied(value[i], other)
        return array
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        items = [copied(item, other) for item in value]
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return kind._make(items) if changed else value
    return value if other is None else other(value)


def copied_if_possible(value: T) -> T:
    """A deep copy, or the value itself if it cannot be copied, for `copied`."""
    try:
        return copy.deepcopy(value)
    except Exception:  # any class may refuse to be copied in any way
        return value
