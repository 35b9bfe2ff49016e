"""How NumPy adds up squares here, and how to add them up as it does elsewhere.

Meta-World's rewards are made of distances, and ``np.linalg.norm`` leaves the squares to BLAS. Of a
few numbers, OpenBLAS rounds every product on most processors ("plain"), and only the sums on those
with AVX-512 ("fused", by fused multiply-add). So the last bits of rewards depend on the processor.
A replay takes the way of the machine whose rewards it repeats.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Literal, TypeAlias

import numpy as np
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

Arithmetic: TypeAlias = Literal["plain", "fused", "other"]
# Longer vectors are cut into several sums, and do not occur in rewards.
MAX_LENGTH = 6


def _exactly(a: float, b: float, c: float) -> float:
    """``a * b + c``, rounded once."""
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return a * b + c
    return float(Fraction(a) * Fraction(b) + Fraction(c))


# Python has it from 3.13 on.
_fma: Callable[[float, float, float], float] = getattr(math, "fma", _exactly)


def _plain(x: NDArray[np.float64]) -> float:
    total = 0.0
    for value in x.tolist():
        total += value * value
    return total


def _fused(x: NDArray[np.float64]) -> float:
    total = 0.0
    for value in x.tolist():
        total = _fma(value, value, total)
    return total


# The sum of the squares of a vector, ``(n,)`` float64 with n up to `MAX_LENGTH`.
SUMS: dict[str, Callable[[NDArray[np.float64]], float]] = {"plain": _plain, "fused": _fused}


@functools.cache
def arithmetic() -> Arithmetic:
    """How NumPy adds up the squares of a few numbers on this machine."""
    rng = Generator(PCG64(0))
    vectors = [rng.normal(size=1 + i % MAX_LENGTH) for i in range(300)]
    found = [x.dot(x) for x in vectors]
    for name, total in SUMS.items():
        if all(total(x) == y for x, y in zip(vectors, found, strict=True)):
            return name  # type: ignore[return-value]
    return "other"
