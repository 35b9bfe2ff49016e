"""Workers that run blocks elsewhere, such as processes, and the pool that gives them commands.

Commands have numbers. A command is encoded for all workers, then recorded for each, then written to
each; an answer carries the number of its command. If an exception interrupts this anywhere, the
next command first sends a `Sync` and waits for its answer: an older command that was answered by
then was run, and is recorded in the journal; one that was not was never written, and is forgotten.

A message to a process is a header, with the number of the command and the length of the rest, and
the command. A step is whether environments reset themselves, whether infos go through the buffers,
and the dtype of its actions, such as ``b"11<f4"``, and then the actions. Every other command, and
every answer, is a pickle.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import itertools
import math
import multiprocessing as mp
import os
import select
import signal
import sys
import tempfile
import time
import warnings
import weakref
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import cloudpickle
import gymnasium
import numpy as np

from mtwrappers.common.cores import cores
from mtwrappers.common.counts import format_range
from mtwrappers.common.errors import WorkerDiedError, full_message, warn_about_close
from mtwrappers.vector.block import BlockTraits, describe_env
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.commands import (
    NO_RESULT,
    Answer,
    Build,
    Close,
    Command,
    Connect,
    Replay,
    Step,
    Sync,
)
from mtwrappers.vector.pool import OTHER_CALL, Pool, Record, raise_failure
from mtwrappers.vector.server import (
    EMPTY,
    HEADER,
    HELLO,
    StepHead,
    decode_answer,
    encode_step_head,
    serve,
)
from mtwrappers.vector.settings import Maker, Settings
from mtwrappers.vector.start_methods import deaf_to_ctrl_c, default_start_method

ALIVE_CHECK = 1.0  # seconds between two checks whether silent workers are alive
MAX_RECOVERIES = 3  # the number of times in a row that workers may be lost in the same call
CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: it marks rewards that were not written yet.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)
_CHUNK = 1 << 16  # bytes that are read at once
_LONGEST_POLL = 2**31 - 1  # milliseconds, 25 days
_NAME = "mtw-"  # begins the name of each worker process

# The ends of pipes that close when this process ends, which tells workers to end too. A process
# that is forked from this one must not keep them open.
_lives: set[Connection] = set()
_processes: weakref.WeakSet[Any] = weakref.WeakSet()  # those that this process has started


def _leave_workers() -> None:
    """Detaches a forked process from its parent's workers."""
    while _lives:
        _lives.pop().close()
    # `multiprocessing` ends all children when a process ends. After `os.fork()` it takes the
    # parent's children for its own, and there is no public way to correct that.
    getattr(mp.process, "_children", set()).difference_update(_processes)
    _processes.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, where there are no workers
    os.register_at_fork(after_in_child=_leave_workers)


class WorkerState(enum.Enum):
    """The life of a worker.

    A worker is `STARTING` until its first answer, `RESTORING` while its environments are built and
    brought to the state of a lost worker's, then `READY`. From every state, it becomes `ENDED` when
    it has ended by itself, `HUNG` when it was ended because it was silent for too long, and
    `UNKNOWN` when it was ended because nobody can read what it did. A replacement is `STARTING`
    again.
    """

    STARTING = enum.auto()
    RESTORING = enum.auto()
    READY = enum.auto()
    ENDED = enum.auto()
    HUNG = enum.auto()
    UNKNOWN = enum.auto()


_LOST = (WorkerState.ENDED, WorkerState.HUNG, WorkerState.UNKNOWN)


