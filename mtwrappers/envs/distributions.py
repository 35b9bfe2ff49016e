"""Distributions from which the tasks of a family are drawn, one for each entry of a task."""

from __future__ import annotations

import abc
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from gymnasium.spaces import Box
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

# The value of an entry: a number, or nested tuples of numbers.
Value: TypeAlias = float | tuple[Any, ...]
# How far a value may be from one that can be drawn, as a share of the largest one.
_ROUNDING = 1e-6


@dataclass(frozen=True)
class Distribution(abc.ABC):
    """The distribution of one entry of a task. Its ``str`` says which values can be drawn."""

    @property
    @abc.abstractmethod
    def space(self) -> Box:
        """A box of float64 that contains all values."""

    @abc.abstractmethod
    def draw(self, rng: Generator) -> Any:
        """Draws a value of the shape of `space`."""

    def can_draw(self, value: NDArray[np.float64]) -> bool:
        """Whether a value of `space` can be drawn, up to rounding."""
        return True

    def find_nearest(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """The value of `space` that is nearest to one of the right shape."""
        return np.clip(value, self.space.low, self.space.high)

    def describe(self) -> str:
        """The shape of a value, and which values can be drawn."""
        numbers = f"numbers of shape {self.space.shape}" if self.space.shape else "a number"
        return f"{numbers}, {self}"

    def check(self, value: object, name: str) -> Value:
        """Returns a value as a float, or as nested tuples of floats.

        A value may be outside of `space` by rounding, 1e-6 of the largest value: the nearest one of
        `space` is returned then.

        Args:
            value: A number, or nested sequences or an array of numbers.
            name: The name of the value in messages.

        Raises:
            ValueError: If it is none, or cannot be drawn.
        """
        array = as_numbers(value, self.space.shape)
        if array is None:
            raise ValueError(f"{name} must be {self.describe()}; got {value!r}")
        nearest = self.find_nearest(array)
        margin = _ROUNDING * np.maximum(np.abs(self.space.low), np.abs(self.space.high))
        if (np.abs(array - nearest) > margin).any() or not self.can_draw(nearest):
            raise ValueError(f"{name} must be {self}; got {value!r}")
        return freeze(nearest)


def as_numbers(value: object, shape: tuple[int, ...]) -> NDArray[np.float64] | None:
    """An array of finite numbers; ``None`` if they have another shape, or are text or bools."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        return None
    if array.shape != shape or array.dtype.kind not in "iuf":
        return None
    if np.count_nonzero(np.isfinite(array)) < array.size:  # in half of the time of all()
        return None
    return array.astype(np.float64)


def freeze(array: ArrayLike) -> Value:
    """A number as a `float`, an array as nested tuples of floats."""
    values = np.asarray(array, dtype=np.float64).tolist()
    return _freeze_list(values) if isinstance(values, list) else float(values)


def _freeze_list(values: list[Any]) -> tuple[Any, ...]:
    return tuple(_freeze_list(item) if isinstance(item, list) else item for item in values)


@dataclass(frozen=True)
class Uniform(Distribution):
    """Independent and uniform in ``[low, high]``."""

    low: float
    high: float
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"in [{self.low:g}, {self.high:g}]"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(self.low, self.high, self.shape, np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        return rng.uniform(self.low, self.high, self.shape)


@dataclass(frozen=True)
class Power(Distribution):
    """Independent powers of a base, ``base ** u`` with ``u`` uniform in ``[-limit, limit]``."""

    base: float
    limit: float
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"in [{self.base**-self.limit:.4g}, {self.base**self.limit:.4g}]"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(self.base**-self.limit, self.base**self.limit, self.shape, np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        return self.base ** rng.uniform(-self.limit, self.limit, self.shape)


@dataclass(frozen=True)
class Choice(Distribution):
    """One of some numbers, with equal probability."""

    values: Sequence[float]

    def __str__(self) -> str:
        return f"one of {', '.join(f'{value:g}' for value in self.values)}"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(min(self.values), max(self.values), (), np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        return self.values[int(rng.integers(len(self.values)))]

    def find_nearest(self, value: NDArray[np.float64]) -> NDArray[np.float64]:
        """The nearest of these values."""
        values = np.array(self.values, dtype=np.float64)
        return np.asarray(values[np.argmin(np.abs(values - value))])


@dataclass(frozen=True)
class Circle(Distribution):
    """A point on the circle around the origin, ``(2,)``, uniform in its angle.

    Args:
        radius: The radius.
        span: The angles are in ``[0, span]``; by default the whole circle.
    """

    radius: float = 1.0
    span: float = 2 * math.pi

    def __str__(self) -> str:
        arc = "" if self.span == 2 * math.pi else f", at an angle in [0, {self.span:.4g}]"
        return f"on the circle of radius {self.radius:g}{arc}"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(-self.radius, self.radius, (2,), np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        angle = rng.uniform(0.0, self.span)
        return self.radius * math.cos(angle), self.radius * math.sin(angle)

    def can_draw(self, value: NDArray[np.float64]) -> bool:
        """Whether it is on the circle, and its angle in the span."""
        angle = math.atan2(value[1], value[0]) % (2 * math.pi)
        distance = math.hypot(*value)
        # An angle of 0 may be rounded to one below it.
        is_in_span = angle <= self.span + _ROUNDING or angle >= 2 * math.pi - _ROUNDING
        return is_in_span and math.isclose(distance, self.radius, rel_tol=_ROUNDING)


@dataclass(frozen=True)
class Disc(Distribution):
    """A point of the disc around the origin, ``(2,)``, uniform in area."""

    radius: float

    def __str__(self) -> str:
        return f"in the disc of radius {self.radius:g}"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(-self.radius, self.radius, (2,), np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        angle = rng.uniform(0.0, 2 * math.pi)
        radius = self.radius * math.sqrt(rng.uniform())
        return radius * math.cos(angle), radius * math.sin(angle)

    def can_draw(self, value: NDArray[np.float64]) -> bool:
        """Whether it is in the disc."""
        return math.hypot(*value) <= self.radius * (1 + _ROUNDING)


@dataclass(frozen=True)
class Normal(Distribution):
    """Independent and normal."""

    mean: float
    std: float
    shape: tuple[int, ...] = ()

    def __str__(self) -> str:
        return "finite"

    @functools.cached_property
    def space(self) -> Box:
        """The box of all numbers."""
        return Box(-np.inf, np.inf, self.shape, np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        return rng.normal(self.mean, self.std, self.shape)


@dataclass(frozen=True)
class Dirichlet(Distribution):
    """Independent probabilities along the last axis, uniform among all (a flat Dirichlet)."""

    shape: tuple[int, ...]

    def __str__(self) -> str:
        return "probabilities with the sum 1 along the last axis"

    @functools.cached_property
    def space(self) -> Box:
        """The smallest box around its values."""
        return Box(0.0, 1.0, self.shape, np.float64)

    def draw(self, rng: Generator) -> Any:
        """Draws a value."""
        return rng.dirichlet(np.ones(self.shape[-1]), self.shape[:-1])

    def can_draw(self, value: NDArray[np.float64]) -> bool:
        """Whether the sums are 1."""
        return np.allclose(value.sum(axis=-1), 1.0, rtol=0.0, atol=_ROUNDING)
