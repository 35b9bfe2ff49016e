"""The contract of the vector environments, and all that does not depend on where they run."""

from __future__ import annotations

import abc
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ClosedEnvironmentError, ResetNeeded
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.vector.checks import (
    ActionCheck,
    check_autoreset_mode,
    check_mask,
    check_same_spaces,
    spread_seeds,
)
from mtwrappers.vector.rllib import check_rllib

EachCall = list[tuple[tuple[Any, ...], dict[str, Any]] | None]
# The methods by which environments are turned to a task, the first that they have.
TASK_SETTERS = ("set_task", "set_task_state")
StepResult = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class MetaVectorEnv(VectorEnv[Any, Any, Any]):
    """``M`` tasks times ``K`` environments, side by side: environment ``task * K + k``.

    It is a `gymnasium.vector.VectorEnv`. For the same constructors and seed it returns exactly
    what `gymnasium.vector.SyncVectorEnv` returns, in all three autoreset modes: observations,
    rewards, flags and infos. Every array and dict that is returned is new. ``call``, ``get_attr``
    and ``set_attr`` are Gymnasium's; `set_tasks` turns each task's environments to a task.

    A subclass makes its environments and implements the methods at the end.

    Args:
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments a task.
        autoreset_mode: How an episode begins after another ends; see
            `gymnasium.vector.AutoresetMode`.

    Raises:
        ValueError: If a size is not positive, the mode is none of Gymnasium's, or RLlib makes it
            and would misread it.
    """

    autoreset_mode: AutoresetMode

    def __init__(
        self, meta_batch_size: int, envs_per_task: int, autoreset_mode: str | AutoresetMode
    ) -> None:
        self.closed = True  # until it is built
        self._pid = os.getpid()
        self.meta_batch_size = positive(meta_batch_size, "meta_batch_size")
        self.envs_per_task = positive(envs_per_task, "envs_per_task")
        self.num_envs = self.meta_batch_size * self.envs_per_task
        self.autoreset_mode = check_autoreset_mode(autoreset_mode)
        check_rllib(self.num_envs, self.autoreset_mode)
        self._over = np.zeros(self.num_envs, dtype=np.bool_)
        self._was_reset = False
        self._stepping = False

    def _declare(
        self,
        spaces: Sequence[tuple[Space[Any], Space[Any]]],
        metadata: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        """Takes the spaces (observation, action) that each environment has."""
        self.single_observation_space, self.single_action_space = spaces[0]
        check_same_spaces(spaces)
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self._check_actions = ActionCheck(
            self.single_action_space, self.action_space, self.num_envs
        )
        self.closed = False

    # The tasks.

    @property
    def num_tasks(self) -> int:
        """``M``, how many tasks stand side by side."""
        return self.meta_batch_size

    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Turns each task's environments to a task, from the next `reset` on.

        Args:
            tasks: ``M`` tasks, each for the environments' own ``set_task``, or ``set_task_state``
                where there is no ``set_task``.

        Raises:
            ValueError: If there are not exactly ``M``.
            AttributeError: If the environments have neither method.
        """
        self._require_open()
        self._require_idle("set_tasks")
        if isinstance(tasks, (str, bytes)) or len(tasks) != self.meta_batch_size:
            raise ValueError(
                f"expected {self.meta_batch_size} tasks, one for each group of "
                f"{self.envs_per_task} environments, got {len(tasks)}"
            )
        each: EachCall = [((task,), {}) for task in tasks for _ in range(self.envs_per_task)]
        self._call_each(self._task_setter(), each)
        self._was_reset = False

    _setter: str | None = None

    def _task_setter(self) -> str:
        if self._setter is None:
            nothing: EachCall = [((TASK_SETTERS[0],), {})] * self.num_envs
            has = self._call_each("has_wrapper_attr", nothing)
            self._setter = TASK_SETTERS[0] if all(has) else TASK_SETTERS[1]
        return self._setter

    # Episodes.

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environments.

        Args:
            seed: ``s`` seeds environment ``i`` with ``s + i``; a list holds one for each.
            options: Handed to every environment. ``{"reset_mask": mask}``, shape ``(N,)`` bool,
                resets only some. Never changed.

        Raises:
            ValueError: If the seeds or the mask have another length, or nothing is to be reset.
            TypeError: If a seed is no integer or the mask no bool array.
        """
        self._require_open()
        self._require_idle("reset")
        seeds = spread_seeds(seed, self.num_envs)
        mask = None
        if options is not None and "reset_mask" in options:
            mask = check_mask(options["reset_mask"], self.num_envs)
            options = {key: value for key, value in options.items() if key != "reset_mask"}
        whole = mask is None or bool(mask.all())
        if not whole and not self._was_reset:
            raise ResetNeeded("reset every environment before some of them")
        result = self._reset(seeds, options, mask)
        self._was_reset = True
        self._over[slice(None) if mask is None else mask] = False
        return result

    def step(self, actions: Any) -> StepResult:
        """Steps every environment.

        Args:
            actions: Shape ``(N, ...)``, in `action_space`.

        Returns:
            Observations ``(N, ...)``, rewards ``(N,)`` float64, terminated and truncated ``(N,)``
            bool, infos.

        Raises:
            ValueError: If actions have another shape or are NaN; nothing is then stepped.
            ResetNeeded: If `reset` is due.
        """
        self.step_async(actions)
        return self.step_wait()

    def step_async(self, actions: Any) -> None:
        """Begins a step, so that other work can be done meanwhile; `step_wait` ends it."""
        self._require_open()
        self._require_idle("step_async")
        if not self._was_reset:
            raise ResetNeeded("call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._over.any():
            raise ResetNeeded(
                f"the episodes of environments {np.flatnonzero(self._over).tolist()} are over: "
                "reset them with options={'reset_mask': ...}"
            )
        self._begin_step(self._check_actions(actions))
        self._stepping = True

    def step_wait(self) -> StepResult:
        """Ends the step that `step_async` began.

        Raises:
            RuntimeError: If none was begun.
        """
        self._require_open()
        if not self._stepping:
            raise RuntimeError("step_wait() needs a step_async() before it")
        try:
            result = self._end_step()
        finally:
            self._stepping = False
        self._over = result[2] | result[3]
        return result

    # Attributes and methods of the environments.

    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method or a function, or reads an attribute, of each environment.

        Args:
            name: The method or attribute, looked up through the environment's wrappers; or a
                function ``name(env, *args, **kwargs)``, run where the environment is. It must
                pickle where environments are in workers.
            *args: Passed on.
            **kwargs: Passed on.
        """
        self._require_open()
        self._require_idle("call")
        return tuple(self._call_each(name, [(args, kwargs)] * self.num_envs))

    def call_some(
        self, indices: Sequence[int], name: str | Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """What `call` does, with the environments ``indices`` alone."""
        self._require_open()
        self._require_idle("call_some")
        each: EachCall = [None] * self.num_envs
        for i in indices:
            each[i] = (args, kwargs)
        results = self._call_each(name, each)
        return [results[i] for i in indices]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each environment; a method is called, as in Gymnasium."""
        return self.call(name)

    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment.

        Args:
            name: The attribute, looked up through the environment's wrappers.
            values: A list or tuple with one value an environment, or one value for all. (A
                `metaworld.Task` is a tuple: put it in a list.)

        Raises:
            ValueError: If a list has another length than the environments.
        """
        self._require_open()
        self._require_idle("set_attr")
        if not isinstance(values, (list, tuple)):
            values = [values] * self.num_envs
        if len(values) != self.num_envs:
            raise ValueError(
                f"expected {self.num_envs} values, one an environment, got {len(values)}"
            )
        self._set_attr_each(name, list(values))

    def render(self) -> tuple[Any, ...]:
        """A frame of each environment."""
        self._require_open()
        self._require_idle("render")
        return tuple(self._render())

    @property  # type: ignore[misc] # Gymnasium's SyncVectorEnv has no setter either
    def np_random(self) -> Any:
        """Each environment's generator."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """Each environment's seed."""
        return self.get_attr("np_random_seed")

    def __del__(self) -> None:
        """Closes what was not closed."""
        # Not in a forked process, which inherits what is its parent's to close.
        if not getattr(self, "closed", True) and self._pid == os.getpid():
            self.close()

    # Checks.

    def _require_open(self) -> None:
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was closed")

    def _require_idle(self, what: str) -> None:
        if self._stepping:
            raise RuntimeError(f"{what}() while a step is under way: call step_wait() first")

    # What a subclass does.

    @abc.abstractmethod
    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        mask: NDArray[np.bool_] | None,
    ) -> tuple[Any, dict[str, Any]]: ...

    @abc.abstractmethod
    def _begin_step(self, actions: Any) -> None: ...

    @abc.abstractmethod
    def _end_step(self) -> StepResult: ...

    @abc.abstractmethod
    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]: ...

    @abc.abstractmethod
    def _set_attr_each(self, name: str, values: list[Any]) -> None: ...

    @abc.abstractmethod
    def _render(self) -> list[Any]: ...
