"""The journal: what was done with each environment since its last reset."""

from __future__ import annotations

import copy
import itertools
import marshal
import reprlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.vector.calls import Call

_PACK_AFTER = 1024  # the number of entries after which the actions among them become one array


@dataclass(eq=False, slots=True)
class ResetEntry:
    """A reset of an environment with these arguments."""

    seed: int | None = None
    options: dict[str, Any] | None = None


@dataclass(eq=False, slots=True)
class StepEntry:
    """A step of an environment with this action."""

    action: Any


@dataclass(eq=False, slots=True)
class StepsEntry:
    """Consecutive steps of an environment; ``actions`` is ``(T, ...)``."""

    actions: NDArray[Any]


Entry: TypeAlias = ResetEntry | StepEntry | StepsEntry | Call


@dataclass(eq=False, slots=True)
class ReplayLog:
    """All data that is needed to bring a new environment to the state of another one.

    A log does not change: each method returns a new one. So a command is recorded in the logs of
    many environments by one assignment, which an interrupt cannot divide.

    Attributes:
        state: The state just before the last reset (see `mtwrappers.state.env_state`); None before
            the first.
        task: The call that has set the task of an environment without a state of its own.
        lost_call: The first other call, before the last reset, that has changed what no state has.
            An environment that was called so cannot be restored.
        digest: A hash of all that the environment has returned since its last reset; see
            `fingerprint`.
    """

    state: Any = None
    task: Call | None = None
    lost_call: Call | None = None
    digest: int = 0
    # A log and its successors share a list, of which each reads its own length.
    _entries: list[Entry] = field(default_factory=list)
    _length: int = 0
    _pack_at: int = _PACK_AFTER  # the length from which actions become one array

    @property
    def entries(self) -> list[Entry]:
        """The last reset and everything since."""
        return self._entries[: self._length]

    @property
    def calls(self) -> list[Call]:
        """The calls since the last reset."""
        return [entry for entry in self.entries if isinstance(entry, Call)]

    def __reduce__(self) -> tuple[Any, ...]:
        entries = self.entries
        arguments = (self.state, self.task, self.lost_call, self.digest, entries, len(entries))
        return ReplayLog, (*arguments, self._pack_at)

    # Logs of what was done next.

    def with_state(self, state: Any) -> ReplayLog:
        """The log of an environment that is to be reset, and has this state."""
        task, lost_call = self.task, self.lost_call
        for call in self.calls:
            if not call.without_state:
                continue
            if call.is_task_setter and not call.raised:
                task = call
                if lost_call is not None and lost_call.is_task_setter:
                    lost_call = None  # one that raised, whose task was replaced
            else:
                lost_call = lost_call or call
        return ReplayLog(state, task, lost_call)

    def with_reset(self, state: Any, entry: ResetEntry, digest: int) -> ReplayLog:
        """The log after a reset of the environment, which had this state."""
        return self.with_state(state)._with_entry(entry, digest)

    def with_step(self, action: Any, digest: int) -> ReplayLog:
        """The log after a step."""
        return self._with_entry(StepEntry(action), digest)

    def with_call(self, call: Call) -> ReplayLog:
        """The log after a call."""
        return self._with_entry(call, self.digest)

    def _with_entry(self, entry: Entry, digest: int) -> ReplayLog:
        entries, length, pack_at = self._entries, self._length, self._pack_at
        if length >= pack_at:
            start = pack_at - _PACK_AFTER
            entries = entries[:start] + _packed(entries[start:length])
            length = len(entries)
            pack_at = length + _PACK_AFTER
        if len(entries) > length:
            del entries[length:]  # of a log that was not used
        entries.append(entry)
        # Positional, because every step makes one for each environment.
        return ReplayLog(
            self.state, self.task, self.lost_call, digest, entries, length + 1, pack_at
        )

    # Replays.

    def unpacked(self) -> Iterator[Entry]:
        """Copies of the entries, with each step on its own."""
        for entry in self.entries:
            if isinstance(entry, StepsEntry):
                for action in entry.actions:
                    yield StepEntry(action.copy())
            else:
                # An environment may keep and change its arguments.
                yield copy.deepcopy(entry)

    def require_restorable(self) -> None:
        """Raises `RuntimeError` if an environment with this log cannot be restored."""
        if self.lost_call is not None:
            raise RuntimeError(
                f"it was called before its last reset, with {self.lost_call}, and what this has "
                f"changed is in no state: {_ADVICE.format(self.lost_call.without_state)}"
            )

    def require_same(self, digest: int) -> None:
        """Raises `NotDeterministicError` if a replay did not return the recorded results."""
        if digest != self.digest:
            steps = sum(isinstance(entry, StepEntry) for entry in self.unpacked())
            raise NotDeterministicError(
                "this environment is not deterministic: from the state of its last reset, and used "
                f"in the same way ({steps} steps), it does not return the same observations, "
                "rewards, ends and infos; all its random draws must come from np_random, and all "
                "else that it keeps from one episode to the next must be in its get_state() and "
                "set_state(); an environment with get_state() of its own must return "
                "self.np_random.bit_generator.state, too"
            )

    # Files.

    def require_savable(self, env_name: str) -> None:
        """Raises `TypeError` if a call has changed what no state has."""
        for call in (self.lost_call, self.task, *self.calls):
            if call is not None and call.without_state:
                raise TypeError(
                    f"{env_name} was called with {call}, and a checkpoint cannot hold what this "
                    f"has changed: {_ADVICE.format(call.without_state)}"
                )

    def to_state(self, env_name: str) -> dict[str, Any]:
        """Returns the log as plain values, for a file, which never holds a call.

        Raises:
            RuntimeError: If the environment was called since its last reset.
        """
        reset, actions = None, []
        for entry in _packed(self.entries):
            if isinstance(entry, StepsEntry):
                actions.append(entry.actions)
            elif isinstance(entry, ResetEntry):
                reset = [entry.seed, copy.deepcopy(entry.options)]
            elif isinstance(entry, StepEntry):
                is_array = isinstance(entry.action, (np.ndarray, np.generic))
                actions.append(_rows(entry) if is_array else copy.deepcopy(entry.action))
            else:
                raise RuntimeError(
                    f"{env_name} was called since its last reset, with {entry}, and a checkpoint "
                    "holds no calls: reset first, then save"
                )
        return {
            "state": copy.deepcopy(self.state),
            "reset": reset,
            "actions": actions,
            "digest": np.uint64(self.digest),
        }

    @classmethod
    def from_state(cls, state: Any, env_name: str) -> ReplayLog:
        """Reverses `to_state`.

        Raises:
            ValueError: If ``state`` is not from `to_state`.
        """
        try:
            log, digest = cls(copy.deepcopy(state["state"])), int(state["digest"])
            reset, actions = state["reset"], state["actions"]
            if reset is None and actions:
                raise ValueError("expected a reset before actions")
            if reset is not None:
                log._entries.append(_checked_reset(*reset))
            for action in actions:
                is_array = isinstance(action, np.ndarray)
                log._entries.append(_checked_steps(action) if is_array else _copied_step(action))
            log._length, log.digest = len(log._entries), digest
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as exc:
            raise ValueError(f"expected the log of {env_name}, got something else: {exc}") from exc
        return log


