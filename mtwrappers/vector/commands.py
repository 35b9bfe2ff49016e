"""The commands of an executor to its blocks.

A command has the arguments for all environments. `Command.part` is the command for those of one
block, `Command.run` calls the block's method, and `Command.record` is what a journal keeps of it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import full_message
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.buffers import Buffers, InfoSchema
from mtwrappers.vector.calls import Call, EachCall
from mtwrappers.vector.journal import ReplayLog, ResetEntry


@dataclass(frozen=True)
class Answer:
    """The answer of a block to a command.

    Attributes:
        result: The return value of the block's method.
        notes: What a journal has to know; each command says what it is.
        failure: The exception that the command raised, or why its result cannot be read.
        traceback: The traceback of that exception, if it comes from a worker.
        has_run: Whether the command has run to its end, even if its result cannot be read.
        is_unknown: Whether it is unknown what the block has done, because the notes cannot be read.
    """

    result: Any = None
    notes: Any = None
    failure: BaseException | None = None
    traceback: str = ""
    has_run: bool = True
    is_unknown: bool = False


NO_RESULT = Answer()  # of a command that has nothing to return, as most steps


class Command(abc.ABC):
    """A command to the blocks of an executor.

    Attributes:
        name: The method that gave the command, for messages.
        needs_reset: Whether every environment has to be reset before the next step, unless the
            command succeeds and says otherwise.
    """

    name: ClassVar[str]
    needs_reset: ClassVar[bool] = False

    def part(self, rows: slice) -> Command:
        """The command for the block with the environments ``rows``."""
        return self

    @abc.abstractmethod
    def run(self, block: EnvBlock) -> Any:
        """Runs the command in a block, and returns its result."""

    def answer(self, block: EnvBlock) -> Answer:
        """Runs the command in a block; the answer has the failure if it raised."""
        block.notes = None
        try:
            result = self.run(block)
        except Exception as exc:
            return self.fail(block, exc)
        notes = (self.notes(block) or None) if block.settings.journal else None
        return NO_RESULT if result is None and notes is None else Answer(result, notes)

    def fail(self, block: EnvBlock, exc: Exception) -> Answer:
        """The answer of a block in which the command raised."""
        notes = None
        if block.settings.journal:
            try:
                notes = self.notes_of_failure(block)
            except Exception as state_exc:
                exc.add_note(f"then its state could not be read: {full_message(state_exc)}")
        return Answer(notes=notes, failure=exc, has_run=False)

    def notes(self, block: EnvBlock) -> Any:
        """The notes of a command that has run."""
        return block.notes

    def notes_of_failure(self, block: EnvBlock) -> Any:
        """The notes of a failure: by default the states of environments that have to be reset."""
        return block.get_states() if self.needs_reset else self.notes(block)

    def notes_of_interrupt(self, block: EnvBlock) -> Any:
        """The notes of a command that was interrupted: by default none, as a reset is due then."""
        return None

    def record(self, logs: list[ReplayLog], answer: Answer, buffers: Buffers) -> list[ReplayLog]:
        """The logs of a block's environments after the command.

        Args:
            logs: Their logs before it.
            answer: The answer of the block.
            buffers: The results of these environments.
        """
        if answer.has_run:
            return self.record_success(logs, answer.notes or {}, buffers)
        if self.needs_reset and answer.notes is not None:
            return [log.with_state(state) for log, state in zip(logs, answer.notes, strict=True)]
        return logs

    def record_success(
        self, logs: list[ReplayLog], notes: Any, buffers: Buffers
    ) -> list[ReplayLog]:
        """The logs after the command has succeeded."""
        return logs


# Making a block.


@dataclass(eq=False)
class Build(Command):
    """Builds the block of a worker.

    Attributes:
        blocks: The pickled arguments of each `EnvBlock`, by its first environment.
    """

    name = "build"
    blocks: Mapping[int, bytes]

    def part(self, rows: slice) -> Build:
        """The command for one block."""
        return Build({rows.start: self.blocks[rows.start]})

    def run(self, block: EnvBlock) -> Any:
        """Returns the spaces and the metadata of a block that was built."""
        return block.traits()


@dataclass(eq=False)
class Wrap(Command):
    """Wraps every environment."""

    name = "wrap"
    wrap: Callable[[Any], Any]

    def run(self, block: EnvBlock) -> None:
        """Wraps the environments of the block."""
        block.wrap(self.wrap)


@dataclass(eq=False)
class Connect(Command):
    """Makes the blocks write results to buffers.

    Attributes:
        rows: The rows of the block's environments.
        num_envs: The number of all environments.
    """

    name = "connect"
    rows: range
    num_envs: int

    def part(self, rows: slice) -> Connect:
        """The command for one block."""
        return Connect(self.rows[rows], self.num_envs)

    def run(self, block: EnvBlock) -> None:
        """Makes the buffers of the block."""
        block.connect(self.rows, self.num_envs)


@dataclass(eq=False)
class UseColumns(Command):
    """Sets which infos go through the buffers."""

    name = "use_columns"
    schema: InfoSchema

    def run(self, block: EnvBlock) -> None:
        """Sets the schema of the block."""
        block.use_columns(self.schema)


@dataclass(eq=False)
class Sync(Command):
    """Does nothing. Its answer shows that no earlier answer is under way."""

    name = "sync"

    def run(self, block: EnvBlock) -> None:
        """Does nothing."""


@dataclass(eq=False)
class Close(Command):
    """Closes every environment."""

    name = "close"

    def run(self, block: EnvBlock) -> None:
        """Closes the environments of the block."""
        block.close()


# Episodes.


@dataclass(eq=False)
class Reset(Command):
    """Resets some environments; the notes are the state of each before, by its place."""

    name = "reset"
    needs_reset = True
    seeds: Sequence[int | None]
    options: Sequence[dict[str, Any] | None]
    mask: Sequence[bool]

    def part(self, rows: slice) -> Reset:
        """The command for one block."""
        return Reset(self.seeds[rows], self.options[rows], self.mask[rows])

    def run(self, block: EnvBlock) -> Any:
        """Resets environments of the block."""
        return block.reset(self.seeds, self.options, self.mask)

    def record_success(
        self, logs: list[ReplayLog], notes: Mapping[int, Any], buffers: Buffers
    ) -> list[ReplayLog]:
        """The logs after the resets."""
        logs, digests = [*logs], buffers.digests.tolist()
        for i, state in notes.items():
            entry = ResetEntry(self.seeds[i], self.options[i])
            logs[i] = logs[i].with_reset(state, entry, digests[i])
        return logs


@dataclass(eq=False)
class Step(Command):
    """Steps every environment that is not paused.

    Its notes are the state, by its place, of each environment that was reset meanwhile.

    Attributes:
        actions: An action for each environment.
        autoreset: Whether environments reset themselves, if the mode is SAME_STEP.
        schema: That of the infos that the executor reads from the buffers; None for none.
    """

    name = "step"
    needs_reset = True
    actions: Any
    autoreset: bool
    schema: InfoSchema | None

    def part(self, rows: slice) -> Step:
        """The command for one block."""
        return Step(self.actions[rows], self.autoreset, self.schema)

    def run(self, block: EnvBlock) -> Any:
        """Steps the environments of the block."""
        return block.step(self.actions, self.autoreset, self.schema)

    def record_success(
        self, logs: list[ReplayLog], notes: Mapping[int, Any], buffers: Buffers
    ) -> list[ReplayLog]:
        """The logs after the step."""
        logs_after, paused = [], buffers.paused.tolist()
        steps = zip(logs, self.actions, buffers.digests.tolist(), strict=True)
        for i, (log, action, digest) in enumerate(steps):
            if i in notes:
                logs_after.append(log.with_reset(notes[i], ResetEntry(), digest))
            else:
                logs_after.append(log if paused[i] else log.with_step(action, digest))
        return logs_after


@dataclass(eq=False)
class Pause(Command):
    """Pauses the environments in a mask, and resumes all others."""

    name = "pause"
    mask: NDArray[np.bool_]

    def part(self, rows: slice) -> Pause:
        """The command for one block."""
        return Pause(self.mask[rows])

    def run(self, block: EnvBlock) -> None:
        """Pauses environments of the block."""
        block.pause(self.mask)


# Calls.


@dataclass(eq=False)
class CallEach(Command):
    """Calls each environment with its own arguments.

    Its notes are the outcome, by its place, for each environment that it may have changed.
    """

    name = "call"
    target: str | Callable[..., Any]
    arguments: EachCall

    def part(self, rows: slice) -> CallEach:
        """The command for one block."""
        return CallEach(self.target, self.arguments[rows])

    def run(self, block: EnvBlock) -> Any:
        """Calls the environments of the block."""
        return block.call(self.target, self.arguments)

    def notes_of_failure(self, block: EnvBlock) -> Any:
        """The outcome of the calls that were made."""
        return self.notes(block)

    def notes_of_interrupt(self, block: EnvBlock) -> Any:
        """The outcome of the calls that were made."""
        return self.notes(block)

    def record(self, logs: list[ReplayLog], answer: Answer, buffers: Buffers) -> list[ReplayLog]:
        """The logs after the calls, of which one may have raised."""
        logs = [*logs]
        for i, outcome in (answer.notes or {}).items():
            args, kwargs = self.arguments[i] or ((), {})
            call = Call(self.target, args, kwargs, outcome.raised, outcome.without_state)
            logs[i] = logs[i].with_call(call)
        return logs


class SetTasks(CallEach):
    """Calls the method of each environment that sets its task; a reset is due then."""

    name = "set_tasks"
    needs_reset = True

    def part(self, rows: slice) -> SetTasks:
        """The command for one block."""
        return SetTasks(self.target, self.arguments[rows])


@dataclass(eq=False)
class Apply(Command):
    """Calls a function with the block.

    Its notes are the logs of the environments, which the function replaces as it goes on.

    Attributes:
        function: Takes the block, the rows, the mask of environments that are due, and the logs.
        rows: The rows of the block's environments.
        due: A mask of environments that are due for a reset.
        logs: Their logs, or None for each if there is no journal.
    """

    name = "map_blocks"
    needs_reset = True
    function: Callable[[EnvBlock, range, NDArray[np.bool_], list[Any]], Any]
    rows: range
    due: NDArray[np.bool_]
    logs: list[Any]

    def part(self, rows: slice) -> Apply:
        """The command for one block."""
        return Apply(self.function, self.rows[rows], self.due[rows], self.logs[rows])

    def run(self, block: EnvBlock) -> Any:
        """Calls the function with the block."""
        return block.apply(self.function, self.rows, self.due, self.logs)

    def notes(self, block: EnvBlock) -> Any:
        """The logs as far as the function came."""
        return self.logs

    def notes_of_failure(self, block: EnvBlock) -> Any:
        """The logs of environments that have to be reset."""
        states = block.get_states()
        return [log.with_state(state) for log, state in zip(self.logs, states, strict=True)]

    def notes_of_interrupt(self, block: EnvBlock) -> Any:
        """The logs as far as the function came."""
        return self.logs

    def record(self, logs: list[ReplayLog], answer: Answer, buffers: Buffers) -> list[ReplayLog]:
        """The logs that the function has gone on with."""
        return logs if answer.notes is None else answer.notes


# States.


@dataclass(eq=False)
class GetStates(Command):
    """Returns the state of each environment between two episodes."""

    name = "get_state"

    def run(self, block: EnvBlock) -> Any:
        """Reads the states of the block."""
        return block.get_states()


@dataclass(eq=False)
class SetStates(Command):
    """Gives each environment the state with which a log begins; a reset is then due."""

    name = "set_state"
    needs_reset = True
    logs: Sequence[ReplayLog]

    def part(self, rows: slice) -> SetStates:
        """The command for one block."""
        return SetStates(self.logs[rows])

    def run(self, block: EnvBlock) -> None:
        """Restores the states of the block."""
        block.set_states([log.state for log in self.logs])

    def record_success(
        self, logs: list[ReplayLog], notes: Any, buffers: Buffers
    ) -> list[ReplayLog]:
        """The logs of environments with these states, which keep their tasks."""
        return [log.with_state(new.state) for log, new in zip(logs, self.logs, strict=True)]


@dataclass(eq=False)
class Replay(Command):
    """Replays logs in new environments, and checks the results.

    Attributes:
        logs: A log for each environment.
        paused: A mask of the environments that are paused then.
    """

    name = "replay"
    logs: Sequence[ReplayLog]
    paused: NDArray[np.bool_]

    def part(self, rows: slice) -> Replay:
        """The command for one block."""
        return Replay(self.logs[rows], self.paused[rows])

    def run(self, block: EnvBlock) -> None:
        """Replays the logs in the block."""
        block.replay(self.logs, self.paused)


@dataclass(eq=False)
class Prepare(Command):
    """Builds new environments beside the others and replays logs in them, for `Commit`."""

    name = "set_state"

    logs: Sequence[ReplayLog]
    paused: NDArray[np.bool_]

    def part(self, rows: slice) -> Prepare:
        """The command for one block."""
        return Prepare(self.logs[rows], self.paused[rows])

    def run(self, block: EnvBlock) -> None:
        """Prepares new environments of the block."""
        block.prepare(self.logs, self.paused)


@dataclass(eq=False)
class DropPrepared(Command):
    """Closes the environments of a `Prepare` that failed in another block."""

    name = "set_state"

    def run(self, block: EnvBlock) -> None:
        """Closes the prepared environments of the block."""
        block.drop_prepared()


@dataclass(eq=False)
class Commit(Command):
    """Goes on with the environments of `Prepare`, which have these logs and pauses."""

    name = "set_state"
    needs_reset = True

    logs: Sequence[ReplayLog]
    paused: NDArray[np.bool_]

    def part(self, rows: slice) -> Commit:
        """The command for one block."""
        return Commit(self.logs[rows], self.paused[rows])

    def run(self, block: EnvBlock) -> None:
        """Exchanges the environments of the block."""
        if not block.has_prepared:  # its worker was lost since
            block.prepare(self.logs, self.paused)
        block.commit()

    def record_success(
        self, logs: list[ReplayLog], notes: Any, buffers: Buffers
    ) -> list[ReplayLog]:
        """The logs of the new environments."""
        return [*self.logs]
