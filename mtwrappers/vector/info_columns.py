"""Infos as columns of buffers.

Usually, every environment reports the same few values in its info at every step. Gymnasium batches
infos one environment and one key at a time. Here, if every environment reports the same keys with
the same types of numbers and strings, infos are written into arrays too, and read key by key. The
results equal Gymnasium's.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mtwrappers.common.types import AnyArray
from mtwrappers.vector.buffers import LETTERS, NUMBERS, TEXTS, Buffers

Info = dict[str, Any]
# Each key with the type of all its values.
InfoSchema = tuple[tuple[str, type], ...]
_FLOAT64 = (float, np.float64)


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
