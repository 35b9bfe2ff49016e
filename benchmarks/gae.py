"""GAE of a million ragged steps: ours, and that of other libraries where they are installed.

Every peer is called in the form that it takes, on tensors or buffers that are filled beforehand:
what is timed is its own function, not our conversion. The problem is one for all: paths of 1 to
999 steps, cut so that 500 rows of 2000 steps each hold whole paths, and each terminates. So all
find the same advantages, which `gae_calls` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from mtwrappers.processors.returns import gae

DISCOUNT, LAMBDA = 0.99, 0.95
ROWS, STEPS = 500, 2000

Calls = dict[str, Callable[[], Any]]


class Problem:
    """Rewards, values, ends of paths and the value after each step, ``(ROWS * STEPS,)`` each."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        lengths: list[int] = []
        for _ in range(ROWS):
            left = STEPS
            while left:
                lengths.append(min(int(rng.integers(1, 1000)), left))
                left -= lengths[-1]
        n = ROWS * STEPS
        self.lengths = np.array(lengths)
        ends = np.cumsum(lengths) - 1
        self.rewards, self.values = rng.normal(size=(2, n))
        self.last = np.zeros(len(lengths))
        self.over = np.zeros(n, dtype=np.bool_)
        self.over[ends] = True
        self.following = np.append(self.values[1:], 0.0)
        self.following[ends] = 0.0


def ours(p: Problem) -> Calls:
    return {
        "mtwrappers": lambda: gae(p.rewards, p.values, p.last, DISCOUNT, LAMBDA, p.lengths),
    }


def tianshou(p: Problem) -> Calls:
    """Its compiled loop over the flat steps; float64."""
    try:
        from tianshou.algorithm import algorithm_base as module
    except ImportError:
        try:
            from tianshou.policy import base as module  # before version 2
        except ImportError:
            return {}
    loop = getattr(module, "_gae", None) or module._gae_return
    return {
        "Tianshou": lambda: loop(p.values, p.following, p.rewards, p.over, DISCOUNT, LAMBDA),
    }


def stable_baselines3(p: Problem) -> Calls:
    """Its rollout buffer of 500 environments times 2000 steps; float32, as it keeps everything."""
    try:
        import torch
        from stable_baselines3.common.buffers import RolloutBuffer
    except ImportError:
        return {}
    space = Box(-1, 1, (1,))
    buffer = RolloutBuffer(STEPS, space, space, "cpu", LAMBDA, DISCOUNT, ROWS)
    buffer.rewards, buffer.values = (
        np.ascontiguousarray(x.reshape(ROWS, STEPS).T, np.float32) for x in (p.rewards, p.values)
    )
    starts = np.roll(p.over.reshape(ROWS, STEPS), 1, axis=1)
    buffer.episode_starts = np.ascontiguousarray(starts.T, np.float32)
    zeros, done = torch.zeros(ROWS), np.ones(ROWS)

    def run() -> Any:
        buffer.compute_returns_and_advantage(zeros, done)
        return buffer.advantages.T

    return {"Stable-Baselines3": run}


def torchrl(p: Problem) -> Calls:
    """Its two estimators on tensors of 500 rows times 2000 steps; in float32, its faster."""
    try:
        import torch
        from torchrl.objectives.value import functional
    except ImportError:
        return {}
    over = torch.as_tensor(p.over).reshape(ROWS, STEPS, 1)
    numbers = [
        torch.as_tensor(x, dtype=torch.float32).reshape(ROWS, STEPS, 1)
        for x in (p.values, p.following, p.rewards)
    ]
    calls: Calls = {}
    for name in ("vec_generalized_advantage_estimate", "generalized_advantage_estimate"):

        def run(name: str = name) -> Any:
            estimate = getattr(functional, name)
            return estimate(DISCOUNT, LAMBDA, *numbers, over, over)[0].numpy()

        calls[f"TorchRL {name}"] = run
    return calls


def gae_calls() -> Calls:
    """Every implementation that is installed, checked to give our advantages.

    Raises:
        RuntimeError: If one gives others: then the comparison would be of different things.
    """
    problem = Problem()
    calls = {
        **ours(problem),
        **tianshou(problem),
        **stable_baselines3(problem),
        **torchrl(problem),
    }
    expected = calls["mtwrappers"]()
    for name, call in calls.items():
        off = np.abs(np.asarray(call()).reshape(-1) - expected).max()
        if off > 1e-3:  # float32, summed over hundreds of steps
            raise RuntimeError(f"{name} gives other advantages, by up to {off:.2g}")
    return calls
