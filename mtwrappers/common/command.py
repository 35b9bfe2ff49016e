"""Ctrl-C while the command line is imported, before it can handle signals."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator

INTERRUPTED = "Interrupted; nothing was written. Run the command again."
EXIT_CODE = 130  # after Ctrl-C: 128 and the number of SIGINT
_NAME = "mtwrappers"


def end_interrupted() -> None:
    """Ends the process with a line on stderr, and without cleaning up what is half imported."""
    os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(EXIT_CODE)


@contextlib.contextmanager
def imported_by_command() -> Iterator[None]:
    """Makes Ctrl-C during an import end the command line in one line; programs get the exception.

    An import must not set a handler of signals, and `main` is imported only after Gymnasium.
    """
    try:
        yield
    except KeyboardInterrupt:
        if _is_command():
            end_interrupted()
        raise


def _is_command() -> bool:
    """Whether this process runs ``mtwrappers`` or ``python -m mtwrappers``."""
    program = sys.argv[0] if sys.argv else ""
    if program == "-m":  # Python imports the package to find the module
        return _NAME in sys.orig_argv
    return os.path.basename(program).partition(".")[0] == _NAME
