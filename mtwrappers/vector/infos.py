"""Infos by column: the usual info is the same few values from every environment at every step.

Gymnasium batches infos one environment and one key at a time. Where every environment reports the
same keys with the same types of numbers and strings, they are written into arrays here, which may
be shared with workers, and read from them key by key. The results are Gymnasium's.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.vector.buffers import LETTERS, Buffers

Info = dict[str, Any]
# A key, and the one type that all its values have.
Layout = tuple[tuple[str, type], ...]

_FLOAT64 = (float, np.float64)


def layout_of(infos: Sequence[Info], buffers: Buffers) -> Layout | None:
    """The keys and types that ``infos`` share; ``None`` if they do not, or do not fit `Columns`."""
    layout = tuple((key, type(value)) for key, value in infos[0].items())
    kinds = [kind for _, kind in layout]
    texts = kinds.count(str)
    if texts > len(buffers.texts) or len(layout) - texts > len(buffers.numbers):
        return None
    for key, kind in layout:
        if type(key) is not str or key[:1] == "_" or key == "final_obs":
            return None  # these mean something to Gymnasium
        if kind not in (float, int, bool, str) and not _is_number(kind):
            return None
    keys = [key for key, _ in layout]
    same = all([*info] == keys and [*map(type, info.values())] == kinds for info in infos)
    return layout if same else None


def _is_number(kind: type) -> bool:
    return issubclass(kind, (np.integer, np.floating)) and kind not in (
        np.longdouble,
        np.timedelta64,
    )


class Columns:
    """Infos of one layout in arrays.

    Most values are float64: they are taken from each info in one call, and have the first rows.

    Args:
        layout: The keys and types.
        buffers: Whose arrays they are kept in.
    """

    def __init__(self, layout: Layout, buffers: Buffers) -> None:
        self.layout = layout
        self._floats, self._texts = buffers.numbers, buffers.texts
        self._ints = self._floats.view(np.int64)
        self._by_env = self._floats.T
        self._keys = [key for key, _ in layout]
        self._kinds = [kind for _, kind in layout]
        floats = [key for key, kind in layout if kind in _FLOAT64]
        texts = [key for key, kind in layout if kind is str]
        others = [key for key in self._keys if key not in floats and key not in texts]
        row = {key: i for i, key in enumerate([*floats, *others])}
        row.update((key, i) for i, key in enumerate(texts))
        self._num_floats = len(floats)
        self._plan = [(key, "_" + key, kind, row[key]) for key, kind in layout]
        self._others = [step for step in self._plan if step[2] not in _FLOAT64]
        self._take = operator.itemgetter(*floats) if len(floats) > 1 else None
        self._only = floats[0] if floats else ""

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
            self._by_env[start:stop, : self._num_floats] = [*map(self._take, infos)]
        elif self._num_floats:
            self._floats[0, start:stop] = [info[self._only] for info in infos]
        for key, _, kind, row in self._others:
            values = [info[key] for info in infos]
            # NumPy would cut a long string, and zeros at the end of any.
            if kind is str and (max(map(len, values)) > LETTERS or "\0" in "".join(values)):
                return False
            try:
                self._row(kind, row)[start:stop] = values
            except OverflowError:  # an int beyond 64 bits
                return False
        return True

    def read(self) -> Info:
        """The infos of all environments, as a vector environment returns them."""
        batched: Info = {}
        if not self._plan:
            return batched
        masks = np.ones((len(self._plan), self._floats.shape[1]), dtype=np.bool_)
        block = self._floats[: self._num_floats].copy()
        for (key, mask_key, kind, row), mask in zip(self._plan, masks, strict=True):
            if kind in _FLOAT64:
                batched[key] = block[row]
            else:
                batched[key] = self._row(kind, row).astype(object if kind is str else kind)
            batched[mask_key] = mask
        return batched

    def read_each(self, start: int, stop: int) -> list[Info]:
        """The infos of environments ``start`` to ``stop``, one by one."""
        values = [
            [kind(value) for value in self._row(kind, row)[start:stop].tolist()]
            for _, _, kind, row in self._plan
        ]
        if not values:
            return [{} for _ in range(start, stop)]
        return [dict(zip(self._keys, own, strict=True)) for own in zip(*values, strict=True)]

    def _row(self, kind: type, row: int) -> NDArray[Any]:
        if kind is str:
            found: NDArray[Any] = self._texts[row]
        else:
            real = kind is float or issubclass(kind, np.floating)
            found = self._floats[row] if real else self._ints[row]
        return found


def sizes_of(columns: Columns | None) -> tuple[int, int]:
    """How many rows of numbers, and of texts, hold infos."""
    kinds = [] if columns is None else [kind for _, kind in columns.layout]
    return len(kinds) - kinds.count(str), kinds.count(str)


def join_infos(infos: Sequence[Info | None], add_info: Callable[[Info, Info, int], Info]) -> Info:
    """Batches infos in Gymnasium's own way.

    Args:
        infos: One per environment; ``None`` stands for one that reports nothing.
        add_info: ``VectorEnv._add_info``.
    """
    batched: Info = {}
    for i, info in enumerate(infos):
        if info:
            batched = add_info(batched, info, i)
    return batched


def add_finals(
    infos: Info,
    finals: Sequence[tuple[int, Any, Info]],
    add_info: Callable[[Info, Info, int], Info],
) -> Info:
    """Infos with ``final_obs`` and ``final_info``, as Gymnasium adds them.

    Args:
        infos: Batched infos.
        finals: The environment, last observation and last info of each episode that has ended.
        add_info: ``VectorEnv._add_info``.
    """
    for i, obs, info in finals:
        infos = add_info(infos, {"final_obs": obs, "final_info": info}, i)
    return infos
