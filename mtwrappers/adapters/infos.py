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
    full: dict[str, Iterable[Any]] = {}
    partial = []
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
            full[key] = column
        else:
            partial.append((key, mask.tolist(), column))
    if full:
        each = [dict(zip(full, row, strict=True)) for row in zip(*full.values(), strict=True)]
    else:
        each = [{} for _ in range(n)]
    for key, mask, column in partial:
        for info, reported, value in zip(each, mask, column, strict=True):
            if reported:
                info[key] = value
    return each
