"""Normalised scores: returns rescaled linearly between two references.

They are for environments whose returns have different scales and that report no success.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtwrappers.common.checks import check_mapping
from mtwrappers.evaluation.statistics import Values


@dataclass(frozen=True)
class Reference:
    """A policy whose mean returns are one end of the ranges.

    Args:
        policy: The name of the policy, if its result has one.
        evidence: The SHA-256 of the actions of its episodes, if they were recorded.
    """

    policy: str | None
    evidence: str | None


@dataclass(frozen=True)
class Normalization:
    """The return of each task that counts as 0, and the one that counts as 1.

    A normalised score is ``(return - low) / (high - low)``. It is not clipped: it is below 0 for a
    policy that is worse than the low reference, and above 1 for one that is better than the high
    reference.

    Args:
        ranges: ``(low, high)`` of each task, by name.
        low: The policy whose mean returns are ``low``; ``None`` if they were given as numbers.
        high: The policy whose mean returns are ``high``; ``None`` if they were given as numbers.

    Raises:
        TypeError: If the ranges are not a dict of two numbers each.
        ValueError: If a number is not finite, or ``low`` is not less than ``high``.

    >>> import numpy as np
    >>> from mtwrappers.evaluation.normalization import Normalization
    >>> normalization = Normalization({"hop": (5, 25), "run": (0, 100)})
    >>> normalization("hop", np.array([5.0, 15.0, 35.0]))
    array([0. , 0.5, 1.5])
    """

    ranges: Mapping[str, tuple[float, float]]
    low: Reference | None = None
    high: Reference | None = None

    def __post_init__(self) -> None:
        given = check_mapping(self.ranges, "the ranges of returns")
        ranges = {str(task): _range(task, ends) for task, ends in given.items()}
        object.__setattr__(self, "ranges", ranges)

    def of_tasks(self, tasks: Sequence[str]) -> Normalization:
        """The same normalization with only the ranges of these tasks.

        Raises:
            ValueError: If a task has no range.
        """
        if missing := [task for task in tasks if task not in self.ranges]:
            known = reprlib.repr(list(self.ranges))
            raise ValueError(
                f"each task needs a range (low, high) of returns, {missing[0]!r} has none; got "
                f"ranges of {known}"
            )
        return Normalization({task: self.ranges[task] for task in tasks}, self.low, self.high)

    def __call__(self, task: str, returns: Values) -> Values:
        """The normalised returns of a task, of the same shape.

        Raises:
            ValueError: If one is too large for a number.
        """
        low, high = self.ranges[task]
        with np.errstate(over="ignore"):
            scores: Values = (returns - low) / (high - low)
        if not np.isfinite(scores).all():
            raise ValueError(
                f"the returns of {task!r} are too far from its range ({low!r}, {high!r})"
            )
        return scores

    @property
    def source(self) -> str:
        """The source of the ranges, in a few words."""
        if self.low is None and self.high is None:
            return "low and high as given"
        ends = {"low": self.low, "high": self.high}
        return ", ".join(
            f"{name}: {'as given' if one is None else one.policy or 'a result without a name'}"
            for name, one in ends.items()
        )


def _range(task: Any, ends: Any) -> tuple[float, float]:
    """Both ends of a task's range, checked."""
    two = isinstance(ends, (list, tuple)) and len(ends) == 2
    if not two or not all(map(_is_number, ends)):
        raise TypeError(
            f"the range of {task!r} must be two numbers (low, high), got {reprlib.repr(ends)}"
        )
    try:
        low, high = map(float, ends)
    except OverflowError:
        low = high = math.inf
    if not math.isfinite(high - low) or not low < high:
        raise ValueError(
            f"the range of {task!r} must be finite with low < high, got {reprlib.repr(ends)}"
        )
    return low, high


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
