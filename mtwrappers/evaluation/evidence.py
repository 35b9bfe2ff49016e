"""Evidence: the actions and the record of every episode, in an ``.npz`` file, written as they end.

It is the only journal of an evaluation: `verify` replays its actions, and ``resume=True`` continues
from it. Its first member is the ``header``, JSON with the settings of the evaluation. Then each
episode has an array ``(T, A)`` of actions and, as JSON, its record. `numpy.load` reads the arrays,
with names such as ``"push-v3/7"``: the task and the number of the episode.

Actions are stored as the environments received them, in the policy's dtype, because a cast would
change the last bits of later states. The byte order is always little-endian.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.typed import from_plain, to_plain
from mtwrappers.state import arrays
from mtwrappers.state.files import Unfinished, opened, parse_json

# The actions of each episode by its name.
Actions = Mapping[str, NDArray[Any]]
# Limits in bytes: the size of a file, and of its arrays and records in memory. They hold for
# untrusted files that are read, and so for those that are written.
MAX_FILE, MAX_BYTES = 2**28, 2**30
# The most bytes of a zip file besides its members: in a header and a directory entry, with sizes of
# 64 bits, and at its end.
_PER_MEMBER, _END = 150, 200
_HEADER, _NPY, _JSON = "header.json", ".npy", ".json"
_FORMAT = "mtwrappers.Evidence/1"


class EvidenceError(ValueError):
    """A file does not contain actions of episodes, or belongs to another evaluation."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 1000))


def name_actions(episode: Episode | PlannedEpisode) -> str:
    """The name of an episode's actions in a file."""
    trial = () if episode.trial is None else (str(episode.trial),)
    return "/".join((episode.task, *trial, str(episode.number)))


def evidence_beside(result: str | os.PathLike[str]) -> Path:
    """The default evidence of a result: the file of the same name, with ``.npz``."""
    path = Path(result)
    # Only the suffix of results: ``lr-0.5`` has none.
    return path.with_suffix(".npz") if path.suffix == ".json" else Path(f"{path}.npz")


def evidence_files(evidence: str | os.PathLike[str], num_results: int) -> list[Path]:
    """The evidence of each result in a file: numbered, but for a result that is not of a series."""
    path = Path(evidence)
    numbered = [numbered_evidence(path, i) for i in range(num_results)]
    if num_results == 1 and (path.exists() or not numbered[0].exists()):
        return [path]
    return numbered


def numbered_evidence(path: Path, number: int) -> Path:
    """The evidence of one of several evaluations, such as ``cw10-3.npz``."""
    return path.with_name(f"{path.stem}-{number}{path.suffix}")


def digest(actions: Actions) -> str:
    """The SHA-256 of all actions, which does not depend on the order of episodes."""
    return _combine({name: _hash(encode_actions(array)) for name, array in actions.items()})


