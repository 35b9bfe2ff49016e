"""Executors, and environments whose observations, actions and infos have odd forms."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Text, Tuple
from gymnasium.spaces import Sequence as SequenceSpace
from gymnasium.vector import AutoresetMode
from gymnasium.wrappers import RecordEpisodeStatistics

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor, MetaVectorWrapper
from tests.fakes import CountingEnv

EXECUTORS: dict[str, Callable[..., Any]] = {
    "iterative": MetaIterativeEnvExecutor,
    "parallel": partial(MetaParallelEnvExecutor, workers=2, context="fork"),
}
both_executors = pytest.mark.parametrize("executor", EXECUTORS.values(), ids=EXECUTORS)
all_modes = pytest.mark.parametrize("mode", AutoresetMode, ids=lambda mode: mode.value)


def exact(message: str) -> str:
    """A pattern that matches this text."""
    return re.escape(message)


class BoxCountingEnv(CountingEnv):
    """A `CountingEnv` whose actions are two floats."""

    def __init__(self, length: int = 3, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)


class NestedEnv(gymnasium.Env):
    """Observations in a dict of a tuple of a dict, and infos that look different at every step."""

    def __init__(self, length: int) -> None:
        self.observation_space = Dict(
            {
                "count": Box(0, 100, (2, 3), np.float32),
                "parts": Tuple(
                    (
                        Discrete(50, start=3),
                        MultiBinary(3),
                        Dict({"grid": MultiDiscrete([50, 50]), "one": Box(0, 99, (), np.int16)}),
                    )
                ),
            }
        )
        self.action_space = Box(-1.0, 1.0, (2,), np.float32)
        self.length = length
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.draw = int(self.np_random.integers(9))
        return self._obs(), self._info()

    def step(self, action):
        self.steps += 1
        reward = float(self.steps + action[0])
        return self._obs(), reward, self.steps >= self.length, False, self._info()

    def _obs(self):
        n = self.steps
        return {
            "count": np.arange(6, dtype=np.float32).reshape(2, 3) + n + self.draw,
            "parts": (
                np.int64(3 + n),
                np.array([n & 1, n & 2, n & 4], dtype=bool).astype(np.int8),
                {"grid": np.array([n, 2 * n]), "one": np.array(n, np.int16)},
            ),
        }

    def _info(self):
        n = self.steps
        return [
            {},
            {"n": n, "half": n / 2, "flag": n > 2, "word": "step"},
            {"n": n, "half": n / 2, "flag": n > 2, "word": "another"},
            {"wide": np.uint64(2**63 + n), "small": np.int8(-n)},
            {"array": np.arange(3) * n, "n": np.float32(n)},
            {"inner": {"n": n, "deep": {"word": "x", "array": np.eye(2) * n}}, "list": [n, None]},
            {"n": float(n), "nothing": None, "wide": np.uint64(2**63 + n), "true": np.bool_(True)},
        ][(n + self.length) % 7]


class WordEnv(gymnasium.Env):
    """Observes a text; an action is a tuple. Neither goes into an array."""

    def __init__(self, length: int) -> None:
        self.observation_space = Text(9, charset="abcdefghij")
        self.action_space = Tuple((Discrete(3), Box(-1.0, 1.0, (2,), np.float32)))
        self.length = length
        self.word = "a"

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.word = "abc"[int(self.np_random.integers(3))]
        return self.word, {"word": self.word}

    def step(self, action):
        letter, numbers = action
        self.word += "abc"[int(letter)]
        over = len(self.word) > self.length
        return self.word, float(numbers[0]), over, False, {"word": self.word}


class BagEnv(gymnasium.Env):
    """Observes a sequence of arrays, one more at every step, in arrays that are never reused."""

    def __init__(self, length: int) -> None:
        self.observation_space = SequenceSpace(Box(0.0, 99.0, (2,), np.float32))
        self.action_space = Discrete(2)
        self.length = length
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        return self._obs(), {}

    def step(self, action):
        self.steps += 1
        return self._obs(), 1.0, self.steps >= self.length, False, {}

    def _obs(self):
        return tuple(np.full(2, i, np.float32) for i in range(self.steps + 1))


class HalfReward(MetaVectorWrapper):
    def step_wait(self):
        obs, rewards, terminated, truncated, infos = self.env.step_wait()
        return obs, rewards / 2, terminated, truncated, infos


def short_episodes(env_id: str, steps: int) -> gymnasium.Env:
    """A registered environment whose infos carry episode statistics."""
    return RecordEpisodeStatistics(gymnasium.make(env_id, max_episode_steps=steps))


# Environments of four tasks, whose episodes end early and at different times.
LENGTHS = (2, 3, 5, 4)
CONTRACT = {
    "counting": [
        partial(CountingEnv, length, truncate=i % 2 == 1, first=100 * i)
        for i, length in enumerate(LENGTHS)
    ],
    "counting with boxes": [partial(BoxCountingEnv, length) for length in LENGTHS],
    "single precision": [partial(CountingEnv, n, dtype="float32", obs_size=7) for n in LENGTHS],
    "nested": [partial(NestedEnv, length) for length in (2, 3, 7, 4)],
    "text": [partial(WordEnv, length) for length in LENGTHS],
    "sequence": [partial(BagEnv, length) for length in LENGTHS],
    "cartpole": [partial(short_episodes, "CartPole-v1", n) for n in (7, 30, 9, 12)],
    "pendulum": [partial(short_episodes, "Pendulum-v1", n) for n in (7, 30, 9, 12)],
}
# And some that play for longer.
KINDS = {
    "cartpole": [
        partial(gymnasium.make, "CartPole-v1", max_episode_steps=n) for n in (9, 30, 12, 500)
    ],
    "pendulum": [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 9.0, 10.0, 11.0)],
    "nested": [partial(NestedEnv, n) for n in (2, 3, 7, 4)],
    "text": [partial(WordEnv, n) for n in (2, 3, 5, 4)],
}
kinds_and_modes = pytest.mark.parametrize(
    ("kind", "mode"), [*zip(KINDS, [*AutoresetMode, AutoresetMode.SAME_STEP], strict=True)]
)
