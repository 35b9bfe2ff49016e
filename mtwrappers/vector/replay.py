"""What was done with environments since their last resets, from which their state follows."""

from __future__ import annotations

import copy
import functools
import importlib
import itertools
import marshal
import reprlib
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_callable
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.state import env_state as layers
from mtwrappers.vector.saved import check_saved, count_steps

# ("reset", seed, options), ("step", action), ("call", name, args, kwargs); in the place of "call"
# stands "tried" if it has raised, and "cut" if Ctrl-C has ended it.
Entry = tuple[Any, ...]
Function = TypeVar("Function", bound=Callable[..., Any])

# Calls that change nothing, and may cost much.
READ_ONLY_CALLS = frozenset(
    {
        "exact_task_state",
        "render",
        "has_wrapper_attr",
        "get_wrapper_attr",
        "get_task",
        "get_task_obs",
        "get_task_state",
        "get_checkpoint",
        "get_state",
    }
)
# Of these calls the last of several in a row undoes the others.
_SETTERS = frozenset({"set_task", "set_task_state", "set_wrapper_attr"})
# Functions of an environment that are called by a name, as its methods are.
_NAMED_FUNCTIONS = {"set_statistics_updates": layers.set_statistics_updates}
_ENTRY_BYTES = 200  # about what an entry takes that is no step
_NOTES = 256  # how many notes a journal adds to its logs together


def read_only(function: Function) -> Function:
    """Marks a function or method that changes nothing of an environment it is called with.

    An executor that keeps a journal need not call it again to bring a new environment to where
    another one was.
    """
    function.read_only = True  # type: ignore[attr-defined]
    return function


