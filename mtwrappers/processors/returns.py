"""Discounted sums and advantages of many paths at once: pure functions on ragged batches.

A ragged batch is a flat array of all steps of all paths, one path after another, with
``ends``, the index of each path's last step.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.scan import summed

Floats = NDArray[np.float64]


def path_ends(lengths: Any) -> NDArray[np.intp]:
    """The index of the last step of each path, for paths of these lengths.

    >>> path_ends([2, 3])
    array([1, 4])
    """
    return np.cumsum(np.asarray(lengths, dtype=np.intp)) - 1


def discounted_sums(values: Any, discount: float, ends: Any) -> Floats:
    r"""``y_t = x_t + discount * y_{t+1}``, from each path's last step backwards.

    That is :math:`y_t = \sum_{k \ge t} \gamma^{k-t} x_k`: the return, when ``x`` are rewards.

    The sums of long paths differ from a loop over the steps by rounding (see
    `mtwrappers.processors.scan`, a few 1e-15 of the largest sum); the others do not differ at all.

    Args:
        values: ``x`` of all paths, ``(S,)``.
        discount: In [0, 1].
        ends: See `path_ends`.

    Returns:
        ``y`` of all paths, ``(S,)``.

    >>> discounted_sums([1.0, 1.0, 1.0, 1.0, 1.0], 0.5, path_ends([2, 3]))
    array([1.5 , 1.  , 1.75, 1.5 , 1.  ])
    """
    return summed(np.array(values, dtype=np.float64), discount, np.asarray(ends, dtype=np.intp))


def gae(
    rewards: Any, values: Any, last_values: Any, discount: float, gae_lambda: float, ends: Any
) -> Floats:
    r"""Generalized advantage estimates.

    :math:`\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)` and
    :math:`\hat A_t = \sum_{k \ge t} (\gamma \lambda)^{k-t} \delta_k`
    (Schulman et al. 2016, arXiv:1506.02438, equations 12 and 16).

    Args:
        rewards: ``r`` of all paths, ``(S,)``.
        values: ``V(s_t)`` of all paths, ``(S,)``.
        last_values: ``V`` after the last step of each path, ``(P,)``: zero where the path
            terminated.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
        ends: See `path_ends`, ``(P,)``.

    Returns:
        Advantages of all paths, ``(S,)``.

    >>> gae([1.0, 1.0], [0.5, 0.5], [0.0], 0.5, 1.0, path_ends([2]))
    array([1. , 0.5])
    """
    values = np.asarray(values, dtype=np.float64)
    deltas = np.empty_like(values)
    np.multiply(values[1:], discount, out=deltas[:-1])
    deltas[ends] = discount * np.asarray(last_values, dtype=np.float64)
    deltas += rewards
    deltas -= values
    return summed(deltas, discount * gae_lambda, np.asarray(ends, dtype=np.intp))


def normalized(values: Floats) -> Floats:
    """``(values - mean) / (std + 1e-8)``, as ProMP normalises advantages."""
    return np.asarray((values - np.mean(values)) / (np.std(values) + 1e-8))


def shifted_to_positive(values: Floats) -> Floats:
    """``values - min + 1e-8``, as ProMP makes advantages positive."""
    return np.asarray((values - np.min(values)) + 1e-8)
