"""The pool of an executor: it runs commands in blocks, and keeps the journal."""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np

from mtwrappers.common.errors import WorkerTraceback, warn_about_close
from mtwrappers.vector.block import BlockTraits, EnvBlock
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.commands import Answer, Command
from mtwrappers.vector.journal import ReplayLog
from mtwrappers.vector.settings import Settings

OTHER_CALL = (
    "another call of this executor came between, as from a signal's handler or from a function of "
    "map_blocks: these may not use it"
)


@dataclass(eq=False)
class Record:
    """A command that was given to a block, until a journal has what it did.

    Attributes:
        command: The command for all environments.
        rows: The rows of the block's environments.
        answer: The answer, once there is one.
    """

    command: Command
    rows: slice
    answer: Answer | None = None
    _logs: list[ReplayLog] | None = field(default=None, init=False)  # after the command

    def keep(self, logs: list[ReplayLog], buffers: Buffers) -> None:
        """Records the answer in the logs of all environments.

        If an exception interrupts it, it can be called again: the logs are computed first, and
        assigned at once.

        Args:
            logs: The logs of all environments.
            buffers: The results of the block's environments.
        """
        assert self.answer is not None
        if self._logs is None:
            command = self.command.part(self.rows)
            self._logs = command.record(logs[self.rows], self.answer, buffers)
        logs[self.rows] = self._logs


class Pool(abc.ABC):
    """The blocks of an executor.

    An exception may interrupt any method at any line, such as ``KeyboardInterrupt``. Then the
    command may have been run or not, and the next command works.

    Args:
        rows: The rows of each block.
        settings: The settings of the executor.

    Attributes:
        rows: The rows of each block.
        buffers: The results of all environments.
        logs: The journal, a log per environment, if there is one.
        names: The name of each environment's task, as resets reported it.
        due: A mask of the environments that have to be reset before the next step, ``(N,)`` bool. A
            command that needs resets if it fails marks all, once it is certain that it is given;
            what gave it clears them when it has succeeded.
        is_settled: Whether nothing is left to do of an earlier command; see `settle`.
        is_local: Whether the environments are in this process.
        is_lost: Whether the blocks are gone for good.
        recoveries: The number of replaced workers.
    """

    buffers: Buffers
    logs: list[ReplayLog] | None = None
    is_settled = True
    is_local = False
    is_lost = False
    recoveries = 0

    def __init__(self, rows: list[slice], settings: Settings) -> None:
        self.rows = rows
        self.num_envs = rows[-1].stop
        self.names: list[Any] = [None] * self.num_envs
        self.due = np.ones(self.num_envs, np.bool_)
        self._settings = settings

    def start_journal(self) -> None:
        """Records what is done with the environments from here on."""
        self.logs = [ReplayLog() for _ in range(self.num_envs)]

    @abc.abstractmethod
    def build(self) -> list[BlockTraits]:
        """Builds the environments; returns the traits of each block."""

    @abc.abstractmethod
    def connect(self, layout: ObsLayout) -> Buffers:
        """Makes all blocks write to buffers, and returns those of all environments."""

    @abc.abstractmethod
    def settle(self) -> None:
        """Waits for what an interrupted command still does, and records it.

        Unless the pool `is_settled`, it comes before `begin`, and before anything else that reads
        the logs or the buffers.
        """

    def run(self, command: Command) -> list[Any]:
        """Runs a command in every block, and returns the result of each.

        Raises:
            WorkerDiedError: If a worker is lost and cannot be replaced. All workers are then gone.
            Exception: The exception of the first block that raised one.
        """
        if not self.is_settled:
            self.settle()
        self.begin(command)
        return self.end()

    def set_up(self, command: Command) -> list[Any]:
        """Runs a command that replacements of workers run too."""
        return self.run(command)

    @abc.abstractmethod
    def begin(self, command: Command) -> None:
        """Gives a command to every block, after `settle`.

        Raises:
            Exception: If the command cannot be encoded; then nothing has changed.
        """

    @abc.abstractmethod
    def end(self) -> list[Any]:
        """Waits for the results of the command that was given last, and returns them."""

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the environments; what they raise is a warning."""


class LocalPool(Pool):
    """A pool of one block in this process.

    Args:
        make_block: Returns the block.
        num_envs: The number of its environments.
        settings: The settings of the executor.
    """

    is_local = True
    block: EnvBlock

    def __init__(
        self, make_block: Callable[[], EnvBlock], num_envs: int, settings: Settings
    ) -> None:
        super().__init__([slice(0, num_envs)], settings)
        self._make_block = make_block
        self._record: Record | None = None  # of the last command, until it is recorded

    def build(self) -> list[BlockTraits]:
        """Builds the environments."""
        self.block = self._make_block()
        return [self.block.traits()]

    def connect(self, layout: ObsLayout) -> Buffers:
        """Makes the block write to buffers."""
        self.block.connect(range(layout.n), layout.n)
        self.buffers = self.block.buffers
        return self.buffers

    def begin(self, command: Command) -> None:
        """Runs a command."""
        self.is_settled = False
        self.block.notes = None  # of the command before
        record = self._record = Record(command, self.rows[0])
        if command.needs_reset:
            self.due.fill(True)
        record.answer = command.answer(self.block)

    def end(self) -> list[Any]:
        """Returns the result of the command that was run."""
        answer = None if self._record is None else self._record.answer
        if answer is None:
            raise RuntimeError(OTHER_CALL)
        self.settle()
        if answer.failure is not None:
            raise_failure(answer.failure, answer.traceback)
        return [answer.result]

    def settle(self) -> None:
        """Records what the last command has done, which may have been interrupted."""
        record = self._record
        if record is not None and self.logs is not None:
            if record.answer is None:
                notes = record.command.notes_of_interrupt(self.block)
                record.answer = Answer(notes=notes, has_run=False)
            record.keep(self.logs, self.buffers)
        self._record = None
        self.is_settled = True

    def close(self) -> None:
        """Closes the environments."""
        if hasattr(self, "block"):
            try:
                self.block.close()
            except Exception as exc:
                warn_about_close(exc)


class BorrowedPool(LocalPool):
    """A pool of a block that another executor owns, for a function of its environments."""

    def __init__(self, block: EnvBlock, num_envs: int, settings: Settings) -> None:
        super().__init__(lambda: block, num_envs, settings)

    def connect(self, layout: ObsLayout) -> Buffers:
        """Returns the buffers to which the block writes."""
        self.buffers = self.block.buffers
        return self.buffers

    def begin(self, command: Command) -> None:
        """Runs a command."""
        self.block.beat()
        super().begin(command)

    def close(self) -> None:
        """Leaves the environments open."""


def raise_failure(failure: BaseException, traceback: str) -> NoReturn:
    """Raises the exception of an answer, with the traceback of a worker, if there is one."""
    if traceback:
        raise failure from WorkerTraceback(traceback)
    raise failure
