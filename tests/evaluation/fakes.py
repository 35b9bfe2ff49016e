"""Environments and policies whose numbers are known beforehand."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor


class ScriptedEnv(gymnasium.Env):
    """Episodes of the given lengths, one after another; the reward is the action's first number.

    Observes the steps of the episode, its length and a number drawn at reset. Success is 1.0 at
    step ``success_at`` only, reported under ``key``.
    """

    def __init__(
        self,
        lengths: Sequence[int] = (3,),
        *,
        success_at: int = 0,
        key: str | None = "success",
        name: str | None = None,
        truncate: bool = False,
    ) -> None:
        self.observation_space = Box(0.0, 1e9, (3,), np.float64)
        self.action_space = Box(-1.0, 1.0, (2,), np.float64)
        self.lengths, self.success_at, self.key = lengths, success_at, key
        self.name, self.truncate = name, truncate
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.steps = 0
        self.draw = int(self.np_random.integers(2**31))
        self.length = self.lengths[self.draw % len(self.lengths)]
        return self._obs(), self._info()

    def step(self, action):
        self.steps += 1
        done = self.steps >= self.length
        reward = float(action[0])
        return self._obs(), reward, done and not self.truncate, done and self.truncate, self._info()

    def _obs(self):
        return np.array([self.steps, self.length, self.draw], np.float64)

    def _info(self):
        info: dict[str, Any] = {} if self.name is None else {"task_name": self.name}
        if self.key is not None:
            info[self.key] = float(self.steps == self.success_at)
        return info


class Namesakes(ScriptedEnv):
    """Has two tasks of one name."""

    task_states, task_ids, task_names = (0, 1), (0, 1), ("a", "a")

    def set_task(self, task):
        pass


class Telling(ScriptedEnv):
    """Reports as success whatever it is made with."""

    def __init__(self, value):
        super().__init__([2], name="a")
        self.value = value

    def _info(self):
        return {**super()._info(), "success": self.value}


def ones(observations):
    """Pays 1 a step."""
    return np.ones((len(observations), 2))


def drawn(observations):
    """Pays a fraction of what each episode drew, so that every episode has its own return."""
    return np.repeat(observations[:, 2:] / 2**31, 2, axis=1)


class Diary:
    """A policy that notes which environments begin, and the step at which it is asked."""

    def __init__(self) -> None:
        self.begun: list[list[int]] = []
        self.steps: list[list[float]] = []

    def reset(self, mask):
        self.begun.append(np.flatnonzero(mask).tolist())

    def __call__(self, observations):
        self.steps.append(observations[:, 0].tolist())
        return ones(observations)


def scripted(tasks: Sequence[dict[str, Any]], k: int = 1, workers: int = 0, **kwargs: Any) -> Any:
    """An executor of a `ScriptedEnv` for each of ``tasks``."""
    makers = [partial(ScriptedEnv, **task) for task in tasks]
    if workers:
        return MetaParallelEnvExecutor(makers, len(tasks), k, workers=workers, **kwargs)
    return MetaIterativeEnvExecutor(makers, len(tasks), k, **kwargs)


def lengths(result, task):
    """How long the episodes of a task were."""
    return [episode.length for episode in result.of_task(task)]
