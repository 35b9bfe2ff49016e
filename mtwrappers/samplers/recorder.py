"""Keeps the steps of a rollout, and cuts them into paths."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import join, leaves, map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Step

# Beside these, keys with an underscore say which environments reported the key without it.
_NOT_OF_A_STEP = frozenset({"final_obs", "final_info", "episode"})
_NOT_KEPT: dict[str, Any] = {"observations": None, "next_observations": None}
_COLUMNS = ("actions", "rewards", "terminated", "truncated", "agent_infos")


class Recorder:
    """Keeps the steps of ``N`` environments, whose paths are views of arrays ``(N, T, ...)``.

    The vector environment is in SAME_STEP mode, so that every environment takes a step at every
    time, and an episode's own last observation and info are in ``infos``.

    A path's ``env_infos`` are those that every counted step of its environment reported. Nested
    infos are left out.
    """

    def __init__(self) -> None:
        self._steps: list[Step] = []
        self._observations: Any = None
        self._room = 128  # steps

    def __call__(self, step: Step) -> None:
        """Adds a step of every environment."""
        now, seen = len(self._steps), step.observations
        if not now:
            self._observations = map_arrays(self._empty, seen)
        elif now == self._room:
            self._room *= 2
            longer = map_arrays(self._empty, seen)
            for old, new in zip(leaves(self._observations), leaves(longer), strict=True):
                new[:, :now] = old
            self._observations = longer
        # These are large: they are written while they are fresh in the processor's cache.
        for array, own in zip(leaves(self._observations), leaves(seen), strict=True):
            if own.dtype != array.dtype or own.shape[1:] != array.shape[2:]:
                raise ValueError(
                    f"observations must keep the shape {array.shape[2:]} and {array.dtype} of the "
                    f"first step, got {own.shape[1:]} and {own.dtype} in step {now}"
                )
            array[:, now] = own
        # Environments make new arrays in every step; a policy may use its own again.
        actions, said = np.array(step.actions), map_arrays(np.array, step.agent_infos)
        self._steps.append(step._replace(actions=actions, agent_infos=said, **_NOT_KEPT))

    def _empty(self, array: NDArray[Any]) -> NDArray[Any]:
        return np.empty((len(array), self._room, *array.shape[1:]), array.dtype)

    def paths(self) -> list[list[Path]]:
        """The paths of each environment, in the order in which they ended."""
        columns = {
            field: join([getattr(step, field) for step in self._steps], field, "step {}", axis=1)
            for field in _COLUMNS
        }
        said, infos = columns.pop("agent_infos"), self._infos()
        start = [0] * len(columns["rewards"])
        paths: list[list[Path]] = [[] for _ in start]
        for stop, step in enumerate(self._steps, 1):
            for i in (step.over & step.counted).nonzero()[0].tolist():
                own = i, slice(start[i], stop)
                cut, start[i] = operator.itemgetter(own), stop
                path: Path = {
                    "observations": map_arrays(cut, self._observations),
                    **{key: array[own] for key, array in columns.items()},
                    "env_infos": {k: array[own] for k, (array, told) in infos.items() if told[i]},
                    "agent_infos": map_arrays(cut, said),
                    "next_observation": map_arrays(np.asarray, step.infos["final_obs"][i]),
                }
                paths[i].append(path)
        return paths

    def _infos(self) -> dict[str, tuple[NDArray[Any], NDArray[np.bool_]]]:
        """The infos ``(N, T, ...)``, and who reported them in every counted step, ``(N,)``.

        A key that the first step lacks is missing in a path.
        """
        first = self._steps[0].infos
        keys = {*first, *first.get("final_info", ())} - _NOT_OF_A_STEP
        counted = np.stack([step.counted for step in self._steps])
        infos = {}
        for key in sorted(key for key in keys if not key.startswith("_")):
            columns, told = zip(*(step.info(key) for step in self._steps), strict=True)
            # Nested ones, and those that nobody reported, have no shape.
            shapes = {getattr(column, "shape", None) for column in columns}
            if len(shapes) == 1 and None not in shapes:
                known: NDArray[np.bool_] = np.all(np.stack(told) | ~counted, axis=0)
                infos[key] = np.stack(columns, axis=1), known
        return infos


def with_common_infos(paths: list[Path]) -> list[Path]:
    """Takes those ``env_infos`` out of a task's paths that not all of them have."""
    common = set.intersection(*(set(path["env_infos"]) for path in paths)) if paths else set()
    for path in paths:
        path["env_infos"] = {key: path["env_infos"][key] for key in sorted(common)}
    return paths
