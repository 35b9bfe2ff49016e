"""The actions of an evaluation's episodes, in an ``.npz`` file with an array ``(T, A)`` for each.

The actions are kept as the environments got them, in the dtype that the policy gave them: a cast
would change the last bits of what follows. `numpy.load` reads the file, under names such as
``"push-v3/7"``: the task and the number of the episode.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.errors import full_message
from mtwrappers.evaluation.episodes import Episode, Observer
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.files import Unfinished, opened
from mtwrappers.samplers.rollout import Step

# The actions of each episode by its name.
Actions = Mapping[str, NDArray[Any]]
# What is read of a file from anywhere, in bytes: its size, and what its arrays take in memory.
MAX_FILE, MAX_BYTES = 2**28, 2**30
# What `_to_npy` begins with: a dtype of numbers and a shape.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][fiub][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,9},? ?){1,9})\), \} *\n",
    re.DOTALL,
)
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal actions make equal files


class EvidenceError(ValueError):
    """A file holds no actions of episodes, or not those that are needed."""


def name_of(episode: Episode | PlannedEpisode) -> str:
    """The name of an episode's actions in a file."""
    trial = () if episode.trial is None else (str(episode.trial),)
    return "/".join((episode.task, *trial, str(episode.number)))


def digest(actions: Actions) -> str:
    """The SHA-256 of all actions, whatever the order in which the episodes ended."""
    return _seal({name: _code(_to_npy(array)) for name, array in actions.items()})


class ActionRecorder(Observer):
    """Collects the actions of each of ``N`` environments, and hands them on at an episode's end."""

    def __init__(self, keep: Callable[[Episode, NDArray[Any]], object]) -> None:
        self._keep = keep
        self._rows: NDArray[Any] | None = None  # (N, at least T, A)

    def step(self, step: Step) -> None:
        """Notes the actions of a step."""
        if self._rows is None:
            shape = step.actions.shape
            self._rows = np.empty((shape[0], 512, *shape[1:]), step.actions.dtype)
            self._lengths, self._all = np.zeros(shape[0], dtype=np.int64), np.arange(shape[0])
        if step.actions.dtype != self._rows.dtype:
            raise ValueError(
                "actions that are kept as evidence must have one dtype throughout, got "
                f"{self._rows.dtype} and then {step.actions.dtype}"
            )
        self._lengths[step.began] = 0
        if self._lengths.max() == self._rows.shape[1]:
            self._rows = np.concatenate([self._rows, np.empty_like(self._rows)], axis=1)
        self._rows[self._all, self._lengths] = step.actions
        self._lengths += step.counted

    def end(self, i: int, episode: Episode) -> None:
        """Hands on the actions of an episode."""
        assert self._rows is not None  # an episode has a step
        self._keep(episode, self._rows[i, : self._lengths[i]].copy())


class EvidenceWriter:
    """Writes the actions of episodes into a file as they end, as a context manager.

    The file gets its name when the block ends. After an exception, an interruption among them, it
    holds the episodes that had ended; a kill leaves the file of before, if there was one.

    Args:
        path: The file.
        finished: Episodes whose actions are in that file already, and stay.

    Raises:
        EvidenceError: If they are not.
        OSError: If the file cannot be written, or the one of before not be read.
    """

    def __init__(self, path: str | os.PathLike[str], finished: Iterable[Episode] = ()) -> None:
        before = {name_of(episode) for episode in finished}
        kept = read_evidence(path) if before else {}
        if missing := sorted(before - set(kept)):
            raise EvidenceError(
                f"{os.fspath(path)} must hold the actions of all finished episodes, {missing[0]!r} "
                f"is not among its {len(kept)}: episodes that are not given as finished are played "
                "again"
            )
        self._codes: dict[str, bytes] = {}
        self._unfinished = Unfinished(path)
        self._zip = zipfile.ZipFile(self._unfinished.file, "w", zipfile.ZIP_DEFLATED)
        for name in sorted(before):
            self._write(name, kept[name])

    def add(self, episode: Episode, actions: NDArray[Any]) -> None:
        """Writes the actions ``(T, A)`` of an episode."""
        self._write(name_of(episode), actions)

    @property
    def digest(self) -> str:
        """What `digest` gives of all actions so far."""
        return _seal(self._codes)

    def _write(self, name: str, actions: NDArray[Any]) -> None:
        data = _to_npy(actions)
        member = zipfile.ZipInfo(f"{name}.npy", _DATE)
        self._zip.writestr(member, data, zipfile.ZIP_DEFLATED)
        self._codes[name] = _code(data)

    def __enter__(self) -> EvidenceWriter:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        with self._unfinished:
            # Without what an interruption has cut in two.
            written = self._zip.infolist()
            written[:] = [one for one in written if one.filename[:-4] in self._codes]
            self._zip.close()
            if kind is None or self._codes:
                self._unfinished.complete()
                self._unfinished.move()


def read_evidence(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Actions:
    """The actions of each episode in a file, by `name_of` the episode.

    Any file is safe to read: nothing in it is run, and sizes are checked before anything is
    allocated.

    Raises:
        EvidenceError: If it is no such file, or its arrays take more than ``max_bytes``.
        OSError: If it cannot be read, or has more than 256 MB.
    """
    with opened(path, MAX_FILE) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                members = archive.infolist()
                _check(members, max_bytes)
                return {one.filename[:-4]: _of_npy(archive, one) for one in members}
        except Exception as exc:  # whatever a file that is none of ours makes of its reader
            said = f"{os.fspath(path)} holds none: {full_message(exc)}"
            raise EvidenceError(f"expected the actions of episodes, {said}") from exc


def _check(members: Sequence[zipfile.ZipInfo], max_bytes: int) -> None:
    """Checks what a file says of its arrays, before they are read."""
    names = Counter(one.filename for one in members)
    for one in members:
        if names[one.filename] > 1 or not one.filename.endswith(".npy"):
            raise ValueError(f"{one.filename!r} is none of an episode, or is there twice")
        if one.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{one.filename!r} is compressed in another way than deflate")
    needed = sum(one.file_size for one in members)
    if needed > max_bytes:
        raise ValueError(f"it takes {needed:,} bytes of memory, and max_bytes is {max_bytes:,}")


def _to_npy(actions: NDArray[Any]) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.ascontiguousarray(actions), (1, 0), allow_pickle=False)
    return buffer.getvalue()


def _of_npy(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    """An array as `_to_npy` writes it: plain numbers in C order, none of them NaN."""
    with archive.open(member) as file:
        data = file.read(member.file_size + 1)
    header = _HEADER.match(data)
    if header is None:
        raise ValueError(f"{member.filename!r} must hold plain numbers, got {data[:80]!r}")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(n) for n in header[2].split(b",") if n.strip())
    if len(data) - header.end() != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{member.filename!r} has another size than its shape {shape} says")
    actions: NDArray[Any] = np.frombuffer(data, dtype, offset=header.end()).reshape(shape)
    if dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{member.filename!r} has actions that are NaN")
    return actions


def _code(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _seal(codes: Mapping[str, bytes]) -> str:
    code = hashlib.sha256()
    for name, own in sorted(codes.items()):
        code.update(_code(name.encode()) + own)
    return code.hexdigest()