class Worker(abc.ABC):
    """A worker with a block, on the executor's side.

    Attributes:
        index: Its place among the workers.
        rows: The rows of its environments.
        state: Where it is in its life.
        timeout: Seconds of silence after which it counts as hung.
        buffers: The results of its environments, in this process.
        records: The commands that it was given, by their number, until a journal has them.
        encoded_answers: The answers that have arrived, by the number of their command.
        was_started: Whether it has ever answered, since it was started.
        shares_memory: Whether its writes are visible at once.
    """

    index: int
    timeout: float
    buffers: Buffers | None = None
    state = WorkerState.ENDED
    was_started = False
    shares_memory = True

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.records: dict[int, Record] = {}
        self.encoded_answers: dict[int, bytes] = {}

    @abc.abstractmethod
    def start(self) -> None:
        """Starts the worker, which answers with the number `HELLO` once it is running."""

    @abc.abstractmethod
    def encode(self, number: int, command: Command) -> Any:
        """A message for `write` with the part of a command for the worker's environments.

        Raises:
            Exception: If it cannot be encoded.
        """

    @abc.abstractmethod
    def write(self, message: Any = None) -> None:
        """Sends a message; or, without one, the rest of the last one, if there is any.

        If the worker is gone, waiting for the answer detects it.
        """

    @abc.abstractmethod
    def end(self, patience: float = 0.0) -> None:
        """Ends the worker, unless it ends by itself within ``patience`` seconds."""

    @staticmethod
    @abc.abstractmethod
    def receive(workers: Sequence[Any], seconds: float) -> list[Any]:
        """Waits for data from some workers, at most for some seconds.

        It adds complete answers to `encoded_answers`, and sets the state of workers that have
        ended.

        Returns:
            The workers from which data has arrived.
        """

    @abc.abstractmethod
    def is_alive(self) -> bool:
        """Whether the worker is running."""

    @abc.abstractmethod
    def silence(self) -> float:
        """The seconds since its last sign of life."""

    @abc.abstractmethod
    def describe_end(self) -> str:
        """A description of how the worker ended by itself."""

    @property
    def cannot_start(self) -> bool:
        """Whether it ended by itself before it answered, as each replacement would too."""
        return False

    def advice(self) -> str:
        """Advice if the worker ended before its first answer."""
        return ""

    def read_failure(self, number: int) -> BaseException | None:
        """The failure in the answer to the command with this number, if there is one."""
        data = self.encoded_answers.get(number, EMPTY)
        if data == EMPTY:
            return None
        return decode_answer(data, self.records[number].command, self.rows).failure


