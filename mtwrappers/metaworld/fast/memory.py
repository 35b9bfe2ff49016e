"""The part of a MuJoCo model that code edits: every array but meshes, textures and their trees."""

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


class OptionReader:
    """Reads a simulation's options (time step, gravity, ...) as something that compares."""

    def __init__(self, model: Any) -> None:
        opt = self._opt = model.opt
        names = [name for name in dir(opt) if not name.startswith("_")]
        # The arrays are views, so they stay current.
        self._arrays = [
            value for name in names if isinstance(value := getattr(opt, name), np.ndarray)
        ]
        scalars = [name for name in names if not isinstance(getattr(opt, name), np.ndarray)]
        self._scalars = operator.attrgetter(*scalars)

    def __call__(self) -> tuple[Any, ...]:
        """All options."""
        return self._scalars(self._opt), *[array.tobytes() for array in self._arrays]


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
        spans = [[start, start + -(-(stop - start) // 4) * 4] for start, stop in spans]
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
        # As words, which compare faster than bytes.
        return all(
            (run.view(np.uint32) == copy.view(np.uint32)).all()
            for run, copy in zip(self._runs, saved, strict=True)
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


def _bytes_at(model: Any, address: int, size: int) -> NDArray[np.uint8]:
    interface = {"data": (address, False), "shape": (size,), "typestr": "|u1", "version": 3}
    owner = type("_Run", (), {"__array_interface__": interface, "model": model})()
    return np.asarray(owner)


def digest_of_big_arrays(model: Any) -> int:
    """A checksum of the big arrays that user code may edit."""
    digest = 0
    for name in _BIG_EDITABLE:
        array = getattr(model, name, None)
        if array is not None and array.nbytes:
            digest = zlib.crc32(np.ascontiguousarray(array).data, digest)
    return digest
