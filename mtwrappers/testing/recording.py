"""Records everything that an environment returns, and compares two recordings bit for bit."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.state.plain_data import copied, copied_if_possible
from mtwrappers.testing.report import Difference, Failed

Path: TypeAlias = tuple[Any, ...]
# Where two values differ, what was expected there and what came.
Found: TypeAlias = tuple[Path, str, str]

STEP = ("observation", "reward", "terminated", "truncated", "info")
RESET = ("observation", "info")

_ARRAYS = (np.ndarray, np.generic)
# For how many calls the values that a call returned are watched.
_WATCHED = 3


class Call(NamedTuple):
    """A call and a copy of what it returned, by the names of `STEP` or `RESET`."""

    what: str
    values: dict[str, Any]

    @property
    def is_step(self) -> bool:
        """Whether the call is a step, not a reset."""
        return "reward" in self.values

    @property
    def ends(self) -> Any:
        """Whether the call ended an episode; for a vector environment, per sub-environment."""
        if not self.is_step:
            return np.False_
        return np.logical_or(self.values["terminated"], self.values["truncated"])


class Recording(NamedTuple):
    """The calls of an environment and copies of what they returned.

    Attributes:
        calls: Every call, beginning with the reset.
        changed: The first value that changed after it was returned.
        shared: The first value whose memory is that of a value that the call before returned.
    """

    calls: list[Call]
    changed: Difference | None = None
    shared: Difference | None = None

    @property
    def steps(self) -> list[Call]:
        """The calls that are steps."""
        return [call for call in self.calls if call.is_step]


def record(
    env: Any,
    actions: Sequence[Any],
    seed: Any = None,
    *,
    seconds: float = math.inf,
    reset: Callable[[], Any] | None = None,
    step: Callable[[Any], Any] | None = None,
) -> Recording:
    """Records an environment or a vector environment from ``reset(seed=seed)`` on.

    A single environment is reset when its episode has ended; so are the sub-environments whose
    episodes have ended of a vector environment whose autoreset mode is ``DISABLED``.

    Args:
        env: The environment.
        actions: An action for each step.
        seed: The seed of the first reset, a list of seeds, or None.
        seconds: How long after the reset to stop.
        reset: What is called instead of the first reset.
        step: What is called with a copy of each action, by default the environment's own ``step``.
    """
    calls: list[Call] = []
    vector = isinstance(env, VectorEnv)
    masked = vector and mode_of(env) is AutoresetMode.DISABLED
    changed: Difference | None = None
    shared: Difference | None = None
    watched: deque[tuple[Call, dict[str, Any]]] = deque()

    def watch(most: int) -> None:
        nonlocal changed
        while len(watched) > most:
            call, returned = watched.popleft()
            for name, value in returned.items():
                found = find(call.values[name], recorded(value), (name,))
                if found and changed is None:
                    changed = difference(found, call.what, vector)

    def note(what: str, names: tuple[str, ...], now: Any) -> None:
        nonlocal shared
        if not isinstance(now, tuple) or len(now) != len(names):
            raise Failed(f"{what} must return ({', '.join(names)}), got {text_of(now)}")
        returned = dict(zip(names, now, strict=True))
        if shared is None and watched and (key := _shared(watched[-1][1], returned)):
            actual = f"the one of {calls[-1].what}"
            shared = Difference(None, what, key, "a new array or dict", actual)
        calls.append(Call(what, {name: recorded(value) for name, value in returned.items()}))
        watched.append((calls[-1], returned))
        watch(_WATCHED)

    note(f"reset(seed={seed})", RESET, env.reset(seed=seed) if reset is None else reset())
    start = time.perf_counter()
    for t, action in enumerate(actions):
        note(f"step {t}", STEP, (step or env.step)(copy.deepcopy(action)))
        ends = calls[-1].ends
        if not vector and ends:
            note(f"the reset after step {t}", RESET, env.reset())
        elif masked and ends.any():
            options = {"reset_mask": ends.copy()}
            note(f"the reset after step {t}", RESET, env.reset(options=options))
        if time.perf_counter() - start > seconds:
            break
    watch(0)
    return Recording(calls, changed, shared)


def _shared(one: Any, other: Any, key: str = "") -> str | None:
    """Returns the first place at which two values share a dict or an array's memory."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return key if np.shares_memory(one, other) else None
    if isinstance(one, dict) and isinstance(other, dict):
        if one is other:
            return key
        parts = [(one[name], other[name], name) for name in one if name in other]
    elif isinstance(one, tuple) and isinstance(other, tuple):
        parts = [(a, b, i) for i, (a, b) in enumerate(zip(one, other, strict=False))]
    else:
        return None
    places = (_shared(a, b, f"{key}[{name!r}]" if key else name) for a, b, name in parts)
    return next((place for place in places if place is not None), None)


