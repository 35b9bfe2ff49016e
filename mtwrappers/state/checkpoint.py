"""Checkpoints: the states of the objects of a run, in one file of JSON and arrays.

After a line with the version and a checksum, the file is a zip file: ``states.json`` holds the
states, and refers by number to the arrays, which are the other members.
"""

from __future__ import annotations

import copy
import hashlib
import io
import json
import os
import re
import sys
import warnings
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, BinaryIO, NamedTuple

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.errors import full_message, printable, short
from mtwrappers.common.types import AnyArray
from mtwrappers.state.arrays import add_member, read_members, to_npy
from mtwrappers.state.env_state import get_state, set_state
from mtwrappers.state.files import opened, write_atomically
from mtwrappers.state.identity import unknown_arguments
from mtwrappers.state.plain_data import (
    array_name,
    decode,
    encode,
    hint_at_arrays,
    set_generator,
)

VERSION = 1
_MAGIC = b"mtwrappers checkpoint"
_STATES = "states.json"


class CheckpointError(ValueError):
    """A file is not a checkpoint, is damaged, or belongs to other objects."""


@explains_arguments(example="envs=envs")
def save_checkpoint(path: str | os.PathLike[str], **objects: Any) -> None:
    """Writes the states of objects into one file; if that fails, an existing file is unchanged.

    The file holds only JSON and arrays, with a checksum. The data is first written to a temporary
    file in the same directory. The file gets the mode that `open` would give it, or keeps the mode
    of the file that it replaces; a symbolic link is replaced, and its target is not changed. If a
    save is killed, the next save to the same path removes its temporary file. A warning names
    classes whose arguments `load_checkpoint` cannot compare, because they are not kept.

    Args:
        path: The file.
        **objects: The objects of the run, under names of your choice: anything with ``get_state()``
            and ``set_state(state)``, environments and vector environments in any wrappers
            (vector environments need a journal, and are saved in mid-episode; single environments
            continue with a reset), `numpy.random.Generator`, and dicts of JSON values and arrays.

    Raises:
        TypeError: If an object has no state, is named like an argument of `load_checkpoint`, or its
            state holds anything but JSON values, tuples, plain arrays (of numbers, texts or times,
            without masks or fields) and Meta-World tasks; the message says where. Or if there is no
            object.
        OSError: If the file cannot be written.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, journal=True)
    >>> progress = {"steps": 0}
    >>> obs, infos = envs.reset(seed=0)
    >>> mtwrappers.save_checkpoint("run.ckpt", envs=envs, progress=progress)
    """
    _require_objects("save_checkpoint", objects)
    states = {name: _access(name, obj).get_state() for name, obj in objects.items()}
    data = to_bytes(states)
    if unknown := sorted(set(unknown_arguments(states))):
        warnings.warn(
            f"load_checkpoint cannot compare the arguments of {', '.join(unknown)}, because these "
            "are not kept: pass the same ones then, or make environments with gymnasium.make, make "
            "other objects dataclasses, or derive their class from gymnasium.utils.EzPickle",
            stacklevel=find_stacklevel(),
        )
    write_atomically(path, b"%s %d %s\n" % (_MAGIC, VERSION, _fingerprint(data)) + data)


