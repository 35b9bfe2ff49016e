"""A command to the blocks of an executor, its entry in the journal, and a block's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mtwrappers.vector.buffers import Info

# ("reset", seed, options), ("step", action), ("call", name, args, kwargs); "tried" replaces "call"
# if it raised.
Entry = tuple[Any, ...]


# The arguments of a call for each environment; ``None`` leaves an environment out.
EachCall = Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None]


class Command(NamedTuple):
    """A command to all blocks.

    Attributes:
        name: A method of `EnvBlock`.
        arguments: Returns the arguments for the block of some rows.
        entries: The entry of each environment in the journal.
    """

    name: str
    arguments: Callable[[slice], tuple[Any, ...]]
    entries: Sequence[Entry | None] | None = None


class Answer(NamedTuple):
    """The answer of a block to a command.

    Attributes:
        result: The result of the command.
        infos: The info of each environment, None for environments that were left out; None if all
            infos are in the buffers.
        objects: The observations after a step or reset, if they are not arrays.
        finals: Place, last observation and last info of each episode that ended with a SAME_STEP
            autoreset.
        states: The state of each environment just before its reset, by its place, if there is a
            journal.
        made: What a call was in each environment that it has reached: ``"call"``, ``"tried"`` if it
            raised, and ``None`` if it is known to have changed nothing.
        failure: The exception and its traceback, if the command raised. The states are then of all
            environments, and the result of `apply` is the logs up to then.
        written: All data written into buffers, if these are not shared.
    """

    result: Any = None
    infos: Sequence[Info | None] | None = None
    objects: list[Any] | None = None
    finals: Sequence[tuple[int, Any, Info]] = ()
    states: Mapping[int, Any] = {}
    made: Sequence[str | None] = ()
    failure: tuple[BaseException, str] | None = None
    written: bytes | None = None
