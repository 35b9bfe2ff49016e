"""Workers that are asked together, and replaced where they are lost meanwhile."""

from __future__ import annotations

import contextlib
import select
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np

from mtwrappers.errors import WorkerDiedError, WorkerTraceback
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.journal import Journal
from mtwrappers.vector.messages import Answer, command, read_answer
from mtwrappers.vector.process import ALIVE_CHECK, Request, Worker

CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: where it still stands, none has.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)


class Crew:
    """The workers of an executor, which are asked together.

    Every method raises `WorkerDiedError` if a worker is lost and cannot be replaced, and otherwise
    what a worker answered with. After a `WorkerDiedError` no worker is of use.
    """

    buffers: Buffers  # what environments write to, once they are built
    journal: Journal | None = None  # what they were told; only with it workers are replaced

    def __init__(self, envs_per_task: int) -> None:
        self.workers: Sequence[Worker] = ()
        self.max_recoveries = 0  # how often in a row workers may be lost in the same call
        self.recoveries = 0  # how many workers have been replaced
        self._envs_per_task = envs_per_task  # by which errors name the tasks of a worker
        self._setup: list[bytes] = []  # commands that prepare a worker, beside its own block

    # What an executor asks for.

    def build(self, workers: Sequence[Worker]) -> list[Any]:
        """Starts workers, and returns what each has built."""
        self.workers = workers
        if lost := self._start(workers) or self._say(workers, Worker.first_message):
            self._die(lost)
        built = _results(workers)
        for worker in workers:
            worker.ready = True
        return built

    def prepare(self, message: bytes) -> None:
        """Tells every worker something that its successors are to know as well."""
        self._setup.append(message)
        self.ask(Request("prepare", lambda worker: message))

    def ask(self, request: Request) -> list[Any]:
        """The answer of every worker."""
        self.begin(request)
        return self.end()

    def begin(self, request: Request) -> None:
        """Asks every worker."""
        self.settle()
        for worker in self.workers:
            worker.request = request
            worker.send(request.message(worker))

    def end(self) -> list[Any]:
        """The answer of every worker to what was begun."""
        return self._finish(self.workers)

    def settle(self) -> None:
        """Takes the answers that an interrupted call has left behind, and replaces the lost."""
        late = [worker for worker in self.workers if worker.owes or not worker.ready]
        if late:
            try:
                self._finish(late)
            except WorkerDiedError:
                raise
            except Exception as exc:
                gymnasium.logger.warn(f"an interrupted call had failed: {exc}")

    def close(self) -> None:
        """Lets workers close their environments, and ends those that do not in time."""
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for worker in self.workers:
            if worker.channel is not None:
                with contextlib.suppress(OSError):
                    worker.channel.send(command("close"), deadline)
        for worker in self.workers:
            if worker.process is not None and worker.process.pid is not None:
                worker.process.join(max(deadline - time.monotonic(), 0.0))
        self.kill()

    def kill(self) -> None:
        """Ends every worker at once."""
        for worker in self.workers:
            worker.kill()

    # Building and replacing.

    def _finish(self, workers: Sequence[Worker]) -> list[Any]:
        """The answers of workers that were asked, or of those that had to take their places."""
        lost = self._gather([worker for worker in workers if worker.ready])
        lost += [worker for worker in workers if not worker.ready]
        attempts = 0
        while lost:
            if self.journal is None or attempts == self.max_recoveries:
                self._die(lost, attempts)
            attempts += 1
            self.recoveries += len(lost)
            reason = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
            gymnasium.logger.warn(f"{reason}; another one takes its place")
            lost = self._replace(lost, self.journal, reason)
        return _results(workers)

    def _replace(self, workers: list[Worker], journal: Journal, reason: str) -> list[Worker]:
        """Starts workers where others were lost, brings them there, and asks them again.

        Returns those that are lost again.
        """
        for worker in workers:
            worker.kill()
        lost = self._start(workers)
        messages: list[Callable[[Worker], bytes]] = [
            Worker.first_message,
            *(lambda _, told=told: told for told in self._setup),
            lambda worker: command("replay", journal.pasts(worker.rows)),
        ]
        for message in messages:
            here = [worker for worker in workers if worker not in lost]
            lost += self._say(here, message)
            try:
                _results(here)
            except Exception as exc:
                raise WorkerDiedError(f"{reason}, and cannot be recovered: {exc}") from exc
        asked = []
        for worker in workers:
            if worker in lost:
                continue
            worker.ready = True
            if worker.request is not None:
                if worker.request.name == "step":
                    self.buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
                worker.send(worker.request.message(worker))
                asked.append(worker)
        return lost + self._gather(asked)

    def _start(self, workers: Sequence[Worker]) -> list[Worker]:
        """Starts workers; returns the lost."""
        for worker in workers:
            worker.start()
        self._gather([worker for worker in workers if worker.connect()])
        for worker in workers:
            worker.started = worker.answer is not None
        return [worker for worker in workers if not worker.started]

    def _say(self, workers: Sequence[Worker], message: Callable[[Worker], bytes]) -> list[Worker]:
        """Sends each worker a message, and awaits what they answer; returns the lost."""
        for worker in workers:
            worker.send(message(worker))
        return self._gather(workers)

    def _gather(self, workers: Sequence[Worker]) -> list[Worker]:
        """Awaits the answers that workers owe; returns the lost."""
        waiting: dict[int, Worker] = {}
        deadlines: dict[int, float] = {}
        poll = select.poll()
        for worker in workers:
            assert worker.channel is not None
            fd = worker.channel.fd
            waiting[fd], deadlines[fd] = worker, worker.deadline()
            poll.register(fd, select.POLLIN)
        lost: list[Worker] = []
        now = time.monotonic()
        look = now + ALIVE_CHECK
        while waiting:
            gone = []
            ready = dict(poll.poll(max(min(look, *deadlines.values()) - now, 0.0) * 1000))
            for fd in ready:
                worker = waiting[fd]
                channel: Any = worker.channel
                try:
                    while worker.owes and (message := channel.feed()) is not None:
                        if (answer := read_answer(message, worker.results)) is not None:
                            self._take(worker, answer)
                except (EOFError, OSError):
                    gone.append(fd)
                    continue
                if worker.owes:
                    deadlines[fd] = worker.deadline()
                else:
                    poll.unregister(fd)
                    del waiting[fd], deadlines[fd]
            now = time.monotonic()
            if now >= look:  # however much others say: a node may vanish without a word
                silent = waiting.keys() - ready.keys()
                gone += [fd for fd in silent if not waiting[fd].process.is_alive()]
                look = now + ALIVE_CHECK
            for fd, worker in waiting.items():
                if now >= deadlines[fd]:
                    worker.give_up()
                    gone.append(fd)
            for fd in dict.fromkeys(gone):
                poll.unregister(fd)
                lost.append(waiting.pop(fd))
                del deadlines[fd]
        return sorted(lost, key=lambda worker: worker.index)

    def _take(self, worker: Worker, answer: Answer) -> None:
        """Takes an answer, and lets the journal know what the worker's environments have done."""
        worker.owes = False
        worker.answer = answer
        if answer.rows is not None:
            worker.take_rows(answer.rows)
        if not worker.ready or worker.request is None:
            return
        name, _, entries = worker.request
        worker.request = None
        journal, rows = self.journal, worker.rows
        if journal is None or entries is None:
            return
        if answer.failure is not None:
            journal.note_failure(rows, name, entries[rows], answer.states)
        elif name == "run":
            journal.take(answer.states, rows.start)
        else:
            played = name != "call" and answer.result is not None
            objects = answer.result[0] if played else None
            journal.note(rows, entries[rows], answer.states or {}, objects)

    def _die(self, lost: Sequence[Worker], attempts: int = 0) -> NoReturn:
        said = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
        if attempts:
            said += f"; workers were lost {attempts + 1} times in the same call"
            said += "".join(self._culprit(worker) for worker in lost)
        said += "".join(f"; {advice}" for advice in {w.advice(): None for w in lost} if advice)
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _culprit(self, worker: Worker) -> str:
        """Which environment was stepped when a worker died in a step that was taken again."""
        request, first = worker.request, worker.rows.start
        if request is None or request.entries is None or request.name != "step":
            return ""
        if not worker.shared:  # nothing says how far it came
            return ""
        rewards = self.buffers.rewards[worker.rows].view(np.uint64)
        for place in np.flatnonzero(rewards == _NO_REWARD).tolist():
            name = f", task {worker.names[place]!r}" if worker.names[place] else ""
            entry = request.entries[first + place]
            action = entry[1] if entry else None
            return f", by environment {first + place}{name}, stepped with action {action}"
        return ""


def _results(workers: Sequence[Worker]) -> list[Any]:
    """What workers have answered; raises the first failure, as a single process would."""
    answers = [worker.answer for worker in workers]
    for worker in workers:
        worker.answer = None
    for answer in answers:
        if answer is not None and answer.failure is not None:
            failure, traceback = answer.failure
            raise failure from WorkerTraceback(traceback)
    return [None if answer is None else answer.result for answer in answers]
