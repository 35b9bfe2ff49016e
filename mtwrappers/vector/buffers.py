"""The memory of a batch, which may be shared with workers.

Observations of Box, Discrete, MultiDiscrete, MultiBinary and Text spaces, and of Dict and Tuple
spaces of them, are *fixed*: a batch is arrays of known shape, written row by row. A batch of Text
is returned as a tuple of strings, as in Gymnasium. Observations of other spaces (Graph, Sequence,
Text of more than 1024 characters) are Python objects, which Gymnasium batches.

Usually, every environment reports the same few values in its info at every step. Gymnasium batches
infos one environment and one key at a time. Here, if every environment reports the same keys with
the same types of numbers and strings, infos are written into arrays too, and read key by key. The
results equal Gymnasium's.
"""

from __future__ import annotations

import copy
import itertools
import math
import mmap
import operator
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

Info = dict[str, Any]
# Each key with the type of all its values.
InfoSchema = tuple[tuple[str, type], ...]
ARRAY_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary)
# The capacity for infos: numbers and strings per environment, and characters per string.
NUMBERS, TEXTS, LETTERS = 64, 8, 32
_LONGEST = 1024  # characters of a Text that is fixed
_ALIGN = 64  # bytes of a cache line
# The path of a part in a nested observation, its shape and its dtype.
Leaf = tuple[tuple[Any, ...], tuple[int, ...], np.dtype[Any]]


class ObsLayout:
    """The form of ``n`` observations of a space: an array for each of its ``leaves``, or a list."""

    def __init__(self, space: Space[Any], n: int) -> None:
        self.space, self.n = space, n
        leaves = _leaves(space, ())
        self.fixed = leaves is not None
        self.leaves: list[Leaf] = leaves or []
        # The length of each part, and the shape of many parts concatenated.
        self._lengths = [({*shape[:1]}, (-1, *shape[1:])) for _, shape, _ in self.leaves]
        # One array and no nesting is by far the most common.
        self._flat = isinstance(space, ARRAY_SPACES)

    def write(self, arrays: Sequence[NDArray[Any]], start: int, rows: Sequence[Any]) -> None:
        """Writes observations, which must fit a fixed space, from the row ``start`` on."""
        for i, (path, shape, dtype) in enumerate(self.leaves):
            parts = [_part(row, path) for row in rows] if path else rows
            into = arrays[i][start : start + len(rows)]
            if dtype.kind == "U":
                into[...] = [_text(part, path, dtype) for part in parts]
                continue
            length, joined = self._lengths[i]
            try:
                # This checks the first axis; NumPy itself checks the others.
                if {*map(len, parts)} == length:
                    np.concatenate(parts, out=into.reshape(joined), casting="safe")
                    continue
            except (AttributeError, TypeError, ValueError):
                pass  # Python's own numbers and lists, scalars, and other dtypes
            into[...] = [_fitted(part, path, shape, dtype) for part in parts]

    def batch(self, arrays: Sequence[Any]) -> Any:
        """Copies of all observations, as a vector environment returns them."""
        if not self.fixed:
            out: Any = create_empty_array(self.space, self.n)
            return copy.deepcopy(concatenate(self.space, arrays[0], out))
        if self._flat:
            return arrays[0].copy()
        return _nest(self.space, map(_column, arrays).__next__)


class Buffers:
    """Arrays over one memory, each with a row per environment.

    With a file descriptor ``fd``, the memory is the file, which other processes may share. ``obs``
    is one array per leaf of the layout, or a list of Python objects, which is not shared.
    ``actions`` has the bytes of an array of ``actions_shape``, with room for 8 per number.
    ``finished`` marks environments whose episodes have ended, ``paused`` those that are not to be
    stepped, and ``digests`` are hashes of what each has returned (see `mtwrappers.vector.journal`);
    ``beats`` is the time (`time.monotonic`) of the block's last sign of life; ``numbers`` and
    ``texts`` hold infos, a column for each key.
    """

    obs: list[Any]

    def __init__(self, layout: ObsLayout, action_shape: tuple[int, ...] = (), fd: int = -1) -> None:
        n = layout.n
        forms: list[tuple[tuple[int, ...], Any]] = [
            *((shape, dtype) for _, shape, dtype in layout.leaves),
            (action_shape, np.float64),  # 8 bytes, whatever dtype actions have
            ((), np.float64),
            *[((), np.bool_)] * 4,
            ((), np.uint64),
            ((), np.float64),
            ((NUMBERS,), np.float64),
            ((TEXTS,), f"U{LETTERS}"),
        ]
        parts = [((n, *shape), dtype) for shape, dtype in forms]
        sizes = [math.prod(shape) * np.dtype(dtype).itemsize for shape, dtype in parts]
        starts = [0, *itertools.accumulate(-(-size // _ALIGN) * _ALIGN for size in sizes)]
        if fd >= 0:
            os.ftruncate(fd, starts[-1])
        memory: Any = mmap.mmap(fd, starts[-1]) if fd >= 0 else bytearray(starts[-1])
        self._take(
            [
                np.frombuffer(memory, dtype, math.prod(shape), start).reshape(shape)
                for (shape, dtype), start in zip(parts, starts, strict=False)
            ]
        )
        if not layout.fixed:
            self.obs = [[None] * n]

    def _take(self, arrays: list[NDArray[Any]]) -> None:
        self._arrays = arrays
        *self.obs, actions, self.rewards, self.terminated, self.truncated = arrays[:-6]
        self.actions, self.actions_shape = actions.reshape(-1).view(np.uint8), actions.shape
        self.finished, self.paused, self.digests, self.beats = arrays[-6:-2]
        self.numbers, self.texts = arrays[-2:]

    def part(self, rows: slice) -> Buffers:
        """A view of the rows of some environments."""
        part = copy.copy(self)
        part._take([array[rows] for array in self._arrays])
        return part

    def pack(self) -> bytes:
        """All data in these arrays, for `unpack`."""
        return b"".join([array.tobytes() for array in self._arrays])

    def unpack(self, data: bytes) -> None:
        """Writes the data that `pack` returned for as many environments."""
        start = 0
        for array in self._arrays:
            written = np.frombuffer(data, array.dtype, array.size, start)
            array[...] = written.reshape(array.shape)
            start += array.nbytes


def _column(array: NDArray[Any]) -> Any:
    """Copies an array; texts become a tuple, as Gymnasium batches them."""
    return tuple(array.tolist()) if array.dtype.kind == "U" else array.copy()


def _leaves(space: Space[Any], path: tuple[Any, ...]) -> list[Leaf] | None:
    if isinstance(space, Text) and 1 <= space.max_length <= _LONGEST:
        return [(path, (), np.dtype(f"U{space.max_length}"))]
    if isinstance(space, ARRAY_SPACES):
        return [(path, tuple(space.shape or ()), np.dtype(np.dtype(space.dtype).str))]
    if isinstance(space, (Dict, Tuple)):
        items = space.items() if isinstance(space, Dict) else enumerate(space.spaces)
        found: list[Leaf] = []
        for key, sub in items:
            below = _leaves(sub, (*path, key))
            if below is None:
                return None
            found += below
        return found or None
    return None


def _nest(space: Space[Any], take: Callable[[], Any]) -> Any:
    if isinstance(space, Dict):
        return {key: _nest(sub, take) for key, sub in space.items()}
    if isinstance(space, Tuple):
        return tuple(_nest(sub, take) for sub in space.spaces)
    return take()


def _part(obs: Any, path: tuple[Any, ...]) -> Any:
    part = obs
    try:
        for key in path:
            part = part[key]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"expected an observation with {_name(path)}, got {obs!r}") from None
    return part


def _fitted(
    value: Any, path: tuple[Any, ...], shape: tuple[int, ...], dtype: np.dtype[Any]
) -> NDArray[Any]:
    """An observation as an array of its space's shape and dtype; floats may be rounded."""
    try:
        array = np.asarray(value)
    except ValueError:  # lists of several lengths
        array = np.asarray(None)
    real = array.dtype.kind in "biuf"
    if array.shape == shape and real:
        if dtype.kind == "f" or np.can_cast(array.dtype, dtype):
            return array
        with np.errstate(invalid="ignore"):
            cast = array.astype(dtype)
        if (cast == array).all():
            return cast
    got = f"{value!r} " if array.size <= 4 else ""
    got += (
        f"of shape {array.shape} and dtype {array.dtype}" if real else f"({type(value).__name__})"
    )
    raise ValueError(f"expected {_name(path)} of shape {shape} and dtype {dtype}, got {got}")


def _text(value: Any, path: tuple[Any, ...], dtype: np.dtype[Any]) -> str:
    """Checks that an array of this dtype can hold an observation of a Text, and returns it."""
    most = dtype.itemsize // 4
    # NumPy would truncate a long string, and drop trailing zeros.
    if isinstance(value, str) and len(value) <= most and value[-1:] != "\0":
        return value
    got = f"a string of {len(value)}" if isinstance(value, str) else repr(value)
    raise ValueError(
        f"expected {_name(path)} that is a string of at most {most} characters, the last of them "
        f"not zero, got {got}"
    )


def _name(path: tuple[Any, ...]) -> str:
    return "an observation" if not path else "a part " + "".join(f"[{key!r}]" for key in path)


_FLOAT64 = (float, np.float64)


def schema_of(infos: Sequence[Info]) -> InfoSchema | None:
    """The keys and types that ``infos`` share; ``None`` if they do not fit `InfoColumns`."""
    schema = tuple((key, type(value)) for key, value in infos[0].items())
    keys, kinds = [key for key, _ in schema], [kind for _, kind in schema]
    texts = kinds.count(str)
    if texts > TEXTS or len(schema) - texts > NUMBERS:
        return None
    for key, kind in schema:
        if type(key) is not str or key[:1] == "_" or key == "final_obs":
            return None  # Gymnasium gives these a meaning
        number = issubclass(kind, (np.integer, np.floating))
        if kind in (np.longdouble, np.timedelta64) or not (
            number or kind in (float, int, bool, str)
        ):
            return None
    same = all([*info] == keys and [*map(type, info.values())] == kinds for info in infos)
    return schema if same else None


class InfoColumns:
    """Infos of one schema in the arrays of buffers.

    Most values are float64: they are read from each info in one call, and use the first columns.
    """

    def __init__(self, schema: InfoSchema, buffers: Buffers) -> None:
        self.schema = schema
        self._keys = [key for key, _ in schema]
        self._kinds = [kind for _, kind in schema]
        self._n = len(buffers.numbers)
        floats = [key for key, kind in schema if kind in _FLOAT64]
        self._floats = buffers.numbers[:, : len(floats)]
        self._by_env = self._floats[:, 0] if len(floats) == 1 else self._floats
        self._take = operator.itemgetter(*floats) if floats else None
        floating, texts = iter(self._floats.T), iter(buffers.texts.T)
        others = iter(buffers.numbers.T[len(floats) :])
        self._plan = []
        for key, kind in schema:
            column = next(floating if kind in _FLOAT64 else texts if kind is str else others)
            if kind is not float and kind is not str and not issubclass(kind, np.floating):
                column = column.view(np.int64)
            self._plan.append((key, "_" + key, kind, column))
        self._others = [step for step in self._plan if step[2] not in _FLOAT64]

    def write(self, infos: Sequence[Any]) -> bool:
        """Writes the infos of all environments, and returns whether they fit."""
        keys, kinds = self._keys, self._kinds
        if not keys:
            return infos.count({}) == len(infos)
        for info in infos:
            if type(info) is not dict or [*map(type, info.values())] != kinds or [*info] != keys:
                return False
        if self._take is not None:
            self._by_env[...] = [*map(self._take, infos)]
        for key, _, kind, column in self._others:
            values = [info[key] for info in infos]
            # NumPy would truncate a long string, and drop trailing zeros.
            if kind is str and (max(map(len, values)) > LETTERS or "\0" in "".join(values)):
                return False
            try:
                column[...] = values
            except OverflowError:  # an int beyond 64 bits
                return False
        return True

    def read(self) -> Info:
        """The infos of all environments, as a vector environment returns them."""
        batched: Info = {}
        masks = np.ones((len(self._plan), self._n), np.bool_) if self._plan else ()
        for (key, mask_key, kind, column), mask in zip(self._plan, masks, strict=True):
            batched[key] = column.astype(object if kind is str else kind)
            batched[mask_key] = mask
        return batched

    def read_each(self, rows: slice) -> list[Info]:
        """The infos of the environments ``rows``, one by one."""
        return [
            {key: kind(column[i].item()) for key, _, kind, column in self._plan}
            for i in range(rows.start, rows.stop)
        ]
