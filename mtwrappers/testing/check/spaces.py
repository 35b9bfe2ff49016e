"""Checks that observations are in their space, one by one and in batches."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers.testing.check.recording import show
from mtwrappers.testing.check.report import Difference, Failed
from mtwrappers.testing.check.subject import Subject


def spaces(subject: Subject) -> str:
    """Every observation is in the observation space, dtype included."""
    space = subject.observation_space
    for call in subject.first.calls:
        outside(call.values["observation"], space, call.what, "observation", subject.is_vector)
    return f"every observation is in {show_space(space)}"


def batched_spaces(subject: Subject) -> str:
    """Every batch of observations is in its space, dtype included."""
    space = subject.observation_space
    for call in subject.first.calls:
        outside(call.values["observation"], space, call.what, "observation", True)
    return f"every batch of observations is in its space, of {subject.num_envs} rows"


def outside(value: Any, space: Any, call: str, key: str, vector: bool) -> None:
    """Raises `Failed` if a value is not in its space, with its first wrong number."""
    if isinstance(space, gymnasium.spaces.Dict) and isinstance(value, dict):
        for name, sub in space.items():
            if name not in value:
                raise Failed(
                    "an observation is not in its space",
                    Difference(None, call, f"{key}[{name!r}]", "a value", "no such key"),
                )
            outside(value[name], sub, call, f"{key}[{name!r}]", vector)
        return
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
            expected = f"a number in [{show(space.low[index])}, {show(space.high[index])}]"
            actual, key = show(value[index]), f"{key}[{', '.join(map(str, index))}]"
    elif value in space:
        return
    else:
        expected, actual = (
            f"a member of {show_space(space)}",
            f"{type(value).__name__} {show(value)}",
        )
    raise Failed("an observation is not in its space", Difference(env, call, key, expected, actual))


def show_space(space: gymnasium.Space[Any]) -> str:
    """A space in one short line."""
    if isinstance(space, Box):
        return f"Box({space.dtype}{list(space.shape)})"
    return show(space)
