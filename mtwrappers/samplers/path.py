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

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Path: TypeAlias = dict[str, Any]


def check_paths(paths: Any, what: str = "paths") -> list[int]:
    """Checks the keys and shapes of paths, and returns the length of each.

    Args:
        paths: A list of paths.
        what: What the message calls them, such as ``"paths of task 3"``.

    Raises:
        ValueError: If there are none, keys differ, or arrays differ in length or shape; the
            message names the path.
    """
    _check_dicts(paths, what)
    first = paths[0]
    _check_keys([first], ("observations", "actions", "rewards"), what)
    for i, path in enumerate(paths):
        if path.keys() != first.keys():
            raise ValueError(
                f"path {i} of {what} has the keys {sorted(path)}, expected {sorted(first)} as in "
                "path 0"
            )
    lengths = _check_steps(paths, "rewards", ("observations", "actions"), what)
    for key in ("terminated", "truncated"):
        if np.ndim(first.get(key, False)):
            _check_rows([path[key] for path in paths], lengths, key, what)
    for key in ("env_infos", "agent_infos"):
        if key in first:
            if not isinstance(first[key], dict):
                raise ValueError(f"{key} of path 0 of {what} must be a dict, got {first[key]!r}")
            _check_infos([path[key] for path in paths], lengths, key, what)
    return lengths


def check_targets(paths: Any, key: str, what: str = "paths") -> list[int]:
    """Checks what fitting a baseline needs of paths, and returns the length of each.

    Args:
        paths: A list of paths with ``observations``, ``(T, O)``, and targets, ``(T,)``.
        key: The key of the targets.
        what: What the message calls the paths.

    Raises:
        ValueError: If there are none, one lacks a key, or arrays differ in length or shape; the
            message names the path.
    """
    _check_dicts(paths, what)
    _check_keys(paths, ("observations", key), what)
    return _check_steps(paths, key, ("observations",), what)


def check_finite(values: NDArray[Any], lengths: Sequence[int], name: str, what: str) -> None:
    """Checks that the values of all paths, one path after another, are finite numbers.

    Args:
        values: Shape ``(S, ...)``, where ``S`` is the sum of the lengths.
        lengths: The length of each path.
        name: What the message calls one value, such as ``"reward"``.
        what: What the message calls the paths.

    Raises:
        ValueError: If one is not; the message names the path and the step.
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

    Args:
        paths: Paths that `check_paths` or `check_targets` accepts.
        what: What the message calls them.

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


def observations_of(path: Any) -> Any:
    """The observations of a path, ``(T, O)``, or `ValueError` if it is no dict that has them."""
    _check_dicts([path], "those to predict")
    _check_keys([path], ("observations",), "those to predict")
    return path["observations"]


def join(values: Sequence[Any]) -> Any:
    """Concatenates an array per path; dicts of arrays, nested or not, key by key."""
    if isinstance(values[0], dict):
        return {key: join([value[key] for value in values]) for key in values[0]}
    return np.concatenate(values)


def _last(path: Path, key: str) -> bool:
    return bool(np.ravel(path.get(key, False))[-1])


def _check_dicts(paths: Any, what: str) -> None:
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else repr(paths)
        raise ValueError(f"{what} must be a list of at least one path, got {got}")
    for i, path in enumerate(paths):
        if not isinstance(path, dict):
            raise ValueError(f"path {i} of {what} must be a dict, got {path!r}")


def _check_keys(paths: Sequence[Path], keys: Sequence[str], what: str) -> None:
    for i, path in enumerate(paths):
        missing = [key for key in keys if key not in path]
        if missing:
            raise ValueError(f"path {i} of {what} lacks {missing}; it has {sorted(path)}")


def _check_steps(
    paths: Sequence[Path], numbers: str, arrays: Sequence[str], what: str
) -> list[int]:
    """Checks that ``numbers`` are ``(T,)`` and ``arrays`` ``(T, ...)``, and returns each ``T``."""
    shapes = [np.shape(path[numbers]) for path in paths]
    for i, shape in enumerate(shapes):
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"{numbers} of path {i} of {what} must have shape (T,) with T of 1 or more, got "
                f"{shape}"
            )
    lengths = [length for (length,) in shapes]
    for key in arrays:
        if isinstance(paths[0][key], (dict, tuple)):
            raise ValueError(
                f"{key} of {what} must be arrays, got {type(paths[0][key]).__name__}s of them; "
                "gymnasium.wrappers.FlattenObservation makes one array of an observation"
            )
        _check_rows([path[key] for path in paths], lengths, key, what)
    return lengths


def _check_infos(values: Sequence[Any], lengths: Sequence[int], name: str, what: str) -> None:
    """Checks the infos of all paths, a dict or an array per path, against those of the first."""
    first = values[0]
    if not isinstance(first, dict):
        _check_rows(values, lengths, name, what)
        return
    for i, value in enumerate(values):
        if not isinstance(value, dict):
            raise ValueError(f"{name} of path {i} of {what} must be a dict, got {value!r}")
        if value.keys() != first.keys():
            raise ValueError(
                f"{name} of path {i} of {what} have the keys {sorted(value)}, expected "
                f"{sorted(first)} as in path 0"
            )
    for key in first:
        _check_infos([value[key] for value in values], lengths, f"{name}[{key!r}]", what)


def _check_rows(values: Sequence[Any], lengths: Sequence[int], name: str, what: str) -> None:
    """Checks that arrays have a row per step, and rows of the shape that the first array's have."""
    rest = np.shape(values[0])[1:]
    expected, found = [(length, *rest) for length in lengths], [np.shape(v) for v in values]
    if found != expected:
        i = next(i for i, shape in enumerate(found) if shape != expected[i])
        raise ValueError(
            f"{name} of path {i} of {what} must have shape {expected[i]}, got {found[i]}"
        )
