"""The embedded example: a point that searches for a hidden goal. No simulator is needed."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any, Unpack

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_episode_steps,
    check_keywords,
    check_options,
    not_negative,
    number_or_nan,
    positive,
    refuse_rendering,
)
from mtwrappers.envs.distributions import as_numbers
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.plain_data import make_generator
from mtwrappers.state.registry import require_names
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import (
    EXECUTOR_OPTIONS,
    Execution,
    ExecutorOptions,
    fit_sizes,
    make_executor,
)

EPISODE_STEPS = 100  # the limit that the id is registered with
MAX_STEP = 0.1
BOUND = 5.0


class PointGoalEnv(gymnasium.Env[Any, Any]):
    """A point in the plane that has to reach a goal on a circle; a task is a goal.

    The observation is the position, ``(2,)``. The goal is hidden, so the agent has to infer it from
    the reward, the negative distance to the goal. It is the 2-D navigation of Finn et al. (2017,
    arXiv:1703.03400) with goals on a circle. ``info`` contains ``distance`` and ``success`` (within
    0.05 of the goal). Before the first reset with a seed, `sample_tasks` draws from entropy. No
    reset draws a goal: until `set_task`, or `MetaSampler.update_tasks`, it is ``(radius, 0)``.

    Args:
        radius: The radius of the circle of goals.
        render_mode: Must be ``None``.

    Raises:
        ValueError: If the radius is not in (0, 4], or ``render_mode`` is not ``None``.

    >>> from mtwrappers import PointGoalEnv
    >>> env = PointGoalEnv()
    >>> env.set_task({"goal": (1.0, 0.0)})
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step([0.1, 0.0])
    >>> obs, reward
    (array([0.1, 0. ]), -0.9)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, radius: float = 1.0, render_mode: str | None = None) -> None:
        keep_arguments(self, locals())
        self.radius = number_or_nan(radius)
        if not 0 < self.radius <= 4:
            raise ValueError(f"radius must be in (0, 4], got {radius!r}")
        refuse_rendering(render_mode, "PointGoalEnv")
        self.observation_space = Box(-BOUND, BOUND, (2,), np.float64)
        self.action_space = Box(-MAX_STEP, MAX_STEP, (2,), np.float64)
        self._task: dict[str, tuple[float, float]] = {"goal": (self.radius, 0.0)}
        self._order = seeding.task_generator(seeding.fresh_seed())
        self._position: NDArray[np.float64] | None = None

    def sample_tasks(self, n_tasks: int) -> list[dict[str, tuple[float, float]]]:
        """Draws goals, uniformly on the circle."""
        n_tasks = not_negative(n_tasks, "n_tasks")
        angles = self._order.uniform(0, 2 * math.pi, n_tasks).tolist()
        r = self.radius
        return [{"goal": (r * math.cos(angle), r * math.sin(angle))} for angle in angles]

    def set_task(self, task: dict[str, tuple[float, float]]) -> None:
        """Sets the goal; the next `reset` begins an episode on it.

        Raises:
            ValueError: If ``task`` is not a task.
        """
        goal = as_numbers(task.get("goal"), (2,)) if isinstance(task, Mapping) else None
        if goal is None:
            raise ValueError(f"a task must be {{'goal': (x, y)}}, got {task!r}")
        x, y = goal.tolist()
        self._task = {"goal": (x, y)}
        self._position = None

    def get_task(self) -> dict[str, tuple[float, float]]:
        """The current task."""
        return dict(self._task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Puts the point at the origin; ``seed`` determines what `sample_tasks` draws."""
        check_options(options, (), "PointGoalEnv", hint="set_task sets a goal")
        seed = None if seed is None else seeding.check_seed(seed)
        super().reset(seed=seed)
        if seed is not None:
            self._order = seeding.task_generator(seed)
        self._position = np.zeros(2)
        return self._position.copy(), self._info(self._position)

    def step(self, action: Any) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Moves the point by ``action``, ``(2,)``, clipped to [-0.1, 0.1].

        Raises:
            ResetNeeded: If no episode is under way.
            ValueError: If the action has another shape or is not finite.
        """
        if self._position is None:
            raise ResetNeeded("call reset() before step()")
        move = as_numbers(action, (2,))
        if move is None:
            raise ValueError(f"expected a finite action of shape (2,), got {action!r}")
        moved = self._position + np.clip(move, -MAX_STEP, MAX_STEP)
        self._position = np.clip(moved, -BOUND, BOUND)
        info = self._info(self._position)
        return self._position.copy(), -info["distance"], False, False, info

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes: the task, and what `sample_tasks` draws next."""
        return {"task": self.get_task(), "order": dict(self._order.bit_generator.state)}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Raises:
            ValueError: If ``state`` does not fit; nothing is changed then.
        """
        values = require_names(state, ("task", "order"), self)
        order = make_generator(values["order"], "the order of goals")
        self.set_task(values["task"])
        self._order = order

    def _info(self, position: NDArray[np.float64]) -> dict[str, float]:
        distance = math.dist(position.tolist(), self._task["goal"])
        return {"distance": distance, "success": float(distance <= 0.05)}


# What `gymnasium.make` calls for ``mtwrappers/PointGoal-v0``.
make_env = PointGoalEnv


def make_vec_env(
    num_envs: int = 1,
    *,
    radius: float = 1.0,
    max_episode_steps: int | None = EPISODE_STEPS,
    meta_batch_size: int | None = None,
    render_mode: str | None = None,
    execution: Execution | None = None,
    **options: Unpack[ExecutorOptions],
) -> MetaVectorEnv:
    """The vector environment behind ``mtwrappers/PointGoal-v0``, for `gymnasium.make_vec`.

    Args:
        num_envs: The total number of environments; 1 (Gymnasium's default) means one per task.
        radius: The radius of the circle of goals, in (0, 4].
        max_episode_steps: The number of steps after which episodes are truncated; as in
            `gymnasium.make`, ``None`` is the id's own limit of 100, and -1 is no limit.
        meta_batch_size: The number of tasks; by default ``num_envs``, which it must divide.
        render_mode: Must be ``None``.
        execution: See `mtwrappers.vector.make.make_executor`.
        **options: The other arguments of `mtwrappers.vector.make.make_executor`, such as
            ``workers`` and ``journal``.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=6, meta_batch_size=3)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape, envs.meta_batch_size, envs.envs_per_task
    ((6, 2), 3, 2)
    >>> envs.close()
    """
    tasks = positive(num_envs, "num_envs")
    if meta_batch_size is not None:
        tasks = positive(meta_batch_size, "meta_batch_size")
    hints = {"envs_per_task": "pass num_envs and meta_batch_size"}
    check_keywords(options, EXECUTOR_OPTIONS, "make_vec of PointGoal", hints)
    name = "PointGoal" if meta_batch_size is None else f"PointGoal with {meta_batch_size=}"
    per_task = fit_sizes(num_envs, None, tasks, name)
    limit = check_episode_steps(max_episode_steps, EPISODE_STEPS)
    make = functools.partial(_make_limited, radius, limit, render_mode)
    makers = [make] * (tasks * per_task)
    return make_executor(makers, tasks, per_task, execution=execution, **options)


def _make_limited(
    radius: float, max_episode_steps: int | None, render_mode: str | None
) -> gymnasium.Env[Any, Any]:
    env = PointGoalEnv(radius, render_mode)
    if max_episode_steps is None:
        return env
    return gymnasium.wrappers.TimeLimit(env, max_episode_steps)
