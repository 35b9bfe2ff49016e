"""Worker processes as their parent sees them: starting them, and how they end."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import pickle
import signal
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cloudpickle

from mtwrappers.vector.buffers import anonymous_file
from mtwrappers.vector.channel import Channel
from mtwrappers.vector.journal import Entry
from mtwrappers.vector.worker import main

ALIVE_CHECK = 1.0  # seconds between two looks at whether silent workers live

GUARD = (
    "it ended before it began: start workers only below `if __name__ == '__main__':`, in a file "
    "(not from standard input), or pass context='fork': other contexts import the main module "
    "again in each worker"
)


def command(name: str, *arguments: Any) -> bytes:
    """A command to a worker as a message."""
    return bytes(cloudpickle.dumps((name, arguments)))


class Request(NamedTuple):
    """What workers are asked together.

    Attributes:
        name: The command.
        message: The message for the worker that has these environments.
        entries: What the journal notes of each environment once it is answered.
    """

    name: str
    message: Callable[[slice], bytes]
    entries: Sequence[Entry | None] | None = None


class Worker:
    """One worker process.

    Args:
        index: Which worker it is.
        rows: Its environments.
        block: What it builds them from, for `mtwrappers.vector.server.BlockServer`.
        context: The `multiprocessing` context to start it in.
    """

    shared = True  # whether what it writes is seen at once

    def __init__(self, index: int, rows: slice, block: bytes, context: Any = None) -> None:
        self.index, self.rows, self.block = index, rows, block
        self._context = context
        self.process: Any = None
        self.channel: Channel | None = None
        self.results = -1  # the descriptor of a file that it writes large results to
        self.owes = 0  # how many answers it still owes
        self.request: Request | None = None  # what it was asked and has not answered
        self.started = False
        self.ready = False  # whether it has built its environments, and they are where they belong
        self.hung: float | None = None  # the seconds that it was silent
        self.names: list[Any] = [None] * (rows.stop - rows.start)  # of tasks, as resets said

    def start(self) -> None:
        """Starts the process, which first answers ``STARTED``."""
        self.started, self.hung = False, None
        conn, other = self._context.Pipe()
        self.channel = Channel(conn)
        self.results = anonymous_file(0)
        self.process = self._context.Process(
            target=main, args=(other,), daemon=True, name=f"mtw-{self.index}"
        )
        self.owes = 1
        try:
            self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which shows when it is awaited
        finally:
            other.close()

    def post(self, data: bytes) -> Any:
        """What a message says of large data, for `BlockServer` to fetch."""
        return data

    def first_message(self) -> bytes:
        """What it builds its environments from."""
        return pickle.dumps(self.post(self.block))

    def connect(self) -> bool:
        """Awaits its channel, and says whether it came."""
        return True

    def hand_over(self, memory: int) -> None:
        """Hands it the shared memory, which it awaits."""
        if self.channel is not None:
            self.owes += 1
            with contextlib.suppress(OSError):  # of one that is gone
                self.channel.send_fds([memory, self.results])

    def take_rows(self, rows: bytes) -> None:
        """Takes what it has written, which shared memory shows by itself."""

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join()
        if self.channel is not None:
            self.channel.close()
        if self.results >= 0:
            os.close(self.results)
            self.results = -1
        self.owes, self.ready = 0, False

    def give_up(self, timeout: float | None) -> None:
        """Ends the process because it was silent for ``timeout`` seconds."""
        if self.process.is_alive():
            self.hung = timeout
            self.process.kill()

    def describe(self, envs_per_task: int) -> str:
        """How it ended, and which environments and tasks it had."""
        first, last = self.rows.start, self.rows.stop - 1
        tasks = list(range(first // envs_per_task, last // envs_per_task + 1))
        names = dict.fromkeys(str(name) for name in self.names if name)
        named = f" ({', '.join(names)})" if names else ""
        return (
            f"worker {self.index} {self._how_it_ended()}, with environments {first} to {last} of "
            f"tasks {tasks}{named}"
        )

    def advice(self) -> str:
        """What to do where it did not even start."""
        return "" if self.started or self._context.get_start_method() == "fork" else GUARD

    def _how_it_ended(self) -> str:
        if self.hung is not None:
            return f"hung: it did not answer within {self.hung:g} s"
        self.process.join(ALIVE_CHECK)
        code = self.process.exitcode
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"


def cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_process() -> None:
    """Refuses workers in a process that may have none."""
    if getattr(mp.current_process(), "_inheriting", False):
        raise RuntimeError(f"a worker that is only starting cannot start workers; {GUARD}")
    if mp.current_process().daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )
