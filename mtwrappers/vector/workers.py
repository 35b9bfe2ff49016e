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
import tempfile
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any, NoReturn, TypeAlias

import cloudpickle
import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.cores import cores
from mtwrappers.common.errors import (
    WorkerDiedError,
    WorkerTraceback,
    full_message,
    picklable,
    with_place,
)
from mtwrappers.common.extras import with_or_without_opengl
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.journal import Answer, ReplayLog, note
from mtwrappers.vector.settings import Maker, Settings

_DONE = Answer()
ALIVE_CHECK = 1.0  # seconds between two checks whether silent workers are alive
MAX_RECOVERIES = 3  # the number of times in a row that workers may be lost in the same call
CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments
# A NaN that no environment returns as its reward: it marks rewards that were not written yet.
_NO_REWARD = np.uint64(0x7FF8_0000_6D74_7772)


# Workers from which data has arrived, with the answers that are complete.
Arrived: TypeAlias = "list[tuple[Worker, Answer | None]]"


class Interrupts:
    """A handler that delays Ctrl-C, except while an answer is waited for.

    Attributes:
        handler: The handler that it replaces, while it does.
        waiting: Whether an answer is waited for.
        came: The arguments of a Ctrl-C that was delayed.
    """

    handler: Any = None
    waiting = False
    came: tuple[Any, Any] | None = None

    def __call__(self, signum: int, frame: Any) -> None:
        """Handles the signal."""
        if self.waiting and self.handler is not None:
            self.handler(signum, frame)
        else:
            self.came = signum, frame


