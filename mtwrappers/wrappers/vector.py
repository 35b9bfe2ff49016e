"""The base class for wrappers of our vector environments."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper
from numpy.typing import NDArray

from mtwrappers.common.types import AnyEnv, Options
from mtwrappers.vector.contract import MetaVectorEnv, StepResult

if TYPE_CHECKING:
    _Base = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _Base = VectorWrapper  # generic in later versions of Gymnasium only

_NEEDED = ("step_async", "step_wait", "call", "set_tasks", "meta_batch_size", "envs_per_task")


def require_single(env: AnyEnv, name: str) -> None:
    """Raises `TypeError` if the environment for the wrapper ``name`` is a vector environment."""
    if isinstance(env, VectorEnv):
        raise TypeError(
            f"{name} is for one environment, got the vector environment {env}: use Vector{name}"
        )


class MetaVectorWrapper(_Base):
    """A `gymnasium.vector.VectorWrapper` that forwards the methods of our vector environments.

    Gymnasium's own do not forward ``call``, ``call_some``, ``get_attr``, ``set_attr``,
    ``set_tasks``, ``step_async``, ``pause``, ``without_autoreset``, ``autoreset_mode``,
    ``meta_batch_size``, ``envs_per_task``, ``stepped`` and ``restarted``; see `MetaVectorEnv`.
    ``map_blocks`` is not forwarded, because its function runs in the workers, where no wrapper sees
    what it does: call it on ``unwrapped``.

    A subclass overrides `reset` and `step_wait`, and `step_async` only if it changes actions. A
    step returns ``infos["final_obs"]`` and ``infos["final_info"]`` only if environments reset
    themselves: not in `without_autoreset`, whatever the mode.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one.

    Raises:
        TypeError: If ``env`` is another environment.

    >>> import functools, gymnasium
    >>> from mtwrappers import MetaIterativeEnvExecutor
    >>> from mtwrappers.wrappers.vector import MetaVectorWrapper
    >>> class HalfReward(MetaVectorWrapper):
    ...     def step_wait(self):
    ...         obs, rewards, terminated, truncated, infos = self.env.step_wait()
    ...         return obs, rewards / 2, terminated, truncated, infos
    >>> maker = functools.partial(gymnasium.make, "CartPole-v1")
    >>> envs = HalfReward(MetaIterativeEnvExecutor(maker, 2))
    >>> _ = envs.reset(seed=0)
    >>> envs.step([0, 1])[1], envs.call("get_wrapper_attr", "length")
    (array([0.5, 0.5]), (0.5, 0.5))
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        name = type(self).__name__
        if isinstance(env, gymnasium.Env):
            hint = f": use {name[6:]}" if name.startswith("Vector") else ""
            raise TypeError(f"{name} is for vector environments, got the environment {env}{hint}")
        missing = [method for method in _NEEDED if not hasattr(env, method)]
        if missing:
            hint = "make it with mtwrappers.as_vector, which takes the same constructors"
            if isinstance(env, VectorWrapper) and isinstance(env.unwrapped, MetaVectorEnv):
                hint = "apply Gymnasium's own vector wrappers outside of those of mtwrappers"
            elif isinstance(getattr(env, "vec_env", None), VectorEnv):  # an adapter
                hint = f"put it inside of the adapter, as in as_sb3_vec_env({name}(envs))"
            raise TypeError(
                f"{name} expected a vector environment of mtwrappers, in its own wrappers or in "
                f"none, got {type(env).__name__}, which has no {', '.join(missing)}: {hint}"
            )
        super().__init__(env)
        self._inner = cast("MetaVectorEnv", env)
        self._executor = cast("MetaVectorEnv", env.unwrapped)

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """The autoreset mode of the vector environment."""
        mode: AutoresetMode = self._inner.metadata["autoreset_mode"]
        return mode

    @property
    def meta_batch_size(self) -> int:
        """``M``, the number of task groups."""
        return self._inner.meta_batch_size

    @property
    def envs_per_task(self) -> int:
        """``K``, the number of environments per task group."""
        return self._inner.envs_per_task

    @property
    def stepped(self) -> NDArray[np.bool_]:
        """A mask of the environments that the last `step` stepped, ``(N,)`` bool."""
        return self._executor.stepped

    @property
    def restarted(self) -> NDArray[np.bool_]:
        """A mask of the environments that the last `step` reset instead, ``(N,)`` bool."""
        return self._executor.restarted

    def pause(self, mask: NDArray[np.bool_]) -> None:
        """Pauses the environments of a mask, ``(N,)`` bool, and resumes all others."""
        self._inner.pause(mask)

    def without_autoreset(self) -> contextlib.AbstractContextManager[None]:
        """A context manager that disables autoreset, as the mode DISABLED does."""
        return self._inner.without_autoreset()

    def step(self, actions: Any) -> StepResult:
        # False for an environment that has the same methods, but is not one of ours.
        pending = getattr(self._executor, "_pending", False)
        try:
            self.step_async(actions)
            return self.step_wait()
        except BaseException:  # do not leave an interrupted step pending
            self._executor._pending = pending
            raise

    def step_async(self, actions: Any) -> None:
        self._inner.step_async(actions)

    def step_wait(self) -> StepResult:
        return self._inner.step_wait()

    def set_tasks(self, tasks: Any) -> None:
        """Sets the task of each task group's environments."""
        self._inner.set_tasks(tasks)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        return self._inner.call(name, *args, **kwargs)

    def call_some(
        self, indices: Sequence[int], name: str | Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Calls only the environments ``indices``."""
        return self._inner.call_some(indices, name, *args, **kwargs)

    def get_attr(self, name: str, *indices: Any) -> tuple[Any, ...]:
        return self._inner.get_attr(name, *indices)

    def set_attr(self, name: str, values: Any) -> None:
        self._inner.set_attr(name, values)

    def _reset_rows(self, options: Options | None) -> NDArray[np.bool_]:
        """A mask of the environments that a reset with these options resets, shape ``(N,)``."""
        mask = (options or {}).get("reset_mask")
        return np.ones(self.num_envs, np.bool_) if mask is None else np.array(mask, np.bool_)

    def _restarted_at_end(self, infos: dict[str, Any]) -> NDArray[np.bool_]:
        """A mask of the environments that SAME_STEP mode has reset in this step, shape ``(N,)``."""
        mask: NDArray[np.bool_] = infos.get("_final_obs", np.zeros(self.num_envs, np.bool_))
        return mask

    def _envs_have(self, name: str) -> bool:
        return all(self._inner.call("has_wrapper_attr", name))
