"""The steps of a rollout, recorded and cut into trajectories."""

from __future__ import annotations

import copy
import operator
from typing import Any

import numpy as np

from mtwrappers.common.types import AnyArray
from mtwrappers.samplers.nested import join, map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Flags, Step

# Keys of infos that are not the values of a step; keys with an underscore are masks.
_NO_STEP_VALUES = frozenset({"final_obs", "final_info", "episode"})
_COLUMNS = ("observations", "actions", "rewards", "terminated", "truncated", "agent_infos")


class Recorder:
    """Records the steps of ``N`` environments. Trajectories are views of arrays ``(N, T, ...)``.

    Every environment must take a step at every time, as in the modes DISABLED and SAME_STEP.

    A trajectory's ``env_infos`` are the infos that all counted steps of its environment reported.
    Infos that the first step lacks or that change their shape, and nested infos, are left out.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        # The last observation of each environment whose episode ended with a step, by its index.
        self._last_obs: list[dict[int, Any]] = []
        self._form: Any = None
        # Of each info, the values in each step, (N, ...), and a mask of the environments that have
        # always reported it, (N,) bool.
        self._infos: dict[str, list[AnyArray]] = {}
        self._always_reported: dict[str, Flags] = {}

    def __call__(self, step: Step) -> None:
        """Adds a step of every environment.

        Raises:
            ValueError: If observations change their shape or dtype.
        """
        form = map_arrays(lambda array: (array.shape[1:], array.dtype), step.observations)
        if not self._steps:
            self._form = form
            keys = {*step.infos, *step.infos.get("final_info", ())} - _NO_STEP_VALUES
            self._infos = {key: [] for key in sorted(keys) if not key.startswith("_")}
            self._always_reported = {key: np.ones_like(step.finished) for key in self._infos}
        if form != self._form:
            raise ValueError(
                f"observations must keep the shape and dtype {self._form} of the first step, got "
                f"{form} in step {len(self._steps)}"
            )
        # Copies, because a wrapper may reuse its arrays. The policy's are new in each step.
        for key, columns in [*self._infos.items()]:
            values, reported = step.info(key)
            shape = getattr(values, "shape", None)  # None if they are nested, or nobody has any
            if shape is None or (columns and shape != columns[0].shape):
                del self._infos[key]
                continue
            columns.append(np.array(values))
            self._always_reported[key] &= reported | ~step.counted
        ended = np.flatnonzero(step.finished & step.counted).tolist()
        self._last_obs.append({i: _last_observation(step, i) for i in ended})
        self._steps.append(
            step._replace(
                observations=map_arrays(np.array, step.observations),
                next_observations=None,
                rewards=np.array(step.rewards),
                terminated=np.array(step.terminated),
                truncated=np.array(step.truncated),
                infos={},
            )
        )

    def paths(self) -> list[list[Path]]:
        """The trajectories of each environment, in the order in which they ended.

        Raises:
            RuntimeError: If there was no step.
            ValueError: If actions or agent infos have changed their shape.
        """
        if not self._steps:
            raise RuntimeError("paths() was called before the first step: record a rollout first")
        columns = {
            field: join([getattr(s, field) for s in self._steps], field, "step {}".format, axis=1)
            for field in _COLUMNS
        }
        infos = {key: np.stack(values, axis=1) for key, values in self._infos.items()}
        starts = [0] * len(columns["rewards"])  # of each environment's current trajectory
        paths: list[list[Path]] = [[] for _ in starts]
        for stop, last_obs in enumerate(self._last_obs, 1):
            for i, next_observation in last_obs.items():
                cut = operator.itemgetter((i, slice(starts[i], stop)))
                starts[i] = stop
                path: Path = {field: map_arrays(cut, arrays) for field, arrays in columns.items()}
                path["env_infos"] = {
                    key: cut(values)
                    for key, values in infos.items()
                    if self._always_reported[key][i]
                }
                path["next_observation"] = next_observation
                paths[i].append(path)
        return paths


def _last_observation(step: Step, i: int) -> Any:
    """A copy of the observation after the last step of the episode of environment ``i``."""
    if "final_obs" in step.infos:
        return copy.deepcopy(step.infos["final_obs"][i])
    return map_arrays(
        lambda array: array[i] if array.dtype == object else np.array(array[i]),
        step.next_observations,
    )


def with_common_infos(paths: list[Path]) -> list[Path]:
    """Removes ``env_infos`` that not all trajectories of a task have."""
    common = set.intersection(*(set(path["env_infos"]) for path in paths)) if paths else set()
    for path in paths:
        path["env_infos"] = {key: path["env_infos"][key] for key in sorted(common)}
    return paths