class Worker(abc.ABC):
    """A worker with a block, on the executor's side; ``rows`` are those of its environments."""

    index: int
    rows: slice
    command: tuple[str, tuple[Any, ...]] | None = None  # what it has not answered yet
    answer: Answer | None = None  # the last, until it is used
    timeout: float  # seconds of silence after which it counts as hung
    interrupts: Interrupts
    buffers: Buffers | None = None  # of its environments, in this process
    ready = False  # whether its environments are built and restored
    began = False  # whether it has answered
    gone = False  # whether it has ended, or was ended
    hung = False  # whether it was ended because it was silent for too long
    shares_memory = True  # whether its writes are visible at once

    @abc.abstractmethod
    def start(self) -> None:
        """Starts the worker, which answers once it is running."""

    @abc.abstractmethod
    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Sends its block a command. If the worker is gone, waiting for the answer detects it."""

    @abc.abstractmethod
    def end(self, patience: float = 0.0) -> None:
        """Ends the worker, unless it ends by itself within ``patience`` seconds."""

    # For workers elsewhere.

    @staticmethod
    def receive(workers: Sequence[Any], seconds: float) -> Arrived:
        """Waits for data from some workers, at most for some seconds.

        Returns:
            Each worker from which data has arrived, with its answer if that is complete. Workers
            that have ended are marked as `gone` instead.
        """
        return []

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


class Here(Worker):
    """A block in this process, which runs a command when it is sent.

    Args:
        make: Returns the block.
        n: The number of its environments.
        owned: Whether it is built here, and closed; otherwise it has another owner.
    """

    block: EnvBlock | None = None

    def __init__(self, make: Callable[[], EnvBlock], n: int, owned: bool = True) -> None:
        self.rows, self._make, self.owned = slice(0, n), make, owned

    def start(self) -> None:
        """Does nothing: the block is built by the first command."""
        self.answer = _DONE

    def send(self, name: str, arguments: tuple[Any, ...]) -> None:
        """Runs the command, which Ctrl-C may interrupt."""
        block = self.block
        if block is not None:
            block.notes = None  # of the command before
        self.interrupts.waiting = True
        try:
            if name == "build":
                block = self.block = self._make()
                name = "traits"
            assert block is not None
            if not self.owned:
                block.beat()
            self.answer = block.handle(name, arguments)
        except BaseException as exc:  # an interrupt, or an error while the block is built
            self.interrupts.waiting = False
            if block is None:
                raise
            self.answer = block.failed(name, exc)
        finally:
            self.interrupts.waiting = False

    def end(self, patience: float = 0.0) -> None:
        """Closes the environments."""
        if self.owned and self.block is not None:
            self.block.close()


class Pool:
    """The workers of an executor: it starts, asks, replaces and closes them.

    Every method raises `WorkerDiedError` if a worker is lost and cannot be replaced, and otherwise
    the exception of a worker's answer. After a `WorkerDiedError`, no worker can be used.

    Args:
        workers: A worker for each block, in the order of their environments.
        settings: The settings of the executor.
        memory: The descriptor of the memory that workers share, to be closed; -1 if there is none.

    Attributes:
        rows: The rows of each block.
        buffers: The results of all environments.
        logs: The journal, a log per environment, if there is one.
        names: The name of each environment's task, as resets said.
        here: Whether there is one block, in this process.
        interrupts: Delays Ctrl-C.
        whole: Whether calls must not be interrupted: without a journal, there is nothing in this
            process that would have to be done as a whole.
        lost: Whether the workers are gone for good.
        recoveries: The number of replaced workers.
    """

    buffers: Buffers
    logs: list[ReplayLog] | None = None
    lost = False
    recoveries = 0

    def __init__(self, workers: Sequence[Worker], settings: Settings, memory: int = -1) -> None:
        self.interrupts = Interrupts()
        for index, worker in enumerate(workers):
            worker.index, worker.interrupts = index, self.interrupts
            worker.timeout = math.inf if settings.timeout is None else settings.timeout
        self.workers = workers
        self.rows = [worker.rows for worker in workers]
        self.names: list[Any] = [None] * workers[-1].rows.stop
        self.here = isinstance(workers[0], Here)
        self.whole = settings.journal or not self.here
        self._envs_per_task = settings.envs_per_task
        self._max_recoveries = MAX_RECOVERIES if settings.on_worker_failure == "recover" else 0
        self._memory = memory
        # Commands that a replacement needs too, with arguments as in `run`.
        self._setup: dict[str, tuple[Sequence[Any], Sequence[Any]]] = {}

    # Commands.

    def build(self) -> list[Any]:
        """Starts the workers, which build environments; returns `EnvBlock.traits` of each block."""
        if lost := self._start(self.workers):
            self._replace(lost)
        return self.prepare("build")

    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes all blocks write to buffers, and returns those of all environments."""
        first = self.workers[0]
        if not isinstance(first, Here) or first.owned:
            self.prepare("connect", [range(layout.n)], (layout.n, action_shape))
        if isinstance(first, Here):
            assert first.block is not None
            self.buffers = first.block.buffers
        else:
            self.buffers = Buffers(layout, action_shape, self._memory)
            for worker in self.workers:
                worker.buffers = self.buffers.part(worker.rows)
        return self.buffers

    def prepare(self, name: str, each: Sequence[Any] = (), common: Sequence[Any] = ()) -> list[Any]:
        """Runs a command that replacements run too, the last one of each name."""
        results = self.run(name, each, common)
        self._setup[name] = each, common
        return results

    def run(
        self,
        name: str,
        each: Sequence[Any] = (),
        common: Sequence[Any] = (),
        *,
        wait: bool = True,
    ) -> list[Any]:
        """Runs a command in every block, and returns the result of each.

        Args:
            name: A method of `EnvBlock`.
            each: Arguments with an entry per environment; a block is given its own entries.
            common: The arguments after these, which are the same for all blocks.
            wait: Whether to wait for the results, which `end` returns otherwise.
        """
        for worker in self.workers:
            if not worker.ready or worker.command is not None:
                self._drain()
                break
        for worker in self.workers:
            given = (*map(operator.itemgetter(worker.rows), each), *common)
            worker.command = name, given
            worker.send(name, given)
        return self.end() if wait else []

    def end(self) -> list[Any]:
        """Waits for the results of a command."""
        lost, busy = [], []
        for worker in self.workers:
            if not worker.ready:
                lost.append(worker)
            elif worker.command is not None and worker.answer is None:
                busy.append(worker)
        if busy:
            lost += self._gather(busy)
        if lost:
            self._replace(lost)
        results, failed = [], _DONE
        for worker in self.workers:
            command, worker.command = worker.command, None
            answer, worker.answer = worker.answer or _DONE, None
            if command is not None and self.logs is not None:
                note(self.logs, worker.rows, command, answer, self.buffers)
            results.append(answer.result)
            if answer.failure is not None and failed is _DONE:
                failed = answer
        if failed is not _DONE:
            _raise_failure(failed)
        return results

    def close(self) -> None:
        """Makes blocks close their environments, and ends workers that do not in time."""
        deadline = time.monotonic() + CLOSE_TIMEOUT
        ready = [] if self.here else [one for one in self.workers if one.ready]
        self._gather([one for one in ready if one.command], deadline)
        asked = [one for one in ready if one.answer or not one.command]
        for worker in asked:
            worker.answer, worker.command = None, ("close", ())
            worker.send("close", ())
        self._gather(asked, deadline)
        answers = [worker.answer or _DONE for worker in asked]
        for worker in asked:
            worker.end(max(deadline - time.monotonic(), 0.0))
        self.abandon()
        for answer in answers:
            if answer.failure is not None:
                failure, _ = answer.failure
                said = f"{full_message(failure)} ({type(failure).__name__})"
                gymnasium.logger.warn(f"could not be closed, {said}")

    def abandon(self) -> None:
        """Ends every worker at once."""
        self.lost = True
        for worker in self.workers:
            worker.end()
            worker.ready, worker.answer = False, None
        if self._memory >= 0:
            os.close(self._memory)
            self._memory = -1

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
        """Waits for the answers of workers that have none, at most until then.

        Returns:
            The workers that were lost.
        """
        lost: list[Worker] = []
        now = time.monotonic()
        look = now + ALIVE_CHECK
        waiting = {}  # until when
        for worker in workers:
            if worker.answer is None:
                waiting[worker] = now + worker.timeout
        while waiting and now < until:
            seconds = max(min(look, until, *waiting.values()) - now, 0.0)
            arrived = workers[0].receive([*waiting], seconds)
            now = time.monotonic()
            for worker, answer in arrived:
                if answer is None:
                    waiting[worker] = now + worker.timeout
                    continue
                worker.answer, worker.began = answer, True
                del waiting[worker]
            if now >= look:  # even while others answer: a node may vanish silently
                look = now + ALIVE_CHECK
                for worker in waiting:
                    worker.gone = worker.gone or not worker.is_alive()
            for worker, deadline in [*waiting.items()]:
                if now >= deadline and not worker.gone:
                    waiting[worker] = now + worker.timeout - worker.silence()
                    if waiting[worker] <= now:
                        worker.hung = worker.is_alive()
                        worker.gone = True
                        worker.end()
                if worker.gone:
                    worker.ready = False
                    lost.append(worker)
                    del waiting[worker]
        return sorted(lost, key=lambda worker: worker.index)

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
            for worker in lost:
                worker.end()
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
            worker.ready = worker.began = worker.gone = worker.hung = False
            worker.answer = worker.command = None
            worker.start()
        lost = self._gather(workers)
        setup = {**self._setup}
        if self.logs is not None:
            setup["replay"] = [self.logs], ()
        for name, (each, common) in setup.items():
            here = [worker for worker in workers if worker not in lost]
            for worker in here:
                worker.answer = None
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
        # Workers share the cores. Libraries that are imported from here on read the variable.
        os.environ["OMP_NUM_THREADS"] = "1"
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)

    def answer(self, message: bytes) -> bytes:
        """Runs the command in a message, as `ProcessWorker.send` sends it.

        Returns:
            Its pickled answer.
        """
        name, answer = "step", _DONE
        try:
            if message[:1] == _PICKLED:
                name, arguments = pickle.loads(message)
            else:
                arguments = self._actions(message), message[:1] == b"1"
            if name == "build":
                pickled = arguments[0]
                arguments = (pickled, *with_or_without_opengl(lambda: pickle.loads(pickled))[1:])
        except Exception as exc:  # such as a module that only the parent has
            where = f"a worker on {socket.gethostname()} cannot import what it was given"
            return _encoded(Answer(failure=(with_place(exc, where), "")))
        self.closed = name == "close"
        try:
            if name == "build":
                answer = Answer(self._build(*arguments))
            elif self.block is not None:  # else its environments could not be built
                answer = self.block.handle(name, arguments)
        except Exception as exc:
            answer = Answer(failure=(exc, ""))
        try:
            return _encoded(answer)
        except Exception as exc:  # an info of any class may refuse to be pickled in any way
            assert self.block is not None
            first = self.block.offset
            last = first + len(self.block.envs) - 1
            with_place(exc, f"the answer of environments {first} to {last} to {name}()")
            return _encoded(self.block.failed(name, exc))

    def _actions(self, message: bytes) -> NDArray[Any]:
        """The actions of a step: a copy, because environments may keep them."""
        assert self.block is not None
        buffers, dtype = self.block.buffers, np.dtype(message[1:].decode())
        size = math.prod(buffers.actions_shape) * dtype.itemsize
        return buffers.actions[:size].copy().view(dtype).reshape(buffers.actions_shape)

    def _build(self, pickled: bytes, offset: int, settings: Settings) -> tuple[Any, ...]:
        """Builds the block, and returns its traits.

        Constructors are unpickled for every build, because they may keep what they have made.
        """
        self.block = EnvBlock(lambda: pickle.loads(pickled)[0], offset, settings, self._memory)
        return self.block.traits()


