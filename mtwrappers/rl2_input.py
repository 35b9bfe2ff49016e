"""What RL^2 appends to an observation: the last action, reward and end of an episode."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete, Space
from gymnasium.utils.env_checker import data_equivalence
from numpy.typing import NDArray

from mtwrappers.spaces import append_box, require_flat_box
from mtwrappers.wrappers.normalize_observation import require_floating

# Where a task can be read, in the order of preference; ``info["task_id"]`` otherwise.
TASK_READERS = ("get_task_state", "get_task")


class ActionCode:
    """Actions as numbers: a Box as it is, clipped to its bounds; anything discrete as one-hots.

    Attributes:
        low: The least that can be written, shape ``(A,)``; zero is always within.
        high: The most, likewise.

    Args:
        space: A `Box`, `Discrete`, `MultiDiscrete` or `MultiBinary`.

    Raises:
        TypeError: If it is another space.
    """

    def __init__(self, space: Space[Any]) -> None:
        self._values: NDArray[Any] | None = None
        self._columns: NDArray[Any] | None = None
        if isinstance(space, Box):
            self._low, self._high = space.low.ravel(), space.high.ravel()
            self.low, self.high = np.minimum(self._low, 0), np.maximum(self._high, 0)
            return
        if isinstance(space, MultiBinary):
            size = int(np.prod(space.shape))
            self._low, self._high = np.zeros(size), np.ones(size)
        elif isinstance(space, (Discrete, MultiDiscrete)):
            sizes = np.atleast_1d(space.n if isinstance(space, Discrete) else space.nvec.ravel())
            starts = np.atleast_1d(np.ravel(space.start))
            # The column of the action, and the value that makes each number a one.
            self._columns = np.repeat(np.arange(len(sizes)), sizes)
            self._values = np.concatenate(
                [start + np.arange(n) for start, n in zip(starts, sizes, strict=True)]
            )
            size = len(self._values)
        else:
            raise TypeError(
                f"expected a Box, Discrete, MultiDiscrete or MultiBinary action space, got {space}"
            )
        self.low, self.high = np.zeros(size), np.ones(size)

    @property
    def size(self) -> int:
        """``A``, how many numbers an action takes."""
        return len(self.low)

    def write(self, actions: Any, out: NDArray[Any]) -> None:
        """Writes one action into ``out`` of shape ``(A,)``, or ``N`` into ``(N, A)``."""
        given = np.asarray(actions).reshape((*out.shape[:-1], -1))
        if self._values is None:
            np.minimum(np.maximum(given, self._low), self._high, out=out, casting="same_kind")
        elif self._columns is not None and given.shape[-1] > 1:
            np.equal(given[..., self._columns], self._values, out=out, casting="unsafe")
        else:
            np.equal(given, self._values, out=out, casting="unsafe")


def rl2_space(space: Space[Any], code: ActionCode) -> Box:
    """The space of ``(observation, action, reward, done)``.

    Args:
        space: A floating-point 1-D Box, shape ``(O,)``.
        code: How actions are written.

    Returns:
        A Box of shape ``(O + A + 2,)``, in the dtype of ``space``. A reward has no bounds.

    Raises:
        TypeError: If ``space`` is another.
    """
    box = require_flat_box(space, "the observation space to append RL^2's input to")
    require_floating(box, "given rewards")
    low = np.concatenate([code.low, [-np.inf, 0.0]])
    return append_box(box, low, np.concatenate([code.high, [np.inf, 1.0]]))


def same_task(a: Any, b: Any) -> bool:
    """Whether two tasks, of any form, are equal."""
    return bool(data_equivalence(a, b, exact=True))


def asks_for_a_trial(options: dict[str, Any] | None) -> bool:
    """Whether the options of a reset set or draw a task."""
    return bool(options) and ("task_state" in options or bool(options.get("resample_task")))  # type: ignore[operator,union-attr]
