"""Commands to blocks, calls of environments, and the journal of both since the last resets."""

from __future__ import annotations

import copy
import functools
import importlib
import marshal
import reprlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_callable
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.state import env_state as layers
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


Function = TypeVar("Function", bound=Callable[..., Any])
# Calls that change nothing, so that they need not be replayed.
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
# If one of these is called several times in a row, only the last call matters.
_SETTERS = frozenset({"set_task", "set_task_state", "set_wrapper_attr"})
# Functions of an environment that are called by name, like its methods.
_NAMED_FUNCTIONS = {"set_statistics_updates": layers.set_statistics_updates}


def read_only(function: Function) -> Function:
    """Marks a function or method that does not change the environment that it is called with.

    An executor that keeps a journal does not replay calls of it.

    >>> from mtwrappers import as_vector
    >>> from mtwrappers.vector.journal import read_only
    >>> angle = read_only(lambda env: float(env.unwrapped.state[0]))
    >>> envs = as_vector("Pendulum-v1", 2, journal=True)
    >>> obs, infos = envs.reset(seed=0)
    >>> [round(one, 2) for one in envs.call(angle)]
    [0.86, 0.07]
    >>> envs.close()
    """
    function.read_only = True  # type: ignore[attr-defined]
    return function


def call_entry(
    name: str | Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Entry | None:
    """The entry of a journal for a call; ``None`` if it changes nothing.

    Raises:
        TypeError: If the call could not be replayed.
    """
    if name in READ_ONLY_CALLS or getattr(name, "read_only", False):
        return None
    if not isinstance(name, str) and not _is_importable(name):
        raise TypeError(
            f"an executor that keeps a journal must be able to replay a call, and {name!r} cannot "
            "be imported by its name: pass the name of a method, or a function that "
            "can be imported, or mark one that changes nothing with "
            "mtwrappers.vector.journal.read_only"
        )
    try:
        return "call", name, copy.deepcopy(args), copy.deepcopy(kwargs)
    except Exception as exc:  # any class may refuse to be copied in any way
        raise TypeError(
            "an executor that keeps a journal must be able to replay a call, and the "
            f"arguments of {name!r} cannot be copied: {exc}"
        ) from exc


def find_call(
    env: gymnasium.Env[Any, Any],
    name: str | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[[], Any], bool]:
    """Finds the target of a call: a function, or a method or attribute of the environment.

    Returns:
        A callable that makes the call, or reads the attribute; and whether it may change the
        environment.
    """
    if not isinstance(name, str):
        function = check_callable(name, "a name that is not a string")
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
    """Replays a call of a log.

    Raises:
        NotDeterministicError: If it succeeded before and now raises, or the other way round.
    """
    what, name, args, kwargs = call
    said = f"the call {describe_call(call)}"
    try:
        do, _ = find_call(env, name, copy.deepcopy(args), copy.deepcopy(kwargs))
        do()
    except Exception as exc:
        if what == "call":
            raise NotDeterministicError(
                f"{said} succeeded, and raises when it is replayed in a new environment: "
                f"{type(exc).__name__}: {exc}"
            ) from exc
    else:
        if what == "tried":
            raise NotDeterministicError(
                f"{said} raised, and does not when it is replayed in a new environment"
            )


def describe_call(call: Entry) -> str:
    """A call as it is written in Python, with long arguments shortened."""
    _, name, args, kwargs = call
    given = [reprlib.repr(value) for value in args]
    given += [f"{key}={reprlib.repr(value)}" for key, value in kwargs.items()]
    return f"{name if isinstance(name, str) else repr(name)}({', '.join(given)})"


def target_of(call: Entry) -> str | None:
    """The name of the method or attribute in a call, ``""`` for a function of an environment.

    It is ``None`` for a function that changes only what has a state.
    """
    _, name, args, kwargs = call
    if name == "set_wrapper_attr":
        name = args[0] if args else kwargs.get("name")
    if name in _NAMED_FUNCTIONS:
        return None
    return name if isinstance(name, str) else ""


def undoes(entry: Entry, before: Any) -> bool:
    """Whether a call overrides the call just before it."""
    what = _set_by(entry)
    return what is not None and _set_by(before) == what


def _set_by(entry: Any) -> tuple[Any, ...] | None:
    if not isinstance(entry, tuple) or entry[0] != "call" or entry[1] not in _SETTERS:
        return None
    return (entry[1], entry[2][0]) if entry[1] == "set_wrapper_attr" and entry[2] else entry[1:2]


def _is_importable(function: Any) -> bool:
    """Whether a function can be imported by its module and name."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return False
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


_ENTRY_BYTES = 200  # the approximate size of an entry other than a step
_WARN_BYTES = 1e9  # the size of a journal at which a warning is issued
_LOOK = 256  # the number of notes between two checks of the size


class ActionRun:
    """The actions of consecutive steps, all of the same dtype and shape."""

    def __init__(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
        self.dtype, self.shape = dtype, shape
        self._data = bytearray()

    def extend(self, actions: NDArray[Any] | np.generic) -> None:
        """Adds an action, or several of them, ``(T, ...)``."""
        self._data += actions.tobytes()

    def array(self) -> NDArray[Any]:
        """All actions, ``(T, ...)``."""
        return np.array(np.frombuffer(self._data, self.dtype).reshape(-1, *self.shape))


class ReplayLog:
    """All data that is needed to bring a new environment to the state of another one.

    Args:
        state: The state from which it begins.

    Attributes:
        calls: The calls before its last reset, in order. They are never part of a file, but what
            they have changed may be in no state, and has to be changed again in a new environment.
        state: The state just before that reset (see `mtwrappers.state.env_state`); None before the
            first.
        entries: That reset and everything since: entries, and runs of actions.
        digest: A hash of all that it has returned since that reset; see `fingerprint`.
        nbytes: The approximate size of the entries.
    """

    def __init__(self, state: Any = None) -> None:
        self.calls: list[Entry] = []
        self.state = state
        self.entries: list[Entry | ActionRun] = []
        self.digest = 0
        self.nbytes = 0

    def begin(self, state: Any) -> None:
        """Begins a new episode: drops the old one, except for its calls."""
        for entry in self.entries:
            if isinstance(entry, tuple) and entry[0] not in ("reset", "step"):
                self._add_call(self.calls, entry)
        self.state, self.entries, self.digest = state, [], 0
        self.nbytes = _ENTRY_BYTES * len(self.calls)

    def add(self, entry: Entry) -> None:
        """Records an entry."""
        if entry[0] == "step" and isinstance(action := entry[1], (np.ndarray, np.generic)):
            self._run_of(action.dtype, action.shape).extend(action)
            self.nbytes += action.nbytes
            return
        self.nbytes += _ENTRY_BYTES
        self._add_call(self.entries, entry)

    def _add_steps(self, actions: NDArray[Any]) -> None:
        """Records steps with actions from a file, ``(T, ...)``."""
        if not actions.ndim or (len(actions) and not actions.nbytes):  # no end of steps in no bytes
            raise TypeError(f"expected an array of actions, got {reprlib.repr(actions)}")
        if actions.dtype.kind == "f" and np.isnan(actions).any():
            raise ValueError("expected actions that are numbers, got NaN")
        self._run_of(actions.dtype, actions.shape[1:]).extend(actions)
        self.nbytes += actions.nbytes

    def _run_of(self, dtype: np.dtype[Any], shape: tuple[int, ...]) -> ActionRun:
        """The run for an action of this dtype and shape."""
        run = self.entries[-1] if self.entries else None
        if not isinstance(run, ActionRun) or (run.dtype, run.shape) != (dtype, shape):
            run = ActionRun(dtype, shape)
            self.entries.append(run)
        return run

    def _add_call(self, entries: list[Any], entry: Entry) -> None:
        """Adds an entry, which replaces the previous entry if it overrides it.

        It replaces only the previous one, because calls in between may depend on an earlier one.
        """
        if entries and undoes(entry, entries[-1]):
            entries.pop()
            self.nbytes -= _ENTRY_BYTES
        entries.append(entry)

    def steps(self) -> Iterable[Entry]:
        """The entries since its last reset, one by one."""
        for entry in self.entries:
            if isinstance(entry, ActionRun):
                for action in entry.array():
                    yield ("step", action)
            else:
                # A copy, because an environment may keep and change its arguments.
                yield copy.deepcopy(entry)

    def targets(self) -> list[str]:
        """The name of each method or attribute in a call, or ``""`` for a function."""
        made = [*self.calls, *(entry for entry in self.entries if isinstance(entry, tuple))]
        targets = [target_of(one) for one in made if one[0] not in ("reset", "step")]
        return [one for one in dict.fromkeys(targets) if one is not None]

    def to_state(self, of: str) -> dict[str, Any]:
        """Returns the log as plain values, for a file, which never holds a call.

        Raises:
            RuntimeError: If the environment ``of`` was called since its last reset.
        """
        reset, actions = None, []
        for entry in self.entries:
            if isinstance(entry, ActionRun):
                actions.append(entry.array())
            elif entry[0] == "reset":
                reset = [entry[1], copy.deepcopy(entry[2])]
            elif entry[0] == "step":
                actions.append(copy.deepcopy(entry[1]))
            else:
                raise RuntimeError(
                    f"{of} was called since its last reset, with {describe_call(entry)}, and a "
                    "checkpoint holds no calls: reset first, then save"
                )
        return {
            "state": copy.deepcopy(self.state),
            "reset": reset,
            "actions": actions,
            "digest": np.uint64(self.digest),
        }

    @classmethod
    def from_state(cls, state: Any, of: str) -> ReplayLog:
        """Reverses `to_state`.

        Raises:
            TypeError, ValueError: If ``state`` is not from `to_state`.
        """
        log = cls()
        try:
            log.state, log.digest = copy.deepcopy(state["state"]), int(state["digest"])
            reset, actions = state["reset"], state["actions"]
            if reset is None and actions:
                raise ValueError("expected a reset before actions")
            if reset is not None:
                log.add(("reset", *_checked_reset(*reset)))
            for each in actions:
                if isinstance(each, np.ndarray):
                    log._add_steps(each)
                else:
                    log.add(("step", copy.deepcopy(each)))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as exc:
            raise ValueError(f"expected the log of {of}, got something else: {exc}") from exc
        return log


class Journal:
    """The `ReplayLog` of each environment of an executor, in ``logs``.

    Callers of its methods must delay Ctrl-C, so that no note is interrupted.

    Args:
        logs: One log per environment.
        digests: Hashes of each environment's results; see `mtwrappers.vector.buffers.Buffers`.
    """

    def __init__(self, logs: Sequence[ReplayLog], digests: NDArray[np.uint64]) -> None:
        self.logs, self._digests = [*logs], digests
        self._warn_bytes = _WARN_BYTES
        self._notes = 0  # the number of notes so far

    def note(self, command: Command, rows: slice, answer: Answer) -> None:
        """Records a command of the environments ``rows``, as soon as their block answers."""
        entries = command.entries
        if entries is None:
            return
        if command.name == "call":
            called = zip(answer.made, entries[rows], strict=False)
            made = [
                None if what is None or one is None else (what, *one[1:]) for what, one in called
            ]
            if any(made):
                self._add(slice(rows.start, rows.start + len(made)), made, {}, False)
        elif answer.failure is not None:
            if answer.result is not None:  # the calls that a function made before it raised
                self.take(rows, answer.result)
            self.begin(rows, [answer.states[i] for i in range(rows.stop - rows.start)])
        elif command.name == "apply":
            *_, logs = answer.result
            self.take(rows, logs)
        else:
            self._add(rows, entries[rows], answer.states, command.name == "step")

    def _add(
        self,
        rows: slice,
        entries: Sequence[Entry | None],
        states: Mapping[int, Any],
        autoreset: bool,
    ) -> None:
        """Adds a note to the logs.

        Args:
            rows: The rows of the environments.
            entries: The entry of each environment.
            states: The states of environments just before a reset, by their place in ``rows``.
            autoreset: Whether these resets were autoresets.
        """
        of_each = zip(self.logs[rows], entries, self._digests[rows].tolist(), strict=True)
        for i, (log, entry, digest) in enumerate(of_each):
            if i in states:
                log.begin(states[i])
                if autoreset:
                    entry = ("reset", None, None)
            if entry is not None:
                log.add(entry)
                log.digest = digest
        self._notes += 1
        if self._notes % _LOOK == 0:
            self._warn_if_large()

    def begin(self, rows: slice, states: Sequence[Any]) -> None:
        """Records that the environments ``rows`` must be reset, with their states before that."""
        for log, state in zip(self.logs[rows], states, strict=True):
            log.begin(state)

    def take(self, rows: slice, logs: Sequence[ReplayLog]) -> None:
        """Replaces the logs of the environments ``rows``."""
        self.logs[rows] = logs

    def _warn_if_large(self) -> None:
        size = sum(log.nbytes for log in self.logs)
        if size > self._warn_bytes:
            self._warn_bytes = 2 * size
            gymnasium.logger.warn(
                f"the journal of {len(self.logs)} environments has grown to {size / 1e6:,.0f} MB, "
                "because their episodes are long or many calls were made: it is kept until they "
                "are reset"
            )


class Replayed(NamedTuple):
    """The result of a replay: an environment's last observation and info, and so on."""

    obs: Any = None
    info: Any = None
    elapsed: int = 0  # steps of the episode
    task_name: Any = None
    finished: bool = False
    digest: int = 0


def replay(
    env: gymnasium.Env[Any, Any],
    log: ReplayLog,
    limit: int,
    beat: Callable[[], object],
) -> Replayed:
    """Replays a log in a new environment.

    Args:
        env: The new environment.
        log: The log of the other one.
        limit: The number of steps that truncates an episode.
        beat: Called before each entry.

    Raises:
        ValueError: If the log is of an environment with other arguments.
        NotDeterministicError: If a call succeeded before and now raises, or the other way round.
    """
    at = Replayed(info={})
    if log.state is not None:
        layers.require_identity(env, log.state)  # before calls, which other environments may refuse
        for call in log.calls:
            call_again(env, call)
        layers.set_state(env, log.state)
    for entry in log.steps():
        beat()
        what, *given = entry
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


def fingerprint(before: int, *returned: Any) -> int:
    """Extends a hash of all that an environment has returned by its next result.

    It covers every bit of observations, rewards and flags, and of numbers, strings and arrays in
    infos, but not other objects, and not the wall-clock time of an episode that Gymnasium's
    ``RecordEpisodeStatistics`` reports.
    """
    if (
        returned
        and isinstance(info := returned[-1], dict)
        and isinstance(info.get("episode"), dict)
    ):
        episode = {key: value for key, value in info["episode"].items() if key != "t"}
        returned = (*returned[:-1], {**info, "episode": episode})
    try:
        # Version 2, because in later ones the bytes depend on which objects are shared.
        data = marshal.dumps((before, returned), 2)
    except ValueError:
        data = marshal.dumps((before, _plain(returned)), 2)
    # A checksum is sufficient, because nothing here is adversarial, and several times as fast.
    return zlib.crc32(data)


def _plain(value: Any) -> Any:
    """The part of a value that `marshal` can encode."""
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
    """Raises `NotDeterministicError` if a replay did not return the recorded results."""
    if digest != log.digest:
        steps = sum(1 for entry in log.steps() if entry[0] == "step")
        raise NotDeterministicError(
            "this environment is not deterministic: from the state of its last reset, and used in "
            f"the same way ({steps} steps), it does not return the same observations, rewards, "
            "ends and infos; all its random draws must come from np_random, and all else that it "
            "keeps from one episode to the next must be in its get_state() and set_state()"
        )


def _checked_reset(seed: Any, options: Any) -> tuple[Any, Any]:
    if not (seed is None or isinstance(seed, (int, np.integer))):
        raise TypeError(f"expected a seed, got {seed!r}")
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"expected options of a reset, got {options!r}")
    return seed, copy.deepcopy(options)
