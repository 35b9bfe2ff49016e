"""Finds and describes the first difference between two values, bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

Path: TypeAlias = tuple[Any, ...]
# Where two values differ, what was expected there and what came.
Found: TypeAlias = tuple[Path, str, str]
# A pair of values and where they are.
Pair: TypeAlias = tuple[Any, Any, Path]

_ARRAYS = (np.ndarray, np.generic)


@dataclass(frozen=True)
class Difference:
    """The first place at which a value is not as expected.

    Attributes:
        env: Which sub-environment, or None if there is only one.
        call: The call that returned it, such as ``"step 4"``; steps count from 0.
        key: Which value, such as ``"observation[2]"`` or ``"info['goal'][0]"``.
        expected: What was expected there.
        actual: What came.

    >>> from mtwrappers.testing.difference import Difference
    >>> print(Difference(1, "step 4", "observation[2]", "0.5", "0.25"))
    environment 1, step 4, observation[2]: expected 0.5, got 0.25
    """

    env: int | None
    call: str
    key: str
    expected: str
    actual: str

    def __str__(self) -> str:
        env = "" if self.env is None else f"environment {self.env}, "
        return f"{env}{self.call}, {self.key}: expected {self.expected}, got {self.actual}"


def difference(found: Found, call: str, vector: bool) -> Difference:
    """Describes the result of `find` in the values of a call.

    Args:
        found: The result of `find`.
        call: The call.
        vector: Whether the first index is the number of a sub-environment.
    """
    path, expected, actual = found
    indices = [part for part in path if isinstance(part, (int, tuple)) and part != ()]
    first = indices[0] if indices and vector else None
    env = first[0] if isinstance(first, tuple) else first
    place = "".join(
        f"[{', '.join(map(str, part))}]" if isinstance(part, tuple) else f"[{part!r}]"
        for part in path[1:]
        if part != ()
    )
    return Difference(env, call, f"{path[0]}{place}", expected, actual)


def find(expected: Any, actual: Any, path: Path = (), *, loose: bool = False) -> Found | None:
    """Returns where two values first differ, or None if their types and bits are equal.

    Args:
        expected: A value.
        actual: Another one.
        path: Where in a larger value they are.
        loose: Whether numbers may have other types, and arrays another dtype, as in a batch.
    """

    def both(kinds: Any) -> bool:
        return isinstance(expected, kinds) and isinstance(actual, kinds)

    if both(dict):
        return _first(_in_dicts(expected, actual, path), loose)
    alike = type(expected) is type(actual)
    if both((list, tuple)) and (alike or loose):
        if len(expected) != len(actual):
            return path, f"{len(expected)} items", f"{len(actual)} items"
        pairs = enumerate(zip(expected, actual, strict=True))
        return _first(((e, a, (*path, i)) for i, (e, a) in pairs), loose)
    if not (alike or (loose and both((*_ARRAYS, int, float)))):
        return path, _typed(expected), _typed(actual)
    if isinstance(expected, _ARRAYS) or isinstance(actual, _ARRAYS):
        return _find_in_arrays(np.asarray(expected), np.asarray(actual), path, loose)
    return None if _equal(expected, actual) else (path, text_of(expected), text_of(actual))


class _Missing:
    """Stands for the value of a key that a dict lacks."""

    def __repr__(self) -> str:
        return "no such key"


_MISSING = _Missing()


def _in_dicts(expected: dict[Any, Any], actual: dict[Any, Any], path: Path) -> Iterator[Pair]:
    for key in [*expected, *(key for key in actual if key not in expected)]:
        yield expected.get(key, _MISSING), actual.get(key, _MISSING), (*path, key)


def _first(pairs: Iterator[Pair], loose: bool) -> Found | None:
    for expected, actual, path in pairs:
        if expected is _MISSING or actual is _MISSING:
            return path, text_of(expected), text_of(actual)
        if found := find(expected, actual, path, loose=loose):
            return found
    return None


def _find_in_arrays(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], path: Path, loose: bool
) -> Found | None:
    if expected.shape != actual.shape:
        return path, f"shape {expected.shape}", f"shape {actual.shape}"
    if loose and not expected.dtype.hasobject:
        expected = expected.astype(actual.dtype, casting="unsafe")
    if expected.dtype != actual.dtype:
        return path, f"dtype {expected.dtype}", f"dtype {actual.dtype}"
    if expected.dtype.hasobject:
        places = np.ndindex(actual.shape)
        return _first(((expected[i], actual[i], (*path, i)) for i in places), loose)
    # NaN equals NaN here.
    differ = (expected != actual) & ((expected == expected) | (actual == actual))
    if not differ.any():
        return None
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differ)))[: differ.ndim]
    return (*path, index), text_of(expected[index]), text_of(actual[index])


def _equal(a: Any, b: Any) -> bool:
    # Objects without a notion of equality cannot be compared.
    if getattr(type(a), "__eq__", None) is object.__eq__:
        return True
    try:
        return bool(a == b) or bool(a != a and b != b)
    except Exception:  # any class may compare in any way
        return False


def same(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, including types and bits."""
    return find(expected, actual) is None


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {text_of(value)}"


def text_of(value: Any) -> str:
    """Formats a value as one short line."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
