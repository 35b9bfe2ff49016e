"""Infos by column: the usual info is the same few numbers from every environment at every step.

Gymnasium batches infos one environment and one key at a time. Where every environment reports the
same keys with the same scalar types, the same arrays are built here one key at a time. Anything
else takes Gymnasium's own way, so the results are Gymnasium's in every case.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Info = dict[str, Any]
# A key, and the one type that all its values have.
Layout = tuple[tuple[str, type], ...]
AddInfo = Callable[[Info, Info, int], Info]


def layout_of(infos: Sequence[Info]) -> Layout | None:
    """The keys and types that all ``infos`` share, or ``None`` if they do not."""
    first = infos[0]
    layout = []
    for key, value in first.items():
        kind = type(value)
        if type(key) is not str or key[:1] == "_" or key == "final_obs":
            return None  # these mean something to Gymnasium
        if not (
            kind in _PLAIN
            or (issubclass(kind, np.number) and kind not in (np.longdouble, np.timedelta64))
        ):
            return None
        layout.append((key, kind))
    found = tuple(layout)
    return found if all(matches(info, found) for info in infos) else None


def matches(info: Info, layout: Layout) -> bool:
    """Whether ``info`` has exactly the keys and types of ``layout``."""
    if len(info) != len(layout):
        return False
    get = info.get
    for key, kind in layout:  # noqa: SIM110 (a generator would cost twice as much)
        if type(get(key)) is not kind:
            return False
    return True


_PLAIN = (float, int, bool, str)
_FLOAT64 = (float, np.float64)


class Columns:
    """How infos of one layout become columns.

    Most numbers are float64: they are taken from each info in one call, and are the first rows of
    a block. Keys of other types follow one by one.

    Args:
        layout: The keys and types.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._keys = [key for key, _ in layout]
        self._kinds = [kind for _, kind in layout]
        floats = [key for key, kind in layout if kind in _FLOAT64]
        self.num_floats = len(floats)
        # The row in the block of each float64, and the cell of anything else.
        row = {key: i for i, key in enumerate(floats)}
        after = iter(range(len(floats), len(layout)))
        self.plan = [
            (key, "_" + key, kind, kind in _FLOAT64, row[key] if key in row else next(after))
            for key, kind in layout
        ]
        self.strings = [key for key, kind in layout if kind is str]
        self.others = [
            (key, kind, slot)
            for key, _, kind, is_float, slot in self.plan
            if not is_float and kind is not str
        ]
        self._take = operator.itemgetter(*floats) if len(floats) > 1 else None
        self._first = floats[0] if floats else ""

    def match(self, infos: Iterable[Info]) -> bool:
        """Whether all ``infos`` have exactly this layout."""
        keys, kinds, layout = self._keys, self._kinds, self.layout
        for info in infos:
            # In the same order, as nearly always, this is the quicker way to ask.
            if [*map(type, info.values())] == kinds and [*info] == keys:
                continue
            if not matches(info, layout):
                return False
        return True

    def floats(self, infos: Sequence[Info]) -> list[Any]:
        """The float64s of each info: ``(n, num_floats)`` as nested sequences."""
        if self._take is not None:
            return [*map(self._take, infos)]
        return [(info[self._first],) for info in infos]


def columns(infos: Sequence[Info], how: Columns) -> Info:
    """Infos that all match a layout, as a vector environment returns them."""
    batched: Info = {}
    n = len(infos)
    masks = np.ones((len(how.plan), n), dtype=np.bool_)
    block = np.array(how.floats(infos)).T.copy() if how.num_floats else masks
    for (key, mask_key, kind, is_float, row), mask in zip(how.plan, masks, strict=True):
        if is_float:
            batched[key] = block[row]
        else:
            values = [info[key] for info in infos]
            batched[key] = np.array(values, dtype=object if kind is str else kind)
        batched[mask_key] = mask
    return batched


class InfoBatcher:
    """Batches the infos of all environments, remembering the layout that they had last."""

    def __init__(self) -> None:
        self._columns: Columns | None = None

    def __call__(self, infos: Sequence[Info | None], add_info: AddInfo) -> Info:
        """Batches an info for each environment.

        Args:
            infos: ``None`` stands for one that reports nothing.
            add_info: ``VectorEnv._add_info``.
        """
        if not any(infos):
            return {}
        present = [info for info in infos if info is not None]
        if len(present) == len(infos):
            how = self._columns
            if how is None or not how.match(present):
                layout = layout_of(present)
                how = self._columns = None if layout is None else Columns(layout)
            if how is not None:
                try:
                    return columns(present, how)
                except OverflowError:
                    pass  # an int beyond 64 bits, which Gymnasium's way refuses in its own words
        batched: Info = {}
        for i, info in enumerate(infos):
            if info is not None:
                batched = add_info(batched, info, i)
        return batched


class Cells:
    """Infos of one layout in shared memory: a row a key, a cell of 8 bytes an environment.

    Args:
        buffer: At least ``8 * slots * n`` bytes.
        slots: How many keys there is room for.
        n: How many environments.
    """

    def __init__(self, buffer: memoryview, slots: int, n: int) -> None:
        self.slots = slots
        self._floats = np.frombuffer(buffer, np.float64, slots * n).reshape(slots, n)
        self._ints = self._floats.view(np.int64)
        self._by_env = self._floats.T

    @staticmethod
    def nbytes(slots: int, n: int) -> int:
        """The bytes that the cells take."""
        return 8 * slots * n

    def _row(self, slot: int, kind: type) -> NDArray[Any]:
        real = kind is float or issubclass(kind, np.floating)
        row: NDArray[Any] = self._floats[slot] if real else self._ints[slot]
        return row

    def write(self, how: Columns, start: int, infos: Sequence[Info]) -> None:
        """Writes the numbers of ``infos`` into the cells from environment ``start`` on."""
        stop = start + len(infos)
        if how.num_floats:
            self._by_env[start:stop, : how.num_floats] = how.floats(infos)
        for key, kind, slot in how.others:
            self._row(slot, kind)[start:stop] = [info[key] for info in infos]

    def read(self, how: Columns, strings: dict[str, list[str]]) -> Info:
        """All environments' infos, as a vector environment returns them."""
        batched: Info = {}
        masks = np.ones((len(how.plan), self._floats.shape[1]), dtype=np.bool_)
        block = self._floats[: how.num_floats].copy()
        for (key, mask_key, kind, is_float, slot), mask in zip(how.plan, masks, strict=True):
            if is_float:
                batched[key] = block[slot]
            elif kind is str:
                batched[key] = np.array(strings[key], dtype=object)
            else:
                batched[key] = self._row(slot, kind).astype(kind)
            batched[mask_key] = mask
        return batched

    def read_each(
        self, how: Columns, start: int, stop: int, strings: dict[str, list[str]]
    ) -> list[Info]:
        """The infos of environments ``start`` to ``stop``, one by one."""
        infos: list[Info] = [{} for _ in range(start, stop)]
        for key, _, kind, _, slot in how.plan:
            values: Sequence[Any] = (
                strings[key]
                if kind is str
                else [kind(value) for value in self._row(slot, kind)[start:stop].tolist()]
            )
            for info, value in zip(infos, values, strict=True):
                info[key] = value
        return infos


def fits_cells(layout: Layout, slots: int) -> bool:
    """Whether `Cells` can hold infos of this layout."""
    return len(layout) <= slots and not any(
        issubclass(kind, np.complexfloating) for _, kind in layout
    )
