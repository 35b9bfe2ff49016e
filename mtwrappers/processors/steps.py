"""The steps of some paths, checked and joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.processors.baselines import LinearFeatureBaseline, LinearTimeBaseline
from mtwrappers.processors.returns import Floats
from mtwrappers.samplers.path import (
    Path,
    check_finite,
    check_keys,
    cut_observations,
    join_arrays,
    join_infos,
    join_steps,
)


class Steps:
    """``S`` steps of ``P`` paths, one path after another, or `ValueError` if they are malformed.

    The paths are not changed; ``what`` is what messages call them.
    """

    def __init__(self, paths: Sequence[Path], what: str) -> None:
        check_keys(paths, (), what)
        expected = paths[0].keys()
        check_keys(paths[:1], ("observations", "actions", "rewards"), what)
        for i, path in enumerate(paths):
            if path.keys() != expected:
                raise ValueError(
                    f"path {i} of {what} has the keys {sorted(path)}, expected {sorted(expected)} "
                    "as in path 0"
                )
        self.paths, self.what = paths, what
        self.observations, rewards, self.lengths = join_steps(paths, "rewards", what)
        self.rewards = rewards.astype(np.float64, copy=False)
        self.starts = np.cumsum([0, *self.lengths[:-1]])
        self.actions = join_arrays(paths, "actions", self.lengths, what)
        check_finite(self.actions, self.lengths, "action", what)
        for key in ("terminated", "truncated"):
            if np.ndim(paths[0].get(key, False)):
                join_arrays(paths, key, self.lengths, what)
        self.env_infos = join_infos(paths, "env_infos", self.lengths, what)
        self.agent_infos = join_infos(paths, "agent_infos", self.lengths, what)

    def fit_predict(
        self, baseline: Any, targets: Floats, key: str, discount: float | None = None
    ) -> tuple[Floats, Floats]:
        """Fits a baseline to targets ``(S,)`` and predicts them.

        With a ``discount``, targets go on after a time limit. Returns the predictions for all
        steps, ``(S,)``, and for what follows each path, ``(P,)``: zero where nothing does.
        """
        # Subclasses may change fit or predict; these very classes take all paths at once.
        if type(baseline) in (LinearFeatureBaseline, LinearTimeBaseline) and discount is None:
            values = baseline.fit_steps(self.observations, targets, self.lengths)
            check_finite(values, self.lengths, "prediction", self.what)
            return values, np.zeros(len(self.lengths))
        own = np.split(targets, self.starts[1:])
        paths = [{**path, key: part} for path, part in zip(self.paths, own, strict=True)]
        ends: list[NDArray[Any] | None] = [None] * len(paths)
        if discount is None:
            baseline.fit(paths, target_key=key)
        else:
            ends = cut_observations(paths, self.what)
            baseline.fit_bootstrapped(paths, discount, target_key=key)
        counts, predicted = [], []
        for i, (path, end) in enumerate(zip(paths, ends, strict=True)):
            if end is not None:
                path["observations"] = np.concatenate([path["observations"], end[None]])
            counts.append(self.lengths[i] + (end is not None))
            predicted.append(baseline.predict(path))
            if np.shape(predicted[i]) != (counts[i],):
                raise ValueError(
                    f"the baseline must predict shape ({counts[i]},) for path {i} of {self.what}, "
                    f"got {np.shape(predicted[i])}"
                )
        values = np.concatenate(predicted)
        check_finite(values, counts, "prediction", self.what)
        last = np.cumsum(counts) - 1
        cut = np.array([end is not None for end in ends])
        return np.delete(values, last[cut]), np.where(cut, values[last], 0.0)
