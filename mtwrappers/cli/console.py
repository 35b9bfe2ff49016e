"""Output of the commands: lines, warnings, and the error for bad input."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Collection
from pathlib import Path

from rich.console import Console
from rich.text import Text

from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import printable

RESULTS = "results.json"  # of a rollout


class UsageError(Exception):
    """Bad input that parsing does not detect: the command prints this line and exits."""


def unknown(kind: str, name: str, names: Collection[str]) -> UsageError:
    """Returns the error for a name that is not in ``names``."""
    hint = did_you_mean(name, names) or f"choose from {', '.join(names)}"
    return UsageError(f"unknown {kind}; {hint}")


def unreadable(exc: OSError, alternative: str = "") -> UsageError:
    """Returns the error for a result that cannot be read.

    ``alternative`` goes on with what else it may be.
    """
    # Its text may end with what a file should be, which is said here in other words.
    reason = exc.strerror if exc.errno is None else os.strerror(exc.errno)
    return UsageError(
        f"cannot read {exc.filename}: {reason}; expected the folder of a rollout or a file "
        f"of EvaluationResult.save{alternative}"
    )


def result_file(result: str) -> Path:
    """The file with the results of a rollout, named by itself or by its folder.

    Raises:
        UsageError: If the folder has no such file.
    """
    if not os.path.isdir(result):
        return Path(result)
    path = Path(result, RESULTS)
    if not path.exists():
        others = sorted(str(other) for other in Path(result).glob("*.json"))
        hint = f"; did you mean {' or '.join(others[:3])}?" if others else ""
        raise UsageError(
            f"{result} has no {RESULTS}: expected the folder of a complete rollout (--resume "
            f"completes an interrupted one) or a file of EvaluationResult.save{hint}"
        )
    return path


class Terminal(Console):
    """Colours where a terminal has them; ``NO_COLOR`` and ``FORCE_COLOR`` decide otherwise.

    It leaves a pipe that nobody reads to `main`.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        # With NO_COLOR, rich would still print bold letters.
        colours = None if os.environ.get("NO_COLOR") else "auto"
        super().__init__(stderr=stderr, color_system=colours)  # type: ignore[arg-type]

    def on_broken_pipe(self) -> None:
        """Raises the current error again."""
        raise


def say(text: str, style: str = "", *, stderr: bool = False) -> None:
    """Prints lines literally: text from a file cannot inject markup or control characters.

    Long lines are not wrapped, so that commands can be copied. ``style`` is a style of rich.
    """
    terminal = Terminal(stderr=stderr)
    for line in text.split("\n"):
        terminal.print(Text(printable(line), style), soft_wrap=True)
    terminal.file.flush()  # into a pipe too, while the command runs


def say_row(label: str, text: str) -> None:
    """Prints a row: a label and, in the column beside it, a text.

    On a terminal, a text that is too long goes on at a word in its column.
    """
    terminal, head = Terminal(), f"  {label:22}"
    lines = [head + text]
    if terminal.file.isatty():
        lines = textwrap.wrap(
            head + text,
            terminal.width,
            subsequent_indent=" " * len(head),
            break_long_words=False,
            break_on_hyphens=False,
        )
    say("\n".join(lines))


def warn(text: str) -> None:
    """Prints a line on stderr."""
    _print_marked("warning", "bold yellow", text)


def refuse(text: str) -> None:
    """Prints why a command ends, as a line on stderr."""
    _print_marked("error", "bold red", text)


def _print_marked(word: str, style: str, text: str) -> None:
    """Prints a line on stderr; on a terminal, one that is too long goes on at a word."""
    terminal = Terminal(stderr=True)
    mark = f"mtwrappers: {word}: "
    lines = [mark + printable(" ".join(text.split()))]
    if terminal.file.isatty():
        lines = textwrap.wrap(
            lines[0], terminal.width, break_long_words=False, break_on_hyphens=False
        )
    line = Text("\n".join(lines))
    line.stylize(style, 0, len(mark))
    terminal.print(line, soft_wrap=True)
