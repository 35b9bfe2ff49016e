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

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Path: TypeAlias = dict[str, Any]
STEP_KEYS = ("observations", "actions", "rewards")


def check_paths(paths: Any, what: str = "paths") -> None:
    """Checks what every processor relies on.

    Args:
        paths: A list of paths.
        what: What the message calls them, such as ``"paths of task 3"``.

    Raises:
        ValueError: If there are none, keys differ, arrays differ in length, or rewards are NaN;
            the message names the path and the step.
    """
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else repr(paths)
        raise ValueError(f"{what} must be a list of at least one path, got {got}")
    first = paths[0]
    for i, path in enumerate(paths):
        if not isinstance(path, Mapping):
            raise ValueError(f"path {i} of {what} must be a dict, got {path!r}")
        missing = [key for key in STEP_KEYS if key not in path]
        if missing:
            raise ValueError(f"path {i} of {what} lacks {missing}; it has {sorted(path)}")
        if path.keys() != first.keys():
            raise ValueError(
                f"path {i} of {what} has the keys {sorted(path)}, expected {sorted(first)} as in "
                "path 0"
            )
        _check_path(path, first, i, what)
    _check_rewards(paths, what)


def _check_path(path: Mapping[str, Any], first: Mapping[str, Any], i: int, what: str) -> None:
    steps = len(path["rewards"])
    if np.ndim(path["rewards"]) != 1 or steps == 0:
        raise ValueError(
            f"rewards of path {i} of {what} must have shape (T,) with T of 1 or more, got "
            f"{np.shape(path['rewards'])}"
        )
    for key in ("observations", "actions"):
        shape, expected = np.shape(path[key]), np.shape(first[key])[1:]
        if shape[:1] != (steps,) or shape[1:] != expected:
            raise ValueError(
                f"{key} of path {i} of {what} must have shape {(steps, *expected)}, got {shape}"
            )


def _check_rewards(paths: Sequence[Mapping[str, Any]], what: str) -> None:
    total = 0.0
    for path in paths:
        total += float(np.sum(path["rewards"]))
    if total == total:
        return
    for i, path in enumerate(paths):
        bad = np.flatnonzero(np.isnan(path["rewards"]))
        if len(bad):
            raise ValueError(f"reward of path {i} of {what} is NaN at step {int(bad[0])}")


def stack(values: Sequence[Any]) -> Any:
    """Dicts of arrays, nested or not, concatenated key by key along the first axis."""
    first = values[0]
    if isinstance(first, Mapping):
        return {key: stack([value[key] for value in values]) for key in first}
    return np.concatenate(values)


def last_flag(path: Mapping[str, Any], key: str) -> bool:
    """Whether a path ended with ``key`` (``"terminated"`` or ``"truncated"``)."""
    flags: NDArray[Any] = np.asarray(path.get(key, False)).reshape(-1)
    return bool(flags[-1])