@explains_arguments(example="envs=envs")
def load_checkpoint(path: str | os.PathLike[str], **objects: Any) -> None:
    """Restores the states that `save_checkpoint` wrote; nothing in the file is run.

    Args:
        path: The file.
        **objects: Objects like the saved ones, under the same names. Vector environments may have
            another number of workers, or another executor. A dict is emptied and filled.

    Raises:
        CheckpointError: If the file is not a checkpoint, has another version, is truncated or
            damaged, or does not match the names or an object. After this and any other error, all
            objects are as before.
        TypeError: If an object has no state, or there is no object.
        OSError: If the file cannot be read, or is a directory, a pipe or a device.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, journal=True)
    >>> progress = {"steps": 0}
    >>> obs, infos = envs.reset(seed=0)
    >>> progress["steps"] = 4
    >>> mtwrappers.save_checkpoint("run.ckpt", envs=envs, progress=progress)
    >>> envs.close()

    In a later session, with objects like these:

    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, journal=True)
    >>> progress = {}
    >>> mtwrappers.load_checkpoint("run.ckpt", envs=envs, progress=progress)
    >>> progress
    {'steps': 4}
    """
    _require_objects("load_checkpoint", objects)
    states = _read(path)
    if set(states) != set(objects):
        raise CheckpointError(
            f"{path}: expected a checkpoint of {sorted(objects)}, got one of {sorted(states)}; "
            "pass an object for each of its names"
        )
    accesses = {name: _access(name, obj) for name, obj in objects.items()}
    old_states = {}
    for name, access in accesses.items():
        try:
            old_state = access.get_state()
            # A dict holds the caller's own objects, which it has to hold again.
            is_dict = isinstance(objects[name], dict)
            old_states[name] = old_state if is_dict else copy.deepcopy(old_state)
        except Exception as exc:
            raise CheckpointError(
                f"{path}: not loaded, because {name} could not be put back if that failed: "
                f"{full_message(exc)}"
            ) from exc
    changed: list[str] = []
    try:
        # Vector environments come last, because restoring them replays all steps of their episodes.
        for name in sorted(objects, key=lambda name: isinstance(objects[name], VectorEnv)):
            changed.append(name)
            accesses[name].set_state(states[name])
    except BaseException as exc:
        failures = ""
        for name in reversed(changed):
            failures += _put_back(name, accesses[name], old_states[name])
        if not isinstance(exc, Exception):
            raise
        reason = f"{full_message(exc)}{failures}"
        raise CheckpointError(f"{path}: {changed[-1]} does not fit it: {reason}") from exc


def _require_objects(function: str, objects: Mapping[str, Any]) -> None:
    """Raises `TypeError` if there are no objects: an empty file would replace a good one."""
    if not objects:
        raise TypeError(
            f"{function} needs at least one object, got none: pass the objects of the run by name, "
            f"such as {function}(path, envs=envs, progress=progress)"
        )


class _Access(NamedTuple):
    """The functions that return the state of one of the objects, and set it."""

    get_state: Callable[[], Any]
    set_state: Callable[[Any], object]


def _access(name: str, obj: Any) -> _Access:
    if isinstance(obj, (gymnasium.Env, VectorEnv)):
        return _Access(partial(get_state, obj), partial(set_state, obj))
    if isinstance(obj, np.random.Generator):
        return _Access(lambda: obj.bit_generator.state, partial(set_generator, obj))
    if isinstance(obj, dict):
        return _Access(partial(dict, obj), partial(_fill, obj))
    if hasattr(obj, "get_state") and hasattr(obj, "set_state"):
        return _Access(obj.get_state, obj.set_state)
    hint, type_ = hint_at_arrays(obj), type(obj)
    if isinstance(obj, (bool, int, float, str, list, np.ndarray)):
        hint = f"; put it into a dict, such as progress={{{name!r}: {short(obj)}}}"
    elif isinstance(getattr(obj, "vec_env", None), VectorEnv):  # an adapter for another library
        hint = f"; pass the vector environment inside it, {name}.vec_env"
        if hasattr(type_, "save") and hasattr(type_, "load"):  # such as SB3's VecNormalize
            hint += (
                f", and save its statistics by {name}.save(path), for "
                f"{type_.__name__}.load(path, venv)"
            )
    elif hasattr(type_, "save") and hasattr(type_, "load"):  # such as SB3's algorithms
        hint = f"; save it by {name}.save(path), for {type_.__name__}.load(path)"
    raise TypeError(
        f"{name} must have get_state() and set_state(), or be an environment, a "
        f"numpy.random.Generator or a dict of arrays and JSON values, got {short(obj)}{hint}"
    )


