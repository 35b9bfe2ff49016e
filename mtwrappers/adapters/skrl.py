"""Our vector environments as skrl's environments."""

from __future__ import annotations

import functools
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.adapters import check_vec_env
from mtwrappers.common.extras import import_extra


def as_skrl_env(vec_env: VectorEnv[Any, Any, Any]) -> Any:
    """Wraps one of our vector environments for skrl's agents and trainers on PyTorch.

    skrl's ``wrap_env`` reads no autoreset mode: what it stores is wrong in each. Here the next
    observation of an episode's last step is the episode's own, and the trainer resets what is over.
    The trainers of several agents at once refuse this environment.

    Set ``time_limit_bootstrap=True`` in the configuration of on-policy agents: by default their
    advantages go on from a truncated episode into the next one.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode="Disabled"``.

    Raises:
        DependencyNotInstalled: If skrl is not installed.
        TypeError: If it is no such vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another autoreset mode.
    """
    check_vec_env(vec_env, "skrl", AutoresetMode.DISABLED)
    wrappers = import_extra("skrl.envs.wrappers.torch.gymnasium_envs", "skrl")
    return _env_class(wrappers.GymnasiumWrapper)(vec_env)


@functools.cache
def _env_class(base: Any) -> type:
    """The adapter's class: skrl is imported on use."""

    class ExecutorEnv(base):  # type: ignore[misc] # a class of skrl's
        """skrl's ``GymnasiumWrapper``, which resets the environments whose episodes are over."""

        _seed: Any

        def __init__(self, vec_env: Any) -> None:
            super().__init__(vec_env)
            self._over: Any = None

        @property
        def num_envs(self) -> int:
            return _Count(self._env.num_envs)

        def step(self, actions: Any) -> Any:
            result = super().step(actions)
            self._over = (result[2] | result[3]).flatten().cpu().numpy()
            return result

        def reset(self) -> Any:
            """Resets all environments at first, and then those whose episodes are over."""
            if self._over is None or not self._over.any():
                return super().reset()
            seed, self._seed = self._seed, None
            obs, self._info = self._env.reset(seed=seed, options={"reset_mask": self._over})
            self._over = None
            self._observation = self._tensors(obs)
            return self._observation, self._info

        def _tensors(self, obs: Any) -> Any:
            spaces = import_extra("skrl.utils.spaces.torch", "skrl")
            return spaces.flatten_tensorized_space(
                spaces.tensorize_space(self.observation_space, obs, device=self.device)
            )

    return ExecutorEnv


class _Count(int):
    """A number of environments that is not above 1.

    skrl's trainers go on from the stored next observation if there is more than one environment;
    of one they call `reset` at the end of an episode, which is what is due here.
    """

    __slots__ = ()

    def __gt__(self, other: Any) -> bool:
        return other != 1 and int.__gt__(self, other)
