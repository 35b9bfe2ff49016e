"""Adds up the episodes that are under way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Flags = NDArray[np.bool_]
# The second is what Stable-Baselines3 and robotics environments call it.
SUCCESS_KEYS = ("success", "is_success")


def read_success(infos: Mapping[str, Any], ended: Flags) -> tuple[Flags, Flags]:
    """Which environments say that the step was a success, and which say anything of it.

    Args:
        infos: Of the step.
        ended: The environments whose ``infos`` are already of the next episode's reset, ``(N,)``;
            those of the step itself are in ``final_info``.

    Returns:
        Successes and who told, ``(N,)`` each.
    """
    success, told = np.zeros_like(ended), np.zeros_like(ended)
    sources = [(infos, ~ended)]
    if "final_info" in infos:
        sources.append((infos["final_info"], ended))
    for source, where in sources:
        for key in SUCCESS_KEYS:
            if key in source:
                fresh = where & source[f"_{key}"] & ~told
                success[fresh] = np.asarray(source[key])[fresh].astype(np.bool_)
                told |= fresh
    return success, told


class Tally:
    """Returns, lengths and successes of ``n`` environments' present episodes.

    ``returns`` is ``(n,)`` float64, ``lengths`` ``(n,)`` int64.
    """

    def __init__(self, n: int) -> None:
        self.returns = np.zeros(n, dtype=np.float64)
        self.lengths = np.zeros(n, dtype=np.int64)
        self._once = np.zeros(n, dtype=np.bool_)
        self._last = np.zeros(n, dtype=np.bool_)
        self._told = np.zeros(n, dtype=np.bool_)

    def begin(self, which: Flags) -> None:
        """Forgets the episodes of some environments, ``(n,)``."""
        for array in (self.returns, self.lengths, self._once, self._last, self._told):
            array[which] = 0

    def add(self, rewards: NDArray[Any], infos: Mapping[str, Any], ended: Flags) -> None:
        """Adds a step; see `read_success` for ``ended``."""
        self.returns += rewards
        self.lengths += 1
        success, told = read_success(infos, ended)
        self._once |= success
        self._last = success
        self._told |= told

    def success(self, i: int) -> tuple[bool | None, bool | None]:
        """Whether environment ``i`` succeeded at any step, and at the last; ``None`` if untold."""
        if not self._told[i]:
            return None, None
        return bool(self._once[i]), bool(self._last[i])
