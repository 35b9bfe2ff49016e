"""Records the steps of a rollout, and cuts them into paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.rollout import Step

# Beside these, keys with an underscore say which environments reported the key without it.
_NOT_OF_A_STEP = frozenset({"final_obs", "final_info", "episode"})
_STEP_FIELDS = ("observations", "actions", "rewards", "terminated", "truncated", "agent_infos")


class Recorder:
    """Arrays ``(N, time, ...)`` that grow as steps are added; paths are views of them.

    The vector environment is in SAME_STEP mode, so that every environment takes a step at every
    time, and an episode's own last observation and info are in ``infos``.

    A path's ``env_infos`` are those that every counted step of its task's environments reported.
    Nested infos are left out.

    Args:
        num_envs: ``N``, how many environments.
        envs_per_task: ``K``; environments ``task * K + k`` belong to a task.
        room: How many steps to make room for at first.
    """

    def __init__(self, num_envs: int, envs_per_task: int = 1, room: int = 128) -> None:
        self._n, self._k = num_envs, envs_per_task
        self._room = room
        self._t = 0
        self._start = np.zeros(num_envs, dtype=np.int64)
        self._arrays: dict[tuple[Any, ...], NDArray[Any]] = {}
        self._told: dict[str, NDArray[np.bool_]] | None = None  # by whom at all counted steps
        self._forms: dict[str, Any] = {}
        self._ends: list[tuple[int, int, int, Any]] = []

    def __call__(self, step: Step) -> None:
        """Adds a step of every environment."""
        if self._t == self._room:
            self._grow()
        for field in _STEP_FIELDS:
            form = map_arrays(self._put, getattr(step, field), field)
            if self._forms.setdefault(field, form) != form:
                raise ValueError(
                    f"{field} must have the same keys at every step: expected "
                    f"{sorted(self._forms[field])}, got {sorted(form)}"
                )
        self._put_infos(step)
        self._t += 1
        if step.over.any():
            finals = step.infos["final_obs"]
            for i in np.flatnonzero(step.over).tolist():
                if step.counted[i]:
                    final = map_arrays(lambda a, *_: np.array(a), finals[i])
                    self._ends.append((i, int(self._start[i]), self._t, final))
                self._start[i] = self._t

    def _put(self, values: Any, *key: Any) -> None:
        values = np.asarray(values)
        array = self._arrays.get(key)
        if array is None:
            shape = (self._n, self._room, *values.shape[1:])
            array = self._arrays[key] = np.empty(shape, values.dtype)
        elif array.shape[2:] != values.shape[1:]:
            raise ValueError(
                f"{'/'.join(map(str, key))} must have the same shape at every step: expected "
                f"{array.shape[2:]}, got {values.shape[1:]}"
            )
        elif array.dtype != values.dtype:
            # Whole numbers at first and fractions later: nothing is to be cut off.
            array = self._arrays[key] = array.astype(np.result_type(array.dtype, values.dtype))
        array[:, self._t] = values

    def _put_infos(self, step: Step) -> None:
        # A key that is missing at the first step is missing in a path, and is not asked for again.
        if self._told is None:
            keys = {*step.infos, *step.infos.get("final_info", ())}
            keys = {key for key in keys - _NOT_OF_A_STEP if not key.startswith("_")}
            self._told = {key: np.ones(self._n, dtype=np.bool_) for key in sorted(keys)}
        for key, known in list(self._told.items()):
            values, told = step.info(key)
            array = self._arrays.get(("env_infos", key))
            fits = isinstance(values, np.ndarray) and (
                array is None or array.shape[2:] == values.shape[1:]
            )
            known &= (told & fits) | ~step.counted
            if not known.any() or not fits:
                del self._told[key]
            else:
                self._put(values, "env_infos", key)

    def _grow(self) -> None:
        for key, array in self._arrays.items():
            larger = np.empty((self._n, 2 * self._room, *array.shape[2:]), array.dtype)
            larger[:, : self._room] = array
            self._arrays[key] = larger
        self._room *= 2

    def paths(self) -> list[list[Path]]:
        """The paths of each environment, in the order in which they ended."""
        told = {
            key: np.repeat(known.reshape(-1, self._k).all(axis=1), self._k)
            for key, known in (self._told or {}).items()
        }
        paths: list[list[Path]] = [[] for _ in range(self._n)]
        for i, start, stop, final in self._ends:

            def cut(
                _: Any, *key: Any, i: int = i, span: slice = slice(start, stop)
            ) -> NDArray[Any]:
                return self._arrays[key][i, span]

            path: Path = {key: map_arrays(cut, form, key) for key, form in self._forms.items()}
            path["env_infos"] = {k: cut(None, "env_infos", k) for k in told if told[k][i]}
            path["next_observation"] = final
            paths[i].append(path)
        return paths
