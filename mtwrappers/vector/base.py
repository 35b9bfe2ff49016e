"""The contract of the vector environments, and all that does not depend on where they run."""

from __future__ import annotations

import abc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.vector.arguments import (
    ActionCheck,
    check_autoreset_mode,
    check_same_spaces,
    split_options,
    spread_seeds,
)
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.buffers import ObsLayout
from mtwrappers.vector.exclusive import exclusive
from mtwrappers.vector.rllib import check_rllib
from mtwrappers.vector.stateful import StatefulVectorEnv

# The methods by which environments are turned to a task; the first that they have is used.
TASK_SETTERS = ("set_task", "set_task_state")
StepResult = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class MetaVectorEnv(StatefulVectorEnv):
    """``M`` tasks times ``K`` environments, side by side: environment ``task * K + k``.

    It is a `gymnasium.vector.VectorEnv`. For the same constructors and seed it returns exactly
    what `gymnasium.vector.SyncVectorEnv` returns, in all three autoreset modes: observations,
    rewards, flags and infos. Every array and dict that is returned is new. ``call``, ``get_attr``
    and ``set_attr`` are Gymnasium's; `set_tasks` turns each task's environments to a task.

    After a `step` or `reset` that raised, the environments are no longer in step with each other,
    and a `reset` of all of them is due. Methods must be called by one thread at a time.

    Args:
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: How an episode begins after another ends; see
            `gymnasium.vector.AutoresetMode`.

    Raises:
        ValueError: If a size is not positive, the mode is none of Gymnasium's, or RLlib makes it
            and would misread it.
    """

    autoreset_mode: AutoresetMode

    def __init__(
        self,
        meta_batch_size: int,
        envs_per_task: int,
        max_path_length: int | None,
        autoreset_mode: str | AutoresetMode,
    ) -> None:
        super().__init__()
        if max_path_length is not None:
            max_path_length = positive(max_path_length, "max_path_length")
        self._max_path_length = max_path_length
        self.meta_batch_size = positive(meta_batch_size, "meta_batch_size")
        self.envs_per_task = positive(envs_per_task, "envs_per_task")
        self.num_envs = self.meta_batch_size * self.envs_per_task
        self.autoreset_mode = check_autoreset_mode(autoreset_mode)
        check_rllib(self.num_envs, self.autoreset_mode)
        self._over = np.zeros(self.num_envs, dtype=np.bool_)
        self._was_reset = False
        self._setter: str | None = None

    def _declare(
        self,
        spaces: Sequence[tuple[Space[Any], Space[Any]]],
        metadata: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        """Takes the spaces (observation, action) that each environment has."""
        n, (observation_space, action_space) = self.num_envs, spaces[0]
        self.single_observation_space, self.single_action_space = observation_space, action_space
        check_same_spaces(spaces)
        self.observation_space = batch_space(observation_space, n)
        self.action_space = batch_space(action_space, n)
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self.render_mode = render_mode
        self._check_actions = ActionCheck(action_space, self.action_space, n)
        self._layout = ObsLayout(observation_space, n)
        self.closed = False

    @exclusive
    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Turns each task's environments to a task, from the next `reset` on.

        Args:
            tasks: ``M`` tasks, each for the environments' own ``set_task``, or ``set_task_state``
                where there is no ``set_task``.

        Raises:
            ValueError: If there are not exactly ``M``.
            AttributeError: If the environments have neither method.
        """
        m, k = self.meta_batch_size, self.envs_per_task
        is_list = isinstance(tasks, (Sequence, np.ndarray)) and not isinstance(tasks, (str, bytes))
        if not is_list or len(tasks) != m:
            got = len(tasks) if is_list else repr(tasks)
            raise ValueError(
                f"expected {m} tasks, one for each group of {k} environments, got {got}"
            )
        if self._setter is None:
            has = self._call_each("has_wrapper_attr", [((TASK_SETTERS[0],), {})] * self.num_envs)
            self._setter = TASK_SETTERS[0] if all(has) else TASK_SETTERS[1]
        each: EachCall = [((task,), {}) for task in tasks for _ in range(k)]
        self._was_reset = False
        self._call_each(self._setter, each)

    @exclusive
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
            TypeError: If a seed is not an integer, the options not a dict or the mask not a bool
                array.
            ResetNeeded: If some are to be reset before all of them were.
        """
        seeds = spread_seeds(seed, self.num_envs)
        options, mask = split_options(options, self.num_envs)
        if mask is not None and not mask.all() and not self._was_reset:
            raise ResetNeeded("reset every environment before some of them")
        if self._first_seeds is not None:
            both = zip(seeds, self._first_seeds, strict=True)
            seeds = [first if given is None else given for given, first in both]
        try:
            masks = [True] * self.num_envs if mask is None else mask.tolist()
            result = self._reset(seeds, options, masks)
        except BaseException:
            self._was_reset = False
            raise
        self._first_seeds = None
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
            ValueError: If actions have another shape, are not numbers or are NaN; nothing is then
                stepped.
            ResetNeeded: If `reset` is due.
        """
        self.step_async(actions)
        return self.step_wait()

    @exclusive
    def step_async(self, actions: Any) -> None:
        """Begins a `step`, so that other work can be done meanwhile; `step_wait` ends it.

        Args:
            actions: Shape ``(N, ...)``, in `action_space`.
        """
        if not self._was_reset:
            raise ResetNeeded("call reset() before step()")
        if self.autoreset_mode is AutoresetMode.DISABLED and self._over.any():
            raise ResetNeeded(
                f"the episodes of environments {np.flatnonzero(self._over).tolist()} are over: "
                "reset them with options={'reset_mask': ...}"
            )
        checked = self._check_actions(actions)
        try:
            self._begin_step(checked)
        except BaseException:
            self._was_reset = False
            raise
        self._stepping = True

    @exclusive
    def step_wait(self) -> StepResult:
        """Ends the step that `step_async` began, and returns what `step` does.

        Raises:
            RuntimeError: If none was begun.
        """
        if not self._stepping:
            raise RuntimeError("step_wait() needs a step_async() before it")
        try:
            result = self._end_step()
        except BaseException:
            self._was_reset = False
            raise
        finally:
            self._stepping = False
        self._over = result[2] | result[3]
        return result

    @exclusive
    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method or a function, or reads an attribute, of each environment.

        Args:
            name: The method or attribute, looked up through the environment's wrappers; or a
                function ``name(env, *args, **kwargs)``, run where the environment is. It must
                pickle where environments are in workers.
            *args: Passed on.
            **kwargs: Passed on.
        """
        return tuple(self._call_each(name, [(args, kwargs)] * self.num_envs))

    @exclusive
    def call_some(
        self, indices: Sequence[int], name: str | Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """What `call` does, with the environments ``indices`` alone."""
        chosen = set(indices)
        each = [(args, kwargs) if i in chosen else None for i in range(self.num_envs)]
        results = self._call_each(name, each)
        return [results[i] for i in indices]

    def get_attr(self, name: str) -> tuple[Any, ...]:
        """An attribute of each environment; a method is called, as in Gymnasium."""
        return self.call(name)

    @exclusive
    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment.

        Args:
            name: The attribute, looked up through the environment's wrappers.
            values: A list or tuple with one value per environment, or one value for all. (A
                `metaworld.Task` is a tuple: put it in a list.)

        Raises:
            ValueError: If a list has another length than the environments.
        """
        n = self.num_envs
        values = list(values) if isinstance(values, (list, tuple)) else [values] * n
        if len(values) != n:
            raise ValueError(f"expected {n} values, one per environment, got {len(values)}")
        self._call_each("set_wrapper_attr", [((name, value), {}) for value in values])

    @exclusive
    def render(self) -> tuple[Any, ...]:
        """A frame of each environment."""
        return tuple(self._render())

    @property  # type: ignore[misc] # Gymnasium's SyncVectorEnv has no setter either
    def np_random(self) -> Any:
        """Each environment's generator."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """Each environment's seed."""
        return self.get_attr("np_random_seed")

    @abc.abstractmethod
    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        masks: list[bool],
    ) -> tuple[Any, dict[str, Any]]: ...

    @abc.abstractmethod
    def _begin_step(self, actions: Any) -> None: ...

    @abc.abstractmethod
    def _end_step(self) -> StepResult: ...

    @abc.abstractmethod
    def _render(self) -> list[Any]: ...
