"""Ctrl-C at a moment when nothing is half done."""

from __future__ import annotations

# The functions of `signal` turn every handler into an enum first, which takes longer than a step's
# other bookkeeping.
import _signal  # type: ignore[import-not-found] # it has no stub
import threading
from types import FrameType
from typing import Any


class HeldInterrupts:
    """Holds Ctrl-C back within a ``with`` block, except while `waiting` is set.

    Between sending a command and noting its answer an exception could come between any two lines.
    Held back, it comes where the block ends, or at once while somebody is awaited. Only the main
    thread is interrupted, and handlers that are not Python's are left alone.
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
                # Python looks for signals after a call: here, when the new handler is there.
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
