"""The pool of workers that run the blocks of an executor, and worker processes.

A worker is the transport of commands to a block: `Here` is in this process, `ProcessWorker` is a
process, and `mtwrappers.vector.ray` has actors. A message to a worker process is bytes. A step is
whether environments reset themselves and the dtype of its actions, such as ``b"1<f4"``; the actions
themselves are in shared memory. Every other command, and every answer, is a pickle.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import functools
import math
import multiprocessing as mp
import operator
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
from mtwrappers.vector.buffers import Buffers, ObsLayout, anonymous_file
from mtwrappers.vector.journal import Answer, Function, ReplayLog, note
from mtwrappers.vector.settings import Maker, Settings

_DONE = Answer()
ALIVE_CHECK = 1.0  # seconds between two checks whether silent workers are alive
MAX_RECOVERIES = 3  # the number of times in a row that workers may be lost in the same call
CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: it marks rewards that were not written yet.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)


class Worker(abc.ABC):
    """A worker with a block, on the executor's side.

    Args:
        index: The index of the worker.
        rows: The rows of its environments.
        timeout: Seconds of silence after which it counts as hung; None waits forever.
    """

    interrupts: HeldInterrupts
    buffers: Buffers | None = None  # of its environments, in this process
    ready = False  # whether its environments are built and restored
    began = False  # whether it has answered
    hung = False  # whether it was ended because it was silent for too long
    shares_memory = True  # whether its writes are visible at once

    def __init__(self, index: int, rows: slice, timeout: float | None) -> None:
        self.index, self.rows = index, rows
        self.timeout = math.inf if timeout is None else timeout
        self.command: tuple[str, tuple[Any, ...]] | None = None  # what it has not answered yet
        self.answer: Answer | None = None  # the last, until it is used

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
            EOFError: If the worker has ended.
        """

    @abc.abstractmethod
    def end(self, patience: float = 0.0) -> None:
        """Ends the worker, unless it ends by itself within ``patience`` seconds."""

    # For workers elsewhere.

    @staticmethod
    def wait(workers: Sequence[Any], seconds: float) -> list[Worker]:
        """Those of some workers from which something has arrived, once there are any."""
        return [*workers]

    def is_alive(self) -> bool:
        """Whether the worker is running."""
        return True

    def silence(self) -> float:
        """The seconds since its last sign of life."""
        return math.inf

    def how_it_ended(self) -> str:
        """A description of how the worker ended by itself."""
        return "ended"

    @property
    def cannot_start(self) -> bool:
        """Whether it ended by itself before it answered, as each replacement would too."""
        return False

    def advice(self) -> str:
        """Advice for one that did not even start."""
        return ""

    def carry(self, function: Function) -> Callable[[], Function]:
        """Returns a callable to send to all workers, which returns the function there."""
        return functools.partial(pickle.loads, pickled_function(function))


