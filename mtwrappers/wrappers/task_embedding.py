"""Vectors to observe in addition to the task id, such as embeddings of task descriptions."""

from __future__ import annotations

import numpy as np
from gymnasium.spaces import Box
from numpy.typing import ArrayLike

from mtwrappers.common.errors import with_place
from mtwrappers.common.types import AnyArray


def check_embeddings(embeddings: ArrayLike | None, n: int, unit: str) -> AnyArray | None:
    """Returns a copy of the embeddings of ``n`` tasks or phases, in a floating-point dtype.

    Args:
        embeddings: ``(n, E)`` numbers, or ``None``.
        n: The expected number of rows.
        unit: ``"task"`` or ``"phase"``, for messages.

    Raises:
        ValueError: If ``embeddings`` is something else.
    """
    if embeddings is None:
        return None
    try:
        rows = np.array(embeddings)
    except ValueError as exc:  # rows of several lengths
        raise with_place(exc, f"task_embedding must be an array (num_{unit}s, E)") from None
    if rows.ndim != 2 or len(rows) != n or not rows.size or rows.dtype.kind not in "biuf":
        raise ValueError(
            f"task_embedding must be an array ({n}, E) of numbers, a row for each {unit}, got one "
            f"of shape {rows.shape} and dtype {rows.dtype}"
        )
    rows = rows if rows.dtype.kind == "f" else rows.astype(np.float64)
    if not np.isfinite(rows).all():
        raise ValueError(f"task_embedding must be finite, got {rows}")
    return rows


def embedding_box(rows: AnyArray) -> Box:
    """The smallest Box that holds all rows of ``(n, E)``."""
    return Box(rows.min(axis=0), rows.max(axis=0), dtype=rows.dtype.type)
