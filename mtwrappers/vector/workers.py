"""Blocks in this process, and blocks in workers: a pool of workers, and worker processes.

A message to a worker process is bytes. A step is the dtype of its actions, such as ``b"<f4"``; the
actions themselves are in shared memory. Every other command, and every answer, is a pickle.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import math
import multiprocessing as mp
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NoReturn

import cloudpickle
import gymnasium
import numpy as np

from mtwrappers.common.cores import cores
from mtwrappers.common.errors import (
    WorkerDiedError,
    WorkerTraceback,
    full_message,
    picklable,
    with_place,
)
from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.buffers import Buffers, InfoSchema, ObsLayout, anonymous_file
from mtwrappers.vector.journal import Answer, Command, Function, Journal
from mtwrappers.vector.settings import Maker, Settings


class Blocks(abc.ABC):
    """The blocks of an executor, in the order of their environments."""

    rows: Sequence[slice]  # the environments of each block
    journal: Journal | None = None
    lost = False  # whether blocks are gone for good
    forks = True  # whether a forked process may continue to use them

    @abc.abstractmethod
    def build(self) -> list[Any]:
        """Builds the environments; returns `EnvBlock.traits` of each block."""

    @abc.abstractmethod
    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers of all environments, and lets blocks write into them."""

    @abc.abstractmethod
    def begin(self, command: Command) -> None:
        """Sends every block a command."""

    @abc.abstractmethod
    def end(self, timeout: float | None = None) -> list[Answer]:
        """Returns the answer of every block, or raises the first failure.

        Raises:
            multiprocessing.TimeoutError: If not all have answered within ``timeout`` seconds; the
                next call waits for them again.
        """

    @abc.abstractmethod
    def run(self, command: Command) -> list[Answer]:
        """Sends every block a command, and returns the result of `end`."""

    def prepare(self, command: Command) -> None:
        """Sends every block a command that a replacement needs too."""
        self.run(command)

    def use_columns(self, schema: InfoSchema) -> None:
        """Sets which infos go through the buffers."""
        self.prepare(Command("use_columns", lambda rows: (schema,)))

    def carry(self, function: Function) -> Callable[[], Function]:
        """Returns a callable to send to every block, which returns the function there."""
        return lambda: function

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the environments."""


class LocalBlocks(Blocks):
    """One block, in this process.

    Args:
        make: Returns the block.
        owned: Whether it is built here, and closed; otherwise it has another owner.
    """

    block: EnvBlock

    def __init__(self, make: Callable[[], EnvBlock], owned: bool = True) -> None:
        self._make, self._owned = make, owned
        self.rows = []
        self._interrupts = HeldInterrupts()

    def build(self) -> list[Any]:
        """Builds the environments."""
        self.block = self._make()
        self.rows = [slice(0, len(self.block.envs))]
        return [self.block.traits().result]

    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers of all environments, or returns those that they have."""
        if not self._owned:
            return self.block.buffers
        buffers = Buffers(layout, action_shape)
        self.block.connect(layout, buffers)
        return buffers

    def begin(self, command: Command) -> None:
        """Stores a command until `end` runs it."""
        self._command = command

    def end(self, timeout: float | None = None) -> list[Answer]:
        """Runs the command."""
        return self.run(self._command)

    def run(self, command: Command) -> list[Answer]:
        """Runs a command, after a sign of life to an owner elsewhere."""
        [rows] = self.rows
        if not self._owned:
            self.block.beat()
        if self.journal is None:
            answer = self.block.handle(command.name, command.arguments(rows))
        else:
            with self._interrupts:
                answer = self._run_and_note(command, rows, self.journal)
        if answer.failure is not None:
            raise answer.failure[0]
        return [answer]

    def _run_and_note(self, command: Command, rows: slice, journal: Journal) -> Answer:
        """Runs a command, which Ctrl-C may interrupt, and records it before Ctrl-C can again."""
        block, arguments = self.block, command.arguments(rows)
        block.made = []
        try:
            self._interrupts.waiting = True
            answer = block.handle(command.name, arguments)
            self._interrupts.waiting = False
        except BaseException as exc:  # an interrupt
            self._interrupts.waiting = False
            journal.note(command, rows, block.failed(command.name, exc))
            raise
        journal.note(command, rows, answer)
        return answer

    def close(self) -> None:
        """Closes the environments."""
        if self.rows and self._owned:
            self.block.close()


