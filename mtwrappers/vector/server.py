"""The side of a worker: it decodes commands, runs them in a block, and encodes the answers.

Both directions of the encodings are here. What the executor does with them is in
`mtwrappers.vector.workers`.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pickle
import random
import select
import signal
import socket
import struct
import sys
import traceback
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import cloudpickle
import gymnasium
import numpy as np

from mtwrappers.common.counts import format_range
from mtwrappers.common.errors import picklable, with_place
from mtwrappers.common.extras import with_or_without_opengl
from mtwrappers.vector.block import BlockTraits, EnvBlock
from mtwrappers.vector.commands import Answer, Build, Close, Command, Step

HELLO = 0  # the number of the answer of a worker that has started
EMPTY = b""  # an encoded answer without a result
HEADER = struct.Struct("!QQ")  # the number of the command, and the number of bytes that follow
PICKLED = b"\x80"  # the first byte of a pickle
STEP_HEAD_SIZE = 5  # bytes; the dtypes of numbers, such as "<f4", have 3 characters
# An id may be registered in the main script, below its guard.
_UNREGISTERED = (
    "a worker that is not a fork knows only the ids that its imports register: name the module "
    "that registers this one, as in 'my_module:My/Env-v0', pass a function that makes the "
    "environment from its class, or pass context='fork'"
)


class StepHead(NamedTuple):
    """The beginning of a message with a step, encoded as in ``b"11<f4"``; the actions follow.

    Attributes:
        autoreset: Whether environments reset themselves, if the mode is SAME_STEP.
        reads_columns: Whether the executor reads infos from the buffers.
        dtype: The dtype of the actions.
    """

    autoreset: bool
    reads_columns: bool
    dtype: np.dtype[Any]


class BlockServer:
    """Builds a block and runs the commands of an executor in another process.

    Args:
        memory: The descriptor of the memory that the parent shares; -1 if there is none.
    """

    block: EnvBlock | None = None
    closed = False

    def __init__(self, memory: int = -1) -> None:
        self._memory = memory
        # Workers share the cores. Libraries that are imported from here on read the variable.
        os.environ["OMP_NUM_THREADS"] = "1"
        if torch := sys.modules.get("torch"):
            torch.set_num_threads(1)

    def answer(self, message: bytes) -> bytes:
        """Runs the command in a message of `Worker.encode`.

        Returns:
            Its encoded answer.
        """
        try:
            command = self._decode(message)
        except Exception as exc:  # such as a module that only the parent has
            place = f"a worker on {socket.gethostname()} cannot import what it was given"
            return encode_answer(Answer(failure=with_place(exc, place), has_run=False))
        self.closed = isinstance(command, Close)
        if isinstance(command, Build):
            try:
                return encode_answer(Answer(self._build(command)))
            except Exception as exc:
                return encode_answer(Answer(failure=exc, has_run=False))
        if self.block is None:  # its environments could not be built
            return EMPTY
        answer = command.answer(self.block)
        try:
            return encode_answer(answer)
        except Exception as exc:  # an info of any class may refuse to be pickled in any way
            first = self.block.offset
            environments = format_range("environment", first, first + len(self.block.envs) - 1)
            with_place(exc, f"the answer of {environments} to {command.name}()")
            failure = exc
        try:
            return encode_answer(command.fail(self.block, failure))
        except Exception:  # and so may a state
            return encode_answer(Answer(failure=failure, is_unknown=True))

    def _decode(self, message: bytes) -> Command:
        """The command in a message."""
        if message[:1] == PICKLED:
            command: Command = pickle.loads(message)
            if isinstance(command, Build):
                for pickled in command.blocks.values():
                    # An error here, if it cannot be imported.
                    with_or_without_opengl(functools.partial(pickle.loads, pickled))
            return command
        assert self.block is not None
        head, columns = decode_step_head(message[:STEP_HEAD_SIZE]), self.block.columns
        schema = columns.schema if columns is not None and head.reads_columns else None
        # In memory of their own, because environments may keep and change their actions.
        memory = bytearray(message[STEP_HEAD_SIZE:])
        actions = np.ndarray(self.block.actions_shape, head.dtype, memory)
        return Step(actions, head.autoreset, schema)

    def _build(self, command: Build) -> BlockTraits:
        """Builds the block, and returns its traits.

        Constructors are unpickled for every build, because they may keep what they have made.
        """
        [(offset, pickled)] = command.blocks.items()
        _, settings = pickle.loads(pickled)
        self.block = EnvBlock(lambda: pickle.loads(pickled)[0], offset, settings, self._memory)
        return self.block.traits()


# Cached, because the steps of an executor hardly differ.
@functools.cache
def encode_step_head(head: StepHead) -> bytes:
    """Encodes the beginning of a message with a step, in `STEP_HEAD_SIZE` bytes."""
    return f"{head.autoreset:d}{head.reads_columns:d}{head.dtype.str}".encode()


@functools.cache
def decode_step_head(data: bytes) -> StepHead:
    """Reverses `encode_step_head`."""
    return StepHead(data[:1] == b"1", data[1:2] == b"1", np.dtype(data[2:].decode()))


def encode_answer(answer: Answer) -> bytes:
    """Encodes an answer for `decode_answer`, with a failure that can be unpickled.

    The result is pickled by itself, so that the notes can be read even if it cannot.
    """
    if answer.result is None and answer.notes is None and answer.failure is None:
        return EMPTY
    failure, text = answer.failure, ""
    if failure is not None:
        if isinstance(failure, gymnasium.error.UnregisteredEnv):
            with_place(failure, _UNREGISTERED)
        text = "".join(traceback.format_exception(failure))
        failure = picklable(failure)
    content = cloudpickle.dumps((answer.result, failure, text))
    return bytes(cloudpickle.dumps((answer.has_run, answer.is_unknown, answer.notes, content)))


def decode_answer(data: bytes, command: Command, rows: slice) -> Answer:
    """Reverses `encode_answer`, on the executor's side.

    A result that cannot be read is a failure of the command.

    Args:
        data: The encoded answer, which is not `EMPTY`.
        command: The command.
        rows: The rows of the block's environments.
    """
    environments = format_range("environment", rows.start, rows.stop - 1)
    place = f"the answer of {environments} to {command.name}() cannot be read here"
    values, error = _unpickle(data)
    if error is not None:
        return Answer(failure=with_place(error, place), has_run=False, is_unknown=True)
    has_run, is_unknown, notes, content = values
    values, error = _unpickle(content)
    if error is not None:
        failure = with_place(error, place)
        return Answer(notes=notes, failure=failure, has_run=has_run, is_unknown=is_unknown)
    result, failure, text = values
    return Answer(result, notes, failure, text, has_run, is_unknown)


def _unpickle(data: bytes) -> tuple[Any, Exception | None]:
    """Reads a pickle, and returns its value, or the error if it cannot be read.

    Raises:
        Exception: If a signal's handler raises meanwhile, which says nothing about the pickle.
    """
    try:
        return pickle.loads(data), None
    except Exception as exc:
        first_error = exc
    # An error of the pickle, such as a module that only workers have, comes again.
    try:
        pickle.loads(data)
    except Exception as exc:
        return None, exc
    raise first_error  # of a signal's handler; the next call reads the answer again


def serve(commands: Connection, answers: Connection, memory: Connection, life: Connection) -> None:
    """Serves the executor that writes ``commands`` and reads ``answers``, with its memory.

    The executor's process has the other end of ``life``, to which nothing is written.
    """
    # The parent handles Ctrl-C; handlers that it may have set are not for workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # For processes that are started from here.
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    follow_parent(life.fileno())
    # Forked workers have the parent's global random states, and would all draw the same. (JAX has
    # none.)
    random.seed()
    np.random.seed(np.random.SeedSequence().generate_state(8))
    if torch := sys.modules.get("torch"):
        torch.seed()
    server = BlockServer(memory.fileno())
    with (
        contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError),  # the parent is gone
        open(commands.fileno(), "rb", closefd=False) as source,
        open(answers.fileno(), "wb", closefd=False) as sink,
    ):
        _write(sink, HELLO, EMPTY)
        while not server.closed:
            number, message = _read(source)
            _write(sink, number, server.answer(message))
    if server.block is not None:
        with contextlib.suppress(Exception):
            server.block.close()


def _read(source: Any) -> tuple[int, bytes]:
    """Waits for a command, and returns its number and the message."""
    header = source.read(HEADER.size)
    if len(header) == HEADER.size:
        number, length = HEADER.unpack(header)
        message: bytes = source.read(length)
        if len(message) == length:
            return number, message
    raise EOFError("the parent has closed its pipe")


def _write(sink: Any, number: int, answer: bytes) -> None:
    """Sends the answer to the command with a number."""
    sink.write(HEADER.pack(number, len(answer)) + answer)
    sink.flush()


def follow_parent(life: int) -> None:
    """Ends this process as soon as its parent's end of a pipe is closed.

    On Linux the kernel does it, also for a process that is stopped, or whose GIL is held in C.
    (PR_SET_PDEATHSIG follows the thread that forked, not the process.) Elsewhere a worker ends
    when it next reads from its parent.
    """
    if sys.platform == "linux":
        import fcntl

        with contextlib.suppress(OSError):
            fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
            fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
            fcntl.fcntl(life, fcntl.F_SETFL, os.O_RDONLY | os.O_ASYNC)
        poll = select.poll()
        poll.register(life)
        if poll.poll(0):  # it was closed before
            os._exit(1)
