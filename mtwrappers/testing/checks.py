"""What the checkers share."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence

from mtwrappers.common.errors import full_message
from mtwrappers.state.plain_data import copied


def require(condition: Any, message: str) -> None:
    """Raises `AssertionError` with ``message`` unless ``condition`` holds, ``python -O`` or not."""
    if not condition:
        raise AssertionError(message)


def same(a: Any, b: Any) -> bool:
    """Whether two observations, infos or tasks are equal, bit for bit."""
    return data_equivalence(a, b, exact=True)


def shares_memory(a: Any, b: Any) -> bool:
    """Whether two observations or infos share a mutable dict or the memory of an array."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a is b or any(shares_memory(a[key], b[key]) for key in a.keys() & b.keys())
    if isinstance(a, tuple) and isinstance(b, tuple):
        return any(shares_memory(x, y) for x, y in zip(a, b, strict=False))
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return bool(np.shares_memory(a, b))
    return False


@contextmanager
def raises(expected: type[BaseException], what: str) -> Iterator[None]:
    """Requires that the block raises ``expected``."""
    came, cause = "nothing", None
    try:
        yield
    except expected:
        return
    except Exception as exc:
        came, cause = f"{type(exc).__name__}: {full_message(exc)}", exc
    raise AssertionError(f"{what} must raise {expected.__name__}, raised {came}") from cause


@contextmanager
def untouched_random() -> Iterator[None]:
    """Requires that the block leaves ``random`` and ``np.random`` as they were."""
    before = random.getstate(), np.random.get_state(legacy=False)
    yield
    after = random.getstate(), np.random.get_state(legacy=False)
    require(before[0] == after[0], "the environment used the global state of random")
    require(same(before[1], after[1]), "the environment used the global state of np.random")


def has_dtypes(obs: Any, space: gymnasium.Space[Any]) -> bool:
    """Whether the arrays of an observation have the dtypes of its space."""
    if isinstance(space, gymnasium.spaces.Dict):
        return all(has_dtypes(obs[key], sub) for key, sub in space.items())
    if isinstance(space, gymnasium.spaces.Tuple):
        return all(has_dtypes(o, sub) for o, sub in zip(obs, space.spaces, strict=True))
    return not isinstance(space, gymnasium.spaces.Box) or obs.dtype == space.dtype


def require_within(obs: Any, space: gymnasium.Space[Any], what: str) -> None:
    """Requires that an observation is in its space, dtype included."""
    require(obs in space, f"{what} returned {obs}, not in {space}")
    require(has_dtypes(obs, space), f"{what} returned {obs!r}, of another dtype than {space}")


def check_episode(env: gymnasium.Env[Any, Any], steps: int) -> None:
    """Checks what `reset` and `step` return over the beginning of an episode."""
    options: dict[str, Any] = {}
    obs, info = env.reset(options=options)
    require(options == {}, f"reset changed the caller's options to {options}")
    require_within(obs, env.observation_space, "reset")
    require(isinstance(info, dict), f"reset must return an info dict, got {info!r}")
    keys = set(info)
    terminated = truncated = False
    for _ in range(steps):
        if terminated or truncated:
            break
        previous, kept = (obs, info), copy.deepcopy((obs, info))
        obs, reward, terminated, truncated, info = env.step(env.action_space.sample())
        require_within(obs, env.observation_space, "step")
        require(type(reward) is float, f"reward must be a float, got {type(reward).__name__}")
        for name, flag in (("terminated", terminated), ("truncated", truncated)):
            require(type(flag) is bool, f"{name} must be a bool, got {type(flag).__name__}")
        require(
            set(info) == keys,
            f"info must have the keys of reset {sorted(keys)} on step, got {sorted(info)}",
        )
        require(
            not shares_memory(previous, (obs, info)) and same(previous, kept),
            "step must return new arrays and dicts, it returned some that an earlier call did",
        )


def play(env: gymnasium.Env[Any, Any], seed: int, steps: int) -> list[Any]:
    """What an environment returns after ``reset(seed=seed)`` for seeded random actions."""
    env.action_space.seed(seed)
    returned: list[Any] = [copied(env.reset(seed=seed))]
    while len(returned) <= steps and True not in returned[-1][2:4]:
        returned.append(copied(env.step(env.action_space.sample())))
    return returned
