"""Environments in this process, one after another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.vector.arguments import Maker, resolve_makers
from mtwrappers.vector.base import MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.calls import BlockFunction
from mtwrappers.vector.infos import Info
from mtwrappers.vector.journal import Entry, Journal, Past, steps_of

T = TypeVar("T")


class BlockVectorEnv(MetaVectorEnv):
    """A block of environments in this process, as a vector environment."""

    _block: EnvBlock
    _told: Journal | None  # where to note what the environments are told
    _actions: Any = None

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, masks: list[bool]
    ) -> tuple[Any, Info]:
        told = [("reset", s, options) if m else None for s, m in zip(seeds, masks, strict=True)]
        own = self._noted("reset", told, lambda: self._block.reset(seeds, options, masks))
        return self._layout.batch(self._buffers.obs, self._block.obs), self._join(own)

    def _begin_step(self, actions: Any) -> None:
        self._actions = actions

    def _end_step(self) -> StepResult:
        block = self._block
        actions, resting = self._actions, self._buffers.resting
        if self._told is None:
            block.step(actions)
        else:
            self._noted("step", steps_of(actions, resting), lambda: block.step(actions))
        fit = self._columns is not None and self._columns.write(0, block.infos)
        first = block.rows.start
        finals = [(i - first, last, info) for i, last, info in block.finals]
        return self._results(() if fit else block.checked_infos(), finals, block.obs)

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        told = [None if given is None else ("call", name, *given) for given in each]
        return self._noted("call", told, lambda: self._block.call(name, each))

    def _noted(self, what: str, told: Sequence[Entry | None], do: Callable[[], T]) -> T:
        """Does it, and lets the journal know what environments were told, even if they raise."""
        block, journal = self._block, self._told
        if journal is None:
            return do()
        try:
            result = do()
        except BaseException:
            journal.note_failure(block.rows, what, told, block.reached(what))
            raise
        journal.note(block.rows, told, block.states, block.obs)
        return result


class PartVectorEnv(BlockVectorEnv):
    """What `MetaVectorEnv.map_blocks` hands to a function: a block that stays its owner's.

    ``state`` says whether the environments were reset, whose episodes are over, and which rest;
    ``told`` notes what they are told, and ``on_step`` is called in each step.
    """

    def __init__(
        self,
        block: EnvBlock,
        buffers: Buffers,
        told: Journal | None,
        state: tuple[bool, NDArray[np.bool_], NDArray[np.bool_]],
        on_step: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(len(block.envs), 1, block.max_path_length, block.mode)
        self._declare(*block.traits())
        self._block, self._told, self._on_step = block, told, on_step
        self._buffers = buffers.part(block.rows)
        self._was_reset, self._over, resting = state
        self.rest(resting)

    def end(self) -> tuple[bool, NDArray[np.bool_], NDArray[np.bool_]]:
        """What ``state`` is now."""
        return self._was_reset, self._over, self._buffers.resting.copy()

    def _end_step(self) -> StepResult:
        self._on_step()
        return super()._end_step()

    def _restore(self, pasts: Sequence[Past]) -> NoReturn:
        raise RuntimeError("a block of environments is restored by its executor")

    def _map_blocks(self, function: BlockFunction) -> NoReturn:
        raise RuntimeError("map_blocks is for all environments, not for a block of them")

    def close_extras(self, **kwargs: Any) -> None:
        """Leaves the environments to their owner."""


class MetaIterativeEnvExecutor(BlockVectorEnv):
    """``M * K`` environments in this process.

    The name and the layout are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), the interface is
    Gymnasium's; see `MetaVectorEnv`.

    Args:
        env: A constructor; a list of constructors, one per task or one per environment; or an
            environment that pickles, of which every environment is a copy. Copies are seeded at
            their first reset, each with its own branch of the environment's generator (or of
            entropy, if it was never seeded), unless `reset` is given seeds.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        journal: Whether to keep what the environments were told since their last resets, so that
            `get_state` works, in mid-episode too.

    Raises:
        TypeError: If ``env`` is none of those.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.
        Exception: Whatever a constructor raises, with the environment named.

    >>> import functools, gymnasium
    >>> makers = [functools.partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)]
    >>> envs = MetaIterativeEnvExecutor(makers, 2, 3, max_path_length=50)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (6, 3)
    >>> envs.close()
    """

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        journal: bool = False,
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, max_path_length, autoreset_mode)
        makers, self._first_seeds = resolve_makers(env, self.meta_batch_size, self.envs_per_task)
        self._build = functools.partial(
            EnvBlock, makers, 0, self.autoreset_mode, self._max_path_length, journal
        )
        self._block = block = self._build()
        with contextlib.ExitStack() as undo:
            undo.callback(block.close)
            self._declare(*block.traits())
            undo.pop_all()
        self._buffers = Buffers(self._layout)
        block.write_to(self._layout, self._buffers)
        self._journal = self._told = Journal(self.num_envs, self._buffers) if journal else None

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._block.envs

    def _restore(self, pasts: Sequence[Past]) -> None:
        block = self._build()
        with contextlib.ExitStack() as undo:
            undo.callback(block.close)
            block.write_to(self._layout, self._buffers)
            block.replay(pasts)
            undo.pop_all()
        self._block.close()
        self._block = block

    def _map_blocks(self, function: BlockFunction) -> list[Any]:
        state = self._was_reset, self._over, self._buffers.resting
        envs = PartVectorEnv(self._block, self._buffers, self._told, state)
        self._was_reset = False  # should it raise
        result = function(envs, self._block.rows)
        self._was_reset, self._over, _ = envs.end()
        self._some_rest = bool(self._buffers.resting.any())
        return [result]

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every environment."""
        self._block.close()
