"""The steps of a rollout, recorded and cut into trajectories."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.types import AnyArray
from mtwrappers.samplers.nested import join, map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Step

# Keys of infos that are not the values of a step; keys with an underscore are masks.
_NO_STEP_VALUES = frozenset({"final_obs", "final_info", "episode"})
_COLUMNS = ("observations", "actions", "rewards", "terminated", "truncated", "agent_infos")


class Recorder:
    """Records the steps of ``N`` environments. Trajectories are views of arrays ``(N, T, ...)``.

    Every environment must take a step at every time, as in the modes DISABLED and SAME_STEP.

    A trajectory's ``env_infos`` are the infos that all counted steps of its environment reported.
    Nested infos are left out.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        # The last observation of each environment whose episode ended with a step, by its index.
        self._last_obs: list[dict[int, Any]] = []
        self._form: Any = None

    def __call__(self, step: Step) -> None:
        """Adds a step of every environment."""
        form = map_arrays(lambda array: (array.shape[1:], array.dtype), step.observations)
        self._form = self._form or form
        if form != self._form:
            raise ValueError(
                f"observations must keep the shape and dtype {self._form} of the first step, got "
                f"{form} in step {len(self._steps)}"
            )
        ended = np.flatnonzero(step.finished & step.counted).tolist()
        self._last_obs.append({i: _last_observation(step, i) for i in ended})
        # Copies, because a wrapper may reuse its arrays. The policy's are new in each step.
        self._steps.append(
            step._replace(
                observations=map_arrays(np.array, step.observations),
                next_observations=None,
                rewards=np.array(step.rewards),
                terminated=np.array(step.terminated),
                truncated=np.array(step.truncated),
                infos=_copied_infos(step.infos),
            )
        )

    def paths(self) -> list[list[Path]]:
        """The trajectories of each environment, in the order in which they ended."""
        columns = {
            field: join([getattr(s, field) for s in self._steps], field, "step {}".format, axis=1)
            for field in _COLUMNS
        }
        infos = self._infos()
        starts = [0] * len(columns["rewards"])  # of each environment's current trajectory
        paths: list[list[Path]] = [[] for _ in starts]
        for stop, last_obs in enumerate(self._last_obs, 1):
            for i, next_observation in last_obs.items():
                cut = operator.itemgetter((i, slice(starts[i], stop)))
                starts[i] = stop
                path: Path = {field: map_arrays(cut, arrays) for field, arrays in columns.items()}
                path["env_infos"] = {
                    key: cut(values) for key, (values, always) in infos.items() if always[i]
                }
                path["next_observation"] = next_observation
                paths[i].append(path)
        return paths

    def _infos(self) -> dict[str, tuple[AnyArray, NDArray[np.bool_]]]:
        """The infos ``(N, T, ...)``, and a mask of the environments that always reported them.

        Keys that the first step lacks are left out.
        """
        first = self._steps[0].infos
        keys = {*first, *first.get("final_info", ())} - _NO_STEP_VALUES
        counted = np.stack([step.counted for step in self._steps])
        infos = {}
        for key in sorted(key for key in keys if not key.startswith("_")):
            columns, reported = zip(*(step.info(key) for step in self._steps), strict=True)
            # Nested infos, and infos that no environment reported, have no shape.
            shapes = {getattr(column, "shape", None) for column in columns}
            if len(shapes) == 1 and None not in shapes:
                always: NDArray[np.bool_] = np.all(np.stack(reported) | ~counted, axis=0)
                infos[key] = np.stack(columns, axis=1), always
        return infos


def _copied_infos(infos: Mapping[str, Any]) -> dict[str, Any]:
    """Infos with copies of the arrays that `Recorder` reads; those of episodes' ends included."""
    copied = {}
    for key, value in infos.items():
        if key == "final_info":
            value = _copied_infos(value)
        elif isinstance(value, np.ndarray) and key not in _NO_STEP_VALUES:
            value = value.copy()
        copied[key] = value
    return copied


def _last_observation(step: Step, i: int) -> Any:
    """The observation after the last step of the episode of environment ``i``."""
    if "final_obs" in step.infos:
        last = step.infos["final_obs"][i]
    else:
        last = map_arrays(operator.itemgetter(i), step.next_observations)
    return map_arrays(lambda array: array if isinstance(array, str) else np.array(array), last)


def with_common_infos(paths: list[Path]) -> list[Path]:
    """Removes ``env_infos`` that not all trajectories of a task have."""
    common = set.intersection(*(set(path["env_infos"]) for path in paths)) if paths else set()
    for path in paths:
        path["env_infos"] = {key: path["env_infos"][key] for key in sorted(common)}
    return paths
