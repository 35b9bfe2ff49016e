"""The interface of an executor to its blocks, and the block in this process."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.buffers import Buffers, InfoSchema, ObsLayout
from mtwrappers.vector.commands import Answer, Command
from mtwrappers.vector.journal import Journal

Function = TypeVar("Function", bound=Callable[..., Any])


class Blocks(abc.ABC):
    """The blocks of an executor, in the order of their environments."""

    rows: Sequence[slice]  # the environments of each block
    journal: Journal | None = None
    lost = False  # whether blocks are gone for good
    forks = True  # whether a forked process may continue to use them

    @abc.abstractmethod
    def build(self) -> list[Any]:
        """Builds the environments; returns `EnvBlock.traits` of each block."""

    @abc.abstractmethod
    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers of all environments, and lets blocks write into them."""

    @abc.abstractmethod
    def begin(self, command: Command) -> None:
        """Sends every block a command."""

    @abc.abstractmethod
    def end(self, timeout: float | None = None) -> list[Answer]:
        """Returns the answer of every block, or raises the first failure.

        Raises:
            multiprocessing.TimeoutError: If not all have answered within ``timeout`` seconds; the
                next call waits for them again.
        """

    @abc.abstractmethod
    def run(self, command: Command) -> list[Answer]:
        """Sends every block a command, and returns the result of `end`."""

    def prepare(self, command: Command) -> None:
        """Sends every block a command that a replacement needs too."""
        self.run(command)

    def use_columns(self, schema: InfoSchema) -> None:
        """Sets which infos go through the buffers."""
        self.prepare(Command("use_columns", lambda rows: (schema,)))

    def carry(self, function: Function) -> Callable[[], Function]:
        """Returns a callable to send to every block, which returns the function there."""
        return lambda: function

    @abc.abstractmethod
    def close(self) -> None:
        """Closes the environments."""


class LocalBlocks(Blocks):
    """One block, in this process.

    Args:
        make: Returns the block.
        owned: Whether it is built here, and closed; otherwise it has another owner.
    """

    block: EnvBlock

    def __init__(self, make: Callable[[], EnvBlock], owned: bool = True) -> None:
        self._make, self._owned = make, owned
        self.rows = []
        self._interrupts = HeldInterrupts()

    def build(self) -> list[Any]:
        """Builds the environments."""
        self.block = self._make()
        self.rows = [slice(0, len(self.block.envs))]
        return [self.block.traits().result]

    def connect(self, layout: ObsLayout, action_shape: tuple[int, ...]) -> Buffers:
        """Makes the buffers of all environments, or returns those that they have."""
        if not self._owned:
            return self.block.buffers
        buffers = Buffers(layout, action_shape)
        self.block.connect(layout, buffers)
        return buffers

    def begin(self, command: Command) -> None:
        """Stores a command until `end` runs it."""
        self._command = command

    def end(self, timeout: float | None = None) -> list[Answer]:
        """Runs the command."""
        return self.run(self._command)

    def run(self, command: Command) -> list[Answer]:
        """Runs a command, after a sign of life to an owner elsewhere."""
        [rows] = self.rows
        if not self._owned:
            self.block.beat()
        if self.journal is None:
            answer = self.block.handle(command.name, command.arguments(rows))
        else:
            with self._interrupts:
                answer = self._run_and_note(command, rows, self.journal)
        if answer.failure is not None:
            raise answer.failure[0]
        return [answer]

    def _run_and_note(self, command: Command, rows: slice, journal: Journal) -> Answer:
        """Runs a command, which Ctrl-C may interrupt, and records it before Ctrl-C can again."""
        block, arguments = self.block, command.arguments(rows)
        block.made = []
        try:
            self._interrupts.waiting = True
            answer = block.handle(command.name, arguments)
            self._interrupts.waiting = False
        except BaseException as exc:  # an interrupt
            self._interrupts.waiting = False
            journal.note(command, rows, block.failed(command.name, exc))
            raise
        journal.note(command, rows, answer)
        return answer

    def close(self) -> None:
        """Closes the environments."""
        if self.rows and self._owned:
            self.block.close()
