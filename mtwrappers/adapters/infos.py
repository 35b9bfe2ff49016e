"""A vector environment's infos as a dict for each environment: the way back from batching."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray


def split_infos(infos: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """What each of ``n`` environments has reported.

    Numbers come back as Python's own, arrays as rows. Most keys are reported by every environment
    at every step, so those are zipped by columns; others follow one by one.

    Args:
        infos: As a `gymnasium.vector.VectorEnv` returns them: an array ``(n, ...)`` or a dict a
            key, and ``_key``, ``(n,)`` bool, for who has reported it. Not changed.
        n: How many environments.

    Returns:
        ``n`` new dicts.

    >>> import numpy as np
    >>> mask = np.array([True, False])
    >>> split_infos({"steps": np.array([7, 0]), "_steps": mask}, 2)
    [{'steps': 7}, {}]
    """
    everyone = b"\x01" * n
    keys, columns, partial = [], [], []
    for key, values in infos.items():
        mask = infos.get("_" + key)
        if mask is None:
            continue  # it is itself the mask of a key
        column = _column(values, n)
        if mask.tobytes() == everyone:  # several times as quick as mask.all()
            keys.append(key)
            columns.append(column)
        else:
            partial.append((key, mask, column))
    if columns:
        each = [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]
    else:
        each = [{} for _ in range(n)]
    for key, mask, column in partial:
        _fill(each, key, mask, column)
    return each


def _column(values: dict[str, Any] | NDArray[Any], n: int) -> Iterable[Any]:
    if isinstance(values, dict):
        return split_infos(values, n)
    return values.tolist() if values.ndim == 1 else values


def _fill(each: list[dict[str, Any]], key: str, mask: NDArray[Any], column: Iterable[Any]) -> None:
    for info, reported, value in zip(each, mask.tolist(), column, strict=True):
        if reported:
            info[key] = value
