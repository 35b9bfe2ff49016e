"""Messages to workers, and their answers, together with what the journal notes of them."""

from __future__ import annotations

import math
import select
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from mtwrappers.errors import WorkerTraceback
from mtwrappers.vector.answers import Answer, read_answer
from mtwrappers.vector.journal import Journal
from mtwrappers.vector.process import ALIVE_CHECK, Request, Worker


class Answers(NamedTuple):
    """What workers have answered."""

    results: dict[int, Any]  # by the worker's index
    lost: list[Worker]
    failure: Exception | None  # of the first environments, as a single process would raise it


class Exchange:
    """Sends messages to workers and awaits their answers.

    Attributes:
        journal: What the environments were told, if it is kept.

    Args:
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
    """

    def __init__(self, timeout: float | None) -> None:
        self.journal: Journal | None = None
        self._timeout = timeout

    def say(self, workers: Sequence[Worker], message: Callable[[Worker], bytes]) -> Answers:
        """Sends each worker a message, and awaits what they answer."""
        for worker in workers:
            self.send(worker, message(worker))
        return self.gather(workers)

    def send(self, worker: Worker, message: bytes) -> None:
        """Sends a worker a message. One that is gone, or takes none, is lost when awaited."""
        channel = worker.channel
        assert channel is not None
        worker.owes += 1
        try:
            channel.send(message, self._deadline())
        except TimeoutError:
            worker.give_up(self._timeout)
        except OSError:
            pass
        finally:
            if channel.cut:  # by an interrupt: what follows could not be read
                worker.process.kill()

    def gather(self, workers: Iterable[Worker]) -> Answers:
        """Awaits the answers that workers owe."""
        waiting: dict[int, Worker] = {}
        poll = select.poll()
        for worker in workers:
            assert worker.channel is not None
            waiting[worker.channel.fd] = worker
            poll.register(worker.channel.fd, select.POLLIN)
        results: dict[int, Any] = {}
        lost: list[Worker] = []
        failures: dict[int, Exception] = {}
        deadlines = dict.fromkeys(waiting, self._deadline())
        now = time.monotonic()
        look = now + ALIVE_CHECK
        while waiting:
            gone = []
            ready = dict(poll.poll(max(min(look, *deadlines.values()) - now, 0.0) * 1000))
            for fd in ready:
                worker = waiting[fd]
                channel: Any = worker.channel
                deadlines[fd] = self._deadline()
                try:
                    while worker.owes and (message := channel.feed()) is not None:
                        self._take(worker, message, results, failures)
                except (EOFError, OSError):
                    gone.append(fd)
                    continue
                if not worker.owes:
                    poll.unregister(fd)
                    del waiting[fd], deadlines[fd]
            now = time.monotonic()
            if now >= look:  # however much others say: a node may vanish without a word
                silent = waiting.keys() - ready.keys()
                gone += [fd for fd in silent if not waiting[fd].process.is_alive()]
                look = now + ALIVE_CHECK
            for fd, worker in waiting.items():
                if now >= deadlines[fd]:
                    worker.give_up(self._timeout)
                    gone.append(fd)
            for fd in dict.fromkeys(gone):
                poll.unregister(fd)
                lost.append(waiting.pop(fd))
                del deadlines[fd]
        lost.sort(key=lambda worker: worker.index)
        return Answers(results, lost, failures[min(failures)] if failures else None)

    def _take(
        self,
        worker: Worker,
        message: bytes,
        results: dict[int, Any],
        failures: dict[int, Exception],
    ) -> None:
        """Takes an answer."""
        answer = read_answer(message, worker.results)
        if answer is None:
            return
        worker.owes -= 1
        if answer.rows is not None:
            worker.take_rows(answer.rows)
        if answer.failure is None:
            results[worker.index] = answer.result
        else:
            failures[worker.index], traceback = answer.failure
            failures[worker.index].__cause__ = WorkerTraceback(traceback)
        if worker.ready and worker.request is not None:
            self._note(worker, worker.request, answer)
            worker.request = None

    def _note(self, worker: Worker, request: Request, answer: Answer) -> None:
        """Lets the journal know what a worker's environments have done."""
        if self.journal is None or request.entries is None:
            return
        rows = worker.rows
        if answer.failure is None and request.name == "run":
            self.journal.take(answer.states, rows.start)
        elif answer.failure is None:
            played = request.name != "call" and answer.result is not None
            objects = answer.result[0] if played else None
            self.journal.note(rows, request.entries[rows], answer.states or {}, objects)
        elif request.name == "call":
            called = slice(rows.start, rows.start + answer.states)
            self.journal.note(called, request.entries[called], {})
        else:
            self.journal.note_failure(rows, answer.states)

    def _deadline(self) -> float:
        return math.inf if self._timeout is None else time.monotonic() + self._timeout
