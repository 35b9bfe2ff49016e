"""The state of a vector environment, in mid-episode too: the past of each environment."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers import state as layers
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.exclusive import ExclusiveVectorEnv, exclusive
from mtwrappers.vector.journal import Journal, Past


class StatefulVectorEnv(ExclusiveVectorEnv):
    """A vector environment whose state can be read and set where it keeps a journal."""

    envs_per_task: int
    autoreset_mode: AutoresetMode
    # For copies of an environment: a seed for the first reset of each.
    _first_seeds: list[int] | None = None
    _journal: Journal | None = None
    _buffers: Buffers
    _max_path_length: int | None
    _was_reset: bool
    _over: NDArray[np.bool_]

    @exclusive
    def get_state(self) -> dict[str, Any]:
        """All that the environments are, for `save_checkpoint`: of what JSON knows, and arrays.

        Raises:
            RuntimeError: If there is no journal.
        """
        pasts = self._get_journal().pasts(slice(0, self.num_envs))
        return {
            **self._identity(),
            "was_reset": self._was_reset,
            "over": self._over.copy(),
            "first_seeds": self._first_seeds,
            "pasts": [past.to_state() for past in pasts],
        }

    @exclusive
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned, here or in another executor.

        The environments are built anew and brought to where the others were.

        Args:
            state: The state of an executor with as many environments, of the same constructors and
                settings, on any number of workers.

        Raises:
            RuntimeError: If there is no journal.
            ValueError: If it is the state of other environments; these are then as they were.
            NotDeterministicError: If an environment does not come to where the other one was; these
                are then as they were.
        """
        journal = self._get_journal()
        expected, found = self._identity(), {name: state.get(name) for name in self._identity()}
        if found != expected:
            raise ValueError(f"expected the state of environments with {expected}, got {found}")
        pasts = [Past.from_state(past) for past in state["pasts"]]
        before = [array.copy() for array in self._buffers.obs]
        try:
            self._restore(pasts)
        except BaseException:
            for array, kept in zip(self._buffers.obs, before, strict=True):
                array[...] = kept
            raise
        journal.take(pasts)
        self._was_reset, self._first_seeds = state["was_reset"], state["first_seeds"]
        self._over[:] = state["over"]

    @exclusive
    def get_states(self) -> dict[str, Any]:
        """The state between two episodes of each environment, which needs no journal."""
        each = self._call_each(layers.get_state, [((), {})] * self.num_envs)
        return {"first_seeds": self._first_seeds, "envs": each}

    @exclusive
    def set_states(self, states: Mapping[str, Any]) -> None:
        """Takes what `get_states` returned; a `reset` of all environments is then due.

        Raises:
            ValueError: If they are the states of other environments.
        """
        each = states["envs"]
        if len(each) != self.num_envs:
            raise ValueError(f"expected states of {self.num_envs} environments, got {len(each)}")
        self._was_reset = False
        self._call_each(layers.set_state, [((state,), {}) for state in each])
        self._first_seeds = states["first_seeds"]

    def _identity(self) -> dict[str, Any]:
        return {
            "num_envs": self.num_envs,
            "envs_per_task": self.envs_per_task,
            "max_path_length": self._max_path_length,
            "autoreset_mode": self.autoreset_mode.value,
        }

    def _get_journal(self) -> Journal:
        if self._journal is None:
            raise RuntimeError(
                "the state of an executor needs its journal: pass journal=True, or "
                "on_worker_failure='recover'"
            )
        return self._journal

    @abc.abstractmethod
    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]: ...

    @abc.abstractmethod
    def _restore(self, pasts: Sequence[Past]) -> None:
        """Puts environments with these pasts in the place of the present ones, or raises."""
