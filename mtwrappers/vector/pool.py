"""The parent's side of worker processes: starting them, talking to them, and ending them."""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import pickle
import select
import signal
import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import cloudpickle

from mtwrappers.errors import WorkerTraceback
from mtwrappers.vector import worker as protocol
from mtwrappers.vector.channel import Channel

ALIVE_CHECK = 1.0  # seconds between two looks at whether silent workers live
CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments

GUARD = (
    "start workers only below `if __name__ == '__main__':`, in a file (not from standard input), "
    "or pass context='fork': other contexts import the main module again in each worker"
)


def command(name: str, *arguments: Any) -> bytes:
    """A command to a worker as a message."""
    return bytes(cloudpickle.dumps((name, arguments)))


class Worker:
    """One worker process, as its parent sees it.

    Args:
        index: Which worker it is.
        rows: Its environments.
        block: What it builds them from, for `mtwrappers.vector.worker.main`.
    """

    def __init__(self, index: int, rows: slice, block: bytes) -> None:
        self.index, self.rows, self.block = index, rows, block
        self.process: Any = None
        self.channel: Channel | None = None
        self.owes = 0  # how many answers it still owes
        self.started = False
        self.hung: float | None = None  # the seconds that it was silent
        self.names: list[Any] = [None] * (rows.stop - rows.start)  # of tasks, as resets said

    def start(self, context: Any) -> None:
        """Starts the process, which first answers ``STARTED``, and then what it has built."""
        self.started, self.hung = False, None
        conn, other = context.Pipe()
        self.channel = Channel(conn)
        self.process = context.Process(
            target=protocol.main, args=(other,), daemon=True, name=f"mtw-{self.index}"
        )
        self.owes = 1
        try:
            self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which shows when it is awaited
        finally:
            other.close()

    def kill(self) -> None:
        """Ends the process, whatever it is doing."""
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join()
        if self.channel is not None:
            self.channel.close()
        self.owes = 0

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

    def describe(self, envs_per_task: int) -> str:
        """How it ended, and which environments and tasks it had."""
        first, last = self.rows.start, self.rows.stop - 1
        tasks = list(range(first // envs_per_task, last // envs_per_task + 1))
        names = dict.fromkeys(str(name) for name in self.names if name)
        named = f" ({', '.join(names)})" if names else ""
        return (
            f"worker {self.index} {self.how_it_ended()}, with environments {first} to {last} of "
            f"tasks {tasks}{named}"
        )


class Answers(NamedTuple):
    """What workers have answered."""

    results: dict[int, Any]  # by the worker's index
    lost: list[Worker]
    failure: Exception | None  # of the first environments, as a single process would raise it


class WorkerPool:
    """Worker processes that are told something together and answer together.

    Args:
        workers: None of them started yet.
        context: The `multiprocessing` context to start them in.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
    """

    def __init__(self, workers: Sequence[Worker], context: Any, timeout: float | None) -> None:
        self.workers = workers
        self._context, self.timeout = context, timeout
        self.start_method: str = context.get_start_method()

    def build(self, workers: Sequence[Worker]) -> Answers:
        """Starts workers and lets them build; their results are what they have built."""
        for worker in workers:
            worker.start(self._context)
        answers = self.gather(workers)
        if answers.lost or answers.failure:
            return answers
        for worker in workers:
            worker.started = True
        self.send({worker: worker.block for worker in workers})
        return self.gather(workers)

    def send(self, messages: dict[Worker, bytes]) -> None:
        """Sends each worker a message. One that is gone, or takes none, is lost when awaited."""
        for worker, message in messages.items():
            channel = worker.channel
            assert channel is not None
            worker.owes += 1
            try:
                channel.send(message, self._deadline())
            except TimeoutError:
                self._give_up(worker)
            except OSError:
                pass
            finally:
                if channel.cut:  # by an interrupt: what follows could not be read
                    worker.process.kill()

    def send_fd(self, workers: Iterable[Worker], fd: int) -> None:
        """Hands workers a file descriptor, which they await."""
        for worker in workers:
            assert worker.channel is not None
            worker.owes += 1
            with contextlib.suppress(OSError):  # of one that is gone
                worker.channel.send_fd(fd)

    def gather(self, workers: Iterable[Worker]) -> Answers:
        """Awaits the answers of workers that were sent something."""
        waiting: dict[int, Worker] = {}
        poll = select.poll()
        for worker in workers:
            assert worker.channel is not None
            waiting[worker.channel.fd] = worker
            poll.register(worker.channel.fd, select.POLLIN)
        results: dict[int, Any] = {}
        lost: list[Worker] = []
        failures: dict[int, Exception] = {}
        deadline = self._deadline()
        while waiting:
            pause = ALIVE_CHECK
            if deadline is not None:
                pause = min(pause, max(deadline - time.monotonic(), 0.0))
            gone = []
            ready = poll.poll(pause * 1000)
            for fd, _ in ready:
                worker = waiting[fd]
                channel: Any = worker.channel
                try:
                    while worker.owes and (message := channel.feed()) is not None:
                        self._take(worker, message, results, failures)
                except (EOFError, OSError):
                    gone.append(fd)
                    continue
                if not worker.owes:
                    poll.unregister(fd)
                    del waiting[fd]
            if not ready:
                gone = [fd for fd, worker in waiting.items() if not worker.process.is_alive()]
            if deadline is not None and time.monotonic() >= deadline:
                gone = list(waiting)
                for worker in waiting.values():
                    self._give_up(worker)
            for fd in gone:
                poll.unregister(fd)
                lost.append(waiting.pop(fd))
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
        worker.owes -= 1
        good, answer = True, None  # type: tuple[bool, Any]
        if message != protocol.DONE:
            good, answer = pickle.loads(message)
        if good:
            results[worker.index] = answer
        else:
            failures[worker.index], traceback = answer
            failures[worker.index].__cause__ = WorkerTraceback(traceback)

    def _deadline(self) -> float | None:
        return None if self.timeout is None else time.monotonic() + self.timeout

    def _give_up(self, worker: Worker) -> None:
        if worker.process.is_alive():
            worker.hung = self.timeout
            worker.process.kill()

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


def cores() -> int:
    """How many cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_process() -> None:
    """Refuses workers in a process that may have none."""
    if getattr(mp.current_process(), "_inheriting", False):
        raise RuntimeError(f"a worker that is only starting cannot start workers: {GUARD}")
    if mp.current_process().daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )
