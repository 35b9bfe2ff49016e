"""Delays Ctrl-C until no operation is half done."""

from __future__ import annotations

# `_signal` is used directly, because the functions of `signal` turn every handler into an enum
# first, which takes longer than the rest of a step's bookkeeping.
import _signal  # type: ignore[import-not-found] # it has no stub
import contextlib
import signal
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any


class HeldInterrupts:
    """Delays Ctrl-C within a ``with`` block, except while `waiting` is set.

    Without it, ``KeyboardInterrupt`` could be raised between any two lines that send a command and
    record its answer. A delayed one is raised at the end of the block. Only the main thread is
    interrupted, and handlers that are not Python's are left alone.
    """

    def __init__(self) -> None:
        self.waiting = False
        self._depth = 0
        self._held: tuple[int, FrameType | None] | None = None
        self._handler: Any = None

    def __enter__(self) -> None:
        if self._handler is not None:
            self._depth += 1
        elif threading.current_thread() is threading.main_thread():
            handler = _signal.getsignal(_signal.SIGINT)
            if callable(handler):
                # Python checks for signals after a call: here, once the new handler is set.
                self._handler, self._depth, self.waiting = handler, 1, False
                _signal.signal(_signal.SIGINT, self._hold)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._handler is not None and self._depth == 0:
            handler, self._handler = self._handler, None
            _signal.signal(_signal.SIGINT, handler)
            held, self._held = self._held, None
            if held is not None:
                handler(*held)

    def _hold(self, signum: int, frame: FrameType | None) -> None:
        if self.waiting and self._handler is not None:
            self._handler(signum, frame)
        else:
            self._held = signum, frame


@contextlib.contextmanager
def after_start() -> Iterator[None]:
    """Blocks Ctrl-C in processes that are started meanwhile, and delays it in this one.

    The processes inherit the blocked signal, and receive it once they unblock it.
    """
    if threading.current_thread() is not threading.main_thread():  # only it receives Ctrl-C
        yield
        return
    resource_tracker.ensure_running()  # its start would unblock the signal
    came: list[object] = []
    # The mask does not block other threads, which pass the signal on to the handler.
    handler = signal.signal(signal.SIGINT, lambda *frame: came.append(frame))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
        if came:
            signal.raise_signal(signal.SIGINT)
