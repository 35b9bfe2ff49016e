"""Checks of returned values: spaces, types, infos, and shared memory."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers.testing.difference import Difference, text_of
from mtwrappers.testing.recording import Call, finished, steps_of
from mtwrappers.testing.report import Failed
from mtwrappers.testing.seeds import require_generators
from mtwrappers.testing.subject import Subject

# Keys that a batch of infos uses for itself.
_RESERVED = ("final_obs", "final_info")
_FLAGS = ("terminated", "truncated")


def runs(subject: Subject) -> str:
    """It can be reset and stepped."""
    ends = sum(int(np.sum(finished(call))) for call in steps_of(subject.first))
    return f"{subject.length} steps with random actions, {ends} episodes ended"


def spaces(subject: Subject) -> str:
    """Every observation is in the observation space, dtype included."""
    space = subject.observation_space
    for call in subject.first.calls:
        _inside(call.values["observation"], space, call.what, "observation", subject.is_vector)
    if subject.is_vector:
        return f"every batch of observations is in its space, of {subject.num_envs} environments"
    return f"every observation is in {_text_of_space(space)}"


def _inside(value: Any, space: Any, call: str, key: str, vector: bool) -> None:
    """Raises `Failed` if a value is not in its space, with its first wrong number."""
    if isinstance(space, gymnasium.spaces.Dict) and isinstance(value, dict):
        for name, sub in space.items():
            if name not in value:
                raise Failed(
                    "an observation is not in its space",
                    Difference(None, call, f"{key}[{name!r}]", "a value", "no such key"),
                )
            _inside(value[name], sub, call, f"{key}[{name!r}]", vector)
        return
    if isinstance(space, gymnasium.spaces.Tuple) and isinstance(value, tuple):
        for i, (part, sub) in enumerate(zip(value, space.spaces, strict=False)):
            _inside(part, sub, call, f"{key}[{i}]", vector)
    env = None
    if isinstance(space, Box) and isinstance(value, (np.ndarray, np.generic)):
        value = np.asarray(value)
        if value.dtype != space.dtype:
            expected, actual = f"dtype {space.dtype}", f"dtype {value.dtype}"
        elif value.shape != space.shape:
            expected, actual = f"shape {space.shape}", f"shape {value.shape}"
        else:
            bad = ~((value >= space.low) & (value <= space.high))
            if not bad.any():
                return
            index = tuple(int(i[0]) for i in np.nonzero(bad))
            env = index[0] if vector else None
            expected = f"a number in [{text_of(space.low[index])}, {text_of(space.high[index])}]"
            actual, key = text_of(value[index]), f"{key}[{', '.join(map(str, index))}]"
    elif value in space:
        return
    else:
        expected = f"a member of {_text_of_space(space)}"
        actual = f"{type(value).__name__} {text_of(value)}"
    raise Failed("an observation is not in its space", Difference(env, call, key, expected, actual))


def _text_of_space(space: gymnasium.Space[Any]) -> str:
    """A space in one short line."""
    if isinstance(space, Box):
        return f"Box({space.dtype}{list(space.shape)})"
    return text_of(space)


def types(subject: Subject) -> str:
    """Rewards are finite numbers, flags Python's bools, infos dicts, generators NumPy's."""
    for call in subject.first.calls:
        values = call.values
        if not isinstance(values["info"], dict):
            raise _wrong(call, "info", "a dict", values["info"])
        if "reward" not in values:
            continue
        reward = values["reward"]
        if isinstance(reward, bool) or not isinstance(
            reward, (int, float, np.integer, np.floating)
        ):
            raise _wrong(call, "reward", "a number", reward)
        if not np.isfinite(reward):
            raise _wrong(call, "reward", "a finite number", reward)
        for flag in _FLAGS:
            if type(values[flag]) is not bool:
                raise _wrong(call, flag, "a bool of Python", values[flag])
    require_generators(subject)
    return "rewards are finite numbers, flags are bools, infos are dicts"


def python_rewards(subject: Subject) -> str:
    """Rewards are Python's floats."""
    for call in steps_of(subject.first):
        if type(reward := call.values["reward"]) is not float:
            raise _wrong(call, "reward", "a float of Python", reward)
    return "rewards are floats of Python"


def _wrong(call: Call, key: str, expected: str, value: Any) -> Failed:
    actual = f"{type(value).__module__}.{type(value).__name__} {text_of(value)}"
    return Failed("a value has the wrong type", Difference(None, call.what, key, expected, actual))


