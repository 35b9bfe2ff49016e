"""Executors, and environments whose observations, actions and infos have odd forms."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    Text,
    Tuple,
    flatten,
)
from gymnasium.vector import AutoresetMode

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from mtwrappers.wrappers.vector import MetaVectorWrapper
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


class SpaceEnv(gymnasium.Env):
    """Observes what it draws from a space, and reports infos that look different at every step."""

    def __init__(self, observation_space, action_space, length: int) -> None:
        # A copy, because a space keeps a random generator.
        self.observation_space = copy.deepcopy(observation_space)
        self.action_space, self.length = action_space, length
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(int(self.np_random.integers(2**31)))
        self.steps = 0
        return self.observation_space.sample(), self._info()

    def step(self, action):
        self.steps += 1
        obs = self.observation_space.sample()
        reward = float(self.steps + flatten(self.action_space, action)[-1])
        return obs, reward, self.steps >= self.length, False, self._info()

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


MOVE_SPACE = Box(-1.0, 1.0, (2,), np.float32)
INNER_SPACE = Dict({"grid": MultiDiscrete([50, 50]), "scalar": Box(0, 99, (), np.int16)})
NestedEnv = partial(
    SpaceEnv,
    Dict(
        {
            "count": Box(0, 100, (2, 3), np.float32),
            "parts": Tuple((Discrete(50, start=3), MultiBinary(3), INNER_SPACE)),
        }
    ),
    MOVE_SPACE,
)
# Neither the observations nor the actions of the first, nor the observations of the second, go into
# an array.
WordEnv = partial(SpaceEnv, Text(9, charset="abcdefghij"), Tuple((Discrete(3), MOVE_SPACE)))
BagEnv = partial(SpaceEnv, Sequence(Box(0.0, 99.0, (2,), np.float32)), Discrete(2))


class DriftEnv(gymnasium.Env):
    """Drifts at random from where its task says, for a random time, as fast as its state says."""

    observation_space = Box(-np.inf, np.inf, (2,), np.float64)
    action_space = Discrete(3)
    start, slope = 0.0, 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps_left = int(self.np_random.integers(1, 6))
        self.x = np.array([self.start, self.np_random.random()])
        return self.x.copy(), {"steps_left": self.steps_left}

    def step(self, action):
        self.steps_left -= 1
        self.x = self.x + self.slope * (action + self.np_random.normal(size=2))
        info = {"steps_left": self.steps_left}
        return self.x.copy(), float(self.x[0]), self.steps_left == 0, False, info

    def set_task(self, task):
        self.start = float(task)

    def set_task_state(self, slope):
        self.slope = float(slope)

    def get_state(self):
        rng_state = self.np_random.bit_generator.state
        return {"rng": rng_state, "start": self.start, "slope": self.slope}

    def set_state(self, state):
        self.np_random.bit_generator.state = state["rng"]
        self.start, self.slope = state["start"], state["slope"]


class HalfReward(MetaVectorWrapper):
    def step_wait(self):
        obs, rewards, terminated, truncated, infos = self.env.step_wait()
        return obs, rewards / 2, terminated, truncated, infos


# Environments of four tasks, whose episodes end at different times.
LENGTHS = (2, 3, 5, 4)
KINDS = {
    "counting": [
        partial(CountingEnv, length, truncate=i % 2 == 1, first=100 * i)
        for i, length in enumerate(LENGTHS)
    ],
    "nested": [partial(NestedEnv, length) for length in (2, 3, 7, 4)],
    "text": [partial(WordEnv, length) for length in LENGTHS],
    "sequence": [partial(BagEnv, length) for length in LENGTHS],
    "cartpole": [
        partial(gymnasium.make, "CartPole-v1", max_episode_steps=n) for n in (9, 30, 12, 500)
    ],
    "pendulum": [
        partial(gymnasium.make, "Pendulum-v1", g=g, max_episode_steps=int(3 * g))
        for g in (8.0, 9.0, 10.0, 11.0)
    ],
}
kinds_and_modes = pytest.mark.parametrize(
    ("kind", "mode"),
    [
        *zip(("cartpole", "pendulum", "nested"), AutoresetMode, strict=True),
        ("text", AutoresetMode.SAME_STEP),
    ],
)
