"""The path format, where samplers and processors meet, and its checks.

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
``agent_infos``        dict of ``(T, …)``  what the policy returned beside its actions
``next_observation``   ``(O,)``            what the agent would have seen next: the episode's own
                                           last observation, not the next episode's first
=====================  ==================  ====================================================

Infos may be nested: dicts of dicts of arrays. The observations of a ``Dict`` or ``Tuple`` space are
a dict or tuple of arrays, which samplers give and processors refuse. Processors need the first
three keys, finite observations and rewards, the same keys in all paths of a task, those of infos
included, and arrays that differ in ``T`` alone.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Path: TypeAlias = dict[str, Any]


def join_steps(
    paths: Any, numbers: str, what: str = "paths"
) -> tuple[NDArray[Any], NDArray[Any], list[int]]:
    """The steps of all paths, one path after another.

    Args:
        paths: A list of paths with ``observations``, ``(T, O)``, and numbers, ``(T,)``.
        numbers: The key of the numbers, such as ``"rewards"``.
        what: What messages call the paths, such as ``"paths of task 3"``.

    Returns:
        Observations ``(S, O)``, numbers ``(S,)``, and the length of each path.

    Raises:
        ValueError: If there are no paths, one lacks a key, arrays differ in length or shape, or
            hold something that is no finite number; the message names the path.
    """
    check_keys(paths, ("observations", numbers), what)
    shapes = [np.shape(path[numbers]) for path in paths]
    for i, shape in enumerate(shapes):
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"{numbers} of path {i} of {what} must have shape (T,) with T of 1 or more, got "
                f"{shape}"
            )
    lengths = [length for (length,) in shapes]
    observations = join_arrays(paths, "observations", lengths, what)
    values = np.concatenate([path[numbers] for path in paths])
    check_finite(values, lengths, "reward" if numbers == "rewards" else repr(numbers), what)
    check_finite(observations, lengths, "observation", what)
    return observations, values, lengths


def join_arrays(paths: Sequence[Path], key: str, lengths: list[int], what: str) -> NDArray[Any]:
    """One key of all paths, ``(T, ...)``, as an array ``(S, ...)``."""
    if isinstance(paths[0][key], (dict, tuple)):
        raise ValueError(
            f"{key} of {what} must be arrays, got {type(paths[0][key]).__name__}s of them; "
            "gymnasium.wrappers.FlattenObservation makes one array of an observation"
        )
    joined: NDArray[Any] = _joined([path[key] for path in paths], lengths, key, what)
    return joined


def join_infos(paths: Sequence[Path], key: str, lengths: list[int], what: str) -> dict[str, Any]:
    """The infos of all paths as dicts of arrays ``(S, ...)``; an empty dict if there are none."""
    if key not in paths[0]:
        return {}
    infos = [path[key] for path in paths]
    if not isinstance(infos[0], dict):
        raise ValueError(f"{key} of path 0 of {what} must be a dict, got {infos[0]!r}")
    joined: dict[str, Any] = _joined(infos, lengths, key, what)
    return joined


def _joined(values: Sequence[Any], lengths: list[int], name: str, what: str) -> Any:
    """Arrays with a row per step, joined; dicts of arrays, nested or not, key by key."""
    first = values[0]
    if isinstance(first, dict):
        for i, value in enumerate(values):
            if not isinstance(value, dict) or value.keys() != first.keys():
                got = sorted(value) if isinstance(value, dict) else repr(value)
                raise ValueError(
                    f"{name} of path {i} of {what} must be a dict with the keys {sorted(first)} "
                    f"as in path 0, got {got}"
                )
        return {
            key: _joined([value[key] for value in values], lengths, f"{name}[{key!r}]", what)
            for key in first
        }
    with contextlib.suppress(TypeError, ValueError):
        if list(map(len, values)) == lengths:
            return np.concatenate(values)
    for i, (value, length) in enumerate(zip(values, lengths, strict=True)):
        if np.shape(value) != (expected := (length, *np.shape(first)[1:])):
            raise ValueError(
                f"{name} of path {i} of {what} must have shape {expected}, got {np.shape(value)}"
            )
    return np.concatenate(values)  # with NumPy's word for what else is wrong


def check_finite(values: NDArray[Any], lengths: Sequence[int], name: str, what: str) -> None:
    """Raises `ValueError`, naming path and step, unless values ``(S, ...)`` are finite numbers.

    ``name`` is what the message calls one value, such as ``"reward"``.
    """
    try:
        finite = np.isfinite(values)
    except TypeError:
        raise ValueError(
            f"each {name} of {what} must be of numbers, got dtype {values.dtype}"
        ) from None
    if finite.all():
        return
    at = int(np.argwhere(~finite)[0, 0])
    ends = np.cumsum(lengths)
    path = int(np.searchsorted(ends, at, side="right"))
    step = at - int(ends[path] - lengths[path])
    value = values[at][~finite[at]].flat[0]
    raise ValueError(
        f"{name} of path {path} of {what} is {'NaN' if np.isnan(value) else value} at step {step}"
    )


def cut_observations(paths: Sequence[Path], what: str = "paths") -> list[NDArray[Any] | None]:
    """The ``next_observation`` of each path that a time limit cut, ``None`` for the others.

    A path is cut if its last step is truncated and not terminated.

    Raises:
        ValueError: If a path has no ``truncated``, or a cut one no ``next_observation`` of finite
            numbers and of the shape of its observations; the message names the path.
    """
    found: list[NDArray[Any] | None] = []
    for i, path in enumerate(paths):
        if "truncated" not in path:
            raise ValueError(f"path {i} of {what} does not say whether it is truncated")
        if not _last(path, "truncated") or _last(path, "terminated"):
            found.append(None)
            continue
        if path.get("next_observation") is None:
            raise ValueError(
                f"path {i} is truncated and has no next_observation to bootstrap from ({what})"
            )
        after, shape = np.asarray(path["next_observation"]), np.shape(path["observations"])[1:]
        if after.shape != shape or not np.isfinite(after).all():
            raise ValueError(
                f"next_observation of path {i} of {what} must have shape {shape} and finite "
                f"numbers, got {after}"
            )
        found.append(after)
    return found


def check_keys(paths: Any, keys: Sequence[str], what: str) -> None:
    """Checks that there are paths, and that each is a dict with these keys."""
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else repr(paths)
        raise ValueError(f"{what} must be a list of at least one path, got {got}")
    for i, path in enumerate(paths):
        if not isinstance(path, dict):
            raise ValueError(f"path {i} of {what} must be a dict, got {path!r}")
        if missing := [key for key in keys if key not in path]:
            raise ValueError(f"path {i} of {what} lacks {missing}; it has {sorted(path)}")


def _last(path: Path, key: str) -> bool:
    return bool(np.ravel(path.get(key, False))[-1])
