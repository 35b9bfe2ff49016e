"""Records what a vector environment returns, and cuts it into paths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.trajectory import Path

_NOT_STEPS = frozenset({"final_obs", "final_info", "episode"})


class Recorder:
    """Arrays ``(N, time, ...)`` that grow as steps are added; paths are views of them.

    The vector environment is in SAME_STEP mode, so every environment takes a step at every time,
    and an episode's own last observation and info are in ``infos``.

    Args:
        quotas: How many paths to keep of each environment; what comes after is not recorded.
        length: How many steps to make room for at first.
    """

    def __init__(self, quotas: NDArray[np.int64], length: int) -> None:
        self._left = quotas.copy()
        self._n = len(quotas)
        self._room = length
        self._t = 0
        self._start = np.zeros(self._n, dtype=np.int64)
        self._arrays: dict[str, NDArray[Any]] = {}
        self._info_keys: set[str] | None = None
        self._agent_keys: set[str] | None = None
        self._ends: list[tuple[int, int, int, Any]] = []

    @property
    def complete(self) -> bool:
        """Whether every environment has given its paths."""
        return not self._left.any()

    def add(
        self,
        observations: NDArray[Any],
        actions: NDArray[Any],
        agent_infos: dict[str, NDArray[Any]],
        step: tuple[Any, NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]],
    ) -> NDArray[np.bool_]:
        """Adds a step of every environment.

        Args:
            observations: What the actions answered, ``(N, O)``.
            actions: ``(N, A)``.
            agent_infos: ``(N, ...)`` each.
            step: What the vector environment's ``step`` returned.

        Returns:
            Which environments ended an episode, ``(N,)``.
        """
        _, rewards, terminated, truncated, infos = step
        if self._t == self._room:
            self._grow()
        self._put("observations", observations)
        self._put("actions", actions)
        self._put("rewards", rewards)
        self._put("terminated", terminated)
        self._put("truncated", truncated)
        self._agent_keys = self._common(self._agent_keys, agent_infos)
        for key in self._agent_keys:
            self._put(f"agent_infos/{key}", agent_infos[key])
        self._put_infos(infos)
        over: NDArray[np.bool_] = terminated | truncated
        self._t += 1
        if over.any():
            self._cut(over, infos)
        return over

    def _put(self, key: str, values: NDArray[Any]) -> None:
        values = np.asarray(values)
        array = self._arrays.get(key)
        if array is None:
            shape = (self._n, self._room, *values.shape[1:])
            array = self._arrays[key] = np.empty(shape, values.dtype)
        elif array.dtype != values.dtype:
            # Whole numbers at first and fractions later: nothing is to be cut off.
            array = self._arrays[key] = array.astype(np.result_type(array.dtype, values.dtype))
        array[:, self._t] = values

    def _put_infos(self, infos: dict[str, Any]) -> None:
        final: dict[str, Any] = infos.get("final_info", {})
        present: dict[str, NDArray[Any]] = {}
        for key in dict.fromkeys([*infos, *final]):
            if key[0] == "_" or key in _NOT_STEPS:
                continue
            values = self._of_this_step(key, infos, final)
            if values is not None:
                present[key] = values
        self._info_keys = self._common(self._info_keys, present)
        for key in self._info_keys:
            self._put(f"env_infos/{key}", present[key])

    def _of_this_step(
        self, key: str, infos: dict[str, Any], final: dict[str, Any]
    ) -> NDArray[Any] | None:
        """What every environment reports of the step, or ``None`` if one does not.

        Where an episode ended, ``infos`` are of the next one's reset, and ``final`` of the step.
        """
        now, last = infos.get(key), final.get(key)
        if isinstance(now, dict) or isinstance(last, dict):
            return None
        if last is None:
            return now if now is not None and infos[f"_{key}"].all() else None
        ended = final[f"_{key}"]
        if now is None:
            return last if ended.all() else None
        if not (infos[f"_{key}"] | ended).all() or now.shape != last.shape:
            return None
        mask = ended.reshape(-1, *[1] * (now.ndim - 1))
        merged: NDArray[Any] = np.where(mask, last, now)
        return merged

    @staticmethod
    def _common(known: set[str] | None, present: dict[str, Any]) -> set[str]:
        """The keys that every step has had so far."""
        return set(present) if known is None else known & present.keys()

    def _cut(self, over: NDArray[np.bool_], infos: dict[str, Any]) -> None:
        finals = infos["final_obs"]
        for i in np.flatnonzero(over).tolist():
            if self._left[i]:
                self._ends.append((i, int(self._start[i]), self._t, np.array(finals[i])))
                self._left[i] -= 1
            self._start[i] = self._t

    def _grow(self) -> None:
        for key, array in self._arrays.items():
            larger = np.empty((self._n, 2 * self._room, *array.shape[2:]), array.dtype)
            larger[:, : self._room] = array
            self._arrays[key] = larger
        self._room *= 2

    def paths(self) -> list[list[Path]]:
        """The paths of each environment, in the order in which they ended."""
        plain = ("observations", "actions", "rewards", "terminated", "truncated")
        paths: list[list[Path]] = [[] for _ in range(self._n)]
        for i, start, stop, final in self._ends:

            def cut(key: str, i: int = i, span: slice = slice(start, stop)) -> NDArray[Any]:
                return self._arrays[key][i, span]

            path: Path = {key: cut(key) for key in plain}
            path["env_infos"] = {k: cut(f"env_infos/{k}") for k in sorted(self._info_keys or ())}
            path["agent_infos"] = {
                k: cut(f"agent_infos/{k}") for k in sorted(self._agent_keys or ())
            }
            path["next_observation"] = final
            paths[i].append(path)
        return paths