# An id may be registered in the main script, below its guard.
_UNREGISTERED = (
    "a worker that is not a fork knows only the ids that its imports register: name the module "
    "that registers this one, as in 'my_module:My/Env-v0', pass a function that makes the "
    "environment from its class, or pass context='fork'"
)


def _encoded(answer: Answer) -> bytes:
    """An answer, pickled, with a failure that can be unpickled."""
    if answer == _DONE:
        return DONE
    if answer.failure is not None:
        exc, _ = answer.failure
        if isinstance(exc, gymnasium.error.UnregisteredEnv):
            with_place(exc, _UNREGISTERED)
        text = "".join(traceback.format_exception(exc))
        answer = answer._replace(failure=(picklable(exc), text))
    return bytes(cloudpickle.dumps(answer))


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
    except Exception as exc:  # any class may refuse to be pickled in any way
        raise TypeError(
            f"the constructors of environments must be picklable to run in workers ({exc}): let "
            "them make such objects when they are called, or use execution='iterative', which has "
            "no workers"
        ) from exc


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
    an `EnvBlock`, and shares the file ``memory`` with its parent.
    """

    def __init__(self, rows: slice, block: bytes, context: Any, memory: int) -> None:
        self.rows = rows
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
            with deaf_to_ctrl_c(self._context.get_start_method()):
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
            self.buffers.actions[: actions.nbytes] = actions.reshape(-1).view(np.uint8)
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

    @staticmethod
    def receive(workers: Sequence[ProcessWorker], seconds: float) -> Arrived:
        """Waits for data from some workers, at most for some seconds."""
        poll, by_fd = select.poll(), {}
        for worker in workers:
            fd = worker._conn.fileno()
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        interrupts = workers[0].interrupts
        interrupts.waiting = True
        try:
            ready = poll.poll(seconds * 1000)
        finally:
            interrupts.waiting = False
        arrived: Arrived = []
        for fd, _ in ready:
            worker = by_fd[fd]
            data, begin, answer = worker._data, _HEADER.size, None
            try:
                while len(data) < begin or len(data) < begin + _HEADER.unpack_from(data)[0]:
                    chunk = os.read(fd, _CHUNK)
                    if not chunk:
                        raise EOFError
                    data += chunk
                answer = pickle.loads(data[begin:]) if len(data) > begin else _DONE
                data.clear()
            except BlockingIOError:
                pass  # the rest will arrive later
            except (EOFError, OSError):
                worker.gone = True
                continue
            arrived.append((worker, answer))
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
    context = mp.get_context(settings.context or start_method(replaces))
    blocks = blocks_of(makers, count, settings)
    # A file without a name, which is gone with its processes. They start before its size is known.
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("mtwrappers")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    workers = [ProcessWorker(rows, block, context, memory) for rows, block in blocks]
    return Pool(workers, settings, memory)


@contextlib.contextmanager
def deaf_to_ctrl_c(start_method: str) -> Iterator[None]:
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
    with warnings.catch_warnings(), deaf_to_ctrl_c("fork"):
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
            _write(sink, server.answer(_read(source)))
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