class EvidenceWriter:
    """Writes episodes into a file as they end, as a context manager.

    The file replaces an existing one when the first episode ends. After an exception, an
    interruption or a kill, it contains the episodes that had ended. (On Windows, a kill leaves the
    existing file.) At the end they are in the order of the plan, so that equal evaluations have
    equal files.

    Args:
        path: The file.
        header: The settings of the evaluation, JSON values by name.
        planned: The episodes of the evaluation, in order.
        finished: Episodes from `read_journal` to begin with, and the bytes of their actions.

    Raises:
        EvidenceError: If the planned episodes are more than a file may have. `add` raises it for an
            episode with which the file could not be read again; those before it are kept.
        OSError: If the file cannot be written.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        header: Mapping[str, Any],
        planned: Sequence[PlannedEpisode],
        finished: Sequence[tuple[Episode, bytes]] = (),
    ) -> None:
        self._path, self._planned = path, planned
        self._hashes: dict[str, bytes] = {}  # of the actions of each episode
        self._header = json.dumps({"format": _FORMAT, **header}).encode()
        self._size, self._memory = _END, 0  # of what was written, at most
        _check_count(path, planned, arrays.estimate_memory(_HEADER, len(self._header)))
        self._unfinished, self._moved = Unfinished(path), False
        self._zip = zipfile.ZipFile(self._unfinished.file, "w")
        self._add(_HEADER, self._header)
        for episode, data in finished:
            self._write(episode, data)

    def add(self, episode: Episode, actions: NDArray[Any]) -> None:
        """Writes an episode and its actions ``(T, A)``."""
        self._write(episode, encode_actions(actions))
        if not self._moved and sys.platform != "win32":  # which moves no open file
            self._move()

    @property
    def digest(self) -> str:
        """The `digest` of all actions so far."""
        return _combine(self._hashes)

    def _write(self, episode: Episode, data: bytes) -> None:
        name, record = name_actions(episode), json.dumps(to_plain(episode)).encode()
        self._check_limits(name, {name + _NPY: data, name + _JSON: record})
        self._add(name + _NPY, data)
        self._add(name + _JSON, record)
        self._hashes[name] = _hash(data)

    def _add(self, name: str, data: bytes) -> None:
        _add(self._zip, name, data)
        self._size += self._zip.getinfo(name).compress_size + _PER_MEMBER + 2 * len(name.encode())
        self._memory += arrays.estimate_memory(name, len(data))

    def _check_limits(self, name: str, members: Mapping[str, bytes]) -> None:
        """Raises `EvidenceError` if the file could not be read again with these members."""
        memory, size = self._memory, self._size
        for member, data in members.items():
            memory += arrays.estimate_memory(member, len(data))
            size += len(data) + _PER_MEMBER + 2 * len(member.encode())
        if size > MAX_FILE:  # before compression
            size -= sum(len(data) - len(zlib.compress(data, 1)) for data in members.values())
        self._check_limit(name, size, MAX_FILE, "bytes")
        self._check_limit(name, memory, MAX_BYTES, "bytes of memory")

    def _check_limit(self, name: str, size: int, limit: int, unit: str) -> None:
        if size > limit:
            raise EvidenceError(
                f"{os.fspath(self._path)} has the {len(self._hashes)} of {len(self._planned)} "
                f"episodes before {name!r}, with which it would take {size:,} {unit}, more than "
                f"the {limit:,} that a file of evidence may: {_LESS}"
            )

    def _move(self) -> None:
        self._unfinished.complete()
        self._unfinished.move()
        self._moved = True

    def __enter__(self) -> EvidenceWriter:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        with self._unfinished:
            # Leaves out members that an interruption has truncated.
            complete = {_HEADER}
            for name in self._hashes:
                complete |= {name + _NPY, name + _JSON}
            members = self._zip.infolist()
            members[:] = [member for member in members if member.filename in complete]
            self._zip.close()
            if self._moved:
                self._unfinished.complete()
            elif self._hashes:
                self._move()
        if kind is None:
            self._sort()

    def _sort(self) -> None:
        """Writes the file again, with its episodes in the order of the plan."""
        with Unfinished(self._path) as sorted_, zipfile.ZipFile(self._path) as unsorted:
            with zipfile.ZipFile(sorted_.file, "w") as archive:
                _add(archive, _HEADER, self._header)
                for name in map(name_actions, self._planned):
                    for member in (name + _NPY, name + _JSON):
                        _add(archive, member, unsorted.read(member))
            sorted_.complete()
            sorted_.move()


_LESS = (
    "evaluate some tasks at a time (tasks=[...]), each with an evidence file of its own, or fewer "
    "episodes; actions of float32 take half as much as those of float64"
)


def _check_count(
    path: str | os.PathLike[str], planned: Sequence[PlannedEpisode], memory: int
) -> None:
    """Raises `EvidenceError` if so many episodes need too much memory, however short they are."""
    for count, episode in enumerate(planned):
        shortest = Episode(
            episode.task,
            episode.number,
            0.0,
            1,
            task_state=episode.task_state,
            trial=episode.trial,
        )
        memory += arrays.estimate_memory(_JSON, len(json.dumps(to_plain(shortest))))
        if memory > MAX_BYTES:
            raise EvidenceError(
                f"a file of evidence such as {os.fspath(path)} may have at most {count} of these "
                f"{len(planned)} episodes: {_LESS}"
            )


def _add(archive: zipfile.ZipFile, name: str, data: bytes) -> None:
    arrays.add_member(archive, name, data, compress=True)


def read_evidence(path: str | os.PathLike[str]) -> Actions:
    """Reads the actions of each episode in a file, by its name, see `name_actions`.

    From a file that a kill has truncated, it reads the complete episodes. Untrusted files are safe:
    nothing in them is run, and sizes are checked before allocation.

    Raises:
        EvidenceError: If it is not such a file.
        OSError: If it cannot be read, or has more than 256 MB.
    """
    with _members(path) as members:
        return {
            name.removesuffix(_NPY): decode_actions(name, data)
            for name, data in members
            if name.endswith(_NPY)
        }


def read_journal(
    path: str | os.PathLike[str], header: Mapping[str, Any], planned: Sequence[PlannedEpisode]
) -> list[tuple[Episode, bytes]]:
    """Reads the finished episodes of an evaluation that is resumed, with their actions' bytes.

    Args:
        path: The file; if there is none, no episode is finished.
        header: The settings of the resumed evaluation.
        planned: Its episodes.

    Raises:
        EvidenceError: If the file is of an evaluation with other settings, or another file.
        OSError: If it cannot be read, or has more than 256 MB.
    """
    if not os.path.lexists(path):
        return []
    planned_by_name = {name_actions(episode): episode for episode in planned}
    with _members(path) as members:
        data = dict(members)
        head = parse_json(data.pop(_HEADER, b"{}"))
        if not isinstance(head, dict) or head.pop("format", None) != _FORMAT:
            raise ValueError(f"it does not begin with a header of the format {_FORMAT!r}")
        for name, value in header.items():
            if head.get(name) != value:
                difference = _difference(name, head.get(name), value)
                raise ValueError(
                    f"it was begun with {difference}: resume it with the settings that it was "
                    "begun with, or begin another file"
                )
        finished = []
        for name in [key.removesuffix(_JSON) for key in data if key.endswith(_JSON)]:
            episode = from_plain(Episode, parse_json(data[name + _JSON]), name)
            actions = decode_actions(name, data.get(name + _NPY, b""))
            expected = planned_by_name.get(name)
            if expected is None or not _is_planned(episode, expected):
                raise ValueError(f"{name} is not an episode of this evaluation")
            if len(actions) != episode.length:
                steps = format_count(episode.length, "step")
                raise ValueError(f"{name} has {steps}, and {format_count(len(actions), 'action')}")
            finished.append((episode, data[name + _NPY]))
        return finished


def _is_planned(episode: Episode, planned: PlannedEpisode) -> bool:
    return episode.place == planned.place and episode.task_state == planned.task_state


def _difference(name: str, expected: Any, actual: Any) -> str:
    """The first difference of two JSON values, as the end of a sentence."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        for key in [*actual, *expected]:
            if expected.get(key) != actual.get(key):
                return _difference(key, expected.get(key), actual.get(key))
    return f"{name} {expected!r}, got {actual!r}"


