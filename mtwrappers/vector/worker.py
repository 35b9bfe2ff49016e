"""A worker process: it builds a block of environments and does what its parent says.

A message is bytes. A step is the dtype of its actions, which lie in shared memory, such as
``b"<f4"``; its answer is the empty ``DONE`` when observations, rewards, flags and infos all went
through shared memory. Everything else is pickled: ``(command, arguments)`` in, `Answer` out.
"""

from __future__ import annotations

import contextlib
import mmap
import multiprocessing as mp
import os
import pickle
import random
import select
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from mtwrappers.errors import with_context
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.channel import Channel
from mtwrappers.vector.infos import Columns, Layout
from mtwrappers.vector.journal import Past

STARTED = DONE = b""
_PICKLED = b"\x80"  # how a pickle begins
# Seconds that a worker looks for the next step before it sleeps: a sleeping core takes longer to
# wake than the time between two steps. Where somebody else wants the core, which shows in a yield
# that takes longer than an idle core needs, it sleeps at once for some steps instead.
_WATCH = 300e-6
_YIELD = 20e-6
_GIVE_WAY = 100


class Answer(NamedTuple):
    """What a worker answers.

    Attributes:
        result: What the command returned.
        failure: The exception that it raised, and its traceback.
        states: For the journal, if there is one: the states that environments which were reset
            had before, by environment; after a failed step or reset, the state of each environment;
            after a failed call, how many environments were called.
    """

    result: Any = None
    failure: tuple[Exception, str] | None = None
    states: Any = None


def main(conn: Connection) -> None:
    """Serves the executor at the other end of ``conn`` until it closes.

    Args:
        conn: This end of the pipe. The first message is the pickled ``(makers, offset, autoreset
            mode, max_path_length, whether there is a journal)`` of the block.
    """
    # The parent decides what Ctrl-C means; the handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent()
    # A forked worker has the parent's global random state; all workers would draw the same.
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    channel = Channel(conn)
    server: _Server | None = None
    try:
        channel.send(STARTED)
        server = _Server(channel, channel.recv())
        server.serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except Exception as exc:
        with contextlib.suppress(OSError):
            channel.send(_failure(exc))
    finally:
        if server is not None:
            with contextlib.suppress(Exception):
                server.block.close()


def _follow_parent() -> None:
    """Ends this process as soon as its parent ends, even in the middle of a step."""
    parent = mp.parent_process()
    if parent is None:
        return
    ends = [parent.sentinel]
    # The sentinel is a pipe, which other processes that the parent has forked keep open.
    if hasattr(os, "pidfd_open"):
        try:
            ends.append(os.pidfd_open(parent.pid))  # type: ignore[arg-type]
        except ProcessLookupError:
            os._exit(1)
        except OSError:
            pass  # a kernel without it

    def watch() -> None:
        wait(ends)
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def _failure(exc: Exception, states: Any = None) -> bytes:
    """The exception and its traceback, as bytes that the parent can surely read."""
    text = "".join(traceback.format_exception(exc))
    try:
        data = cloudpickle.dumps(Answer(None, (exc, text), states))
        pickle.loads(data)
    except Exception:  # an exception of any class may refuse to be pickled in any way
        plain = RuntimeError(f"{type(exc).__name__}: {exc}")
        data = cloudpickle.dumps(Answer(None, (plain, text), states))
    return bytes(data)


