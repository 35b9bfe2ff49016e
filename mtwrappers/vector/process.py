"""Worker processes: their start and end, and both ends of the pipe to each.

A message is bytes. A step is the dtype of its actions, such as ``b"<f4"``; the actions themselves
are in shared memory. Every other command, and every answer, is a pickle.
"""

from __future__ import annotations

import contextlib
import functools
import math
import multiprocessing as mp
import os
import pickle
import random
import select
import signal
import struct
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.common.cores import cores
from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.vector.buffers import anonymous_file
from mtwrappers.vector.calls import Function
from mtwrappers.vector.commands import Answer
from mtwrappers.vector.pool import (
    ALIVE_CHECK,
    BlockServer,
    State,
    Worker,
    WorkerLost,
    WorkerPool,
    blocks_of,
    pickled_function,
)
from mtwrappers.vector.settings import Maker, Settings

DONE = b""  # an empty answer
ALIVE = b"\x01"  # a sign of life during a long call
PICKLED = b"\x80"  # the first byte of a pickle
_HEADER = struct.Struct("!Q")  # the number of bytes that follow
_CHUNK = 1 << 16
_DONE = Answer()
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


def decode_answer(message: bytes) -> Answer:
    """Decodes the answer in a message other than a sign of life."""
    if message == DONE:
        return _DONE
    answer: Answer = pickle.loads(message)
    return answer


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
            target=main, args=ends, daemon=True, name=f"{_NAME}{self.index}"
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
            return None if message is None else decode_answer(message)
        except (EOFError, OSError) as exc:
            raise WorkerLost from exc

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
        never_began = self.state is State.GONE and not self.began and self.process is not None
        return never_began and self._exit_code() in range(256)

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


def main(conn: Connection, memory: Connection, life: Connection) -> None:
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
