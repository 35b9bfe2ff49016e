"""How a batch of observations lies in memory.

Box, Discrete, MultiDiscrete and MultiBinary spaces, and Dict and Tuple spaces of them, are
*fixed*: a batch is arrays of known shape, which can be written row by row, here or in shared
memory. Other spaces (Text, Graph, Sequence) are batched by Gymnasium as Python objects.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

Leaf = tuple[tuple[Any, ...], tuple[int, ...], np.dtype[Any]]
_ALIGN = 64


class BatchLayout:
    """The arrays that hold ``n`` observations of a space.

    Args:
        space: The space of one observation.
        n: How many there are.
    """

    def __init__(self, space: Space[Any], n: int) -> None:
        self.space = space
        self.n = n
        leaves = _leaves(space, ())
        self.fixed = leaves is not None
        self._leaves: list[Leaf] = leaves or []
        # One array and no nesting is by far the most common, and the fastest to write.
        self.flat = self.fixed and len(self._leaves) == 1 and self._leaves[0][0] == ()

    @property
    def nbytes(self) -> int:
        """The bytes that `views` needs."""
        return sum(_rounded(self.n * _size(leaf)) for leaf in self._leaves)

    def empty(self) -> list[NDArray[Any]]:
        """Fresh arrays, one a leaf, of shape ``(n, ...)``."""
        return [np.empty((self.n, *shape), dtype) for _, shape, dtype in self._leaves]

    def views(self, buffer: memoryview) -> list[NDArray[Any]]:
        """The same arrays in ``buffer``."""
        arrays, offset = [], 0
        for leaf in self._leaves:
            _, shape, dtype = leaf
            array = np.frombuffer(buffer, dtype, self.n * int(np.prod(shape)), offset)
            arrays.append(array.reshape(self.n, *shape))
            offset += _rounded(self.n * _size(leaf))
        return arrays

    def write(self, arrays: Sequence[NDArray[Any]], start: int, rows: Sequence[Any]) -> None:
        """Writes observations into the rows from ``start`` on."""
        if self.flat:
            array = arrays[0]
            for i, row in enumerate(rows, start):
                array[i] = row
            return
        for array, (path, _, _) in zip(arrays, self._leaves, strict=True):
            for i, row in enumerate(rows, start):
                for key in path:
                    row = row[key]
                array[i] = row

    def batch(self, arrays: Sequence[NDArray[Any]]) -> Any:
        """The arrays in the structure of the space: what a vector environment returns."""
        return arrays[0] if self.flat else _nest(self.space, iter(arrays).__next__)

    def stack(self, rows: Sequence[Any]) -> Any:
        """Observations of a space that is not fixed, as Gymnasium batches them."""
        out: Any = create_empty_array(self.space, self.n)
        # Gymnasium's batch holds the environments' own objects.
        return copy.deepcopy(concatenate(self.space, rows, out))


def _leaves(space: Space[Any], path: tuple[Any, ...]) -> list[Leaf] | None:
    if isinstance(space, (Box, Discrete, MultiDiscrete, MultiBinary)):
        shape = space.shape
        return [(path, tuple(shape or ()), np.dtype(space.dtype))]
    if isinstance(space, (Dict, Tuple)):
        items = space.items() if isinstance(space, Dict) else enumerate(space.spaces)
        found: list[Leaf] = []
        for key, sub in items:
            below = _leaves(sub, (*path, key))
            if below is None:
                return None
            found += below
        return found or None
    return None


def _nest(space: Space[Any], take: Callable[[], Any]) -> Any:
    if isinstance(space, Dict):
        return {key: _nest(sub, take) for key, sub in space.items()}
    if isinstance(space, Tuple):
        return tuple(_nest(sub, take) for sub in space.spaces)
    return take()


def _size(leaf: Leaf) -> int:
    return int(np.prod(leaf[1])) * leaf[2].itemsize


def _rounded(nbytes: int) -> int:
    return -(-nbytes // _ALIGN) * _ALIGN
