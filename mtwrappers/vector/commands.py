"""A command to the blocks of an executor, what is noted of it, and a block's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from mtwrappers.vector.buffers import Info

# ("reset", seed, options), ("step", action), ("call", name, args, kwargs); in the place of "call"
# stands "tried" if it has raised, and "cut" if Ctrl-C has ended it.
Entry = tuple[Any, ...]


# The arguments of a call for each environment; ``None`` leaves one alone.
EachCall = Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None]


class Command(NamedTuple):
    """A command to all blocks.

    Attributes:
        name: A method of `EnvBlock`.
        arguments: What it is called with, for the block of some rows.
        entries: What the journal notes of each environment.
    """

    name: str
    arguments: Callable[[slice], tuple[Any, ...]]
    entries: Sequence[Entry | None] | None = None


class Traits(NamedTuple):
    """The spaces, metadata and render mode of a block's environments."""

    spaces: list[tuple[Any, Any]]  # of observations and actions, of each
    metadata: dict[str, Any]  # of the first
    render_mode: str | None  # of the first


class Answer(NamedTuple):
    """The answer of a block to a command.

    Attributes:
        result: What the command returns.
        infos: Of each environment; None of one that was left alone. None where all infos are in
            the buffers.
        objects: The observations after a step or reset, where they are not arrays.
        finals: Place, last observation and last info of each episode that a SAME_STEP autoreset
            has ended.
        states: What each environment that was reset was just before, by its place, if there is a
            journal.
        reached: How many environments a call has reached.
        returned: In how many of these it has returned; in the last it may have raised.
        looked: Whether a call is known to have changed nothing.
        failure: What was raised instead, and its traceback. The states are then of all, and the
            result of `apply` is the logs of what was done until then.
        written: All that was written into buffers, where these are not shared.
    """

    result: Any = None
    infos: Sequence[Info | None] | None = None
    objects: list[Any] | None = None
    finals: Sequence[tuple[int, Any, Info]] = ()
    states: Mapping[int, Any] = {}
    reached: int = 0
    returned: int = 0
    looked: bool = False
    failure: tuple[BaseException, str] | None = None
    written: bytes | None = None
