"""Our vector environments as Stable-Baselines3's `VecEnv`."""

from __future__ import annotations

import functools
import re
import time
import warnings
from collections.abc import Iterable, Sequence
from copy import deepcopy
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers._extras import import_extra
from mtwrappers.adapters.infos import split_infos
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.wrappers.vector import MetaVectorWrapper

Indices: TypeAlias = int | Iterable[int] | None
_FINAL = ("final_obs", "_final_obs", "final_info", "_final_info")


def as_sb3_vec_env(vec_env: MetaVectorEnv | MetaVectorWrapper) -> Any:
    """Makes a Stable-Baselines3 `VecEnv` of one of our vector environments.

    It returns what SB3's ``DummyVecEnv`` and ``SubprocVecEnv`` return over the same constructors:
    rewards ``(N,)`` float32, ``dones``, ``(N,)`` bool, an info dict an environment, with
    ``TimeLimit.truncated``, and ``terminal_observation`` where an episode has ended;
    ``reset_infos`` holds what the last resets reported. Where an episode has ended the info also
    has

    - ``episode``: that of `gymnasium.wrappers.RecordEpisodeStatistics` where an environment has
      it, and else ``{"r": return, "l": length, "t": seconds since the adapter was made}``, as SB3's
      ``Monitor`` gives it, of the rewards that the adapter sees. SB3 logs their means.
    - ``is_success``, bool: where the environment reports ``success``, whether the last step of the
      episode did. SB3 logs ``success_rate`` from it.

    An episode that was lost with its worker (``info["worker_restarted"]``) has neither.

    `step_async` returns at once and the workers step meanwhile. SB3's ``VecMonitor``,
    ``VecNormalize`` and ``VecFrameStack`` go on top. Closing it closes ``vec_env``, which is its
    attribute of that name.

    Args:
        vec_env: A `MetaVectorEnv`, such as `gymnasium.make_vec` returns for our ids, or one in
            `MetaVectorWrapper`s, with ``autoreset_mode="SameStep"``.

    Raises:
        DependencyNotInstalled: If Stable-Baselines3 is not installed.
        TypeError: If it is no such vector environment.
        ValueError: If it is in another autoreset mode: SB3 wants the first observation of the next
            episode in the step that ends one.
    """
    vec_env_module = import_extra("stable_baselines3.common.vec_env", "sb3")
    layer: Any = vec_env
    while isinstance(layer, MetaVectorWrapper):
        layer = layer.env
    if not isinstance(layer, MetaVectorEnv):
        raise TypeError(
            "expected a MetaVectorEnv, or one in MetaVectorWrappers, got "
            f"{type(layer).__name__}{'' if layer is vec_env else ' in MetaVectorWrappers'}"
        )
    if vec_env.autoreset_mode is not AutoresetMode.SAME_STEP:
        raise ValueError(
            "Stable-Baselines3 needs autoreset_mode='SameStep', in which the step that ends an "
            f"episode begins the next; got {vec_env.autoreset_mode.value!r}"
        )
    return _vec_env_class(vec_env_module.VecEnv)(vec_env, layer)


@functools.cache
def _vec_env_class(base: type) -> type:
    """The adapter's class: SB3 recognises subclasses of its own, and is imported on use."""
    own = {"__doc__": _ExecutorVecEnv.__doc__, "__module__": __name__}
    return type("ExecutorVecEnv", (_ExecutorVecEnv, base), own)


