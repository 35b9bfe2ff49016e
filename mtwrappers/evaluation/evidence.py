"""The actions of an evaluation's episodes, in an ``.npz`` file with an array ``(T, A)`` for each.

The actions are kept as the environments got them, in the dtype that the policy gave them: a cast
would change the last bits of what follows. Only the order of their bytes is always the same, the
little end first. `numpy.load` reads the file, under names such as ``"push-v3/7"``: the task and the
number of the episode.
"""

from __future__ import annotations

import hashlib
import io
import math
import os
import re
import struct
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import Episode, Observer, PlannedEpisode
from mtwrappers.samplers.rollout import Step
from mtwrappers.state.files import Unfinished, opened

# The actions of each episode by its name.
Actions = Mapping[str, NDArray[Any]]
# What is read of a file from anywhere, in bytes: its size, and what its arrays take in memory.
MAX_FILE, MAX_BYTES = 2**28, 2**30
# What `to_npy` begins with: a dtype of numbers and a shape.
_HEADER = re.compile(
    rb"\x93NUMPY\x01\x00..\{'descr': '([<|][fiub][1248])', 'fortran_order': False, "
    rb"'shape': \(((?:\d{1,9},? ?){1,9})\), \} *\n",
    re.DOTALL,
)
_NEVER = 2**62
_DATE = (1980, 1, 1, 0, 0, 0)  # so that equal actions make equal files
# What stands before each member of a zip file: how it is compressed, its CRC, its size compressed
# and not, and how long its name and a further field are.
_LOCAL = struct.Struct("<4x4xH4x3I2H")


class EvidenceError(ValueError):
    """A file holds no actions of episodes, or not those that are needed."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 1000))


def name_of(episode: Episode | PlannedEpisode) -> str:
    """The name of an episode's actions in a file."""
    trial = () if episode.trial is None else (str(episode.trial),)
    return "/".join((episode.task, *trial, str(episode.number)))


def digest(actions: Actions) -> str:
    """The SHA-256 of all actions, whatever the order in which the episodes ended."""
    return _seal({name: _code(to_npy(array)) for name, array in actions.items()})


class ActionRecorder(Observer):
    """Collects the actions of each of ``N`` environments, and hands them on at an episode's end."""

    def __init__(self, keep: Callable[[Episode, NDArray[Any]], object]) -> None:
        self._keep = keep
        self._log: NDArray[Any] | None = None  # (at least T, N, A), a row for each step
        self._now = 0  # how many rows there are

    def step(self, step: Step) -> None:
        """Notes the actions of a step."""
        if self._log is None:
            self._log = np.empty((512, *step.actions.shape), step.actions.dtype)
            # At which row each environment's episode begins, in the future where it has none.
            self._begins = np.full(len(step.actions), _NEVER)
        if step.actions.dtype != self._log.dtype:
            raise ValueError(
                "actions that are kept as evidence must have one dtype throughout, got "
                f"{self._log.dtype} and then {step.actions.dtype}"
            )
        if self._now == len(self._log):
            self._make_room(self._log)
        self._begins[step.began] = self._now
        self._log[self._now] = step.actions
        self._now += 1

    def _make_room(self, log: NDArray[Any]) -> None:
        """Forgets the rows that no episode needs any more."""
        first = min(self._begins.min(), self._now)
        self._begins[self._begins < _NEVER] -= first
        self._now -= first
        self._log = np.empty((max(512, 2 * self._now), *log.shape[1:]), log.dtype)
        self._log[: self._now] = log[first:]

    def end(self, i: int, episode: Episode) -> None:
        """Hands on the actions of an episode."""
        assert self._log is not None  # an episode has a step
        self._keep(episode, self._log[self._begins[i] : self._now, i].copy())
        self._begins[i] = _NEVER


