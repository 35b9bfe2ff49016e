"""Discounted sums and advantages of many paths at once: pure functions on ragged batches.

A ragged batch is a flat array of all ``S`` steps of ``P`` concatenated paths, with their
``lengths``, ``(P,)``.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from mtwrappers.common.checks import check_fraction

Floats: TypeAlias = NDArray[np.float64]


def discounted_sums(values: Any, discount: float, lengths: Any) -> Floats:
    r"""Computes ``y_t = x_t + discount * y_{t+1}``, from each path's last step backwards.

    That is :math:`y_t = \sum_{k \ge t} \gamma^{k-t} x_k`: the return, if ``x`` are rewards. The
    result is bit-identical to a loop over the steps, on every machine.

    Args:
        values: ``x`` of all paths, ``(S,)``. Infinities and NaN do not affect other paths.
        discount: In [0, 1].
        lengths: The number of steps of each path, ``(P,)``, 1 or more.

    Returns:
        ``y`` of all paths, ``(S,)`` float64.

    Raises:
        ValueError: If the discount is outside [0, 1], a length is below 1, or the lengths do not
            add up to ``S``.

    >>> from mtwrappers.processors.returns import discounted_sums
    >>> discounted_sums([1.0, 1.0, 1.0, 1.0, 1.0], 0.5, [2, 3])
    array([1.5 , 1.  , 1.75, 1.5 , 1.  ])
    """
    values, lengths = np.asarray(values, dtype=np.float64), np.asarray(lengths)
    discount = check_fraction(discount, "discount")
    _check_lengths(lengths, values)
    return _sum_discounted(values, discount, lengths)


def _sum_discounted(values: Floats, discount: float, lengths: NDArray[Any]) -> Floats:
    """`discounted_sums` of checked arguments."""
    sums: Floats = np.empty_like(values)
    # Only paths of similar length (8 to 15 steps, 16 to 31, ...) share an array, so that a long
    # path does not pad thousands of short ones, and memory is at most twice that of the steps.
    octaves = np.frexp(lengths)[1]
    step_octaves = np.repeat(octaves, lengths)
    for octave in np.unique(octaves):
        in_octave, octave_lengths = step_octaves == octave, lengths[octaves == octave]
        longest = octave_lengths.max()
        real = np.arange(longest) >= longest - octave_lengths[:, None]
        rows = np.zeros(real.shape)
        rows[real] = values[in_octave]
        sums[in_octave] = lfilter([1.0], [1.0, -discount], rows[:, ::-1])[:, ::-1][real]
    return sums


def gae(
    rewards: Any, values: Any, last_values: Any, discount: float, gae_lambda: float, lengths: Any
) -> Floats:
    r"""Generalized advantage estimates.

    :math:`\delta_t = r_t + \gamma V(s_{t+1}) - V(s_t)` and
    :math:`\hat A_t = \sum_{k \ge t} (\gamma \lambda)^{k-t} \delta_k`
    (Schulman et al. 2016, arXiv:1506.02438, equations 12 and 16).

    Args:
        rewards: ``r`` of all paths, ``(S,)``.
        values: ``V(s_t)`` of all paths, ``(S,)``.
        last_values: ``V`` after the last step of each path, ``(P,)``: zero if the path terminated.
        discount: In [0, 1].
        gae_lambda: In [0, 1].
        lengths: The number of steps of each path, ``(P,)``, 1 or more.

    Returns:
        Advantages of all paths, ``(S,)`` float64.

    Raises:
        ValueError: If the discount or ``gae_lambda`` is outside [0, 1], a length is below 1, or the
            lengths do not add up to ``S``.

    >>> from mtwrappers.processors.returns import gae
    >>> gae([1.0, 1.0], [0.5, 0.5], [0.0], 0.5, 1.0, [2])
    array([1. , 0.5])
    """
    values, lengths = np.asarray(values, dtype=np.float64), np.asarray(lengths)
    discount = check_fraction(discount, "discount")
    gae_lambda = check_fraction(gae_lambda, "gae_lambda")
    _check_lengths(lengths, values)
    following = np.append(values[1:], 0.0)
    following[np.cumsum(lengths) - 1] = last_values
    deltas = discount * following + rewards - values
    return _sum_discounted(deltas, discount * gae_lambda, lengths)


def _check_lengths(lengths: NDArray[Any], values: Floats) -> None:
    """Raises `ValueError` unless ``lengths``, ``(P,)``, are those of paths with these values."""
    if lengths.min(initial=1) < 1:
        raise ValueError(f"each length must be 1 or more, got {lengths.tolist()}")
    if values.shape != (lengths.sum(),):
        raise ValueError(
            f"lengths must add up to {values.size} steps, got {lengths.tolist()} for values of "
            f"shape {values.shape}"
        )


def steps_before(lengths: Any) -> NDArray[np.intp]:
    """The number of steps before each step in its path, ``(S,)``.

    >>> from mtwrappers.processors.returns import steps_before
    >>> steps_before([2, 3])
    array([0, 1, 0, 1, 2])
    """
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(np.sum(lengths)) - np.repeat(starts, lengths))
