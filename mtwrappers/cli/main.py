"""The entry point: runs a command, and turns errors into one line and an exit code."""

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
