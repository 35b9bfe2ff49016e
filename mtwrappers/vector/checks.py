"""What a vector environment checks of its callers' arguments before anything happens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers.seeding import check_seed

ARRAY_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary)


def check_autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """The `AutoresetMode` of this name or value.

    Raises:
        ValueError: If there is none; the message names the modes.
    """
    if isinstance(mode, AutoresetMode):
        return mode
    for known in AutoresetMode:
        if mode in (known.value, known.name):
            return known
    raise ValueError(
        f"autoreset_mode must be one of {[known.value for known in AutoresetMode]}, got {mode!r}"
    )


def spread_seeds(seed: Any, n: int) -> list[int | None]:
    """A seed for each of ``n`` environments: ``s + i`` for an integer ``s``.

    Raises:
        ValueError: If a list has another length, or a seed is negative.
        TypeError: If a seed is no integer.
    """
    if seed is None:
        return [None] * n
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != n:
            raise ValueError(f"expected {n} seeds, one an environment, got {len(seed)}")
        return [None if s is None else check_seed(s) for s in seed]
    first = check_seed(seed)
    return [first + i for i in range(n)]


def check_mask(mask: Any, n: int) -> NDArray[np.bool_]:
    """A copy of a reset mask.

    Raises:
        ValueError: If it has another shape than ``(n,)``, or names no environment.
        TypeError: If it is no bool array.
    """
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        got = f"{mask.dtype} array" if isinstance(mask, np.ndarray) else type(mask).__name__
        raise TypeError(f"reset_mask must be a bool array, got {got}")
    if mask.shape != (n,):
        raise ValueError(f"reset_mask must have shape ({n},), got {mask.shape}")
    if not mask.any():
        raise ValueError("reset_mask must name at least one environment to reset")
    return mask.copy()


def check_same_spaces(spaces: Sequence[tuple[Space[Any], Space[Any]]]) -> None:
    """Checks the spaces (observation, action) that each environment has.

    Raises:
        ValueError: If they differ; the message names the first environment of which they do.
    """
    for i, pair in enumerate(spaces):
        for what, space, expected in zip(("observation", "action"), pair, spaces[0], strict=True):
            if space != expected:
                raise ValueError(
                    f"environment {i} has {what} space {space}, expected {expected} as in "
                    "environment 0"
                )


class ActionCheck:
    """Checks a batch of actions and gives it a form of its own.

    Args:
        space: The space of one action.
        batch: The space of ``n`` actions.
        n: How many environments.
    """

    def __init__(self, space: Space[Any], batch: Space[Any], n: int) -> None:
        self._batch, self._n = batch, n
        self.is_array = isinstance(space, ARRAY_SPACES)
        self.row_shape: tuple[int, ...] = tuple(space.shape or ())
        self._may_be_nan = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)

    def __call__(self, actions: Any) -> Any:
        """The actions as a new array, or as a list where the space has no array.

        Raises:
            ValueError: If they have another shape or are NaN; the message names environments.
        """
        n = self._n
        if not self.is_array:
            rows = list(iterate(self._batch, actions))
            if len(rows) != n:
                raise ValueError(f"expected actions for environments 0 to {n - 1}, got {len(rows)}")
            return rows
        try:
            array = np.array(actions)
        except ValueError:
            array = np.array(None)
        if array.shape != (n, *self.row_shape):
            raise ValueError(self._shape_message(actions, array))
        if self._may_be_nan and np.isnan(array).any():
            bad = np.isnan(array).reshape(n, -1).any(axis=1)
            raise ValueError(
                f"actions of environments {np.flatnonzero(bad).tolist()} are NaN; nothing was "
                "stepped"
            )
        return array

    def _shape_message(self, actions: Any, array: NDArray[Any]) -> str:
        n, row = self._n, self.row_shape
        expected = f"expected actions of shape {(n, *row)}, a row of {row} for each of "
        expected += f"environments 0 to {n - 1}"
        if hasattr(actions, "__len__") and len(actions) == n:
            bad = [i for i, action in enumerate(actions) if np.shape(action) != row]
            shapes = sorted({str(np.shape(actions[i])) for i in bad})
            return f"{expected}; environments {bad} got {', '.join(shapes)}"
        got = array.shape if array.dtype != object else type(actions).__name__
        missing = ""
        if hasattr(actions, "__len__") and len(actions) < n:
            missing = f", none for environments {list(range(len(actions), n))}"
        return f"{expected}; got {got}{missing}"
