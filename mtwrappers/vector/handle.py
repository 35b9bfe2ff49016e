"""The parent's side of a worker: its process, its pipe, and what its infos look like."""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import time
from collections.abc import Iterable
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle

from mtwrappers.vector import worker as protocol
from mtwrappers.vector.infos import Columns

ALIVE_CHECK = 1.0  # seconds between two looks at whether silent workers live


class WorkerHandle:
    """One worker, as its parent sees it.

    Args:
        index: Which worker it is.
        start: The first of its environments.
        stop: One past the last of them.
        payload: What `mtwrappers.vector.worker.main` builds them from.
    """

    def __init__(self, index: int, start: int, stop: int, payload: bytes) -> None:
        self.index, self.start, self.stop = index, start, stop
        self.payload = payload
        self.process: Any = None
        self.conn: Connection | None = None
        self.awaited = False
        self.columns: Columns | None = None
        self.strings: dict[str, list[str]] = {}
        self.names: list[Any] = [None] * (stop - start)  # of tasks, as resets reported them
        self.hung: float | None = None
        self.ready = False  # whether it has all that a worker needs

    @property
    def rows(self) -> slice:
        """Which of all environments it has."""
        return slice(self.start, self.stop)

    def launch(self, context: Any) -> None:
        """Starts the process; its first answer says what it has built."""
        self.conn, other = context.Pipe()
        self.process = context.Process(
            target=protocol.main, args=(other, self.payload), daemon=True, name=f"mtw-{self.index}"
        )
        try:
            self.process.start()
        finally:
            other.close()
        self.awaited = True
        self.columns, self.strings, self.hung = None, {}, None

    def note(self, answer: Any) -> None:
        """Takes from an answer what its later ones will leave out."""
        if isinstance(answer, dict):
            if "layout" in answer:
                layout = answer["layout"]
                self.columns = None if layout is None else Columns(layout)
                self.strings = {}
            self.strings = answer.get("strings", self.strings)

    def send(self, command: str, *arguments: Any) -> None:
        """Sends a command with its arguments."""
        self.send_bytes(cloudpickle.dumps((command, arguments)))

    def send_bytes(self, message: bytes) -> None:
        """Sends a message as it is."""
        assert self.conn is not None
        self.awaited = True
        try:
            self.conn.send_bytes(message)
        except (BrokenPipeError, ConnectionResetError):
            return  # a worker that is gone is found by whoever awaits its answer

    def kill(self) -> None:
        """Ends the process, however it is."""
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join()
        if self.conn is not None:
            self.conn.close()

    def how_it_ended(self) -> str:
        """Its exit code or signal, in words."""
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


Gathered = tuple[dict[int, Any], list[WorkerHandle], "tuple[Exception, str] | None"]


def gather(workers: Iterable[WorkerHandle], timeout: float | None) -> Gathered:
    """Awaits an answer of each worker.

    Args:
        workers: Those that were sent something.
        timeout: Seconds after which a silent one counts as hung, and is killed.

    Returns:
        The answers by the workers' index; the workers that are lost; and the first exception that
        a worker answered with, and its traceback.
    """
    waiting: dict[int, WorkerHandle] = {}
    poll = select.poll()
    for worker in workers:
        assert worker.conn is not None
        fd = worker.conn.fileno()
        waiting[fd] = worker
        poll.register(fd, select.POLLIN)
    answers: dict[int, Any] = {}
    lost: list[WorkerHandle] = []
    failures: dict[int, tuple[Exception, str]] = {}
    deadline = None if timeout is None else time.monotonic() + timeout
    while waiting:
        pause = ALIVE_CHECK
        if deadline is not None:
            pause = min(pause, max(deadline - time.monotonic(), 0.0))
        ready = poll.poll(pause * 1000)
        if not ready:
            late = deadline is not None and time.monotonic() >= deadline
            for fd in _silent(waiting, timeout if late else None):
                poll.unregister(fd)
                lost.append(waiting.pop(fd))
            continue
        for fd, _ in ready:
            worker = waiting.pop(fd)
            poll.unregister(fd)
            try:
                message = worker.conn.recv_bytes()  # type: ignore[union-attr]
            except (EOFError, ConnectionResetError):
                lost.append(worker)
                continue
            worker.awaited = False
            if message == protocol.DONE:
                answers[worker.index] = None
                continue
            answer = pickle.loads(message)
            if answer[0] == protocol.ERROR:
                failures[worker.index] = answer[1], answer[2]
            else:
                worker.note(answer[1])
                answers[worker.index] = answer[1]
    # That of the first environments, as a single process would raise it.
    failure = failures[min(failures)] if failures else None
    return answers, lost, failure


def _silent(waiting: dict[int, WorkerHandle], late: float | None) -> list[int]:
    """The descriptors of those that are dead, or of all, if they are ``late`` (seconds)."""
    found = []
    for fd, worker in waiting.items():
        if late is not None or not worker.process.is_alive():
            if worker.process.is_alive():
                worker.hung = late
                worker.process.kill()
            found.append(fd)
    return found
