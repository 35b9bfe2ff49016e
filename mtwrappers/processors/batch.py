"""Paths as flat arrays, checked once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.returns import path_ends
from mtwrappers.samplers.trajectory import Path, check_paths, check_rewards, last_flag, stack


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
        observations: ``(S, O)``.
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
        self.observations: NDArray[Any] = np.concatenate([path["observations"] for path in paths])

    def gather(self, key: str) -> Any:
        """A key of all paths, concatenated; an empty dict where paths have no such infos."""
        first = self.paths[0].get(key, {})
        if isinstance(first, Mapping) and not first:
            return {}
        return stack([path[key] for path in self.paths])

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
