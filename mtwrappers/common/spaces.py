"""Pure helpers on spaces: append a one-hot, pad, unite, compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyArray, AnySpace

_MOST = 3  # differing bounds or parts that a message names
_LONG = 80  # characters of a space in a message
_FLATTEN = "gymnasium.wrappers.FlattenObservation makes one of any other"
# FlattenObservation would hide that some of the entries are the task.
_FLATTEN_TASKS = "FlattenMTEnv makes one of an MTEnv, with the one-hot of the current task"


def require_flat_box(space: AnySpace, name: str, hint: str | None = None) -> Box:
    """Returns a 1-D Box, or raises `TypeError`, with a hint at the end of the message."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        if hint is None:
            task = space.get("task_obs") if isinstance(space, Dict) else None
            # FlattenMTEnv takes no dicts, which the tasks of families are.
            hint = _FLATTEN_TASKS if isinstance(task, (Box, Discrete)) else _FLATTEN
        raise TypeError(f"{name} must be a 1-D Box, got {summary(space)}; {hint}")
    return space


def require_floating_box(space: AnySpace, verb: str) -> Box:
    """Returns a 1-D Box of floating-point numbers, or raises `TypeError`.

    ``verb`` is a participle for the message, such as "normalized".
    """
    box = require_flat_box(space, f"an observation space to be {verb}")
    if not np.issubdtype(box.dtype, np.floating):
        raise TypeError(
            f"observations of dtype {box.dtype} cannot be {verb} without loss; convert them with "
            "gymnasium.wrappers.DtypeObservation"
        )
    return box


def as_row(obs: Any, box: Box) -> AnyArray:
    """Returns an observation of ``box`` as an array, or raises `ValueError`.

    An array of another dtype is returned as it is, unless ``box`` has an integer dtype that cannot
    represent its values.
    """
    if isinstance(obs, np.ndarray) and obs.shape == box.shape and obs.dtype == box.dtype:
        return obs
    try:
        row = np.asarray(obs)
    except ValueError:  # a list of lists of several lengths
        row = np.empty(())
    integers = not np.issubdtype(box.dtype, np.floating)
    if (
        row.shape != box.shape
        or row.dtype.kind not in ("biu" if integers else "biuf")
        or (integers and (row.astype(box.dtype) != row).any())
    ):
        raise ValueError(
            f"expected an observation of shape {box.shape} and dtype {box.dtype}, got {obs!r}"
        )
    return row


def as_element(space: AnySpace, value: Any) -> Any:
    """Returns an element of ``space``, with an array for a list or number where it has arrays.

    Raises:
        ValueError: If it is not an element, and cannot be converted into one without other loss
            than the rounding of floating-point numbers.
    """
    element = value
    if isinstance(space, Dict) and isinstance(value, Mapping) and space.keys() == value.keys():
        element = {key: as_element(inner, value[key]) for key, inner in space.items()}
    elif isinstance(space, Tuple) and isinstance(value, (tuple, list)) and len(space) == len(value):
        element = tuple(map(as_element, space.spaces, value))
    elif isinstance(space, (Box, MultiBinary, MultiDiscrete)) and not isinstance(value, np.ndarray):
        array = np.asarray(value)
        integers = not np.issubdtype(space.dtype, np.floating)
        if array.dtype.kind not in ("biu" if integers else "biuf"):
            raise ValueError(f"expected numbers of dtype {space.dtype}, got {value!r}")
        element = array.astype(space.dtype)
        if integers and (element != array).any():
            raise ValueError(f"expected numbers of dtype {space.dtype}, got {value!r}")
    if not space.contains(element):
        raise ValueError(f"expected an element of {summary(space)}, got {value!r}")
    return element


def append_box(box: Box, low: AnyArray, high: AnyArray) -> Box:
    """A 1-D Box followed by entries in ``[low, high]``, in the dtype of ``box``."""
    dtype: Any = box.dtype
    return Box(
        np.concatenate([box.low, low.astype(dtype)]),
        np.concatenate([box.high, high.astype(dtype)]),
        dtype=dtype,
    )


def append_onehot(box: Box, n: int) -> Box:
    """A 1-D Box followed by a one-hot of ``n``."""
    return append_box(box, np.zeros(n), np.ones(n))


