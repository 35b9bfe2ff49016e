"""Workers that are asked together, and replaced where they are lost meanwhile."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np

from mtwrappers.errors import WorkerDiedError
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.exchange import Answers, Exchange
from mtwrappers.vector.process import Request, Worker, command

CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: where it still stands, none has.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)


class Crew:
    """The workers of an executor, which are asked together.

    Every method raises `WorkerDiedError` if a worker is lost and cannot be replaced, and otherwise
    what a worker answered with. After a `WorkerDiedError` no worker is of use.

    Attributes:
        workers: The worker processes.
        exchange: How they are talked to; lost workers are replaced where it has a journal.
        recoveries: How many workers have been replaced.

    Args:
        workers: None of them started yet.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        envs_per_task: By which errors name the tasks of a worker.
        max_recoveries: How often in a row workers may be lost in the same call.
    """

    def __init__(
        self,
        workers: Sequence[Worker],
        timeout: float | None,
        envs_per_task: int,
        max_recoveries: int,
    ) -> None:
        self.workers = workers
        self.exchange = Exchange(timeout)
        self.recoveries = 0
        self._envs_per_task, self._max_recoveries = envs_per_task, max_recoveries
        self._setup: list[bytes] = []  # commands that prepare a worker, beside its own block

    # What an executor asks for.

    def build(self) -> list[Any]:
        """Starts the workers, and returns what each has built."""
        self._certain(self._start(self.workers))
        return self._certain(self.exchange.say(self.workers, Worker.first_message))

    def share(self, fd: int, buffers: Buffers, layout: bytes) -> None:
        """Gives every worker the memory.

        Args:
            fd: The file descriptor of shared memory, which stays open; -1 if there is none.
            buffers: The arrays of all environments.
            layout: How they are laid out.
        """
        self._fd, self._memory, self._buffers = fd, layout, buffers
        self._certain(self._share(self.workers))
        for worker in self.workers:
            worker.ready = True

    def prepare(self, message: bytes) -> None:
        """Tells every worker something that its successors are to know as well."""
        self._setup.append(message)
        self.ask(Request("prepare", lambda rows: message))

    def ask(self, request: Request) -> list[Any]:
        """The answer of every worker."""
        self.begin(request)
        return self.end()

    def begin(self, request: Request) -> None:
        """Asks every worker."""
        self.settle()
        for worker in self.workers:
            worker.request = request
            self.exchange.send(worker, request.message(worker.rows))

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
        waiting = [worker for worker in workers if worker.ready]
        results, _, failure = answers = self.exchange.gather(waiting)
        lost = [worker for worker in workers if worker not in waiting or worker in answers.lost]
        attempts = 0
        while lost:
            if self.exchange.journal is None or attempts == self._max_recoveries:
                self._die(lost, attempts)
            attempts += 1
            self.recoveries += len(lost)
            reason = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
            gymnasium.logger.warn(f"{reason}; another one takes its place")
            for worker in lost:
                worker.kill()
            again = self._replace(lost, reason)
            results.update(again.results)
            failure = failure or again.failure
            lost = again.lost
        if failure is not None:
            raise failure
        return [results.get(worker.index) for worker in workers]

    def _replace(self, workers: list[Worker], reason: str) -> Answers:
        """Starts workers where others were lost, brings them there, and asks them again."""
        journal = self.exchange.journal
        assert journal is not None
        steps: list[Callable[[list[Worker]], Answers]] = [
            self._start,
            lambda some: self.exchange.say(some, Worker.first_message),
            self._share,
            *(
                lambda some, told=told: self.exchange.say(some, lambda _: told)
                for told in self._setup
            ),
            lambda some: self.exchange.say(
                some, lambda worker: command("replay", journal.pasts(worker.rows))
            ),
        ]
        lost: list[Worker] = []
        for step in steps:
            answers = step([worker for worker in workers if worker not in lost])
            if answers.failure is not None:
                said = f"{reason}, and cannot be recovered: {answers.failure}"
                raise WorkerDiedError(said) from answers.failure
            lost += answers.lost
        asked = []
        for worker in workers:
            if worker in lost:
                continue
            worker.ready = True
            if worker.request is not None:
                if worker.request.name == "step":
                    self._buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
                self.exchange.send(worker, worker.request.message(worker.rows))
                asked.append(worker)
        answers = self.exchange.gather(asked)
        return Answers(answers.results, lost + answers.lost, answers.failure)

    def _start(self, workers: Sequence[Worker]) -> Answers:
        for worker in workers:
            worker.start()
        here = [worker for worker in workers if worker.connect()]
        answers = self.exchange.gather(here)
        for index in answers.results:
            self.workers[index].started = True
        gone = [worker for worker in workers if worker not in here]
        return answers._replace(lost=gone + answers.lost)

    def _share(self, workers: Sequence[Worker]) -> Answers:
        first = self.exchange.say(workers, lambda _: self._memory)
        if self._fd < 0:
            return first
        here = [worker for worker in workers if worker not in first.lost]
        for worker in here:
            worker.hand_over(self._fd)
        second = self.exchange.gather(here)
        return Answers({}, first.lost + second.lost, first.failure or second.failure)

    def _certain(self, answers: Answers) -> list[Any]:
        """The answers of workers that may not be lost now, in their order."""
        if answers.lost:
            self._die(answers.lost)
        if answers.failure is not None:
            raise answers.failure
        return [result for _, result in sorted(answers.results.items())]

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
        rewards = self._buffers.rewards[worker.rows].view(np.uint64)
        for place in np.flatnonzero(rewards == _NO_REWARD).tolist():
            name = f", task {worker.names[place]!r}" if worker.names[place] else ""
            entry = request.entries[first + place]
            action = entry[1] if entry else None
            return f", by environment {first + place}{name}, stepped with action {action}"
        return ""