@contextlib.contextmanager
def _members(path: str | os.PathLike[str]) -> Iterator[Iterator[tuple[str, bytes]]]:
    """The members of a file; errors name it."""
    with opened(path, MAX_FILE) as file:
        try:
            yield arrays.read_members(file, MAX_BYTES)
        except Exception as exc:  # an invalid file may raise anything
            raise EvidenceError(
                f"cannot use {os.fspath(path)} as evidence: {full_message(exc)}"
            ) from exc


def encode_actions(actions: NDArray[Any]) -> bytes:
    """Encodes an array for a file."""
    return arrays.to_npy(np.ascontiguousarray(actions, actions.dtype.newbyteorder("<")))


def decode_actions(name: str, data: bytes) -> NDArray[Any]:
    """Decodes an array from `encode_actions`: numbers in C order, none of them NaN."""
    actions = arrays.from_npy(name, data)
    numbers = actions.dtype.kind in "fiub" and actions.dtype.str[0] in "<|"
    if not (numbers and actions.ndim and actions.flags.c_contiguous):
        raise ValueError(f"{name!r} must hold an array of numbers in C order, got {data[:80]!r}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{name!r} has actions that are NaN")
    return actions


def _hash(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _combine(hashes: Mapping[str, bytes]) -> str:
    """One hash of the hashes of episodes, by their names."""
    combined = hashlib.sha256()
    for name, hash_of_actions in sorted(hashes.items()):
        combined.update(_hash(name.encode()) + hash_of_actions)
    return combined.hexdigest()
