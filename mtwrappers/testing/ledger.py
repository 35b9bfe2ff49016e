"""An environment whose transitions identify their origin."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box, Dict, Discrete, Space
from numpy.typing import NDArray

from mtwrappers.common.checks import check_choice, check_index, check_options, positive
from mtwrappers.common.registration import PlainSpec
from mtwrappers.common.seeding import check_seed
from mtwrappers.state.identity import keep_arguments
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import make_executor

Observation: TypeAlias = Literal["vector", "image", "dict"]
Actions: TypeAlias = Literal["continuous", "discrete"]

# The largest value of a pixel, and so of an entry.
SIZE = 256
# A size that the libraries' convolutions support.
IMAGE_SHAPE = (42, 42, 3)
LENGTHS = np.array([5, 2, 3, 1, 4])


def episode_length(environment: Any, episode: Any) -> Any:
    """Returns the length of episodes, 1 to 5, for numbers or integer arrays."""
    return LENGTHS[(environment + episode) % len(LENGTHS)]


def is_truncated(environment: Any, episode: Any) -> Any:
    """Whether episodes end by truncation (every second one) or by termination."""
    return (environment + episode) % 2 == 1


def entry_reward(environment: Any, episode: Any, step: Any) -> Any:
    """Returns the absolute reward for reaching entries, in (0, 1), exact in float32."""
    return (environment * SIZE**2 + episode * SIZE + step) / SIZE**3


class Ledger(gymnasium.Env[Any, Any]):
    """Reveals which transitions a library stores: each observation is an entry of a ledger.

    An entry is ``(environment, episode, step)``. Episodes count from 0, up by one with each reset
    (from 255 on to 0), and from 0 again with a reset that is given a seed; steps count from 0.

    - The reward of a step is a number in (0, 1) that only its next observation has
      (`entry_reward`), and negative unless the action is above zero: so it says which action was
      taken, and a policy has something to learn.
    - Episodes have 1 to 5 steps (`episode_length`). Every second one ends by truncation, the others
      by termination (`is_truncated`).

    So each transition can be checked without knowing what was done; `check_transitions` does.
    ``gymnasium.make_vec("mtwrappers/Ledger-v0", n)`` makes ``n`` of them.

    Args:
        environment: The number of this environment, 0 to 255.
        observation: ``"vector"``, the entry, ``(3,)`` float32; ``"image"``, ``(42, 42, 3)`` uint8,
            in which every pixel is the entry; ``"dict"``, both, as ``image`` and ``vector``.
        actions: ``"continuous"``, ``Box(-1, 1, (1,))``, or ``"discrete"``, ``Discrete(2)``.

    Raises:
        ValueError: If an argument is none of those.

    >>> from mtwrappers.testing import Ledger
    >>> from mtwrappers.testing.ledger import entry_reward
    >>> env = Ledger(environment=7)
    >>> env.reset(seed=0)[0]
    array([7., 0., 0.], dtype=float32)
    >>> obs, reward, terminated, truncated, info = env.step([0.5])
    >>> obs, reward == entry_reward(7, 0, 1)
    (array([7., 0., 1.], dtype=float32), True)
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (Gymnasium's own declaration)
    spec: Any = PlainSpec()

    def __init__(
        self,
        environment: int = 0,
        *,
        observation: Observation = "vector",
        actions: Actions = "continuous",
    ) -> None:
        keep_arguments(self, locals())
        self.environment = check_index(environment, SIZE, "environment")
        spaces: dict[str, Space[Any]] = {
            "vector": Box(0, SIZE - 1, (3,), np.float32),
            "image": Box(0, SIZE - 1, IMAGE_SHAPE, np.uint8),
        }
        spaces["dict"] = Dict(spaces)
        kinds: dict[str, Space[Any]] = {
            "continuous": Box(-1.0, 1.0, (1,), np.float32),
            "discrete": Discrete(2),
        }
        self.observation_space = spaces[check_choice(observation, tuple(spaces), "observation")]
        self.action_space = kinds[check_choice(actions, tuple(kinds), "actions")]
        self._observation = observation
        self._episode = -1
        self._step: int | None = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins the next episode; with any seed, episode 0."""
        check_options(options, (), "Ledger")
        super().reset(seed=None if seed is None else check_seed(seed))
        self._episode = 0 if seed is not None else (self._episode + 1) % SIZE
        self._step = 0
        return self._observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Takes one step, whose result does not depend on ``action``.

        Raises:
            ResetNeeded: If no episode is under way.
            ValueError: If the action is none.
        """
        if self._step is None:
            raise ResetNeeded("call reset() before step()")
        given = np.asarray(action, np.float64)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            raise ValueError(f"expected an action of {self.action_space}, got {action!r}")
        self._step += 1
        entry = self.environment, self._episode, self._step
        obs = self._observe()
        reward = entry_reward(*entry) * (1 if given.item() > 0 else -1)
        ends = self._step == episode_length(*entry[:2])
        truncated = ends and is_truncated(*entry[:2])
        if ends:
            self._step = None
        return obs, reward, bool(ends and not truncated), bool(truncated), {}

    def get_state(self) -> dict[str, int]:
        """Returns the state between two episodes: the number of the last one."""
        return {"episode": self._episode}

    def set_state(self, state: Mapping[str, int]) -> None:
        """Restores the state that `get_state` returned, with the next `reset`."""
        self._episode = check_index(state["episode"] + 1, SIZE + 1, "episode + 1") - 1
        self._step = None

    def _observe(self) -> NDArray[Any] | dict[str, NDArray[Any]]:
        entry = np.array([self.environment, self._episode, self._step], np.float32)
        if self._observation == "vector":
            return entry
        image = np.tile(entry.astype(np.uint8), (*IMAGE_SHAPE[:2], 1))
        return image if self._observation == "image" else {"image": image, "vector": entry}


# The function that `gymnasium.make` calls for ``mtwrappers/Ledger-v0``.
make_env = Ledger


def make_vec_env(
    num_envs: int = 1,
    *,
    observation: Observation = "vector",
    actions: Actions = "continuous",
    **executor: Any,
) -> MetaVectorEnv:
    """Makes the vector environment of ``mtwrappers/Ledger-v0``.

    Args:
        num_envs: How many environments, numbered from 0; each is a task.
        observation: As of `Ledger`.
        actions: As of `Ledger`.
        **executor: The arguments of `mtwrappers.vector.make.make_executor`.
    """
    n = positive(num_envs, "num_envs")
    make = functools.partial(Ledger, observation=observation, actions=actions)
    makers = [functools.partial(make, i) for i in range(n)]
    return make_executor(makers, n, **executor)
