"""What goes between a parent and its workers.

A message is bytes. A step is the dtype of its actions, such as ``b"<f4"``, which lie in shared
memory; without shared memory the dtype is followed by a zero, by which environments rest, and by
the actions. Everything else is a pickled ``(command, arguments)``. `read_answer` reads answers.
"""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NamedTuple

import cloudpickle

STARTED = DONE = b""
ALIVE = b"\x01"  # a long call goes on
ROWS = b"\x02"  # what the worker has written follows, and is the whole answer
FILED = b"\x03"  # the answer's arrays are in the file of results
PICKLED = b"\x80"  # how a pickle begins


class Answer(NamedTuple):
    """What a worker answers.

    Attributes:
        result: What the command returned.
        failure: The exception that it raised, and its traceback.
        states: For the journal, if there is one: the states that environments which were reset
            had before, by environment; after a function of them, their pasts; after a failed step,
            reset or function, the state of each environment; after a failed call, how many
            environments were called.
        rows: Without shared memory: what the worker has written.
    """

    result: Any = None
    failure: tuple[Exception, str] | None = None
    states: Any = None
    rows: bytes | None = None


def read_answer(message: bytes, results: int) -> Answer | None:
    """The answer in a message; ``None`` for a sign of life.

    Args:
        message: What came.
        results: The descriptor of the worker's file of results, which is empty afterwards.
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


def failure(exc: Exception, states: Any = None) -> bytes:
    """The exception and its traceback, as an answer that the parent can surely read."""
    text = "".join(traceback.format_exception(exc))
    try:
        data = cloudpickle.dumps(Answer(None, (exc, text), states))
        pickle.loads(data)
    except Exception:  # an exception of any class may refuse to be pickled in any way
        plain = RuntimeError(f"{type(exc).__name__}: {exc}")
        data = cloudpickle.dumps(Answer(None, (plain, text), states))
    return bytes(data)


def pickled(answer: Answer) -> bytes:
    """An answer as a message."""
    return bytes(cloudpickle.dumps(answer))
