"""A model's and a simulation's memory: compared, saved, written and copied as runs of words.

All that depends on how MuJoCo lays out its structs is here. A model's struct begins with its sizes
and options; its arrays, and all those of a simulation but contacts and constraints, lie in one
buffer, one after another, each beginning at a multiple of 64 bytes. Comparing 600 arrays one by one
would take longer than all else that a restored reset does.
"""

from __future__ import annotations

import copy
import ctypes
import operator
import weakref
from typing import Any, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
# For each run that changed: its number, the places in it, the words there.
Changes: TypeAlias = list[tuple[int, NDArray[np.int32], Words]]

# Textures, and what the compiler makes of meshes for drawing and for polygon contacts, which are
# off: no reset depends on it. With the meshes' bounding volumes, which serve rays, and the vertices
# of meshes that touch nothing, it is all but 0.2 MB of a model's 21 MB.
_UNREAD = ("tex_", "mesh_poly", "mesh_face", "mesh_normal", "mesh_texcoord", "mesh_vert")
_ALIGNMENT = 64


class Memory:
    """Parts of memory that ``owner`` holds, each a first address and an end, as few runs.

    The first part comes first wherever it is; the others, in one buffer, in their order there.
    """

    def __init__(self, owner: Any, first: tuple[int, int], *parts: tuple[int, int]) -> None:
        self._owner = owner
        spans: list[list[int]] = []
        for start, stop in (first, *sorted(parts)):
            if spans and spans[-1][0] <= start < spans[-1][1] + _ALIGNMENT:
                spans[-1][1] = max(stop, spans[-1][1])
            else:
                spans.append([start - start % 8, stop])
        self.runs: list[Words] = [
            # Where a part ends within a word, what follows it is taken along.
            np.ctypeslib.as_array((ctypes.c_uint64 * -((start - stop) // 8)).from_address(start))
            for start, stop in spans
        ]

    def save(self) -> list[bytearray]:
        """A copy of every run."""
        return list(map(bytearray, self.runs))

    def equals(self, saved: list[bytearray]) -> bool:
        """Whether every run is as `save` found it."""
        # A bytearray compares itself with any buffer at once, and copies nothing.
        return all(map(operator.eq, saved, self.runs))

    def changes(self, since: list[bytearray]) -> Changes:
        """What differs from what `save` found."""
        found = []
        for k, (run, old) in enumerate(zip(self.runs, since, strict=True)):
            where = np.flatnonzero(run != words(old)).astype(np.int32)
            if len(where):
                found.append((k, where, run[where]))
        return found


def words(saved: bytearray) -> Words:
    """A copy of a run as an array."""
    return np.frombuffer(saved, np.uint64)


def write(changes: Changes, runs: list[Words]) -> None:
    """Makes the changes that `Memory.changes` found."""
    for k, where, new in changes:
        runs[k][where] = new


def parts(model: Any) -> list[tuple[int, int]]:
    """A model's sizes and options, and every array that a reset may read, but for vertices."""
    trees = int(model.body_bvhnum.sum())  # those of bodies come before those of meshes
    # First the struct, up to its last statistic, which all its pointers follow.
    found = [(model._address, _span(model.stat.center)[1])]
    for name in dir(model):
        if not name.startswith(("_", *_UNREAD)):
            array = getattr(model, name)
            if isinstance(array, np.ndarray) and array.size:
                found.append(_span(array[:trees] if name.startswith("bvh_") else array))
    return found


def vertices(model: Any) -> list[tuple[int, int]]:
    """The vertices of those of a model's meshes that may touch something as it is now."""
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    touching[model.pair_geom1] = touching[model.pair_geom2] = True
    meshes = model.geom_dataid[touching & (model.geom_type == mujoco.mjtGeom.mjGEOM_MESH)]
    first, count = model.mesh_vertadr[meshes], model.mesh_vertnum[meshes]
    return [_span(model.mesh_vert[i : i + n]) for i, n in zip(first, count, strict=True)]


def data_memory(data: Any) -> Memory:
    """The arrays of an `mujoco.MjData`, but for contacts and constraints, 0.2 MB."""
    start, _ = _span(data.qpos)
    return Memory(data, (start, start + data.nbuffer))


def is_part_of(data: Any, array: NDArray[Any]) -> bool:
    """Whether ``array`` is a view of what `data_memory` covers."""
    return bool(0 <= _span(array)[0] - _span(data.qpos)[0] < data.nbuffer)


def _span(array: NDArray[Any]) -> tuple[int, int]:
    start = int(array.__array_interface__["data"][0])
    return start, start + array.nbytes


# By the path of a model: as compiled, for as long as an environment has a copy of it.
_shared: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()
_compiled: set[str] = set()


def compiled_model(path: str) -> tuple[Any, Any]:
    """A freshly compiled model, and what its environment must hold for the next to be quicker.

    Compiling takes 120 ms and copying 9 ms, but a model that is kept to be copied takes 21 MB. So
    the first environment of a class has its model alone; from the second on, all have copies of
    one that nobody else sees.
    """
    shared = _shared.get(path)
    if shared is None:
        shared = mujoco.MjModel.from_xml_path(path)
        if path not in _compiled:
            _compiled.add(path)
            return shared, None
        _shared[path] = shared
    return copy.copy(shared), shared
