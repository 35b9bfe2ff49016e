"""Ctrl-C while a command starts: it prints one line, as there is nothing to write yet."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

INTERRUPTED = "Interrupted; nothing was written. Run the command again."
EXIT_CODE = 128 + signal.SIGINT


class _EndAtOnce:
    """Ends the process without an exception, which could break half-imported modules."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __call__(self, *signal_and_frame: object) -> None:
        if os.getpid() == self._pid:  # forks print nothing
            os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(EXIT_CODE)


def end_at_once() -> Any:
    """Makes Ctrl-C end the process at once, until `raises` is called.

    Keeps a handler that the program has set. Returns the previous handler, for `restore`.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler and _is_main_thread():
        signal.signal(signal.SIGINT, _EndAtOnce())
    return before


def restore(before: Any) -> None:
    """Restores the handler from before a command."""
    if before is not None and _is_main_thread():  # None: a handler not set from Python
        signal.signal(signal.SIGINT, before)


def raises() -> None:
    """Makes Ctrl-C raise ``KeyboardInterrupt`` again, once there is something to write or end."""
    if isinstance(signal.getsignal(signal.SIGINT), _EndAtOnce):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
