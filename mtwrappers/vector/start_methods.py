"""The start method of worker processes, and Ctrl-C while they start."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from multiprocessing import resource_tracker


@contextlib.contextmanager
def deaf_to_ctrl_c(start_method: str) -> Iterator[None]:
    """Blocks Ctrl-C in a process that is started meanwhile, until it unblocks it."""
    if start_method == "forkserver":  # its server is shared with other code
        yield
        return
    if start_method == "spawn":
        resource_tracker.ensure_running()  # so that it is not started below with Ctrl-C blocked
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def default_start_method(replaces: bool) -> str:
    """The default start method of workers: Python's, but ``"forkserver"`` if a fork is unsafe.

    A fork has none of its parent's threads, but keeps the locks that they held, and may wait for
    one of them forever.

    Args:
        replaces: Whether lost workers are replaced, when there may be more threads.
    """
    default = mp.get_start_method(allow_none=True) or mp.get_all_start_methods()[0]
    # As soon as JAX is used, it has threads, and warns of every fork.
    if default == "fork" and (replaces or "jax" in sys.modules or _threads_stay_in_a_fork()):
        return "forkserver"
    return default


def _threads_stay_in_a_fork() -> bool:
    """Whether this process has threads that a fork would lose.

    OpenBLAS has threads as soon as NumPy is imported, and ends them before a fork. So if there are
    no Python threads, a fork that exits at once reveals whether there are others.
    """
    if len(sys._current_frames()) > 1:
        return True
    if _thread_count() == 1:
        return False
    with warnings.catch_warnings(), deaf_to_ctrl_c("fork"):
        warnings.simplefilter("ignore")  # about threads: this fork needs none of their locks
        if (pid := os.fork()) == 0:
            os._exit(0)
    with contextlib.suppress(ChildProcessError):  # another part of the program collected it first
        os.waitpid(pid, 0)
    return _thread_count() > 1


def _thread_count() -> int:
    """The number of threads of this process; without Linux's ``/proc``, of Python's threads."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return threading.active_count()
