"""Which environments each worker gets: contiguous blocks that take about equally long to step."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np


def block_bounds(costs: Sequence[float] | None, n: int, workers: int) -> list[int]:
    """Where the blocks of ``workers`` begin and end: worker ``w`` has ``bounds[w]:bounds[w + 1]``.

    Args:
        costs: The relative cost of a step of each environment; equal by default.
        n: How many environments.
        workers: How many blocks, at most ``n``. None is empty.

    Raises:
        ValueError: If there is not one positive, finite cost an environment.

    >>> block_bounds(None, 10, 3)
    [0, 3, 6, 10]
    >>> block_bounds([6, 2, 1, 1, 1, 1], 6, 2)
    [0, 1, 6]
    """
    if costs is None:
        return [n * w // workers for w in range(workers + 1)]
    if len(costs) != n:
        raise ValueError(f"expected {n} step costs, one an environment, got {len(costs)}")
    for i, cost in enumerate(costs):
        if not (cost > 0 and math.isfinite(cost)):
            raise ValueError(f"the step cost of environment {i} must be positive, got {cost!r}")
    until = np.concatenate([[0.0], np.cumsum(np.asarray(costs, dtype=np.float64))])
    bounds = [0]
    for w in range(1, workers):
        # The place nearest to an equal share, with at least one environment on either side.
        share = until[-1] * w / workers
        nearest = int(np.argmin(np.abs(until - share)))
        bounds.append(min(max(nearest, bounds[-1] + 1), n - (workers - w)))
    return [*bounds, n]
