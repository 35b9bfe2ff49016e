"""Blocks in workers of any kind: both ends of the connection, and replacement of lost workers."""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import enum
import math
import multiprocessing
import os
import pickle
import socket
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import cloudpickle
import gymnasium
import numpy as np

from mtwrappers.common.errors import (
    WorkerDiedError,
    WorkerTraceback,
    full_message,
    picklable,
    with_place,
)
from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.blocks import Blocks
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.commands import Answer, Command
from mtwrappers.vector.settings import Maker, Settings

_NOTHING = Answer()
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


class State(enum.Enum):
    """The state of a worker."""

    GONE = enum.auto()  # it has ended, or was never started
    PREPARING = enum.auto()  # it starts, builds its environments and restores their state
    IDLE = enum.auto()
    BUSY = enum.auto()  # with a command of its executor, or its answer was not read


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
    began = False  # whether it has answered
    hung = False  # whether it was ended because it was silent for too long
    shares_memory = True  # whether its writes are visible at once

    def __init__(self, index: int, rows: slice, block: bytes, timeout: float | None) -> None:
        self.index, self.rows, self.block = index, rows, block
        self.timeout = math.inf if timeout is None else timeout
        self.command: Command | None = None  # what it has not answered yet
        self.answer: Answer | None = None  # the last, until it is used
        self.state = State.GONE
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

    @property
    def ready(self) -> bool:
        """Whether its environments are built and restored."""
        return self.state in (State.IDLE, State.BUSY)

    def kill(self) -> None:
        """Ends the worker, and drops its answer."""
        self.end()
        self.state, self.answer = State.GONE, None

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
            if worker.state is not State.IDLE:
                self._drain()
                break
        for worker in self.workers:
            worker.command, worker.state = command, State.BUSY
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
            with contextlib.suppress(multiprocessing.TimeoutError):
                self._gather([w for w in self.workers if w.state is State.BUSY], deadline)
            asked = [worker for worker in self.workers if worker.state is State.IDLE]
            for worker in asked:
                worker.command, worker.state = None, State.BUSY
                worker.send("close", ())
            with contextlib.suppress(multiprocessing.TimeoutError):
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
        lost = [worker for worker in self.workers if not worker.ready]
        lost += self._gather([w for w in self.workers if w.state is State.BUSY], until)
        if lost:
            self._replace(lost)
        answers = []
        for worker in self.workers:
            answers.append(worker.answer or _NOTHING)
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
            worker.command, worker.state = None, State.PREPARING
            worker.began = worker.hung = False
            worker.start()
        lost = self._gather(workers)
        lost += self._prepare([worker for worker in workers if worker not in lost])
        asked = []
        for worker, command in zip(workers, commands, strict=True):
            worker.command = command
            if worker in lost:
                continue
            worker.state = State.IDLE
            if command is not None:
                if command.name == "step":
                    self._buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
                worker.state = State.BUSY
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
                raise multiprocessing.TimeoutError(
                    f"workers {[worker.index for worker in waiting]} have not answered in time"
                )
        for worker in lost:
            worker.state = State.GONE
        return sorted(lost, key=lambda worker: worker.index)

    def _receive(
        self, arrived: Sequence[Worker], waiting: dict[Worker, float], now: float
    ) -> list[Worker]:
        """Reads the data that has arrived from workers; returns workers that have ended."""
        gone = []
        for worker in arrived:
            try:
                answer = worker.receive()
            except WorkerLost:
                gone.append(worker)
                continue
            if answer is None:
                waiting[worker] = now + worker.timeout
            else:
                del waiting[worker]
                self._take(worker, answer)
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

    def _take(self, worker: Worker, answer: Answer) -> None:
        """Stores an answer, and records its command in the journal."""
        worker.answer, worker.began = answer, True
        if worker.state is State.BUSY:
            worker.state = State.IDLE
        if answer.objects is not None:
            self._buffers.obs[0][worker.rows] = answer.objects
        for i, info in enumerate(answer.infos or ()):
            if info and "task_name" in info:
                worker.names[i] = info["task_name"]
        command, worker.command = worker.command, None
        if command is not None and self.journal is not None:
            self.journal.note(command, worker.rows, answer)

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
