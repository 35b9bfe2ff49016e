"""Environments that say their task, and what they return one by one and side by side."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import mtwrappers as mt
from tests.fakes import CountingEnv, equal

LENGTHS = (2, 3, 4)
ACTIONS = [0] * 12
SINGLE = [mt.NormalizeRewardPerTask, mt.NormalizeObservationPerTask]
VECTOR = [mt.VectorNormalizeRewardPerTask, mt.VectorNormalizeObservationPerTask]
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


def play_both(ours: Any, makers: list[Any], actions: list[int]) -> tuple[list[Any], Any]:
    """Steps a vector environment beside Gymnasium's own over ``makers``; both must agree bitwise.

    Returns what was seen of it, and the environments of Gymnasium's.
    """
    theirs = SyncVectorEnv(makers, autoreset_mode=ours.autoreset_mode)
    seen = [ours.reset(seed=0)[0]]
    assert equal(seen[0], theirs.reset(seed=0)[0])
    over = np.zeros(ours.num_envs, dtype=bool)
    for action in actions:
        if ours.autoreset_mode is AutoresetMode.DISABLED and over.any():
            obs, again = (each.reset(options={"reset_mask": over})[0] for each in (ours, theirs))
            assert equal(obs, again)
        result, expected = (each.step(np.full(len(makers), action)) for each in (ours, theirs))
        over = result[2] | result[3]
        seen.append(result[0])
        finals, last = (each[4].get("final_obs") for each in (result, expected))
        assert equal((*result[:4], finals is None), (*expected[:4], last is None))
        if finals is not None:
            assert all(equal(a, b) for a, b in zip(finals, last, strict=True))
        if ours.autoreset_mode is not AutoresetMode.SAME_STEP:  # whose infos are of the next reset
            assert equal(*(each[4].get("raw_reward") for each in (result, expected)))
    return seen, theirs.envs
