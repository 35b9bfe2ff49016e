"""Resets from snapshots: a repeated reset to a task restores the result of the first one.

Meta-World's reset settles the hand for 250 physics steps, with the same result for the same inputs.
So the first reset to a task runs Meta-World's code. Later resets restore a snapshot as long as the
environment's attributes, and the arrays and options of the model on which resets depend, are as the
last reset left them; otherwise all snapshots are dropped, and the reset runs.

A snapshot holds MuJoCo's integration state, and the values that do not follow from that state
(forces of the settling, positions from before its last move), so that anything read or drawn before
the first step is the same too. It takes 10 kB, or 30 kB for classes that move their object last.
"""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.types import AnyArray
from mtwrappers.metaworld.interfaces import Sawyer

# Prefixes of the arrays on which a reset depends, and suffixes of those among them that it does not
# read or that nobody can edit, such as addresses. Editing any other array of Meta-World's models,
# except for the hulls of meshes, does not change a bit of a reset: they have no tendons, contact
# pairs, sensors and flexes.
_RESET_PREFIXES = ("qpos", "body_", "jnt_", "dof_", "geom_", "site_", "eq_", "actuator_")
_IGNORED_SUFFIXES = ("_rgba", "_user", "_group", "id", "adr", "num")
# The arrays of a model that resets write.
_WRITTEN_BY_RESETS = ("body_pos", "site_pos")

MAX_SNAPSHOTS = 1024  # per environment: 10 MB, or 30 MB
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_MUTABLE = {np.ndarray, dict, list}
# The attributes that steps write, and no reset reads.
_STEP_ATTRIBUTES = frozenset(
    {
        *("curr_path_length", "_prev_obs", "_last_stable_obs", "sawyer_observation_space"),
        *("reachCompleted", "pickCompleted", "placeCompleted", "_target_to_obj_init"),
    }
)
# The task is the key of a snapshot, and another simulation has other snapshots.
_TASK_ATTRIBUTES = frozenset({"_last_rand_vec", "_partially_observable"})
_SIMULATION_ATTRIBUTES = frozenset(
    {"model", "data", "_views", "_snapshots", "_ezpickle_args", "_ezpickle_kwargs"}
)


@dataclass
class Snapshot:
    """The simulation, the model and the attributes of an environment after a reset."""

    obs: NDArray[np.float64]
    state: NDArray[np.float64]
    data: dict[str, AnyArray]  # arrays of the simulation that do not follow from its state
    moved: list[NDArray[np.float64]]  # the arrays that resets write in the model
    same: dict[str, object]  # attributes: views of the simulation, and values that do not change
    copies: dict[str, Callable[[], object]]  # attributes: copied, so that no edit of one is kept
    vector_views: dict[str, slice]  # attributes: views of the task's random vector
    readable: dict[str, object]  # what the next reset may read


