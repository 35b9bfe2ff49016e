"""How long a step takes, and where: a report, no check."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from contextlib import closing
from typing import Any

from gymnasium.vector import AutoresetMode

from mtwrappers.testing.check.recording import mode_of
from mtwrappers.testing.check.subject import Subject


def step_time(subject: Subject) -> str:
    """How long a step takes, in the environment itself and in its wrappers."""
    steps = min(subject.length, 200)
    with closing(subject.make()) as env:
        spent: dict[str, float] = {}
        base = env.unwrapped
        for name in ("step", "do_simulation"):
            if callable(getattr(base, name, None)):
                _timed(base, name, spent)
        env.reset(seed=subject.seed)
        spent.clear()
        whole = 0.0
        for action in subject.actions(env, steps):
            start = time.perf_counter()
            _, _, terminated, truncated, _ = env.step(action)
            whole += time.perf_counter() - start
            if terminated or truncated:
                env.reset()
    micro = 1e6 / steps
    says = f"{whole * micro:.0f} us, of which {type(base).__name__}.step()"
    says += f" {spent.get('step', 0.0) * micro:.0f} us"
    if "do_simulation" in spent:
        says += f" (its simulation {spent['do_simulation'] * micro:.0f} us)"
    return f"{says}, wrappers {(whole - spent.get('step', 0.0)) * micro:.0f} us"


def _timed(base: Any, name: str, spent: dict[str, float]) -> None:
    method: Callable[..., Any] = getattr(base, name)

    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return method(*args, **kwargs)
        finally:
            spent[name] = spent.get(name, 0.0) + time.perf_counter() - start

    with contextlib.suppress(AttributeError):  # an environment with slots
        setattr(base, name, timed)


def vector_time(subject: Subject) -> str:
    """How long a step of all environments takes, and in them if they are in this process."""
    steps = min(subject.length, 100)
    with closing(subject.make()) as envs:
        inside: list[float] = []
        bases = [env.unwrapped for env in getattr(envs.unwrapped, "envs", ())]
        for base in bases:
            _summed(base, inside)
        envs.reset(seed=subject.seed)
        actions = subject.actions(envs, steps)
        inside.clear()
        start = time.perf_counter()
        for action in actions:
            result = envs.step(action)
            over = result[2] | result[3]
            if over.any() and mode_of(envs) is AutoresetMode.DISABLED:
                envs.reset(options={"reset_mask": over})
        whole = time.perf_counter() - start
    each = 1e6 / steps / subject.num_envs
    says = f"{whole * each:.0f} us per environment and step, resets included"
    return f"{says}, of which its step() {sum(inside) * each:.0f} us" if bases else says


def _summed(base: Any, spent: list[float]) -> None:
    step: Callable[..., Any] = base.step

    def timed(action: Any) -> Any:
        start = time.perf_counter()
        result = step(action)
        spent.append(time.perf_counter() - start)
        return result

    base.step = timed
