"""Faster twins of the helper functions in Meta-World's reward code, for its small inputs.

Each twin is bit-identical to its original for the inputs that it handles, and passes all others to
the original. `exact` compares them; if one differs on a machine, the originals are used there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
from metaworld.utils import reward_utils
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

_sqrt = math.sqrt
_minimum, _maximum = np.minimum, np.maximum
_exp, _float64, _ndarray = np.exp, np.float64, np.ndarray
_FLOAT64 = np.dtype(np.float64)
_norm, _tolerance = np.linalg.norm, reward_utils.tolerance
_from_matrix = Rotation.from_matrix


def clip(x: NDArray[Any], low: NDArray[Any], high: NDArray[Any]) -> Any:
    """``np.clip(x, low, high, out=x)``."""
    return _minimum(_maximum(x, low, out=x), high, out=x)


def norm(x: Any, ord: Any = None, *args: Any, **kwargs: Any) -> Any:
    """``np.linalg.norm`` of a 1-D float64 array, or of one float64."""
    if not args and not kwargs:
        # Not `is`: an array that was unpickled may have a dtype of its own.
        if type(x) is _ndarray and x.ndim == 1 and x.dtype == _FLOAT64:
            if ord is None or ord == 2:  # the same for a vector
                return _float64(_sqrt(x.dot(x)))  # by the same BLAS that the original calls
        elif type(x) is _float64 and ord is None:
            return _float64(_sqrt(x * x))
    return _norm(x, ord, *args, **kwargs)


_DEFAULT: float = reward_utils._DEFAULT_VALUE_AT_MARGIN
_LONG_TAIL = float(np.sqrt(1 / _DEFAULT - 1))
_GAUSSIAN = float(np.sqrt(-2 * np.log(_DEFAULT)))


def tolerance(
    x: Any,
    bounds: tuple[float, float] = (0.0, 0.0),
    margin: Any = 0.0,
    sigmoid: str = "gaussian",
    value_at_margin: float = _DEFAULT,
) -> Any:
    """``reward_utils.tolerance`` of one number, for the two sigmoids in use."""
    kind, margin_kind = type(x), type(margin)
    if (
        (kind is float or kind is _float64)
        and (margin_kind is float or margin_kind is _float64)
        and margin > 0
        and (sigmoid == "long_tail" or sigmoid == "gaussian")
        and value_at_margin == _DEFAULT
    ):
        lower, upper = bounds
        if lower <= x <= upper:
            return 1.0
        if lower <= upper:
            distance = float(lower - x if x < lower else x - upper) / float(margin)
            if sigmoid == "long_tail":
                return 1 / ((distance * _LONG_TAIL) ** 2 + 1)
            # NumPy's own exp: the C library's may differ in the last bit.
            return float(_exp(-0.5 * (distance * _GAUSSIAN) ** 2))
    return _tolerance(
        x, bounds=bounds, margin=margin, sigmoid=sigmoid, value_at_margin=value_at_margin
    )


class _Quaternion:
    """A substitute for the result of `Rotation.from_matrix`."""

    __slots__ = ("_matrix",)

    def __init__(self, matrix: NDArray[Any]) -> None:
        self._matrix = matrix

    def as_quat(self) -> NDArray[np.float64]:
        return matrix_to_quaternion(self._matrix)


def matrix_to_quaternion(matrix: NDArray[Any]) -> NDArray[np.float64]:
    """``Rotation.from_matrix(matrix).as_quat()`` of one rotation matrix.

    SciPy's algorithm: the largest of the diagonal and the trace decides which component comes
    first (Markley 2008, "Unit quaternion from rotation matrix"). A matrix that SciPy might
    orthogonalise is passed to SciPy.
    """
    if type(matrix) is not _ndarray or matrix.dtype != _FLOAT64 or matrix.shape != (3, 3):
        return np.asarray(_from_matrix(matrix).as_quat())
    (a, b, c), (d, e, f), (g, h, i) = matrix.tolist()
    ab, ac, bc = a * d + b * e + c * f, a * g + b * h + c * i, d * g + e * h + f * i
    aa, bb, cc = a * a + b * b + c * c, d * d + e * e + f * f, g * g + h * h + i * i
    det = a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g)
    # Far inside SciPy's own limits (1e-12 off the diagonal, 1e-5 on it).
    if not (
        -1e-13 < ab < 1e-13
        and -1e-13 < ac < 1e-13
        and -1e-13 < bc < 1e-13
        and -1e-7 < aa - 1 < 1e-7
        and -1e-7 < bb - 1 < 1e-7
        and -1e-7 < cc - 1 < 1e-7
        and det > 0.5
    ):
        return np.asarray(_from_matrix(matrix).as_quat())
    trace = a + e + i
    if trace >= a and trace >= e and trace >= i and not (a == trace or e == trace or i == trace):
        x, y, z, w = h - f, c - g, d - b, 1 + trace
    elif a >= e and a >= i:
        x, y, z, w = 1 - trace + 2 * a, d + b, g + c, h - f
    elif e >= i:
        x, y, z, w = b + d, 1 - trace + 2 * e, h + f, c - g
    else:
        x, y, z, w = c + g, f + h, 1 - trace + 2 * i, d - b
    length = _sqrt(x * x + y * y + z * z + w * w)
    return np.array([x / length, y / length, z / length, w / length])


def twin_of(module: ModuleType, **replaced: Any) -> ModuleType:
    """A module with the contents of ``module``, except for some names."""
    twin = ModuleType(module.__name__)
    twin.__dict__.update({**vars(module), **replaced})
    return twin


def fast_globals() -> dict[str, Any]:
    """The global names for the copies of Meta-World's functions."""
    return {
        "np": twin_of(np, linalg=twin_of(np.linalg, norm=norm)),
        "reward_utils": twin_of(reward_utils, tolerance=tolerance),
        "Rotation": SimpleNamespace(from_matrix=_Quaternion),  # all that Meta-World calls
    }


def exact(seed: int = 0, n: int = 200) -> list[str]:
    """The names of the twins that differ from their originals on this machine: normally none."""
    rng = np.random.Generator(np.random.PCG64(seed))
    low, high = np.full(39, -0.5), np.full(39, 0.5)
    low[4:18], high[4:18] = -np.inf, np.inf
    checks: list[tuple[Callable[..., Any], Callable[..., Any], Callable[[], list[Any]]]] = [
        (norm, _norm, lambda: [rng.normal(size=rng.integers(1, 6))]),
        (norm, _norm, lambda: [rng.normal(size=1)[0]]),
        (tolerance, _tolerance, lambda: [rng.uniform(), (0, 0.05), rng.uniform(), "long_tail"]),
        (tolerance, _tolerance, lambda: [rng.uniform(), (0, 0.05), rng.uniform(), "gaussian"]),
        (
            matrix_to_quaternion,
            lambda matrix: _from_matrix(matrix).as_quat(),
            lambda: [Rotation.random(random_state=int(rng.integers(2**31))).as_matrix()],
        ),
        (clip, np.clip, lambda: [rng.normal(size=39), low, high]),
    ]
    differ = set()
    for twin, original, draw in checks:
        for _ in range(n):
            arguments = draw()
            expected = np.asarray(original(*arguments)).tobytes()
            if np.asarray(twin(*arguments)).tobytes() != expected:
                differ.add(twin.__name__)
    return sorted(differ)
