"""Functions on nested dicts and tuples of arrays; texts are arrays of strings."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Dict, Text, Tuple

from mtwrappers.common.types import AnyArray, AnySpace


def map_arrays(function: Callable[[Any], Any], tree: Any) -> Any:
    """Applies ``function`` to each array of a nested structure.

    >>> from mtwrappers.samplers.nested import map_arrays
    >>> map_arrays(abs, {"a": -1, "b": (-2, 3)})
    {'a': 1, 'b': (2, 3)}
    """
    if isinstance(tree, dict):
        return {key: map_arrays(function, value) for key, value in tree.items()}
    if isinstance(tree, tuple):
        return tuple(map_arrays(function, value) for value in tree)
    return function(tree)


def with_text_arrays(space: AnySpace, batch: Any) -> Any:
    """Converts texts in a batch of observations to arrays ``(N,)`` of strings, dtype object.

    Vector environments batch the strings of a Text space as a tuple.

    Args:
        space: The space of one observation.
        batch: ``N`` observations from a vector environment, or from this function.

    >>> from gymnasium.spaces import Text
    >>> from mtwrappers.samplers.nested import with_text_arrays
    >>> with_text_arrays(Text(9), ("reach", "push"))
    array(['reach', 'push'], dtype=object)
    """
    if isinstance(space, Text):
        texts: AnyArray = np.empty(len(batch), dtype=object)
        texts[:] = batch
        return texts
    if isinstance(space, Dict):
        return {key: with_text_arrays(subspace, batch[key]) for key, subspace in space.items()}
    if isinstance(space, Tuple):
        return tuple(map(with_text_arrays, space.spaces, batch))
    return batch


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
