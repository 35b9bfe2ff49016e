"""The workers of a parallel executor: talking to all of them, and replacing those that are lost."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium

from mtwrappers.errors import WorkerDiedError, WorkerTraceback
from mtwrappers.vector.handle import WorkerHandle, gather

CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments

# Which arguments a command has for the environments in these rows.
ArgumentsOf = Callable[[slice], tuple[Any, ...]]


class Crew:
    """Worker processes that answer together.

    What all workers were told and must not forget is kept (`remember`): a worker that takes the
    place of a lost one is told the same, in the same order.

    Args:
        workers: One a block of environments, none launched yet.
        context: The `multiprocessing` context to start them in.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        restarts: Whether a lost worker is replaced, rather than an error.
        envs_per_task: By which errors name the tasks of a worker.
        equip: Sends a new worker what it needs beside its environments; it answers once.
        revived: Called with a worker that was replaced between two steps.
        failed: Called before `WorkerDiedError` is raised.
    """

    def __init__(
        self,
        workers: Sequence[WorkerHandle],
        context: Any,
        timeout: float | None,
        restarts: bool,
        envs_per_task: int,
        *,
        equip: Callable[[WorkerHandle], None],
        revived: Callable[[WorkerHandle], None],
        failed: Callable[[], None],
    ) -> None:
        self.workers = list(workers)
        self.restarts = restarts
        self._context, self._timeout = context, timeout
        self._envs_per_task = envs_per_task
        self._equip, self._revived, self._failed = equip, revived, failed
        self._told: dict[str, tuple[str, ArgumentsOf]] = {}

    # The beginning and the end.

    def launch(self) -> list[Any]:
        """Starts every worker; returns what each has to say of what it built.

        Raises:
            WorkerDiedError: If one dies meanwhile, restarts or not.
            Exception: Whatever a constructor raises.
        """
        for worker in self.workers:
            worker.launch(self._context)
        return self.gather_or_fail(self.workers)

    def equip(self) -> None:
        """Gives every worker what it needs beside its environments."""
        for worker in self.workers:
            self._equip(worker)
        self.gather_or_fail(self.workers)
        for worker in self.workers:
            worker.ready = True

    def close(self) -> None:
        """Lets the workers close their environments, and ends them."""
        for worker in self.workers:
            with contextlib.suppress(OSError, AttributeError):
                worker.send("close")
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for worker in self.workers:
            if worker.process is not None and worker.process.pid is not None:
                worker.process.join(max(deadline - time.monotonic(), 0.0))
        self.kill()

    def kill(self) -> None:
        """Ends every worker at once."""
        for worker in self.workers:
            worker.kill()

    # Talking.

    def ask(self, command: str, arguments: ArgumentsOf) -> list[Any]:
        """Sends a command to every worker and returns the answers.

        A lost worker is replaced, and its replacement is asked again.
        """
        for worker in self.workers:
            worker.send(command, *arguments(worker.rows))
        answers, lost = self.gather()
        for worker in lost:
            self.replace(worker)
            self._revived(worker)
            worker.send(command, *arguments(worker.rows))
            answers[worker.index] = self.answer(worker)
        return [answers[worker.index] for worker in self.workers]

    def remember(self, key: str, command: str, arguments: ArgumentsOf) -> None:
        """Keeps a command for replacements, instead of an earlier one of the same key."""
        self._told.pop(key, None)
        self._told[key] = (command, arguments)

    def gather(
        self, workers: Iterable[WorkerHandle] | None = None
    ) -> tuple[dict[int, Any], list[WorkerHandle]]:
        """The answers of workers, by their index, and those that are lost.

        Args:
            workers: Those that were sent something; all by default.

        Raises:
            WorkerDiedError: If one is lost and may not be replaced.
            Exception: What a worker answered with, once every answer has come.
        """
        answers, lost, failure = gather(self.workers if workers is None else workers, self._timeout)
        if lost and not self.restarts:
            self._fail(lost)
        if failure is not None:
            self._revive(lost)
            raise failure[0] from WorkerTraceback(failure[1])
        return answers, lost

    def gather_or_fail(self, workers: Sequence[WorkerHandle]) -> list[Any]:
        """The answers of workers that may not be lost now."""
        answers, lost = self.gather(workers)
        if lost:
            self._fail(lost)
        return [answers[worker.index] for worker in workers]

    def answer(self, worker: WorkerHandle) -> Any:
        """The answer of a worker that may not be lost now."""
        return self.gather_or_fail([worker])[0]

    def settle(self) -> bool:
        """Takes the answers that an interrupted call has left, and says whether there were any."""
        late = [worker for worker in self.workers if worker.awaited]
        if late:
            lost: list[WorkerHandle] = []
            try:
                lost = self.gather(late)[1]
            except WorkerDiedError:
                raise
            except Exception as exc:
                # Of a call that its caller has given up.
                gymnasium.logger.warn(f"an interrupted call had failed: {exc}")
            self._revive(lost)
        # A replacement that was itself interrupted is done again.
        self._revive([worker for worker in self.workers if not worker.ready])
        return bool(late)

    # Faults.

    def replace(self, worker: WorkerHandle) -> None:
        """A new worker in the place of a lost one, told all that is remembered."""
        worker.ready = False
        worker.kill()
        worker.launch(self._context)
        self.answer(worker)
        self._equip(worker)
        self.answer(worker)
        for command, arguments in list(self._told.values()):
            worker.send(command, *arguments(worker.rows))
            self.answer(worker)
        worker.ready = True

    def _revive(self, lost: Sequence[WorkerHandle]) -> None:
        for worker in lost:
            self.replace(worker)
            self._revived(worker)

    def _fail(self, lost: Sequence[WorkerHandle]) -> None:
        """Ends everything and raises `WorkerDiedError`."""
        said = "; ".join(self._describe(worker) for worker in lost)
        self._failed()
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _describe(self, worker: WorkerHandle) -> str:
        k = self._envs_per_task
        tasks = sorted({i // k for i in range(worker.start, worker.stop)})
        names = dict.fromkeys(str(name) for name in worker.names if name)
        named = f" ({', '.join(names)})" if names else ""
        return (
            f"worker {worker.index} {worker.how_it_ended()}, with environments {worker.start} to "
            f"{worker.stop - 1} of tasks {tasks}{named}"
        )
