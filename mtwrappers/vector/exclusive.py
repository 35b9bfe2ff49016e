"""One call of a vector environment at a time, from being built to being closed."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec, TypeVar

from gymnasium.error import ClosedEnvironmentError
from gymnasium.vector import VectorEnv

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound="ExclusiveVectorEnv")


class ExclusiveVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment with methods that are `exclusive`."""

    closed = True  # until it is built

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._user = threading.get_ident()  # the thread whose call is, or was last, under way
        self._stepping = False  # whether a step was begun and not ended

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was closed")

    def close(self, **kwargs: Any) -> None:
        """Closes every environment; a second call does nothing.

        Raises:
            RuntimeError: If another thread's call is under way.
        """
        # A signal handler may close in the middle of its own thread's call.
        if not self.closed and self._turn.locked() and self._user != threading.get_ident():
            raise RuntimeError("close() while another thread's call is under way")
        super().close(**kwargs)

    def __del__(self) -> None:
        """Closes what was not closed, but not in a forked process, which only inherited it."""
        if not self.closed and self._pid == os.getpid():
            self.close()


def exclusive(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Refuses a call on a closed executor, during another call, or while a step is under way."""
    name = method.__name__

    @functools.wraps(method)
    def alone(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        if self.closed:
            self._require_open()
        if not self._turn.acquire(blocking=False):
            raise RuntimeError(
                f"{name}() during another call of this {type(self).__name__}: its methods must be "
                "called by one thread at a time"
            )
        try:
            self._user = threading.get_ident()
            if self._stepping and name != "step_wait":
                raise RuntimeError(f"{name}() while a step is under way: call step_wait() first")
            return method(self, *args, **kwargs)
        finally:
            self._turn.release()

    return alone
