"""The arguments of an executor's methods, checked before anything happens."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_options,
)
from mtwrappers.vector.buffers import ARRAY_SPACES


def spread_seeds(seed: Any, n: int) -> list[int | None]:
    """Returns a seed for each of ``n`` environments: ``s + i`` for an integer ``s``."""
    if seed is None:
        return [None] * n
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != n:
            raise ValueError(f"expected {n} seeds, one per environment, got {len(seed)}")
        return [None if s is None else seeding.check_seed(s) for s in seed]
    first = seeding.check_seed(seed)
    return [first + i for i in range(n)]


def split_options(
    options: Any, n: int
) -> tuple[list[dict[str, Any] | None], NDArray[np.bool_] | None]:
    """Splits options into those of each of ``n`` environments, and a copy of the reset mask."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict or None, got {options!r}")
    known = ("reset_mask", "env_options")
    check_options(options, known, "a vector environment", passes_on=True)
    if options is None or not options.keys() & known:
        return [options] * n, None
    mask = _reset_mask(options["reset_mask"], n) if "reset_mask" in options else None
    shared = {key: value for key, value in options.items() if key not in known}
    given = options.get("env_options", [None] * n)
    if not isinstance(given, (list, tuple)) or len(given) != n:
        raise ValueError(f"env_options must be a list with {n} dicts or None, got {given!r}")
    for i, one in enumerate(given):
        if not isinstance(one, (dict, type(None))):
            raise TypeError(f"env_options of environment {i} must be a dict or None, got {one!r}")
    return [{**shared, **(one or {})} for one in given], mask


def _reset_mask(mask: Any, n: int) -> NDArray[np.bool_]:
    """A copy of a mask of the environments to reset."""
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"reset_mask must be a bool array, got {mask!r}")
    if mask.shape != (n,):
        raise ValueError(f"reset_mask must have shape ({n},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"reset_mask must be a bool array, got one of {mask.dtype}")
    if not mask.any():
        raise ValueError(f"reset_mask must name at least one environment, got {mask}")
    return mask.copy()


class ActionCheck:
    """Checks ``n`` actions in a space, whose batch is ``batch``, and copies them."""

    def __init__(self, space: Space[Any], batch: Space[Any], n: int) -> None:
        self._batch, self._n = batch, n
        self.is_array = isinstance(space, ARRAY_SPACES)
        self.row_shape: tuple[int, ...] = tuple(space.shape or ()) if self.is_array else ()
        self._shape = (n, *self.row_shape)
        self._may_be_nan = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)

    def __call__(self, actions: Any) -> Any:
        """Returns the actions as a new array, or as a list if their space has no arrays."""
        n = self._n
        if not self.is_array:
            try:
                rows = list(iterate(self._batch, actions))
            except Exception:  # anything that is not nested like the space
                raise ValueError(f"expected actions in {self._batch}, got {actions!r}") from None
            if len(rows) != n:
                raise ValueError(f"expected actions for environments 0 to {n - 1}, got {len(rows)}")
            return rows
        shape: Any
        try:
            array = np.array(actions)
            shape = array.shape
        except ValueError:  # rows of several lengths
            shape = [np.shape(action) for action in actions]
        if shape != self._shape:
            raise ValueError(
                f"expected actions of shape {self._shape}, a row for each of environments "
                f"0 to {n - 1}, got {type(actions).__name__} of shape {shape}"
            )
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise ValueError(f"actions must be numbers of at most 8 bytes, got {array.dtype}")
        if self._may_be_nan and np.count_nonzero(np.isnan(array)):
            bad = np.isnan(array).reshape(n, -1).any(axis=1)
            raise ValueError(
                f"actions of environments {np.flatnonzero(bad).tolist()} are NaN; nothing was "
                "stepped"
            )
        return array