class _Server:
    def __init__(self, channel: Channel, block: bytes) -> None:
        self._channel = channel
        self._give_way = 0
        self._poll = select.poll()
        self._poll.register(channel.fd, select.POLLIN)
        self._arguments = block  # pickled: constructors may keep what they have made
        self._journal = pickle.loads(block)[-1]
        self.block = self._build()
        self._next: EnvBlock | None = None
        self._columns: Columns | None = None
        self._dtype = b""
        self._actions: NDArray[Any] | None = None
        first = self.block.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in self.block.envs]
        self._answer((spaces, first.metadata, first.render_mode))

    def _build(self) -> EnvBlock:
        return EnvBlock(*pickle.loads(self._arguments))

    def _answer(self, result: Any) -> None:
        self._channel.send(cloudpickle.dumps(Answer(result)))

    def _answer_each(self, result: Any, each: Sequence[tuple[int, Any]], what: str) -> None:
        """Answers; should that not pickle, says of which environment's part this is true."""
        try:
            data = cloudpickle.dumps(Answer(result, None, self.block.states))
        except Exception:
            for i, part in each:
                try:
                    cloudpickle.dumps(part)
                except Exception as exc:  # noqa: PERF203 (it has failed already)
                    raise with_context(exc, f"{what} of environment {i}") from exc
            raise
        self._channel.send(data)

    def _numbered(self, parts: Sequence[Any]) -> list[tuple[int, Any]]:
        return list(enumerate(parts, self.block.rows.start))

    def _receive(self) -> bytes:
        arrived = self._poll.poll
        if self._give_way:
            self._give_way -= 1
        elif not arrived(0):
            now = time.perf_counter()
            until = now + _WATCH
            while now < until and not arrived(0):
                os.sched_yield()
                before, now = now, time.perf_counter()
                if now - before > _YIELD:
                    self._give_way = _GIVE_WAY
                    break
        return self._channel.recv()

    def serve(self) -> None:
        while True:
            message = self._receive()
            command = "step"
            try:
                if message[:1] != _PICKLED:
                    self._step(self._shared_actions(message))
                    continue
                command, arguments = pickle.loads(message)
                if command == "close":
                    self.block.close()
                    self.block.envs.clear()
                    self._answer(None)
                    return
                getattr(self, "_" + command)(*arguments)
            except (EOFError, BrokenPipeError, ConnectionResetError):
                raise
            except Exception as exc:
                self._channel.send(_failure(exc, self._states_after(command)))

    def _states_after(self, failed: str) -> Any:
        if not self._journal:
            return None
        return self.block.all_states() if failed in ("step", "reset") else self.block.called

    # The commands.

    def _share(self, n: int, action_shape: tuple[int, ...], action_size: int) -> None:
        """Takes the shared memory of ``n`` environments."""
        self._answer(None)
        fd = self._channel.recv_fd()
        layout = ObsLayout(self.block.envs[0].observation_space, n)
        memory = mmap.mmap(fd, Buffers.nbytes(layout, action_size))
        os.close(fd)
        self._buffers = Buffers(layout, action_size, memoryview(memory))
        self._layout, self._action_shape = layout, action_shape
        self.block.write_to(layout, self._buffers)
        self._answer(None)

    def _columns_are(self, layout: Layout) -> None:
        """Fixes which infos go through shared memory."""
        self._columns = Columns(layout, self._buffers)
        self._answer(None)

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, mask: list[bool] | None
    ) -> None:
        block = self.block
        block.reset(seeds, options, mask)
        objects = None if self._layout.fixed else block.obs
        self._answer_each((objects, block.infos), self._numbered(block.infos), "the info")

    def _shared_actions(self, dtype: bytes) -> NDArray[Any]:
        if dtype != self._dtype:
            actions = self._buffers.actions(dtype.decode(), self._action_shape)
            self._actions, self._dtype = actions[self.block.rows], dtype
        assert self._actions is not None
        return self._actions.copy()  # environments may keep their actions

    def _step(self, actions: Sequence[Any] | NDArray[Any]) -> None:
        block = self.block
        block.step(actions)
        objects = None if self._layout.fixed else block.obs
        infos = None
        if self._columns is None or not self._columns.write(block.rows.start, block.infos):
            infos = block.checked_infos()
        if infos is None and objects is None and not block.finals and not block.states:
            self._channel.send(DONE)
            return
        each = [*self._numbered(infos or ()), *((i, info) for i, _, info in block.finals)]
        self._answer_each((objects, infos, block.finals), each, "the info")

    def _replay(self, pasts: Sequence[Past]) -> None:
        """Takes the place of another worker's environments."""
        self.block.replay(pasts)
        self._answer(None)

    def _restore(self, pasts: Sequence[Past]) -> None:
        """Builds environments with these pasts, to be put in the place of the present ones."""
        self._next = self._build()
        self._next.write_to(self._layout, self._buffers)
        self._next.replay(pasts)
        self._answer(None)

    def _keep(self, good: bool) -> None:
        """Puts them there, or not."""
        old, self._next = self._next, None
        if good and old is not None:
            old, self.block = self.block, old
        if old is not None:
            old.close()
        self._answer(None)

    def _call(self, name: Any, each: EachCall) -> None:
        results = self.block.call(name, each)
        self._answer_each(results, self._numbered(results), f"{name!r}")

    def _render(self) -> None:
        self._answer(self.block.render())
