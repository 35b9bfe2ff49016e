"""Checkpoints that somebody has changed, with the right checksum."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mtwrappers.state.checkpoint import _MAGIC, VERSION, _fingerprint, from_bytes, to_bytes


class Command:
    """Makes a directory where it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def payload(path: Path) -> Any:
    """An array whose ``data`` makes a directory where it is unpickled."""
    return np.frombuffer(pickle.dumps(Command(path)), np.uint8)


def read(path: Path) -> dict[str, Any]:
    """The plain values of a checkpoint."""
    return from_bytes(path.read_bytes().split(b"\n", 1)[1])


def write(path: Path, states: dict[str, Any]) -> None:
    """A checkpoint of plain values."""
    data = to_bytes(states)
    path.write_bytes(b"%s %d %s\n" % (_MAGIC, VERSION, _fingerprint(data)) + data)


def craft(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Changes the plain values of a checkpoint."""
    states = read(path)
    change(states)
    write(path, states)


def paths(values: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The way to each of some plain values, however deep."""
    inner: Any = values.items() if isinstance(values, dict) else ()
    if type(values) in (list, tuple):
        inner = enumerate(values)
    for key, value in inner:
        yield (*path, key)
        yield from paths(value, (*path, key))


def replace(values: Any, path: Sequence[Any], value: Any) -> Any:
    """The plain values with another one at the end of this way."""
    if not path:
        return value
    key, *rest = path
    if isinstance(values, tuple):
        return tuple(
            replace(item, rest, value) if i == key else item for i, item in enumerate(values)
        )
    values[key] = replace(values[key], rest, value)
    return values
