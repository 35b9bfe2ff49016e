"""Ctrl-C while the command line starts, before there is anything that could catch it.

Importing Gymnasium takes its time, and comes before the first line of any command. So this is the
first module that the package imports; where it is no command, the module does nothing.
"""

from __future__ import annotations

import os
import sys

# What `signal` is made of, without the import of `enum`, which would come before the handler.
from _signal import (  # type: ignore[import-not-found]
    SIGINT,
    default_int_handler,
    getsignal,
    signal,
)

INTERRUPTED = "Interrupted; nothing was written. Run the command again."


def _quit(*signal_and_frame: object) -> None:
    """Ends the process at once: half-imported modules may not survive an exception."""
    process = sys.modules.get("multiprocessing.process")
    if process is None or process.parent_process() is None:  # a worker says nothing
        os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(130)


def _is_command() -> bool:
    """Whether this process is the script ``mtwrappers`` or ``python -m mtwrappers``."""
    name = sys.argv[0] if sys.argv else ""
    if name == "-m":  # while the package is imported: its name, and then the arguments
        return sys.orig_argv[-len(sys.argv)] == "mtwrappers"
    return os.path.basename(name) == "mtwrappers"


def catch() -> None:
    """Lets Ctrl-C raise ``KeyboardInterrupt`` from now on."""
    if getsignal(SIGINT) is _quit:
        signal(SIGINT, default_int_handler)


if _is_command() and getsignal(SIGINT) is default_int_handler:
    signal(SIGINT, _quit)
