"""The steps of some paths, checked and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.returns import Floats
from mtwrappers.samplers.nested import join
from mtwrappers.samplers.path import Path


class Steps:
    """``S`` steps of ``P`` paths, one path after another, or `ValueError` if they are malformed.

    ``what`` is what messages call the paths, such as ``"paths of task 3"``.
    """

    def __init__(self, paths: Sequence[Path], what: str) -> None:
        check_keys(paths, ("observations", "actions", "rewards"), what)
        self.paths, self.what = paths, what
        self.observations, rewards, self.lengths = join_steps(paths, "rewards", what)
        self.rewards: Floats = rewards.astype(np.float64, copy=False)
        self.starts = np.cumsum([0, *self.lengths[:-1]])
        self.actions = _arrays(paths, "actions", self.lengths, what)
        check_finite(self.actions, self.lengths, "action", what)
        self.env_infos, self.agent_infos = map(self._infos, ("env_infos", "agent_infos"))

    def _infos(self, key: str) -> dict[str, Any]:
        infos = [{} if path.get(key) is None else path[key] for path in self.paths]
        if not isinstance(infos[0], dict):
            raise ValueError(f"{key} of path 0 of {self.what} must be a dict, got {infos[0]!r}")
        joined: dict[str, Any] = join(infos, key, f"path {{}} of {self.what}", self.lengths)
        return joined


def join_steps(
    paths: Any, numbers: str, what: str = "paths"
) -> tuple[NDArray[Any], NDArray[Any], list[int]]:
    """Observations ``(S, O)`` of all paths, their ``path[numbers]``, ``(S,)``, and their lengths.

    Raises `ValueError` if they are malformed.
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
    observations = _arrays(paths, "observations", lengths, what)
    values = np.concatenate([path[numbers] for path in paths])
    check_finite(values, lengths, "reward" if numbers == "rewards" else repr(numbers), what)
    check_finite(observations, lengths, "observation", what)
    return observations, values, lengths


def _arrays(paths: Sequence[Path], key: str, lengths: list[int], what: str) -> NDArray[Any]:
    """One key of all paths, ``(T, ...)``, as an array ``(S, ...)``."""
    if isinstance(paths[0][key], (dict, tuple)):
        raise ValueError(
            f"{key} of {what} must be arrays, got {type(paths[0][key]).__name__}s of them; "
            "gymnasium.wrappers.FlattenObservation makes one array of an observation"
        )
    values = [path[key] for path in paths]
    joined: NDArray[Any] = join(values, key, f"path {{}} of {what}", lengths)
    return joined


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
    path = int(np.searchsorted(np.cumsum(lengths), at, side="right"))
    value = values[at][~finite[at]].flat[0]
    raise ValueError(
        f"{name} of path {path} of {what} is {'NaN' if np.isnan(value) else value} at step "
        f"{at - sum(lengths[:path])}"
    )


def cut_observations(paths: Sequence[Path], what: str = "paths") -> list[NDArray[Any] | None]:
    """The ``next_observation`` of each path that a time limit cut, ``None`` for the others.

    A path is cut if its last step is truncated and not terminated.
    """
    found: list[NDArray[Any] | None] = []
    for i, path in enumerate(paths):
        if "truncated" not in path:
            raise ValueError(f"path {i} of {what} does not say whether it is truncated")
        terminated, truncated = (
            bool(np.ravel(path.get(key, False))[-1]) for key in ("terminated", "truncated")
        )
        if terminated or not truncated:
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