class _ExecutorVecEnv:
    """A Stable-Baselines3 `VecEnv`, once it is mixed with it; see `as_sb3_vec_env`."""

    num_envs: int
    render_mode: str | None
    reset_infos: list[dict[str, Any]]
    _seeds: list[int | None]
    _options: list[dict[str, Any]]

    def __init__(self, vec_env: Any, executor: MetaVectorEnv) -> None:
        self.vec_env = vec_env
        self._executor = executor
        super().__init__(  # type: ignore[call-arg] # SB3's VecEnv is the next base
            vec_env.num_envs, vec_env.single_observation_space, vec_env.single_action_space
        )
        self._made = time.time()
        self._returns = np.zeros(self.num_envs)
        self._lengths = np.zeros(self.num_envs, dtype=np.int64)

    # Episodes.

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seeds environment ``i`` with ``seed + i`` at the next `reset`; ``None`` draws a seed."""
        first = seeding.fresh_seed() if seed is None else seeding.check_seed(seed)
        self._seeds = [first + i for i in range(self.num_envs)]
        return self._seeds

    def set_options(self, options: Sequence[dict[str, Any]] | dict[str, Any] | None = None) -> None:
        """Options for the next `reset`.

        Raises:
            ValueError: If they are not the same for every environment, or name only some to reset.
        """
        each = [options or {}] * self.num_envs if not isinstance(options, Sequence) else [*options]
        if len(each) != self.num_envs:
            raise ValueError(
                f"expected {self.num_envs} options, one an environment, got {len(each)}"
            )
        for i, own in enumerate(each):
            if not data_equivalence(own, each[0]):
                raise ValueError(
                    f"options must be the same for every environment; those of environment {i} "
                    f"are {own!r}, those of environment 0 {each[0]!r}"
                )
        if "reset_mask" in each[0]:
            raise ValueError("a VecEnv resets all environments at once; options had 'reset_mask'")
        self._options = deepcopy(each)

    def reset(self) -> Any:
        """Resets every environment; seeds and options are used once."""
        obs, infos = self.vec_env.reset(seed=self._seeds, options=self._options[0] or None)
        self.reset_infos = split_infos(infos, self.num_envs)
        self._seeds = [None] * self.num_envs
        self._options = [{} for _ in range(self.num_envs)]
        self._returns[:] = self._lengths[:] = 0
        return obs

    def step_async(self, actions: NDArray[Any]) -> None:
        """Begins a step, so that other work can be done meanwhile."""
        self.vec_env.step_async(actions)

    def step_wait(
        self,
    ) -> tuple[Any, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Ends the step that `step_async` began."""
        obs, rewards, terminated, truncated, infos = self.vec_env.step_wait()
        dones = terminated | truncated
        self._returns += rewards
        self._lengths += 1
        if dones.any():
            each = self._split_ends(infos, dones, terminated)
        else:
            each = split_infos(infos, self.num_envs)
            for info in each:
                info["TimeLimit.truncated"] = False
        return obs, rewards.astype(np.float32), dones, each

    def _split_ends(
        self, infos: dict[str, Any], dones: NDArray[np.bool_], terminated: NDArray[np.bool_]
    ) -> list[dict[str, Any]]:
        """An info for each environment where some episodes have ended."""
        n = self.num_envs
        # Where an episode has ended, this is what the reset after it reported.
        each = split_infos({key: infos[key] for key in infos if key not in _FINAL}, n)
        finals = split_infos(infos["final_info"], n)
        for i in np.flatnonzero(dones).tolist():
            self.reset_infos[i], each[i] = each[i], finals[i]
            each[i]["terminal_observation"] = infos["final_obs"][i]
            if not each[i].get("worker_restarted", False):
                self._add_statistics(each[i], i)
        for info, cut in zip(each, (dones & ~terminated).tolist(), strict=True):
            info["TimeLimit.truncated"] = cut
        self._returns[dones] = self._lengths[dones] = 0
        return each

    def _add_statistics(self, info: dict[str, Any], i: int) -> None:
        if "episode" not in info:
            info["episode"] = {
                "r": round(float(self._returns[i]), 6),
                "l": int(self._lengths[i]),
                "t": round(time.time() - self._made, 6),
            }
        if "success" in info and "is_success" not in info:
            info["is_success"] = bool(info["success"])

    def close(self) -> None:
        """Closes the vector environment."""
        self.vec_env.close()

    # Attributes and methods of the environments.

    def has_attr(self, attr_name: str) -> bool:
        """Whether every environment has an attribute; a method is not called."""
        return all(self.vec_env.call("has_wrapper_attr", attr_name))

    def get_attr(self, attr_name: str, indices: Indices = None) -> list[Any]:
        """An attribute of environments, looked up through their wrappers."""
        values = self.vec_env.call("get_wrapper_attr", attr_name)
        return [values[i] for i in self._numbers(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: Indices = None) -> None:
        """Sets an attribute where an environment's wrappers have it, else on the outermost.

        With ``indices`` the other environments get the value again that they have.
        """
        chosen = set(self._numbers(indices))
        if len(chosen) == self.num_envs:
            values = [value] * self.num_envs
        else:
            values = self.get_attr(attr_name)
            values = [value if i in chosen else old for i, old in enumerate(values)]
        self.vec_env.set_attr(attr_name, values)

    def env_method(
        self, method_name: str, *method_args: Any, indices: Indices = None, **method_kwargs: Any
    ) -> list[Any]:
        """Calls a method of environments, looked up through their wrappers."""
        numbers = self._numbers(indices)
        return self._executor.call_some(numbers, method_name, *method_args, **method_kwargs)

    def env_is_wrapped(
        self, wrapper_class: type[gymnasium.Wrapper[Any, Any, Any, Any]], indices: Indices = None
    ) -> list[bool]:
        """Whether environments have a wrapper, which is told by the name of its class."""
        # Environments of other processes cannot come here, but they say how they are wrapped.
        said = self.vec_env.call("__str__")
        names = [re.findall(r"<(\w+)", said[i]) for i in self._numbers(indices)]
        return [wrapper_class.__name__ in own for own in names]

    def get_images(self) -> list[Any]:
        """A frame, ``(height, width, 3)`` uint8, of each environment."""
        if self.render_mode != "rgb_array":
            warnings.warn(
                f"images need render_mode='rgb_array', got {self.render_mode!r}", stacklevel=2
            )
            return [None] * self.num_envs
        return list(self.vec_env.render())

    def _numbers(self, indices: Indices) -> list[int]:
        """The environments that SB3's ``indices`` mean.

        Raises:
            IndexError: If there is no such environment.
        """
        n = self.num_envs
        if indices is None:
            return list(range(n))
        given = [indices] if isinstance(indices, (int, np.integer)) else [*indices]
        for i in given:
            if not -n <= i < n:
                raise IndexError(f"indices must be in [{-n}, {n - 1}], got {i}")
        return [i % n for i in given]
