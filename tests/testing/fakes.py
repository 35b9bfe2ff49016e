"""Ways to break an environment, in one line each."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest


def breaks(base: type, **methods: Any) -> type:
    """A ``base`` with other methods."""
    return type("Broken", (base,), methods)


def returns(base: type, **changes: Callable[..., Any]) -> type:
    """A ``base`` whose methods return ``change(env, *returned)``."""

    def changed(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            returned = getattr(base, name)(self, *args, **kwargs)
            return change(self, *(returned if isinstance(returned, tuple) else (returned,)))

        return method

    return breaks(base, **{name: changed(name, change) for name, change in changes.items()})


def count(env: Any) -> int:
    """How often it was called for this environment."""
    env.counted = getattr(env, "counted", 0) + 1
    counted: int = env.counted
    return counted


def pattern(message: str) -> str:
    """A pattern of a message in which ``...`` stands for any text."""
    return re.escape(message).replace(re.escape("..."), "(.|\n)*")


def raises(error: Exception) -> Any:
    raise error


def draw_np(*returned: Any) -> Any:
    """Draws a number from ``np.random``, and returns what came after the environment."""
    np.random.uniform()
    return returned[1:]


def draw(*returned: Any) -> Any:
    """Draws a number from ``random``, and returns what came after the environment."""
    random.random()
    return returned[1:]


@pytest.fixture
def same_random_state():
    """Gives the global random state back."""
    state = random.getstate(), np.random.get_state()
    yield
    random.setstate(state[0])
    np.random.set_state(state[1])
