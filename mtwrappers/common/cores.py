"""The number of cores that this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """The number of cores in the process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
