"""Our vector environments as Stable-Baselines3's `VecEnv`."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Iterable
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array
from gymnasium.wrappers import RecordEpisodeStatistics
from numpy.typing import NDArray

from mtwrappers.adapters import check_vec_env, combine_classes
from mtwrappers.adapters.infos import split_infos
from mtwrappers.common import seeding
from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.extras import import_extra
from mtwrappers.common.types import AnySpace, AnyWrapper
from mtwrappers.vector.calls import find_similar_attributes, warn_of_new_attribute

Indices: TypeAlias = int | Iterable[int] | None
Step: TypeAlias = tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]
_FINAL = ("final_obs", "_final_obs", "final_info", "_final_info")


@explains_arguments(hints={"n_envs": "vec_env has its number, num_envs of gymnasium.make_vec"})
def as_sb3_vec_env(vec_env: VectorEnv[Any, Any, Any]) -> Any:
    """Makes a Stable-Baselines3 `VecEnv` of one of our vector environments.

    It returns what SB3's ``DummyVecEnv`` and ``SubprocVecEnv`` return over the same constructors:
    rewards ``(N,)`` float32, ``dones`` ``(N,)`` bool, one info dict per environment. Where an
    episode has ended, its info also has

    - ``episode``: ``{"r": return, "l": length, "t": seconds since the adapter was made}`` of the
      rewards that the adapter sees, unless the environment is in SB3's ``Monitor`` or in
      `gymnasium.wrappers.RecordEpisodeStatistics`, which report ``episode`` themselves where the
      episodes that they see end. SB3 logs the means.
    - ``is_success``, bool, and ``success_once``, bool, if environments report ``success``: whether
      the last step of the episode did, and whether any step did, as Meta-World counts. A step that
      does not report ``success`` is none. SB3 logs ``success_rate`` from ``is_success``.

    `step_async` returns at once and the workers step meanwhile. SB3's ``VecMonitor``,
    ``VecNormalize`` and ``VecFrameStack`` go on top. Closing it closes ``vec_env``, which is its
    attribute of that name.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode="SameStep"``.

    Raises:
        DependencyNotInstalled: If Stable-Baselines3 is not installed.
        TypeError: If it is not such a vector environment.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another autoreset mode: SB3 wants the first observation of the next
            episode in the step that ends one. Or if observations are a Dict in a Dict,
            or have a Text.

    >>> import gymnasium, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4)
    >>> env = mtwrappers.as_sb3_vec_env(envs)
    >>> env.reset().shape
    (4, 2)
    """
    check_vec_env(vec_env, "Stable-Baselines3", AutoresetMode.SAME_STEP)
    _refuse_nested(vec_env.single_observation_space)
    vec_env_module = import_extra("stable_baselines3.common.vec_env", "sb3")
    return combine_classes(vec_env_module.VecEnv, ExecutorVecEnv)(vec_env)


def _refuse_nested(space: AnySpace) -> None:
    spaces = dict(space.items()) if isinstance(space, Dict) else {}
    for key, subspace in spaces.items():
        if isinstance(subspace, Dict):
            raise ValueError(
                f"Stable-Baselines3 takes no Dict in a Dict, got one as {key!r}. Observe one "
                "camera, or several with observation='pixels', task_encoding='none' and no depth: "
                "these are one Dict"
            )


class ExecutorVecEnv:
    """The mixin that makes a Stable-Baselines3 `VecEnv`; see `as_sb3_vec_env`."""

    num_envs: int
    action_space: AnySpace
    render_mode: str | None
    reset_infos: list[dict[str, Any]]
    _seeds: list[int | None]
    _options: list[dict[str, Any]]

    def __init__(self, vec_env: Any) -> None:
        self.vec_env = vec_env
        super().__init__(  # type: ignore[call-arg] # SB3's VecEnv is the next base
            vec_env.num_envs, vec_env.single_observation_space, vec_env.single_action_space
        )
        self._nested_actions = isinstance(self.action_space, (Dict, Tuple))
        self._counts = self._call(_counts_episodes, None)
        self._start_time = time.time()
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)
        self._succeeded = np.zeros(self.num_envs, dtype=np.bool_)  # in the current episode
        self._reports_success = False  # whether an environment has reported any

    # Episodes.

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds environment ``i`` with ``seed + i`` at the next `reset`; ``None`` draws a seed."""
        first = seeding.chosen_seed(seed)
        self._seeds = [first + i for i in range(self.num_envs)]
        return self._seeds

    def reset(self) -> Any:
        n = self.num_envs
        if len(self._options) != n:
            raise ValueError(f"set_options must be given a dict or {n} dicts, got {self._options}")
        options = {"env_options": self._options} if any(self._options) else None
        obs, infos = self.vec_env.reset(seed=self._seeds, options=options)
        self.reset_infos = split_infos(infos, n)
        self._seeds = [None] * n
        self._options = [{} for _ in range(n)]
        self._returns[:] = self._lengths[:] = 0
        self._succeeded[:] = False
        return obs

    def step(self, actions: Any) -> Step:
        # In one call, so that Ctrl-C leaves no pending step.
        return self._convert_step(*self.vec_env.step(self._batch(actions)))

    def step_async(self, actions: Any) -> None:
        self.vec_env.step_async(self._batch(actions))

    def step_wait(self) -> Step:
        return self._convert_step(*self.vec_env.step_wait())

    def _batch(self, actions: Any) -> Any:
        if not self._nested_actions:
            return actions
        # SB3 passes one action per environment, Gymnasium a nested batch.
        batch: Any = create_empty_array(self.action_space, self.num_envs)
        return concatenate(self.action_space, actions, batch)

    def _convert_step(
        self, obs: Any, rewards: Any, terminated: Any, truncated: Any, infos: dict[str, Any]
    ) -> Step:
        """Returns the step in SB3's form."""
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += self.vec_env.unwrapped.stepped
        self._note_success(infos, ~dones)
        if "final_info" in infos:
            self._note_success(infos["final_info"], dones)
        if dones.any():
            env_infos = self._split_ends(infos, dones)
        else:
            env_infos = split_infos(infos, self.num_envs)
        for info, cut in zip(env_infos, (dones & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = cut
        return obs, rewards.astype(np.float32), dones, env_infos

    def _split_ends(self, infos: dict[str, Any], dones: NDArray[np.bool_]) -> list[dict[str, Any]]:
        """Returns one info per environment when some episodes have ended."""
        n = self.num_envs
        # Where an episode has ended, these are the infos of the reset after it.
        env_infos = split_infos({key: infos[key] for key in infos if key not in _FINAL}, n)
        finals = split_infos(infos["final_info"], n)
        for i in np.flatnonzero(dones).tolist():
            final = finals[i]
            self.reset_infos[i], env_infos[i] = env_infos[i], final
            final["terminal_observation"] = infos["final_obs"][i]
            if "episode" not in final and not self._counts[i]:
                final["episode"] = {
                    "r": round(float(self._returns[i]), 6),
                    "l": int(self._lengths[i]),
                    "t": round(time.time() - self._start_time, 6),
                }
            if self._reports_success:
                final.setdefault("is_success", bool(final.get("success")))
                final.setdefault("success_once", bool(self._succeeded[i]))
        self._returns[dones] = self._lengths[dones] = 0
        self._succeeded[dones] = False
        return env_infos

    def _note_success(self, infos: dict[str, Any], rows: NDArray[np.bool_]) -> None:
        """Notes which of some environments report success."""
        values, mask = infos.get("success"), infos.get("_success")
        if mask is not None and isinstance(values, np.ndarray) and values.ndim == 1:
            reported = rows & mask & self.vec_env.unwrapped.stepped
            self._reports_success |= bool(reported.any())
            self._succeeded |= reported & values.astype(np.bool_)

    def close(self) -> None:
        self.vec_env.close()

    # Attributes and methods of the environments, found through their wrappers.

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        return self._call("get_wrapper_attr", indices, attr_name)

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        warn_of_new_attribute(attr_name, self._call(find_similar_attributes, indices, attr_name))
        self._call("set_wrapper_attr", indices, attr_name, value)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of environments."""
        return self._call(method_name, indices, *method_args, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[AnyWrapper], indices: Indices = None
    ) -> list[bool]:
        """Returns whether environments have a wrapper of a class."""
        return self._call(_is_wrapped, indices, wrapper_class)

    def get_images(self) -> list[Any]:
        """Returns a frame, ``(height, width, 3)`` uint8, of each environment."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"images need render_mode='rgb_array', got {self.render_mode!r}", stacklevel=2
            )
            return [None] * self.num_envs
        return list(self.vec_env.render())

    def _call(self, name: Any, indices: Any, /, *args: Any, **kwargs: Any) -> list[Any]:
        n = self.num_envs
        if indices is None:
            indices = range(n)
        rows = []
        for i in indices if isinstance(indices, Iterable) else [indices]:
            if i not in range(-n, n):
                raise IndexError(f"indices must be in [{-n}, {n - 1}], got {i!r}")
            rows.append(range(n)[i])
        results: list[Any] = self.vec_env.unwrapped.call_some(rows, name, *args, **kwargs)
        return results


def _is_wrapped(env: Any, wrapper_class: type) -> bool:
    while not isinstance(env, wrapper_class) and isinstance(env, gymnasium.Wrapper):
        env = env.env
    return isinstance(env, wrapper_class)


def _counts_episodes(env: Any) -> bool:
    """Whether a wrapper reports ``info["episode"]``."""
    # Without an imported Monitor module, as in a worker, no environment can be in a Monitor.
    monitor = getattr(sys.modules.get("stable_baselines3.common.monitor"), "Monitor", ())
    while isinstance(env, gymnasium.Wrapper):
        if isinstance(env, monitor):
            return True
        if isinstance(env, RecordEpisodeStatistics) and env._stats_key == "episode":
            return True
        env = env.env
    return False


# These only read the environments, so a journal needs no entry for them.
_is_wrapped.read_only = True  # type: ignore[attr-defined]
_counts_episodes.read_only = True  # type: ignore[attr-defined]