def pad_boxes(boxes: Sequence[Box], size: int | None = None) -> Box:
    """The 1-D Box that holds every member of 1-D Boxes, padded with zeros to ``size``.

    By default, ``size`` is the length of the longest. The dtype is the one that NumPy promotes
    theirs to. Entries that none of them has are bounded by zero and one, because other code may
    divide by the difference.
    """
    dtype: Any = np.result_type(*(box.dtype for box in boxes))
    longest = max(box.shape[0] for box in boxes)
    lows, highs = (
        [np.pad(bound.astype(dtype), (0, longest - len(bound))) for bound in bounds]
        for bounds in ([box.low for box in boxes], [box.high for box in boxes])
    )
    extra = np.zeros((longest if size is None else size) - longest)
    return append_box(
        Box(np.min(lows, axis=0), np.max(highs, axis=0), dtype=dtype), extra, extra + 1
    )


def summary(space: AnySpace) -> str:
    """A space for a message, without the bounds of a Box if these are many."""
    text = repr(space)
    if isinstance(space, Box) and len(text) > _LONG:
        return f"a Box of shape {space.shape} and dtype {space.dtype}"
    return short(space, _LONG)


def difference(space: AnySpace, expected: AnySpace, *, contained: bool = False) -> str:
    """How a space differs from another: ``"it is Discrete(3), expected Discrete(2)"``.

    Of two Boxes of one shape and dtype, only the bounds that differ are named, and of a Dict or
    Tuple only the parts. With ``contained``, only bounds that are beyond the expected ones are.
    """
    differences: list[str] = []
    if isinstance(space, Dict) and isinstance(expected, Dict):
        for key in {**space, **expected}:
            differences += _compare_inner(key, space.get(key), expected.get(key))
    elif isinstance(space, Tuple) and isinstance(expected, Tuple):
        for i, pair in enumerate(zip_longest(space.spaces, expected.spaces)):
            differences += _compare_inner(i, *pair)
    elif isinstance(space, Box) and isinstance(expected, Box) and _are_alike(space, expected):
        differences = _compare_bounds(space, expected, contained)
    if not differences:
        return f"it is {summary(space)}, expected {summary(expected)}"
    count = len(differences) - _MOST
    return "; ".join(differences[:_MOST]) + (f"; and {count} more" if count > 0 else "")


def _compare_inner(key: Any, inner: AnySpace | None, expected: AnySpace | None) -> Iterator[str]:
    """How a space inside a Dict or Tuple differs, if it does."""
    if expected is None:
        yield f"it has {key!r}, which is not expected"
    elif inner is None:
        yield f"it has no {key!r}"
    elif inner != expected:
        yield f"at {key!r}: {difference(inner, expected)}"


def _are_alike(box: Box, expected: Box) -> bool:
    return box.shape == expected.shape and box.dtype == expected.dtype


def _compare_bounds(space: Box, expected: Box, contained: bool) -> list[str]:
    """The bounds of two Boxes of one shape that differ, or of the first beyond the second's."""
    if contained:
        apart = (space.low < expected.low) | (space.high > expected.high)
    else:
        apart = (space.low != expected.low) | (space.high != expected.high)
    word = "expected within" if contained else "expected"
    differences = []
    for index in map(tuple, np.argwhere(apart).tolist()):
        place = index[0] if len(index) == 1 else index
        bounds = f"[{space.low[index]}, {space.high[index]}]"
        differences.append(
            f"its bounds at {place} are {bounds}, "
            f"{word} [{expected.low[index]}, {expected.high[index]}]"
        )
    return differences


def padded(inner: AnySpace, outer: AnySpace) -> AnySpace:
    """``inner`` padded with zeros to the length of ``outer``, in its dtype if that loses nothing.

    Spaces other than 1-D Boxes are returned as they are.
    """
    if not isinstance(inner, Box) or not isinstance(outer, Box):
        return inner
    if not len(inner.shape) == len(outer.shape) == 1 or inner.shape > outer.shape:
        return inner
    dtype: Any = outer.dtype if np.can_cast(inner.dtype, outer.dtype) else inner.dtype
    low, high = (
        np.pad(bound.astype(dtype), (0, outer.shape[0] - inner.shape[0]))
        for bound in (inner.low, inner.high)
    )
    return Box(low, high, dtype=dtype)


def fits(inner: AnySpace, outer: AnySpace) -> bool:
    """Whether every element of ``inner`` is an element of ``outer``, dtype included."""
    if not isinstance(inner, Box) or not isinstance(outer, Box):
        return bool(inner == outer)
    alike = _are_alike(inner, outer)
    return alike and bool((outer.low <= inner.low).all() and (inner.high <= outer.high).all())
