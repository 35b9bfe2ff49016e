"""What goes between a parent and its workers: whole messages, and what they mean.

A message is bytes. A step is the dtype of its actions, such as ``b"<f4"``, which lie in shared
memory. Every other command, and every answer, is a pickle.
"""

from __future__ import annotations

import math
import os
import pickle
import select
import struct
from typing import Any

import cloudpickle

from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.vector.block import Answer

DONE = b""  # an answer that says nothing
ALIVE = b"\x01"  # a long call goes on
FILED = b"\x03"  # the answer's arrays are in the file of results
PICKLED = b"\x80"  # how a pickle begins

_HEADER = struct.Struct("!Q")  # how many bytes follow
_CHUNK = 1 << 16
_DONE = Answer()


class Channel:
    """One end of a pipe or socket that carries messages.

    Nothing blocks beyond its timeout, and a message that the other end leaves unfinished is an
    ``EOFError`` or ``OSError``, wherever it was cut. ``interrupts`` are let through while it waits.
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
            timeout: Seconds for each part that the other end takes.
        """
        data = memoryview(_HEADER.pack(len(message)) + message)
        while data:
            try:
                data = data[os.write(self.fd, data) :]
            except BlockingIOError:
                self._wait(select.POLLOUT, timeout)

    def feed(self) -> bytes | None:
        """Reads what has arrived; returns a message once it is whole, else ``None``."""
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
        """Awaits a message, for ever."""
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
    """An answer of a worker."""
    return DONE if answer == _DONE else bytes(cloudpickle.dumps(answer))


def file_answer(answer: Answer, results: int) -> bytes:
    """An answer whose arrays go into the file of results with the descriptor ``results``."""
    arrays: list[pickle.PickleBuffer] = []
    head = cloudpickle.dumps(answer, protocol=5, buffer_callback=arrays.append)
    raw = [array.raw() for array in arrays]
    with open(results, "wb", closefd=False) as file:
        file.seek(0)
        file.writelines(raw)
    return FILED + pickle.dumps((head, [part.nbytes for part in raw]))


def decode_answer(message: bytes, results: int) -> Answer:
    """The answer in a message that is no sign of life.

    ``results`` is the descriptor of the worker's file of results, which is empty afterwards.
    """
    if message == DONE:
        return _DONE
    if message[:1] == FILED:
        head, sizes = pickle.loads(message[1:])
        arrays = [bytearray(size) for size in sizes]
        with open(results, "r+b", closefd=False) as file:
            file.seek(0)
            for array in arrays:
                file.readinto(array)
            file.truncate(0)
        filed: Answer = pickle.loads(head, buffers=arrays)
        return filed
    answer: Answer = pickle.loads(message)
    return answer
