"""The steps of paths, checked and concatenated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import short
from mtwrappers.processors.returns import Floats, discounted_sums
from mtwrappers.samplers.nested import join
from mtwrappers.samplers.path import Path


class Steps:
    """``S`` steps of ``P`` concatenated paths; raises `ValueError` if paths are malformed.

    ``what`` names the paths in messages, such as ``"paths of task 3"``. ``data`` holds the arrays
    that a batch takes over unchanged.
    """

    def __init__(self, paths: Sequence[Path], what: str) -> None:
        self.paths, self.what = paths, what
        self.lengths, joined = join_steps(paths, "rewards", "observations", "actions", what=what)
        rewards, self.observations, actions = joined
        self.rewards: Floats = rewards.astype(np.float64, copy=False)
        self.starts = np.cumsum([0, *self.lengths[:-1]])
        self.data: dict[str, Any] = {
            "observations": self.observations,
            "actions": actions,
            "rewards": self.rewards,
        }
        for key in ("env_infos", "agent_infos"):
            infos = [{} if path.get(key) is None else path[key] for path in paths]
            if not isinstance(infos[0], dict):
                raise ValueError(f"{key} of path 0 of {what} must be a dict, got {infos[0]!r}")
            self.data[key] = join(infos, key, lambda i: f"path {i} of {what}", self.lengths)

    def returns(self, discount: float) -> Floats:
        """Discounted sums of rewards, ``(S,)``; raises `ValueError` if they are beyond float64."""
        found = discounted_sums(self.rewards, discount, self.lengths)
        check_finite(found, self.lengths, "return", self.what)
        return found


def steps_of_tasks(paths: Any) -> list[Steps]:
    """The steps of each task, with ``adj_avg_rewards``, from a dict or list of paths per task.

    Raises `ValueError` if there are no tasks, or a task's paths are malformed.
    """
    tasks = dict(enumerate(paths)) if isinstance(paths, (list, tuple)) else paths
    if not isinstance(tasks, Mapping) or not tasks:
        got = "none" if isinstance(tasks, Mapping) else type(paths).__name__
        raise ValueError(
            "expected a dict with the paths of at least one task, or a list with an entry for each "
            f"task, got {got}"
        )
    if tasks is not paths and isinstance(paths[0], Mapping):
        raise ValueError(
            "expected a dict with the paths of each task, or a list with an entry for each task, "
            "got a list of paths: SampleProcessor and DiceSampleProcessor take one task's paths"
        )
    found = [Steps(its, f"paths of task {task!r}") for task, its in tasks.items()]
    rewards = np.concatenate([steps.rewards for steps in found])
    mean, std = np.mean(rewards), np.std(rewards)
    for steps in found:
        steps.data["adj_avg_rewards"] = (steps.rewards - mean) / (std + 1e-8)
    return found


def join_steps(
    paths: Any, numbers: str, *arrays: str, what: str = "paths"
) -> tuple[list[int], list[NDArray[Any]]]:
    """The lengths of paths, and the concatenated values of ``numbers`` and of each of ``arrays``.

    ``numbers`` is a key of arrays ``(T,)``, ``arrays`` are keys of arrays ``(T, ...)``. Raises
    `ValueError` if a path is malformed or a value is not finite.
    """
    check_keys(paths, (numbers, *arrays), what)
    lengths, joined = [], []
    for i, path in enumerate(paths):
        shape = np.shape(path[numbers])
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"{numbers} of path {i} of {what} must have shape (T,) with T of 1 or more, got "
                f"{shape}"
            )
        lengths.append(shape[0])
    for key in (numbers, *arrays):
        values = [path[key] for path in paths]
        if key in arrays and isinstance(values[0], (dict, tuple)):
            raise ValueError(
                f"{key} of {what} must be arrays, got {type(values[0]).__name__}s of them; "
                "gymnasium.wrappers.FlattenObservation makes one array of an observation"
            )
        joined.append(join(values, key, lambda i: f"path {i} of {what}", lengths))
        name = {"rewards": "reward", "observations": "observation", "actions": "action"}.get(key)
        check_finite(joined[-1], lengths, name or repr(key), what)
    return lengths, joined


def check_finite(values: NDArray[Any], lengths: Sequence[int], name: str, what: str) -> None:
    """Raises `ValueError`, naming path and step, unless values ``(S, ...)`` are finite numbers.

    ``name`` is the word for one value in messages, such as ``"reward"``.
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
            raise ValueError(f"path {i} of {what} must have the key 'truncated'")
        terminated, truncated = (
            bool(np.ravel(path.get(key, False))[-1]) for key in ("terminated", "truncated")
        )
        if terminated or not truncated:
            found.append(None)
            continue
        if path.get("next_observation") is None:
            raise ValueError(
                f"path {i} of {what} is truncated, but has no next_observation to bootstrap from"
            )
        after, shape = np.asarray(path["next_observation"]), np.shape(path["observations"])[1:]
        if after.shape != shape or not np.isfinite(after).all():
            raise ValueError(
                f"next_observation of path {i} of {what} must have shape {shape} and finite "
                f"numbers, got {after}"
            )
        found.append(after)
    return found


def _several(given: Any) -> str:
    """The end of a message, if paths may have been given task by task."""
    if not given or not isinstance(given, (Mapping, list, tuple)):
        return ""
    return "; the paths of several tasks are for MetaSampleProcessor or DiceMetaSampleProcessor"


def check_keys(paths: Any, keys: Sequence[str], what: str) -> None:
    """Checks that there are paths, and that each is a dict with these keys."""
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else short(paths)
        raise ValueError(f"{what} must be a list of at least one path, got {got}{_several(paths)}")
    for i, path in enumerate(paths):
        if not isinstance(path, dict):
            got = f"{short(path)}{_several(path)}"
            raise ValueError(f"path {i} of {what} must be a dict, got {got}")
        if missing := set(keys) - path.keys():
            raise ValueError(f"path {i} of {what} lacks {sorted(missing)}; it has {sorted(path)}")
