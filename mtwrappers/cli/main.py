"""The entry point: runs a command, and turns errors into one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from gymnasium.error import DependencyNotInstalled

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.console import UsageError
from mtwrappers.common.errors import full_message, printable
from mtwrappers.common.extras import import_extra


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or 1 where classes differ, a check fails or a result is false.

    After Ctrl-C it is 130, and 141 where nobody reads the output any more, as in
    ``mtwrappers list | head -c 10``.

    Args:
        argv: The arguments, without the program's name (default: those of the process).

    Raises:
        SystemExit: With the code 2, after a line on stderr, if input or files are bad.
    """
    before, code = ctrl_c.end_at_once(), None
    try:
        try:
            code = _run(sys.argv[1:] if argv is None else argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where it can be caught
    except BrokenPipeError:
        # For what is still to come.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    finally:
        if code != ctrl_c.EXIT_CODE:  # after which the process ends without hearing it again
            ctrl_c.restore(before)
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        CycloptsError = import_extra("cyclopts", "cli").CycloptsError  # noqa: N806 (a class)
        import_extra("rich.text", "cli")
    except DependencyNotInstalled as exc:
        print(f"mtwrappers: error: {exc}", file=sys.stderr)
        sys.exit(2)
    from mtwrappers.cli.commands import COMMANDS, HelpConsole, app, help_of

    try:
        if not argv:
            raise UsageError(f"a command is required: {', '.join(COMMANDS)}; see {help_of(argv)}")
        code: int | None = app(argv, console=HelpConsole())
        return code or 0
    except CycloptsError as exc:
        _refuse(f"{exc} See {help_of(argv)}.")
    except (UsageError, DependencyNotInstalled) as exc:
        _refuse(full_message(exc))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(ctrl_c.INTERRUPTED, file=sys.stderr)
        return ctrl_c.EXIT_CODE


def _refuse(message: str) -> NoReturn:
    from rich.console import Console
    from rich.text import Text

    line = printable(" ".join(message.split()))
    text = Text.assemble(("mtwrappers: error: ", "bold red"), line)
    Console(stderr=True).print(text, soft_wrap=True)
    sys.exit(2)