class Snapshots:
    """The snapshots of the environment of a model and its simulation.

    It does not refer to the environment, which refers to it: a model of 21 MB should be freed with
    the last reference to its environment, not at the next garbage collection.
    """

    def __init__(self, model: mujoco.MjModel, data: mujoco.MjData) -> None:
        self.model, self.data = model, data
        self._moved = [getattr(model, name) for name in _WRITTEN_BY_RESETS]
        self._names = list_arrays(data)
        self._get_arrays = operator.attrgetter(*self._names)
        self._snapshots: dict[tuple[bytes, bool], Snapshot] = {}
        self._watch = Watch(model)
        self._readable: dict[str, object] = {}  # after the last reset

    def reset(self, env: Sawyer, run: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Resets ``env`` as ``run`` does, and returns the observation."""
        present = self._read(env)
        if not self._watch.unchanged():
            self._watch, self._readable = Watch(self.model), {}
        if present != self._readable:
            self._snapshots.clear()
        key = env._last_rand_vec.tobytes(), env._partially_observable
        snapshot = self._snapshots.get(key)
        if snapshot is not None:
            self._restore(env, snapshot, present)
        else:
            if len(self._snapshots) >= env.max_snapshots:
                self._snapshots.clear()
            snapshot = self._snapshots[key] = self._record(env, run)
        self._readable = snapshot.readable
        return snapshot.obs.copy()

    def _read(self, env: Sawyer) -> dict[str, object]:
        """What a reset may read and `Watch` does not compare, as values that stay the same.

        Views are left out: they are of the task, or of the simulation, which a reset sets.
        """
        values: dict[str, object] = {
            name: _freeze(value) if type(value) in _MUTABLE else value
            for name, value in vars(env).items()
            if name not in _NOT_READ and (type(value) is not np.ndarray or value.base is None)
        }
        values["_model"] = [array.tobytes() for array in self._moved]
        return values

    def _record(self, env: Sawyer, run: Callable[[], NDArray[np.float64]]) -> Snapshot:
        attributes, vector = vars(env), env._last_rand_vec
        # A reset reads none of these: it assigned those that are there afterwards.
        step_values = {name: attributes.pop(name) for name in _STEP_ATTRIBUTES & attributes.keys()}
        same: dict[str, object] = {}
        copies: dict[str, Callable[[], object]] = {}
        vector_views: dict[str, slice] = {}
        try:
            obs = run()
            for name in attributes.keys() - _TASK_ATTRIBUTES - _SIMULATION_ATTRIBUTES:
                value = attributes[name]
                if type(value) is not np.ndarray:
                    if type(value) in _MUTABLE:
                        copies[name] = functools.partial(copy.deepcopy, copy.deepcopy(value))
                    else:
                        same[name] = value
                elif value.base is not None and np.shares_memory(value, vector):
                    start = (value.ctypes.data - vector.ctypes.data) // vector.itemsize
                    vector_views[name] = slice(start, start + value.size)
                elif _is_owned_by_numpy(value):
                    copies[name] = value.copy().copy
                else:
                    same[name] = value
        finally:
            for name, value in step_values.items():
                attributes.setdefault(name, value)
        state = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, state, _STATE)
        computed = mujoco.MjData(self.model)
        _compute(self.model, computed, state)
        arrays = zip(
            self._names, self._get_arrays(computed), self._get_arrays(self.data), strict=True
        )
        data = {
            name: actual.copy()
            for name, expected, actual in arrays
            if expected.shape == actual.shape and expected.tobytes() != actual.tobytes()
        }
        return Snapshot(
            obs=obs.copy(),
            state=state,
            data=data,
            moved=[array.copy() for array in self._moved],
            same=same,
            copies=copies,
            vector_views=vector_views,
            readable=self._read(env),
        )

    def _restore(self, env: Sawyer, snapshot: Snapshot, present: dict[str, object]) -> None:
        for array, values in zip(self._moved, snapshot.moved, strict=True):
            array[...] = values
        _compute(self.model, self.data, snapshot.state)
        for name, values in snapshot.data.items():
            getattr(self.data, name)[...] = values
        attributes = vars(env)
        attributes.update(snapshot.same)
        for name, make_copy in snapshot.copies.items():
            # What steps write is not among the present values.
            if name not in present or present[name] != snapshot.readable.get(name):
                attributes[name] = make_copy()
        for name, entries in snapshot.vector_views.items():
            attributes[name] = env._last_rand_vec[entries]


_NOT_READ = _STEP_ATTRIBUTES | _TASK_ATTRIBUTES | _SIMULATION_ATTRIBUTES


class Watch:
    """Detects changes of what resets depend on in a model, except for what they write there."""

    def __init__(self, model: mujoco.MjModel) -> None:
        arrays = [
            getattr(model, name)
            for name in list_fields(model)
            if name.startswith(_RESET_PREFIXES)
            and not name.endswith(_IGNORED_SUFFIXES)
            and name not in _WRITTEN_BY_RESETS
        ]
        # The bounding volumes of bodies, which precede the meshes'.
        arrays.append(model.bvh_aabb[: model.body_bvhnum.sum()])
        # The vertices of meshes that can currently touch something.
        touching = (model.geom_contype | model.geom_conaffinity) != 0
        meshes = model.geom_dataid[touching & (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)]
        first, count = model.mesh_vertadr[meshes], model.mesh_vertnum[meshes]
        arrays += [model.mesh_vert[i : i + n] for i, n in zip(first, count, strict=True)]
        self._readers: list[tuple[object, Callable[[object], object]]] = []
        for struct in (model.opt, model.stat):
            fields = {name: getattr(struct, name) for name in list_fields(struct)}
            arrays += [value for value in fields.values() if isinstance(value, np.ndarray)]
            numbers = [name for name, value in fields.items() if isinstance(value, (int, float))]
            self._readers.append((struct, operator.attrgetter(*numbers)))
        self._arrays = [array.reshape(-1) for array in arrays]
        self._bits = list(map(bytearray, self._arrays))
        self._numbers = self._read()

    def unchanged(self) -> bool:
        """Whether everything is bit for bit as it was."""
        # A bytearray compares itself with any buffer without copying.
        same = all(map(operator.eq, self._bits, self._arrays))
        return same and self._read() == self._numbers

    def _read(self) -> list[object]:
        return [read(struct) for struct, read in self._readers]


def list_fields(struct: object) -> list[str]:
    """The names of the fields of a MuJoCo struct."""
    return [name for name in dir(struct) if not name.startswith("_")]


def list_arrays(data: mujoco.MjData) -> list[str]:
    """The names of a simulation's arrays; among constraints only forces, which rewards read."""
    return [
        name
        for name in list_fields(data)
        if name == "efc_force" or not (name.startswith("efc_") or "island" in name)
        if isinstance(getattr(data, name), np.ndarray)
    ]


def _compute(model: mujoco.MjModel, data: mujoco.MjData, state: NDArray[np.float64]) -> None:
    """Sets ``data`` to a state and all quantities that follow from it."""
    mujoco.mj_resetData(model, data)
    mujoco.mj_setState(model, data, state, _STATE)
    mujoco.mj_forward(model, data)
    mujoco.mj_setState(model, data, state, _STATE)  # its warm start, which the forward pass moves


def _freeze(value: object) -> object:
    """A value that stays the same when the given one is changed in place."""
    if type(value) is np.ndarray:
        return value.tobytes()
    if type(value) is dict:
        return [(key, _freeze(item)) for key, item in value.items()]
    return list(map(_freeze, value)) if type(value) is list else value


def _is_owned_by_numpy(array: AnyArray) -> bool:
    """Whether NumPy owns an array's memory, not MuJoCo."""
    owner: object = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return isinstance(owner, np.ndarray)
