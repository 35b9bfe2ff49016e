"""Ctrl-C while a command starts: one line, before there is anything to write."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator

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


@contextlib.contextmanager
def ends_at_once() -> Iterator[None]:
    """Within the block Ctrl-C ends the process at once, until `raises` is called.

    A handler that the program has set before is left alone.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or before is not signal.default_int_handler:
        yield
        return
    handler = _EndAtOnce()
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)


def raises() -> None:
    """From now on Ctrl-C raises ``KeyboardInterrupt`` again: there is something to write or end."""
    if isinstance(signal.getsignal(signal.SIGINT), _EndAtOnce):
        signal.signal(signal.SIGINT, signal.default_int_handler)
