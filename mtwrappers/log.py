"""Where a sampler's figures go: a callable ``(key, value)``, or `logging`."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

LogSink: TypeAlias = Callable[[str, Any], object]


def resolve_sink(sink: LogSink | logging.Logger | None) -> LogSink:
    """A callable ``(key, value)``; by default it writes to the logger ``mtwrappers``.

    Raises:
        TypeError: If it is neither callable nor a logger.
    """
    if sink is None:
        sink = logging.getLogger("mtwrappers")
    if isinstance(sink, logging.Logger):
        logger = sink
        return lambda key, value: logger.info("%s: %s", key, value)
    if not callable(sink):
        raise TypeError(f"a log sink must be a callable (key, value) or a Logger, got {sink!r}")
    return sink
