"""What a policy answers, checked before it reaches an environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.evaluation.plan import executor_of
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.vector.checks import ARRAY_SPACES


class CheckedPolicy:
    """A policy whose actions are checked, with messages that name the environments.

    Args:
        policy: See `mtwrappers.samplers.policies.PolicyCaller`.
        envs: The vector environment that it acts in.

    Raises:
        TypeError: If it is no policy, or the actions are no arrays.
    """

    def __init__(self, policy: Any, envs: Any) -> None:
        inner = executor_of(envs)
        if not isinstance(envs.single_action_space, ARRAY_SPACES):
            raise TypeError(f"actions must be arrays, got {envs.single_action_space}")
        self._call = PolicyCaller(policy, inner.meta_batch_size, inner.envs_per_task)
        self._shape = (envs.num_envs, *(envs.single_action_space.shape or ()))
        self.reset = self._call.reset

    def __call__(
        self, observations: Any, tasks: Sequence[str]
    ) -> tuple[NDArray[Any], dict[str, NDArray[Any]]]:
        """Actions and agent infos.

        Raises:
            ValueError: If the actions have another shape or are NaN.
        """
        actions, agent_infos = self._call(observations)
        if actions.shape != self._shape:
            raise ValueError(
                f"expected actions of shape {self._shape} from the policy, got {actions.shape}"
            )
        if np.issubdtype(actions.dtype, np.floating) and np.isnan(actions).any():
            bad = np.isnan(actions).reshape(len(actions), -1).any(axis=1)
            named = ", ".join(f"{i} ({tasks[i]})" for i in np.flatnonzero(bad).tolist())
            raise ValueError(f"the policy's actions are NaN for environments {named}")
        return actions, agent_infos
