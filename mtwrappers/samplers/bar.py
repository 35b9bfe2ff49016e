"""A progress bar for samplers, evaluation and commands."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from os import isatty
from typing import Any

from mtwrappers.common.checks import check_flag
from mtwrappers.common.extras import import_extra

# A function that advances a bar by a number.
Advance = Callable[[int], object]
# The seconds between two lines where there is no terminal for a bar.
LINE_EVERY = 30.0


class ProgressBar:
    """A bar on stderr that disappears at the end, or no bar unless ``visible``.

    Where stderr is no terminal, as in a file or a pipe, it is a line every 30 seconds.

    Raises:
        TypeError: If ``visible`` is not a bool.
        DependencyNotInstalled: If ``visible`` is set and rich is not installed.
    """

    def __init__(self, visible: bool) -> None:
        self.visible = check_flag(visible, "progress")
        self._rich: Any = import_extra("rich.progress", "cli") if visible else None

    @contextlib.contextmanager
    def track(self, unit: str, total: int, *, counts: bool = True) -> Iterator[Advance]:
        """Displays how many of ``total`` units are done, or only activity without ``counts``.

        Yields:
            A function that advances the bar, or does nothing if there is none.
        """
        if not self.visible:
            yield lambda number: None
            return
        console = import_extra("rich.console", "cli").Console(stderr=True)
        if not (console.is_terminal or console.is_jupyter):
            with _Lines(unit, total, counts) as lines:
                yield lines.advance
            return
        rich = self._rich
        columns = [rich.TextColumn("{task.description}"), rich.MofNCompleteColumn()]
        columns += [rich.BarColumn(20), rich.TaskProgressColumn(), rich.TimeElapsedColumn()]
        with rich.Progress(
            *columns,
            console=console,
            transient=True,
            redirect_stdout=isatty(1),  # only a terminal; output to files is not redirected
        ) as bar:
            task = bar.add_task(unit, total=total if counts else None)
            yield lambda number: bar.advance(task, number)
            bar.update(task, total=total, completed=total)


class _Lines:
    """Prints a line every `LINE_EVERY` seconds, from a thread, as a context manager."""

    def __init__(self, unit: str, total: int, counts: bool) -> None:
        self._unit, self._total, self._counts, self._done = unit, total, counts, 0
        self._start = time.monotonic()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._print_lines, daemon=True)

    def advance(self, number: int) -> None:
        """Counts units that are done."""
        self._done += number

    def _print_lines(self) -> None:
        while not self._ended.wait(LINE_EVERY):
            progress = f"{self._unit}: "
            if self._counts:
                progress += f"{self._done:,} of {self._total:,} "
            print(f"{progress}after {time.monotonic() - self._start:.0f} s", file=sys.stderr)

    def __enter__(self) -> _Lines:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()
