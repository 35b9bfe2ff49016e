"""Calls of environments, and the journal of all that was done since their last resets."""

from __future__ import annotations

import copy
import functools
import importlib
import marshal
import reprlib
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.checks import check_callable
from mtwrappers.common.errors import NotDeterministicError
from mtwrappers.state import env_state as layers
from mtwrappers.vector.buffers import Buffers

# ("reset", seed, options), ("step", action), ("call", name, args, kwargs); "tried" replaces "call"
# if it raised. Consecutive steps with arrays are one entry: ("steps", dtype, shape, their bytes).
Entry = tuple[Any, ...]
_CALLS = ("call", "tried")
# The arguments of a call for each environment; ``None`` leaves an environment out.
EachCall = Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None]


class Answer(NamedTuple):
    """The answer of a block to a command.

    Attributes:
        result: What the command returned.
        notes: What a journal has to know. Of a reset or a step: the states of environments just
            before they were reset, by their place in the block, or of all of them if it raised. Of
            a call: ``"call"``, or ``"tried"`` if it raised, by the place of each environment that
            it may have changed. Of a function of `MetaVectorEnv.map_blocks`: the logs of all.
        failure: The exception that the command raised, and its traceback if it comes from a worker.
    """

    result: Any = None
    notes: Any = None
    failure: tuple[BaseException, str] | None = None


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


def replayable(name: str | Callable[..., Any], each: EachCall) -> EachCall:
    """Copies of the arguments of a call, which a journal keeps.

    Raises:
        TypeError: If the call could not be replayed.
    """
    if name in READ_ONLY_CALLS or getattr(name, "read_only", False):
        return each
    if not isinstance(name, str) and not _is_importable(name):
        raise TypeError(
            f"an executor that keeps a journal must be able to replay a call, and {name!r} cannot "
            "be imported by its name: pass the name of a method, or a function that "
            "can be imported, or mark one that changes nothing with "
            "mtwrappers.vector.journal.read_only"
        )
    try:
        return copy.deepcopy(each)
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
    raised = None
    try:
        do, _ = find_call(env, name, copy.deepcopy(args), copy.deepcopy(kwargs))
        do()
    except Exception as exc:
        raised = exc
    if (raised is None) == (what == "tried"):
        how = "raised, and does not" if raised is None else "succeeded, and raises"
        why = "" if raised is None else f": {type(raised).__name__}: {raised}"
        raise NotDeterministicError(
            f"the call {describe_call(call)} {how} when it is replayed in a new environment{why}"
        ) from raised


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


def _overrides(entry: Entry, before: Entry) -> bool:
    """Whether a call makes the call just before it, of the same setter, have no effect."""
    what, name, args, _ = entry
    if what != "call" or name not in _SETTERS or before[:2] != entry[:2]:
        return False
    return name != "set_wrapper_attr" or bool(args and args[:1] == before[2][:1])


