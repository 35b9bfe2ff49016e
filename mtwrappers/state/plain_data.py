"""Plain data: JSON values, tuples, deques, arrays, and Meta-World tasks.

States consist of it. Its one encoding, for files, is JSON that refers to arrays by number.
"""

from __future__ import annotations

import copy
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyArray
from mtwrappers.state import packages
from mtwrappers.state.arrays import from_npy, is_plain

T = TypeVar("T")

_SCALARS = {type(None), bool, int, float, str, np.float64, np.float32, np.int64, np.bool_}
# Dicts, and subclasses that are encoded as dicts.
PLAIN_DICTS: set[type] = {dict}
# The bit generators whose state is plain data.
BIT_GENERATORS: dict[str, Any] = {
    cls.__name__: cls
    for cls in (
        *(np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937),
        *(np.random.Philox, np.random.SFC64),
    )
}


def encode(value: Any, where: str, arrays: list[AnyArray]) -> Any:
    """Turns plain data into JSON values, and adds its arrays to a list.

    Raises:
        TypeError: For other data; the message begins with the place ``where`` it is.
    """
    if value is None or type(value) in (bool, int, float, str):
        return value
    if is_plain(value):
        arrays.append(np.asarray(value))
        return {"#scalar" if isinstance(value, np.generic) else "#array": len(arrays) - 1}
    if type(value) in (list, tuple, deque):
        items = [encode(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]
        if type(value) is list:
            return items
        return {"#tuple": items} if type(value) is tuple else {"#deque": [items, value.maxlen]}
    if isinstance(value, dict):
        items = [
            [encode(key, where, arrays), encode(item, f"{where}[{key!r}]", arrays)]
            for key, item in value.items()
        ]
        return {"#dict": items}
    if (package := packages.find_owner(value)) is not None:
        return {f"#{package}": encode(packages.load_module(package).to_plain(value), where, arrays)}
    kind = type(value).__name__ + (f" of {value.dtype}" if hasattr(value, "dtype") else "")
    raise TypeError(
        "a checkpoint holds JSON values, plain arrays and tasks of "
        f"{', '.join(packages.MODULES)}; {where} is {short(value)} ({kind}){hint_at_arrays(value)}"
    )


def hint_at_arrays(value: Any) -> str:
    """The end of a message: how a tensor or a network is saved as arrays, else ``""``."""
    if hasattr(value, "state_dict"):
        return "; pass a dict with the tensors of its state_dict() as arrays, tensor.numpy()"
    return "; pass it as an array, tensor.numpy()" if hasattr(value, "numpy") else ""


def decode(value: Any, members: dict[str, bytes]) -> Any:
    """Reverses `encode`, and takes the arrays, ``.npy`` files by name, out of ``members``."""
    if isinstance(value, list):
        return [decode(item, members) for item in value]
    if not isinstance(value, dict):
        return value
    [(kind, content)] = value.items()
    if kind in ("#array", "#scalar"):
        if type(content) is not int or (name := array_name(content)) not in members:
            raise ValueError(f"expected the number of an array that is used once, got {content!r}")
        # The order in memory stays, too: sums depend on it in their last bits.
        array = from_npy(name, members.pop(name)).copy("K")
        return array if kind == "#array" else array[()]
    if not isinstance(content, list):
        raise ValueError(f"expected a list in {kind!r}, got {content!r}")
    if kind == "#tuple":
        return tuple(decode(item, members) for item in content)
    if kind == "#deque":
        items, maxlen = content
        return deque(decode(items, members), maxlen)
    if kind == "#dict":
        return _build_dict([(decode(key, members), decode(item, members)) for key, item in content])
    if kind[1:] in packages.MODULES:
        return packages.load_module(kind[1:]).from_plain(decode(content, members))
    raise ValueError(f"expected an array, a tuple, a task or a dict, got {kind!r}")


def array_name(number: int) -> str:
    """The name of an array in a file."""
    return f"{number}.npy"


def _build_dict(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
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
    generator.bit_generator.state = state


def make_generator(state: Any, name: str) -> np.random.Generator:
    """Makes a generator on PCG64 with the state of another.

    Args:
        state: The state, which may come from an untrusted file.
        name: The name of the generator in messages.

    Raises:
        ValueError: If it is not the state of a generator on PCG64.
    """
    generator = np.random.Generator(np.random.PCG64(0))
    try:
        set_generator(generator, state)
    except (KeyError, OverflowError, TypeError, ValueError) as exc:
        raise ValueError(f"{name} must have the state of a generator: {exc!r}") from exc
    return generator


def copied(value: Any, copy_other: Callable[[Any], Any] | None = None) -> Any:
    """A value with copies of its containers and arrays, however deep.

    Args:
        value: Anything.
        copy_other: Copies all other objects in it; by default, only named tuples are copied.
    """
    kind: Any = type(value)
    if kind in _SCALARS:
        return value
    if kind in PLAIN_DICTS:
        return {key: copied(item, copy_other) for key, item in value.items()}
    if kind in (list, tuple):
        return kind(copied(item, copy_other) for item in value)
    if kind is deque:
        return deque((copied(item, copy_other) for item in value), value.maxlen)
    if isinstance(value, dict) and copy_other is None:  # a subclass, such as an OrderedDict
        clone = copy.copy(value)
        for key, item in value.items():
            clone[key] = copied(item)
        return clone
    if isinstance(value, np.ndarray):
        if value.dtype != object or not value.ndim:
            return value.copy("K")
        array = np.empty_like(value)
        for i in np.ndindex(value.shape):
            array[i] = copied(value[i], copy_other)
        return array
    if copy_other is not None:
        return copy_other(value)
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        items = [copied(item) for item in value]
        changed = any(a is not b for a, b in zip(items, value, strict=True))
        return kind._make(items) if changed else value
    return value


def copied_if_possible(value: T) -> T:
    """A deep copy, or the value itself if it cannot be copied, for `copied`."""
    try:
        return copy.deepcopy(value)
    except Exception:  # any class may refuse to be copied in any way
        return value
