"""Spaces of frames, and resizing of frames by area averaging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from mtwrappers.common.checks import positive


def is_frame_space(space: Space[Any]) -> bool:
    """Whether a space holds frames, ``(height, width, 3)`` uint8."""
    if not isinstance(space, Box) or space.dtype != np.uint8 or len(space.shape) != 3:
        return False
    return space.shape[2] == 3 and 0 not in space.shape


def frame_space(height: int, width: int) -> Box:
    """The space of frames of this size, in pixels."""
    return Box(0, 255, (height, width, 3), np.uint8)


def check_image_size(size: Any, name: str) -> tuple[int, int]:
    """Returns ``(height, width)`` of an integer or a pair, or raises `ValueError`."""
    pair = isinstance(size, Sequence) and not isinstance(size, str)
    if pair and len(size) != 2:
        raise ValueError(f"{name} must be a positive integer or (height, width), got {size!r}")
    height, width = size if pair else (size, size)
    return positive(height, name), positive(width, name)


def resized(frame: NDArray[np.uint8], height: int, width: int) -> NDArray[np.uint8]:
    """Resizes a frame: each new pixel is the mean of the area that it covers.

    It computes with integers and rounds halves up, so the result is the same on every machine.

    Args:
        frame: ``(h, w, 3)`` uint8.
        height: The new height in pixels, smaller or larger.
        width: The new width in pixels.

    Returns:
        A new array, ``(height, width, 3)`` uint8.
    """
    if frame.shape[:2] == (height, width):
        return frame.copy()
    area = frame.shape[0] * frame.shape[1]
    sums = _area_sums(_area_sums(frame, height).swapaxes(0, 1), width).swapaxes(0, 1)
    means: NDArray[np.uint8] = ((sums + area // 2) // area).astype(np.uint8, order="C")
    return means


def _area_sums(rows: NDArray[Any], n: int) -> NDArray[np.int64]:
    """Sums over ``n`` equal intervals of rows, each row weighted by the part that is covered.

    A row has the length ``n`` and an interval the length ``len(rows)``, so all ends are integers.
    """
    before = np.zeros((len(rows) + 1, *rows.shape[1:]), np.int64)  # the sum of the rows before each
    np.cumsum(rows, axis=0, out=before[1:])
    whole, rest = np.divmod(np.arange(n + 1) * len(rows), n)
    cut = rows[np.minimum(whole, len(rows) - 1)].astype(np.int64)
    sums: NDArray[np.int64] = np.diff(before[whole] * n + cut * rest[:, None, None], axis=0)
    return sums
