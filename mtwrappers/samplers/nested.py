"""Functions on nested dicts and tuples of arrays; texts are arrays of strings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def map_arrays(function: Callable[[Any], Any], batch: Any) -> Any:
    """Applies ``function`` to each array of a nested batch.

    A tuple of strings, in which vector environments return the elements of a Text space, is an
    array ``(N,)`` of strings, dtype object.

    Args:
        function: Takes an array.
        batch: An array of ``N`` rows, or a dict or tuple of such arrays, nested or not.

    >>> import numpy as np
    >>> from mtwrappers.samplers.nested import map_arrays
    >>> map_arrays(np.copy, {"words": ("reach", "push"), "pair": (np.zeros(2), np.ones(2))})
    {'words': array(['reach', 'push'], dtype=object), 'pair': (array([0., 0.]), array([1., 1.]))}
    """
    if isinstance(batch, dict):
        return {key: map_arrays(function, values) for key, values in batch.items()}
    if isinstance(batch, tuple):
        if batch and isinstance(batch[0], str):
            return function(np.array(batch, dtype=object))
        return tuple(map_arrays(function, values) for values in batch)
    return function(batch)


def join(
    trees: Sequence[Any],
    name: str,
    owner: Callable[[int], str],
    lengths: Sequence[int] | None = None,
    axis: int = 0,
) -> Any:
    """Stacks arrays, or dicts or tuples of arrays; with ``lengths``, concatenates them.

    ``lengths`` are the numbers of rows. A `ValueError` names the first array that does not match
    the others: ``name`` is the word for the arrays, ``owner(i)`` names the owner of array ``i``.

    >>> from mtwrappers.samplers.nested import join
    >>> join([{"a": 1}, {"a": 2}], "infos", "step {}".format)
    {'a': array([1, 2])}
    """
    first = trees[0]
    if isinstance(first, dict):
        for i, tree in enumerate(trees):
            if not isinstance(tree, dict) or tree.keys() != first.keys():
                got = sorted(tree) if isinstance(tree, dict) else repr(tree)
                raise ValueError(
                    f"{name} of {owner(i)} must be a dict with the keys {sorted(first)} as in "
                    f"{owner(0)}, got {got}"
                )
        return {
            key: join([tree[key] for tree in trees], f"{name}[{key!r}]", owner, lengths, axis)
            for key in first
        }
    if isinstance(first, tuple):
        for i, tree in enumerate(trees):
            if not isinstance(tree, tuple) or len(tree) != len(first):
                actual = f"{len(tree)}" if isinstance(tree, tuple) else repr(tree)
                raise ValueError(
                    f"{name} of {owner(i)} must be a tuple of {len(first)} as in {owner(0)}, got "
                    f"{actual}"
                )
        columns = enumerate(zip(*trees, strict=True))
        return tuple(join(column, f"{name}[{i}]", owner, lengths, axis) for i, column in columns)
    merge = functools.partial(np.stack, axis=axis) if lengths is None else np.concatenate
    with contextlib.suppress(TypeError, ValueError):  # faster than checking each shape
        if lengths is None or list(map(len, trees)) == lengths:
            return merge(trees)
    for i, tree in enumerate(trees):
        shape = np.shape(first)
        expected = shape if lengths is None else (lengths[i], *shape[1:])
        if np.shape(tree) != expected:
            raise ValueError(
                f"{name} of {owner(i)} must have shape {expected}, got {np.shape(tree)}"
            )
    return merge(trees)  # raises NumPy's error for other faults
