"""A progress bar for samplers and evaluation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from os import isatty
from typing import Any

from mtwrappers.common.checks import check_flag
from mtwrappers.common.extras import import_extra

# A function that advances a bar by a number.
Advance = Callable[[int], object]


class ProgressBar:
    """A bar on stderr that disappears at the end, or no bar unless ``visible``.

    Raises:
        TypeError: If ``visible`` is not a bool.
        DependencyNotInstalled: If ``visible`` is set and rich is not installed.
    """

    def __init__(self, visible: bool) -> None:
        check_flag(visible, "progress")
        self._make: Any = import_extra("rich.progress", "cli").Progress if visible else None

    @contextlib.contextmanager
    def of(self, what: str, total: int, *, counts: bool = True) -> Iterator[Advance | None]:
        """Displays how many of ``total`` are done, or only activity without ``counts``.

        Yields:
            A function that advances the bar, or ``None`` if there is no bar.
        """
        if self._make is None:
            yield None
            return
        console = import_extra("rich.console", "cli").Console(stderr=True)
        with self._make(
            console=console,
            transient=True,
            disable=not (console.is_terminal or console.is_jupyter),
            redirect_stdout=isatty(1),  # only a terminal; output to files is not redirected
        ) as bar:
            task = bar.add_task(what, total=total if counts else None)
            yield lambda number: bar.advance(task, number)
            bar.update(task, total=total, completed=total)
