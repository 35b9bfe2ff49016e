"""Closing many environments, all of them, whatever one of them does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any

import gymnasium


def close_all(envs: Iterable[gymnasium.Env[Any, Any]]) -> None:
    """Closes every environment, and then raises what the last failing one raised, if any did."""
    with contextlib.ExitStack() as stack:
        for env in envs:
            stack.callback(env.close)
