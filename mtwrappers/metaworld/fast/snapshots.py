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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

# Prefixes of the arrays on which a reset depends, and suffixes of those among them that it does not
# read or that nobody can edit, such as addresses. Editing any other array of Meta-World's models,
# except for the hulls of meshes, does not change a bit of a reset: they have no tendons, contact
# pairs, sensors and flexes.
_OF_RESETS = ("qpos", "body_", "jnt_", "dof_", "geom_", "site_", "eq_", "actuator_")
_LEFT_OUT = ("_rgba", "_user", "_group", "id", "adr", "num")
# Prefixes of the arrays on which a frame depends besides the simulation's state. OpenGL does not
# update meshes and textures.
_OF_FRAMES = ("qpos0", "body_", "jnt_", "geom_", "site_", "cam_", "light_", "mat_")


class Watch:
    """Detects changes of MuJoCo's arrays, and of structs of numbers and arrays.

    Attributes:
        arrays: The arrays, flat; each is a view of MuJoCo's memory, and stays current.
    """

    def __init__(self, arrays: Iterable[NDArray[Any]], structs: Iterable[Any]) -> None:
        self.arrays = [array.reshape(-1) for array in arrays]
        self._readers: list[tuple[Any, Callable[[Any], Any]]] = []
        for struct in structs:
            inside = {name: getattr(struct, name) for name in names(struct)}
            self.arrays += [value for value in inside.values() if isinstance(value, np.ndarray)]
            numbers = [name for name, value in inside.items() if isinstance(value, (int, float))]
            if numbers:
                self._readers.append((struct, operator.attrgetter(*numbers)))
        self.remember()

    def remember(self) -> None:
        """Remembers everything as it is now."""
        self._bits = list(map(bytearray, self.arrays))
        self._numbers = self._read()

    def write(self, k: int, values: NDArray[Any]) -> None:
        """Writes array ``k``, and remembers the new values."""
        self.arrays[k][...] = values
        self._bits[k] = bytearray(self.arrays[k])

    def unchanged(self) -> bool:
        """Whether everything is bit for bit as remembered."""
        # A bytearray compares itself with any buffer without copying.
        same = all(map(operator.eq, self._bits, self.arrays))
        return same and self._read() == self._numbers

    def _read(self) -> list[Any]:
        return [read(struct) for struct, read in self._readers]


def names(struct: Any) -> list[str]:
    """The names of the fields of a MuJoCo struct."""
    return [name for name in dir(struct) if not name.startswith("_")]


def watch_reset(model: Any) -> Watch:
    """Watches what a reset depends on."""
    matter = [name for name in names(model) if not name.endswith(_LEFT_OUT)]
    arrays = [getattr(model, name) for name in matter if name.startswith(_OF_RESETS)]
    # The bounding volumes of bodies, which precede the meshes'.
    arrays.append(model.bvh_aabb[: model.body_bvhnum.sum()])
    # The vertices of meshes that can currently touch something.
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    meshes = model.geom_dataid[touching & (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)]
    first, count = model.mesh_vertadr[meshes], model.mesh_vertnum[meshes]
    arrays += [model.mesh_vert[i : i + n] for i, n in zip(first, count, strict=True)]
    return Watch(arrays, [model.opt, model.stat])


def watch_frame(model: Any) -> Watch:
    """Watches what a frame depends on besides the simulation's state."""
    arrays = [getattr(model, name) for name in names(model) if name.startswith(_OF_FRAMES)]
    visual = [getattr(model.vis, name) for name in names(model.vis)]
    return Watch(arrays, [model.opt, model.stat, *visual])


# Each array that differs: its key, and a copy.
Changes: TypeAlias = list[tuple[Any, NDArray[Any]]]

