"""Whole messages between a parent and a worker, in either direction, with a deadline."""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import time
from collections.abc import Sequence
from typing import Any

_HEADER = struct.Struct("!Q")  # how many bytes follow
_CHUNK = 1 << 16


class Channel:
    """One end of a pipe that carries messages of bytes.

    Nothing blocks beyond its deadline, and a message that the other end leaves unfinished is an
    ``EOFError`` or ``OSError``, wherever it was cut.

    Args:
        conn: One end of a duplex `multiprocessing.Pipe`, or a connected socket.
    """

    def __init__(self, conn: Any) -> None:
        self._conn = conn
        self.fd = conn.fileno()
        os.set_blocking(self.fd, False)
        self._data = bytearray()
        self.cut = False  # whether a message was left unfinished at this end

    def send(self, message: bytes, deadline: float = math.inf) -> None:
        """Sends a message.

        Args:
            message: The bytes.
            deadline: In seconds of `time.monotonic`; by default it waits for ever.

        Raises:
            TimeoutError: If the other end does not take it in time.
            OSError: If the other end is gone.
        """
        data = memoryview(_HEADER.pack(len(message)) + message)
        size = len(data)
        try:
            while data:
                try:
                    data = data[os.write(self.fd, data) :]
                except BlockingIOError:  # noqa: PERF203 (waiting costs more)
                    self.wait(select.POLLOUT, deadline)
        finally:
            self.cut = 0 < len(data) < size

    def feed(self) -> bytes | None:
        """Reads what has arrived; returns a message once it is whole, else ``None``.

        Raises:
            EOFError: If the other end is closed.
            OSError: If it is gone.
        """
        data = self._data
        if data and (message := self._take()) is not None:
            return message  # it came together with the one before
        try:
            chunk = os.read(self.fd, _CHUNK)
        except BlockingIOError:
            return None
        if not chunk:
            raise EOFError("the other end of the channel was closed")
        data += chunk
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
            self.wait(select.POLLIN)
        return message

    def wait(self, event: int, deadline: float = math.inf) -> None:
        """Waits until this end can be read (``POLLIN``) or written (``POLLOUT``).

        Raises:
            TimeoutError: If it cannot by the deadline.
        """
        poll = select.poll()
        poll.register(self.fd, event)
        pause = None if deadline == math.inf else max(deadline - time.monotonic(), 0.0) * 1000
        if not poll.poll(pause):
            raise TimeoutError("the other end of the channel did not answer in time")

    def send_fds(self, fds: Sequence[int]) -> None:
        """Hands file descriptors over, while the other end awaits nothing else."""
        with socket.socket(fileno=os.dup(self.fd)) as end:
            socket.send_fds(end, [b"\0"], fds)

    def recv_fds(self, count: int) -> list[int]:
        """Takes the file descriptors that the other end hands over."""
        self.wait(select.POLLIN)
        with socket.socket(fileno=os.dup(self.fd)) as end:
            return socket.recv_fds(end, 1, count)[1]

    def close(self) -> None:
        """Closes this end."""
        self._conn.close()
