"""The policies of ``mtwrappers rollout`` that are built in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.evaluation import Observer, PlannedEpisode
from mtwrappers.metaworld.experts import expert
from mtwrappers.vector.contract import MetaVectorEnv

POLICIES = ("expert", "random")


class ScriptedPolicy(Observer):
    """A Meta-World expert, or random actions, for each environment, chosen anew per episode.

    So its actions depend neither on the number of workers nor on the rest of the batch.
    """

    def __init__(self, experts: bool, envs: MetaVectorEnv, seed: int) -> None:
        self.policy_id = "expert" if experts else "random"
        self._experts, self._envs, self._seed = experts, envs, seed
        self._class_index = {task: i for i, task in enumerate(envs.get_attr("task_names")[0])}
        self._act: list[Callable[[NDArray[Any]], NDArray[np.float32]]] = [
            lambda obs: np.zeros(4, np.float32)
        ] * envs.num_envs

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Chooses the policy of environment ``i``."""
        if self._experts:
            act, [goal] = expert(episode.task), self._envs.call_some([i], "goal")
            self._act[i] = lambda obs: act(obs, goal)
        else:
            key = (self._class_index[episode.task], episode.number)
            rng = Generator(PCG64(SeedSequence(self._seed, spawn_key=key)))
            self._act[i] = lambda obs: rng.uniform(-1.0, 1.0, 4).astype(np.float32)

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Returns actions ``(N, 4)`` for observations ``(N, O)``."""
        return np.stack([act(obs) for act, obs in zip(self._act, observations, strict=True)])
