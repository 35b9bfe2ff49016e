"""Arrays in dicts and tuples, nested or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def map_arrays(function: Callable[..., Any], tree: Any, *path: Any) -> Any:
    """The same structure, with ``function(array, *path)`` for each array.

    Args:
        function: Called with the array and the keys and indices that lead to it.
        tree: An array, or a dict or tuple of trees.
        *path: Put before the keys that lead to each array.

    >>> map_arrays(lambda array, *path: (array, path), {"a": 1, "b": (2, 3)}, "top")
    {'a': (1, ('top', 'a')), 'b': ((2, ('top', 'b', 0)), (3, ('top', 'b', 1)))}
    """
    if isinstance(tree, dict):
        return {key: map_arrays(function, value, *path, key) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_arrays(function, value, *path, i) for i, value in enumerate(tree))
    return function(tree, *path)
