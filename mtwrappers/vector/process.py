"""Worker processes as their parent sees them: starting them, telling them, and how they end."""

from __future__ import annotations

import contextlib
import math
import multiprocessing as mp
import os
import pickle
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from mtwrappers.vector.buffers import anonymous_file
from mtwrappers.vector.journal import Entry
from mtwrappers.vector.messages import Answer, Channel
from mtwrappers.vector.worker import main

ALIVE_CHECK = 1.0  # seconds between two looks at whether silent workers live


class Request(NamedTuple):
    """What workers are asked together."""

    name: str
    message: Callable[[Worker], bytes]
    # What the journal notes of each environment once it is answered.
    entries: Sequence[Entry | None] | None = None


class Worker:
    """One worker process, with the environments ``rows``.

    ``block`` is what `BlockServer` builds them from, ``timeout`` the seconds after which it counts
    as hung if it is silent; it starts in the `multiprocessing` context ``context``, with the file
    ``memory`` as memory that it shares with its parent.
    """

    shared = True  # whether what it writes is seen at once

    def __init__(
        self,
        index: int,
        rows: slice,
        block: Any,
        timeout: float | None,
        context: Any = None,
        memory: int = -1,
    ) -> None:
        self.index, self.rows, self.block, self.timeout = index, rows, block, timeout
        self._context, self._memory = context, memory
        self.process: Any = None
        self.channel: Channel | None = None
        self.results = -1  # the descriptor of a file that it writes large results to
        self.owes = False  # whether an answer is due
        self.answer: Answer | None = None  # the last, until it is used
        self.request: Request | None = None  # what it was asked and has not answered
        self.started = False
        self.ready = False  # whether it has built its environments, and they are where they belong
        self.hung = False
        self.names: list[Any] = [None] * (rows.stop - rows.start)  # of tasks, as resets said

    def start(self) -> None:
        """Starts the process, which first answers ``STARTED``."""
        self.hung = False
        conn, other = self._context.Pipe()
        self.channel = Channel(conn)
        self.results = anonymous_file()
        # A connection is what `multiprocessing` hands over in every context.
        ends = [other, *(Connection(os.dup(fd)) for fd in (self._memory, self.results))]
        self.process = self._context.Process(
            target=main, args=ends, daemon=True, name=f"mtw-{self.index}"
        )
        self.owes = True
        try:
            self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which shows when it is awaited
        finally:
            for end in ends:
                end.close()

    def post(self, data: bytes) -> Any:
        """What a message says of large data, for `BlockServer` to fetch."""
        return data

    def first_message(self) -> bytes:
        """What it builds its environments from."""
        return pickle.dumps(self.post(self.block))

    def connect(self) -> bool:
        """Awaits its channel, and says whether it came."""
        return True

    def send(self, message: bytes) -> None:
        """Sends it a message. If it is gone, or takes none, that shows when it is awaited."""
        channel = self.channel
        assert channel is not None
        self.owes = True
        try:
            channel.send(message, self.deadline())
        except TimeoutError:
            self.give_up()
        except OSError:
            pass
        finally:
            if channel.cut:  # by an interrupt: what follows could not be read
                self.process.kill()

    def deadline(self) -> float:
        """When it counts as hung if it is silent from now on."""
        return math.inf if self.timeout is None else time.monotonic() + self.timeout

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
        self.owes, self.ready, self.answer = False, False, None

    def give_up(self) -> None:
        """Ends the process because it was silent for too long."""
        if self.process.is_alive():
            self.hung = True
            self.process.kill()

    def describe(self, envs_per_task: int) -> str:
        """How it ended, and which environments and tasks it had."""
        first, last = self.rows.start, self.rows.stop - 1
        tasks = list(range(first // envs_per_task, last // envs_per_task + 1))
        names = dict.fromkeys(str(name) for name in self.names if name)
        named = f" ({', '.join(names)})" if names else ""
        how = f"hung: it did not answer within {self.timeout:g} s" if self.hung else self._end()
        which = f"environments {first} to {last} of tasks {tasks}{named}"
        return f"worker {self.index} {how}, with {which}"

    def advice(self) -> str:
        """What to do where it did not even start."""
        if self.started or self._context.get_start_method() == "fork":
            return ""
        return (
            "it ended before it began: start workers only below `if __name__ == '__main__':`, in a "
            "file (not from standard input), or pass context='fork': other contexts import the "
            "main module again in each worker"
        )

    def _end(self) -> str:
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


def cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_process() -> None:
    """Refuses workers in a process that may have none."""
    if mp.current_process().daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )
