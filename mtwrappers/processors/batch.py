"""Paths as flat arrays, checked once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.returns import path_ends
from mtwrappers.samplers.trajectory import Path, check_paths, check_rewards, last_flag, stack

# Makes one array of an array a path.
Join: TypeAlias = Callable[[Sequence[Any]], Any]


class PathBatch:
    """The steps of some paths, one path after another.

    Args:
        paths: See `mtwrappers.samplers.trajectory`. They are not changed.
        what: What messages call them.

    Raises:
        ValueError: If the paths are malformed.

    Attributes:
        what: What messages call the paths.
        lengths: Steps of each path, ``(P,)``.
        ends: See `path_ends`.
        rewards: ``(S,)``.
    """

    def __init__(self, paths: Sequence[Path], what: str = "paths") -> None:
        lengths = check_paths(paths, what)
        self.what = what
        self.paths = paths
        self.lengths = np.array(lengths, dtype=np.intp)
        self.ends = path_ends(self.lengths)
        self.rewards: NDArray[np.float64] = np.concatenate(
            [path["rewards"] for path in paths], dtype=np.float64
        )
        check_rewards(self.rewards, lengths, what)

    @functools.cached_property
    def observations(self) -> NDArray[Any]:
        """The observations of all steps, ``(S, O)``."""
        joined: NDArray[Any] = np.concatenate([path["observations"] for path in self.paths])
        return joined

    def gather(self, key: str, join: Join = np.concatenate) -> Any:
        """A key of all paths, joined; an empty dict where paths have no such infos."""
        first = self.paths[0].get(key, {})
        if isinstance(first, Mapping) and not first:
            return {}
        return stack([path[key] for path in self.paths], join)

    def times(self) -> NDArray[np.float64]:
        """The number of each step within its path, ``(S,)``: 0, 1, 2, ..."""
        starts = self.ends - self.lengths + 1
        return np.arange(len(self.rewards), dtype=np.float64) - np.repeat(starts, self.lengths)

    def bootstrapped(self) -> NDArray[np.bool_]:
        """Which paths were cut by a time limit and not ended by the task, ``(P,)``."""
        return np.array(
            [
                last_flag(path, "truncated") and not last_flag(path, "terminated")
                for path in self.paths
            ]
        )


def task_batches(paths: Mapping[Any, Sequence[Path]]) -> list[PathBatch]:
    """The paths of each task as flat arrays.

    Raises:
        ValueError: If there are no tasks, or the paths of one are malformed.
    """
    if not isinstance(paths, Mapping) or not paths:
        got = "none" if isinstance(paths, Mapping) else type(paths).__name__
        raise ValueError(f"expected a dict of the paths of at least one task, got {got}")
    batches = [PathBatch(own, f"paths of task {task!r}") for task, own in paths.items()]
    _join_observations(batches)
    return batches


def _join_observations(batches: Sequence[PathBatch]) -> None:
    """Concatenates the observations of all tasks at once, if they are of one kind.

    They are most of a batch, and the system hands out one large piece of memory in larger pages:
    a task's are a view of it.
    """
    values = [path["observations"] for batch in batches for path in batch.paths]
    if {*map(type, values)} != {np.ndarray}:
        return
    # NumPy has one object of each usual dtype, and these are told apart sooner than dtypes are.
    dtypes = {id(value.dtype) for value in values}
    sizes = {batch.paths[0]["observations"].shape[1:] for batch in batches}
    if len(dtypes) > 1 or len(sizes) > 1:
        return
    stops = np.cumsum([len(batch.rewards) for batch in batches])
    for batch, own in zip(batches, np.split(np.concatenate(values), stops[:-1]), strict=True):
        batch.observations = own
