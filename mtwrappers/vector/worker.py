"""A worker process: it builds a block of environments and does what the pipe says.

A message is bytes. The step, which must be quick, is the empty ``STEP``, and its answer the empty
``DONE`` when observations, rewards, flags and infos all went through shared memory. Everything else
is pickled: ``(command, arguments)`` in, ``(OK, result)`` or ``(ERROR, exception, traceback)`` out.
"""

from __future__ import annotations

import contextlib
import multiprocessing as mp
import os
import pickle
import select
import signal
import threading
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.vector import AutoresetMode

from mtwrappers.errors import with_context
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.infos import Columns, fits_cells, layout_of
from mtwrappers.vector.shared import INFO_SLOTS, SharedArrays

STEP = DONE = b""  # read in one call, where others take two
OK, ERROR = "ok", "error"
# Seconds that a worker looks for the next step before it sleeps: a sleeping core takes longer to
# wake than the time between two steps. Where somebody else wants the core, it gives way for
# some steps instead; that is so if a yield takes longer than an idle core would need.
_WATCH = 300e-6
_YIELD = 20e-6
_GIVE_WAY = 100


def main(conn: Connection, payload: bytes) -> None:
    """Serves the executor at the other end of ``conn`` until it closes.

    Args:
        conn: This end of the pipe.
        payload: Pickled ``(makers, offset, autoreset mode, max_path_length)`` of the block.
    """
    # The parent decides what Ctrl-C means, and its own handlers are none of a worker's.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _follow_parent()
    server: _Server | None = None
    try:
        server = _Server(conn, payload)
        server.serve()
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # the parent is gone
    except Exception as exc:
        with contextlib.suppress(OSError):
            conn.send_bytes(_failure(exc))
    finally:
        if server is not None:
            with contextlib.suppress(Exception):
                server.block.close()


def _follow_parent() -> None:
    """Ends this process as soon as its parent does, even in the middle of a step."""
    parent = mp.parent_process()
    if parent is None:
        return
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="follow-parent").start()


def _failure(exc: Exception) -> bytes:
    """The exception and its traceback, as bytes that the parent can surely read."""
    text = "".join(traceback.format_exception(exc))
    try:
        data = cloudpickle.dumps((ERROR, exc, text))
        pickle.loads(data)
    except Exception:  # an exception of any class may refuse to be pickled in any way
        data = cloudpickle.dumps((ERROR, RuntimeError(f"{type(exc).__name__}: {exc}"), text))
    return bytes(data)


class _Server:
    def __init__(self, conn: Connection, payload: bytes) -> None:
        self._conn = conn
        self._give_way = 0
        self._poll = select.poll()
        self._poll.register(conn.fileno(), select.POLLIN)
        makers, offset, mode, limit = pickle.loads(payload)
        self.block = EnvBlock(makers, offset, AutoresetMode(mode), limit)
        self._start, self._stop = offset, offset + len(makers)
        self._shared: SharedArrays | None = None
        self._columns: Columns | None = None
        self._strings: dict[str, list[str]] = {}
        self._dtype: Any = None
        first = self.block.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in self.block.envs]
        self._answer((spaces, first.metadata, first.render_mode))

    def _answer(self, result: Any) -> None:
        self._conn.send_bytes(cloudpickle.dumps((OK, result)))

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
        return self._conn.recv_bytes()

    def serve(self) -> None:
        while True:
            message = self._receive()
            try:
                if message == STEP:
                    self._step(None)
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
                self._conn.send_bytes(_failure(exc))

    def _share(self, n: int, action_size: int, action_shape: tuple[int, ...]) -> None:
        """Takes the shared memory, whose descriptor comes through the pipe."""
        fd = recv_handle(self._conn)
        space = self.block.envs[0].observation_space
        self._shared = SharedArrays(fd, space, action_size, n)
        os.close(fd)
        self._action_shape = action_shape
        shared, rows = self._shared, slice(self._start, self._stop)
        self._rewards = shared.rewards[rows]
        self._terminated = shared.terminated[rows]
        self._truncated = shared.truncated[rows]
        self._answer(None)

    def _actions_in(self, dtype: str) -> None:
        """Says how the actions in shared memory are to be read from now on."""
        assert self._shared is not None
        actions = self._shared.actions(np.dtype(dtype), self._action_shape)
        self._actions = actions[self._start : self._stop]
        self._answer(None)

    def _step(self, actions: Sequence[Any] | None) -> None:
        block = self.block
        # A copy: what an environment keeps of its action must not change under its hands.
        rows = self._actions.copy() if actions is None else actions
        block.step(rows, self._rewards, self._terminated, self._truncated)
        extras = self._write_obs()
        extras.update(self._pack(block.infos))
        if block.finals:
            for i, _, info in block.finals:
                _require_picklable(info, i)
            extras["finals"] = block.finals
        if extras:
            self._answer(extras)
        else:
            self._conn.send_bytes(DONE)

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, mask: list[bool] | None
    ) -> None:
        self.block.reset(seeds, options, mask)
        for i, info in enumerate(self.block.infos, self._start):
            _require_picklable(info, i)
        self._answer({**self._write_obs(), "infos": self.block.infos})

    def _write_obs(self) -> dict[str, Any]:
        assert self._shared is not None
        layout = self._shared.layout
        if not layout.fixed:
            return {"obs": self.block.obs}
        layout.write(self._shared.obs, self._start, self.block.obs)
        return {}

    def _pack(self, infos: Sequence[Any]) -> dict[str, Any]:
        """Writes infos into shared memory; returns what cannot go there, or has changed."""
        assert self._shared is not None
        extras: dict[str, Any] = {}
        how = self._columns
        if how is None or not how.match(infos):
            layout = layout_of(infos)
            if layout is None or not fits_cells(layout, INFO_SLOTS):
                return self._send_whole(infos)
            extras["layout"] = layout
            how = self._columns = Columns(layout)
            self._strings = {}
        try:
            self._shared.cells.write(how, self._start, infos)
        except OverflowError:
            return self._send_whole(infos)
        strings = {key: [info[key] for info in infos] for key in how.strings}
        if strings != self._strings:
            self._strings = extras["strings"] = strings
        return extras

    def _send_whole(self, infos: Sequence[Any]) -> dict[str, Any]:
        """Infos that shared memory cannot hold, through the pipe."""
        self._columns = None
        for i, info in enumerate(infos):
            _require_picklable(info, self._start + i)
        return {"infos": infos, "layout": None}

    def _call(self, name: str, each: Sequence[tuple[tuple[Any, ...], dict[str, Any]]]) -> None:
        self._answer(self.block.call(name, each))

    def _set_attr(self, name: str, values: Sequence[Any]) -> None:
        self.block.set_attr(name, values)
        self._answer(None)

    def _render(self) -> None:
        self._answer(self.block.render())


def _require_picklable(info: Any, index: int) -> None:
    try:
        cloudpickle.dumps(info)
    except Exception as exc:
        raise with_context(exc, f"the info of environment {index}") from exc