class Here(Worker):
    """A block in this process, which runs a command as soon as its answer is asked for.

    Args:
        make: Returns the block.
        n: The number of its environments.
        owned: Whether it is built here, and closed; otherwise it has another owner.
    """

    block: EnvBlock | None = None

    def __init__(self, make: Callable[[], EnvBlock], n: int, owned: bool = True) -> None:
        super().__init__(0, slice(0, n), None)
        self._make, self._owned = make, owned
        if not owned:
            self.buffers = make().buffers

    def start(self) -> None:
        """Does nothing: the block is built by the first command."""

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Does nothing: `receive` runs the command."""

    def receive(self) -> Answer:
        """Runs the command, which Ctrl-C may interrupt."""
        if self.command is None:
            return _DONE
        name, arguments = self.command
        if self.block is not None:
            self.block.notes = None  # of the command before
        self.interrupts.waiting = True
        try:
            if name == "build":
                self.block, name = self._make(), "traits"
            assert self.block is not None
            if not self._owned:
                self.block.beat()
            return self.block.handle(name, arguments)
        except BaseException as exc:  # an interrupt, or an error while the block is built
            self.interrupts.waiting = False
            if self.block is None:
                raise
            return self.block.failed(name, exc)
        finally:
            self.interrupts.waiting = False

    def end(self, patience: float = 0.0) -> None:
        """Closes the environments."""
        if self._owned and self.block is not None:
            self.block.close()

    def carry(self, function: Function) -> Callable[[], Function]:
        """Returns a callable that returns the function."""
        return lambda: function


class Pool:
    """The workers of an executor: it starts, asks, replaces and closes them.

    Every method raises `WorkerDiedError` if a worker is lost and cannot be replaced, and otherwise
    the exception of a worker's answer. After a `WorkerDiedError`, no worker can be used.

    Args:
        workers: A worker for each block, in the order of their environments.
        settings: The settings of the executor.
        memory: The descriptor of the memory that workers share, if they do.
        release: Callbacks for when all workers have ended.

    Attributes:
        rows: The rows of each block.
        buffers: The results of all environments.
        logs: The journal, a log per environment, if there is one.
        names: The name of each environment's task, as resets said.
        here: Whether there is one block, in this process.
        whole: A context in which Ctrl-C is delayed, except while an answer is waited for.
        lost: Whether the workers are gone for good.
        recoveries: The number of replaced workers.
    """

    buffers: Buffers
    logs: list[ReplayLog] | None = None
    lost = False
    recoveries = 0

    def __init__(
        self,
        workers: Sequence[Worker],
        settings: Settings,
        memory: int = -1,
        release: contextlib.ExitStack | None = None,
    ) -> None:
        interrupts = HeldInterrupts()
        for worker in workers:
            worker.interrupts = interrupts
        self.workers = workers
        self.rows = [worker.rows for worker in workers]
        self.names: list[Any] = [None] * workers[-1].rows.stop
        self.here = isinstance(workers[0], Here)
        # Without a journal, there is nothing here that would have to be done as a whole.
        held = settings.journal or not self.here
        self.whole: contextlib.AbstractContextManager[None] = (
            interrupts if held else contextlib.nullcontext()
        )
        self._envs_per_task = settings.envs_per_task
        self._max_recoveries = MAX_RECOVERIES if settings.recovers else 0
        self._memory, self._release = memory, release or contextlib.ExitStack()
        # Commands that a replacement needs too, with arguments as in `run`.
        self._setup: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {}

    # Commands.

    def build(self) -> list[Any]:
        """Starts the workers, which build environments; returns `EnvBlock.traits` of each block."""
        with self.whole:
            if lost := self._start(self.workers):
                self._replace(lost)
        return self.prepare("build")

    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers of all environments, unless they have some, for all blocks."""
        if (known := self.workers[0].buffers) is not None:
            self.buffers = known
            return known
        self.buffers = Buffers(layout, action_shape, self._memory)
        for worker in self.workers:
            worker.buffers = self.buffers.part(worker.rows)
        if self.here:
            self.prepare("connect", (), (layout, self.buffers))
        else:
            self.prepare("connect", [range(layout.n)], (layout.n, action_shape))
        return self.buffers

    def prepare(self, name: str, each: Sequence[Any] = (), common: Sequence[Any] = ()) -> list[Any]:
        """Runs a command that replacements run too, the last one of each name."""
        results = self.run(name, each, common)
        self._setup[name] = each, common
        return results

    def run(self, name: str, each: Sequence[Any] = (), common: Sequence[Any] = ()) -> list[Any]:
        """Runs a command in every block, and returns the result of each.

        Args:
            name: A method of `EnvBlock`.
            each: Arguments with an entry per environment; a block is given its own entries.
            common: The arguments after these, which are the same for all blocks.
        """
        with self.whole:
            self.begin(name, each, common)
            return self.end()

    def begin(self, name: str, each: Sequence[Any] = (), common: Sequence[Any] = ()) -> None:
        """Begins a command, so that `end` returns what `run` would return.

        Callers of both do so within `whole`.
        """
        for worker in self.workers:
            if not worker.ready or worker.command is not None:
                self._drain()
                break
        for worker in self.workers:
            given = (*map(operator.itemgetter(worker.rows), each), *common)
            worker.command = name, given
            worker.send(name, given)

    def end(self) -> list[Any]:
        """Waits for the command that was begun."""
        lost, busy = [], []
        for worker in self.workers:
            if not worker.ready:
                lost.append(worker)
            elif worker.command is not None:
                busy.append(worker)
        lost += self._gather(busy)
        if lost:
            self._replace(lost)
        results, failed = [], _DONE
        for worker in self.workers:
            answer, worker.answer = worker.answer or _DONE, None
            results.append(answer.result)
            if answer.failure is not None and failed is _DONE:
                failed = answer
        if failed is not _DONE:
            _raise_failure(failed)
        return results

    def close(self) -> None:
        """Makes blocks close their environments, and ends workers that do not in time."""
        answers = []
        with self.whole:
            deadline = time.monotonic() + CLOSE_TIMEOUT
            asked = [] if self.here else self._ask_to_close(deadline)
            answers = [worker.answer for worker in asked if worker.answer is not None]
            for worker in asked:
                worker.end(max(deadline - time.monotonic(), 0.0))
            self.abandon()
        for answer in answers:
            if answer.failure is not None:
                failure, _ = answer.failure
                said = f"{full_message(failure)} ({type(failure).__name__})"
                gymnasium.logger.warn(f"could not be closed, {said}")

    def _ask_to_close(self, deadline: float) -> list[Worker]:
        """The workers that were asked to close their environments, once they have answered."""
        self._gather([one for one in self.workers if one.ready and one.command], deadline)
        asked = [one for one in self.workers if one.ready and not one.command]
        for worker in asked:
            worker.answer, worker.command = None, ("close", ())
            worker.send("close", ())
        self._gather(asked, deadline)
        return asked

    def abandon(self) -> None:
        """Ends every worker at once."""
        self.lost = True
        for worker in self.workers:
            worker.end()
            worker.ready, worker.answer = False, None
        self._release.close()

    def _drain(self) -> None:
        """Reads the answers that an interrupted call has left, and replaces lost workers."""
        try:
            self.end()
        except WorkerDiedError:
            raise
        except Exception as exc:
            gymnasium.logger.warn(f"an interrupted call had failed: {full_message(exc)}")

    # Workers that answer, and those that do not.

    def _gather(self, workers: Sequence[Worker], until: float = math.inf) -> list[Worker]:
        """Waits for the answers of workers, at most until then.

        Returns:
            The workers that were lost.
        """
        if self.here:
            for worker in workers:
                self._take(worker)
            return []
        lost: list[Worker] = []
        now = time.monotonic()
        look = now + ALIVE_CHECK
        waiting = {worker: now + worker.timeout for worker in workers}  # until when
        while waiting and now < until:
            seconds = max(min(look, until, *waiting.values()) - now, 0.0)
            interrupts = workers[0].interrupts
            interrupts.waiting = True
            try:
                arrived = workers[0].wait([*waiting], seconds)
            finally:
                interrupts.waiting = False
            now = time.monotonic()
            for worker in arrived:
                try:
                    done = self._take(worker)
                except EOFError:
                    lost.append(worker)
                    continue
                if done:
                    del waiting[worker]
                else:
                    waiting[worker] = now + worker.timeout
            if now >= look:  # even while others answer: a node may vanish silently
                lost += [one for one in waiting if one not in lost and not one.is_alive()]
                look = now + ALIVE_CHECK
            for worker, deadline in waiting.items():
                if now >= deadline and worker not in lost:
                    waiting[worker] = now + worker.timeout - worker.silence()
                    if waiting[worker] <= now:
                        worker.hung = worker.is_alive()
                        worker.end()
                        lost.append(worker)
            for worker in lost:
                worker.ready = False
                waiting.pop(worker, None)
        return sorted(lost, key=lambda worker: worker.index)

    def _take(self, worker: Worker) -> bool:
        """Takes the answer of a worker, and records its command; whether it is complete.

        Raises:
            EOFError: If the worker has ended.
        """
        answer = worker.receive()
        if answer is None:
            return False
        command, worker.command = worker.command, None
        worker.answer, worker.began = answer, True
        if command is not None and self.logs is not None:
            note(self.logs, worker.rows, command, answer, self.buffers)
        return True

    def _replace(self, lost: list[Worker]) -> None:
        """Starts replacements of lost workers, repeatedly if these are lost too."""
        attempts = 0
        while lost:
            if attempts == self._max_recoveries or any(one.cannot_start for one in lost):
                self._raise_lost(lost, attempts)
            attempts += 1
            self.recoveries += len(lost)
            reason = "; ".join(map(self._describe, lost))
            gymnasium.logger.warn(f"{reason}; starting a replacement")
            try:
                lost = self._start(lost)
            except Exception as exc:
                self.abandon()
                raise WorkerDiedError(
                    f"{reason}, and cannot be recovered: {full_message(exc)}"
                ) from exc

    def _start(self, workers: Sequence[Worker]) -> list[Worker]:
        """Starts workers, restores their environments, and repeats what they have not answered.

        Returns:
            The workers that were lost meanwhile.
        """
        commands = {worker: worker.command for worker in workers}
        for worker in workers:
            worker.end()
            worker.ready = worker.began = worker.hung = False
            worker.answer = worker.command = None
            worker.start()
        lost = self._gather(workers)
        setup = {**self._setup}
        if self.logs is not None:
            setup["replay"] = [self.logs], ()
        for name, (each, common) in setup.items():
            here = [worker for worker in workers if worker not in lost]
            for worker in here:
                worker.send(name, (*map(operator.itemgetter(worker.rows), each), *common))
            lost += self._gather(here)
            for worker in here:
                _raise_failure(worker.answer or _DONE)
        asked = []
        for worker, command in commands.items():
            worker.answer, worker.command = None, command
            worker.ready = worker not in lost
            if worker.ready and command is not None:
                if command[0] == "step":
                    self.buffers.rewards[worker.rows].view(np.uint64)[...] = _NO_REWARD
                worker.send(*command)
                asked.append(worker)
        return lost + self._gather(asked)

    def _raise_lost(self, lost: Sequence[Worker], attempts: int) -> NoReturn:
        said = "; ".join(map(self._describe, lost))
        if attempts:
            said += f"; workers were lost {attempts + 1} times in the same call"
            said += "".join(map(self._culprit, lost))
        said += "".join(f"; {advice}" for advice in {w.advice(): None for w in lost} if advice)
        self.abandon()
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _describe(self, worker: Worker) -> str:
        """A description of how a worker ended, with its environments and tasks."""
        first, last = worker.rows.start, worker.rows.stop - 1
        tasks = list(range(first // self._envs_per_task, last // self._envs_per_task + 1))
        names = dict.fromkeys(str(name) for name in self.names[worker.rows] if name)
        named = f" ({', '.join(names)})" if names else ""
        how = "hung: it did not answer" if worker.began else "did not start"
        how = f"{how} within {worker.timeout:g} s" if worker.hung else worker.how_it_ended()
        which = f"environments {first} to {last} of tasks {tasks}{named}"
        return f"worker {worker.index} {how}, with {which}"

    def _culprit(self, worker: Worker) -> str:
        """The environment that was being stepped when a worker died in a repeated step."""
        if worker.command is None or worker.command[0] != "step" or not worker.shares_memory:
            return ""
        _, (actions, _) = worker.command
        rewards = self.buffers.rewards[worker.rows].view(np.uint64)
        for place in np.flatnonzero(rewards == _NO_REWARD).tolist():
            i = worker.rows.start + place
            name = f", task {self.names[i]!r}" if self.names[i] else ""
            return f", by environment {i}{name}, stepped with action {actions[place]}"
        return ""


def _raise_failure(answer: Answer) -> None:
    """Raises the exception of an answer, if there is one."""
    if answer.failure is not None:
        failure, text = answer.failure
        if text:
            raise failure from WorkerTraceback(text)
        raise failure


class BlockServer:
    """Builds a block and runs the commands of an executor in another process.

    Args:
        memory: The descriptor of the memory that the parent shares; -1 if there is none.
    """

    block: EnvBlock | None = None
    closed = False

    def __init__(self, memory: int = -1) -> None:
        self._memory = memory

    def command(self, message: bytes) -> tuple[str, tuple[Any, ...]]:
        """The name and arguments of a command in a message of `ProcessWorker.send`."""
        if message[:1] == _PICKLED:
            found: tuple[str, tuple[Any, ...]] = pickle.loads(message)
            return found
        assert self.block is not None
        # A copy, because environments may keep their actions.
        actions = self.block.buffers.actions(message[1:].decode()).copy()
        return "step", (actions, message[:1] == b"1")

    def answer(self, load: Callable[[], tuple[str, tuple[Any, ...]]]) -> bytes:
        """Runs a command, and returns its pickled answer.

        Args:
            load: Returns the name of the command and its arguments.
        """
        name = ""
        try:
            name, arguments = load()
        except Exception as exc:  # such as a module that only the parent has
            where = f"a worker on {socket.gethostname()} cannot import what it was given"
            return _encoded(Answer(failure=(with_place(exc, where), "")))
        answer = self._run(name, arguments)
        try:
            return _encoded(answer)
        except Exception as exc:  # an info of any class may refuse to be pickled in any way
            assert self.block is not None
            first = self.block.offset
            last = first + len(self.block.envs) - 1
            with_place(exc, f"the answer of environments {first} to {last} to {name}()")
            return _encoded(self.block.failed(name, exc))

    def _run(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        self.closed = name == "close"
        try:
            if name == "build":
                return Answer(self._build(*arguments))
            if self.block is None:  # its environments could not be built, or not yet
                return _DONE
            if name == "connect":
                arguments = self._buffers(*arguments)
        except Exception as exc:
            return Answer(failure=(exc, ""))
        return self.block.handle(name, arguments)

    def _build(self, pickled: bytes) -> tuple[Any, ...]:
        """Builds the block from the pickled arguments of `EnvBlock`, and returns its traits.

        They are unpickled for every build, because constructors may keep what they have made.
        """
        limit_threads()
        try:
            _, offset, settings = pickle.loads(pickled)
        except Exception as exc:
            where = f"a worker on {socket.gethostname()} cannot import what makes its environments"
            with_place(exc, where)
            raise
        self.block = EnvBlock(lambda: pickle.loads(pickled)[0], offset, settings)
        return self.block.traits()

    def _buffers(self, rows: range, n: int, action_shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Makes buffers for results: rows of shared memory, or memory of this process."""
        assert self.block is not None
        if self._memory < 0:
            rows, n = range(len(rows)), len(rows)
        layout = ObsLayout(self.block.envs[0].observation_space, n)
        buffers = Buffers(layout, action_shape, self._memory)
        return layout, buffers.part(slice(rows.start, rows.stop))


def _encoded(answer: Answer) -> bytes:
    """An answer, pickled, with a failure that can be unpickled."""
    if answer == _DONE:
        return DONE
    if answer.failure is not None:
        exc, _ = answer.failure
        text = "".join(traceback.format_exception(exc))
        answer = answer._replace(failure=(picklable(exc), text))
    return bytes(cloudpickle.dumps(answer))


def limit_threads() -> None:
    """Limits libraries to one thread, because workers share the cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    # Torch may be here already, or come with an environment or a policy.
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


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
            try:
                cloudpickle.dumps(make)
            except Exception as exc:
                raise TypeError(
                    f"the constructor of environment {i} must be picklable to run in workers, "
                    f"{make!r} is not ({exc}): let it make such objects when it is called, or use "
                    "execution='iterative', which has no workers"
                ) from exc
        raise


def pickled_function(function: Any) -> bytes:
    """A function for `EnvBlock.apply`, pickled."""
    try:
        return bytes(cloudpickle.dumps(function))
    except Exception as exc:
        raise TypeError(
            f"a function must be picklable to run in workers, {function!r} is not ({exc})"
        ) from exc


# Processes.

DONE = b""  # an empty answer
_PICKLED = b"\x80"  # the first byte of a pickle
_HEADER = struct.Struct("!Q")  # the number of bytes that follow
_CHUNK = 1 << 16
_NAME = "mtw-"  # begins the name of each worker process

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

    It starts in the `multiprocessing` context ``context`` with the pickled arguments ``block`` of
    an `EnvBlock`, and shares the file ``memory`` with its parent; the other arguments are those of
    `Worker`.
    """

    def __init__(
        self,
        index: int,
        rows: slice,
        timeout: float | None,
        block: bytes,
        context: Any,
        memory: int,
    ) -> None:
        super().__init__(index, rows, timeout)
        self._block, self._context, self._memory = block, context, memory
        self.process: Any = None
        self._conn: Any = None  # messages to and from the process
        self._data = bytearray()  # what has arrived
        self._life = -1  # the end of a pipe; when it is closed, the worker ends

    def start(self) -> None:
        """Starts the process."""
        self._conn, other = self._context.Pipe()
        os.set_blocking(self._conn.fileno(), False)
        self._data = bytearray()
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
        if name == "build":
            arguments = (self._block,)
        if name == "step" and isinstance(actions := arguments[0], np.ndarray):
            assert self.buffers is not None
            message = f"{arguments[1]:d}{actions.dtype.str}".encode()
            self.buffers.actions(actions.dtype.str)[...] = actions
        else:
            message = cloudpickle.dumps((name, arguments))
        data = memoryview(_HEADER.pack(len(message)) + message)
        try:
            while data:
                try:
                    data = data[os.write(self._conn.fileno(), data) :]
                except BlockingIOError:
                    self._wait_to_send()
        except OSError:
            pass
        except BaseException:  # an interrupt truncated the message, so later ones are unreadable
            self.process.kill()
            raise

    def _wait_to_send(self) -> None:
        """Waits until the process reads; it is ended if it does not in time."""
        poll = select.poll()
        poll.register(self._conn.fileno(), select.POLLOUT)
        self.interrupts.waiting = True
        try:
            reads = poll.poll(None if self.timeout == math.inf else self.timeout * 1000)
        finally:
            self.interrupts.waiting = False
        if not reads:
            self.hung = self.is_alive()
            self.process.kill()
            raise TimeoutError("the worker did not read in time")

    def receive(self) -> Answer | None:
        """Takes what has arrived; returns an answer once it is whole."""
        data, begin = self._data, _HEADER.size
        try:
            while len(data) < begin or len(data) < (end := begin + _HEADER.unpack_from(data)[0]):
                chunk = os.read(self._conn.fileno(), _CHUNK)
                if not chunk:
                    raise EOFError("the worker has closed its pipe")
                data += chunk
        except BlockingIOError:
            return None
        except OSError as exc:
            raise EOFError from exc
        answer: Answer = pickle.loads(data[begin:end]) if end > begin else _DONE
        del data[:end]
        return answer

    @staticmethod
    def wait(workers: Sequence[ProcessWorker], seconds: float) -> list[Worker]:
        """Those of some workers from which something has arrived, once there are any."""
        poll = select.poll()
        by_fd: dict[int, Worker] = {}
        for worker in workers:
            fd = worker._conn.fileno()
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        ready = dict(poll.poll(seconds * 1000))
        return [*map(by_fd.__getitem__, ready)]

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
        if self._conn is not None:
            self._conn.close()
        if self._life in _lives:
            _lives.remove(self._life)
            os.close(self._life)

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


def process_pool(makers: Sequence[Maker], settings: Settings) -> Pool:
    """Makes a pool with the number of processes from the settings, or one per core.

    Raises:
        RuntimeError: In a process that cannot have children.
        TypeError: If a constructor cannot be pickled.
    """
    check_process()
    count = min(settings.workers or cores(), len(makers))
    context = mp.get_context(settings.context or start_method(replaces=settings.recovers))
    blocks = blocks_of(makers, count, settings)
    memory = anonymous_file()  # workers start before its size is known
    release = contextlib.ExitStack()
    release.callback(os.close, memory)
    workers = [
        ProcessWorker(i, rows, settings.timeout, block, context, memory)
        for i, (rows, block) in enumerate(blocks)
    ]
    return Pool(workers, settings, memory, release)


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
    with contextlib.suppress(ChildProcessError):  # another part of the program collected it first
        os.waitpid(pid, 0)
    return _thread_count() > 1


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
    server = BlockServer(memory.fileno())
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),  # the parent is gone
        open(conn.fileno(), "rb", closefd=False) as source,
        open(conn.fileno(), "wb", closefd=False) as sink,
    ):
        _write(sink, DONE)  # the worker is running
        while not server.closed:
            load = functools.partial(server.command, _read(source))
            _write(sink, server.answer(load))
    if server.block is not None:
        with contextlib.suppress(Exception):
            server.block.close()


def _read(source: Any) -> bytes:
    """Waits for a message."""
    header = source.read(_HEADER.size)
    if len(header) == _HEADER.size:
        (length,) = _HEADER.unpack(header)
        message: bytes = source.read(length)
        if len(message) == length:
            return message
    raise EOFError("the parent has closed its pipe")


def _write(sink: Any, message: bytes) -> None:
    """Sends a message."""
    sink.write(_HEADER.pack(len(message)) + message)
    sink.flush()


def _follow_parent(life: int) -> None:
    """Ends this process as soon as its parent's end of a pipe is closed.

    On Linux the kernel does it, also for a process that is stopped, or whose GIL is held in C.
    (PR_SET_PDEATHSIG follows the thread that forked, not the process.) Elsewhere a worker ends
    when it next reads from its parent.
    """
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(life, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)
        poll = select.poll()
        poll.register(life)
        if poll.poll(0):  # it was closed before
            os._exit(1)
