"""Plays an environment and keeps everything that it returns; finds where two recordings differ."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.state.plain_data import copied, copied_if_possible
from mtwrappers.testing.check.report import Difference, Failed

Path: TypeAlias = tuple[Any, ...]
# Where two values differ, what was expected there and what came.
Found: TypeAlias = tuple[Path, str, str]

STEP = ("observation", "reward", "terminated", "truncated", "info")
RESET = ("observation", "info")


class Call(NamedTuple):
    """A call and a copy of what it returned, by the names of `STEP` or `RESET`."""

    what: str
    values: dict[str, Any]


class Recording(NamedTuple):
    """What an environment returned.

    Attributes:
        calls: Every call, beginning with the seeded reset.
        changed: The first value that changed after it was returned.
    """

    calls: list[Call]
    changed: Difference | None


def record(
    env: Any,
    actions: Sequence[Any],
    seed: int | None,
    *,
    seconds: float | None = None,
    step: Callable[[Any], Any] | None = None,
) -> Recording:
    """Plays an environment or a vector environment from ``reset(seed=seed)`` on.

    A single environment is reset when its episode is over; so are the sub-environments that are
    over of a vector environment whose autoreset mode is ``DISABLED``.

    Args:
        env: The environment.
        actions: An action for each step.
        seed: The seed of the first reset, or None.
        seconds: How long after the reset to stop, by default never.
        step: What is called with a copy of each action, by default the environment's own ``step``.
    """
    calls: list[Call] = []
    changed: Difference | None = None
    returned: Any = None

    def note(what: str, names: tuple[str, ...], now: Any) -> None:
        nonlocal changed, returned
        if not isinstance(now, tuple) or len(now) != len(names):
            raise Failed(f"{what} must return ({', '.join(names)}), got {show(now)}")
        if returned is not None and changed is None:
            last = calls[-1]
            for name, value in zip(last.values, returned, strict=True):
                if found := find(last.values[name], recorded(value), (name,)):
                    changed = difference(found, last.what, isinstance(env, VectorEnv))
                    break
        returned = now
        calls.append(Call(what, {n: recorded(v) for n, v in zip(names, now, strict=True)}))

    note(f"reset(seed={seed})", RESET, env.reset(seed=seed))
    start, step = time.perf_counter(), step or env.step
    for t, action in enumerate(actions):
        note(f"step {t}", STEP, step(copy.deepcopy(action)))
        ends = over(calls[-1])
        if not isinstance(env, VectorEnv):
            if ends:
                note(f"the reset after step {t}", RESET, env.reset())
        elif ends.any() and mode_of(env) is AutoresetMode.DISABLED:
            masked = env.reset(options={"reset_mask": ends.copy()})
            note(f"the reset after step {t}", RESET, masked)
        if seconds is not None and time.perf_counter() - start > seconds:
            break
    return Recording(calls, changed)


def mode_of(env: Any) -> Any:
    """The autoreset mode that a vector environment says it has, or None."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if isinstance(mode, str):
        return next((m for m in AutoresetMode if mode in (m.value, m.name)), None)
    return mode


def over(call: Call) -> Any:
    """Whether an episode ended with a step; of a vector environment, for each of its rows."""
    return np.logical_or(call.values["terminated"], call.values["truncated"])


def steps_of(recording: Recording) -> Iterator[Call]:
    """The calls that are steps."""
    return (call for call in recording.calls if "reward" in call.values)


def recorded(value: Any) -> Any:
    """A copy, without the wall-clock time that episode statistics hold."""
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
    expected: Recording, actual: Recording, vector: bool, ignore: Collection[str] = ()
) -> Difference | None:
    """The first difference between two recordings, bit for bit, or None.

    Args:
        expected: A recording.
        actual: Another one, whose first reset may have another seed.
        vector: Whether they are of a vector environment.
        ignore: The names of infos that need not be equal, such as ``"info.action"``.
    """
    for i, (one, other) in enumerate(zip(expected.calls, actual.calls, strict=False)):
        if i and one.what != other.what:
            return Difference(None, other.what, "the call", one.what, other.what)
        left, right = without(one.values, ignore), without(other.values, ignore)
        for name, value in left.items():
            if found := find(value, right[name], (name,)):
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
    """What `find` has found in a call, in words; in a vector environment an index is a row."""
    path, expected, actual = found
    indices = [part for part in path if isinstance(part, (int, tuple)) and part != ()]
    first = indices[0] if indices and vector else None
    env = first[0] if isinstance(first, tuple) else first
    shown = "".join(
        f"[{', '.join(map(str, part))}]" if isinstance(part, tuple) else f"[{part!r}]"
        for part in path[1:]
        if part != ()
    )
    return Difference(env, call, f"{path[0]}{shown}", expected, actual)


def find(expected: Any, actual: Any, path: Path = (), *, loose: bool = False) -> Found | None:
    """Where two values differ first, or None if they are equal, types and bits included.

    Args:
        expected: A value.
        actual: Another one.
        path: Where in a larger value they are.
        loose: Whether numbers may have other types, and arrays another dtype, as in a batch.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*expected, *(key for key in actual if key not in expected)]:
            here = (*path, key)
            if key not in actual:
                return here, show(expected[key]), "no such key"
            if key not in expected:
                return here, "no such key", show(actual[key])
            if found := find(expected[key], actual[key], here, loose=loose):
                return found
        return None
    lists = (list, tuple)
    if isinstance(expected, lists) and isinstance(actual, lists):
        if len(expected) != len(actual):
            return path, f"{len(expected)} items", f"{len(actual)} items"
        pairs = enumerate(zip(expected, actual, strict=True))
        return next((f for i, (e, a) in pairs if (f := find(e, a, (*path, i), loose=loose))), None)
    numbers = (np.ndarray, np.generic) + ((int, float, bool) if loose else ())
    if isinstance(expected, numbers) and isinstance(actual, numbers):
        if not loose and type(expected) is not type(actual):
            return path, _typed(expected), _typed(actual)
        return _find_in_arrays(np.asarray(expected), np.asarray(actual), path, loose)
    if type(expected) is not type(actual):
        return path, _typed(expected), _typed(actual)
    # Of objects without a notion of equality there is nothing to say.
    plain = getattr(type(expected), "__eq__", None) is object.__eq__
    if plain or _equal(expected, actual):
        return None
    return path, show(expected), show(actual)


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
        for i in np.ndindex(actual.shape):
            if found := find(expected[i], actual[i], (*path, i), loose=loose):
                return found
        return None
    # NaN is equal to NaN here.
    differ = (expected != actual) & ((expected == expected) | (actual == actual))
    if not differ.any():
        return None
    index = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differ)))[: differ.ndim]
    return (*path, index), show(expected[index]), show(actual[index])


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b) or bool(a != a and b != b)
    except Exception:  # any class may compare in any way
        return False


def _typed(value: Any) -> str:
    return f"{type(value).__name__} {show(value)}"


def show(value: Any) -> str:
    """A value in one short line."""
    if isinstance(value, np.generic):
        value = value.item()
    text = " ".join(repr(value).split())
    return text if len(text) <= 60 else f"{text[:57]}..."
