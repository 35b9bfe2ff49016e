"""Checkpoints: the states of the objects of a run, in one file of JSON and arrays."""

from __future__ import annotations

import copy
import hashlib
import importlib
import inspect
import io
import json
import os
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from mtwrappers import state as layers
from mtwrappers.files import write_atomically
from mtwrappers.metaworld import plain_task

VERSION = 1
_MAGIC = b"mtwrappers checkpoint"
_PACKAGE = "mtwrappers."  # whose functions environments may have been called with


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
        TypeError: If an object has no state, or a state holds anything else than JSON values,
            arrays and Meta-World tasks; the message says where.
        OSError: If the file cannot be written.
    """
    arrays: dict[str, Any] = {}
    states = {name: _encode(_get(name, obj), name, arrays) for name, obj in objects.items()}
    payload = io.BytesIO()
    text = np.frombuffer(json.dumps(states).encode(), np.uint8)
    np.savez(payload, states=text, **arrays)
    data = payload.getvalue()
    header = b"%s %d %s\n" % (_MAGIC, VERSION, _fingerprint(data))
    write_atomically(path, header + data)


def load_checkpoint(path: str | os.PathLike[str], **objects: Any) -> None:
    """Gives objects the states that `save_checkpoint` wrote; nothing in the file is run.

    Args:
        path: The file.
        **objects: Objects like those that were saved, by the same names. Vector environments may
            have another number of workers, or another executor. A dict is emptied and filled.

    Raises:
        CheckpointError: If the file is no checkpoint, of a later version, cut or damaged, or if the
            names or an object do not go with it. No object is changed then.
        TypeError: If an object has no state.
        OSError: If the file cannot be read.
    """
    states = _read(Path(path))
    if set(states) != set(objects):
        raise CheckpointError(
            f"{path}: expected a checkpoint of {sorted(objects)}, got one of {sorted(states)}"
        )
    before = {name: copy.deepcopy(_get(name, obj)) for name, obj in objects.items()}
    changed = []
    for name, obj in objects.items():
        changed.append(name)
        try:
            _set(obj, states[name])
        except Exception as exc:
            for done in changed:
                _set(objects[done], before[done])
            raise CheckpointError(f"{path}: {name} does not go with it: {exc}") from exc


def _get(name: str, obj: Any) -> Any:
    if isinstance(obj, (gymnasium.Env, VectorEnv)):
        return layers.get_state(obj)
    if isinstance(obj, np.random.Generator):
        return obj.bit_generator.state
    if isinstance(obj, dict):
        return obj
    if hasattr(obj, "get_state") and hasattr(obj, "set_state"):
        return obj.get_state()
    raise TypeError(
        f"{name} must have get_state() and set_state(), or be an environment, a "
        f"numpy.random.Generator or a dict, got {obj!r}"
    )


def _set(obj: Any, state: Any) -> None:
    if isinstance(obj, (gymnasium.Env, VectorEnv)):
        layers.set_state(obj, state)
    elif isinstance(obj, np.random.Generator):
        obj.bit_generator.state = state
    elif isinstance(obj, dict):
        obj.clear()
        obj.update(state)
    else:
        obj.set_state(state)


def _read(path: Path) -> dict[str, Any]:
    header, _, data = path.read_bytes().partition(b"\n")
    begin = re.fullmatch(_MAGIC + rb" (\d+) (.*)", header)
    if begin is None:
        raise CheckpointError(
            f"{path}: expected a file that begins with {_MAGIC.decode()!r} and a version, got "
            f"{header[:40]!r}"
        )
    version, expected = int(begin[1]), begin[2]
    if version != VERSION:
        raise CheckpointError(
            f"{path}: expected a checkpoint of version {VERSION}, got version {version}; "
            "a later mtwrappers reads it"
        )
    if (found := _fingerprint(data)) != expected:
        raise CheckpointError(
            f"{path}: cut or damaged, expected the checksum and size {expected!r}, got {found!r}"
        )
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            states = json.loads(arrays["states"].tobytes())
            return {name: _decode(value, arrays) for name, value in states.items()}
    except Exception as exc:  # whoever wrote the checksum wrote something else than we do
        raise CheckpointError(f"{path}: its content cannot be read: {exc}") from exc


def _fingerprint(data: bytes) -> bytes:
    """The checksum and the size of what follows the first line of a file."""
    return b"%s %d" % (hashlib.sha256(data).hexdigest().encode(), len(data))


def _encode(value: Any, where: str, arrays: dict[str, Any]) -> Any:
    """Turns a state into what JSON knows, and collects its arrays."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind != "O":
        name = f"a{len(arrays)}"
        arrays[name] = np.asarray(value)
        return {"#array": name, "scalar": isinstance(value, np.generic)}
    if layers.is_task(value):
        return {"#task": _encode(plain_task.to_plain(value), where, arrays)}
    if inspect.isfunction(value) and value.__module__.startswith(_PACKAGE):
        return {"#function": [value.__module__, value.__qualname__]}
    if type(value) in (list, tuple):
        items = [_encode(item, f"{where}[{i}]", arrays) for i, item in enumerate(value)]
        return items if type(value) is list else {"#tuple": items}
    if isinstance(value, dict):
        items = [
            [_encode(key, where, arrays), _encode(item, f"{where}[{key!r}]", arrays)]
            for key, item in value.items()
        ]
        return {"#dict": items}
    raise TypeError(
        f"a checkpoint holds JSON values, arrays and Meta-World tasks; {where} is {value!r}"
    )


def _decode(value: Any, arrays: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item, arrays) for item in value]
    if not isinstance(value, dict):
        return value
    if "#array" in value:
        array = arrays[value["#array"]]
        return array[()] if value["scalar"] else array
    if "#tuple" in value:
        return tuple(_decode(item, arrays) for item in value["#tuple"])
    if "#task" in value:
        return plain_task.from_plain(_decode(value["#task"], arrays))
    if "#function" in value:
        module, name = value["#function"]
        own = module.startswith(_PACKAGE)
        found = getattr(importlib.import_module(module), name) if own else None
        if not (inspect.isfunction(found) and found.__module__ == module):
            raise ValueError(f"expected a function of this package, got {module}.{name}")
        return found
    return {_decode(key, arrays): _decode(item, arrays) for key, item in value["#dict"]}
