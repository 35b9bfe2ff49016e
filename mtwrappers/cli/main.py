"""The entry point: runs a command, and converts errors to one line and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

from gymnasium.error import DependencyNotInstalled

from mtwrappers.cli import ctrl_c
from mtwrappers.common.errors import full_message
from mtwrappers.common.extras import import_extra


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or 1 if classes differ, a check fails or a result is false.

    Returns 130 after Ctrl-C, and 141 if the reader of the output has closed the pipe, as in
    ``mtwrappers list | head -c 10``.

    Args:
        argv: The arguments, without the program's name (default: the process's own).

    Raises:
        SystemExit: With code 2, after a line on stderr, if input or files are bad.
    """
    before, code = ctrl_c.end_at_once(), None
    try:
        try:
            code = _run(sys.argv[1:] if argv is None else argv)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where it can be caught
    except BrokenPipeError:
        # Discards the output that remains.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 128 + signal.SIGPIPE
    finally:
        if code != ctrl_c.EXIT_CODE:  # otherwise Ctrl-C stays ignored until the process ends
            ctrl_c.restore(before)
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        CycloptsError = import_extra("cyclopts", "cli").CycloptsError  # noqa: N806 (a class)
        import_extra("rich.text", "cli")
    except DependencyNotInstalled as exc:
        print(f"mtwrappers: error: {exc}", file=sys.stderr)
        sys.exit(2)
    from mtwrappers.cli.commands import app, help_of
    from mtwrappers.cli.console import Terminal, UsageError, refuse

    try:
        code: int | None = app(argv, console=Terminal())  # without arguments: the help
        return code or 0
    except CycloptsError as exc:
        refuse(f"{exc} See {help_of(argv)}.")
    except (UsageError, DependencyNotInstalled) as exc:
        refuse(full_message(exc))
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print(ctrl_c.INTERRUPTED, file=sys.stderr)
        return ctrl_c.EXIT_CODE
    sys.exit(2)