def _fill(obj: dict[Any, Any], state: Any) -> None:
    if not isinstance(state, dict):
        raise TypeError(f"expected a dict, got {type(state).__name__}")
    obj.clear()
    obj.update(state)


def _put_back(name: str, access: _Access, old_state: Any) -> str:
    """Restores an object to its old state; returns a message if that fails."""
    try:
        if not _are_same(access.get_state(), old_state):
            access.set_state(old_state)
    except Exception as exc:
        return f"; {name} could not be put back: {full_message(exc)}"
    return ""


def _are_same(state: Any, old_state: Any) -> bool:
    try:
        return to_bytes({"": state}) == to_bytes({"": old_state})
    except TypeError:
        return False  # unknown, because a checkpoint cannot hold it


def _read(path: str | os.PathLike[str]) -> dict[str, Any]:
    try:
        with opened(path, sys.maxsize) as file:
            data = _read_checked(file, str(path))
    except OSError as exc:
        text = f"{exc.strerror}; expected a file of save_checkpoint"
        raise OSError(exc.errno, text, exc.filename) from None
    try:
        return from_bytes(data)
    except Exception as exc:  # the checksum is right, but this package did not write the file
        raise CheckpointError(f"{path}: its content cannot be read: {exc}") from exc


def _read_checked(file: BinaryIO, path: str) -> bytes:
    """The bytes after the first line of a file, which is read first."""
    header = file.readline(200)
    match = re.fullmatch(_MAGIC + rb" (\d{1,9}) (.*?(\d*))\n", header)
    if match is None:
        text = header[:40].decode("ascii", "backslashreplace").rstrip()
        start = f"one that begins with '{printable(text)}'" if header else "an empty file"
        raise CheckpointError(
            f"{path}: expected a file of save_checkpoint, which begins with {_MAGIC.decode()!r} "
            f"and a version, got {start}"
        )
    version, expected = int(match[1]), match[2]
    if version != VERSION:
        when = "a later" if version > VERSION else "an earlier"
        raise CheckpointError(
            f"{path}: expected a checkpoint of version {VERSION}, got version {version}; "
            f"{when} mtwrappers reads it"
        )
    size = os.fstat(file.fileno()).st_size - len(header)
    saved_size = int(match[3] or 0)
    data = file.read(size) if size == saved_size else b""
    if _fingerprint(data) != expected:
        reason = "its content does not match the checksum in its first line"
        if size != saved_size:
            reason = f"expected {saved_size:,} bytes after its first line, got {size:,}"
        raise CheckpointError(
            f"{path}: truncated or damaged: {reason}; copy the file again, or load another one"
        )
    return data


def _fingerprint(data: bytes) -> bytes:
    """The checksum and the size of what follows the first line of a file."""
    return b"%s %d" % (hashlib.sha256(data).hexdigest().encode(), len(data))


def to_bytes(states: Mapping[str, Any]) -> bytes:
    """Encodes states by name as bytes; a `TypeError` names a value that cannot be encoded."""
    arrays: list[AnyArray] = []
    encoded = {name: encode(state, name, arrays) for name, state in states.items()}
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        add_member(archive, _STATES, json.dumps(encoded).encode(), compress=False)
        for number, array in enumerate(arrays):
            add_member(archive, array_name(number), to_npy(array), compress=False)
    return buffer.getvalue()


def from_bytes(data: bytes) -> dict[str, Any]:
    """Decodes the states that `to_bytes` encoded; arrays are new copies.

    Untrusted bytes are safe: nothing in them is run, and invalid ones raise an exception early.
    Nothing in them is compressed, so that what they take follows from their length.
    """
    members = dict(read_members(io.BytesIO(data), None))
    states = json.loads(members.pop(_STATES, b"").decode("ascii"))
    if not isinstance(states, dict):
        raise ValueError(f"expected the states by name, got {type(states).__name__}")
    decoded = {name: decode(value, members) for name, value in states.items()}
    if members:
        raise ValueError(f"nothing refers to the arrays {sorted(members)}")
    return decoded
