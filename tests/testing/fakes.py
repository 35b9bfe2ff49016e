"""Ways to break an environment, in one line each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def breaks(base: type, **methods: Any) -> type:
    """A ``base`` with other methods."""
    return type("Broken", (base,), methods)


def steps(base: type, change: Callable[..., Any]) -> type:
    """A ``base`` whose steps return ``change(env, obs, reward, terminated, truncated, info)``."""
    return breaks(base, step=lambda s, action: change(s, *base.step(s, action)))


def count(env: Any) -> int:
    """How often it was called for this environment."""
    env.counted = getattr(env, "counted", 0) + 1
    counted: int = env.counted
    return counted


def raises(error: Exception) -> Any:
    raise error
