"""Our vector environments as Tianshou's `BaseVectorEnv`."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers.adapters import check_vec_env, combine_classes
from mtwrappers.adapters.infos import split_infos
from mtwrappers.common import seeding
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnyArray


def as_tianshou_env(vec_env: VectorEnv[Any, Any, Any]) -> Any:
    """Makes a Tianshou ``BaseVectorEnv`` of one of our vector environments.

    All environments step in one call; those that a collector leaves out are paused.

    Args:
        vec_env: A `MetaVectorEnv` or one in `MetaVectorWrapper`s, such as `gymnasium.make_vec`
            returns for our ids, with ``autoreset_mode="Disabled"``.

    Raises:
        DependencyNotInstalled: If Tianshou is not installed.
        TypeError: If it is not such a vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another autoreset mode: collectors reset themselves. Or if
            observations have a Text.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, autoreset_mode="Disabled")
    >>> env = mtwrappers.as_tianshou_env(envs)
    >>> len(env)
    4
    """
    check_vec_env(vec_env, "Tianshou", AutoresetMode.DISABLED)
    base = import_extra("tianshou.env", "tianshou").BaseVectorEnv
    return combine_classes(base, ExecutorVectorEnv)(vec_env)


class ExecutorVectorEnv:
    """The mixin that makes a Tianshou ``BaseVectorEnv``; see `as_tianshou_env`.

    Tianshou's own constructor makes workers, and is not called.
    """

    is_async = is_closed = False

    def __init__(self, vec_env: Any) -> None:
        self.vec_env, self.env_num = vec_env, vec_env.num_envs
        self._seeds: dict[int, int] = {}

    def seed(self, seed: int | list[int] | None = None) -> list[int]:
        first = seed[0] if isinstance(seed, list) else seeding.chosen_seed(seed)
        seeds = seed if isinstance(seed, list) else [first + i for i in range(self.env_num)]
        self._seeds = dict(enumerate(seeds))
        self.vec_env.single_action_space.seed(first)
        return seeds

    def reset(self, env_id: Any = None, **kwargs: Any) -> tuple[Any, AnyArray]:
        ids, mask = self._choose_rows(env_id)
        seeds = [self._seeds.pop(i, None) if mask[i] else None for i in range(self.env_num)]
        seed = seeds if kwargs.get("seed") is None else kwargs["seed"]
        options = {**(kwargs.get("options") or {}), "reset_mask": mask}
        return self._convert_rows(ids, *self.vec_env.reset(seed=seed, options=options))

    def step(self, action: Any, id: Any = None) -> tuple[Any, ...]:
        ids, mask = self._choose_rows(id)
        actions = np.repeat(np.asarray(action)[:1], self.env_num, axis=0)
        actions[ids] = action
        self.vec_env.unwrapped.pause(~mask)
        obs, *columns, infos = self.vec_env.step(actions)
        obs, env_infos = self._convert_rows(ids, obs, infos)
        for i, info in zip(ids, env_infos, strict=True):
            info["env_id"] = i
        return obs, *(column[ids] for column in columns), env_infos

    def get_env_attr(self, key: str, id: Any = None) -> list[Any]:
        ids = self._choose_rows(id)[0]
        if key in ("action_space", "observation_space"):  # a vector wrapper may change them
            return [getattr(self.vec_env, f"single_{key}")] * len(ids)
        return list(self.vec_env.unwrapped.call_some(ids, "get_wrapper_attr", key))

    def set_env_attr(self, key: str, value: Any, id: Any = None) -> None:
        self.vec_env.unwrapped.call_some(self._choose_rows(id)[0], "set_wrapper_attr", key, value)

    def render(self, **kwargs: Any) -> list[Any]:
        return list(self.vec_env.render(**kwargs))

    def close(self) -> None:
        self.vec_env.close()
        self.is_closed = True

    def _choose_rows(self, env_id: Any) -> tuple[list[int], NDArray[np.bool_]]:
        ids = np.arange(self.env_num) if env_id is None else np.atleast_1d(env_id)
        return ids.tolist(), np.isin(np.arange(self.env_num), ids)

    def _convert_rows(self, ids: list[int], obs: Any, infos: dict[str, Any]) -> tuple[Any, Any]:
        """Converts observations and infos to Tianshou's form: one dict per environment."""
        if isinstance(obs, dict):
            obs = np.array(list(iterate(self.vec_env.observation_space, obs)), dtype=object)
        return obs[ids], np.array(split_infos(infos, self.env_num), dtype=object)[ids]
