"""The number of cores that this process may use."""

from __future__ import annotations

import contextlib
import math
import os
from pathlib import Path


def cores() -> int:
    """The number of cores in the process's affinity mask, limited by its CPU quota."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(math.ceil(min(count, _cpu_quota())), 1)


def _cpu_quota(root: Path = Path("/")) -> float:
    """The CPU quota of this process's control groups (version 1 or 2), in CPUs."""
    quota = math.inf
    with contextlib.suppress(OSError, ValueError):  # a system without them
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            # A container may read the group's path on the host, with its files at the top.
            group = top / path.lstrip("/")
            for place in (group, *group.parents):
                quota = min(quota, _quota_of(place))
                if place == top:
                    break
    return quota


def _quota_of(group: Path) -> float:
    """The CPU quota of one control group, in CPUs; infinite without a limit."""
    with contextlib.suppress(OSError, ValueError):  # "max", or no such file
        if (both := group / "cpu.max").exists():
            quota, period = map(int, both.read_text().split())
        else:
            quota = int((group / "cpu.cfs_quota_us").read_text())
            period = int((group / "cpu.cfs_period_us").read_text())
        if quota > 0 and period > 0:
            return quota / period
    return math.inf
