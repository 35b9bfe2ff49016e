"""Ctrl-C while a command starts: one line, before there is anything to write."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

INTERRUPTED = "Interrupted; nothing was written. Run the command again."
EXIT_CODE = 128 + signal.SIGINT


class _EndAtOnce:
    """Ends the process without an exception, which half-imported modules may not survive."""

    def __init__(self) -> None:
        self._pid = os.getpid()

    def __call__(self, *signal_and_frame: object) -> None:
        if os.getpid() == self._pid:  # a fork says nothing
            os.write(2, f"{INTERRUPTED}\n".encode())
        os._exit(EXIT_CODE)


def end_at_once() -> Any:
    """From now on Ctrl-C ends the process at once, until `raises` is called.

    A handler that the program has set before is left alone. Returns it, for `restore`.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler and _is_main_thread():
        signal.signal(signal.SIGINT, _EndAtOnce())
    return before


def restore(before: Any) -> None:
    """Puts the handler back that was there before a command."""
    if before is not None and _is_main_thread():  # None is one that is not Python's
        signal.signal(signal.SIGINT, before)


def raises() -> None:
    """From now on Ctrl-C raises ``KeyboardInterrupt`` again: there is something to write or end."""
    if isinstance(signal.getsignal(signal.SIGINT), _EndAtOnce):
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
