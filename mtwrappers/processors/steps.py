"""The steps of paths, checked and concatenated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyArray
from mtwrappers.processors.returns import Floats, discounted_sums
from mtwrappers.samplers.nested import join
from mtwrappers.samplers.path import Path


class Steps:
    """``S`` steps of ``P`` concatenated paths; raises `ValueError` if paths are malformed.

    ``label`` names the paths in messages, such as ``"paths of task 3"``. ``data`` holds the arrays
    that a batch takes over unchanged.
    """

    def __init__(self, paths: Sequence[Path], label: str) -> None:
        self.paths, self.label = paths, label
        self.lengths, joined = join_steps(paths, "rewards", "observations", "actions", label=label)
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
                raise ValueError(f"{key} of path 0 of {label} must be a dict, got {infos[0]!r}")
            self.data[key] = join(infos, key, lambda i: f"path {i} of {label}", self.lengths)

    def returns(self, discount: float) -> Floats:
        """Discounted sums of rewards, ``(S,)``; raises `ValueError` if they are beyond float64."""
        returns = discounted_sums(self.rewards, discount, self.lengths)
        check_finite(returns, self.lengths, "return", self.label)
        return returns


def join_task_steps(paths: Any) -> list[Steps]:
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
    all_steps = [Steps(task_paths, f"paths of task {task!r}") for task, task_paths in tasks.items()]
    rewards = np.concatenate([steps.rewards for steps in all_steps])
    mean, std = np.mean(rewards), np.std(rewards)
    for steps in all_steps:
        steps.data["adj_avg_rewards"] = (steps.rewards - mean) / (std + 1e-8)
    return all_steps


def join_steps(
    paths: Any, numbers: str, *arrays: str, label: str = "paths"
) -> tuple[list[int], list[AnyArray]]:
    """The lengths of paths, and the concatenated values of ``numbers`` and of each of ``arrays``.

    ``numbers`` is a key of arrays ``(T,)``, ``arrays`` are keys of arrays ``(T, ...)``. Raises
    `ValueError` if a path is malformed or a value is not finite.
    """
    check_keys(paths, (numbers, *arrays), label)
    lengths, joined = [], []
    for i, path in enumerate(paths):
        shape = np.shape(path[numbers])
        if len(shape) != 1 or not shape[0]:
            raise ValueError(
                f"{numbers} of path {i} of {label} must have shape (T,) with T of 1 or more, got "
                f"{shape}"
            )
        lengths.append(shape[0])
    for key in (numbers, *arrays):
        values = [path[key] for path in paths]
        if key in arrays and isinstance(values[0], (dict, tuple)):
            raise ValueError(
                f"{key} of {label} must be arrays, got {type(values[0]).__name__}s of them; "
                "gymnasium.wrappers.FlattenObservation makes one array of an observation"
            )
        joined.append(join(values, key, lambda i: f"path {i} of {label}", lengths))
        name = {"rewards": "reward", "observations": "observation", "actions": "action"}.get(key)
        check_finite(joined[-1], lengths, name or repr(key), label)
    return lengths, joined


def check_finite(values: AnyArray, lengths: Sequence[int], name: str, label: str) -> None:
    """Raises `ValueError`, naming path and step, unless values ``(S, ...)`` are finite numbers.

    ``name`` is the word for one value in messages, such as ``"reward"``.
    """
    try:
        finite = np.isfinite(values)
    except TypeError:
        raise ValueError(
            f"each {name} of {label} must be of numbers, got dtype {values.dtype}"
        ) from None
    if finite.all():
        return
    step = int(np.argwhere(~finite)[0, 0])
    path = int(np.searchsorted(np.cumsum(lengths), step, side="right"))
    value = values[step][~finite[step]].flat[0]
    raise ValueError(
        f"{name} of path {path} of {label} is {'NaN' if np.isnan(value) else value} at step "
        f"{step - sum(lengths[:path])}"
    )


def cut_observations(paths: Sequence[Path], label: str = "paths") -> list[AnyArray | None]:
    """The ``next_observation`` of each path that a time limit cut, ``None`` for the others.

    A path is cut if its last step is truncated and not terminated.
    """
    observations: list[AnyArray | None] = []
    for i, path in enumerate(paths):
        if "truncated" not in path:
            raise ValueError(f"path {i} of {label} must have the key 'truncated'")
        num_steps = len(path["observations"])
        terminated, truncated = (
            _last_flag(path, key, num_steps, f"path {i} of {label}")
            for key in ("terminated", "truncated")
        )
        if terminated or not truncated:
            observations.append(None)
            continue
        if path.get("next_observation") is None:
            raise ValueError(
                f"path {i} of {label} is truncated, but has no next_observation to bootstrap from"
            )
        observation = np.asarray(path["next_observation"])
        shape = np.shape(path["observations"])[1:]
        if observation.shape != shape or not np.isfinite(observation).all():
            raise ValueError(
                f"next_observation of path {i} of {label} must have shape {shape} and finite "
                f"numbers, got {observation}"
            )
        observations.append(observation)
    return observations


def _last_flag(path: Path, key: str, num_steps: int, name: str) -> bool:
    """The flag ``key`` of the last step of a path, which may be given for the last step alone."""
    flags = np.asarray(path.get(key, False))
    if flags.shape not in ((), (num_steps,)) or not flags.size:
        raise ValueError(f"{key} of {name} must have shape ({num_steps},), got {flags.shape}")
    return bool(flags.reshape(-1)[-1])


def _task_hint(paths: Any) -> str:
    """The end of a message, if paths may have been given task by task."""
    if not paths or not isinstance(paths, (Mapping, list, tuple)):
        return ""
    return "; the paths of several tasks are for MetaSampleProcessor or DiceMetaSampleProcessor"


def check_keys(paths: Any, keys: Sequence[str], label: str) -> None:
    """Checks that there are paths, and that each is a dict with these keys."""
    if not isinstance(paths, Sequence) or isinstance(paths, (str, bytes)) or not paths:
        got = "none" if isinstance(paths, Sequence) else short(paths)
        raise ValueError(
            f"{label} must be a list of at least one path, got {got}{_task_hint(paths)}"
        )
    for i, path in enumerate(paths):
        if not isinstance(path, dict):
            got = f"{short(path)}{_task_hint(path)}"
            raise ValueError(f"path {i} of {label} must be a dict, got {got}")
        if missing := set(keys) - path.keys():
            raise ValueError(f"path {i} of {label} lacks {sorted(missing)}; it has {sorted(path)}")
