"""Infos by column: the usual info is the same few values from every environment at every step.

Gymnasium batches infos one environment and one key at a time. Where every environment reports the
same keys with the same types of numbers and strings, they are written into arrays here, which may
be shared with workers, and read from them key by key. The results are Gymnasium's.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtwrappers.vector.buffers import LETTERS, Buffers

Info = dict[str, Any]
# A key, and the one type that all its values have.
Layout = tuple[tuple[str, type], ...]

_FLOAT64 = (float, np.float64)


def layout_of(infos: Sequence[Info], buffers: Buffers) -> Layout | None:
    """The keys and types that ``infos`` share; ``None`` if they do not, or do not fit `Columns`."""
    layout = tuple((key, type(value)) for key, value in infos[0].items())
    keys, kinds = [key for key, _ in layout], [kind for _, kind in layout]
    texts = kinds.count(str)
    if texts > len(buffers.texts) or len(layout) - texts > len(buffers.numbers):
        return None
    for key, kind in layout:
        if type(key) is not str or key[:1] == "_" or key == "final_obs":
            return None  # these mean something to Gymnasium
        number = issubclass(kind, (np.integer, np.floating))
        if kind in (np.longdouble, np.timedelta64) or not (
            number or kind in (float, int, bool, str)
        ):
            return None
    same = all([*info] == keys and [*map(type, info.values())] == kinds for info in infos)
    return layout if same else None


class Columns:
    """Infos of one layout in the arrays of buffers.

    Most values are float64: they are taken from each info in one call, and have the first rows.
    """

    def __init__(self, layout: Layout, buffers: Buffers) -> None:
        self.layout = layout
        self._keys = [key for key, _ in layout]
        self._kinds = [kind for _, kind in layout]
        self._n = buffers.numbers.shape[1]
        floats = [key for key, kind in layout if kind in _FLOAT64]
        self._floats = buffers.numbers[: len(floats)]
        self._by_env = self._floats[0] if len(floats) == 1 else self._floats.T
        self._take = operator.itemgetter(*floats) if floats else None
        own, texts = iter(self._floats), iter(buffers.texts)
        others = iter(buffers.numbers[len(floats) :])
        self._plan = []
        for key, kind in layout:
            row = next(own if kind in _FLOAT64 else texts if kind is str else others)
            if kind is not float and kind is not str and not issubclass(kind, np.floating):
                row = row.view(np.int64)
            self._plan.append((key, "_" + key, kind, row))
        self._others = [step for step in self._plan if step[2] not in _FLOAT64]

    def write(self, start: int, infos: Sequence[Any]) -> bool:
        """Writes infos from environment ``start`` on, and says whether they fit."""
        keys, kinds = self._keys, self._kinds
        if not keys:
            return infos.count({}) == len(infos)
        for info in infos:
            if type(info) is not dict or [*map(type, info.values())] != kinds or [*info] != keys:
                return False
        stop = start + len(infos)
        if self._take is not None:
            self._by_env[start:stop] = [*map(self._take, infos)]
        for key, _, kind, row in self._others:
            values = [info[key] for info in infos]
            # NumPy would cut a long string, and zeros at the end of any.
            if kind is str and (max(map(len, values)) > LETTERS or "\0" in "".join(values)):
                return False
            try:
                row[start:stop] = values
            except OverflowError:  # an int beyond 64 bits
                return False
        return True

    def read(self) -> Info:
        """The infos of all environments, as a vector environment returns them."""
        batched: Info = {}
        if not self._plan:
            return batched
        masks = np.ones((len(self._plan), self._n), dtype=np.bool_)
        floats = iter(self._floats.copy())
        for (key, mask_key, kind, row), mask in zip(self._plan, masks, strict=True):
            if kind in _FLOAT64:
                batched[key] = next(floats)
            else:
                batched[key] = row.astype(object if kind is str else kind)
            batched[mask_key] = mask
        return batched

    def read_each(self, rows: slice) -> list[Info]:
        """The infos of the environments ``rows``, one by one."""
        return [
            {key: kind(row[i].item()) for key, _, kind, row in self._plan}
            for i in range(rows.start, rows.stop)
        ]


def sizes_of(columns: Columns | None) -> tuple[int, int]:
    """How many rows of numbers, and of texts, hold infos."""
    kinds = [] if columns is None else [kind for _, kind in columns.layout]
    return len(kinds) - kinds.count(str), kinds.count(str)
