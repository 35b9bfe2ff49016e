"""Checkpoints: the states of the objects of a run, in one file of JSON and arrays."""

from __future__ import annotations

import copy
import hashlib
import os
import re
import stat
import sys
from collections.abc import Mapping
from typing import Any, BinaryIO

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from mtwrappers.common.checks import positive
from mtwrappers.common.errors import full_message
from mtwrappers.encoding import from_bytes, to_bytes
from mtwrappers.state import env_state as layers
from mtwrappers.state.files import write_atomically
from mtwrappers.state.plain_data import check_generator, set_generator
from mtwrappers.vector.journal import MAX_STEPS

VERSION = 2
_MAGIC = b"mtwrappers checkpoint"


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or is of other objects."""


def save_checkpoint(path: str | os.PathLike[str], **objects: Any) -> None:
    """Writes the states of objects into one file, or leaves the file that is there as it was.

    The file holds JSON and arrays alone, with a checksum. What is written goes to a temporary file
    beside it first. The file gets the mode that `open` would give it, or keeps that of the file
    that it replaces, and a symbolic link stays one. What a kill in the middle of a save leaves is
    removed by the next save to the same path.

    Args:
        path: The file.
        **objects: What the run is made of, by names of your choice: anything with ``get_state()``
            and ``set_state(state)``, environments and vector environments in any wrappers
            (vector environments need a journal, and are saved in mid-episode; single environments
            go on with a reset), `numpy.random.Generator`, and dicts of JSON values and arrays.

    Raises:
        TypeError: If an object has no state or the name of an argument of `load_checkpoint`, or a
            state holds anything else than JSON values, tuples, plain arrays (of numbers, texts or
            times, without masks or fields) and Meta-World tasks; the message says where.
        OSError: If the file cannot be written.
    """
    for name in ("max_bytes", "max_steps"):
        if name in objects:
            raise TypeError(f"{name} is an argument of load_checkpoint, not a name for an object")
    data = to_bytes({name: _get(name, obj) for name, obj in objects.items()})
    write_atomically(path, b"%s %d %s\n" % (_MAGIC, VERSION, _fingerprint(data)) + data)


def load_checkpoint(
    path: str | os.PathLike[str],
    *,
    max_bytes: int = 2**32,
    max_steps: int = MAX_STEPS,
    **objects: Any,
) -> None:
    """Gives objects the states that `save_checkpoint` wrote; nothing in the file is run.

    Args:
        path: The file.
        max_bytes: How much memory its content may take: its arrays, and 64 bytes for each
            character of its JSON. A larger one is refused before it is read.
        max_steps: How many steps of environments may be replayed to bring a vector environment to
            where it was in its episodes; see `MetaVectorEnv.set_state`. They are counted before
            the first is taken. An object of another class gets it if its ``set_state`` takes an
            argument ``max_steps``.
        **objects: Objects like those that were saved, by the same names. Vector environments may
            have another number of workers, or another executor. A dict is emptied and filled.

    Raises:
        CheckpointError: If the file is no checkpoint, of another version, cut, damaged or too
            large, or if the names or an object do not go with it. No object is changed then, nor
            after any other error.
        TypeError: If an object has no state.
        OSError: If the file cannot be read.
    """
    states = _read(path, positive(max_bytes, "max_bytes"))
    max_steps = positive(max_steps, "max_steps")
    if set(states) != set(objects):
        raise CheckpointError(
            f"{path}: expected a checkpoint of {sorted(objects)}, got one of {sorted(states)}"
        )
    before = {name: _before(name, obj) for name, obj in objects.items()}
    changed: list[str] = []
    try:
        # Vector environments come last: to put them back would be to play their episodes again.
        for name in sorted(objects, key=lambda name: isinstance(objects[name], VectorEnv)):
            changed.append(name)
            _set(objects[name], states[name], max_steps)
    except BaseException as exc:
        lost = _put_back({name: objects[name] for name in reversed(changed)}, before)
        if not isinstance(exc, Exception):
            raise
        said = f"{full_message(exc)}{lost}"
        raise CheckpointError(f"{path}: {changed[-1]} does not go with it: {said}") from exc


def _get(name: str, obj: Any) -> Any:
    if isinstance(obj, (gymnasium.Env, VectorEnv)):
        return layers.get_state(obj)
    if isinstance(obj, np.random.Generator):
        return obj.bit_generator.state
    if isinstance(obj, np.random.RandomState):
        return obj.get_state(legacy=False)
    if isinstance(obj, dict):
        return obj
    if hasattr(obj, "get_state") and hasattr(obj, "set_state"):
        return obj.get_state()
    raise TypeError(
        f"{name} must have get_state() and set_state(), or be an environment, a "
        f"numpy.random.Generator or a dict, got {obj!r}"
    )


def _before(name: str, obj: Any) -> Any:
    """A state that stays what it is when the object changes."""
    if isinstance(obj, dict):
        return dict(obj)
    state = _get(name, obj)
    return state if isinstance(obj, (gymnasium.Env, VectorEnv)) else copy.deepcopy(state)


def _set(obj: Any, state: Any, max_steps: int) -> None:
    if isinstance(obj, (gymnasium.Env, VectorEnv)):
        layers.set_state(obj, state, max_steps)
    elif isinstance(obj, np.random.Generator):
        set_generator(obj, state)
    elif isinstance(obj, np.random.RandomState):
        check_generator(state)
        obj.set_state(state)
    elif isinstance(obj, dict):
        if not isinstance(state, dict):
            raise TypeError(f"expected a dict, got {type(state).__name__}")
        obj.clear()
        obj.update(state)
    else:
        obj.set_state(state, **layers.limit(obj, max_steps))


def _put_back(objects: Mapping[str, Any], before: Mapping[str, Any]) -> str:
    """Gives objects the states that they had; returns what to say of those that it cannot."""
    lost = ""
    for name, obj in objects.items():
        try:
            if isinstance(obj, dict) or not _same(_get(name, obj), before[name]):
                _set(obj, before[name], sys.maxsize)
        except Exception as exc:
            lost += f"; {name} could not be put back: {full_message(exc)}"
    return lost


def _same(state: Any, other: Any) -> bool:
    try:
        return to_bytes({"": state}) == to_bytes({"": other})
    except TypeError:
        return False  # of what no checkpoint holds nobody knows


def _read(path: str | os.PathLike[str], max_bytes: int) -> dict[str, Any]:
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointError(f"{path}: expected a file, got a directory, a pipe or a device")
    with open(path, "rb") as file:
        data = _checked(file, str(path), max_bytes)
    try:
        return from_bytes(data, max_bytes)
    except Exception as exc:  # whoever wrote the checksum wrote something else than we do
        raise CheckpointError(f"{path}: its content cannot be read: {exc}") from exc


def _checked(file: BinaryIO, path: str, max_bytes: int) -> bytes:
    """What follows the first line of a file, which is looked at first."""
    header = file.readline(200)
    begin = re.fullmatch(_MAGIC + rb" (\d{1,9}) (.*)\n", header)
    if begin is None:
        raise CheckpointError(
            f"{path}: expected a file that begins with {_MAGIC.decode()!r} and a version, got "
            f"{header[:40]!r}"
        )
    version, expected = int(begin[1]), begin[2]
    if version != VERSION:
        when = "a later" if version > VERSION else "an earlier"
        raise CheckpointError(
            f"{path}: expected a checkpoint of version {VERSION}, got version {version}; "
            f"{when} mtwrappers reads it"
        )
    if (size := os.fstat(file.fileno()).st_size) > max_bytes:
        raise CheckpointError(f"{path}: it has {size:,} bytes, and max_bytes is {max_bytes:,}")
    data = file.read(size)
    if (found := _fingerprint(data)) != expected:
        raise CheckpointError(
            f"{path}: cut or damaged, expected the checksum and size {expected!r}, got {found!r}"
        )
    return data


def _fingerprint(data: bytes) -> bytes:
    """The checksum and the size of what follows the first line of a file."""
    return b"%s %d" % (hashlib.sha256(data).hexdigest().encode(), len(data))
