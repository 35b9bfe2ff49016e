"""The journal: what was done with environments since their last resets, and its replay."""

from __future__ import annotations

import copy
import itertools
import marshal
import math
import reprlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.common.interrupts import HeldInterrupts
from mtwrappers.state import env_state as layers
from mtwrappers.vector.calls import call_again, check_call, is_number, undoes
from mtwrappers.vector.commands import Answer, Command, Entry, StepEntries

MAX_STEPS = 300_000  # how many steps of environments are replayed unless an argument says more
_STEPS_PER_TASK = 10  # to draw a task may take as long as some steps
_ENTRY_BYTES = 200  # about what an entry takes that is no step
_NOTES = 256  # how many notes a journal adds to its logs together


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
        if entries and undoes(entry, entries[-1]):
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


class _Note(NamedTuple):
    """A note of a journal, as `Journal.note` takes it."""

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
        digests: Of what each environment has shown; see `mtwrappers.vector.buffers.Buffers`.
    """

    def __init__(
        self, logs: Sequence[ReplayLog], warn_bytes: float, digests: NDArray[np.uint64]
    ) -> None:
        self._logs = [*logs]
        self._warn_bytes, self._digests = warn_bytes, digests
        # Notes that are not in the logs yet: to add many together takes less than one at a time.
        self._notes: list[_Note] = []
        self._interrupts = HeldInterrupts()

    @property
    def logs(self) -> list[ReplayLog]:
        """The log of each environment."""
        self._settle()
        return self._logs

    def note(self, command: Command, rows: slice, answer: Answer) -> None:
        """Notes what was done with the environments ``rows``, as soon as their block answers."""
        entries = command.entries
        if entries is None:
            return
        if command.name == "call":
            if not answer.looked:
                self._note_call(entries, rows, answer)
        elif answer.failure is not None:
            if answer.result is not None:  # of calls that a function made before it raised
                self.take(rows, answer.result)
            self.begin(rows, [answer.states[i] for i in range(rows.stop - rows.start)])
        elif command.name == "run":
            *_, logs = answer.result
            self.take(rows, logs)
        else:
            self._add(rows, entries[rows], answer.states, command.name == "step")

    def _note_call(
        self, entries: Sequence[Entry | None] | StepEntries, rows: slice, answer: Answer
    ) -> None:
        """Notes a call of the environments that it has reached."""
        reached = slice(rows.start, rows.start + answer.reached)
        noted = [*entries[reached]]
        if answer.returned < answer.reached and (last := noted[-1]) is not None:
            raised = answer.failure is not None and isinstance(answer.failure[0], Exception)
            noted[-1] = ("tried" if raised else "cut", *last[1:])
        self._add(reached, noted, {}, False)

    def _add(
        self,
        rows: slice,
        entries: Sequence[Entry | None] | StepEntries,
        states: Mapping[int, Any],
        autoreset: bool,
    ) -> None:
        """Adds a note.

        Args:
            rows: Which of all environments.
            entries: What was done with each of them.
            states: The state, just before, of those that were reset, by their place in ``rows``.
            autoreset: Whether environments that were reset did so by themselves.
        """
        self._notes.append(_Note(rows, entries, states, self._digests[rows].tolist(), autoreset))
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


class Replayed(NamedTuple):
    """Where a replay has brought an environment: its last observation and info, and so on."""

    obs: Any = None
    info: Any = None
    elapsed: int = 0  # steps of the episode
    task_name: Any = None
    finished: bool = False
    digest: int = 0


def replay(
    env: gymnasium.Env[Any, Any],
    log: ReplayLog,
    budget: Budget,
    limit: int,
    beat: Callable[[], object],
) -> Replayed:
    """Does with a new environment what was done with another.

    Args:
        env: The new one.
        log: Of the other one.
        budget: Of which the steps are taken.
        limit: The number of steps that truncates an episode.
        beat: Called before each entry.

    Raises:
        ValueError: If the budget is exceeded.
        NotDeterministicError: If a call does not end as it had.
    """
    at, repeat = Replayed(info={}), _repeats(env)
    if log.state is not None:
        for call in log.calls:
            budget.take(cost_of(call[0], call[1:]))
            call_again(env, call)
        layers.set_state(env, log.state)
    for entry in log.steps():
        beat()
        what, *given = entry
        budget.take(repeat if what == "step" else cost_of(what, given))
        if what == "reset":
            obs, info = env.reset(seed=given[0], options=given[1])
            at = Replayed(obs, info, 0, info.get("task_name"), False, fingerprint(0, obs, info))
        elif what == "step":
            obs, reward, terminated, truncated, info = env.step(given[0])
            elapsed = at.elapsed + 1
            flags = bool(terminated), bool(truncated) or elapsed >= limit
            digest = fingerprint(at.digest, obs, float(reward), *flags, info)
            at = Replayed(obs, info, elapsed, at.task_name, any(flags), digest)
        else:
            call_again(env, entry)
    return at


def _repeats(env: gymnasium.Env[Any, Any]) -> int:
    """How many steps `ActionRepeat` makes of one."""
    repeats = 1
    while isinstance(env, gymnasium.Wrapper):
        repeats *= vars(env).get("action_repeat", 1)
        env = env.env
    return repeats


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


def check_saved(calls: Sequence[Any], entries: Sequence[Any], of: str) -> None:
    """Refuses what a file may not hold of an environment, by name.

    Args:
        calls: What it was called with before its last reset.
        entries: That reset, and what was done since; see `ReplayLog`.
        of: Which environment that is.

    Raises:
        TypeError, ValueError: If anything is of another form or kind.
    """
    for what, *given in calls:
        if what in ("reset", "step", "steps"):
            raise ValueError(f"{of}: expected calls before a reset, got {what!r}")
        check_call(what, given, of)
    begun = False
    for place, (what, *given) in enumerate(entries, 1):
        if what not in ("reset", "step", "steps"):
            check_call(what, given, of)
        elif begun == (what == "reset"):
            expected = "expected one reset and then steps"
            raise ValueError(f"{of}: {expected}, got {what!r} as entry {place}")
        elif what == "reset":
            begun = True
            _check_reset(given, of)
        elif what == "steps":
            _check_actions(given, of)


def count_steps(log: Any) -> float:
    """How many steps the log of an environment in a file takes to replay.

    A call counts as one, and ten more for each task that it draws.
    """
    count = 0.0
    for what, *given in (*log["calls"], *log["entries"]):
        count += cost_of(what, given[0] if what == "steps" else given)
    return count


def cost_of(what: str, given: Any) -> float:
    """As how many steps an entry counts."""
    if what == "steps":
        return len(given)
    if what in ("reset", "step") or given[0] != "sample_tasks":
        return 1
    _, args, kwargs = given
    numbers = (*args, *(value for name, value in kwargs.items() if name != "seed"))
    drawn = sum(abs(float(value)) for value in numbers if is_number(value))
    return 1 + _STEPS_PER_TASK * drawn


class Budget:
    """How many steps of environments may still be replayed; ``None`` sets no limit."""

    def __init__(self, max_steps: int | None) -> None:
        self._max = math.inf if max_steps is None else max_steps
        self._taken = 0.0

    def take(self, steps: float) -> None:
        """Counts steps before they are taken.

        Raises:
            ValueError: If there are more of them than may be.
        """
        self._taken += steps
        if not self._taken <= self._max:  # not a number, either
            raise ValueError(
                f"it takes {self._taken:,.0f} steps of environments to replay, and max_steps is "
                f"{self._max:,}"
            )


def _check_reset(given: Sequence[Any], of: str) -> None:
    seed, options = given
    if not (seed is None or isinstance(seed, (int, np.integer))):
        raise TypeError(f"{of}: expected a seed, got {seed!r}")
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"{of}: expected options of a reset, got {options!r}")


def _check_actions(given: Sequence[Any], of: str) -> None:
    (actions,) = given
    if not isinstance(actions, np.ndarray) or not actions.ndim:
        raise TypeError(f"{of}: expected an array of actions, got {reprlib.repr(actions)}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{of}: expected actions that are numbers, got NaN")
