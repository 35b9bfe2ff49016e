"""Bandits and tabular Markov decision processes, as RL2 defines them (Duan et al. 2016)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.typing import NDArray

from mtwrappers.common.checks import positive, refuse_rendering
from mtwrappers.envs.distributions import Dirichlet, Distribution, Normal, Uniform
from mtwrappers.envs.family import Family, Source, Task
from mtwrappers.state.identity import keep_arguments


class BanditEnv(gymnasium.Env[NDArray[np.float64], Any]):
    """A Bernoulli bandit; a task is the probability of a reward of one, for each arm.

    The observation is always zero, ``(1,)`` of float64. ``info["regret"]`` is how much smaller the
    mean of the arm is than that of the best arm. An episode, which has a time limit, is a trial:
    all pulls of one bandit.

    Args:
        arms: The number of arms.
        render_mode: Must be ``None``.

    Raises:
        ValueError: If ``arms`` is not positive, or ``render_mode`` is not ``None``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, arms: int = 5, render_mode: str | None = None) -> None:
        keep_arguments(self, locals())
        refuse_rendering(render_mode, "Bandit")
        arms = positive(arms, "arms")
        self.distributions: Mapping[str, Distribution] = {"means": Uniform(0.0, 1.0, (arms,))}
        self.observation_space = Box(0.0, 1.0, (1,), np.float64)
        self.action_space = Discrete(arms)
        self._means: Any = (0.0,) * arms

    def set_task(self, task: Task) -> None:
        """Sets the means."""
        self._means = task["means"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begins a trial."""
        super().reset(seed=seed)
        return np.zeros(1), {"regret": 0.0}

    def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Pulls an arm.

        Raises:
            ValueError: If there is no such arm.
        """
        mean = self._means[_check_action(action, self.action_space)]
        reward = float(self.np_random.random() < mean)
        return np.zeros(1), reward, False, False, {"regret": max(self._means) - mean}


class TabularMDPEnv(gymnasium.Env[NDArray[np.float64], Any]):
    """A random Markov decision process; a task is its transitions and the means of its rewards.

    The observation is the state as a one-hot, ``(states,)`` of float64. Each episode begins in the
    first state. A reward is normal with a standard deviation of 1; ``info`` has its mean and its
    noise. Tasks have ``"transitions"``, ``(states, actions, states)``, and ``"reward_means"``,
    ``(states, actions)``.

    Args:
        states: The number of states.
        actions: The number of actions.
        render_mode: Must be ``None``.

    Raises:
        ValueError: If a number is not positive, or ``render_mode`` is not ``None``.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)

    def __init__(self, states: int = 10, actions: int = 5, render_mode: str | None = None) -> None:
        keep_arguments(self, locals())
        refuse_rendering(render_mode, "TabularMDP")
        shape = positive(states, "states"), positive(actions, "actions")
        self.distributions: Mapping[str, Distribution] = {
            "transitions": Dirichlet((*shape, shape[0])),
            "reward_means": Normal(1.0, 1.0, shape),
        }
        self.observation_space = Box(0.0, 1.0, shape[:1], np.float64)
        self.action_space = Discrete(shape[1])
        self._cumulative = np.ones((*shape, shape[0]))
        self._reward_means = np.zeros(shape)
        self._state = 0

    def set_task(self, task: Task) -> None:
        """Sets the transitions and the means of rewards."""
        self._cumulative = np.cumsum(task["transitions"], axis=-1)
        self._reward_means = np.asarray(task["reward_means"])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[np.float64], dict[str, Any]]:
        """Begins in the first state."""
        super().reset(seed=seed)
        self._state = 0
        return self._observe(), {"reward_mean": 0.0, "reward_noise": 0.0}

    def step(self, action: int) -> tuple[NDArray[np.float64], float, bool, bool, dict[str, Any]]:
        """Draws a reward and the next state.

        Raises:
            ValueError: If there is no such action.
        """
        action = _check_action(action, self.action_space)
        mean = float(self._reward_means[self._state, action])
        noise = float(self.np_random.standard_normal())
        cumulative = self._cumulative[self._state, action]
        # The last entry may be below one by rounding.
        drawn = self.np_random.random() * cumulative[-1]
        self._state = int(np.searchsorted(cumulative, drawn, side="right"))
        info = {"reward_mean": mean, "reward_noise": noise}
        return self._observe(), mean + noise, False, False, info

    def _observe(self) -> NDArray[np.float64]:
        observation = np.zeros(self.observation_space.shape or ())
        observation[self._state] = 1.0
        return observation


def _check_action(action: Any, space: Any) -> int:
    if not space.contains(action):
        raise ValueError(f"the action must be one of 0 to {space.n - 1}, got {action!r}")
    return int(action)


TABULAR_FAMILIES = (
    Family("Bandit", {"rl2": Source(BanditEnv, 10)}, ("arms",)),
    Family("TabularMDP", {"rl2": Source(TabularMDPEnv, 10)}, ("states", "actions")),
)