class ProcessWorker(Worker):
    """A worker process.

    It starts in the `multiprocessing` context ``context``, and shares the file ``memory`` with its
    parent.
    """

    def __init__(self, rows: slice, context: Any, memory: int) -> None:
        super().__init__(rows)
        self._context, self._memory = context, memory
        self.process: Any = None
        # This process' ends of two pipes, which take half the time of a socket.
        self._command_pipe: Any = None
        self._answer_pipe: Any = None
        self._chunks = [b""]  # what has arrived of answers that were not taken
        # A message that is being written, and the numbers of bytes of it that were.
        self._writing: tuple[bytes, list[int]] = (b"", [])
        self._life: Any = None  # the end of a pipe; when it is closed, the worker ends

    def start(self) -> None:
        """Starts the process."""
        commands, self._command_pipe = self._context.Pipe(duplex=False)
        self._answer_pipe, answers = self._context.Pipe(duplex=False)
        os.set_blocking(self._command_pipe.fileno(), False)
        os.set_blocking(self._answer_pipe.fileno(), False)
        self._chunks, self._writing = [b""], (b"", [])
        life, self._life = self._context.Pipe(duplex=False)
        _lives.add(self._life)
        # `multiprocessing` can pass connections to a process in every context.
        ends = [commands, answers, Connection(os.dup(self._memory)), life]
        self.process = self._context.Process(
            target=serve, args=ends, daemon=True, name=f"{_NAME}{self.index}"
        )
        _processes.add(self.process)
        try:
            with deaf_to_ctrl_c(self._context.get_start_method()):
                self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which is detected later
        finally:
            for end in ends:
                end.close()

    def encode(self, number: int, command: Command) -> bytes:
        """The bytes of the part of a command, with their header."""
        if isinstance(command, Step) and isinstance(command.actions, np.ndarray):
            actions = command.actions[self.rows]
            head = StepHead(command.autoreset, command.schema is not None, actions.dtype)
            data = encode_step_head(head) + actions.tobytes()
        else:
            data = cloudpickle.dumps(command.part(self.rows))
        return HEADER.pack(number, len(data)) + data

    def write(self, message: bytes | None = None) -> None:
        """Writes a message to the process, or the rest of the last one."""
        if message is not None:
            self._writing = message, []
        message, counts = self._writing
        data = memoryview(message)
        while (start := sum(counts)) < len(data):
            try:
                # In one call, so that no exception can come between writing and noting it.
                counts.extend(map(os.write, [self._command_pipe.fileno()], [data[start:]]))
            except BlockingIOError:
                if not self._reads_in_time():
                    self.state = WorkerState.HUNG if self.is_alive() else WorkerState.ENDED
                    self.process.kill()
                    return
            except OSError as exc:
                if exc.errno is None:
                    raise  # of a signal's handler
                self.state = WorkerState.ENDED
                return

    def _reads_in_time(self) -> bool:
        """Waits until the process reads, and returns whether it does in time."""
        poll = select.poll()
        poll.register(self._command_pipe.fileno(), select.POLLOUT)
        return bool(poll.poll(min(self.timeout * 1000, _LONGEST_POLL)))

    @staticmethod
    def receive(workers: Sequence[ProcessWorker], seconds: float) -> list[ProcessWorker]:
        """Waits for data from some workers, at most for some seconds."""
        poll, by_fd = select.poll(), {}
        for worker in workers:
            fd = worker._answer_pipe.fileno()
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        arrived = []
        for fd, _ in poll.poll(seconds * 1000):
            worker = by_fd[fd]
            chunks = worker._chunks
            try:
                # In one call, so that no exception can come between reading and keeping.
                chunks.extend(map(os.read, [fd], [_CHUNK]))
                has_ended = not chunks[-1]
            except BlockingIOError:
                continue  # another call of this executor has read it
            except OSError as exc:
                if exc.errno is None:
                    raise  # of a signal's handler
                has_ended = True
            # Takes all complete answers. Those that an exception leaves here are taken with the
            # answer to the next command.
            if len(chunks[0]) < HEADER.size:
                chunks[:] = [b"".join(chunks)]
            size = sum(map(len, chunks))
            while size >= HEADER.size:
                number, length = HEADER.unpack_from(chunks[0])
                end = HEADER.size + length
                if size < end:
                    break
                data = b"".join(chunks)
                worker.encoded_answers[number] = data[HEADER.size : end]
                # After the answer was taken, because it can be taken twice.
                chunks[:] = [data[end:]]
                size -= end
            if not has_ended:
                arrived.append(worker)
            elif worker.state not in (WorkerState.HUNG, WorkerState.UNKNOWN):
                worker.state = WorkerState.ENDED
        return arrived

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self.process.is_alive())

    def silence(self) -> float:
        """The seconds since its block's last sign of life."""
        if self.buffers is None:
            return math.inf
        return time.monotonic() - float(self.buffers.beats[0])

    def end(self, patience: float = 0.0) -> None:
        """Ends the process, unless it ends by itself within ``patience`` seconds."""
        if self.process is not None and self.process.pid is not None:
            self.process.join(patience)
            self.process.kill()
            self.process.join()
        for pipe in (self._command_pipe, self._answer_pipe, self._life):
            if pipe is not None:
                pipe.close()
        _lives.discard(self._life)

    @property
    def cannot_start(self) -> bool:
        """Whether it exited before it answered; one that was killed is replaced."""
        if self.was_started or self.process is None:
            return False
        return self._exit_code() in range(256)

    def advice(self) -> str:
        """Advice if the worker ended before its first answer."""
        if not self.cannot_start or self._context.get_start_method() == "fork":
            return ""
        return (
            "it ended before it began: start workers only below `if __name__ == '__main__':`, in "
            "a file (not from standard input), because other contexts than 'fork' import the main "
            "module again in each worker; or make the environments with context='fork', such as "
            "protocol.evaluate(policy, protocol.make_vec(workers=2, context='fork'))"
        )

    def describe_end(self) -> str:
        """How the process ended by itself."""
        code = self._exit_code()
        if code is None:
            return "closed its pipe"
        if code >= 0:
            return f"exited with code {code}"
        with contextlib.suppress(ValueError):
            return f"was killed by {signal.Signals(-code).name}"
        return f"was killed by signal {-code}"

    def _exit_code(self) -> int | None:
        """The exit code, negative after a signal; None if it has not ended or not begun."""
        if self.process.pid is None:
            return None
        self.process.join(ALIVE_CHECK)
        code: int | None = self.process.exitcode
        return code


