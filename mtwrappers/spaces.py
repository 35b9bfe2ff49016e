"""Pure helpers on spaces: append a one-hot, pad, unite, compare."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray


def require_flat_box(space: Space[Any], what: str) -> Box:
    """Returns a 1-D Box, or raises `TypeError`."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        raise TypeError(f"{what} must be a 1-D Box, got {space}")
    return space


def require_floating_box(space: Space[Any], verb: str) -> Box:
    """Returns a 1-D Box of floating-point numbers, or raises `TypeError`.

    ``verb`` says what is to be done with its observations: "normalized".
    """
    box = require_flat_box(space, f"an observation space to be {verb}")
    if not np.issubdtype(box.dtype, np.floating):
        raise TypeError(
            f"observations of dtype {box.dtype} cannot be {verb} without loss; convert them with "
            "gymnasium.wrappers.DtypeObservation"
        )
    return box


def append_box(box: Box, low: NDArray[Any], high: NDArray[Any]) -> Box:
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


def pad_boxes(boxes: Sequence[Space[Any]]) -> Box:
    """The 1-D Box that holds every member of ``boxes`` padded with zeros to the longest."""
    flat = [require_flat_box(box, f"observation space of task {i}") for i, box in enumerate(boxes)]
    dtypes = {str(box.dtype) for box in flat}
    if len(dtypes) > 1:
        raise ValueError(f"padding needs one dtype, the observation spaces have {sorted(dtypes)}")
    dtype: Any = flat[0].dtype
    size = max(box.shape[0] for box in flat)
    lows = [np.pad(box.low, (0, size - box.shape[0])) for box in flat]
    highs = [np.pad(box.high, (0, size - box.shape[0])) for box in flat]
    return Box(np.min(lows, axis=0), np.max(highs, axis=0), dtype=dtype)


def fits(inner: Space[Any], outer: Space[Any], *, pad: bool = False) -> bool:
    """Whether every member of ``inner`` (padded with zeros) is one of ``outer``, dtype included."""
    if not isinstance(inner, Box) or not isinstance(outer, Box):
        return not pad and bool(inner == outer)
    if pad and len(inner.shape) == len(outer.shape) == 1 and inner.shape < outer.shape:
        zeros = np.zeros(outer.shape[0] - inner.shape[0])
        inner = append_box(inner, zeros, zeros)
    alike = inner.shape == outer.shape and inner.dtype == outer.dtype
    return alike and bool((outer.low <= inner.low).all() and (inner.high <= outer.high).all())