def batched_types(subject: Subject) -> str:
    """Rewards are numbers, flags bools, each in an array of one per environment."""
    for call in subject.first.calls:
        if not isinstance(call.values["info"], dict):
            where = Difference(None, call.what, "info", "a dict", text_of(call.values["info"]))
            raise Failed("infos must be a dict", where)
    kinds = {"reward": "fiu", **dict.fromkeys(_FLAGS, "b")}  # of dtypes
    shape = (subject.num_envs,)
    for call in steps_of(subject.first):
        for name, kind in kinds.items():
            value = call.values[name]
            fits = isinstance(value, np.ndarray) and value.dtype.kind in kind
            if not fits or value.shape != shape:
                what = "bools" if kind == "b" else "numbers"
                expected = f"an array of {what}, of shape {shape}"
                actual = f"{type(value).__name__} {text_of(value)}"
                raise Failed(
                    "a value has the wrong type",
                    Difference(None, call.what, name, expected, actual),
                )
        for i in np.flatnonzero(~np.isfinite(call.values["reward"])):
            actual = text_of(call.values["reward"][i])
            where = Difference(int(i), call.what, f"reward[{i}]", "a number", actual)
            raise Failed("a reward is not finite", where)
    require_generators(subject)
    return "rewards are finite numbers, flags are bools, one per environment"


def infos(subject: Subject) -> str:
    """Infos can be batched: their keys are strings without a special meaning in batches."""
    for call in subject.first.calls:
        for key in call.values["info"]:
            if not isinstance(key, str):
                says = "keys of infos must be strings to be batched"
                raise Failed(says, Difference(None, call.what, "info", "a string", text_of(key)))
            if key in _RESERVED or key.startswith("_"):
                says = "a batch of infos has keys of this name itself, which replace these values"
                raise Failed(says, Difference(None, call.what, "info", "another key", repr(key)))
    keys = {"reward": set[str](), "no reward": set[str]()}
    for call in subject.first.calls:
        keys["reward" if "reward" in call.values else "no reward"].update(call.values["info"])
    every = set.union(*keys.values())
    if not every:
        return "all are empty"
    only = ", ".join(sorted(set.symmetric_difference(*keys.values())))
    only = only if len(only) <= 60 else f"{only[:57]}..."
    return f"{len(every)} keys" + (f"; not on both reset and step: {only}" if only else "")


def info_keys(subject: Subject) -> str:
    """Infos have the same keys on reset and on step."""
    first, *others = subject.first.calls
    keys = sorted(first.values["info"])
    for call in others:
        if sorted(call.values["info"]) != keys:
            where = Difference(None, call.what, "info", str(keys), str(sorted(call.values["info"])))
            raise Failed("infos must have the keys that they have on reset", where)
    return f"{len(keys)} keys, on reset and on step"


def masks(subject: Subject) -> str:
    """Each key of the infos has a mask of the environments that reported it."""
    subject.require_infos()
    keys: set[str] = set()
    for _, recording in subject.modes:
        for call in recording.calls:
            _masked(call, call.values["info"], "info", subject.num_envs)
            keys |= call.values["info"].keys()
    count = sum(not key.startswith("_") for key in keys)
    return f"{count} keys, each with a mask" if keys else "all are empty"


def _masked(call: Call, infos: dict[Any, Any], place: str, n: int) -> None:
    for key, value in infos.items():
        if not isinstance(key, str):
            says = "keys of infos must be strings"
            raise Failed(says, Difference(None, call.what, place, "a string", text_of(key)))
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}")
        if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != bool:
            actual = f"{type(mask).__name__} {text_of(mask)}"
            actual = actual if f"_{key}" in infos else "no such key"
            raise Failed(
                f"infos have values of {key!r}, but no mask that says which environments gave them",
                Difference(None, call.what, f"{place}['_{key}']", f"an array of {n} bools", actual),
            )
        if key == "final_info" and isinstance(value, dict):
            _masked(call, value, "info['final_info']", n)


def new_arrays(subject: Subject) -> str:
    """Returned values do not change later."""
    if found := subject.first.changed:
        raise Failed(
            "what an earlier call returned has changed: an array or dict is reused, so a buffer "
            "that keeps it holds the next one",
            found,
        )
    return "nothing that was returned changes later"


def no_shared_memory(subject: Subject) -> str:
    """Returned arrays and dicts are always new objects."""
    new_arrays(subject)
    if found := subject.first.shared:
        raise Failed("a call returns an array or dict that the call before has returned", found)
    return "every call returns new arrays and dicts"
