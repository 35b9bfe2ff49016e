"""What a worker does when it is told something, wherever it and its parent are."""

from __future__ import annotations

import mmap
import os
import pickle
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from mtwrappers.errors import with_context
from mtwrappers.vector.answers import (
    ALIVE,
    DONE,
    FILED,
    PICKLED,
    ROWS,
    Answer,
    failure,
    pickled,
)
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.infos import Columns, Layout, sizes_of
from mtwrappers.vector.journal import Journal, Past
from mtwrappers.vector.part import PartVectorEnv

_BEAT = 1.0  # seconds between two signs of life


class BlockServer:
    """Builds a block of environments, and does with it what messages say.

    Attributes:
        block: The environments.
        closed: Whether they were closed.

    Args:
        block: The pickled ``(constructors, offset, autoreset mode, max_path_length, whether there
            is a journal)`` of the block.
        say: Sends the parent a sign of life.
        fetch: Gives large data that came another way, by what the message says of it.
    """

    def __init__(
        self, block: bytes, say: Callable[[bytes], object], fetch: Callable[[Any], bytes]
    ) -> None:
        self._arguments = block  # pickled: constructors may keep what they have made
        self._say, self._fetch = say, fetch
        try:
            *_, self._mode, self._limit, self._journal = pickle.loads(block)
        except Exception as exc:
            first = f"a worker on {socket.gethostname()} cannot import what makes its environments"
            raise with_context(exc, first) from exc
        self.block = self._build()
        self.closed = False
        self._next: EnvBlock | None = None
        self._columns: Columns | None = None
        self._dtype = b""
        self._actions: NDArray[Any] | None = None

    def _build(self) -> EnvBlock:
        return EnvBlock(*pickle.loads(self._arguments))

    def built(self) -> bytes:
        """The first answer: the spaces of each environment, and what the first says of itself."""
        first = self.block.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in self.block.envs]
        return pickled(Answer((spaces, first.metadata, first.render_mode)))

    def share(self, layout: bytes, memory: int = -1, results: int = -1) -> None:
        """Takes the memory of all environments.

        Args:
            layout: Pickled: how many there are, and the shape and size of an action.
            memory: The descriptor of the memory that parent and workers share; without it, each
                answer tells what was written.
            results: The descriptor of a file for large results.
        """
        n, self._action_shape, size = pickle.loads(layout)
        self._layout = ObsLayout(self.block.envs[0].observation_space, n)
        nbytes = Buffers.nbytes(self._layout, size)
        self._remote, self._results = memory < 0, results
        view = memoryview(bytearray(nbytes) if self._remote else mmap.mmap(memory, nbytes))
        if not self._remote:
            os.close(memory)
        self._buffers = Buffers(self._layout, size, view)
        self._own = self._buffers.part(self.block.rows)
        self.block.write_to(self._layout, self._buffers)

    def handle(self, message: bytes) -> bytes:
        """Does what a message says, and returns the answer."""
        command = "step"
        try:
            if message[:1] != PICKLED:
                return self._step(self._sent_actions(message))
            command, arguments = pickle.loads(message)
            answer: bytes = getattr(self, "_" + command)(*arguments)
        except Exception as exc:
            return failure(exc, self._states_after(command))
        return answer

    def _answer_each(self, result: Any, each: Sequence[tuple[int, Any]], what: str) -> bytes:
        """An answer; should it not pickle, says of which environment's part this is true."""
        try:
            return pickled(Answer(result, None, self.block.states, self._rows()))
        except Exception:  # an info of any class may refuse to be pickled in any way
            for i, part in each:
                try:
                    cloudpickle.dumps(part)
                except Exception as exc:  # noqa: PERF203 (it has failed already)
                    raise with_context(exc, f"{what} of environment {i}") from exc
            raise

    def _rows(self) -> bytes | None:
        """What the parent cannot see otherwise."""
        return self._own.pack(*sizes_of(self._columns)) if self._remote else None

    def _numbered(self, parts: Sequence[Any]) -> list[tuple[int, Any]]:
        return list(enumerate(parts, self.block.rows.start))

    def _states_after(self, failed: str) -> Any:
        if not self._journal:
            return None
        return self.block.called if failed == "call" else self.block.all_states()

    def _sent_actions(self, message: bytes) -> NDArray[Any]:
        if self._remote:
            dtype, _, data = message.partition(b"\0")
            n = len(self.block.envs)
            self._own.resting[...] = np.frombuffer(data, np.bool_, n)
            actions = np.frombuffer(data, dtype.decode(), offset=n)
            return actions.reshape(n, *self._action_shape).copy()
        if message != self._dtype:
            shared = self._buffers.actions(message.decode(), self._action_shape)
            self._actions, self._dtype = shared[self.block.rows], message
        assert self._actions is not None
        return self._actions.copy()  # environments may keep their actions

    # The commands.

    def _columns_are(self, layout: Layout) -> bytes:
        """Fixes which infos go through memory."""
        self._columns = Columns(layout, self._buffers)
        return DONE

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, mask: list[bool] | None
    ) -> bytes:
        block = self.block
        infos = block.reset(seeds, options, mask)
        objects = None if self._layout.fixed else block.obs
        return self._answer_each((objects, infos), self._numbered(infos), "the info")

    def _step(self, actions: Sequence[Any] | NDArray[Any]) -> bytes:
        block = self.block
        block.step(actions)
        objects = None if self._layout.fixed else block.obs
        infos = None
        if self._columns is None or not self._columns.write(block.rows.start, block.infos):
            infos = block.checked_infos()
        if infos is None and objects is None and not block.finals and not block.states:
            rows = self._rows()
            return DONE if rows is None else ROWS + rows
        each = [*self._numbered(infos or ()), *((i, info) for i, _, info in block.finals)]
        return self._answer_each((objects, infos, block.finals), each, "the info")

    def _step_objects(self, actions: Sequence[Any], resting: list[bool]) -> bytes:
        """A step whose actions are no arrays."""
        self._own.resting[...] = resting
        return self._step(actions)

    def _replay(self, pasts: Sequence[Past]) -> bytes:
        """Takes the place of another worker's environments."""
        self.block.replay(pasts)
        return pickled(Answer(rows=self._rows()))

    def _restore(self, pasts: Sequence[Past]) -> bytes:
        """Builds environments with these pasts, to be put in the place of the present ones."""
        self._next = self._build()
        self._next.write_to(self._layout, self._buffers)
        self._next.replay(pasts)
        return pickled(Answer(rows=self._rows()))

    def _keep(self, good: bool) -> bytes:
        """Puts them there, or not."""
        old, self._next = self._next, None
        if good and old is not None:
            old, self.block = self.block, old
        if old is not None:
            old.close()
        return DONE

    def _call(self, name: Any, each: EachCall) -> bytes:
        results = self.block.call(name, each)
        return self._answer_each(results, self._numbered(results), f"{name!r}")

    def _render(self) -> bytes:
        return pickled(Answer(self.block.render()))

    def _run(
        self,
        function: Any,
        state: tuple[bool, NDArray[np.bool_], NDArray[np.bool_]],
        pasts: Sequence[Past] | None,
    ) -> bytes:
        """Calls a function of the environments."""
        told = None
        if pasts is not None:
            told = Journal(self._layout.n, self._buffers)
            told.take(pasts, self.block.rows.start)
        settings = self._mode, self._limit
        envs = PartVectorEnv(self.block, self._buffers, *settings, told, state, _Beat(self._say))
        call = pickle.loads(self._fetch(function))
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)  # workers share the cores
        result = call(envs, self.block.rows)
        states = told.pasts(self.block.rows) if told else None
        objects = None if self._layout.fixed else self.block.obs
        answer = Answer((objects, result, *envs.end()), None, states, self._rows())
        arrays: list[pickle.PickleBuffer] = []
        if self._results < 0:
            return pickled(answer)
        head = cloudpickle.dumps(answer, protocol=5, buffer_callback=arrays.append)
        raw = [array.raw() for array in arrays]
        with open(self._results, "wb", closefd=False) as file:
            file.seek(0)
            file.writelines(raw)
        return FILED + pickle.dumps((head, [part.nbytes for part in raw]))

    def _close(self) -> bytes:
        self.block.close()
        self.block.envs.clear()
        self.closed = True
        return DONE


class _Beat:
    """Says now and then that a long call goes on."""

    def __init__(self, say: Callable[[bytes], object]) -> None:
        self._say, self._next = say, time.monotonic() + _BEAT

    def __call__(self) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + _BEAT
            self._say(ALIVE)