_ADVICE = (
    "give {} the methods get_state() and set_state(state), or mark a method that changes nothing "
    "with mtwrappers.vector.calls.read_only"
)


def _packed(entries: list[Entry]) -> list[Entry]:
    """The entries, with consecutive steps with arrays of the same form as one entry."""
    packed: list[Entry] = []
    for form, group in itertools.groupby(entries, key=_form):
        if form is None:
            packed += group
        else:
            # With a dtype, because otherwise its byte order would be lost.
            packed.append(StepsEntry(np.concatenate([*map(_rows, group)], dtype=form[0])))
    return packed


def _form(entry: Entry) -> tuple[Any, ...] | None:
    """The dtype and the shape of the actions of steps; None if they are no arrays."""
    # A file cannot say how many steps took no bytes.
    if type(entry) is StepEntry:
        action = entry.action
        if isinstance(action, (np.ndarray, np.generic)) and action.nbytes:
            return action.dtype, action.shape
        return None
    if isinstance(entry, StepsEntry) and entry.actions.nbytes:
        return entry.actions.dtype, entry.actions.shape[1:]
    return None


def _rows(entry: Any) -> NDArray[Any]:
    """The actions of steps with arrays, ``(T, ...)``."""
    return entry.actions if isinstance(entry, StepsEntry) else np.asarray(entry.action)[None]


