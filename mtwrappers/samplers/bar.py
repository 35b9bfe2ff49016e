"""A progress bar, for samplers and evaluation alike."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from mtwrappers.common.checks import check_flag
from mtwrappers.common.extras import import_extra

# Advances a bar by a number.
Advance = Callable[[int], object]


class ProgressBar:
    """A bar that goes away when all is done, or none unless ``show`` is true.

    Raises:
        TypeError: If ``show`` is no bool.
        DependencyNotInstalled: If there is to be a bar and rich is not installed.
    """

    def __init__(self, show: bool) -> None:
        shown = check_flag(show, "progress")
        self._make: Any = import_extra("rich.progress", "cli").Progress if shown else None

    @contextlib.contextmanager
    def of(self, what: str, total: int, *, counts: bool = True) -> Iterator[Advance | None]:
        """Shows how many of ``total`` are done, or that it goes on where nobody ``counts``.

        Yields:
            What advances the bar, if there is one.
        """
        if self._make is None:
            yield None
            return
        with self._make(transient=True) as bar:
            task = bar.add_task(what, total=total if counts else None)
            yield lambda number: bar.advance(task, number)
            bar.update(task, total=total, completed=total)
