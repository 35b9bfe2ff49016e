"""Workers that are asked together, and replaced where they are lost meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium

from mtwrappers.errors import WorkerDiedError
from mtwrappers.vector.journal import Journal
from mtwrappers.vector.pool import GUARD, Answers, Worker, WorkerPool, command

# Which arguments a command has for the environments in these rows.
ArgumentsOf = Callable[[slice], tuple[Any, ...]]


class Crew:
    """The workers of an executor.

    Every method raises `WorkerDiedError` if a worker is lost and may not be replaced, or is lost
    again while it is replaced, and otherwise what a worker answered with.

    Attributes:
        pool: The worker processes.
        journal: What a worker that takes another's place is told.
        restarted: Workers that took another's place since the last step, with the answer
            (observations that are not arrays, infos) of their first reset.

    Args:
        pool: None of its workers started yet.
        num_envs: How many environments there are.
        envs_per_task: By which errors name the tasks of a worker.
        restarts: Whether a lost worker is replaced.
    """

    def __init__(self, pool: WorkerPool, num_envs: int, envs_per_task: int, restarts: bool) -> None:
        self.pool, self.restarts = pool, restarts
        self.journal = Journal(num_envs)
        self.restarted: dict[Worker, Any] = {}
        self._envs_per_task = envs_per_task
        self._unfinished: set[Worker] = set()  # whose replacement was interrupted
        self._stepping: list[Worker] = []

    def build(self, workers: Sequence[Worker]) -> list[Any]:
        """Starts workers, and returns what each has built."""
        return self._certain(self.pool.build(workers))

    def share(self, fd: int, message: bytes) -> None:
        """Gives every worker the shared memory.

        Args:
            fd: Its file descriptor, which stays open.
            message: The command that says how it is laid out.
        """
        self._memory = fd, message
        self._share(self.pool.workers)

    def ask(self, name: str, arguments: ArgumentsOf) -> list[Any]:
        """The answer of every worker to a command."""
        self.settle()
        workers = self.pool.workers
        messages = {worker: command(name, *arguments(worker.rows)) for worker in workers}
        self.pool.send(messages)
        results = self._gather(workers)
        for worker in workers:
            if worker.index not in results:
                results[worker.index] = self._tell(worker, messages[worker])
        return [results[worker.index] for worker in workers]

    def begin_step(self, message: Callable[[slice], bytes]) -> None:
        """Sends a step, but not to those that were restarted: they have an observation to show."""
        self._stepping = [w for w in self.pool.workers if w not in self.restarted]
        self.pool.send({worker: message(worker.rows) for worker in self._stepping})

    def end_step(self) -> dict[int, Any]:
        """The answers to a step by the workers' index, without those in ``restarted``."""
        return self._gather(self._stepping)

    def settle(self) -> None:
        """Takes the answers that an interrupted call has left behind."""
        late = [worker for worker in self.pool.workers if worker.owes]
        if late:
            try:
                self._gather(late)
            except WorkerDiedError:
                raise
            except Exception as exc:
                gymnasium.logger.warn(f"an interrupted call had failed: {exc}")
        for worker in [*self._unfinished]:
            self._replace(worker)

    def _gather(self, workers: Sequence[Worker]) -> dict[int, Any]:
        """The answers of workers by their index, without those that had to be replaced."""
        results, lost, failure = self.pool.gather(workers)
        if lost and not self.restarts:
            self._die(lost)
        for worker in lost:
            self._replace(worker)
        if failure is not None:
            raise failure
        return results

    def _replace(self, worker: Worker) -> None:
        """Puts a new worker in the place of a lost one, in the same state but for its episodes."""
        self._unfinished.add(worker)
        worker.kill()
        self.build([worker])
        self._share([worker])
        for told in self.journal.messages(worker.rows):
            self._tell(worker, told)
        if (message := self.journal.restart(worker.rows)) is not None:
            self.restarted[worker] = self._tell(worker, message)
        self._unfinished.discard(worker)

    def _tell(self, worker: Worker, message: bytes) -> Any:
        """The answer of a single worker, which may not be lost now."""
        self.pool.send({worker: message})
        return self._certain(self.pool.gather([worker]))[0]

    def _share(self, workers: Sequence[Worker]) -> None:
        fd, message = self._memory
        self.pool.send(dict.fromkeys(workers, message))
        self._certain(self.pool.gather(workers))
        self.pool.send_fd(workers, fd)
        self._certain(self.pool.gather(workers))

    def _certain(self, answers: Answers) -> list[Any]:
        """The answers of workers that may not be lost now, in their order."""
        if answers.lost:
            self._die(answers.lost)
        if answers.failure is not None:
            raise answers.failure
        return [result for _, result in sorted(answers.results.items())]

    def _die(self, lost: Sequence[Worker]) -> NoReturn:
        said = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
        if self.pool.start_method != "fork" and not all(worker.started for worker in lost):
            said += f"; it ended before it began: {GUARD}"
        raise WorkerDiedError(f"{said}; all workers were closed")
