"""The actions of an evaluation's episodes, in an ``.npz`` file with an array ``(T, A)`` for each.

The actions are stored as the environments received them, in the policy's dtype, because a cast
would change the last bits of later states. The byte order is always little-endian. `numpy.load`
reads the file, with names such as ``"push-v3/7"``: the task and the number of the episode.
"""

from __future__ import annotations

import hashlib
import os
import sys
import zipfile
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.episodes import Episode, Observer, PlannedEpisode
from mtwrappers.samplers.rollout import Step
from mtwrappers.state import arrays
from mtwrappers.state.files import Unfinished, opened

# The actions of each episode by its name.
Actions = Mapping[str, NDArray[Any]]
# Limits for untrusted files, in bytes: the size of the file, and of its arrays in memory.
MAX_FILE, MAX_BYTES = 2**28, 2**30
_NEVER = 2**62


class EvidenceError(ValueError):
    """A file does not contain actions of episodes, or lacks some that are needed."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 1000))


def name_of(episode: Episode | PlannedEpisode) -> str:
    """The name of an episode's actions in a file."""
    trial = () if episode.trial is None else (str(episode.trial),)
    return "/".join((episode.task, *trial, str(episode.number)))


def digest(actions: Actions) -> str:
    """The SHA-256 of all actions, which does not depend on the order of episodes."""
    return _seal({name: _code(to_npy(array)) for name, array in actions.items()})


class ActionRecorder(Observer):
    """Collects the actions of ``N`` environments, and passes on those of each finished episode."""

    def __init__(self, keep: Callable[[Episode, NDArray[Any]], object]) -> None:
        self._keep = keep
        self._log: NDArray[Any] | None = None  # (at least T, N, A), a row for each step
        self._now = 0  # the number of rows

    def step(self, step: Step) -> None:
        """Records the actions of a step."""
        if self._log is None:
            self._log = np.empty((512, *step.actions.shape), step.actions.dtype)
            # The row at which each environment's episode begins; `_NEVER` without an episode.
            self._begins = np.full(len(step.actions), _NEVER)
        if step.actions.dtype != self._log.dtype:
            raise ValueError(
                "actions that are recorded as evidence must keep their dtype, got "
                f"{self._log.dtype} and then {step.actions.dtype}"
            )
        if self._now == len(self._log):
            self._make_room(self._log)
        self._begins[step.began] = self._now
        self._log[self._now] = step.actions
        self._now += 1

    def _make_room(self, log: NDArray[Any]) -> None:
        """Drops the rows that no episode needs any more."""
        first = min(self._begins.min(), self._now)
        self._begins[self._begins < _NEVER] -= first
        self._now -= first
        self._log = np.empty((max(512, 2 * self._now), *log.shape[1:]), log.dtype)
        self._log[: self._now] = log[first:]

    def end(self, i: int, episode: Episode) -> None:
        """Passes on the actions of an episode."""
        assert self._log is not None  # an episode has a step
        self._keep(episode, self._log[self._begins[i] : self._now, i].copy())
        self._begins[i] = _NEVER


class EvidenceWriter:
    """Writes the actions of episodes into a file as they end, as a context manager.

    The file replaces an existing one when the first episode ends. After an exception, an
    interruption or a kill, it contains the episodes that had ended. (On Windows, a kill leaves the
    existing file.)

    Args:
        path: The file.
        finished: Episodes whose actions are already in the existing file, and are kept.

    Raises:
        EvidenceError: If the existing file lacks one of them.
        OSError: If the file cannot be written, or the existing one cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str], finished: Iterable[Episode] = ()) -> None:
        before = {name_of(episode) for episode in finished}
        kept = read_evidence(path) if before else {}
        if missing := sorted(before - set(kept)):
            raise EvidenceError(
                f"{os.fspath(path)} must hold the actions of all finished episodes, {missing[0]!r} "
                f"is not among its {len(kept)}: leave an episode out of finished to run it again"
            )
        self._codes: dict[str, bytes] = {}
        self._unfinished, self._moved = Unfinished(path), False
        self._zip = zipfile.ZipFile(self._unfinished.file, "w")
        for name in sorted(before):
            self._write(name, kept[name])

    def add(self, episode: Episode, actions: NDArray[Any]) -> None:
        """Writes the actions ``(T, A)`` of an episode."""
        self._write(name_of(episode), actions)
        self._unfinished.file.flush()  # a kill would lose buffered data
        if not self._moved and sys.platform != "win32":  # which moves no open file
            self._move()

    @property
    def digest(self) -> str:
        """The `digest` of all actions so far."""
        return _seal(self._codes)

    def _write(self, name: str, actions: NDArray[Any]) -> None:
        data = to_npy(actions)
        arrays.add_member(self._zip, f"{name}.npy", data, compress=True)
        self._codes[name] = _code(data)

    def _move(self) -> None:
        self._unfinished.complete()
        self._unfinished.move()
        self._moved = True

    def __enter__(self) -> EvidenceWriter:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        with self._unfinished:
            # Leaves out a member that an interruption has truncated.
            written = self._zip.infolist()
            written[:] = [one for one in written if one.filename[:-4] in self._codes]
            self._zip.close()
            if self._moved:
                self._unfinished.complete()
            elif kind is None or self._codes:
                self._move()


def read_evidence(path: str | os.PathLike[str], *, max_bytes: int = MAX_BYTES) -> Actions:
    """Reads the actions of each episode in a file, by `name_of` the episode.

    From a file that a kill has truncated, it reads the complete episodes. Untrusted files are safe:
    nothing in them is run, and sizes are checked before allocation.

    Raises:
        EvidenceError: If it is not such a file, or its arrays take more than ``max_bytes``.
        OSError: If it cannot be read, or has more than 256 MB.
    """
    with opened(path, MAX_FILE) as file:
        try:
            members = arrays.read_members(file, max_bytes, cut_off=True)
            return {name[:-4]: actions_of(name, data) for name, data in members}
        except Exception as exc:  # an invalid file may raise anything
            said = f"cannot read {os.fspath(path)}: {full_message(exc)}"
            raise EvidenceError(f"expected the actions of episodes, {said}") from exc


def to_npy(actions: NDArray[Any]) -> bytes:
    """Encodes an array for a file."""
    return arrays.to_npy(np.ascontiguousarray(actions, actions.dtype.newbyteorder("<")))


def actions_of(name: str, data: bytes) -> NDArray[Any]:
    """Decodes an array from `to_npy`: numbers in C order, none of them NaN."""
    actions = arrays.from_npy(name, data)
    numbers = actions.dtype.kind in "fiub" and actions.dtype.str[0] in "<|"
    if not (numbers and actions.ndim and actions.flags.c_contiguous):
        raise ValueError(f"{name!r} must hold an array of numbers in C order, got {data[:80]!r}")
    if actions.dtype.kind == "f" and np.isnan(actions).any():
        raise ValueError(f"{name!r} has actions that are NaN")
    return actions


def _code(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _seal(codes: Mapping[str, bytes]) -> str:
    code = hashlib.sha256()
    for name, own in sorted(codes.items()):
        code.update(_code(name.encode()) + own)
    return code.hexdigest()
