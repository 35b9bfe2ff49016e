"""How many workers there are by default."""

import math
import os

import pytest

from mtwrappers.common import cores
from tests.vector.processes import needs_proc

ONE = "0::/\n"
TWO = "12:cpuset:/\n4:cpu,cpuacct:/docker/f00\n0::/docker/f00\n"


@pytest.mark.parametrize(
    ("groups", "files", "quota"),
    [
        (ONE, {"cpu.max": "200000 100000"}, 2.0),
        (ONE, {"cpu.max": "max 100000"}, math.inf),
        ("0::/a/b\n", {"a/cpu.max": "50000 100000", "a/b/cpu.max": "max 100000"}, 0.5),
        ("0::/docker/f00\n", {"cpu.max": "150000 100000"}, 1.5),  # seen from outside
        (TWO, {"cpu/cpu.cfs_quota_us": "200000", "cpu/cpu.cfs_period_us": "100000"}, 2.0),
        (TWO, {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, math.inf),
        (ONE, {"cpu.max": "much"}, math.inf),
        (ONE, {}, math.inf),
        ("nonsense\n", {"cpu.max": "200000 100000"}, math.inf),
        (None, {}, math.inf),
    ],
)
def test_the_quota_of_control_groups_is_found(groups, files, quota, tmp_path):
    if groups is not None:
        (tmp_path / "proc/self").mkdir(parents=True)
        (tmp_path / "proc/self/cgroup").write_text(groups)
    for name, text in files.items():
        file = tmp_path / "sys/fs/cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
    assert cores._cpu_quota(tmp_path) == quota


@needs_proc
@pytest.mark.parametrize(
    ("quota", "count"), [(2.0, 2), (1.5, 2), (0.1, 1), (100.0, 64), (math.inf, 64)]
)
def test_there_are_as_many_cores_as_the_quota_pays_for(quota, count, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(cores, "_cpu_quota", lambda: quota)
    assert cores.cores() == count