_DONE = Answer()
ALIVE_CHECK = 1.0  # seconds between two checks whether silent workers are alive
MAX_RECOVERIES = 3  # the number of times in a row that workers may be lost in the same call
CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: it marks rewards that were not written yet.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)
# Commands that are sent before a block has buffers.
BEFORE_BUFFERS = ("build", "wrap", "connect")
_BEAT = 0.1  # seconds between two signs of life, much less than any sensible timeout


class WorkerLost(Exception):  # noqa: N818 (it says what happened, and is caught here)
    """A worker has ended."""


class Worker(abc.ABC):
    """A worker with a block, on the executor's side.

    Args:
        index: The index of the worker.
        rows: The rows of its environments.
        block: The pickled arguments of `EnvBlock`.
        timeout: Seconds of silence after which it counts as hung; None waits forever.
    """

    interrupts: HeldInterrupts
    buffers: Buffers | None = None  # of its environments, in this process
    ready = False  # whether its environments are built and restored
    began = False  # whether it has answered
    hung = False  # whether it was ended because it was silent for too long
    shares_memory = True  # whether its writes are visible at once

    def __init__(self, index: int, rows: slice, block: bytes, timeout: float | None) -> None:
        self.index, self.rows, self.block = index, rows, block
        self.timeout = math.inf if timeout is None else timeout
        self.command: Command | None = None  # what it has not answered yet
        self.answer: Answer | None = None  # the last, until it is used
        self.names: list[Any] = [None] * (rows.stop - rows.start)  # of tasks, as resets said

    @abc.abstractmethod
    def start(self) -> None:
        """Starts the worker, which answers once it is running."""

    @abc.abstractmethod
    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Sends its block a command. If the worker is gone, waiting for the answer detects it."""

    @abc.abstractmethod
    def receive(self) -> Answer | None:
        """Reads the data that has arrived; returns an answer once it is complete.

        Raises:
            WorkerLost: If the worker has ended.
        """

    @staticmethod
    @abc.abstractmethod
    def wait(workers: Sequence[Any], seconds: float) -> list[Worker]:
        """Those of some workers from which something has arrived, once there are any."""

    @abc.abstractmethod
    def is_alive(self) -> bool:
        """Whether the worker is running."""

    @abc.abstractmethod
    def end(self) -> None:
        """Ends the worker immediately."""

    @abc.abstractmethod
    def join(self, seconds: float) -> None:
        """Waits for the worker's end, after it has closed its environments."""

    @abc.abstractmethod
    def how_it_ended(self) -> str:
        """A description of how the worker ended by itself."""

    @property
    def cannot_start(self) -> bool:
        """Whether it ended by itself before it answered, as each replacement would too."""
        return False

    def advice(self) -> str:
        """Advice for one that did not even start."""
        return ""

    def extension(self) -> float:
        """The extended deadline (`time.monotonic`) of a worker that gives a sign of life."""
        return -math.inf

    def kill(self) -> None:
        """Ends the worker, and drops its answer."""
        self.end()
        self.ready, self.answer = False, None

    def give_up(self) -> None:
        """Ends the worker because it was silent for too long."""
        if self.is_alive():
            self.hung = True
            self.end()

    def describe(self, envs_per_task: int) -> str:
        """A description of how the worker ended, with its environments and tasks."""
        first, last = self.rows.start, self.rows.stop - 1
        tasks = list(range(first // envs_per_task, last // envs_per_task + 1))
        names = dict.fromkeys(str(name) for name in self.names if name)
        named = f" ({', '.join(names)})" if names else ""
        hung = f"hung: it did not answer within {self.timeout:g} s" if self.hung else ""
        which = f"environments {first} to {last} of tasks {tasks}{named}"
        return f"worker {self.index} {hung or self.how_it_ended()}, with {which}"


class WorkerPool(Blocks):
    """Blocks in workers.

    Every method raises `WorkerDiedError` if a worker is lost and cannot be replaced, and otherwise
    the exception of a worker's answer. After a `WorkerDiedError`, no worker can be used.

    Args:
        workers: A worker for each block.
        settings: The settings of the executor.
    """

    forks = False
    _memory = -1  # the descriptor of the memory that workers share, if they do

    def __init__(self, workers: Sequence[Worker], settings: Settings) -> None:
        self._interrupts = HeldInterrupts()
        for worker in workers:
            worker.interrupts = self._interrupts
        self.workers = workers
        self.rows = [worker.rows for worker in workers]
        self.recoveries = 0  # the number of replaced workers
        self._envs_per_task = settings.envs_per_task
        self._max_recoveries = MAX_RECOVERIES if settings.recovers else 0
        # Commands that prepare a worker for its first use.
        self._setup = [Command("build", lambda rows: ())]
        self._built = False
        self._buffers: Buffers

    # What an executor asks for.

    def build(self) -> list[Any]:
        """Starts the workers, and lets them build their environments."""
        with self._interrupts:
            if lost := self._start_workers(self.workers):
                self._replace(lost)
            answers = self._finish()
        self._built = True
        return [answer.result for answer in answers]

    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers for the results of workers."""
        self._buffers = Buffers(layout, action_shape, self._memory)
        for worker in self.workers:
            worker.buffers = self._buffers.part(worker.rows)
        self.prepare(Command("connect", lambda rows: (layout.n, rows, action_shape)))
        return self._buffers

    def prepare(self, command: Command) -> None:
        """Sends every worker a command; replacements receive the last one of each name."""
        self._setup = [known for known in self._setup if known.name != command.name]
        self._setup.append(command)
        self.run(command)

    def begin(self, command: Command) -> None:
        """Sends every worker a command."""
        with self._interrupts:
            self._begin(command)

    def end(self, timeout: float | None = None) -> list[Answer]:
        """The answer of every worker to the command that was begun."""
        with self._interrupts:
            return self._finish(timeout)

    def run(self, command: Command) -> list[Answer]:
        """Sends every worker a command, and returns their answers."""
        with self._interrupts:
            self._begin(command)
            return self._finish()

    def _begin(self, command: Command) -> None:
        for worker in self.workers:
            if not worker.ready or worker.command is not None:
                self._drain()
                break
        for worker in self.workers:
            worker.command = command
            worker.send(command.name, command.arguments(worker.rows))

    def _drain(self) -> None:
        """Reads the answers that an interrupted call has left, and replaces lost workers."""
        try:
            self._finish()
        except WorkerDiedError:
            raise
        except Exception as exc:
            gymnasium.logger.warn(f"an interrupted call had failed: {full_message(exc)}")

    def close(self) -> None:
        """Makes workers close their environments, and ends those that do not in time."""
        with self._interrupts:
            deadline = time.monotonic() + CLOSE_TIMEOUT
            with contextlib.suppress(mp.TimeoutError):
                self._gather([w for w in self.workers if w.ready and w.command], deadline)
            asked = [worker for worker in self.workers if worker.ready and not worker.command]
            for worker in asked:
                worker.command = Command("close", lambda rows: ())
                worker.send("close", ())
            with contextlib.suppress(mp.TimeoutError):
                self._gather(asked, deadline)
            answers = [worker.answer for worker in asked if worker.answer is not None]
            for worker in asked:
                worker.join(max(deadline - time.monotonic(), 0.0))
            self.abandon()
        for answer in answers:
            if answer.failure is not None:
                failure, _ = answer.failure
                said = f"{full_message(failure)} ({type(failure).__name__})"
                gymnasium.logger.warn(f"could not be closed, {said}")

    def abandon(self) -> None:
        """Ends every worker at once."""
        for worker in self.workers:
            worker.kill()
        self.lost = True

    # Starting and replacing.

    def _finish(self, timeout: float | None = None) -> list[Answer]:
        """The answers of all workers, or of their replacements."""
        until = math.inf if timeout is None else time.monotonic() + timeout
        lost, busy = [], []
        for worker in self.workers:
            if not worker.ready:
                lost.append(worker)
            elif worker.command is not None:
                busy.append(worker)
        lost += self._gather(busy, until)
        if lost:
            self._replace(lost)
        answers = []
        for worker in self.workers:
            answers.append(worker.answer or _DONE)
            worker.answer = None
        for answer in answers:
            if answer.failure is not None:
                failure, traceback = answer.failure
                raise failure from WorkerTraceback(traceback)
        return answers

    def _replace(self, lost: list[Worker]) -> None:
        """Starts replacements of lost workers, repeatedly if these are lost too."""
        attempts = 0
        while lost:
            if attempts == self._max_recoveries or any(one.cannot_start for one in lost):
                self._raise_lost(lost, attempts)
            attempts += 1
            self.recoveries += len(lost)
            reason = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
            gymnasium.logger.warn(f"{reason}; starting a replacement")
            try:
                lost = self._start_workers(lost)
            except Exception as exc:
                if not self._built:
                    raise
                self.abandon()
                raise WorkerDiedError(
                    f"{reason}, and cannot be recovered: {full_message(exc)}"
                ) from exc

    def _start_workers(self, workers: Sequence[Worker]) -> list[Worker]:
        """Starts workers, restores their environments, and repeats pending commands.

        Returns:
            The workers that were lost meanwhile.
        """
        commands = [worker.command for worker in workers]
        for worker in workers:
            worker.kill()
            worker.command = None
            worker.began = worker.hung = False
            worker.start()
        lost = self._gather(workers)
        lost += self._prepare([worker for worker in workers if worker not in lost])
        asked = []
        for worker, command in zip(workers, commands, strict=True):
            worker.command = command
            if worker in lost:
                continue
            worker.ready = True
            if command is not None:
                if command.name == "step":
                    self._buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
                worker.send(command.name, command.arguments(worker.rows))
                asked.append(worker)
        return lost + self._gather(asked)

    def _prepare(self, workers: Sequence[Worker]) -> list[Worker]:
        """Makes new workers build and restore their environments.

        Returns:
            The workers that were lost meanwhile.
        """
        commands = [*self._setup]
        if (journal := self.journal) is not None:
            commands.append(Command("replay", lambda rows: (journal.logs[rows],)))
        lost: list[Worker] = []
        for command in commands:
            here = [worker for worker in workers if worker not in lost]
            for worker in here:
                worker.send(command.name, command.arguments(worker.rows))
            lost += self._gather(here)
            for worker in here:
                if worker.answer is not None and worker.answer.failure is not None:
                    failure, traceback = worker.answer.failure
                    raise failure from WorkerTraceback(traceback)
                if self._built:
                    worker.answer = None
        return lost

    def _gather(self, workers: Sequence[Worker], until: float = math.inf) -> list[Worker]:
        """Waits for the answers of workers.

        Returns:
            The workers that were lost.

        Raises:
            multiprocessing.TimeoutError: If some have not answered at ``until``.
        """
        lost: list[Worker] = []
        now = time.monotonic()
        look = now + ALIVE_CHECK
        waiting = {}  # the deadline of each worker if it is silent
        for worker in workers:
            waiting[worker] = now + worker.timeout
        while waiting:
            seconds = max(min(look, until, *waiting.values()) - now, 0.0)
            self._interrupts.waiting = True
            try:
                arrived = workers[0].wait([*waiting], seconds)
            finally:
                self._interrupts.waiting = False
            now = time.monotonic()
            gone = self._receive(arrived, waiting, now)
            if now >= look:  # even while others answer: a node may vanish silently
                gone += [w for w in waiting if w not in arrived and not w.is_alive()]
                look = now + ALIVE_CHECK
            if now >= min(waiting.values(), default=math.inf):
                gone += self._give_up_silent(waiting, gone, now)
            for worker in gone:
                del waiting[worker]
            lost += gone
            if waiting and now >= until:
                raise mp.TimeoutError(
                    f"workers {[worker.index for worker in waiting]} have not answered in time"
                )
        for worker in lost:
            worker.ready = False
        return sorted(lost, key=lambda worker: worker.index)

    def _receive(
        self, arrived: Sequence[Worker], waiting: dict[Worker, float], now: float
    ) -> list[Worker]:
        """Takes the answers that have arrived, and records their commands in the journal.

        Returns:
            The workers that have ended.
        """
        gone = []
        for worker in arrived:
            try:
                answer = worker.receive()
            except WorkerLost:
                gone.append(worker)
                continue
            if answer is None:
                waiting[worker] = now + worker.timeout
                continue
            del waiting[worker]
            command, worker.command = worker.command, None
            worker.answer, worker.began = answer, True
            if answer.objects is not None:
                self._buffers.obs[0][worker.rows] = answer.objects
            for i, info in enumerate(answer.infos or ()):
                if info and "task_name" in info:
                    worker.names[i] = info["task_name"]
            if command is not None and self.journal is not None:
                self.journal.note(command, worker.rows, answer)
        return gone

    @staticmethod
    def _give_up_silent(
        waiting: dict[Worker, float], gone: Sequence[Worker], now: float
    ) -> list[Worker]:
        """Ends the workers that were silent for too long, and returns them."""
        silent = []
        for worker, deadline in waiting.items():
            if now >= deadline and worker not in gone:
                waiting[worker] = worker.extension()
                if waiting[worker] <= now:
                    worker.give_up()
                    silent.append(worker)
        return silent

    def _raise_lost(self, lost: Sequence[Worker], attempts: int) -> NoReturn:
        said = "; ".join(worker.describe(self._envs_per_task) for worker in lost)
        if attempts:
            said += f"; workers were lost {attempts + 1} times in the same call"
            said += "".join(self._culprit(worker) for worker in lost)
        said += "".join(f"; {advice}" for advice in {w.advice(): None for w in lost} if advice)
        self.abandon()
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _culprit(self, worker: Worker) -> str:
        """The environment that was being stepped when a worker died in a repeated step."""
        command, first = worker.command, worker.rows.start
        if command is None or command.name != "step" or not worker.shares_memory:
            return ""
        rewards = self._buffers.rewards[worker.rows].view(np.uint64)
        for place in np.flatnonzero(rewards == _NO_REWARD).tolist():
            name = f", task {worker.names[place]!r}" if worker.names[place] else ""
            i = first + place
            [entry] = command.entries[i : i + 1] if command.entries else [None]
            action = entry[1] if entry else None
            return f", by environment {first + place}{name}, stepped with action {action}"
        return ""


class BlockServer:
    """Builds a block and runs the commands of an executor in another process.

    Args:
        block: The pickled arguments of `EnvBlock`. They are unpickled for every build, because
            constructors may keep what they have made.
        memory: The descriptor of the memory that the parent shares; -1 if there is none, so that
            answers must contain the data.
        beat: Called from time to time during a command.
    """

    def __init__(self, block: bytes, memory: int, beat: Callable[[], object]) -> None:
        self._arguments, self._memory, self._beat = block, memory, beat
        self._next_beat = 0.0
        self.block: EnvBlock | None = None

    def handle(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        """Runs a command, and returns its answer with a picklable failure."""
        if name == "build":
            answer = self._build()
        else:
            assert self.block is not None
            if name == "connect":
                arguments = self._buffers(*arguments)
            answer = self.block.handle(name, arguments)
            if self._memory < 0 and name not in BEFORE_BUFFERS:
                schema = self.block.columns.schema if self.block.columns else ()
                answer = answer._replace(written=self.block.buffers.pack(schema))
        if answer.failure is not None:
            exc, text = answer.failure
            return answer._replace(failure=(picklable(exc), text))
        return answer

    def _build(self) -> Answer:
        limit_threads()
        try:
            _, offset, settings = pickle.loads(self._arguments)
        except Exception as exc:
            first = f"a worker on {socket.gethostname()} cannot import what makes its environments"
            return Answer(failure=(with_place(exc, first), ""))
        try:
            self.block = EnvBlock(lambda: pickle.loads(self._arguments)[0], offset, settings)
        except Exception as exc:
            return Answer(failure=(exc, _text(exc)))
        self.block.beat = self._say_alive
        return self.block.traits()

    def _buffers(self, n: int, rows: slice, action_shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Makes buffers for results: rows of shared memory, or memory of this process."""
        assert self.block is not None
        space = self.block.envs[0].observation_space
        if self._memory < 0:
            layout = ObsLayout(space, rows.stop - rows.start)
            return layout, Buffers(layout, action_shape)
        layout = ObsLayout(space, n)
        return layout, Buffers(layout, action_shape, self._memory).part(rows)

    def _say_alive(self) -> None:
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + _BEAT
            self._beat()

    def unreadable(self, name: str, exc: Exception) -> Answer:
        """The answer to a command whose arguments cannot be unpickled here."""
        assert self.block is not None
        where = f"a worker on {socket.gethostname()} cannot import what it was given"
        exc = with_place(exc, where)
        failed = self.block.failed(name, exc)
        return failed._replace(made=(), failure=(picklable(exc), _text(exc)))

    def unsendable(self, name: str, answer: Answer, exc: Exception) -> Answer:
        """The answer in place of one that cannot be pickled; it names the environments."""
        assert self.block is not None
        first = self.block.offset
        last = first + len(self.block.envs) - 1
        with_place(exc, f"the answer of environments {first} to {last} to {name}()")
        if name == "apply" and answer.failure is None:
            *_, self.block.apply_logs = answer.result  # what the function has called is noted
        failed = self.block.failed(name, exc)
        return failed._replace(failure=(picklable(exc), _text(exc)), written=answer.written)


def limit_threads() -> None:
    """Limits libraries to one thread, because workers share the cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    # Torch may be here already, or come with an environment or a policy.
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _text(exc: BaseException) -> str:
    return "".join(traceback.format_exception(exc))


def blocks_of(makers: Sequence[Maker], count: int, settings: Settings) -> list[tuple[slice, bytes]]:
    """The rows of each of ``count`` workers, and the pickled arguments of its `EnvBlock`.

    Raises:
        TypeError: If a constructor cannot be pickled.
    """
    n = len(makers)
    settings = dataclasses.replace(settings, ray_options=None)  # may be objects of the parent's
    rows = [slice(n * w // count, n * (w + 1) // count) for w in range(count)]
    try:
        return [(some, cloudpickle.dumps((makers[some], some.start, settings))) for some in rows]
    except Exception:  # any class may refuse to be pickled in any way
        for i, make in enumerate(makers):
            _require_picklable(make, i)
        raise


def _require_picklable(make: Maker, i: int) -> None:
    try:
        cloudpickle.dumps(make)
    except Exception as exc:
        raise TypeError(
            f"the constructor of environment {i} must be picklable to run in workers, {make!r} is "
            f"not ({exc}): let it make such objects when it is called, or use "
            "execution='iterative', which has no workers"
        ) from exc


def pickled_function(function: Any) -> bytes:
    """A function for `EnvBlock.apply`, pickled."""
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as exc:
        raise TypeError(
            f"a function must be picklable to run in workers, {function!r} is not ({exc})"
        ) from exc


DONE = b""  # an empty answer
ALIVE = b"\x01"  # a sign of life during a long call
PICKLED = b"\x80"  # the first byte of a pickle
_HEADER = struct.Struct("!Q")  # the number of bytes that follow
_CHUNK = 1 << 16
_NAME = "mtw-"  # begins the name of each worker process


class Channel:
    """One end of a pipe or socket that carries messages.

    Nothing blocks beyond its timeout, and a message that the other end leaves unfinished raises
    ``EOFError`` or ``OSError``. Ctrl-C is not delayed (see ``interrupts``) while it waits.
    """

    def __init__(self, conn: Any, interrupts: HeldInterrupts | None = None) -> None:
        self._conn = conn
        self._interrupts = interrupts or HeldInterrupts()
        self.fd = conn.fileno()
        os.set_blocking(self.fd, False)
        self._data = bytearray()

    def send(self, message: bytes, timeout: float = math.inf) -> None:
        """Sends a message, or raises `TimeoutError` if the other end does not take it in time.

        Args:
            message: The message.
            timeout: Seconds for each part that the other end reads.
        """
        data = memoryview(_HEADER.pack(len(message)) + message)
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, timeout)

    def feed(self) -> bytes | None:
        """Reads the data that has arrived; returns a complete message, or ``None``."""
        data, begin = self._data, _HEADER.size
        while len(data) < begin or len(data) < (end := begin + _HEADER.unpack_from(data)[0]):
            try:
                chunk = os.read(self.fd, _CHUNK)
            except BlockingIOError:
                return None
            if not chunk:
                raise EOFError("the other end of the channel was closed")
            data += chunk
        message = bytes(data[begin:end])
        del data[:end]
        return message

    def recv(self) -> bytes:
        """Waits for a message, without a limit."""
        while (message := self.feed()) is None:
            self._wait(select.POLLIN)
        return message

    def _wait(self, event: int, timeout: float = math.inf) -> None:
        poll = select.poll()
        poll.register(self.fd, event)
        pause = None if timeout == math.inf else timeout * 1000
        self._interrupts.waiting = True
        try:
            ready = poll.poll(pause)
        finally:
            self._interrupts.waiting = False
        if not ready:
            raise TimeoutError("the other end of the channel did not answer in time")

    def close(self) -> None:
        """Closes this end."""
        self._conn.close()


def encode_answer(answer: Answer) -> bytes:
    """Encodes an answer of a worker."""
    return DONE if answer == _DONE else bytes(cloudpickle.dumps(answer))


# The ends of pipes that close when this process ends, which tells workers to end too. A process
# that is forked from this one must not keep them open.
_lives: set[int] = set()
_processes: weakref.WeakSet[Any] = weakref.WeakSet()  # those that this process has started


def _leave_workers() -> None:
    """Detaches a forked process from its parent's workers."""
    while _lives:
        os.close(_lives.pop())
    # `multiprocessing` ends all children when a process ends. After `os.fork()` it takes the
    # parent's children for its own, and there is no public way to correct that.
    getattr(mp.process, "_children", set()).difference_update(_processes)
    _processes.clear()


if hasattr(os, "register_at_fork"):  # not on Windows, where there are no workers
    os.register_at_fork(after_in_child=_leave_workers)


class ProcessWorker(Worker):
    """A worker process.

    It starts in the `multiprocessing` context ``context``, and shares the file ``memory`` with its
    parent; the other arguments are those of `Worker`.
    """

    def __init__(
        self,
        index: int,
        rows: slice,
        block: bytes,
        timeout: float | None,
        context: Any,
        memory: int,
    ) -> None:
        super().__init__(index, rows, block, timeout)
        self._context, self._memory = context, memory
        self.process: Any = None
        self._channel: Channel | None = None
        self._life = -1  # the end of a pipe; when it is closed, the worker ends

    def start(self) -> None:
        """Starts the process."""
        conn, other = self._context.Pipe()
        self._channel = Channel(conn, self.interrupts)
        life, self._life = os.pipe()
        _lives.add(self._life)
        # `multiprocessing` can pass connections to a process in every context.
        files = (os.dup(self._memory), life)
        ends = [other, *(Connection(fd) for fd in files)]
        self.process = self._context.Process(
            target=serve, args=ends, daemon=True, name=f"{_NAME}{self.index}"
        )
        _processes.add(self.process)
        try:
            with _deaf_to_ctrl_c(self._context.get_start_method()):
                self.process.start()
        except BrokenPipeError:
            pass  # it ended at once, which is detected later
        finally:
            for end in ends:
                end.close()

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Sends its block a command."""
        channel = self._channel
        if channel is None:
            return
        if name == "build":
            message = self.block
        elif name == "step" and isinstance(actions := arguments[0], np.ndarray):
            assert self.buffers is not None
            message = actions.dtype.str.encode()
            self.buffers.actions(message)[...] = actions
        else:
            message = cloudpickle.dumps((name, arguments))
        try:
            channel.send(message, self.timeout)
        except TimeoutError:
            self.give_up()
        except OSError:
            pass
        except BaseException:  # an interrupt truncated the message, so later ones are unreadable
            self.process.kill()
            raise

    def receive(self) -> Answer | None:
        """Takes what has arrived; returns an answer once it is whole."""
        channel = self._channel
        assert channel is not None
        try:
            while (message := channel.feed()) == ALIVE:
                pass
        except (EOFError, OSError) as exc:
            raise WorkerLost from exc
        if message is None:
            return None
        answer: Answer = _DONE if message == DONE else pickle.loads(message)
        return answer

    @staticmethod
    def wait(workers: Sequence[ProcessWorker], seconds: float) -> list[Worker]:
        """Those of some workers from which something has arrived, once there are any."""
        poll = select.poll()
        by_fd: dict[int, Worker] = {}
        for worker in workers:
            assert worker._channel is not None
            fd = worker._channel.fd
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(seconds * 1000))
        return [*map(by_fd.__getitem__, ready)]

    def is_alive(self) -> bool:
        """Whether the process runs."""
        return bool(self.process.is_alive())

    def end(self) -> None:
        """Ends the process."""
        if self.process is not None and self.process.pid is not None:
            self.process.kill()
            self.process.join()
        if self._channel is not None:
            self._channel.close()
            self._channel = None  # its descriptor may be reused
        if self._life in _lives:
            _lives.remove(self._life)
            os.close(self._life)

    def give_up(self) -> None:
        """Ends the process because it was silent for too long."""
        if self.is_alive():
            self.hung = True
            self.process.kill()

    def join(self, seconds: float) -> None:
        """Awaits its end."""
        self.process.join(seconds)

    @property
    def cannot_start(self) -> bool:
        """Whether it exited before it answered; one that was killed is replaced."""
        return not self.began and self.process is not None and self._exit_code() in range(256)

    def advice(self) -> str:
        """Advice for one that did not even start."""
        if not self.cannot_start or self._context.get_start_method() == "fork":
            return ""
        return (
            "it ended before it began: start workers only below `if __name__ == '__main__':`, in "
            "a file (not from standard input), or pass context='fork': other contexts import the "
            "main module again in each worker"
        )

    def how_it_ended(self) -> str:
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


class ProcessPool(WorkerPool):
    """Blocks in worker processes, which write into shared memory."""

    def __init__(
        self, blocks: Sequence[tuple[slice, bytes]], settings: Settings, context: Any
    ) -> None:
        self._memory = anonymous_file()  # workers start before its size is known
        self._processes = [
            ProcessWorker(i, rows, block, settings.timeout, context, self._memory)
            for i, (rows, block) in enumerate(blocks)
        ]
        super().__init__(self._processes, settings)

    @classmethod
    def start(cls, makers: Sequence[Maker], settings: Settings) -> ProcessPool:
        """Makes a pool with the number of processes from the settings, or one per core.

        Raises:
            RuntimeError: In a process that cannot have children.
        """
        check_process()
        count = min(settings.workers or cores(), len(makers))
        context = mp.get_context(settings.context or start_method(replaces=settings.recovers))
        return cls(blocks_of(makers, count, settings), settings, context)

    @property
    def pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._processes]

    def carry(self, function: Function) -> Callable[[], Function]:
        """Returns a callable to send to every worker, which returns the function there."""
        return functools.partial(pickle.loads, pickled_function(function))

    def abandon(self) -> None:
        """Ends every worker at once, and frees the shared memory."""
        super().abandon()
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1


@contextlib.contextmanager
def _deaf_to_ctrl_c(start_method: str) -> Iterator[None]:
    """Blocks Ctrl-C in a process that is started meanwhile, until it unblocks it."""
    if start_method == "forkserver":  # its server is shared with other code
        yield
        return
    if start_method == "spawn":
        resource_tracker.ensure_running()  # so that it is not started below with Ctrl-C blocked
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def start_method(replaces: bool) -> str:
    """The default start method of workers: Python's, but ``"forkserver"`` if a fork is unsafe.

    A fork has none of its parent's threads, but keeps the locks that they held, and may wait for
    one of them forever.

    Args:
        replaces: Whether lost workers are replaced, when there may be more threads.
    """
    default = mp.get_start_method(allow_none=True) or mp.get_all_start_methods()[0]
    # As soon as JAX is used, it has threads, and warns of every fork.
    if default == "fork" and (replaces or "jax" in sys.modules or _threads_stay_in_a_fork()):
        return "forkserver"
    return default


def _threads_stay_in_a_fork() -> bool:
    """Whether this process has threads that a fork would lose.

    OpenBLAS has threads as soon as NumPy is imported, and ends them before a fork. So if there are
    no Python threads, a fork that exits at once reveals whether there are others.
    """
    if len(sys._current_frames()) > 1:
        return True
    if _thread_count() == 1:
        return False
    with warnings.catch_warnings(), _deaf_to_ctrl_c("fork"):
        warnings.simplefilter("ignore")  # about threads: this fork needs none of their locks
        if (pid := os.fork()) == 0:
            os._exit(0)
    try:
        return _thread_count() > 1
    finally:
        with contextlib.suppress(
            ChildProcessError
        ):  # another part of the program collected it first
            os.waitpid(pid, 0)


def _thread_count() -> int:
    """The number of threads of this process; without Linux's ``/proc``, of Python's threads."""
    with contextlib.suppress(OSError):
        return len(os.listdir("/proc/self/task"))
    return threading.active_count()


def check_process() -> None:
    """Raises `RuntimeError` in a process that cannot have workers.

    A worker that gets here while it imports its main module, a script without a guard, exits
    without a traceback: its parent raises the error that says what to do.
    """
    process = mp.current_process()
    if process.name.startswith(_NAME) and getattr(process, "_inheriting", False):
        sys.exit(1)
    if process.daemon:
        raise RuntimeError(
            "a daemonic process may not have children, so there can be no workers here; use "
            "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
        )


def serve(conn: Connection, memory: Connection, life: Connection) -> None:
    """Serves the executor at the other end of ``conn``, with its memory.

    The executor's process has the other end of ``life``, to which nothing is written.
    """
    # The parent handles Ctrl-C; handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(
        signal.SIG_UNBLOCK, [signal.SIGINT]
    )  # for processes that are started from here
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent(life.fileno())
    # Forked workers have the parent's global random state, and would all draw the same.
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    channel = Channel(conn)

    def beat() -> None:
        with contextlib.suppress(OSError):  # the parent is gone, which is detected elsewhere
            channel.send(ALIVE)

    server: BlockServer | None = None
    try:
        channel.send(encode_answer(Answer()))  # the worker is running
        server = BlockServer(channel.recv(), memory.fileno(), beat)
        channel.send(encode_answer(server.handle("build", ())))
        while True:
            message = channel.recv()
            if message[:1] == PICKLED:
                try:
                    name, arguments = pickle.loads(message)
                except Exception as exc:
                    channel.send(encode_answer(server.unreadable("apply", exc)))
                    continue
            else:
                assert server.block is not None
                # A copy, because environments may keep their actions.
                name, arguments = "step", (server.block.buffers.actions(message).copy(),)
            answer = server.handle(name, arguments)
            try:
                data = encode_answer(answer)
            except Exception as exc:  # an info of any class may refuse to be pickled in any way
                data = encode_answer(server.unsendable(name, answer, exc))
            channel.send(data)
            if name == "close":
                break
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        if server is not None and server.block is not None:
            with contextlib.suppress(Exception):
                server.block.close()


def _follow_parent(life: int) -> None:
    """Ends this process as soon as its parent's end of a pipe is closed."""
    if sys.platform == "linux":
        import fcntl

        # The kernel can do this when a thread cannot: for a process that is stopped, or whose GIL
        # is held in C. (PR_SET_PDEATHSIG follows the thread that forked, not the process.)
        with contextlib.suppress(OSError):
            fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(life, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)

    def watch() -> None:
        os.read(life, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()
