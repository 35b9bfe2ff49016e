"""Infos by column: the usual info is the same few numbers from every environment at every step.

Gymnasium batches infos one environment and one key at a time. Where every environment reports the
same keys with the same scalar types, the same arrays are built here one key at a time. Anything
else takes Gymnasium's own way, so the results are Gymnasium's in every case.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
_ODD = (np.longdouble, np.timedelta64)


def columns(infos: Sequence[Info], layout: Layout) -> Info:
    """Infos that all match ``layout``, as a vector environment returns them."""
    batched: Info = {}
    n = len(infos)
    for key, kind in layout:
        values = [info[key] for info in infos]
        batched[key] = np.array(values, dtype=object if kind is str else kind)
        batched["_" + key] = np.ones(n, dtype=np.bool_)
    return batched


class InfoBatcher:
    """Batches the infos of all environments, remembering the layout that they had last."""

    def __init__(self) -> None:
        self._layout: Layout | None = None

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
            layout = self._layout
            if layout is None or not all(matches(info, layout) for info in present):
                layout = self._layout = layout_of(present)
            if layout is not None:
                try:
                    return columns(present, layout)
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

    @staticmethod
    def nbytes(slots: int, n: int) -> int:
        """The bytes that the cells take."""
        return 8 * slots * n

    def _row(self, slot: int, kind: type) -> NDArray[Any]:
        real = kind is float or issubclass(kind, np.floating)
        row: NDArray[Any] = self._floats[slot] if real else self._ints[slot]
        return row

    def write(self, layout: Layout, start: int, infos: Sequence[Info]) -> None:
        """Writes the numbers of ``infos`` into the cells from environment ``start`` on."""
        stop = start + len(infos)
        for slot, (key, kind) in enumerate(layout):
            if kind is not str:
                self._row(slot, kind)[start:stop] = [info[key] for info in infos]

    def read(self, layout: Layout, strings: dict[str, list[str]]) -> Info:
        """All environments' infos, as a vector environment returns them."""
        batched: Info = {}
        for slot, (key, kind) in enumerate(layout):
            if kind is str:
                batched[key] = np.array(strings[key], dtype=object)
            else:
                batched[key] = self._row(slot, kind).astype(kind)
            batched["_" + key] = np.ones(len(batched[key]), dtype=np.bool_)
        return batched

    def read_each(
        self, layout: Layout, start: int, stop: int, strings: dict[str, list[str]]
    ) -> list[Info]:
        """The infos of environments ``start`` to ``stop``, one by one."""
        infos: list[Info] = [{} for _ in range(start, stop)]
        for slot, (key, kind) in enumerate(layout):
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
