"""The policies that a rollout needs no file for: Meta-World's experts, and random actions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import PCG64, Generator, SeedSequence
from numpy.typing import NDArray

from mtwrappers.evaluation import Observer, PlannedEpisode
from mtwrappers.metaworld.experts import expert_actions
from mtwrappers.vector.contract import MetaVectorEnv


class ScriptedPolicy(Observer):
    """A Meta-World expert, or random actions, for each environment, chosen anew per episode.

    So its actions depend neither on the number of workers nor on who shares the batch.
    """

    def __init__(self, experts: bool, envs: MetaVectorEnv, seed: int) -> None:
        self._experts, self._envs, self._seed = experts, envs, seed
        self._class_index = {task: i for i, task in enumerate(envs.get_attr("task_names")[0])}
        # Of the environments that have begun an episode.
        self._tasks: dict[int, str] = {}
        self._goals: dict[int, NDArray[np.float64]] = {}
        self._rngs: dict[int, Generator] = {}

    def begin(self, i: int, episode: PlannedEpisode) -> None:
        """Chooses what acts in environment ``i``."""
        if self._experts:
            self._tasks[i], [self._goals[i]] = episode.task, self._envs.call_some([i], "goal")
        else:
            key = (self._class_index[episode.task], episode.number)
            self._rngs[i] = Generator(PCG64(SeedSequence(self._seed, spawn_key=key)))

    def __call__(self, observations: NDArray[Any]) -> NDArray[np.float32]:
        """Actions ``(N, 4)`` for observations ``(N, O)``."""
        actions = np.zeros((len(observations), 4), np.float32)
        if self._experts:
            rows, goals = list(self._tasks), np.stack(list(self._goals.values()))
            actions[rows] = expert_actions(list(self._tasks.values()), observations[rows], goals)
        for i, rng in self._rngs.items():
            actions[i] = rng.uniform(-1.0, 1.0, 4)
        return actions
