"""What goes between a parent and its workers: whole messages, and what they mean.

A message is bytes. A step is the dtype of its actions, such as ``b"<f4"``, which lie in shared
memory; without shared memory the dtype is followed by a zero, by which environments rest, and by
the actions. Everything else is a `command`. `read_answer` reads answers.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import struct
import time
import traceback
from typing import Any, NamedTuple

import cloudpickle

STARTED = DONE = b""
ALIVE = b"\x01"  # a long call goes on
ROWS = b"\x02"  # what the worker has written follows, and is the whole answer
FILED = b"\x03"  # the answer's arrays are in the file of results
PICKLED = b"\x80"  # how a pickle begins

_HEADER = struct.Struct("!Q")  # how many bytes follow
_CHUNK = 1 << 16


class Channel:
    """One end of a pipe or socket that carries messages.

    Nothing blocks beyond its deadline, in seconds of `time.monotonic`, and a message that the other
    end leaves unfinished is an ``EOFError`` or ``OSError``, wherever it was cut.
    """

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self.fd = conn.fileno()
        os.set_blocking(self.fd, False)
        self._data = bytearray()
        self.cut = False  # whether a message was left unfinished at this end

    def send(self, message: bytes, deadline: float = math.inf) -> None:
        """Sends a message, or raises `TimeoutError` if the other end does not take it in time."""
        data = memoryview(_HEADER.pack(len(message)) + message)
        size = len(data)
        try:
            while data:
                try:
                    data = data[os.write(self.fd, data) :]
                except BlockingIOError:  # noqa: PERF203 (waiting costs more)
                    self._wait(select.POLLOUT, deadline)
        finally:
            self.cut = 0 < len(data) < size

    def feed(self) -> bytes | None:
        """Reads what has arrived; returns a message once it is whole, else ``None``."""
        if (message := self._take()) is not None:
            return message  # it came together with the one before
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return None
        if not chunk:
            raise EOFError("the other end of the channel was closed")
        self._data += chunk
        return self._take()

    def _take(self) -> bytes | None:
        """The first of the messages that have been read, if it is whole."""
        data, begin = self._data, _HEADER.size
        if len(data) < begin:
            return None
        end = begin + _HEADER.unpack_from(data)[0]
        if len(data) < end:
            return None
        message = bytes(data[begin:end])
        del data[:end]
        return message

    def recv(self) -> bytes:
        """Awaits a message, for ever."""
        while (message := self.feed()) is None:
            self._wait(select.POLLIN)
        return message

    def _wait(self, event: int, deadline: float = math.inf) -> None:
        poll = select.poll()
        poll.register(self.fd, event)
        pause = None if deadline == math.inf else max(deadline - time.monotonic(), 0.0) * 1000
        if not poll.poll(pause):
            raise TimeoutError("the other end of the channel did not answer in time")

    def close(self) -> None:
        """Closes this end."""
        self._conn.close()


class Answer(NamedTuple):
    """What a worker answers."""

    result: Any = None
    failure: tuple[Exception, str] | None = None  # what was raised instead, and its traceback
    # For the journal, if there is one: the states that environments which were reset had before, by
    # environment; after a function of them, their pasts; after a failure, what
    # `Journal.note_failure` takes.
    states: Any = None
    rows: bytes | None = None  # what the worker has written, where no memory is shared


def command(name: str, *arguments: Any) -> bytes:
    """A command to a worker, for `BlockServer`'s method of this name."""
    return pickled((name, arguments))


def pickled(value: Any) -> bytes:
    """A command or an `Answer` as a message."""
    return bytes(cloudpickle.dumps(value))


def failure(exc: Exception, states: Any = None) -> bytes:
    """The exception and its traceback, as an answer that the parent can surely read."""
    text = "".join(traceback.format_exception(exc))
    try:
        data = pickled(Answer(None, (exc, text), states))
        pickle.loads(data)
    except Exception:  # an exception of any class may refuse to be pickled in any way
        plain = RuntimeError(f"{type(exc).__name__}: {exc}")
        data = pickled(Answer(None, (plain, text), states))
    return data


def read_answer(message: bytes, results: int) -> Answer | None:
    """The answer in a message; ``None`` for a sign of life.

    ``results`` is the descriptor of the worker's file of results, which is empty afterwards.
    """
    kind = message[:1]
    if kind == ALIVE:
        return None
    if kind == ROWS:
        return Answer(rows=message[1:])
    if kind == FILED:
        head, sizes = pickle.loads(message[1:])
        arrays = [bytearray(size) for size in sizes]
        with open(results, "r+b", closefd=False) as file:
            file.seek(0)
            for array in arrays:
                file.readinto(array)
            file.truncate(0)
        answer: Answer = pickle.loads(head, buffers=arrays)
        return answer
    return pickle.loads(message) if message else Answer()
