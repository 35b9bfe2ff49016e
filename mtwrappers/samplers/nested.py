"""Arrays in dicts and tuples, nested or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def map_arrays(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same structure, with ``function(array)`` for each array.

    >>> map_arrays(abs, {"a": -1, "b": (-2, 3)})
    {'a': 1, 'b': (2, 3)}
    """
    if isinstance(tree, dict):
        return {key: map_arrays(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_arrays(function, value) for value in tree)
    return function(tree)


def leaves(tree: Any) -> list[Any]:
    """The arrays, one after another.

    >>> leaves({"a": -1, "b": (-2, 3)})
    [-1, -2, 3]
    """
    if not isinstance(tree, (dict, tuple)):
        return [tree]
    below = tree.values() if isinstance(tree, dict) else tree
    return [leaf for own in below for leaf in leaves(own)]


def stack(trees: Sequence[Any], name: str, each: str, axis: int = 0) -> Any:
    """Several arrays, or dicts of them, of the same form as one, stacked along ``axis``.

    ``name`` is what messages call them, ``each`` what one belongs to, such as ``"step"``. A
    `ValueError` names the first of another form.

    >>> stack([{"a": 1}, {"a": 2}], "infos", "step")
    {'a': array([1, 2])}
    """
    first = trees[0]
    if not isinstance(first, dict):
        expected: Any = np.shape(first)
        for i, tree in enumerate(trees):
            if np.shape(tree) != expected:
                raise ValueError(
                    f"{name} of {each} {i} must have shape {expected} as of {each} 0, got "
                    f"{np.shape(tree)}"
                )
        if not axis:
            return np.stack(trees)
        # What `np.stack` does, faster for many.
        dtype = np.result_type(*{tree.dtype for tree in trees})
        joined = np.empty((*expected[:axis], len(trees), *expected[axis:]), dtype)
        rows = np.moveaxis(joined, axis, 0)
        for i, tree in enumerate(trees):
            rows[i] = tree
        return joined
    for i, tree in enumerate(trees):
        if not isinstance(tree, dict) or tree.keys() != first.keys():
            got = sorted(tree) if isinstance(tree, dict) else repr(tree)
            raise ValueError(
                f"{name} of {each} {i} must have the keys {sorted(first)} as of {each} 0, got {got}"
            )
    return {
        key: stack([tree[key] for tree in trees], f"{name}[{key!r}]", each, axis) for key in first
    }