class ActionRun:
    """The actions of steps in a row, all of one dtype and shape."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        self._data = bytearray()

    def extend(self, actions: NDArray[Any]) -> None:
        """Adds actions ``(T, ...)``."""
        self._data += actions.tobytes()

    def array(self) -> NDArray[Any]:
        """All of them, ``(T, ...)``."""
        return np.array(np.frombuffer(self._data, self.dtype).reshape(-1, *self.shape))


class ReplayLog:
    """All that it takes to bring a new environment to where another one was.

    Attributes:
        calls: What it was called with before its last reset, in order.
        state: What it was just before that reset (see `mtwrappers.state.env_state`); None before
            the first.
        entries: That reset, and what was done since: entries, and runs of actions.
        digest: Of all that it has shown since that reset; see `fingerprint`.
        nbytes: About how much memory the entries take.
    """

    def __init__(self) -> None:
        self.calls: list[Entry] = []
        self.state: Any = None
        self.entries: list[Entry | ActionRun] = []
        self.digest = 0
        self.nbytes = 0

    def begin(self, state: Any) -> None:
        """Forgets the episode, but for what the environment was called with."""
        for entry in self.entries:
            if isinstance(entry, tuple) and entry[0] not in ("reset", "step"):
                self._add_call(self.calls, entry)
        self.state, self.entries, self.digest = state, [], 0
        self.nbytes = _ENTRY_BYTES * len(self.calls)

    def add(self, entry: Entry) -> None:
        """Notes what was done with the environment."""
        if entry[0] == "step" and isinstance(action := entry[1], (np.ndarray, np.generic)):
            self.add_steps(np.asarray(action)[None])
            return
        self.nbytes += _ENTRY_BYTES
        self._add_call(self.entries, entry)

    def add_steps(self, actions: NDArray[Any]) -> None:
        """Notes steps with these actions, ``(T, ...)``."""
        run = self.entries[-1] if self.entries else None
        kind = actions.dtype, actions.shape[1:]
        if not isinstance(run, ActionRun) or (run.dtype, run.shape) != kind:
            run = ActionRun(*kind)
            self.entries.append(run)
        run.extend(actions)
        self.nbytes += actions.nbytes

    def _add_call(self, entries: list[Any], entry: Entry) -> None:
        """Adds an entry, in the place of a neighbour that it undoes.

        Only of a neighbour: what was called in between may depend on what was set before.
        """
        if entries and (what := _setter(entry)) is not None and _setter(entries[-1]) == what:
            entries.pop()
            self.nbytes -= _ENTRY_BYTES
        entries.append(entry)

    def steps(self) -> Iterable[Entry]:
        """What was done since its last reset, one by one."""
        for entry in self.entries:
            if isinstance(entry, ActionRun):
                for action in entry.array():
                    yield ("step", action)
            else:
                # An environment may keep what it is given, and change it.
                yield copy.deepcopy(entry)

    def to_state(self, of: str) -> dict[str, Any]:
        """This as plain values, for a file.

        Raises:
            TypeError: If the environment ``of`` was called with what a file may not hold.
        """
        entries = [
            ["steps", entry.array()] if isinstance(entry, ActionRun) else [*copy.deepcopy(entry)]
            for entry in self.entries
        ]
        calls = [[*call] for call in copy.deepcopy(self.calls)]
        check_saved(calls, entries, of)
        state, digest = copy.deepcopy(self.state), np.uint64(self.digest)
        return {"calls": calls, "state": state, "entries": entries, "digest": digest}

    @staticmethod
    def count_steps(state: Mapping[str, Any], of: str) -> float:
        """How many steps it takes to replay what `to_state` made plain values of.

        Raises:
            ValueError: If it is anything else.
        """
        try:
            return count_steps(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as exc:
            raise ValueError(f"expected the log of {of}, got another thing: {exc}") from exc

    @classmethod
    def from_state(cls, state: Mapping[str, Any], of: str) -> ReplayLog:
        """What `to_state` made plain values of.

        Raises:
            ValueError: If it is anything else.
        """
        log = cls()
        try:
            calls, entries = state["calls"], state["entries"]
            log.state, log.digest = copy.deepcopy(state["state"]), int(state["digest"])
            check_saved(calls, entries, of)
            log.calls = [tuple(copy.deepcopy(call)) for call in calls]
            for what, *given in entries:
                if what == "steps":
                    log.add_steps(given[0])
                else:
                    log.entries.append((what, *copy.deepcopy(given)))
        except (KeyError, TypeError, ValueError, OverflowError) as exc:
            raise ValueError(f"expected the log of {of}, got another thing: {exc}") from exc
        return log


class StepEntries:
    """The entries of a step, one for each environment: None for those that rest."""

    def __init__(self, actions: Sequence[Any] | NDArray[Any], resting: Sequence[bool]) -> None:
        self._actions, self._resting = actions, resting

    def __getitem__(self, rows: slice) -> StepEntries:
        return StepEntries(self._actions[rows], self._resting[rows])

    def __iter__(self) -> Iterator[Entry | None]:
        for action, rests in zip(self._actions, self._resting, strict=True):
            yield None if rests else ("step", action)

    def array(self) -> NDArray[Any] | None:
        """The actions ``(N, ...)``, if they are an array and no environment rests."""
        if isinstance(self._actions, np.ndarray) and not any(self._resting):
            return self._actions
        return None


class _Note(NamedTuple):
    """What a journal is given by `Journal.note`."""

    rows: slice
    entries: Sequence[Entry | None] | StepEntries
    states: Mapping[int, Any]
    digests: list[int]
    autoreset: bool

    def steps(self) -> NDArray[Any] | None:
        """The actions of a step, ``(n, ...)``, if it was one of all environments and no reset."""
        entries = self.entries
        return entries.array() if isinstance(entries, StepEntries) and not self.states else None


class Journal:
    """The `ReplayLog` of each environment of an executor.

    Args:
        logs: One per environment.
        warn_bytes: How much memory they may take, about, before a warning says so.
    """

    def __init__(self, logs: Sequence[ReplayLog], warn_bytes: float) -> None:
        self._logs = [*logs]
        self._warn_bytes = warn_bytes
        # Notes that are not in the logs yet: to add many together takes less than one at a time.
        self._notes: list[_Note] = []
        self._interrupts = HeldInterrupts()

    @property
    def logs(self) -> list[ReplayLog]:
        """The log of each environment."""
        self._settle()
        return self._logs

    def note(
        self,
        rows: slice,
        entries: Sequence[Entry | None] | StepEntries,
        states: Mapping[int, Any],
        digests: NDArray[np.uint64],
        autoreset: bool,
    ) -> None:
        """Notes what was done with the environments ``rows``, and what they have shown.

        Args:
            rows: Which of all environments.
            entries: What was done with each of them.
            states: What those that were reset were just before, by their place in ``rows``.
            digests: Of what each has shown.
            autoreset: Whether environments that were reset did so by themselves.
        """
        self._notes.append(_Note(rows, entries, states, digests.tolist(), autoreset))
        if len(self._notes) == _NOTES:
            self._settle()

    def begin(self, rows: slice, states: Sequence[Any]) -> None:
        """Notes that the environments ``rows`` are to be reset, and what they are before that."""
        for log, state in zip(self.logs[rows], states, strict=True):
            log.begin(state)

    def take(self, rows: slice, logs: Sequence[ReplayLog]) -> None:
        """Goes on from the logs of the environments ``rows``, which they have played."""
        self.logs[rows] = logs

    def _settle(self) -> None:
        """Adds what was noted to the logs."""
        if not self._notes:
            return
        with self._interrupts:
            # Notes of different environments do not depend on their order.
            self._notes.sort(key=lambda note: note.rows.start)
            for (_, kind), notes in itertools.groupby(self._notes, key=_place_and_kind):
                if kind is None:
                    for note in notes:
                        self._settle_one(note)
                else:
                    self._settle_steps([*notes])
            self._notes.clear()
        size = sum(log.nbytes for log in self._logs)
        if size > self._warn_bytes:
            self._warn_bytes = 2 * size
            gymnasium.logger.warn(
                f"the journal of {len(self._logs)} environments has grown to {size / 1e6:,.0f} MB, "
                "because their episodes are long or many calls were made: it is kept until they "
                "are reset (journal_warn_bytes= sets when this is said)"
            )

    def _settle_one(self, note: _Note) -> None:
        of_each = zip(self._logs[note.rows], note.entries, note.digests, strict=True)
        for i, (log, entry, digest) in enumerate(of_each):
            if i in note.states:
                log.begin(note.states[i])
                if note.autoreset:
                    entry = ("reset", None, None)
            if entry is not None:
                log.add(entry)
            log.digest = digest

    def _settle_steps(self, notes: Sequence[_Note]) -> None:
        """Adds steps of the same environments, all at once."""
        actions = np.stack(
            [array for note in notes if (array := note.steps()) is not None], axis=1
        )  # (n, T, ...)
        logs = self._logs[notes[0].rows]
        for log, of_one, digest in zip(logs, actions, notes[-1].digests, strict=True):
            log.add_steps(of_one)
            log.digest = digest


def _place_and_kind(note: _Note) -> tuple[int, str | None]:
    """The first environment of a note, and the dtype of actions that can be added at once."""
    actions = note.steps()
    return note.rows.start, None if actions is None else actions.dtype.str


def fingerprint(before: int, *shown: Any) -> int:
    """A hash of what an environment has shown until now and of what it shows next.

    Of observations, rewards and flags, and of numbers, strings and arrays in infos, every bit
    counts. Other objects do not, nor does the wall-clock time of an episode that Gymnasium's
    ``RecordEpisodeStatistics`` reports.
    """
    if shown and isinstance(info := shown[-1], dict) and isinstance(info.get("episode"), dict):
        episode = {key: value for key, value in info["episode"].items() if key != "t"}
        shown = (*shown[:-1], {**info, "episode": episode})
    try:
        # Version 2, because in later ones the bytes depend on what objects are shared.
        data = marshal.dumps((before, shown), 2)
    except ValueError:
        data = marshal.dumps((before, _plain(shown)), 2)
    # Nobody forges an environment, so that a checksum will do, which is several times as fast.
    return zlib.crc32(data)


def _plain(value: Any) -> Any:
    """What of a value `marshal` knows."""
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        return value.tobytes()
    if isinstance(value, dict):
        return [(str(key), _plain(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return None


def call_entry(
    name: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Entry | None:
    """What a journal notes of a call; ``None`` if it changes nothing.

    Raises:
        TypeError: If it could not be made again.
    """
    if name in READ_ONLY_CALLS or getattr(name, "read_only", False):
        return None
    if not isinstance(name, str) and not _is_importable(name):
        raise TypeError(
            f"an executor that keeps a journal must be able to make a call again, and {name!r} "
            "cannot be distinguished from others: pass the name of a method, or a function that "
            "can be imported, or mark one that changes nothing with "
            "mtwrappers.vector.replay.read_only"
        )
    try:
        return "call", name, copy.deepcopy(args), copy.deepcopy(kwargs)
    except Exception as exc:  # any class may refuse to be copied in any way
        raise TypeError(
            "an executor that keeps a journal must be able to make a call again, and the "
            f"arguments of {name!r} cannot be copied: {exc}"
        ) from exc


def find_call(
    env: gymnasium.Env[Any, Any],
    name: str | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[[], Any], bool]:
    """Finds what a call is to call: a function of an environment, or its method or attribute.

    Returns:
        What calls it, or reads the attribute; and whether that may change the environment.
    """
    if not isinstance(name, str):
        function = check_callable(name, "a name that is no string")
        changes = not getattr(function, "read_only", False)
        return functools.partial(function, env, *args, **kwargs), changes
    if name in _NAMED_FUNCTIONS:
        return functools.partial(_NAMED_FUNCTIONS[name], env, *args, **kwargs), True
    value = env.get_wrapper_attr(name)
    if not callable(value):
        return lambda: value, False
    changes = name not in READ_ONLY_CALLS and not getattr(value, "read_only", False)
    return functools.partial(value, *args, **kwargs), changes


def call_again(env: gymnasium.Env[Any, Any], call: Entry) -> None:
    """Makes a call of a log again.

    Raises:
        NotDeterministicError: If it had worked and now raises, or the other way round.
    """
    what, name, args, kwargs = call
    given = [reprlib.repr(value) for value in args]
    given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
    said = f"the call {name if isinstance(name, str) else repr(name)}({', '.join(given)})"
    try:
        do, _ = find_call(env, name, copy.deepcopy(args), copy.deepcopy(kwargs))
        do()
    except Exception as exc:
        if what == "call":
            raise NotDeterministicError(
                f"{said} had worked, and raises when it is made again in a new environment: "
                f"{type(exc).__name__}: {exc}"
            ) from exc
    else:
        if what == "tried":
            raise NotDeterministicError(
                f"{said} had raised, and does not when it is made again in a new environment"
            )


def require_same(log: ReplayLog, digest: int) -> None:
    """Raises `NotDeterministicError` if a replay has not shown what the environment had shown."""
    if digest != log.digest:
        steps = sum(1 for entry in log.steps() if entry[0] == "step")
        raise NotDeterministicError(
            "this environment is not deterministic: from the state of its last reset, and used in "
            f"the same way ({steps} steps), it does not show the same observations, rewards, ends "
            "and infos; all that it draws must come from np_random, and all else that it keeps "
            "from one episode to the next must be in its get_state() and set_state()"
        )


def _setter(entry: Any) -> tuple[Any, ...] | None:
    """What a call sets, if that undoes what an earlier one has set."""
    if not isinstance(entry, tuple) or entry[0] != "call" or entry[1] not in _SETTERS:
        return None
    return (entry[1], entry[2][0]) if entry[1] == "set_wrapper_attr" and entry[2] else entry[1:2]


def _is_importable(function: Any) -> bool:
    """Whether a function is found again by its module and name."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return False
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function