def fingerprint(before: int, *returned: Any) -> int:
    """Extends a hash of all that an environment has returned by its next result.

    It covers every bit of observations, rewards and flags, and of numbers, strings and arrays in
    infos, but not other objects, and not the wall-clock time of an episode that Gymnasium's
    ``RecordEpisodeStatistics`` reports.

    Args:
        before: The hash so far.
        *returned: An observation, other values, and an info.
    """
    obs, *values, info = returned
    if type(obs) is not np.ndarray or not _has_plain_bytes(obs):
        obs = _hashable(obs)
    if type(info) is not dict or (info and not _PLAIN_TYPES.issuperset(map(type, info.values()))):
        info = _hashable(_without_clocks(info))
    try:
        # Version 2, because in later ones the bytes depend on which objects are shared.
        data = marshal.dumps((before, obs, values, info), 2)
    except ValueError:  # of an array in strides, or of NumPy's numbers
        data = marshal.dumps((before, _hashable(obs), _hashable(values), _hashable(info)), 2)
    # A checksum is sufficient, because nothing here is adversarial, and several times as fast.
    return zlib.crc32(data)


def hash_value(value: Any) -> int:
    """A hash of the numbers, strings and arrays in a value, as `fingerprint` reads them."""
    return zlib.crc32(marshal.dumps(_hashable(value), 2))


# The types of values in infos whose bytes `marshal` reads.
_PLAIN_TYPES = {type(None), bool, int, float, str, bytes, np.float64, np.float32, np.int64}
# The dtypes of plain bytes, by their characters: not objects, and not long doubles, which have 6
# bytes that mean nothing.
_PLAIN_DTYPES = frozenset("?bBhHiIlLqQefdFDmMSU")


def _has_plain_bytes(value: Any) -> bool:
    """Whether equal values have equal bytes: not pointers, and no bytes that mean nothing."""
    return value.dtype.char in _PLAIN_DTYPES


def _without_clocks(info: Any) -> Any:
    """An info without the wall-clock time in the statistics of an episode, under any key."""
    if not isinstance(info, dict):
        return info
    return {
        key: {name: item for name, item in value.items() if name != "t"}
        if isinstance(value, dict) and {"r", "t"} <= value.keys()
        else value
        for key, value in info.items()
    }


def _hashable(value: Any) -> Any:
    """The part of a value that `marshal` can encode."""
    if isinstance(value, (np.ndarray, np.generic)):
        if _has_plain_bytes(value):
            return value.tobytes()
        if value.dtype.hasobject:
            return [value.shape, [_hashable(item) for item in value.ravel().tolist()]]
        return [value.shape, [repr(item) for item in value.ravel().tolist()]]
    if isinstance(value, dict):
        return [(str(key), _hashable(item)) for key, item in value.items()]
    if isinstance(value, (list, tuple)):
        return [_hashable(item) for item in value]
    if isinstance(value, (bool, int, float, str, bytes)):
        return repr(value)
    return None


def _checked_reset(seed: Any, options: Any) -> ResetEntry:
    if not (seed is None or isinstance(seed, (int, np.integer))):
        raise TypeError(f"expected a seed, got {seed!r}")
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"expected options of a reset, got {options!r}")
    return ResetEntry(None if seed is None else int(seed), copy.deepcopy(options))


def _checked_steps(actions: NDArray[Any]) -> StepsEntry:
    # No end of steps in no bytes.
    if not actions.ndim or (len(actions) > 1 and not actions.nbytes):
        raise TypeError(f"expected an array of actions, got {reprlib.repr(actions)}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError("expected actions that are numbers, got NaN")
    return StepsEntry(actions.copy())


def _copied_step(action: Any) -> StepEntry:
    return StepEntry(copy.deepcopy(action))
