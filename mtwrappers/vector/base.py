"""The contract of the vector environments, and all that does not depend on where they run."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
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
    check_rllib,
    check_same_spaces,
    split_options,
    spread_seeds,
)
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.calls import CallingVectorEnv, exclusive
from mtwrappers.vector.infos import Columns, Info, Layout, layout_of
from mtwrappers.vector.journal import Journal, Past

StepResult = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class MetaVectorEnv(CallingVectorEnv):
    """``M`` tasks times ``K`` environments, side by side: environment ``task * K + k``.

    It is a `gymnasium.vector.VectorEnv`. For the same constructors and seed it returns exactly
    what `gymnasium.vector.SyncVectorEnv` returns, in all three autoreset modes: observations,
    rewards, flags and infos. Every array and dict that is returned is new. ``call``, ``get_attr``
    and ``set_attr`` are Gymnasium's; `set_tasks` turns each task's environments to a task.

    After a `step` or `reset` that raised, the environments are no longer in step with each other,
    and a `reset` of all of them is due. Methods must be called by one thread at a time. One that
    RLlib makes and would misread is refused with a ``ValueError``.
    """

    autoreset_mode: AutoresetMode
    _buffers: Buffers
    _columns: Columns | None = None
    _first_step = True
    _journal: Journal | None = None

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
        self._some_rest = False

    def _declare(
        self,
        spaces: Sequence[tuple[Space[Any], Space[Any]]],
        metadata: dict[str, Any],
        render_mode: str | None,
    ) -> None:
        """Takes the spaces (observation, action) that each environment has."""
        n = self.num_envs
        check_same_spaces(spaces)
        observation_space, action_space = spaces[0]
        self.single_observation_space, self.single_action_space = observation_space, action_space
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
        for i, first in enumerate(self._first_seeds or ()):
            seeds[i] = first if seeds[i] is None else seeds[i]
        if self._some_rest:
            self._buffers.resting[slice(None) if mask is None else mask] = False
            self._some_rest = bool(self._buffers.resting.any())
        self._was_reset = False  # should it raise
        masks = [True] * self.num_envs if mask is None else mask.tolist()
        result = self._reset(seeds, options, masks)
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
        n = self.num_envs
        if np.shape(mask) != (n,) or np.asarray(mask).dtype != np.bool_:
            raise ValueError(f"expected a mask of shape ({n},) and dtype bool, got {mask!r}")
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
        """Begins a `step`, so that other work can be done meanwhile; `step_wait` ends it."""
        if not self._was_reset:
            raise ResetNeeded("call reset() before step()")
        over = self._over & ~self._buffers.resting if self._some_rest else self._over
        if self.autoreset_mode is AutoresetMode.DISABLED and over.any():
            raise ResetNeeded(
                f"the episodes of environments {np.flatnonzero(over).tolist()} are over: "
                "reset them with options={'reset_mask': ...}"
            )
        checked = self._check_actions(actions)
        self._was_reset = False  # until the step has ended well
        self._begin_step(checked)
        self._stepping = True

    @exclusive
    def step_wait(self) -> StepResult:
        """Ends the step that `step_async` began, and returns what `step` does.

        Raises:
            RuntimeError: If none was begun.
        """
        if not self._stepping:
            raise RuntimeError("step_wait() needs a step_async() before it")
        self._stepping = False
        result = self._end_step()
        self._was_reset = True
        over = result[2] | result[3]
        self._over = np.where(self._buffers.resting, self._over, over) if self._some_rest else over
        return result

    @exclusive
    def get_state(self) -> dict[str, Any]:
        """All that the environments are, for `save_checkpoint`: of what JSON knows, and arrays.

        Raises:
            RuntimeError: If there is no journal.
        """
        pasts = self._get_journal().pasts(slice(0, self.num_envs))
        return {
            **self._identity(),
            "was_reset": self._was_reset,
            "over": self._over.copy(),
            "first_seeds": self._first_seeds,
            "pasts": [past.to_state() for past in pasts],
        }

    @exclusive
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Builds the environments anew, and brings them to where those of a state were.

        Args:
            state: What `get_state` returned, here or in another executor with the same
                constructors and settings, on any number of workers.

        Raises:
            RuntimeError: If there is no journal.
            ValueError: If it is the state of other environments.
            NotDeterministicError: If an environment does not come to where the other one was. After
                any error the environments are as they were.
        """
        journal = self._get_journal()
        expected, found = self._identity(), {name: state.get(name) for name in self._identity()}
        if found != expected:
            raise ValueError(f"expected the state of environments with {expected}, got {found}")
        pasts = [Past.from_state(past) for past in state["pasts"]]
        shown = [array.copy() for array in self._buffers.obs]
        try:
            self._restore(pasts)
        except BaseException:
            for array, before in zip(self._buffers.obs, shown, strict=True):
                array[...] = before
            raise
        journal.take(pasts)
        self._was_reset, self._first_seeds = state["was_reset"], state["first_seeds"]
        self._over[:] = state["over"]

    def _results(
        self, each: Sequence[Info], finals: Iterable[tuple[int, Any, Info]], objects: Sequence[Any]
    ) -> StepResult:
        """What a step returns, from buffers, and from ``each`` info if those are not in columns."""
        columns = self._columns
        infos = self._join(each) if each or columns is None else columns.read()
        for i, last_obs, last_info in finals:
            infos = self._add_info(infos, {"final_obs": last_obs, "final_info": last_info}, i)
        buffers = self._buffers
        flags = buffers.terminated.copy(), buffers.truncated.copy()
        obs, rewards = self._layout.batch(buffers.obs, objects), buffers.rewards.copy()
        if self._first_step:
            self._first_step = False
            if (layout := layout_of(each, buffers)) is not None:
                self._fix_columns(layout)
        return obs, rewards, *flags, infos

    def _join(self, infos: Sequence[Info | None]) -> Info:
        """Batches infos in Gymnasium's own way; ``None`` reports nothing."""
        batched: Info = {}
        for i, info in enumerate(infos):
            if info:
                batched = self._add_info(batched, info, i)
        return batched

    def _fix_columns(self, layout: Layout) -> None:
        """Decides after the first step which infos go through arrays from now on."""
        self._columns = Columns(layout, self._buffers)

    def _identity(self) -> dict[str, Any]:
        return {
            "num_envs": self.num_envs,
            "envs_per_task": self.envs_per_task,
            "max_path_length": self._max_path_length,
            "autoreset_mode": self.autoreset_mode.value,
        }

    def _get_journal(self) -> Journal:
        if self._journal is None:
            raise RuntimeError(
                "the state of an executor needs its journal: pass journal=True, or "
                "on_worker_failure='recover'"
            )
        return self._journal

    @abc.abstractmethod
    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, masks: list[bool]
    ) -> tuple[Any, dict[str, Any]]: ...

    @abc.abstractmethod
    def _begin_step(self, actions: Any) -> None: ...

    @abc.abstractmethod
    def _end_step(self) -> StepResult: ...

    @abc.abstractmethod
    def _restore(self, pasts: Sequence[Past]) -> None:
        """Puts environments with these pasts in the place of the present ones, or raises."""
