"""Splits batched infos into one info per environment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def split_infos(infos: dict[str, Any], n: int) -> list[dict[str, Any]]:
    """Returns the info of each of ``n`` environments from batched infos.

    The ``n`` new dicts hold Python numbers, and rows of arrays.

    >>> import numpy as np
    >>> from mtwrappers.adapters.infos import split_infos
    >>> mask = np.array([True, False])
    >>> split_infos({"steps": np.array([7, 0]), "_steps": mask}, 2)
    [{'steps': 7}, {}]
    """
    full_columns: dict[str, Iterable[Any]] = {}
    partial_columns = []
    for key, values in infos.items():
        mask = infos.get("_" + key)
        if mask is None:
            continue  # the mask of a key
        column: Iterable[Any]
        if isinstance(values, dict):
            column = split_infos(values, n)
        else:
            column = values.tolist() if values.ndim == 1 else values
        # Every environment reports most keys: zipping their columns is fastest.
        if np.count_nonzero(mask) == n:
            full_columns[key] = column
        else:
            partial_columns.append((key, mask.tolist(), column))
    if full_columns:
        rows = zip(*full_columns.values(), strict=True)
        env_infos = [dict(zip(full_columns, row, strict=True)) for row in rows]
    else:
        env_infos = [{} for _ in range(n)]
    for key, mask, column in partial_columns:
        for info, reported, value in zip(env_infos, mask, column, strict=True):
            if reported:
                info[key] = value
    return env_infos
