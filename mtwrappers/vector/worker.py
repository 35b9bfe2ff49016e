"""A worker process: it builds a block of environments and does what its parent says."""

from __future__ import annotations

import contextlib
import os
import pickle
import random
import select
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.common.errors import picklable, with_place
from mtwrappers.vector.block import Answer, EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.messages import (
    ALIVE,
    PICKLED,
    Channel,
    encode_answer,
    file_answer,
)

# Commands with which a block comes to have buffers.
BEFORE_BUFFERS = ("build", "wrap", "connect")
# Seconds that a worker looks for the next step before it sleeps: a sleeping core takes longer to
# wake than the time between two steps. Where somebody else wants the core, which shows in a yield
# that takes longer than an idle core needs, it sleeps at once for some steps instead.
_WATCH = 300e-6
_YIELD = 20e-6
_GIVE_WAY = 100
_BEAT = 0.1  # seconds between two signs of life, much less than any sensible timeout


class BlockServer:
    """Builds a block and does what an executor elsewhere says.

    Args:
        block: The pickled arguments of `EnvBlock`, pickled because constructors may keep what they
            have made.
        memory: The descriptor of the memory that the parent shares; -1 if there is none, so that
            answers must hold what was written.
        beat: Called now and then while a command goes on.
    """

    def __init__(self, block: bytes, memory: int, beat: Callable[[], object]) -> None:
        self._arguments, self._memory, self._beat = block, memory, beat
        self._next_beat = 0.0
        self.block: EnvBlock | None = None

    def handle(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        """Does a command, and returns an answer that can surely be sent."""
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
        return Answer(self.block.traits)

    def _buffers(self, n: int, rows: slice, action_shape: tuple[int, ...]) -> tuple[Any, ...]:
        """Where results go: into the rows of shared memory, or into memory of this process."""
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
        return failed._replace(reached=0, failure=(picklable(exc), _text(exc)))

    def unsendable(self, name: str, arguments: Any, answer: Answer, exc: Exception) -> Answer:
        """The answer in place of one that does not pickle: whose part that is."""
        assert self.block is not None
        parts = [("the info", i, info) for i, info in enumerate(answer.infos or ())]
        parts += [("the info", i, info) for i, _, info in answer.finals]
        if name == "call":
            results = enumerate(answer.result or ())
            parts += [(f"{arguments[0]!r}", i, result) for i, result in results]
        for what, i, part in parts:
            try:
                cloudpickle.dumps(part)
            except Exception as raised:
                exc = with_place(raised, f"{what} of environment {self.block.offset + i}")
                break
        if name == "run" and answer.failure is None:
            *_, self.block.run_logs = answer.result  # what the function has called is noted
        failed = self.block.failed(name, exc)
        return failed._replace(failure=(picklable(exc), _text(exc)), written=answer.written)


def main(conn: Connection, memory: Connection, results: Connection, life: Connection) -> None:
    """Serves the executor at the other end of ``conn``, with its memory and a file for results.

    The executor's process has the other end of ``life``, to which nothing is written.
    """
    # The parent decides what Ctrl-C means; the handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])  # for what is started from here
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent(life.fileno())
    # A forked worker has the parent's global random state; all workers would draw the same.
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    channel = Channel(conn)

    def beat() -> None:
        with contextlib.suppress(OSError):  # of a parent that is gone, which shows in time
            channel.send(ALIVE)

    server: BlockServer | None = None
    try:
        channel.send(encode_answer(Answer()))  # it is there
        server = BlockServer(channel.recv(), memory.fileno(), beat)
        channel.send(encode_answer(server.handle("build", ())))
        for message in _messages(channel):
            if message[:1] == PICKLED:
                try:
                    name, arguments = pickle.loads(message)
                except Exception as exc:
                    channel.send(encode_answer(server.unreadable("run", exc)))
                    continue
            else:
                assert server.block is not None
                # A copy: environments may keep their actions.
                name, arguments = "step", (server.block.buffers.actions(message).copy(),)
            answer = server.handle(name, arguments)
            try:
                run = name == "run" and answer.failure is None
                data = file_answer(answer, results.fileno()) if run else encode_answer(answer)
            except Exception as exc:  # an info of any class may refuse to be pickled in any way
                data = encode_answer(server.unsendable(name, arguments, answer, exc))
            channel.send(data)
            if name == "close":
                break
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    finally:
        if server is not None and server.block is not None:
            with contextlib.suppress(Exception):
                server.block.close()


def limit_threads() -> None:
    """Leaves one thread to libraries: workers share the cores."""
    os.environ["OMP_NUM_THREADS"] = "1"
    # Torch may be here already, or come with an environment or a policy.
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


def _text(exc: BaseException) -> str:
    return "".join(traceback.format_exception(exc))


def _follow_parent(life: int) -> None:
    """Ends this process as soon as its parent's end of a pipe is closed, whatever it is doing."""
    if sys.platform == "linux":
        import fcntl

        # The kernel can do this where no thread can: to a process that is stopped, or whose lock is
        # held in C. (It would follow the parent by itself, but means the thread that has forked.)
        with contextlib.suppress(OSError):
            fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(life, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)

    def watch() -> None:
        os.read(life, 1)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def _messages(channel: Channel) -> Iterator[bytes]:
    """Messages as they arrive, for ever."""
    poll = select.poll()
    poll.register(channel.fd, select.POLLIN)
    arrived, give_way = poll.poll, 0
    while True:
        if give_way:
            give_way -= 1
        elif not arrived(0):
            now = time.perf_counter()
            until = now + _WATCH
            while now < until and not arrived(0):
                os.sched_yield()
                before, now = now, time.perf_counter()
                if now - before > _YIELD:
                    give_way = _GIVE_WAY
                    break
        yield channel.recv()
