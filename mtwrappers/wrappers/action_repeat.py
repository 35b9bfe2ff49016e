"""Repeats each action for several steps of the environment."""

from __future__ import annotations

from typing import Any

from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import positive
from mtwrappers.common.types import AnyEnv, AnyWrapper, Info


class ActionRepeat(AnyWrapper, RecordConstructorArgs):
    """Repeats each action ``n`` times, or until the episode ends, as one step.

    The reward is the sum over the repeated steps; observation, flags and info come from the last
    one. A ``TimeLimit`` outside of this wrapper counts the agent's steps, one inside counts the
    environment's. For a vector environment, wrap each sub-environment.

    Args:
        env: An environment whose rewards are numbers.
        n: The number of environment steps per action.

    Raises:
        ValueError: If ``n`` is not a positive integer.

    >>> from mtwrappers import PointGoalEnv
    >>> from mtwrappers.wrappers.action_repeat import ActionRepeat
    >>> env = ActionRepeat(PointGoalEnv(), 3)
    >>> obs, info = env.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = env.step([0.1, 0.0])
    >>> obs
    array([0.3, 0. ])
    """

    def __init__(self, env: AnyEnv, n: int) -> None:
        n = positive(n, "n")
        RecordConstructorArgs.__init__(self, n=n)
        super().__init__(env)
        self.action_repeat = n

    @property
    def _max_episode_steps(self) -> int | None:
        """The environment's time limit in steps of the agent.

        An `AttributeError` if the environment has none.
        """
        steps: int | None = self.env.get_wrapper_attr("_max_episode_steps")
        return None if steps is None else -(-steps // self.action_repeat)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        total = 0.0
        for _ in range(self.action_repeat):
            obs, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return obs, total, terminated, truncated, info
