"""Resets from snapshots: a reset to a task that was reset to before restores what that one left.

Meta-World's reset settles the hand for 250 physics steps, always with the same result for the same
task. The first reset to a task runs it; what it leaves is kept: MuJoCo's integration state, the
few numbers of the model that it moved, the Python attributes that it assigned, and the
observation. MuJoCo computes the rest from the state; where Meta-World's reset leaves something
else (the solver's warm start, forces of the settling, positions from before its last move), that
is kept too, so that whatever is read or drawn before the first step is the same.

That is about 10 kB a task, and 30 kB for those classes that move their object last.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from mtwrappers.metaworld.fast.memory import (
    DataMemory,
    EditableMemory,
    OptionReader,
    VertexSample,
)

MAX_SNAPSHOTS = 1024  # an environment: 10 MB, or 30 MB
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION


@dataclass
class Snapshot:
    """What a reset left behind."""

    state: NDArray[np.float64]
    model: list[tuple[int, NDArray[np.intp], NDArray[np.uint8]]]
    data: tuple[NDArray[np.int32], NDArray[np.uint64]]
    forces: NDArray[np.float64] | None
    copied: dict[str, Any]
    kept: dict[str, Any]
    obs: NDArray[np.float64]


class Snapshots:
    """The snapshots of one environment, the least recently used forgotten first.

    A model that was edited from outside (domain randomisation) is found at the next reset, and
    ends the use of snapshots for the environment: the old physics would come back with them.

    It does not hold the environment, which holds it: a model of 21 MB should go with the last
    reference to its environment, not with the next garbage collection.

    Args:
        env: A Sawyer environment, as it is before its first reset.
        limit: How many to keep.
    """

    def __init__(self, env: Any, limit: int = MAX_SNAPSHOTS) -> None:
        self._model, self._data = env.model, env.data
        self._limit = limit
        self._memory = EditableMemory(self._model)
        self._before = self._memory.save()
        self._expected = self._memory.save()
        self._read_options = OptionReader(self._model)
        self._options = self._read_options()
        self._vertices = VertexSample(self._model)
        self._data_memory = DataMemory(self._data)
        self._size = mujoco.mj_stateSize(self._model, _STATE)
        self._present: Snapshot | None = None
        self._kept: OrderedDict[Any, Snapshot] = OrderedDict()
        self._recorder = _recorder_of(type(env))

    def __len__(self) -> int:
        return len(self._kept)

    def trustworthy(self, env: Any) -> bool:
        """Whether the model is as the last reset left it."""
        return (
            env.model is self._model
            and env.data is self._data
            and self._memory.equals(self._expected)
            and self._read_options() == self._options
            and self._vertices.unchanged()
        )

    def restore(self, env: Any, key: Any) -> NDArray[np.float64] | None:
        """Brings back the reset to ``key`` and returns its observation, if it is known."""
        snapshot = self._kept.get(key)
        if snapshot is None:
            return None
        self._kept.move_to_end(key)
        if snapshot is not self._present:
            self._move_model(snapshot)
        _compute(self._model, self._data, snapshot.state)
        self._data_memory.write(snapshot.data)
        if snapshot.forces is not None:
            self._data.efc_force[:] = snapshot.forces
        attributes = env.__dict__
        attributes.update(snapshot.kept)
        for name, value in snapshot.copied.items():
            attributes[name] = value.copy()
        return snapshot.obs.copy()

    def record(self, env: Any, key: Any, reset: Any) -> NDArray[np.float64]:
        """Runs ``reset()``, keeps what it leaves, and returns its observation."""
        own_class = type(env)
        names: set[str] = set()
        env.__dict__["_assigned"] = names
        env.__class__ = self._recorder
        try:
            obs: NDArray[np.float64] = reset()
        finally:
            # Not by assignment, which the recorder would remember.
            object.__setattr__(env, "__class__", own_class)
            del env.__dict__["_assigned"]
        state = np.empty(self._size)
        mujoco.mj_getState(self._model, self._data, state, _STATE)
        data, forces = self._rest_of_data(state)
        copied, kept = self._split(env, names)
        self._expected = self._memory.save()
        changes = self._memory.changes(self._before)
        self._present = self._kept[key] = Snapshot(
            state, changes, data, forces, copied, kept, obs.copy()
        )
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)
        return obs

    def _rest_of_data(
        self, state: NDArray[np.float64]
    ) -> tuple[tuple[NDArray[np.int32], NDArray[np.uint64]], NDArray[np.float64] | None]:
        """What the simulation holds beside what follows from its state."""
        computed = copy.copy(self._data)
        _compute(self._model, computed, state)
        forces = self._data.efc_force
        return (
            DataMemory(computed).differences(self._data_memory),
            forces.copy() if forces.shape == computed.efc_force.shape else None,
        )

    def _move_model(self, snapshot: Snapshot) -> None:
        """Takes back what the present snapshot has moved, and moves what this one has."""
        present = self._present.model if self._present else []
        back = [(k, where, self._before[k][where]) for k, where, _ in present]
        for changes in (back, snapshot.model):
            self._memory.write(changes)
            for k, where, values in changes:
                self._expected[k][where] = values
        self._present = snapshot

    def _split(self, env: Any, names: set[str]) -> tuple[dict[str, Any], dict[str, Any]]:
        """The attributes that a restore copies, and those that it only assigns.

        An array that is a view of the simulation's own memory must stay that view. Lists that
        resets assign (Meta-World's are of numbers) are copied like arrays.
        """
        copied, kept = {}, {}
        for name in names:
            value = env.__dict__[name]
            is_view = isinstance(value, np.ndarray) and self._is_live(value)
            if isinstance(value, (np.ndarray, list)) and not is_view:
                copied[name] = value.copy()
            else:
                kept[name] = value if is_view else copy.deepcopy(value)
        return copied, kept

    def _is_live(self, array: NDArray[Any]) -> bool:
        address = array.__array_interface__["data"][0]
        start = self._data.qpos.__array_interface__["data"][0]
        return bool(start <= address < start + self._data.nbuffer)


def _compute(model: Any, data: Any, state: NDArray[np.float64]) -> None:
    """Gives ``data`` an integration state and what follows from it, and nothing of before."""
    mujoco.mj_resetData(model, data)
    mujoco.mj_setState(model, data, state, _STATE)
    mujoco.mj_forward(model, data)


_recorders: dict[type[Any], type[Any]] = {}


def _recorder_of(cls: type[Any]) -> type[Any]:
    """A subclass of ``cls`` that remembers which attributes are assigned."""
    if cls not in _recorders:

        def remember(self: Any, name: str, value: Any) -> None:
            self.__dict__["_assigned"].add(name)
            object.__setattr__(self, name, value)

        _recorders[cls] = type(cls.__name__, (cls,), {"__setattr__": remember})
    return _recorders[cls]
