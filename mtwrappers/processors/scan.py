"""The recurrence ``y_t = x_t + c * y_{t+1}`` of many paths at once, by BLAS.

A loop over the steps waits at each for the one before. `_swept` is that loop in BLAS, and
`_blocked` breaks the chain for long paths: blocks of 16 steps are summed side by side by one matrix
product, and the loop runs over the blocks alone (the two levels of Blelloch 1990, "Prefix Sums and
Their Applications").
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dtbsv

Floats = NDArray[np.float64]

_BLOCK = 16
# Blocks with an end in them are swept step by step, so there must be few.
_LEAST_MEAN_LENGTH = 4 * _BLOCK
_LEAST_STEPS = 256 * _BLOCK
# So many blocks at a time stay in the cache, and are too few for BLAS to wake threads for, which
# would cost more than the product on a busy machine.
_CHUNK = 1024


def summed(values: Floats, factor: float, ends: NDArray[np.intp]) -> Floats:
    """``y`` of all paths, ``(S,)``; see `mtwrappers.processors.returns.discounted_sums`.

    Args:
        values: ``x`` of all paths, ``(S,)``. They are written over.
        factor: ``c``, in [0, 1].
        ends: The index of each path's last step, ``(P,)``.
    """
    n = len(values)
    if n >= max(_LEAST_STEPS, _LEAST_MEAN_LENGTH * len(ends)):
        return _blocked(values, factor, ends)
    return _swept(values, factor, ends)


def _swept(values: Floats, factor: float, ends: NDArray[np.intp]) -> Floats:
    """One backward sweep: the operations of a loop over the steps, in its order.

    All paths together are one bidiagonal system of equations, ``y - c * shift(y) = x`` with no
    coupling across the end of a path.
    """
    if len(values) < 2:
        return values
    factors = np.full(len(values) - 1, factor)
    factors[ends[:-1]] = 0.0
    solved = _solved(values, factors)
    if len(ends) > 1 and not np.isfinite(solved.sum()):
        # Path by path, so that an infinity reaches no other.
        paths = np.split(values, ends[:-1] + 1)
        return np.concatenate([_swept(x, factor, np.array([len(x) - 1])) for x in paths])
    return solved


def _solved(values: Floats, factors: Floats) -> Floats:
    """``y_t = x_t + factors_t * y_{t+1}``, with one factor fewer than values."""
    band = np.empty((2, len(values)), order="F")
    # What a step takes from the next stands in the next one's column.
    np.negative(factors, out=band[0, 1:])
    solved: Floats = dtbsv(1, band, values, lower=0, diag=1)
    return solved


def _blocked(values: Floats, factor: float, ends: NDArray[np.intp]) -> Floats:
    """Blocks side by side, in place. What follows the last whole block is swept."""
    n = len(values)
    blocks = n // _BLOCK
    whole = blocks * _BLOCK
    x = values[:whole].reshape(blocks, _BLOCK)
    steps = np.arange(_BLOCK)
    powers = factor ** steps.astype(np.float64)
    # The sum at the first step of each block, of its own steps as if no path ended in it.
    first = np.empty(blocks + 1)
    with np.errstate(invalid="ignore", over="ignore"):
        np.matmul(x, powers, out=first[:-1])
        if not np.isfinite(first[:-1].sum()):
            # Zero times infinity is not zero: only finite values may share a product.
            return _swept(values, factor, ends)

    # Blocks in which paths end.
    inner = ends[: np.searchsorted(ends, whole)]
    block = inner // _BLOCK
    new = np.diff(block, prepend=-1) > 0
    broken, row = block[new], np.cumsum(new) - 1
    over = np.zeros((len(broken), _BLOCK), dtype=np.bool_)
    over[row, inner % _BLOCK] = True
    x_broken = x[broken]

    # The same with what ends, and then with what follows.
    first[broken] = np.where(steps <= over.argmax(axis=1)[:, None], x_broken, 0.0) @ powers
    if whole < n:
        values[whole:] = _swept(values[whole:].copy(), factor, ends[len(inner) :] - whole)
    first[-1] = values[whole] if whole < n else 0.0
    factors = np.full(blocks, factor**_BLOCK)
    factors[broken] = 0.0
    first = _solved(first, factors)

    # Every step, given what follows its block.
    following = factor * first[1:]
    distance = steps[:, None] - steps
    weights = np.where(distance >= 0, factor ** np.maximum(distance, 0).astype(np.float64), 0.0)
    for start in range(0, blocks, _CHUNK):
        chunk = x[start : start + _CHUNK]
        chunk[:, -1] += following[start : start + _CHUNK]
        chunk[:] = chunk @ weights
    after = first[broken + 1]
    swept = np.empty((_BLOCK, len(broken)))
    for step in range(_BLOCK - 1, -1, -1):
        after = x_broken[:, step] + np.where(over[:, step], 0.0, factor * after)
        swept[step] = after
    x[broken] = swept.T
    return values
