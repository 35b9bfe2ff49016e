"""A base for wrappers of our vector environments that hides nothing of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

if TYPE_CHECKING:
    _Base = VectorWrapper[Any, Any, Any, Any, Any]
else:
    _Base = VectorWrapper  # generic in later versions of Gymnasium only


class MetaVectorWrapper(_Base):
    """A `gymnasium.vector.VectorWrapper` that forwards what Gymnasium's leave behind.

    ``call``, ``get_attr``, ``set_attr``, ``set_tasks``, ``step_async``, ``autoreset_mode`` and the
    sizes reach through it. A subclass overrides `reset` and `step_wait`, and `step` and
    `step_async` only if it changes actions.

    Args:
        env: One of our vector environments, or a wrapper of one.

    >>> import functools, gymnasium
    >>> from mtwrappers import MetaIterativeEnvExecutor
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
        super().__init__(env)
        self._inner: Any = env

    @property
    def autoreset_mode(self) -> AutoresetMode:
        """How episodes begin after others end."""
        mode: AutoresetMode = self._inner.metadata["autoreset_mode"]
        return mode

    @property
    def meta_batch_size(self) -> int:
        """``M``, how many tasks."""
        return int(self._inner.meta_batch_size)

    @property
    def num_tasks(self) -> int:
        """``M``, how many tasks."""
        return int(self._inner.num_tasks)

    @property
    def envs_per_task(self) -> int:
        """``K``, how many environments a task."""
        return int(self._inner.envs_per_task)

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Steps every environment."""
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begins a step."""
        self._inner.step_async(actions)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Ends the step that `step_async` began."""
        result: tuple[Any, Any, Any, Any, dict[str, Any]] = self._inner.step_wait()
        return result

    def set_tasks(self, tasks: Any) -> None:
        """Turns each task's environments to a task."""
        self._inner.set_tasks(tasks)

    def call(self, name: str, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method, or reads an attribute, of each environment."""
        result: tuple[Any, ...] = self._inner.call(name, *args, **kwargs)
        return result

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each environment."""
        result: tuple[Any, ...] = self._inner.get_attr(name)
        return result

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment."""
        self._inner.set_attr(name, values)
