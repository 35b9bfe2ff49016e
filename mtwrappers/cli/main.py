"""The entry point: runs a command; errors and Ctrl-C become one line and an exit code."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
from collections.abc import Sequence

from gymnasium.error import DependencyNotInstalled

from mtwrappers.common.command import EXIT_CODE, INTERRUPTED, end_interrupted
from mtwrappers.common.errors import full_message
from mtwrappers.common.extras import import_extra

# The options of a command that are not those of its continuation.
_BEGINS_ANEW = ("--overwrite", "--resume")


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command; returns 0, or 1 if classes differ, a check fails or a result is false.

    Returns 130 after Ctrl-C, and 141 if the reader of the output has closed the pipe, as in
    ``mtwrappers list | head -c 10``.

    Args:
        argv: The arguments, without the program's name (default: the process's own).

    Raises:
        SystemExit: With code 2, after a line on stderr, if input or files are bad.
    """
    handler, code = signal.getsignal(signal.SIGINT), None
    ours = threading.current_thread() is threading.main_thread()
    if ours and handler is signal.default_int_handler:  # else the program has set one
        signal.signal(signal.SIGINT, _EndAtOnce())
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
        # After Ctrl-C it stays ignored until the process ends; None is a handler of C code.
        if ours and code != EXIT_CODE and handler is not None:
            signal.signal(signal.SIGINT, handler)
    return code


def _run(argv: Sequence[str]) -> int:
    try:
        CycloptsError = import_extra("cyclopts", "cli").CycloptsError  # noqa: N806 (a class)
        import_extra("rich.text", "cli")
    except DependencyNotInstalled as exc:
        print(f"mtwrappers: error: {exc}", file=sys.stderr)
        sys.exit(2)
    from mtwrappers.cli.commands import app, describe_parse_error, get_help_command
    from mtwrappers.cli.console import Terminal, UsageError, refuse, say

    try:
        code: int | None = app(argv, console=Terminal())  # without arguments: the help
        return code or 0
    except CycloptsError as exc:
        refuse(f"{describe_parse_error(exc)} See {get_help_command(argv)}.")
    except (UsageError, DependencyNotInstalled) as exc:
        refuse(full_message(exc))
    except KeyboardInterrupt as exc:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if exc.args:  # the reason why the command can be continued
            say(f"Interrupted: {exc}. Continue with:", "yellow")
            words = [word for word in argv if word not in _BEGINS_ANEW]
            say(shlex.join(["mtwrappers", *words, "--resume"]), "bold")
        else:
            print(INTERRUPTED, file=sys.stderr)
        return EXIT_CODE
    sys.exit(2)


class _EndAtOnce:
    """Ends the process without an exception, which could break half-imported modules.

    This is Ctrl-C while a command starts, as there is nothing to write yet.
    """

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __call__(self, *signal_and_frame: object) -> None:
        if os.getpid() == self._pid:  # forks print nothing
            end_interrupted()
        os._exit(EXIT_CODE)


def raise_on_ctrl_c() -> None:
    """Makes Ctrl-C raise ``KeyboardInterrupt``, once there is something to write or end.

    A second one is ignored: it would interrupt the writing and ending.
    """
    interrupts: list[object] = []

    def raise_once(*signal_and_frame: object) -> None:
        interrupts.append(signal_and_frame)
        if len(interrupts) == 1:
            raise KeyboardInterrupt

    if isinstance(signal.getsignal(signal.SIGINT), _EndAtOnce):
        signal.signal(signal.SIGINT, raise_once)