def mode_of(env: Any) -> Any:
    """Returns the autoreset mode that a vector environment declares, or None."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if isinstance(mode, str):
        return next((m for m in AutoresetMode if mode in (m.value, m.name)), None)
    return mode


def recorded(value: Any) -> Any:
    """Returns a copy without the wall-clock time of episode statistics."""
    copy_of = copied(value, copied_if_possible)
    _drop_times(copy_of)
    return copy_of


def _drop_times(value: Any, parent: Any = None) -> None:
    if type(value) is dict:
        for name in ("t", "_t") if parent == "episode" else ():
            value.pop(name, None)
        for key, item in value.items():
            _drop_times(item, key)
    elif type(value) in (list, tuple) or (isinstance(value, np.ndarray) and value.dtype.hasobject):
        for item in value.flat if isinstance(value, np.ndarray) else value:
            _drop_times(item, parent)


def compare(
    expected: Recording,
    actual: Recording,
    vector: bool,
    ignore: Collection[str] = (),
    *,
    loose: bool = False,
) -> Difference | None:
    """The first difference between two recordings, or None.

    Args:
        expected: A recording.
        actual: Another one, whose first reset may have another seed.
        vector: Whether they are of a vector environment.
        ignore: The names of infos that need not be equal, such as ``"info.action"``.
        loose: As of `find`.
    """
    for i, (one, other) in enumerate(zip(expected.calls, actual.calls, strict=False)):
        if i and one.what != other.what:
            return Difference(None, other.what, "the call", one.what, other.what)
        left, right = without(one.values, ignore), without(other.values, ignore)
        for name, value in left.items():
            if found := find(value, right[name], (name,), loose=loose):
                return difference(found, one.what, vector)
    return None


def without(values: dict[str, Any], ignore: Collection[str]) -> dict[str, Any]:
    """The values of a call without some infos, such as ``"info.action"``, or ``"info.arm.angle"``.

    In a batch, their masks and their values in ``final_info`` go with them.
    """
    info = values.get("info")
    if not ignore or not isinstance(info, dict):
        return values
    return {**values, "info": _without(info, ignore, "info")}


def _without(info: dict[Any, Any], ignore: Collection[str], prefix: str) -> dict[Any, Any]:
    left = {}
    for key, value in info.items():
        name = f"{prefix}.{str(key).removeprefix('_')}"
        if name not in ignore:
            inner = prefix if key == "final_info" else name
            left[key] = _without(value, ignore, inner) if isinstance(value, dict) else value
    return left


def difference(found: Found, call: str, vector: bool) -> Difference:
    """Describes the result of `find` in the values of a call.

    Args:
        found: The result of `find`.
        call: The call.
        vector: Whether the first index is the number of a sub-environment.
    """
    path, expected, actual = found
    indices = [part for part in path if isinstance(part, (int, tuple)) and part != ()]
    first = indices[0] if indices and vector else None
    env = first[0] if isinstance(first, tuple) else first
    place = "".join(
        f"[{', '.join(map(str, part))}]" if isinstance(part, tuple) else f"[{part!r}]"
        for part in path[1:]
        if part != ()
    )
    return Difference(env, call, f"{path[0]}{place}", expected, actual)


def find(expected: Any, actual: Any, path: Path = (), *, loose: bool = False) -> Found | None:
    """Returns where two values first differ, or None if their types and bits are equal.

    All NaNs are equal, and objects without a notion of equality.

    Args:
        expected: A value.
        actual: Another one.
        path: Where in a larger value they are.
        loose: Whether numbers may have other types, and arrays another dtype, as in a batch.
    """

    def both(kinds: Any) -> bool:
        return isinstance(expected, kinds) and isinstance(actual, kinds)

    if both(dict):
        return _first(_in_dicts(expected, actual, path), loose)
    alike = type(expected) is type(actual)
    if both((list, tuple)) and (alike or loose):
        if len(expected) != len(actual):
            return path, f"{len(expected)} items", f"{len(actual)} items"
        pairs = enumerate(zip(expected, actual, strict=True))
        return _first(((e, a, (*path, i)) for i, (e, a) in pairs), loose)
    if not (alike or (loose and both((*_ARRAYS, int, float)))):
        return path, _typed(expected), _typed(actual)
    if isinstance(expected, _ARRAYS) or isinstance(actual, _ARRAYS):
        return _find_in_arrays(np.asarray(expected), np.asarray(actual), path, loose)
    return None if _equal(expected, actual) else (path, text_of(expected), text_of(actual))


class _Missing:
    """Stands for the value of a key that a dict lacks."""

    def __repr__(self) -> str:
        return "no such key"


_MISSING = _Missing()


def _in_dicts(
    expected: dict[Any, Any], actual: dict[Any, Any], path: Path
) -> Iterator[tuple[Any, Any, Path]]:
    for key in [*expected, *(key for key in actual if key not in expected)]:
        yield expected.get(key, _MISSING), actual.get(key, _MISSING), (*path, key)


def _first(pairs: Iterator[tuple[Any, Any, Path]], loose: bool) -> Found | None:
    for expected, actual, path in pairs:
        if expected is _MISSING or actual is _MISSING:
            return path, text_of(expected), text_of(actual)
        if found := find(expected, actual, path, loose=loose):
            return found
    return None


def _find_in_arrays(
    expected: np.ndarray[Any, Any], actual: np.ndarray[Any, Any], path: Path, loose: bool
) -> Found | None:
    if expected.shape != actual.shape:
        return path, f"shape {expected.shape}", f"shape {actual.shape}"
    if loose and not expected.dtype.hasobject:
        expected = expected.astype(actual.dtype, casting="unsafe")
    if expected.dtype != actual.dtype:
        return path, f"dtype {expected.dtype}", f"dtype {actual.dtype}"
    if expected.dtype.hasobject:
        places = np.ndindex(actual.shape)
        return _first(((expected[i], actual[i], (*path, i)) for i in places), loose)
    differ = (expected != actual) & ((expected == expected) | (actual == actual))
    if expected.dtype.kind == "f":  # 0.0 and -0.0 are equal and have other bits
        differ |= (expected == actual) & (np.signbit(expected) != np.signbit(actual))
    if not differ.any():
        return None
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differ)))[: differ.ndim]
    return (*path, index), text_of(expected[index]), text_of(actual[index])


def _equal(a: Any, b: Any) -> bool:
    if getattr(type(a), "__eq__", None) is object.__eq__:
        return True
    try:
        if isinstance(a, float) and a == b:
            return math.copysign(1, a) == math.copysign(1, b)
        return bool(a == b) or bool(a != a and b != b)
    except Exception:  # any class may compare in any way
        return False


def same(expected: Any, actual: Any) -> bool:
    """Whether two values are equal, including types and bits."""
    return find(expected, actual) is None


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {text_of(value)}"


def text_of(value: Any) -> str:
    """Formats a value as one short line."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
