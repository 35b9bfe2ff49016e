"""The contract of the vector environments, and all that does not depend on where they run."""

from __future__ import annotations

import abc
from collections.abc import Sequence
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
from mtwrappers.vector.buffers import ObsLayout
from mtwrappers.vector.calls import CallingVectorEnv
from mtwrappers.vector.exclusive import exclusive
from mtwrappers.vector.rllib import check_rllib

StepResult = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class MetaVectorEnv(CallingVectorEnv):
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
        self._some_rest = False

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
        if self._some_rest:
            self._buffers.resting[slice(None) if mask is None else mask] = False
            self._some_rest = bool(self._buffers.resting.any())
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

    @exclusive
    def rest(self, mask: NDArray[np.bool_]) -> None:
        """Lets some environments rest: `step` leaves them as they are, and says nothing of them.

        Of an environment that rests, a step returns the last observation and info again, the reward
        0.0 and no end of the episode. A `reset` of it ends its rest.

        Args:
            mask: Which rest from now on, ``(N,)`` bool; the others do not.

        Raises:
            ValueError: If the mask has another shape or dtype.
        """
        if np.shape(mask) != (self.num_envs,) or np.asarray(mask).dtype != np.bool_:
            raise ValueError(
                f"expected a mask of shape ({self.num_envs},) and dtype bool, got {mask!r}"
            )
        self._buffers.resting[...] = mask
        self._some_rest = bool(np.any(mask))

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
        over = self._over & ~self._buffers.resting if self._some_rest else self._over
        if self.autoreset_mode is AutoresetMode.DISABLED and over.any():
            raise ResetNeeded(
                f"the episodes of environments {np.flatnonzero(over).tolist()} are over: "
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
        over = result[2] | result[3]
        self._over = np.where(self._buffers.resting, self._over, over) if self._some_rest else over
        return result

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
