"""A point that has to reach a goal in the plane, as PEARL and VariBAD define it."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.checks import refuse_rendering
from mtwrappers.envs.distributions import Circle, Distribution, Uniform, as_numbers
from mtwrappers.envs.family import Family, Source, Task
from mtwrappers.state.identity import keep_arguments

# The distance to the goal, within which the sparse reward is not zero.
GOAL_RADIUS = 0.2


class PointRobotEnv(gymnasium.Env[NDArray[np.float64], NDArray[Any]]):
    """A point in the plane whose actions are moves; a task is a goal.

    The observation is the position, ``(2,)`` of float64, and the reward the negative distance to
    the goal, which is hidden. The episode never ends by itself.

    Args:
        goals: The distribution of goals.
        max_action: The largest entry of an action, which moves the point by 0.1.
        starts_anywhere: Whether an episode begins anywhere in the square ``[-1, 1]``, uniformly, or
            at the origin.
        render_mode: Must be ``None``.

    Raises:
        ValueError: If ``render_mode`` is not ``None``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(
        self,
        goals: Distribution,
        max_action: float,
        starts_anywhere: bool,
        render_mode: str | None = None,
    ) -> None:
        keep_arguments(self, locals())
        refuse_rendering(render_mode, "PointRobot")
        self.distributions: Mapping[str, Distribution] = {"goal": goals}
        self.observation_space = Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = Box(-max_action, max_action, (2,), np.float32)
        self._max_action = max_action
        self._starts_anywhere = starts_anywhere
        self._position = np.zeros(2)
        self._goal: Any = (0.0, 0.0)

    def set_task(self, task: Task) -> None:
        """Sets the goal."""
        self._goal = task["goal"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Puts the point at its start."""
        super().reset(seed=seed)
        start = self.np_random.uniform(-1, 1, 2) if self._starts_anywhere else np.zeros(2)
        self._position = start
        return start.copy(), self._compute_rewards()[1]

    def step(
        self, action: NDArray[Any]
    ) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Moves the point by an action ``(2,)``, which is clipped to the space of actions.

        Raises:
            ValueError: If the action has another shape or is not finite.
        """
        move = as_numbers(action, (2,))
        if move is None:
            raise ValueError(f"expected a finite action of shape (2,), got {action!r}")
        clipped = np.clip(move, -self._max_action, self._max_action)
        self._position = self._position + clipped * (0.1 / self._max_action)
        reward, info = self._compute_rewards()
        return self._position.copy(), reward, False, False, info

    def _compute_rewards(self) -> tuple[float, dict[str, float]]:
        """The reward at the current position, and the infos."""
        distance = math.dist(self._position.tolist(), self._goal)
        return -distance, {"reward_goal": -distance}


class SparsePointRobotEnv(PointRobotEnv):
    """`PointRobotEnv` with a second reward that is zero far from the goal.

    ``info`` has ``dense_reward``, the negative distance to the goal, and ``sparse_reward``, which
    is one minus the distance within 0.2 of the goal, and 0.0 elsewhere.

    Args:
        rewards_sparsely: Whether the reward of a step is the sparse one.
        *args, **kwargs: As in `PointRobotEnv`.
    """

    def __init__(self, rewards_sparsely: bool, *args: Any, **kwargs: Any) -> None:
        keep_arguments(self, {"rewards_sparsely": rewards_sparsely})
        super().__init__(*args, **kwargs)
        self._rewards_sparsely = rewards_sparsely

    def _compute_rewards(self) -> tuple[float, dict[str, float]]:
        dense, _ = super()._compute_rewards()
        sparse = dense + 1 if dense >= -GOAL_RADIUS else 0.0
        reward = sparse if self._rewards_sparsely else dense
        return reward, {"dense_reward": dense, "sparse_reward": sparse}


_HALF_CIRCLE = Circle(1.0, math.pi)

POINT_FAMILIES = (
    Family(
        "PointRobot",
        {
            "pearl": Source(
                functools.partial(PointRobotEnv, Uniform(-1.0, 1.0, (2,)), 0.1, True),
                20,
                published="PEARL, PointRobot",
            ),
            "varibad": Source(functools.partial(PointRobotEnv, _HALF_CIRCLE, 1.0, False), 100),
        },
    ),
    Family(
        "SparsePointRobot",
        {
            "pearl": Source(
                functools.partial(SparsePointRobotEnv, False, _HALF_CIRCLE, 0.1, False),
                20,
                published="PEARL, SparsePointRobot",
            ),
            "varibad": Source(
                functools.partial(SparsePointRobotEnv, True, _HALF_CIRCLE, 1.0, False), 100
            ),
        },
    ),
)
