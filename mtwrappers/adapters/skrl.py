"""Our vector environments as skrl's environments."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.adapters import check_vec_env, combine_classes
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnySpace


def as_skrl_env(vec_env: VectorEnv[Any, Any, Any]) -> Any:
    """Wraps one of our vector environments for skrl's agents and trainers on PyTorch.

    skrl's ``wrap_env`` ignores autoreset modes, and stores wrong transitions in each of them. Here
    the next observation of an episode's last step is the episode's own, and the trainer resets the
    environments whose episode has ended. It does so only if there is a single environment, so
    pass it ``env.for_trainer()``, which counts as one; models and memories are made with ``env``
    itself. A ``StepTrainer`` also needs ``trainer.scopes = [(0, env.num_envs)]``. Trainers of
    several agents at once refuse this environment.

    Set ``time_limit_bootstrap=True`` in the configuration of on-policy agents: by default their
    advantages go on from a truncated episode into the next one.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode="Disabled"``.

    Raises:
        DependencyNotInstalled: If skrl is not installed.
        TypeError: If it is not such a vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another autoreset mode, or observations have a Text.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, autoreset_mode="Disabled")
    >>> env = mtwrappers.as_skrl_env(envs)
    >>> env.num_envs, env.for_trainer().num_envs
    (4, 1)
    """
    check_vec_env(vec_env, "skrl", AutoresetMode.DISABLED)
    wrappers = import_extra("skrl.envs.wrappers.torch.gymnasium_envs", "skrl")
    return combine_classes(wrappers.GymnasiumWrapper, ExecutorEnv)(vec_env)


class ExecutorEnv:
    """The mixin that makes skrl's ``GymnasiumWrapper``; see `as_skrl_env`."""

    _env: Any
    _seed: Any
    device: Any
    observation_space: AnySpace

    def __init__(self, vec_env: Any) -> None:
        super().__init__(vec_env)  # type: ignore[call-arg] # skrl's class is the next base
        self._finished: Any = None

    def for_trainer(self) -> _ForTrainer:
        """This environment for a trainer, which resets it where episodes have ended."""
        return _ForTrainer(self)

    def step(self, actions: Any) -> Any:
        if self._finished is not None and self._finished.any():
            raise ResetNeeded(
                f"the episodes of environments {np.flatnonzero(self._finished).tolist()} have "
                "ended, and skrl's trainer has not reset them: give it env=env.for_trainer()"
            )
        result = super().step(actions)  # type: ignore[misc]
        self._finished = (result[2] | result[3]).flatten().cpu().numpy()
        return result

    def reset(self) -> Any:
        """Resets all environments at first, then those whose episodes have ended."""
        if self._finished is None or not self._finished.any():
            return super().reset()  # type: ignore[misc]
        seed, self._seed = self._seed, None
        obs, self._info = self._env.reset(seed=seed, options={"reset_mask": self._finished})
        self._finished = None
        self._observation = self._tensors(obs)
        return self._observation, self._info

    def _tensors(self, obs: Any) -> Any:
        spaces = import_extra("skrl.utils.spaces.torch", "skrl")
        return spaces.flatten_tensorized_space(
            spaces.tensorize_space(self.observation_space, obs, device=self.device)
        )


class _ForTrainer:
    """An environment that counts as one, for skrl's trainers only.

    At the end of an episode they call `reset` unless ``num_envs > 1``. Between storing a step and
    choosing the next action they ask nothing else of an environment, so it cannot reset by itself
    without changing the last observation that is stored.
    """

    num_envs = 1

    def __init__(self, env: Any) -> None:
        self._env = env

    def __getattr__(self, name: str) -> Any:
        return getattr(self._env, name)
