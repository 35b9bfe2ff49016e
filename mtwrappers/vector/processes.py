"""Worker processes.

A message is a header, with the number of the command and the length of the rest, and the command.
A step is whether environments reset themselves, whether infos go through the buffers, and the dtype
of its actions, such as ``b"11<f4"``; the actions themselves are in shared memory. Every other
command, and every answer, is a pickle.
"""

from __future__ import annotations

import contextlib
import math
import multiprocessing as mp
import os
import random
import select
import signal
import struct
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.common.cores import cores
from mtwrappers.vector.commands import Command, Step
from mtwrappers.vector.server import EMPTY, BlockServer, StepMessage, encode_step
from mtwrappers.vector.settings import Maker, Settings
from mtwrappers.vector.workers import (
    ALIVE_CHECK,
    HELLO,
    Worker,
    WorkerPool,
    WorkerState,
    pickle_blocks,
)

_HEADER = struct.Struct("!QQ")  # the number of the command, and the number of bytes that follow
_CHUNK = 1 << 16
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
        self._commands: Any = None
        self._answers: Any = None
        self._chunks: list[bytes] = []  # of answers that have arrived
        # A message that is being written, and the numbers of bytes of it that were.
        self._writing: tuple[bytes, list[int]] = (b"", [])
        self._life: Any = None  # the end of a pipe; when it is closed, the worker ends

    def start(self) -> None:
        """Starts the process."""
        commands, self._commands = self._context.Pipe(duplex=False)
        self._answers, answers = self._context.Pipe(duplex=False)
        os.set_blocking(self._commands.fileno(), False)
        os.set_blocking(self._answers.fileno(), False)
        self._chunks, self._writing = [], (b"", [])
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
            assert self.buffers is not None
            reads_columns = command.schema is not None
            data = encode_step(StepMessage(command.autoreset, reads_columns, command.actions.dtype))
            self.buffers.write_actions(command.actions[self.rows])
        else:
            data = cloudpickle.dumps(command.part(self.rows))
        return _HEADER.pack(number, len(data)) + data

    def write(self, message: bytes) -> None:
        """Writes a message to the process."""
        self._writing = message, []
        self.finish_writing()

    def finish_writing(self) -> None:
        """Writes the rest of a message."""
        message, counts = self._writing
        data = memoryview(message)
        while (start := sum(counts)) < len(data):
            try:
                # In one call, so that no exception can come between writing and noting it.
                counts.extend(map(os.write, [self._commands.fileno()], [data[start:]]))
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
        poll.register(self._commands.fileno(), select.POLLOUT)
        return bool(poll.poll(min(self.timeout * 1000, _LONGEST_POLL)))

    @staticmethod
    def receive(workers: Sequence[ProcessWorker], seconds: float) -> list[ProcessWorker]:
        """Waits for data from some workers, at most for some seconds."""
        # An interrupt may have left answers that were read and not taken.
        arrived = [worker for worker in workers if worker._chunks and worker._take_answers()]
        if arrived:
            return arrived
        poll, by_fd = select.poll(), {}
        for worker in workers:
            fd = worker._answers.fileno()
            by_fd[fd] = worker
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(seconds * 1000):
            worker = by_fd[fd]
            try:
                # In one call, so that no exception can come between reading and keeping.
                worker._chunks.extend(map(os.read, [fd], [_CHUNK]))
                has_ended = not worker._chunks[-1]
            except BlockingIOError:
                continue  # another call of this executor has read it
            except OSError as exc:
                if exc.errno is None:
                    raise  # of a signal's handler
                has_ended = True
            if not has_ended:
                worker._take_answers()
                arrived.append(worker)
            elif worker.state not in (WorkerState.HUNG, WorkerState.UNKNOWN):
                worker.state = WorkerState.ENDED
        return arrived

    def _take_answers(self) -> bool:
        """Takes all complete answers from what has arrived; returns whether there were any."""
        has_answers = False
        while self._chunks:
            size = sum(map(len, self._chunks))
            if len(self._chunks[0]) < _HEADER.size <= size:
                self._chunks[:] = [b"".join(self._chunks)]
            if size < _HEADER.size:
                break
            number, length = _HEADER.unpack_from(self._chunks[0])
            end = _HEADER.size + length
            if size < end:
                break
            data = b"".join(self._chunks)
            self.take_answer(number, data[_HEADER.size : end])
            # After the answer was taken, because it can be taken twice.
            self._chunks[:] = [data[end:]] if size > end else []
            has_answers = True
        return has_answers

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
        for pipe in (self._commands, self._answers, self._life):
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
            "a file (not from standard input), or pass context='fork': other contexts import the "
            "main module again in each worker"
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
    context = mp.get_context(settings.context or start_method(replaces))
    rows, blocks = pickle_blocks(makers, count, settings)
    # A file without a name, which is gone with its processes. They start before its size is known.
    if hasattr(os, "memfd_create"):
        memory = os.memfd_create("mtwrappers")
    else:
        with tempfile.TemporaryFile() as file:
            memory = os.dup(file.fileno())
    workers = [ProcessWorker(block, context, memory) for block in rows]
    return WorkerPool(workers, blocks, settings, memory)


@contextlib.contextmanager
def deaf_to_ctrl_c(start_method: str) -> Iterator[None]:
    """Blocks Ctrl-C in a process that is started meanwhile, until it unblocks it."""
    if start_method == "forkserver":  # its server is shared with other code
        yield
        return
    if start_method == "spawn":
        resource_tracker.ensure_running()  # so that it is not started below with Ctrl-C blocked
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


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


def serve(commands: Connection, answers: Connection, memory: Connection, life: Connection) -> None:
    """Serves the executor that writes ``commands`` and reads ``answers``, with its memory.

    The executor's process has the other end of ``life``, to which nothing is written.
    """
    # The parent handles Ctrl-C; handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # For processes that are started from here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follow_parent(life.fileno())
    # Forked workers have the parent's global random state, and would all draw the same.
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    server = BlockServer(memory.fileno())
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),  # the parent is gone
        open(commands.fileno(), "rb", closefd=False) as source,
        open(answers.fileno(), "wb", closefd=False) as sink,
    ):
        _write(sink, HELLO, EMPTY)
        while not server.closed:
            number, message = _read(source)
            _write(sink, number, server.answer(message))
    if server.block is not None:
        with contextlib.suppress(Exception):
            server.block.close()


def _read(source: Any) -> tuple[int, bytes]:
    """Waits for a command, and returns its number and the message."""
    header = source.read(_HEADER.size)
    if len(header) == _HEADER.size:
        number, length = _HEADER.unpack(header)
        message: bytes = source.read(length)
        if len(message) == length:
            return number, message
    raise EOFError("the parent has closed its pipe")


def _write(sink: Any, number: int, answer: bytes) -> None:
    """Sends the answer to the command with a number."""
    sink.write(_HEADER.pack(number, len(answer)) + answer)
    sink.flush()


def follow_parent(life: int) -> None:
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
