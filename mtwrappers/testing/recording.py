"""Records everything that an environment returns, and compares two recordings."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.state.plain_data import copied, copied_if_possible
from mtwrappers.testing.difference import Difference, difference, find, text_of
from mtwrappers.testing.report import Failed

STEP = ("observation", "reward", "terminated", "truncated", "info")
RESET = ("observation", "info")


class Call(NamedTuple):
    """A call and a copy of what it returned, by the names of `STEP` or `RESET`."""

    what: str
    values: dict[str, Any]


class Recording(NamedTuple):
    """The calls of an environment and copies of what they returned.

    Attributes:
        calls: Every call, beginning with the seeded reset.
        changed: The first value that changed after it was returned.
        shared: The first value whose memory is that of a value that the call before returned.
    """

    calls: list[Call]
    changed: Difference | None = None
    shared: Difference | None = None


def record(
    env: Any,
    actions: Sequence[Any],
    seed: Any,
    *,
    seconds: float | None = None,
    step: Callable[[Any], Any] | None = None,
) -> Recording:
    """Records an environment or a vector environment from ``reset(seed=seed)`` on.

    A single environment is reset when its episode has ended; so are the sub-environments whose
    episodes have ended of a vector environment whose autoreset mode is ``DISABLED``.

    Args:
        env: The environment.
        actions: An action for each step.
        seed: The seed of the first reset, a list of seeds, or None.
        seconds: How long after the reset to stop, by default never.
        step: What is called with a copy of each action, by default the environment's own ``step``.
    """
    calls: list[Call] = []
    vector = isinstance(env, VectorEnv)
    changed: Difference | None = None
    shared: Difference | None = None
    returned: dict[str, Any] = {}

    def note(what: str, names: tuple[str, ...], now: Any) -> None:
        nonlocal changed, shared, returned
        if not isinstance(now, tuple) or len(now) != len(names):
            raise Failed(f"{what} must return ({', '.join(names)}), got {text_of(now)}")
        if changed is None and calls:
            changed = _changed(calls[-1], returned, vector)
        last, returned = returned, dict(zip(names, now, strict=True))
        if shared is None and (key := _shared(last, returned)):
            actual = f"the one of {calls[-1].what}"
            shared = Difference(None, what, key, "a new array or dict", actual)
        calls.append(Call(what, {name: recorded(value) for name, value in returned.items()}))

    note(f"reset(seed={seed})", RESET, env.reset(seed=seed))
    start, step = time.perf_counter(), step or env.step
    for t, action in enumerate(actions):
        note(f"step {t}", STEP, step(copy.deepcopy(action)))
        ends = finished(calls[-1])
        if not vector:
            if ends:
                note(f"the reset after step {t}", RESET, env.reset())
        elif ends.any() and mode_of(env) is AutoresetMode.DISABLED:
            masked = env.reset(options={"reset_mask": ends.copy()})
            note(f"the reset after step {t}", RESET, masked)
        if seconds is not None and time.perf_counter() - start > seconds:
            break
    return Recording(calls, changed, shared)


def _changed(last: Call, returned: dict[str, Any], vector: bool) -> Difference | None:
    """Returns the first returned value that has changed since."""
    for name, value in returned.items():
        if found := find(last.values[name], recorded(value), (name,)):
            return difference(found, last.what, vector)
    return None


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


def finished(call: Call) -> Any:
    """Whether a step ended an episode; for a vector environment, per sub-environment."""
    return np.logical_or(call.values["terminated"], call.values["truncated"])


def steps_of(recording: Recording) -> Iterator[Call]:
    """The calls that are steps."""
    return (call for call in recording.calls if "reward" in call.values)


def ends_of(recording: Recording) -> Iterator[tuple[int, int]]:
    """The ends of episodes of a vector environment, as (number of the call, sub-environment)."""
    for c, call in enumerate(recording.calls):
        if "reward" in call.values:
            yield from ((c, int(i)) for i in np.flatnonzero(finished(call)))


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
