"""The memory of a batch, which may be shared with workers.

Observations of Box, Discrete, MultiDiscrete, MultiBinary and Text spaces, and of Dict and Tuple
spaces of them, are *fixed*: a batch is arrays of known shape, written row by row. A batch of Text
is returned as a tuple of strings, as in Gymnasium. Observations of other spaces (Graph, Sequence,
Text of more than 1024 characters) are Python objects, which Gymnasium batches.

Usually, every environment reports the same few values in its info at every step. Gymnasium batches
infos one environment and one key at a time. Here, if every environment reports the same keys with
the same types of numbers and strings, infos are written into arrays too, and read key by key; see
`InfoColumns`. The results equal Gymnasium's.
"""

from __future__ import annotations

import copy
import itertools
import math
import mmap
import operator
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, Text, Tuple
from gymnasium.vector.utils import concatenate, create_empty_array
from numpy.typing import NDArray

from mtwrappers.common.types import AnyArray, Info

ARRAY_SPACES = (Box, Discrete, MultiDiscrete, MultiBinary)
# The capacity for infos: numbers and strings per environment, and characters per string.
NUMBERS, TEXTS, LETTERS = 64, 8, 32
_LONGEST = 1024  # characters of a Text that is fixed
_ALIGN = 64  # bytes of a cache line
# The path of a part in a nested observation, its shape and its dtype.
Leaf = tuple[tuple[Any, ...], tuple[int, ...], np.dtype[Any]]
# Each key of infos with the type of all its values.
InfoSchema = tuple[tuple[str, type], ...]
_FLOAT64 = (float, np.float64)


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
            values = [_part(row, path) for row in rows] if path else rows
            target = arrays[i][start : start + len(rows)]
            if dtype.kind == "U":
                target[...] = [_text(value, path, dtype) for value in values]
                continue
            length, joined = self._lengths[i]
            try:
                # This checks the first axis; NumPy itself checks the others.
                if {*map(len, values)} == length:
                    np.concatenate(values, out=target.reshape(joined), casting="safe")
                    continue
            except (AttributeError, TypeError, ValueError):
                pass  # Python's own numbers and lists, scalars, and other dtypes
            target[...] = [_fitted(value, path, shape, dtype) for value in values]

    def batch(self, arrays: Sequence[Any]) -> Any:
        """Copies of all observations, as a vector environment returns them."""
        if not self.fixed:
            batch: Any = create_empty_array(self.space, self.n)
            return copy.deepcopy(concatenate(self.space, arrays[0], batch))
        if self._flat:
            return arrays[0].copy()
        return _nest(self.space, map(_column, arrays).__next__)


