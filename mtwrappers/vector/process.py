"""Worker processes as their parent sees them: starting them, telling them, and how they end."""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing as mp
import os
import pickle
import select
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.vector.block import Answer
from mtwrappers.vector.blocks import Function
from mtwrappers.vector.buffers import anonymous_file
from mtwrappers.vector.messages import ALIVE, Channel, decode_answer
from mtwrappers.vector.pool import (
    ALIVE_CHECK,
    Worker,
    WorkerLost,
    WorkerPool,
    pickled_function,
)
from mtwrappers.vector.worker import main

# The ends of pipes that are closed when this process ends, by which workers know it. A process that
# is forked from this one must not keep them open.
_lives: set[int] = set()
_processes: weakref.WeakSet[Any] = weakref.WeakSet()  # those that this process has started


def _leave_workers() -> None:
    """Leaves a parent's workers alone, in a process that was forked from it."""
    while _lives:
        os.close(_lives.pop())
    # At the end of a process `multiprocessing` ends its children: after `os.fork()` it takes those
    # of the parent for its own, and offers no other way to say that they are not.
    getattr(mp.process, "_children", set()).difference_update(_processes)
    _processes.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, where there are no workers
    os.register_at_fork(after_in_child=_leave_workers)


class ProcessWorker(Worker):
    """A worker process.

    It starts in the `multiprocessing` context ``context``, with the file ``memory`` as memory that
    it shares with its parent; the other arguments are those of `Worker`.
    """

    def __init__(
        self,
        index: int,
        rows: slice,
        block: bytes,
        timeout: float,
        context: Any,
        memory: int,
    ) -> None:
        super().__init__(index, rows, block, timeout)
        self._context, self._memory = context, memory
        self.process: Any = None
        self._channel: Channel | None = None
        self._results = -1  # the descriptor of a file that it writes large results to
        self._life = -1  # the end of a pipe that it lives as long as

    def start(self) -> None:
        """Starts the process."""
        conn, other = self._context.Pipe()
        self._channel = Channel(conn, self.interrupts)
        self._results = anonymous_file()
        life, self._life = os.pipe()
        _lives.add(self._life)
        # A connection is what `multiprocessing` hands over in every context.
        files = (os.dup(self._memory), os.dup(self._results), life)
        ends = [other, *(Connection(fd) for fd in files)]
        self.process = self._context.Process(
            target=main, args=ends, daemon=True, name=f"mtw-{self.index}"
        )
        _processes.add(self.process)
        self.awaiting_answer = True
        try:
            with _deaf_to_ctrl_c(self._context.get_start_method()):
                self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which shows when it is awaited
        finally:
            for end in ends:
                end.close()

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Tells its block a command."""
        channel = self._channel
        if channel is None:
            return
        if name == "build":
            message = self.block
        elif name == "step" and isinstance(actions := arguments[0], np.ndarray):
            assert self.buffers is not None
            message = actions.dtype.str.encode()
            self.buffers.actions(message)[...] = actions
        else:
            message = cloudpickle.dumps((name, arguments))
        self.awaiting_answer = True
        try:
            channel.send(message, self.timeout)
        except TimeoutError:
            self.give_up()
        except OSError:
            pass
        except BaseException:  # an interrupt has cut it: what follows could not be read
            self.process.kill()
            raise

    def receive(self) -> Answer | None:
        """Takes what has arrived; returns an answer once it is whole."""
        channel = self._channel
        assert channel is not None
        try:
            while (message := channel.feed()) == ALIVE:
                pass
            return None if message is None else decode_answer(message, self._results)
        except (EOFError, OSError) as exc:
            raise WorkerLost from exc

    @staticmethod
    def wait(workers: Sequence[ProcessWorker], seconds: float) -> list[Worker]:
        """Those of some workers from which something has arrived, once there are any."""
        poll = select.poll()
        by_fd: dict[int, Worker] = {}
        for worker in workers:
            assert worker._channel is not None
            fd = worker._channel.fd
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(seconds * 1000))
        return [*map(by_fd.__getitem__, ready)]

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self.process.is_alive())

    def end(self) -> None:
        """Ends the process."""
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join()
        if self._channel is not None:
            self._channel.close()
            self._channel = None  # its number may be that of another file soon
        if self._results >= 0:
            os.close(self._results)
            self._results = -1
        if self._life in _lives:
            _lives.remove(self._life)
            os.close(self._life)

    def give_up(self) -> None:
        """Ends the process because it was silent for too long."""
        if self.is_alive():
            self.hung = True
            self.process.kill()

    def join(self, seconds: float) -> None:
        """Awaits its end."""
        self.process.join(seconds)

    def advice(self) -> str:
        """What to do where it did not even start."""
        if self.started or self._context.get_start_method() == "fork":
            return ""
        return (
            "it ended before it began: start workers only below `if __name__ == '__main__':`, in a "
            "file (not from standard input), or pass context='fork': other contexts import the "
            "main module again in each worker"
        )

    def how_it_ended(self) -> str:
        """How the process ended by itself."""
        self.process.join(ALIVE_CHECK)
        code = self.process.exitcode
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


class ProcessPool(WorkerPool):
    """Blocks in worker processes, which write into memory that this process sees."""

    def __init__(
        self,
        blocks: Sequence[tuple[slice, bytes]],
        envs_per_task: int,
        max_recoveries: int,
        timeout: float,
        context: Any,
    ) -> None:
        self._memory = anonymous_file()  # workers are there before its size is known
        self._processes = [
            ProcessWorker(i, rows, block, timeout, context, self._memory)
            for i, (rows, block) in enumerate(blocks)
        ]
        super().__init__(self._processes, envs_per_task, max_recoveries)

    @property
    def pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._processes]

    def carry(self, function: Function) -> Callable[[], Function]:
        """What brings a function to every worker."""
        return functools.partial(pickle.loads, pickled_function(function))

    def abandon(self) -> None:
        """Ends every worker at once, and gives up the shared memory."""
        super().abandon()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


@contextlib.contextmanager
def _deaf_to_ctrl_c(start_method: str) -> Iterator[None]:
    """A process that is started meanwhile does not hear Ctrl-C before it says what that means."""
    if start_method == "forkserver":  # whose server others use as well
        yield
        return
    if start_method == "spawn":
        resource_tracker.ensure_running()  # else it is started below, and hears Ctrl-C afterwards
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_method(replaces: bool) -> str:
    """How workers start where nobody says: as Python starts processes, but by a safe fork only.

    A fork has none of its parent's threads, but the locks that they held, and may wait for one of
    them for ever.

    Args:
        replaces: Whether lost workers are replaced, beside whatever threads there are by then.
    """
    default = mp.get_start_method(allow_none=True) or mp.get_all_start_methods()[0]
    # As soon as JAX is used, it has threads, and warns of every fork.
    if default == "fork" and (replaces or "jax" in sys.modules or _threads_stay_in_a_fork()):
        return "forkserver"
    return default


def _threads_stay_in_a_fork() -> bool:
    """Whether this process has threads that a fork would lose.

    OpenBLAS has some as soon as NumPy is imported, which it ends before a fork. So where there are
    none of Python's, a fork that ends at once shows whether there are others.
    """
    if len(sys._current_frames()) > 1:
        return True
    if _thread_count() == 1:
        return False
    with warnings.catch_warnings(), _deaf_to_ctrl_c("fork"):
        warnings.simplefilter("ignore")  # of threads: it needs none of their locks
        if (pid := os.fork()) == 0:
            os._exit(0)
    try:
        return _thread_count() > 1
    finally:
        os.waitpid(pid, 0)


def _thread_count() -> int:
    """How many threads this process has; without Linux's ``/proc``, how many Python knows."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return threading.active_count()


def cores() -> int:
    """How many cores this process may use: of those that it may run on, what its quota pays for."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(math.ceil(min(count, _cpu_quota())), 1)


def _cpu_quota(root: Path = Path("/")) -> float:
    """How many CPUs' time the control groups of this process have, in both of their versions."""
    quota = math.inf
    with contextlib.suppress(OSError, ValueError):  # a system without them
        for line in (root / "proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            top = root / "sys/fs/cgroup" / ("cpu" if controllers else "")
            # A container may see the path of its group outside, and its files at the top.
            group = top / path.lstrip("/")
            for place in (group, *group.parents):
                quota = min(quota, _quota_of(place))
                if place == top:
                    break
    return quota


def _quota_of(group: Path) -> float:
    """How many CPUs' time one control group has."""
    with contextlib.suppress(OSError, ValueError):  # "max", or not there
        if (both := group / "cpu.max").exists():
            quota, period = map(int, both.read_text().split())
        else:
            quota = int((group / "cpu.cfs_quota_us").read_text())
            period = int((group / "cpu.cfs_period_us").read_text())
        if quota > 0 and period > 0:
            return quota / period
    return math.inf


def check_process() -> None:
    """Refuses workers in a process that may have none."""
    if mp.current_process().daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )
