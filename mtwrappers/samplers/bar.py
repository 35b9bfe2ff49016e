"""A progress bar for samplers and evaluation."""

from __future__ import annotations

import contextlib
import functools
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
        self.visible = check_flag(visible, "progress")
        self._rich: Any = import_extra("rich.progress", "cli") if visible else None

    @contextlib.contextmanager
    def of(self, unit: str, total: int, *, counts: bool = True) -> Iterator[Advance]:
        """Displays how many of ``total`` units are done, or only activity without ``counts``.

        Yields:
            A function that advances the bar, or does nothing if there is none.
        """
        if not self.visible:
            yield lambda number: None
            return
        console = import_extra("rich.console", "cli").Console(stderr=True)
        with self._rich.Progress(
            *self._rich.Progress.get_default_columns(),
            self._rich.MofNCompleteColumn(),
            console=console,
            transient=True,
            disable=not (console.is_terminal or console.is_jupyter),
            redirect_stdout=isatty(1),  # only a terminal; output to files is not redirected
        ) as bar:
            task = bar.add_task(unit, total=total if counts else None)
            yield functools.partial(bar.advance, task)
            bar.update(task, total=total, completed=total)