class Buffers:
    """Arrays over one memory, each with a row per environment.

    With a file descriptor ``fd``, the memory is the file, which other processes may share. ``obs``
    is one array per leaf of the layout, or a list of Python objects, which is not shared.
    ``finished`` marks environments whose episodes have ended, ``paused`` those that are not to be
    stepped, and ``digests`` are hashes of what each has returned (see `mtwrappers.vector.journal`);
    ``beats`` is the time (`time.monotonic`) of the block's last sign of life; ``numbers`` and
    ``texts`` hold infos, a column for each key.
    """

    obs: list[Any]
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    finished: NDArray[np.bool_]
    paused: NDArray[np.bool_]
    digests: NDArray[np.uint64]
    beats: NDArray[np.float64]
    numbers: NDArray[np.float64]
    texts: NDArray[np.str_]

    def __init__(self, layout: ObsLayout, fd: int = -1) -> None:
        # The shape and the dtype of a row of each array.
        rows: dict[str, tuple[tuple[int, ...], Any]] = {
            "rewards": ((), np.float64),
            "terminated": ((), np.bool_),
            "truncated": ((), np.bool_),
            "finished": ((), np.bool_),
            "paused": ((), np.bool_),
            "digests": ((), np.uint64),
            "beats": ((), np.float64),
            "numbers": ((NUMBERS,), np.float64),
            "texts": ((TEXTS,), f"U{LETTERS}"),
        }
        obs_rows = [(shape, dtype) for _, shape, dtype in layout.leaves]
        arrays = _allocate(layout.n, [*obs_rows, *rows.values()], fd)
        self.obs = arrays[: len(obs_rows)]
        self._set_arrays(dict(zip(rows, arrays[len(obs_rows) :], strict=True)))
        if not layout.fixed:
            self.obs = [[None] * layout.n]

    def _set_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Sets the arrays other than observations, by their names."""
        self._arrays = arrays
        vars(self).update(arrays)

    @property
    def _all(self) -> list[NDArray[Any]]:
        """All arrays, in the order of `pack`."""
        obs = [array for array in self.obs if isinstance(array, np.ndarray)]
        return [*obs, *self._arrays.values()]

    def part(self, rows: slice) -> Buffers:
        """A view of the rows of some environments."""
        view = copy.copy(self)
        view.obs = [array[rows] for array in self.obs]
        view._set_arrays({name: array[rows] for name, array in self._arrays.items()})
        return view

    def pack(self) -> bytes:
        """All data in these arrays, for `unpack`."""
        return b"".join([array.tobytes() for array in self._all])

    def unpack(self, data: bytes) -> None:
        """Writes the data that `pack` returned for as many environments."""
        start = 0
        for array in self._all:
            written = np.frombuffer(data, array.dtype, array.size, start)
            array[...] = written.reshape(array.shape)
            start += array.nbytes


def _allocate(n: int, rows: Sequence[tuple[tuple[int, ...], Any]], fd: int) -> list[NDArray[Any]]:
    """Arrays with ``n`` rows of these shapes and dtypes, in one memory, or in the file ``fd``."""
    shapes = [(n, *shape) for shape, _ in rows]
    dtypes = [np.dtype(dtype) for _, dtype in rows]
    sizes = [math.prod(shape) * dtype.itemsize for shape, dtype in zip(shapes, dtypes, strict=True)]
    starts = [0, *itertools.accumulate(-(-size // _ALIGN) * _ALIGN for size in sizes)]
    if fd >= 0:
        os.ftruncate(fd, starts[-1])
    memory: Any = mmap.mmap(fd, starts[-1]) if fd >= 0 else bytearray(starts[-1])
    return [
        np.frombuffer(memory, dtype, math.prod(shape), start).reshape(shape)
        for shape, dtype, start in zip(shapes, dtypes, starts[:-1], strict=True)
    ]


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
        leaves: list[Leaf] = []
        for key, subspace in items:
            sub_leaves = _leaves(subspace, (*path, key))
            if sub_leaves is None:
                return None
            leaves += sub_leaves
        return leaves or None
    return None


def _nest(space: Space[Any], take: Callable[[], Any]) -> Any:
    if isinstance(space, Dict):
        return {key: _nest(sub, take) for key, sub in space.items()}
    if isinstance(space, Tuple):
        return tuple(_nest(sub, take) for sub in space.spaces)
    return take()


def _part(obs: Any, path: tuple[Any, ...]) -> Any:
    value = obs
    try:
        for key in path:
            value = value[key]
    except (KeyError, IndexError, TypeError):
        raise ValueError(f"expected an observation with {_name(path)}, got {obs!r}") from None
    return value


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


def infer_schema(infos: Sequence[Info]) -> InfoSchema | None:
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


@dataclass(frozen=True, eq=False)
class _Column:
    """The values of one key in the infos of all environments.

    Attributes:
        key: The key.
        mask_key: The key of the mask of the environments that report it.
        kind: The type of each value.
        values: A view of the buffers, ``(N,)``.
    """

    key: str
    mask_key: str
    kind: type
    values: AnyArray


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
        integers = iter(buffers.numbers.T[len(floats) :])
        self._columns: list[_Column] = []
        for key, kind in schema:
            values = next(floating if kind in _FLOAT64 else texts if kind is str else integers)
            if kind is not float and kind is not str and not issubclass(kind, np.floating):
                values = values.view(np.int64)
            self._columns.append(_Column(key, "_" + key, kind, values))
        self._others = [column for column in self._columns if column.kind not in _FLOAT64]

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
        for column in self._others:
            values = [info[column.key] for info in infos]
            # NumPy would truncate a long string, and drop trailing zeros.
            if column.kind is str and (max(map(len, values)) > LETTERS or "\0" in "".join(values)):
                return False
            try:
                column.values[...] = values
            except OverflowError:  # an int beyond 64 bits
                return False
        return True

    def read(self) -> Info:
        """The infos of all environments, as a vector environment returns them."""
        batched: Info = {}
        masks = np.ones((len(self._columns), self._n), np.bool_) if self._columns else ()
        for column, mask in zip(self._columns, masks, strict=True):
            dtype: type = object if column.kind is str else column.kind
            batched[column.key] = column.values.astype(dtype)
            batched[column.mask_key] = mask
        return batched

    def read_each(self, rows: slice) -> list[Info]:
        """The infos of the environments ``rows``, one by one."""
        return [
            {column.key: column.kind(column.values[i].item()) for column in self._columns}
            for i in range(rows.start, rows.stop)
        ]