class EvidenceWriter:
    """Writes the actions of episodes into a file as they end, as a context manager.

    The file takes the place of the one of before when the first episode ends. After an exception,
    an interruption or a kill it holds the episodes that had ended. (On Windows, a kill leaves the
    file of before.)

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
                f"is not among its {len(kept)}: episodes that are not given as finished are run "
                "again"
            )
        self._codes: dict[str, bytes] = {}
        self._unfinished, self._moved = Unfinished(path), False
        # Numbers of a policy are hardly compressed better by more than the least effort.
        self._zip = zipfile.ZipFile(
            self._unfinished.file, "w", zipfile.ZIP_DEFLATED, compresslevel=1
        )
        for name in sorted(before):
            self._write(name, kept[name])

    def add(self, episode: Episode, actions: NDArray[Any]) -> None:
        """Writes the actions ``(T, A)`` of an episode."""
        self._write(name_of(episode), actions)
        self._unfinished.file.flush()  # a kill loses what this process holds back
        if not self._moved and sys.platform != "win32":  # which moves no open file
            self._move()

    @property
    def digest(self) -> str:
        """The `digest` of all actions so far."""
        return _seal(self._codes)

    def _write(self, name: str, actions: NDArray[Any]) -> None:
        data = to_npy(actions)
        member = zipfile.ZipInfo(f"{name}.npy", _DATE)
        self._zip.writestr(member, data, zipfile.ZIP_DEFLATED, compresslevel=1)
        self._codes[name] = _code(data)

    def _move(self) -> None:
        self._unfinished.complete()
        self._unfinished.move()
        self._moved = True

    def __enter__(self) -> EvidenceWriter:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        with self._unfinished:
            # Without what an interruption has cut in two.
            written = self._zip.infolist()
            written[:] = [one for one in written if one.filename[:-4] in self._codes]
            self._zip.close()
            if self._moved:
                self._unfinished.complete()
            elif kind is None or self._codes:
                self._move()


def read_evidence(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Actions:
    """The actions of each episode in a file, by `name_of` the episode.

    A file that a kill has cut off gives the episodes that are whole. Any file is safe to read:
    nothing in it is run, and sizes are checked before anything is allocated.

    Raises:
        EvidenceError: If it is no such file, or its arrays take more than ``max_bytes``.
        OSError: If it cannot be read, or has more than 256 MB.
    """
    with opened(path, MAX_FILE) as file:
        try:
            return {name[:-4]: actions_of(name, data) for name, data in _members(file, max_bytes)}
        except Exception as exc:  # whatever a file that is none of ours makes of its reader
            said = f"{os.fspath(path)} holds none: {full_message(exc)}"
            raise EvidenceError(f"expected the actions of episodes, {said}") from exc


def _members(file: BinaryIO, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """The names of a zip file's members, and what they hold."""
    try:
        archive = zipfile.ZipFile(file)
    except zipfile.BadZipFile:
        if whole := list(_cut_off(file, max_bytes)):
            yield from whole
            return
        raise
    with archive:
        _check(archive.infolist(), max_bytes)
        for one in archive.infolist():
            with archive.open(one) as member:
                yield one.filename, member.read(one.file_size + 1)


def _cut_off(file: BinaryIO, max_bytes: int) -> Iterator[tuple[str, bytes]]:
    """The whole members of a file without a directory, as a kill leaves it."""
    found: list[tuple[zipfile.ZipInfo, bytes]] = []
    file.seek(0)
    while len(head := file.read(_LOCAL.size)) == _LOCAL.size and head[:4] == b"PK\3\4":
        method, crc, compressed, size, of_name, further = _LOCAL.unpack(head)
        one = zipfile.ZipInfo(file.read(of_name).decode())
        one.compress_type, one.CRC, one.file_size = method, crc, size
        file.seek(further, os.SEEK_CUR)
        found.append((one, file.read(compressed)))
    _check([one for one, _ in found], max_bytes)
    for one, data in found:
        if one.compress_type == zipfile.ZIP_DEFLATED:
            data = zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, one.file_size + 1)
        if data and zlib.crc32(data) == one.CRC:
            yield one.filename, data


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


def to_npy(actions: NDArray[Any]) -> bytes:
    """An array as it stands in a file."""
    buffer = io.BytesIO()
    actions = np.ascontiguousarray(actions, actions.dtype.newbyteorder("<"))
    np.lib.format.write_array(buffer, actions, (1, 0), allow_pickle=False)
    return buffer.getvalue()


def actions_of(name: str, data: bytes) -> NDArray[Any]:
    """An array as `to_npy` writes it: plain numbers in C order, none of them NaN."""
    header = _HEADER.match(data)
    if header is None:
        raise ValueError(f"{name!r} must hold plain numbers, got {data[:80]!r}")
    dtype = np.dtype(header[1].decode())
    shape = tuple(int(n) for n in header[2].split(b",") if n.strip())
    if len(data) - header.end() != math.prod(shape) * dtype.itemsize:
        raise ValueError(f"{name!r} has another size than its shape {shape} says")
    actions: NDArray[Any] = np.frombuffer(data, dtype, offset=header.end()).reshape(shape)
    if dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{name!r} has actions that are NaN")
    return actions


def _code(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _seal(codes: Mapping[str, bytes]) -> str:
    code = hashlib.sha256()
    for name, own in sorted(codes.items()):
        code.update(_code(name.encode()) + own)
    return code.hexdigest()
