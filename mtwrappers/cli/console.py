"""The output of the commands: lines, progress bars, and the error of bad input."""

from __future__ import annotations

from typing import Any

from mtwrappers.common.errors import printable
from mtwrappers.common.extras import import_extra


class UsageError(Exception):
    """Bad input that parsing does not find: the command ends with this line."""


def say(text: str) -> None:
    """Prints lines as they are; a text from a file cannot draw anything else among them."""
    for line in text.split("\n"):
        print(printable(line), flush=True)  # also into a pipe, while a command goes on


def progress_bar() -> Any:
    """A progress bar with a count, and space for a rate."""
    module = import_extra("rich.progress", "cli")
    return module.Progress(
        *module.Progress.get_default_columns(),
        module.MofNCompleteColumn(),
        module.TextColumn("{task.fields[rate]}"),
    )