def _is_importable(function: Any) -> bool:
    """Whether a function can be imported by its module and name."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return False
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found is function


class ReplayLog:
    """All data that is needed to bring a new environment to the state of another one.

    Args:
        state: The state from which it begins.

    Attributes:
        calls: The calls before its last reset, in order. They are never part of a file, but what
            they have changed may be in no state, and has to be changed again in a new environment.
        state: The state just before that reset (see `mtwrappers.state.env_state`); None before the
            first.
        entries: That reset and everything since.
        digest: A hash of all that it has returned since that reset; see `fingerprint`.
    """

    def __init__(self, state: Any = None) -> None:
        self.calls: list[Entry] = []
        self.state = state
        self.entries: list[Entry] = []
        self.digest = 0

    def begin(self, state: Any) -> None:
        """Begins a new episode: drops the old one, except for its calls."""
        for entry in self.entries:
            if entry[0] in _CALLS:
                _add_call(self.calls, entry)
        self.state, self.entries, self.digest = state, [], 0

    def add(self, entry: Entry) -> None:
        """Records an entry."""
        if entry[0] == "step" and isinstance(action := entry[1], (np.ndarray, np.generic)):
            self._add_steps(action.dtype, action.shape, action.tobytes())
        elif entry[0] in _CALLS:
            _add_call(self.entries, entry)
        else:
            self.entries.append(entry)

    def _add_steps(self, dtype: np.dtype[Any], shape: tuple[int, ...], data: bytes) -> None:
        form = ("steps", dtype, shape)
        if not self.entries or self.entries[-1][:3] != form:
            self.entries.append((*form, bytearray()))
        self.entries[-1][3].extend(data)

    def steps(self) -> Iterator[Entry]:
        """The entries since its last reset, one by one."""
        for entry in self.entries:
            if entry[0] == "steps":
                for action in _actions(entry):
                    yield ("step", action)
            else:
                # A copy, because an environment may keep and change its arguments.
                yield copy.deepcopy(entry)

    def targets(self) -> list[str]:
        """The name of each method or attribute in a call, or ``""`` for a function."""
        made = [entry for entry in (*self.calls, *self.entries) if entry[0] in _CALLS]
        return [one for one in dict.fromkeys(map(target_of, made)) if one is not None]

    def to_state(self, of: str) -> dict[str, Any]:
        """Returns the log as plain values, for a file, which never holds a call.

        Raises:
            RuntimeError: If the environment ``of`` was called since its last reset.
        """
        reset, actions = None, []
        for entry in self.entries:
            if entry[0] == "steps":
                actions.append(_actions(entry))
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
                    checked = _checked_actions(each)
                    log._add_steps(checked.dtype, checked.shape[1:], checked.tobytes())
                else:
                    log.add(("step", copy.deepcopy(each)))
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as exc:
            raise ValueError(f"expected the log of {of}, got something else: {exc}") from exc
        return log


def _add_call(entries: list[Entry], call: Entry) -> None:
    """Adds a call, which replaces the one just before it if it overrides that.

    It replaces no other, because calls in between may depend on an earlier one.
    """
    if entries and _overrides(call, entries[-1]):
        entries.pop()
    entries.append(call)


def _actions(steps: Entry) -> NDArray[Any]:
    """The actions of an entry of steps, ``(T, ...)``."""
    _, dtype, shape, data = steps
    return np.array(np.frombuffer(data, dtype).reshape(-1, *shape))


def note(
    logs: list[ReplayLog],
    rows: slice,
    command: tuple[str, tuple[Any, ...]],
    answer: Answer,
    buffers: Buffers,
) -> None:
    """Records a command in the logs of the environments ``rows``, as soon as their block answers.

    Callers must delay Ctrl-C.

    Args:
        logs: The log of each environment of an executor.
        rows: The rows of the block.
        command: The name of the command and its arguments. Nobody else may change these.
        answer: The answer of the block.
        buffers: The results of all environments.
    """
    (name, arguments), failed = command, answer.failure is not None
    if failed and answer.notes is None:
        return  # nothing was done
    notes = answer.notes or {}
    if name == "apply":
        logs[rows] = notes
    elif name == "call":
        each, function = arguments
        for i, what in notes.items():
            logs[rows][i].add((what, function, *each[i]))
    elif name in ("reset", "step", "set_states"):
        digests, paused = buffers.digests[rows].tolist(), buffers.paused[rows].tolist()
        for i, (log, digest) in enumerate(zip(logs[rows], digests, strict=True)):
            if i in notes:
                log.begin(notes[i])
            if failed or name == "set_states":
                continue
            if i in notes and name == "step":  # an autoreset
                log.add(("reset", None, None))
            elif i in notes:
                seeds, options, _ = arguments
                log.add(("reset", seeds[i], options[i]))
            elif name == "step" and not paused[i]:
                log.add(("step", arguments[0][i]))
            log.digest = digest


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


def _checked_actions(actions: NDArray[Any]) -> NDArray[Any]:
    if not actions.ndim or (len(actions) and not actions.nbytes):  # no end of steps in no bytes
        raise TypeError(f"expected an array of actions, got {reprlib.repr(actions)}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError("expected actions that are numbers, got NaN")
    return actions
