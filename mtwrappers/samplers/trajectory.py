"""The path format, where samplers and processors meet.

A path is one episode, from a reset to its end, as a dict of arrays over its ``T`` steps:

=====================  ==================  ====================================================
key                    shape, dtype        meaning
=====================  ==================  ====================================================
``observations``       ``(T, O)``          what the agent saw before each action
``actions``            ``(T, A)``          what it did
``rewards``            ``(T,)`` float64    what it got for it
``terminated``         ``(T,)`` bool       whether the task ended with the step
``truncated``          ``(T,)`` bool       whether a time limit ended with the step
``env_infos``          dict of ``(T, …)``  the infos that every step reports
``agent_infos``        dict of ``(T, …)``  what the policy said beside its actions
``next_observation``   ``(O,)``            what the agent would have seen next: the episode's own
                                           last observation, not the next episode's first
=====================  ==================  ====================================================
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Path: TypeAlias = dict[str, Any]
STEP_KEYS = ("observations", "actions", "rewards")


def check_paths(paths: Any, what: str = "paths") -> list[int]:
    """Checks what every processor relies on, and returns the length of each path.

    Args:
        paths: A list of paths.
        what: What the message calls them, such as ``"paths of task 3"``.

    Raises:
        ValueError: If there are none, keys differ, or arrays differ in length or shape; the
            message names the path.
    """
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else repr(paths)
        raise ValueError(f"{what} must be a list of at least one path, got {got}")
    first = paths[0]
    if not isinstance(first, Mapping):
        raise ValueError(f"path 0 of {what} must be a dict, got {first!r}")
    missing = [key for key in STEP_KEYS if key not in first]
    if missing:
        raise ValueError(f"path 0 of {what} lacks {missing}; it has {sorted(first)}")
    keys = first.keys()
    obs_shape, action_shape = np.shape(first["observations"])[1:], np.shape(first["actions"])[1:]
    for i, path in enumerate(paths):
        if not isinstance(path, dict) or path.keys() != keys:
            raise ValueError(_key_message(path, i, what, first))
    # Batches hold thousands of short paths: they are looked at key by key, in few passes.
    shapes = _shapes([path["rewards"] for path in paths])
    fit = (
        {*map(len, shapes)} == {1}
        and (0,) not in shapes
        and _shapes([path["observations"] for path in paths]) == [s + obs_shape for s in shapes]
        and _shapes([path["actions"] for path in paths]) == [s + action_shape for s in shapes]
    )
    if not fit:
        raise ValueError(_shape_message(paths, what, obs_shape, action_shape))
    lengths = [shape[0] for shape in shapes]
    for key in ("terminated", "truncated"):
        if np.ndim(first.get(key, False)):
            _check_lengths([path[key] for path in paths], lengths, key, what)
    for key in ("env_infos", "agent_infos"):
        if first.get(key):
            _check_infos([path[key] for path in paths], lengths, key, what)
    return lengths


def _check_infos(values: Sequence[Any], lengths: list[int], key: str, what: str) -> None:
    first = values[0]
    if not isinstance(first, Mapping):
        _check_lengths(values, lengths, key, what)
        return
    keys = first.keys()
    for i, value in enumerate(values):
        if value.keys() != keys:
            raise ValueError(
                f"{key} of path {i} of {what} have the keys {sorted(value)}, expected "
                f"{sorted(first)} as in path 0"
            )
    for name in first:
        _check_infos([value[name] for value in values], lengths, f"{key}[{name!r}]", what)


def _check_lengths(values: Sequence[Any], lengths: list[int], key: str, what: str) -> None:
    found = list(map(len, values))
    if found != lengths:
        i = next(i for i, (a, b) in enumerate(zip(found, lengths, strict=True)) if a != b)
        raise ValueError(f"{key} of path {i} of {what} must have {lengths[i]} rows, got {found[i]}")


def _shapes(values: Sequence[Any]) -> list[tuple[int, ...]]:
    if {*map(type, values)} == {np.ndarray}:
        return [value.shape for value in values]
    return [np.shape(value) for value in values]


def _key_message(path: Any, i: int, what: str, first: Mapping[str, Any]) -> str:
    if not isinstance(path, dict):
        return f"path {i} of {what} must be a dict, got {path!r}"
    return f"path {i} of {what} has the keys {sorted(path)}, expected {sorted(first)} as in path 0"


def _shape_message(
    paths: Sequence[Mapping[str, Any]],
    what: str,
    obs_shape: tuple[int, ...],
    action_shape: tuple[int, ...],
) -> str:
    """What is wrong with the first path whose arrays do not fit together."""
    for i, path in enumerate(paths):
        shape = np.shape(path["rewards"])
        if len(shape) != 1 or not shape[0]:
            return (
                f"rewards of path {i} of {what} must have shape (T,) with T of 1 or more, got "
                f"{shape}"
            )
        for key, rest in (("observations", obs_shape), ("actions", action_shape)):
            got = np.shape(path[key])
            if got != shape + rest:
                return f"{key} of path {i} of {what} must have shape {shape + rest}, got {got}"
    raise AssertionError("called for paths that fit together")


def check_rewards(
    rewards: NDArray[np.float64], lengths: Sequence[int], what: str = "paths"
) -> None:
    """Checks the rewards of all paths, one path after another, ``(S,)``.

    Raises:
        ValueError: If one is NaN; the message names the path and the step.
    """
    if not np.isnan(rewards).any():
        return
    at = int(np.flatnonzero(np.isnan(rewards))[0])
    ends = np.cumsum(lengths)
    path = int(np.searchsorted(ends, at, side="right"))
    step = at - int(ends[path] - lengths[path])
    raise ValueError(f"reward of path {path} of {what} is NaN at step {step}")


def stack(values: Sequence[Any], join: Callable[[Sequence[Any]], Any] = np.concatenate) -> Any:
    """Dicts of arrays, nested or not, joined key by key.

    Args:
        values: Dicts of the same keys, or arrays, one a path.
        join: Makes one array of the arrays of all paths; it concatenates them by default.
    """
    first = values[0]
    if isinstance(first, Mapping):
        return {key: stack([value[key] for value in values], join) for key in first}
    return join(values)


def last_flag(path: Mapping[str, Any], key: str) -> bool:
    """Whether a path ended with ``key`` (``"terminated"`` or ``"truncated"``)."""
    flags: NDArray[Any] = np.asarray(path.get(key, False)).reshape(-1)
    return bool(flags[-1])
