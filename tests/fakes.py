"""Small environments that count, and other helpers that the tests share."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Discrete
from gymnasium.utils.env_checker import check_env, data_equivalence

from mtwrappers.core.mtenv import MTEnv

ROOT = Path(__file__).parents[1]


class CountingEnv(gymnasium.Env):
    """Observes ``first`` plus the number of steps; the reward is the number of steps.

    An episode ends after ``length`` steps, by termination or, with ``truncate``, by truncation.
    ``info["draw"]`` is a number drawn from ``np_random`` by the last reset. What it was asked is
    kept in ``seeds``, ``options`` and ``actions``, and ``closed`` says whether it was closed.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012

    def __init__(
        self,
        length: int = 3,
        *,
        truncate: bool = False,
        first: int = 0,
        obs_size: int = 2,
        low: float = 0,
        high: float = 1000,
        dtype: Any = np.float64,
        num_actions: int = 2,
        render_mode: str | None = None,
    ) -> None:
        self.observation_space = Box(low, high, (obs_size,), np.dtype(dtype).type)
        self.action_space = Discrete(num_actions)
        self.render_mode = render_mode
        self.length = length
        self.truncate = truncate
        self.first = first
        self.steps = 0
        self.seeds: list[int | None] = []
        self.options: list[dict[str, Any] | None] = []
        self.actions: list[Any] = []
        self.closed = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.options.append(options)
        self.steps = 0
        self.draw = int(self.np_random.integers(2**31))
        return self._obs(), self._info()

    def step(self, action):
        self.actions.append(action)
        self.steps += 1
        done = self.steps >= self.length
        return (
            self._obs(),
            float(self.steps),
            done and not self.truncate,
            done and self.truncate,
            self._info(),
        )

    def render(self):
        return np.full((2, 2, 3), self.first + self.steps, np.uint8)

    def close(self):
        self.closed = True

    def _obs(self):
        space = self.observation_space
        return np.full(space.shape, self.first + self.steps, space.dtype)

    def _info(self):
        return {"steps": self.steps, "draw": self.draw}


class CountingMTEnv(MTEnv):
    """An `MTEnv` that counts steps; its task is a goal of 0, 1 or 2, where the episode ends."""

    def __init__(self) -> None:
        super().__init__(Discrete(2), Box(0, 1000, (2,), np.float64), Discrete(3))
        self.goal = 2
        self.steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.steps = 0
        draw = int(self.np_random.integers(1000))
        return self.observe(np.array([0.0, draw])), {"goal": self.goal}

    def step(self, action):
        self.steps += 1
        obs = self.observe(np.array([self.steps, 0.0]))
        return obs, float(self.steps), self.steps > self.goal, False, {"goal": self.goal}

    def get_task_obs(self):
        return self.goal

    def get_task_state(self):
        return self.goal

    def set_task_state(self, task_state):
        if task_state not in (0, 1, 2):
            raise ValueError(f"task state must be 0, 1 or 2, got {task_state!r}")
        self.goal = task_state

    def sample_task_state(self):
        return int(self.np_random_task.integers(3))


class CountingSetTaskEnv(CountingEnv):
    """A `CountingEnv` whose task says where it starts to count, and which is set from outside.

    Its tasks ``{"first": 0}``, ``{"first": 10}``, ... are sampled without replacement.
    """

    num_tasks = 5

    def __init__(self, length: int = 3, **kwargs: Any) -> None:
        super().__init__(length, **kwargs)
        self._sweep: list[int] = []
        self._reset_needed = True

    def sample_tasks(self, n):
        tasks = []
        for _ in range(n):
            if not self._sweep:
                self._sweep = self.np_random.permutation(self.num_tasks).tolist()
            tasks.append({"first": 10 * self._sweep.pop()})
        return tasks

    def set_task(self, task):
        if not isinstance(task, dict) or set(task) != {"first"}:
            raise ValueError(f"a task must be a dict with the key 'first', got {task!r}")
        self.first = task["first"]
        self._reset_needed = True

    def get_task(self):
        return {"first": self.first}

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self._sweep = []
        self._reset_needed = False
        return super().reset(seed=seed, options=options)

    def step(self, action):
        if self._reset_needed:
            raise ResetNeeded("call reset() after set_task()")
        return super().step(action)


class Constructors:
    """Constructors of ``CountingEnv(first=100 * index)``, and the environments they built.

    Args:
        num_tasks: How many; ``makers`` is the list of them.
        kwargs: Passed to every environment.
        changes: What one task's environment gets instead, by its index; an exception is raised
            by its constructor, and what is callable is that.
    """

    def __init__(
        self, num_tasks: int, changes: dict[int, Any] | None = None, **kwargs: Any
    ) -> None:
        self.changes = changes or {}
        self.kwargs = kwargs
        self.built: list[int] = []
        self.envs: dict[int, CountingEnv] = {}
        self.makers = [partial(self.make, index) for index in range(num_tasks)]

    def make(self, index: int) -> gymnasium.Env:
        change = self.changes.get(index, {})
        if isinstance(change, Exception):
            raise copy.copy(change)
        if callable(change):
            env = change()
        else:
            env = CountingEnv(**{"first": 100 * index, **self.kwargs, **change})
        self.built.append(index)
        self.envs[index] = env
        return env


def counting_makers(num_tasks: int, **kwargs: Any) -> list[partial[CountingEnv]]:
    """Constructors that pickle, of environments that count from 0, 100, 200, ..."""
    return [partial(CountingEnv, **{"first": 100 * i, **kwargs}) for i in range(num_tasks)]


def play(env: gymnasium.Env, actions: list[Any], **reset: Any) -> list[Any]:
    """Everything that one reset and the steps after it return."""
    return [env.reset(**reset), *(env.step(action) for action in actions)]


def equal(a: Any, b: Any) -> bool:
    """Whether two nested structures are equal, types, dtypes and every bit included."""
    return data_equivalence(a, b, exact=True)


def check_env_warnings(env: gymnasium.Env, **kwargs: Any) -> list[str]:
    """What `check_env` warns of, but for the notices on wrappers and on MTEnv's ``seed``."""
    harmless = ("is different from the unwrapped version", "support for the `seed` function")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, **kwargs)
    messages = [str(warning.message) for warning in caught]
    return [m for m in messages if not any(text in m for text in harmless)]


def run_with_python(*args: Any, cwd: Any = ROOT, **environment: str) -> str:
    """What a Python of its own prints, which must end well; ``environment`` is set on top."""
    done = subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_python(code: str, *flags: str) -> str:
    """What ``code`` prints in a Python of its own."""
    return run_with_python(*flags, "-c", code).strip()


# With longer observations, ``tests/Long-v0``.
for _name, _kwargs in (
    ("Short", {"length": 3, "obs_size": 2}),
    ("Long", {"length": 5, "obs_size": 3, "first": 100}),
):
    if f"tests/{_name}-v0" not in gymnasium.registry:
        gymnasium.register(f"tests/{_name}-v0", "tests.fakes:CountingEnv", kwargs=_kwargs)
