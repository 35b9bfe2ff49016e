"""What executors with workers have in common."""

from __future__ import annotations

from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.pool import WorkerPool


class WorkersVectorEnv(MetaVectorEnv):
    """Environments spread over workers."""

    _pool: WorkerPool

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return len(self._pool.workers)

    @property
    def recoveries(self) -> int:
        """How many workers were lost and recovered so far."""
        return self._pool.recoveries
