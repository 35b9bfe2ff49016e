"""The memory of a MuJoCo model and simulation that code edits: compared, saved and restored."""

from __future__ import annotations

import operator
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Meta-World's models are 21 MB, of which all but 50 kB are a few big arrays.
_BIG = 20_000  # bytes
_BIG_EDITABLE = ("tex_data", "mesh_vert", "mesh_normal", "mesh_face", "hfield_data")


def _small_arrays(model: Any) -> list[NDArray[Any]]:
    arrays = []
    for name in dir(model):
        if not name.startswith("_"):
            value = getattr(model, name)
            if isinstance(value, np.ndarray) and 0 < value.nbytes < _BIG:
                arrays.append(value)
    return arrays


def _address(array: NDArray[Any]) -> int:
    address: int = array.__array_interface__["data"][0]
    return address


class StructReader:
    """Reads a struct's numbers as something that compares.

    Args:
        struct: One of MuJoCo's, such as ``model.opt`` (time step, gravity, ...).
        leave_out: Names not to read.
    """

    def __init__(self, struct: Any, leave_out: tuple[str, ...] = ()) -> None:
        self._struct = struct
        names = [name for name in dir(struct) if name[0] != "_" and name not in leave_out]
        # The arrays are views, so they stay current.
        self._arrays = [
            value for name in names if isinstance(value := getattr(struct, name), np.ndarray)
        ]
        scalars = [name for name in names if isinstance(getattr(struct, name), (int, float))]
        self._read = operator.attrgetter(*scalars) if scalars else lambda _: None

    def __call__(self) -> tuple[Any, ...]:
        """All numbers."""
        return self._read(self._struct), *[array.tobytes() for array in self._arrays]


class OptionReader:
    """Reads what physics depends on beside the arrays: a model's options and its statistics.

    Args:
        model: An `mujoco.MjModel`. The solver's tolerance scales with its mean inertia.
    """

    def __init__(self, model: Any) -> None:
        self._options, self._statistics = StructReader(model.opt), StructReader(model.stat)

    def __call__(self) -> tuple[Any, ...]:
        """All options and statistics."""
        return self._options(), self._statistics()


class VertexSample:
    """Every 49th coordinate of a model's meshes: it shows whether a mesh was scaled or replaced.

    All of them are half a megabyte, and would take half as long to compare as a reset takes.

    Args:
        model: An `mujoco.MjModel`.
    """

    def __init__(self, model: Any) -> None:
        # A view, so it stays current. No multiple of three: each of x, y and z comes.
        self._coordinates = model.mesh_vert.reshape(-1)[::49]
        self._before = self._coordinates.copy()

    def unchanged(self) -> bool:
        """Whether the sample is as it was at first."""
        return bool((self._coordinates == self._before).all())


def visual_settings(model: Any) -> tuple[Any, ...]:
    """How a model is drawn (lights, colours, scales, map), but for the size of the frame."""
    vis = model.vis
    groups = [getattr(vis, name) for name in dir(vis) if name[0].islower()]
    return tuple(StructReader(group, leave_out=("offwidth", "offheight"))() for group in groups)


class EditableMemory:
    """All small arrays of a model as a few runs of bytes, to compare, save and restore at once.

    MuJoCo keeps a model's arrays in one buffer, one after another, so neighbouring small arrays
    are one run of memory.

    Args:
        model: An `mujoco.MjModel`. It must outlive this object, which holds views of it.
    """

    def __init__(self, model: Any) -> None:
        self._model = model
        spans: list[list[int]] = []
        gap = 64  # between neighbours: alignment
        for start, stop in sorted(
            (_address(a), _address(a) + a.nbytes) for a in _small_arrays(model)
        ):
            if spans and start <= spans[-1][1] + gap:
                spans[-1][1] = max(spans[-1][1], stop)
            else:
                spans.append([start, stop])
        self._runs = [_bytes_at(model, start, stop - start) for start, stop in spans]

    def save(self) -> list[NDArray[np.uint8]]:
        """A copy of every run."""
        return [run.copy() for run in self._runs]

    def restore(self, saved: list[NDArray[np.uint8]]) -> None:
        """Writes back what `save` returned, of this model or another of the same file."""
        for run, copy in zip(self._runs, saved, strict=True):
            run[:] = copy

    def equals(self, saved: list[NDArray[np.uint8]]) -> bool:
        """Whether the model is still as `save` found it."""
        # As strings, which compare faster than arrays, the copies included.
        return all(
            run.tobytes() == copy.tobytes() for run, copy in zip(self._runs, saved, strict=True)
        )

    def changes(
        self, since: list[NDArray[np.uint8]]
    ) -> list[tuple[int, NDArray[np.intp], NDArray[np.uint8]]]:
        """What differs from ``since``: for each run that does, its number, places and bytes."""
        found = []
        for k, (run, old) in enumerate(zip(self._runs, since, strict=True)):
            where = np.flatnonzero(run != old)
            if len(where):
                found.append((k, where, run[where]))
        return found

    def write(self, changes: list[tuple[int, NDArray[np.intp], NDArray[np.uint8]]]) -> None:
        """Makes changes that `changes` found."""
        for k, where, values in changes:
            self._runs[k][where] = values


class DataMemory:
    """All arrays of a simulation but those of contacts and constraints, as one run of words.

    Args:
        data: An `mujoco.MjData`.
    """

    def __init__(self, data: Any) -> None:
        # The first array of MuJoCo's buffer is qpos.
        self._words = _bytes_at(data, _address(data.qpos), data.nbuffer // 8 * 8).view(np.uint64)

    def differences(self, other: DataMemory) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
        """What ``other``, of the same model, holds elsewhere: its places and words."""
        where = np.flatnonzero(self._words != other._words).astype(np.int32)
        return where, other._words[where]

    def write(self, differences: tuple[NDArray[np.int32], NDArray[np.uint64]]) -> None:
        """Makes differences that `differences` found."""
        where, words = differences
        self._words[where] = words


def _bytes_at(owner: Any, address: int, size: int) -> NDArray[np.uint8]:
    """A view of memory of ``owner``, which lives as long as the view."""
    return np.asarray(_Run(owner, address, size))


class _Run:
    """Bytes of an owner's memory, in the form that NumPy takes."""

    def __init__(self, owner: Any, address: int, size: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "data": (address, False),
            "shape": (size,),
            "typestr": "|u1",
            "version": 3,
        }


def digest_of_big_arrays(model: Any) -> int:
    """A checksum of the big arrays that user code may edit."""
    digest = 0
    for name in _BIG_EDITABLE:
        array = getattr(model, name, None)
        if array is not None and array.nbytes:
            digest = zlib.crc32(np.ascontiguousarray(array).data, digest)
    return digest
