"""What a worker does when it is told something, wherever it and its parent are."""

from __future__ import annotations

import contextlib
import pickle
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import cloudpickle
import numpy as np
from numpy.typing import NDArray

from mtwrappers.errors import with_context
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.infos import Columns, Layout, sizes_of
from mtwrappers.vector.iterative import PartVectorEnv
from mtwrappers.vector.journal import Journal, Past
from mtwrappers.vector.messages import (
    ALIVE,
    DONE,
    FILED,
    PICKLED,
    ROWS,
    Answer,
    failure,
    pickled,
)

_BEAT = 1.0  # seconds between two signs of life


class BlockServer:
    """Builds a block of environments, and does with it what messages say, until it is ``closed``.

    ``arguments`` are those of `EnvBlock`, pickled, because constructors may keep what they have
    made. ``say`` sends the parent a sign of life, and ``fetch`` gives large data that came another
    way, by what a message says of it. ``memory`` and ``results`` are the descriptors of what parent
    and workers share and of a file for large results; without them, answers tell what was written.
    """

    def __init__(
        self,
        arguments: bytes,
        say: Callable[[bytes], object],
        fetch: Callable[[Any], bytes],
        memory: int = -1,
        results: int = -1,
    ) -> None:
        self._arguments, self._say, self._fetch = arguments, say, fetch
        self._memory, self._results = memory, results
        self._remote = memory < 0
        self.block = self._build()
        self.closed = False
        self._next: EnvBlock | None = None
        self._next_beat = 0.0
        self._columns: Columns | None = None
        self._dtype = b""
        self._actions: NDArray[Any] | None = None

    def _build(self) -> EnvBlock:
        try:
            arguments = pickle.loads(self._arguments)
        except Exception as exc:
            first = f"a worker on {socket.gethostname()} cannot import what makes its environments"
            raise with_context(exc, first) from exc
        return EnvBlock(*arguments)

    def handle(self, message: bytes) -> bytes:
        """Does what a message says, and returns the answer."""
        command = "step"
        try:
            if message[:1] != PICKLED:
                return self._step(self._sent_actions(message))
            command, arguments = pickle.loads(message)
            answer: bytes = getattr(self, "_" + command)(*arguments)
        except Exception as exc:
            return failure(exc, self.block.reached(command) if self.block.journal else None)
        return answer

    def _answer(self, result: Any, what: str, each: Iterable[tuple[int, Any]]) -> bytes:
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

    def _objects(self) -> list[Any] | None:
        """Observations that are not arrays."""
        return None if self._layout.fixed else self.block.obs

    def _sent_actions(self, message: bytes) -> NDArray[Any]:
        if self._remote:
            dtype, _, data = message.partition(b"\0")
            n = len(self.block.envs)
            self._own.resting[...] = np.frombuffer(data, np.bool_, n)
            actions = np.frombuffer(data, dtype.decode(), offset=n)
            return actions.reshape(n, *self._buffers.action_shape).copy()
        if message != self._dtype:
            shared = self._buffers.actions(message.decode())
            self._actions, self._dtype = shared[self.block.rows], message
        assert self._actions is not None
        return self._actions.copy()  # environments may keep their actions

    # The commands.

    def _share(self, n: int, action_shape: tuple[int, ...]) -> bytes:
        """Fixes where the memory of all ``n`` environments lies."""
        self._layout = ObsLayout(self.block.envs[0].observation_space, n)
        self._buffers = Buffers(self._layout, action_shape, self._memory)
        self._own = self._buffers.part(self.block.rows)
        self.block.write_to(self._layout, self._buffers)
        return DONE

    def _columns_are(self, layout: Layout) -> bytes:
        """Fixes which infos go through memory."""
        self._columns = Columns(layout, self._buffers)
        return DONE

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, mask: list[bool]
    ) -> bytes:
        infos = self.block.reset(seeds, options, mask)
        each = enumerate(infos, self.block.rows.start)
        return self._answer((self._objects(), infos), "the info", each)

    def _step(self, actions: Sequence[Any] | NDArray[Any]) -> bytes:
        block = self.block
        block.step(actions)
        objects, infos = self._objects(), None
        if self._columns is None or not self._columns.write(block.rows.start, block.infos):
            infos = block.checked_infos()
        if infos is None and objects is None and not block.finals and not block.states:
            rows = self._rows()
            return DONE if rows is None else ROWS + rows
        each = [
            *enumerate(infos or (), block.rows.start),
            *((i, last) for i, _, last in block.finals),
        ]
        return self._answer((objects, infos, block.finals), "the info", each)

    def _step_objects(self, actions: Sequence[Any], resting: NDArray[np.bool_]) -> bytes:
        """A step whose actions are no arrays."""
        self._own.resting[...] = resting
        return self._step(actions)

    def _replay(self, pasts: Sequence[Past], anew: bool = False) -> bytes:
        """Plays pasts, in environments that are built ``anew``, which `_keep` takes or not."""
        block = self.block
        if anew:
            block = self._next = self._build()
            block.write_to(self._layout, self._buffers)
        block.replay(pasts)
        return pickled(Answer(rows=self._rows()))

    def _keep(self, good: bool) -> bytes:
        """Puts new environments in the place of the present ones, or ends them."""
        if self._next is not None:
            if good:
                self.block, self._next = self._next, self.block
            self._next.close()
            self._next = None
        return DONE

    def _call(self, name: Any, each: EachCall) -> bytes:
        results = self.block.call(name, each)
        return self._answer(results, f"{name!r}", enumerate(results, self.block.rows.start))

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
        self._next_beat = time.monotonic() + _BEAT
        envs = PartVectorEnv(self.block, self._buffers, told, state, self._beat)
        call = pickle.loads(self._fetch(function))
        result = call(envs, self.block.rows)
        states = told.pasts(self.block.rows) if told else None
        answer = Answer((self._objects(), result, *envs.end()), None, states, self._rows())
        if self._remote:
            return pickled(answer)
        arrays: list[pickle.PickleBuffer] = []
        head = cloudpickle.dumps(answer, protocol=5, buffer_callback=arrays.append)
        raw = [array.raw() for array in arrays]
        with open(self._results, "wb", closefd=False) as file:
            file.seek(0)
            file.writelines(raw)
        return FILED + pickle.dumps((head, [part.nbytes for part in raw]))

    def _beat(self) -> None:
        """Says now and then that a long call goes on."""
        if time.monotonic() >= self._next_beat:
            self._next_beat = time.monotonic() + _BEAT
            with contextlib.suppress(OSError):  # of a parent that is gone, which shows in time
                self._say(ALIVE)

    def _close(self) -> bytes:
        self.block.close()
        self.block.envs.clear()
        self.closed = True
        return DONE