MAX_SNAPSHOTS = 1024  # per environment: 10 MB, or 30 MB
_STATE = mujoco.mjtState.mjSTATE_INTEGRATION
_SCALARS = (bool, int, float, str, type(None))
# The attributes that steps write, and no reset reads.
_OF_STEPS = frozenset(
    {
        *("curr_path_length", "_prev_obs", "_last_stable_obs", "sawyer_observation_space"),
        *("reachCompleted", "pickCompleted", "placeCompleted", "_target_to_obj_init"),
    }
)
# The task is the key of a snapshot, and another simulation has other snapshots.
_NOT_READ = _OF_STEPS | {
    *("_last_rand_vec", "_partially_observable", "model", "data", "_views", "_snapshots"),
    *("_ezpickle_args", "_ezpickle_kwargs"),
}


class Left:
    """The attributes that a reset assigned, to be assigned again.

    They are copied, so that a user's edits do not affect the next reset. Two kinds of arrays must
    stay views: of arrays of the ``simulation``, and of the task's random vector.
    """

    def __init__(
        self, env: Any, attributes: Mapping[str, Any], simulation: Sequence[NDArray[Any]]
    ) -> None:
        self._kept: dict[str, Any] = {}
        self._copies: dict[str, Callable[[], Any]] = {}
        self._of_task: dict[str, slice] = {}
        vector = env._last_rand_vec
        for name, value in attributes.items():
            if not isinstance(value, np.ndarray):
                if isinstance(value, _SCALARS):
                    self._kept[name] = value
                else:
                    self._copies[name] = functools.partial(copy.deepcopy, copy.deepcopy(value))
            elif value.base is None:
                self._copies[name] = value.copy().copy
            elif any(np.may_share_memory(value, array) for array in simulation):
                self._kept[name] = value
            elif np.shares_memory(value, vector):
                start = (value.ctypes.data - vector.ctypes.data) // vector.itemsize
                self._of_task[name] = slice(start, start + value.size)
            else:
                self._copies[name] = value.copy().copy

    def assign(self, env: Any) -> None:
        """Gives the attributes to ``env``, which is on the same task."""
        attributes = env.__dict__
        attributes.update(self._kept)
        for name, copied in self._copies.items():
            attributes[name] = copied()
        for name, part in self._of_task.items():
            attributes[name] = env._last_rand_vec[part]


@dataclass
class Snapshot:
    """The simulation, the model and the attributes of an environment after a reset."""

    state: NDArray[np.float64]
    model: Changes  # by the index in `Watch.arrays`
    data: Changes  # by name: arrays of the simulation that do not follow from its state
    attributes: Left
    left: dict[str, Any]  # the part of `inputs` that the reset assigned
    obs: NDArray[np.float64]


class Snapshots:
    """The snapshots of the environment of a model and its simulation.

    It does not refer to the environment, which refers to it: a model of 21 MB should be freed with
    the last reference to its environment, not at the next garbage collection.
    """

    def __init__(self, model: Any, data: Any) -> None:
        self.model, self.data = model, data
        self._arrays = arrays_of(data)
        self._get_arrays = operator.attrgetter(*self._arrays)
        self._kept: dict[tuple[bytes, bool], Snapshot] = {}
        self._left: dict[str, Any] = {}  # the `inputs` after the last reset
        self._forget()

    def reset(self, env: Any, run: Callable[[], NDArray[np.float64]]) -> NDArray[np.float64]:
        """Resets ``env`` as ``run`` does, and returns the observation."""
        if not self._watch.unchanged() or inputs(env) != self._left:
            self._forget()
        key = env._last_rand_vec.tobytes(), env._partially_observable
        snapshot = self._kept.get(key)
        if snapshot is None:
            if len(self._kept) >= env.max_snapshots:
                self._kept.clear()
            snapshot = self._kept[key] = self._record(env, run)
        else:
            self._restore(env, snapshot)
        return snapshot.obs.copy()

    def _forget(self) -> None:
        """Drops all snapshots, and takes the model as it is now."""
        self._kept.clear()
        self._watch = watch_reset(self.model)
        self._before = [array.copy() for array in self._watch.arrays]
        self._moved: Changes = []  # by the last reset, in the model

    def _record(self, env: Any, run: Callable[[], NDArray[np.float64]]) -> Snapshot:
        obs, assigned = run_and_compare(env, run)
        self._watch.remember()
        self._moved = changes(enumerate(self._before), self._watch.arrays)
        state = np.empty(mujoco.mj_stateSize(self.model, _STATE))
        mujoco.mj_getState(self.model, self.data, state, _STATE)
        computed = mujoco.MjData(self.model)
        _compute(self.model, computed, state)
        simulation = self._get_arrays(self.data)
        expected = zip(self._arrays, self._get_arrays(computed), strict=True)
        data = changes(expected, simulation)
        attributes = Left(env, assigned, simulation)
        self._left = inputs(env)
        left = {name: self._left[name] for name in assigned if name in self._left}
        return Snapshot(state, self._moved, data, attributes, left, obs.copy())

    def _restore(self, env: Any, snapshot: Snapshot) -> None:
        if snapshot.model is not self._moved:
            for k, _ in self._moved:
                self._watch.write(k, self._before[k])
            for change in snapshot.model:
                self._watch.write(*change)
            self._moved = snapshot.model
        _compute(self.model, self.data, snapshot.state)
        for name, new in snapshot.data:
            getattr(self.data, name)[...] = new
        snapshot.attributes.assign(env)
        self._left |= snapshot.left


