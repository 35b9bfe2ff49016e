"""Ways to break an environment, in one line each, and environments that keep the contract."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict

from tests.fakes import CountingMTEnv


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


class DictTaskEnv(CountingMTEnv):
    """Its task state is a dict of an array, which it observes; and a set task needs a reset."""

    def __init__(self):
        super().__init__()
        self.set_task_state({"goal": np.zeros(2)})
        self.task_observation_space = Box(0, 1, (2,), np.float64)
        self.observation_space = Dict(
            {"env_obs": self.env_observation_space, "task_obs": self.task_observation_space}
        )

    def get_task_obs(self):
        return self.task.copy()

    def get_task_state(self):
        return {"goal": self.task.copy()}

    def set_task_state(self, task_state):
        self.task = task_state["goal"].copy()
        self.due = True

    def sample_task_state(self):
        return {"goal": self.np_random_task.uniform(size=2)}

    def reset(self, **kwargs):
        returned = super().reset(**kwargs)
        self.due = False
        return returned

    def step(self, action):
        if self.due:
            raise ResetNeeded("reset first")
        return super().step(action)


class OneBufferEnv(DictTaskEnv):
    """Returns the same dicts and arrays again and again: tasks, or observations and infos as well.

    With ``noisy`` as ``"obs"`` or ``"task"`` these come from nowhere; with ``"reset"`` that changes
    the present task, with ``"sampling"`` every sampled task is the present one.
    """

    noisy = ""

    def __init__(self):
        self.kept_obs = self.kept_info = None
        self.state = {"goal": np.zeros(2)}
        super().__init__()

    def get_task_state(self):
        return self.state

    def set_task_state(self, task_state):
        self.state, self.task, self.due = task_state, task_state["goal"], True

    def sample_task_state(self):
        drawn = super().sample_task_state()
        if self.noisy == "task":
            drawn["goal"][0] = count(self) % 97 / 97
        self.drawn = self.state if self.noisy == "sampling" else getattr(self, "drawn", drawn)
        self.drawn["goal"][:] = drawn["goal"]
        return self.drawn

    def reset(self, **kwargs):
        if self.noisy == "reset":
            self.task[0] = 0.5
        return self.same_buffer(*super().reset(**kwargs))

    def step(self, action):
        return self.same_buffer(*super().step(action))

    def same_buffer(self, obs, *others):
        if self.noisy == "obs":
            obs["env_obs"][1] = count(self) % 997
        if self.noisy in ("sampling", "reset"):
            return obs, *others
        if self.kept_obs is None:
            self.kept_obs, self.kept_info = obs, {}
        for name, array in self.kept_obs.items():
            array[:] = obs[name]
        self.kept_info.update(others[-1])
        return self.kept_obs, *others[:-1], self.kept_info


class NeverEndingEnv(CountingMTEnv):
    """Observes actions; the keys of its info stay, the types of its values do not."""

    def step(self, action):
        obs, reward, *_ = super().step(action)
        obs["env_obs"][1] = action
        one, two = (np.ones(1),), (np.ones(1), np.ones(1))
        some = [None, one, {"a": 1}, two, one, np.ones(1)]
        return obs, reward, False, False, {"goal": some[self.steps % 6]}


class EndsOnceEnv(CountingMTEnv):
    """Cannot be stepped after an episode's end, which is a truncation."""

    def step(self, action):
        if self.steps == 2:
            raise ResetNeeded("the episode has ended")
        obs, reward, _, _, info = super().step(action)
        return obs, reward, False, self.steps == 2, info
