"""Ctrl-C while processes are started."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker


@contextlib.contextmanager
def after_start() -> Iterator[None]:
    """Processes that are started meanwhile are deaf to Ctrl-C; this one hears it afterwards.

    They inherit that the signal is blocked, and hear it once they unblock it.
    """
    if threading.current_thread() is not threading.main_thread():  # which alone hears Ctrl-C
        yield
        return
    resource_tracker.ensure_running()  # which would unblock the signal
    came: list[object] = []
    # The mask does not keep it from other threads, which pass it on to the handler.
    handler = signal.signal(signal.SIGINT, lambda *frame: came.append(frame))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
