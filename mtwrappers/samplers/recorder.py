"""The steps of a rollout, recorded and cut into trajectories."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import join, map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Step

# Keys of infos that are not the values of a step; keys with an underscore are masks.
_NOT_OF_A_STEP = frozenset({"final_obs", "final_info", "episode"})
_COLUMNS = ("observations", "actions", "rewards", "terminated", "truncated", "agent_infos")


class Recorder:
    """Records the steps of ``N`` environments. Trajectories are views of arrays ``(N, T, ...)``.

    The vector environment must be in SAME_STEP mode, in which every environment takes a step at
    every time, and an episode's last observation and info are in ``infos``.

    A trajectory's ``env_infos`` are the infos that all counted steps of its environment reported.
    Nested infos are left out.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
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
        copied = map_arrays(np.array, step.observations)  # a wrapper may reuse its arrays
        self._steps.append(step._replace(observations=copied, next_observations=None))

    def paths(self) -> list[list[Path]]:
        """The trajectories of each environment, in the order in which they ended."""
        columns = {
            field: join([getattr(s, field) for s in self._steps], field, "step {}".format, axis=1)
            for field in _COLUMNS
        }
        infos = self._infos()
        start = [0] * len(columns["rewards"])
        paths: list[list[Path]] = [[] for _ in start]
        for stop, step in enumerate(self._steps, 1):
            for i in (step.finished & step.counted).nonzero()[0].tolist():
                cut, start[i] = operator.itemgetter((i, slice(start[i], stop))), stop
                path: Path = {
                    **{field: map_arrays(cut, arrays) for field, arrays in columns.items()},
                    "env_infos": {k: cut(a) for k, (a, always) in infos.items() if always[i]},
                    "next_observation": map_arrays(_as_array, step.infos["final_obs"][i]),
                }
                paths[i].append(path)
        return paths

    def _infos(self) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
        """The infos ``(N, T, ...)``, and a mask of the environments that always reported them.

        Keys that the first step lacks are left out.
        """
        first = self._steps[0].infos
        keys = {*first, *first.get("final_info", ())} - _NOT_OF_A_STEP
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


def _as_array(part: Any) -> Any:
    return part if isinstance(part, str) else np.asarray(part)


def with_common_infos(paths: list[Path]) -> list[Path]:
    """Removes ``env_infos`` that not all trajectories of a task have."""
    common = set.intersection(*(set(path["env_infos"]) for path in paths)) if paths else set()
    for path in paths:
        path["env_infos"] = {key: path["env_infos"][key] for key in sorted(common)}
    return paths