class WorkerPool(Pool):
    """A pool of blocks in workers: it starts, asks, replaces and closes them.

    Args:
        workers: A worker for each block, in the order of their environments.
        blocks: The pickled arguments of the `EnvBlock` of each worker.
        settings: The settings of the executor.
        memory: The descriptor of the memory that workers share, to be closed; -1 if there is none.
    """

    def __init__(
        self, workers: Sequence[Worker], blocks: Sequence[bytes], settings: Settings, memory: int
    ) -> None:
        super().__init__([worker.rows for worker in workers], settings)
        for index, worker in enumerate(workers):
            worker.index = index
            worker.timeout = settings.seconds_of_silence
        self.workers = workers
        self._max_recoveries = MAX_RECOVERIES if settings.on_worker_failure == "recover" else 0
        # A file object, because it can be closed twice.
        self._memory = open(memory, "r+b", buffering=0) if memory >= 0 else None  # noqa: SIM115
        self._numbers = itertools.count(HELLO + 1)
        self._number = HELLO  # of the last command
        # The environments that were paused when all had answered last: a lost worker may have
        # paused others, in a function that it did not finish.
        self._paused = np.zeros(self.num_envs, np.bool_)
        starts = [worker.rows.start for worker in workers]
        self._build = Build(dict(zip(starts, blocks, strict=True)))
        # Commands that a replacement needs too.
        self._setup: dict[type[Command], Command] = {}

    # Commands.

    def build(self) -> list[BlockTraits]:
        """Starts the workers, which build environments; returns the traits of each block."""
        for worker in self.workers:
            self._start(worker)
        if lost := self._gather(self.workers, HELLO):
            self._replace(lost, None)
        for worker in self.workers:
            worker.records, worker.encoded_answers = {}, {}
            worker.state = WorkerState.READY
        return self.set_up(self._build)

    def connect(self, layout: ObsLayout) -> Buffers:
        """Makes all blocks write to buffers, and returns those of all environments."""
        self.set_up(Connect(range(layout.n), layout.n))
        memory = -1 if self._memory is None else self._memory.fileno()
        self.buffers = Buffers(layout, memory)
        for worker in self.workers:
            worker.buffers = self.buffers.part(worker.rows)
        return self.buffers

    def set_up(self, command: Command) -> list[Any]:
        """Runs a command that replacements of workers run too."""
        results = self.run(command)
        self._setup[type(command)] = command
        return results

    def begin(self, command: Command, workers: Sequence[Worker] | None = None) -> None:
        """Encodes a command for all workers, then records it, then writes it.

        What cannot be encoded raises before anything has changed.

        Args:
            command: The command.
            workers: The workers that it is for, if not all.
        """
        workers = self.workers if workers is None else workers
        number = next(self._numbers)
        messages = [worker.encode(number, command) for worker in workers]
        self.is_settled = False
        if command.needs_reset:
            self.due.fill(True)
        for worker in workers:
            worker.records[number] = Record(command, worker.rows)
        self._number = number
        for worker, message in zip(workers, messages, strict=True):
            worker.write(message)

    def settle(self) -> None:
        """Finds out which commands of interrupted calls were run, and records these."""
        for worker in self.workers:
            if worker.state is WorkerState.READY and worker.records:
                worker.write()
        if lost := [worker for worker in self.workers if worker.state is not WorkerState.READY]:
            self._replace(lost, None)
        self.begin(Sync())
        self.end()

    def end(self) -> list[Any]:
        """Waits for the results of the command that was given last, and returns them.

        It records all answers, also those to earlier commands.

        Raises:
            Exception: The first failure of this command. That of an earlier one is a warning.
        """
        number = self._number
        if lost := self._gather(self.workers, number):
            self._replace(lost, number)
        answers: list[Answer] = []
        earlier: list[Answer] = []
        for worker in self.workers:
            for record_number, record in sorted(worker.records.items()):
                answer = record.answer  # of an `end` that an exception has interrupted
                if answer is None:
                    data = worker.encoded_answers.get(record_number)
                    if data is None:
                        continue  # it was never written, because commands are answered in order
                    if data == EMPTY:  # as of most steps
                        answer = NO_RESULT
                    else:
                        answer = decode_answer(data, record.command, record.rows)
                    record.answer = answer
                if answer.is_unknown:
                    self._end_unknown(worker)
                elif self.logs is not None:
                    assert worker.buffers is not None  # because a journal begins after `connect`
                    record.keep(self.logs, worker.buffers)
                (answers if record_number == number else earlier).append(answer)
        if len(answers) < len(self.workers):
            raise RuntimeError(OTHER_CALL)
        if self.logs is not None:
            self._paused = self.buffers.paused.copy()
        for worker in self.workers:
            worker.records, worker.encoded_answers = {}, {}
        self.is_settled = all(worker.state is WorkerState.READY for worker in self.workers)
        for answer in earlier:
            if answer.failure is not None:
                message = full_message(answer.failure)
                gymnasium.logger.warn(f"an interrupted call had failed: {message}")
        for answer in answers:
            if answer.failure is not None:
                raise_failure(answer.failure, answer.traceback)
        return [answer.result for answer in answers]

    def close(self) -> None:
        """Makes blocks close their environments, and ends workers that do not in time."""
        deadline = time.monotonic() + CLOSE_TIMEOUT
        for worker in self.workers:
            if worker.state is WorkerState.READY and worker.records:  # of an interrupted call
                worker.timeout = min(worker.timeout, CLOSE_TIMEOUT)
                worker.write()
        ready = [worker for worker in self.workers if worker.state is WorkerState.READY]
        self.begin(Close(), ready)
        self._gather(ready, self._number, deadline)
        failures = [worker.read_failure(self._number) for worker in ready]
        for worker in ready:
            worker.end(max(deadline - time.monotonic(), 0.0))
        self.abandon()
        for failure in failures:
            if failure is not None:
                warn_about_close(failure)

    def _end_unknown(self, worker: Worker) -> None:
        """Ends a worker if nobody knows what it did; the next command replaces it."""
        worker.state = WorkerState.UNKNOWN
        worker.end()

    def abandon(self) -> None:
        """Ends every worker at once."""
        for worker in self.workers:
            worker.state = WorkerState.ENDED
            worker.end()
        if self._memory is not None:
            self._memory.close()
        self.is_lost = True

    # Workers that answer, and those that do not.

    def _gather(
        self, workers: Sequence[Worker], number: int, until: float = math.inf
    ) -> list[Worker]:
        """Waits until workers have answered the command with a number, at most until then.

        Returns:
            The workers that were lost.
        """
        lost: list[Worker] = []
        now = time.monotonic()
        next_check = now + ALIVE_CHECK
        deadlines = {worker: now + worker.timeout for worker in workers}
        while now < until:
            for worker, deadline in [*deadlines.items()]:
                if number in worker.encoded_answers:
                    worker.was_started = True
                    del deadlines[worker]
                    continue
                if number not in worker.records:  # another call came between; the caller raises
                    del deadlines[worker]
                    continue
                if now >= deadline and worker.state not in _LOST:
                    deadlines[worker] = now + worker.timeout - worker.silence()
                    if deadlines[worker] <= now:
                        alive = worker.is_alive()
                        worker.state = WorkerState.HUNG if alive else WorkerState.ENDED
                        worker.end()
                if worker.state in _LOST:
                    lost.append(worker)
                    del deadlines[worker]
            if not deadlines:
                break
            seconds = max(min(next_check, until, *deadlines.values()) - now, 0.0)
            arrived = workers[0].receive([*deadlines], seconds)
            poll_start, now = now, time.monotonic()
            lateness = now - poll_start - seconds
            if lateness > ALIVE_CHECK:
                # This process was stopped, as by Ctrl-Z, and its workers probably with it.
                for worker in deadlines:
                    deadlines[worker] += lateness
            for worker in arrived:
                deadlines[worker] = now + worker.timeout
            if now >= next_check:  # even while others answer: a node may vanish silently
                next_check = now + ALIVE_CHECK
                for worker in deadlines:
                    if worker.state not in _LOST and not worker.is_alive():
                        worker.state = WorkerState.ENDED
        return sorted(lost, key=lambda worker: worker.index)

    def _replace(self, lost: list[Worker], number: int | None) -> None:
        """Starts replacements of lost workers, repeatedly if these are lost too.

        Args:
            lost: The workers.
            number: The number of the command that they are to answer, if there is one.
        """
        attempts = 0
        while lost:
            if attempts == self._max_recoveries or any(worker.cannot_start for worker in lost):
                self._raise_lost(lost, number, attempts)
            attempts += 1
            self.recoveries += len(lost)
            reason = "; ".join(map(self._describe, lost))
            _warn_of_recovery(f"{reason}; starting a replacement")
            for worker in lost:
                worker.end()
            lost = self._restart(lost, number, reason)

    def _start(self, worker: Worker) -> None:
        """Starts a worker."""
        # It answers once it has started, as if it had been given this command.
        worker.records, worker.encoded_answers = {HELLO: Record(Sync(), worker.rows)}, {}
        worker.was_started = False
        worker.state = WorkerState.STARTING
        worker.start()

    def _restart(self, workers: Sequence[Worker], number: int | None, reason: str) -> list[Worker]:
        """Starts workers, restores their environments, and repeats what they have not answered.

        Args:
            workers: The workers.
            number: As in `_replace`.
            reason: Why they are started, for an error.

        Returns:
            The workers that were lost meanwhile.
        """
        repeated = {
            worker: record
            for worker in workers
            if number is not None and (record := worker.records.get(number)) is not None
        }
        for worker in workers:
            try:
                self._start(worker)
            except (OSError, WorkerDiedError) as exc:
                if isinstance(exc, OSError) and exc.errno is None:
                    raise  # of a signal's handler
                self._give_up(reason, exc)
        lost = self._gather(workers, HELLO)
        self._require_answers(workers, lost, HELLO)
        current = self._number
        commands = [*self._setup.values()]
        if self.logs is not None:
            commands.append(Replay(self.logs, self._paused))
        for command in commands:
            restoring = [worker for worker in workers if worker not in lost]
            for worker in restoring:
                worker.state = WorkerState.RESTORING
            self.begin(command, restoring)
            restoring_number = self._number
            lost += self._gather(restoring, restoring_number)
            self._require_answers(restoring, lost, restoring_number)
            for worker in restoring:
                if worker in lost:
                    continue
                failure = worker.read_failure(restoring_number)
                if failure is not None:
                    self._give_up(reason, failure)
        self._number = current
        ready = [worker for worker in workers if worker not in lost]
        for worker in ready:
            worker.records, worker.encoded_answers = {}, {}
            worker.state = WorkerState.READY
        asked = [worker for worker in ready if worker in repeated]
        for worker in asked:
            command = repeated[worker].command
            if isinstance(command, Step):
                self.buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
            worker.records[current] = Record(command, worker.rows)
            worker.write(worker.encode(current, command))
        # What a lost worker had to answer is still to be answered, by its next replacement.
        for worker in lost:
            if worker in repeated:
                worker.records[current] = repeated[worker]
        return lost + self._gather(asked, current)

    @staticmethod
    def _require_answers(workers: Sequence[Worker], lost: Sequence[Worker], number: int) -> None:
        """Raises `RuntimeError` if another call has taken the answers of workers that are alive."""
        if any(w not in lost and number not in w.encoded_answers for w in workers):
            raise RuntimeError(OTHER_CALL)

    def _give_up(self, reason: str, failure: BaseException) -> NoReturn:
        """Ends all workers, because a lost one cannot be replaced."""
        self.abandon()
        raise WorkerDiedError(
            f"{reason}, and cannot be recovered: {full_message(failure)}"
        ) from failure

    def _raise_lost(self, lost: Sequence[Worker], number: int | None, attempts: int) -> NoReturn:
        message = "; ".join(map(self._describe, lost))
        if attempts:
            message += f"; workers were lost {attempts + 1} times in the same call"
            message += "".join(self._describe_culprit(worker, number) for worker in lost)
        advice = {worker.advice(): None for worker in lost}
        were_built = Build in self._setup  # otherwise a replacement would die as well
        if were_built and self._settings.on_worker_failure == "raise":
            advice["on_worker_failure='recover' replaces lost workers"] = None
        message += "".join(f"; {sentence}" for sentence in advice if sentence)
        self.abandon()
        raise WorkerDiedError(f"{message}; all workers were closed")

    def _describe(self, worker: Worker) -> str:
        """A description of how a worker ended, with its environments and tasks."""
        first, last = worker.rows.start, worker.rows.stop - 1
        envs_per_task = self._settings.envs_per_task
        tasks = format_range("task", first // envs_per_task, last // envs_per_task)
        names = dict.fromkeys(str(name) for name in self.names[worker.rows] if name is not None)
        named = f" ({', '.join(names)})" if names else ""
        if worker.state is WorkerState.HUNG:
            stage = "hung: it did not answer" if worker.was_started else "did not start"
            end = f"{stage} within {worker.timeout:g} s"
        elif worker.state is WorkerState.UNKNOWN:
            end = "was ended, because its last answer could not be read"
        else:
            end = worker.describe_end()
        environments = format_range("environment", first, last)
        return f"worker {worker.index} {end}, with {environments} of {tasks}{named}"

    def _describe_culprit(self, worker: Worker, number: int | None) -> str:
        """The environment that was being stepped when a worker died in a repeated step."""
        record = None if number is None else worker.records.get(number)
        if record is None or not isinstance(record.command, Step) or not worker.shares_memory:
            return ""
        rewards = self.buffers.rewards[worker.rows].view(np.uint64)
        unwritten = np.flatnonzero(rewards == _NO_REWARD)
        if not len(unwritten):
            return ""
        # A block steps one environment after another.
        i = worker.rows.start + int(unwritten[0])
        action = record.command.actions[i]
        return f", by {describe_env(i, self.names[i])}, stepped with action {action}"


def _warn_of_recovery(message: str) -> None:
    """Warns, and never raises: where warnings are errors, this would lose the recovered call."""
    try:
        gymnasium.logger.warn(message)
    except Warning as warning:
        warnings.showwarning(str(warning), type(warning), __file__, 0)


def pickle_blocks(
    makers: Sequence[Maker], count: int, settings: Settings
) -> tuple[list[slice], list[bytes]]:
    """The rows of each of ``count`` workers, and the pickled constructors and settings of each.

    Raises:
        TypeError: If a constructor cannot be pickled.
    """
    n = len(makers)
    settings = dataclasses.replace(settings, ray_options=None)  # may be objects of the parent's
    rows = [slice(n * w // count, n * (w + 1) // count) for w in range(count)]
    try:
        return rows, [cloudpickle.dumps((makers[block], settings)) for block in rows]
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"the constructors of environments must be picklable to run in workers ({exc}): let "
            "them make such objects when they are called, or use execution='iterative', which has "
            "no workers"
        ) from exc


def pickle_function(function: Any) -> bytes:
    """A function for `EnvBlock.apply`, pickled.

    Raises:
        TypeError: If it cannot be pickled.
        Exception: If a signal's handler raises meanwhile, which says nothing about the function.
    """
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as exc:
        first_error = exc
    # An error of the function, such as a lock that it holds, comes again.
    try:
        cloudpickle.dumps(function)
    except Exception as exc:
        raise TypeError(
            f"a function must be picklable to run in workers, {function!r} is not ({exc})"
        ) from exc
    raise first_error  # of a signal's handler


def process_pool(makers: Sequence[Maker], settings: Settings) -> WorkerPool:
    """Makes a pool with the number of processes from the settings, or one per core.

    A worker that gets here while it imports its main module, a script without a guard, exits
    without a traceback: its parent raises the error that says what to do.

    Raises:
        RuntimeError: In a process that cannot have children.
        TypeError: If a constructor cannot be pickled.
    """
    process = mp.current_process()
    if process.name.startswith(_NAME) and getattr(process, "_inheriting", False):
        sys.exit(1)
    if process.daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )
    count = min(settings.workers or cores(), len(makers))
    replaces = settings.on_worker_failure == "recover"
    context = mp.get_context(settings.context or default_start_method(replaces))
    rows, blocks = pickle_blocks(makers, count, settings)
    # A file without a name, which is gone with its processes. They start before its size is known.
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("mtwrappers")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    workers = [ProcessWorker(block, context, memory) for block in rows]
    return WorkerPool(workers, blocks, settings, memory)
