"""A model's and a simulation's memory: compared, saved, written and copied as runs of words.

All that depends on how MuJoCo lays out its structs is here: a model keeps its arrays, and a
simulation all of them but those of contacts and constraints, in one buffer, one after another,
each beginning at a multiple of 64 bytes. Comparing and saving 600 arrays one by one would take
longer than all else that a restored reset does.
"""

from __future__ import annotations

import copy
import ctypes
import operator
import weakref
import zlib
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import mujoco
import numpy as np
from numpy.typing import NDArray

Words: TypeAlias = NDArray[np.uint64]
# For each run that changed: its number, the places in it, the words there.
Changes: TypeAlias = list[tuple[int, NDArray[np.int32], Words]]

# Textures, and what the compiler makes of meshes for drawing and for polygon contacts, which are
# off: no reset depends on it. With the meshes' bounding volumes, which serve rays, it is 20 MB of a
# model's 21 MB.
_UNREAD = ("tex_", "mesh_poly", "mesh_face", "mesh_normal", "mesh_texcoord")
_ALIGNMENT = 64


class Memory:
    """Parts of one buffer, as few runs of words.

    Args:
        owner: What the memory belongs to. It lives at least as long as this object.
        parts: First address and number of bytes of each part.
    """

    def __init__(self, owner: Any, parts: Iterable[tuple[int, int]]) -> None:
        self._owner = owner
        spans: list[list[int]] = []
        for start, size in sorted(parts):
            if spans and start < spans[-1][1] + _ALIGNMENT:
                spans[-1][1] = start + size
            else:
                spans.append([start, start + size])
        self._runs: list[Words] = [
            # A last part of a word is filled up from the gap that alignment leaves.
            np.ctypeslib.as_array((ctypes.c_uint64 * -((start - stop) // 8)).from_address(start))
            for start, stop in spans
        ]

    def save(self, like: list[Words] | None = None) -> list[Words]:
        """Every run as it is now; those equal to ``like``'s are the arrays of ``like``."""
        if like is None:
            return [run.copy() for run in self._runs]
        return [
            old if (run == old).all() else run.copy()
            for run, old in zip(self._runs, like, strict=True)
        ]

    def restore(self, saved: list[Words]) -> None:
        """Writes back what `save` returned, here or for another model of the same file."""
        for run, words in zip(self._runs, saved, strict=True):
            run[:] = words

    def equals(self, saved: list[Words]) -> bool:
        """Whether the memory is as `save` found it."""
        return all(
            # Strings compare faster while they are small, the copies included.
            run.tobytes() == old.tobytes() if run.nbytes < 2**15 else bool((run == old).all())
            for run, old in zip(self._runs, saved, strict=True)
        )

    def changes(self, since: list[Words]) -> Changes:
        """What differs from what `save` found."""
        found = []
        for k, (run, old) in enumerate(zip(self._runs, since, strict=True)):
            where = np.flatnonzero(run != old).astype(np.int32)
            if len(where):
                found.append((k, where, run[where]))
        return found

    def write(self, changes: Changes) -> None:
        """Makes the changes that `changes` found."""
        for k, where, words in changes:
            self._runs[k][where] = words


def model_memory(model: Any) -> Memory:
    """The arrays of an `mujoco.MjModel` that a reset may depend on, 0.7 MB."""
    trees = int(model.body_bvhnum.sum())  # those of bodies come before those of meshes
    arrays = []
    for name in dir(model):
        if not name.startswith(("_", *_UNREAD)):
            array = getattr(model, name)
            arrays.append(array[:trees] if name.startswith("bvh_") else array)
    return Memory(
        model, [(address(a), a.nbytes) for a in arrays if isinstance(a, np.ndarray) and a.nbytes]
    )


def data_memory(data: Any) -> Memory:
    """The arrays of an `mujoco.MjData`, but for contacts and constraints, 0.2 MB."""
    return Memory(data, [(address(data.qpos), data.nbuffer)])


def is_part_of(data: Any, array: NDArray[Any]) -> bool:
    """Whether ``array`` is a view of what `data_memory` covers."""
    return bool(0 <= address(array) - address(data.qpos) < data.nbuffer)


def address(array: NDArray[Any]) -> int:
    """Where the first element of ``array`` is."""
    return int(array.__array_interface__["data"][0])


def option_reader(model: Any) -> Callable[[], tuple[Any, ...]]:
    """A function that reads the numbers beside the arrays that physics depends on.

    Those are the options, and the statistics, which scale the solver's tolerance.
    """
    one, two = _reader(model.opt), _reader(model.stat)
    return lambda: (one(), two())


def _reader(struct: Any) -> Callable[[], tuple[Any, ...]]:
    values = {name: getattr(struct, name) for name in dir(struct) if name[0] != "_"}
    numbers = operator.attrgetter(*(k for k, v in values.items() if isinstance(v, (int, float))))
    arrays = [v for v in values.values() if isinstance(v, np.ndarray)]  # views: they stay current
    return lambda: (numbers(struct), *(array.tobytes() for array in arrays))


# By the path of a model: an environment that has it, what the model was as compiled, its checksum.
_compiled: dict[str, tuple[weakref.ref[Any], list[Words], int]] = {}


def compiled_model(path: str, env: Any) -> Any:
    """A model as freshly compiled: copied from an environment that has one, where that is possible.

    Compiling takes 120 ms, copying 9 ms. A process that has 20 environments of each class of ML10
    starts 8 times as fast.

    Args:
        path: The model's file.
        env: The environment that gets the model.
    """
    found = _compiled.get(path)
    other = found and found[0]()
    if found is not None and other is not None:
        model = copy.copy(other.model)
        model_memory(model).restore(found[1])
        if _checksum(model) == found[2]:  # else somebody edited the rest of it, too
            return model
    model = mujoco.MjModel.from_xml_path(path)
    _compiled[path] = weakref.ref(env), model_memory(model).save(), _checksum(model)
    return model


def _checksum(model: Any) -> int:
    everything = np.empty(mujoco.mj_sizeModel(model), np.uint8)
    mujoco.mj_saveModel(model, None, everything)
    return zlib.crc32(everything.data)
