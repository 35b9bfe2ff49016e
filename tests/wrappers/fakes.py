"""Environments that say their task, and what they show one by one and side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode

from mtwrappers import (
    NormalizeObservationPerTask,
    NormalizeRewardPerTask,
    VectorNormalizeObservationPerTask,
    VectorNormalizeRewardPerTask,
)
from tests.fakes import CountingEnv

LENGTHS = (2, 3, 4)
ACTIONS = [0] * 12
SINGLE = [NormalizeRewardPerTask, NormalizeObservationPerTask]
VECTOR = [VectorNormalizeRewardPerTask, VectorNormalizeObservationPerTask]
pairs = pytest.mark.parametrize(("one", "many"), list(zip(SINGLE, VECTOR, strict=True)))


class TaskedEnv(CountingEnv):
    """A `CountingEnv` that moves from task 0 to 1, 2, 0, ... with every reset if ``moves``."""

    def __init__(self, task: int, moves: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.task, self.moves, self.resets = task, moves, 0

    def get_task(self):
        return {"task": self.task}

    def set_task(self, task):
        self.task = task["task"]

    def reset(self, *, seed=None, options=None):
        if self.moves and self.resets:
            self.task = (self.task + 1) % 3
        self.resets += 1
        return super().reset(seed=seed, options=options)

    def _info(self):
        return {**super()._info(), "task_id": self.task}


def makers(moves: bool = False, each: int = 1, **kwargs: Any) -> list[Any]:
    """Three tasks of episodes of 2, 3 and 4 steps, ``each`` times."""
    return [
        partial(TaskedEnv, i, moves, **{"length": n, "first": 10 * i, **kwargs})
        for i, n in enumerate(LENGTHS)
        for _ in range(each)
    ]


def play_one(env: Any, actions: list[Any], mode: AutoresetMode) -> list[dict[str, Any]]:
    """What a place in a vector environment shows, by stepping ``env`` alone."""
    obs, info = env.reset(seed=0)
    shown = [{"obs": obs, "reward": 0.0, "final": None, "raw": 0.0}]
    over = False
    for action in actions:
        if over and mode is not AutoresetMode.SAME_STEP:
            obs, info = env.reset()
            over = False
            if mode is AutoresetMode.NEXT_STEP:
                raw = info.get("raw_reward")
                shown.append({"obs": obs, "reward": 0.0, "final": None, "raw": raw})
                continue
        obs, reward, terminated, truncated, info = env.step(action)
        raw = info.get("raw_reward")
        over, final = terminated or truncated, None
        if over and mode is AutoresetMode.SAME_STEP:
            final = obs
            obs, _ = env.reset()
        shown.append({"obs": obs, "reward": reward, "final": final, "raw": raw})
    return shown


def play_many(envs: Any, actions: list[Any]) -> list[list[dict[str, Any]]]:
    """The same for every place of a vector environment, by stepping it."""
    n = envs.num_envs
    obs, infos = envs.reset(seed=0)
    shown = [[{"obs": obs[i], "reward": 0.0, "final": None, "raw": 0.0}] for i in range(n)]
    over = np.zeros(n, dtype=bool)
    for action in actions:
        if envs.autoreset_mode is AutoresetMode.DISABLED and over.any():
            envs.reset(options={"reset_mask": over})
        obs, rewards, terminated, truncated, infos = envs.step(np.full(n, action))
        over = terminated | truncated
        finals = infos.get("final_obs", [None] * n)
        raws = infos.get("raw_reward", [None] * n)
        for i in range(n):
            shown[i].append(
                {"obs": obs[i], "reward": rewards[i], "final": finals[i], "raw": raws[i]}
            )
    return shown


def assert_same(many: list[dict[str, Any]], one: list[dict[str, Any]]) -> None:
    """Whether `play_many` and `play_one` returned the same bits for a place."""
    assert len(many) == len(one)
    for a, b in zip(many, one, strict=True):
        for key in a:
            np.testing.assert_array_equal(a[key], b[key])
            assert np.asarray(a[key]).dtype == np.asarray(b[key]).dtype