def _compute(model: Any, data: Any, state: NDArray[np.float64]) -> None:
    """Sets ``data`` to a state and all quantities that follow from it."""
    mujoco.mj_resetData(model, data)
    mujoco.mj_setState(model, data, state, _STATE)
    mujoco.mj_forward(model, data)
    mujoco.mj_setState(model, data, state, _STATE)  # its warm start, which the forward pass moves


def arrays_of(data: Any) -> list[str]:
    """The names of a simulation's arrays; among constraints only forces, which rewards read."""
    return [
        name
        for name in names(data)
        if name == "efc_force" or not (name.startswith("efc_") or "island" in name)
        if isinstance(getattr(data, name), np.ndarray)
    ]


def changes(old: Iterable[tuple[Any, NDArray[Any]]], new: Iterable[NDArray[Any]]) -> Changes:
    """The new arrays that have the same shape as the old and differ by at least a bit."""
    return [
        (key, after.copy())
        for (key, before), after in zip(old, new, strict=True)
        if before.shape == after.shape and bytearray(before) != after
    ]


def run_and_compare(env: Any, run: Callable[[], Any]) -> tuple[Any, dict[str, Any]]:
    """The result of ``run``, a reset of ``env``, and the attributes that it may have assigned."""
    attributes = vars(env)
    # A reset reads none of these: it assigned those that are there afterwards.
    of_steps = {name: attributes.pop(name) for name in _OF_STEPS if name in attributes}
    before, frozen = dict(attributes), inputs(env)
    try:
        result = run()
        after = inputs(env)
        assigned = {
            name: value
            for name, value in attributes.items()
            if isinstance(value, _SCALARS)
            or value is not before.get(name)
            or after.get(name) != frozen.get(name)
        }
    finally:
        for name, value in of_steps.items():
            attributes.setdefault(name, value)
    return result, assigned


def inputs(env: Any) -> dict[str, Any]:
    """The attributes that a reset may read, for comparison: all but the task and those of steps.

    Views are left out: they are of the task, or of the simulation, which a reset sets.
    """
    return {
        name: _frozen(value) if type(value) in _MUTABLE else value
        for name, value in vars(env).items()
        if name not in _NOT_READ and (type(value) is not np.ndarray or value.base is None)
    }


_MUTABLE = {np.ndarray, dict, list}


def _frozen(value: Any) -> Any:
    """A value that stays the same when the given one is changed in place."""
    if type(value) is np.ndarray:
        return value.tobytes()
    if type(value) is dict:
        return [(key, _frozen(item)) for key, item in value.items()]
    return list(map(_frozen, value)) if type(value) is list else value
