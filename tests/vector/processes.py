"""Ways to look at processes."""

from __future__ import annotations

import functools
import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

needs_proc = pytest.mark.skipif(sys.platform != "linux", reason="it looks into /proc")


def is_alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


def children(of: int | None = None) -> set[int]:
    """The processes that this one, or another, has started, zombies included."""
    found, parent = set(), os.getpid() if of is None else of
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if int(stat.rpartition(")")[2].split()[1]) == parent:
                found.add(int(entry.name))
    return found


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * resource.getpagesize()


def wait_until(condition: Callable[[], Any], seconds: float) -> bool:
    """Whether ``condition`` comes true within ``seconds``."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def all_gone(pids: Iterable[int], seconds: float = 1.0) -> bool:
    """Whether none of the processes is alive within ``seconds``."""
    return wait_until(functools.partial(_none_alive, list(pids)), seconds)


def _none_alive(pids: list[int]) -> bool:
    return not any(is_alive(pid) for pid in pids)


@contextmanager
def nothing_left_behind() -> Iterator[None]:
    """Requires that no process and no open file is left of what happens inside."""
    gc.collect()
    before = children(), open_files()
    yield
    gc.collect()
    assert wait_until(lambda: children() <= before[0], 2), children() - before[0]
    assert open_files() <= before[1]
