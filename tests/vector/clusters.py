"""Ray clusters on this machine."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from typing import Any

import pytest

from tests.vector.processes import all_gone, children


@contextlib.contextmanager
def local_cluster(num_cpus: int, **kwargs: Any) -> Iterator[None]:
    """Starts Ray with this many CPUs; none of its processes may be left afterwards."""
    import ray

    pids_before = children()
    with tempfile.TemporaryDirectory(prefix="ray") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_USAGE_STATS_ENABLED", "0")
        ray.init(
            "local",
            num_cpus=num_cpus,
            include_dashboard=False,
            logging_level="error",
            log_to_driver=False,
            object_store_memory=100 << 20,
            _temp_dir=f"{folder}/ray",  # short, because it holds sockets
            **kwargs,
        )
        started_pids = children() - pids_before
        try:
            yield
        finally:
            ray.shutdown()
        assert started_pids
        assert all_gone(started_pids, 20)
