"""Whole paths of some environments, collected here or where the environments are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.samplers.recorder import Recorder
from mtwrappers.samplers.rollout import Step, rollout


@dataclass(frozen=True)
class Collection:
    """The collection of paths of all environments, of which a block does its own part.

    Args:
        policy: Asked for actions; `pickled` where it goes to workers.
        meta_batch_size: ``M``.
        envs_per_task: ``K``.
        quotas: How many paths each environment gives, ``(N,)``.
        obs: The observations of the reset before, ``(N, O)``, nested or not.
        seed: Of the policy's generators.
        observe: Called with each step.
    """

    policy: Any
    meta_batch_size: int
    envs_per_task: int
    quotas: NDArray[np.int64]
    obs: Any
    seed: tuple[int, ...]
    observe: Sequence[Callable[[Step], object]] = ()

    def __call__(self, envs: Any, rows: slice) -> tuple[list[list[Path]], tuple[float, float]]:
        """The paths of each environment of ``envs``, and the seconds in policy and environments.

        Args:
            envs: A vector environment.
            rows: Which of all environments these are.
        """
        sizes = self.meta_batch_size, self.envs_per_task
        caller = PolicyCaller(self.policy, *sizes, rows, self.seed)
        recorder = Recorder()
        obs = map_arrays(lambda array: array[rows], self.obs)
        seconds = rollout(envs, caller, self.quotas[rows], obs, observe=(recorder, *self.observe))
        return recorder.paths(), seconds
