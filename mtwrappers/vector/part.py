"""A block of environments as a vector environment, in the process where they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.vector.base import MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.calls import BlockFunction
from mtwrappers.vector.infos import Columns, Info, add_finals, join_infos, layout_of
from mtwrappers.vector.journal import Entry, Journal, Past, steps_of

T = TypeVar("T")


class BlockVectorEnv(MetaVectorEnv):
    """A block of environments in this process, as a vector environment."""

    _block: EnvBlock
    _actions: Any = None

    def _declare_block(self, block: EnvBlock) -> None:
        """Takes the spaces of a block's environments."""
        first = block.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in block.envs]
        self._declare(spaces, first.metadata, first.render_mode)

    def _take_block(self, block: EnvBlock, buffers: Buffers, told: Journal | None) -> None:
        """Takes a block, the buffers that it writes to, and where to note what it is told."""
        self._block, self._told = block, told
        self._buffers = buffers.part(block.rows)
        self._columns: Columns | None = None
        self._first_step = True

    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        masks: list[bool],
    ) -> tuple[Any, Info]:
        both = list(zip(seeds, masks, strict=True))
        own = self._noted(
            "reset",
            lambda: [("reset", seed, options) if mask else None for seed, mask in both],
            lambda: self._block.reset(seeds, options, masks),
        )
        infos = join_infos(own, self._add_info)
        return self._layout.batch(self._buffers.obs, self._block.obs), infos

    def _begin_step(self, actions: Any) -> None:
        self._actions = actions

    def _end_step(self) -> StepResult:
        block = self._block
        actions, resting = self._actions, self._buffers.resting
        if self._told is None:
            block.step(actions)
        else:
            self._noted("step", lambda: steps_of(actions, resting), lambda: block.step(actions))
        if self._first_step:
            self._first_step = False
            layout = layout_of(block.checked_infos(), self._buffers)
            self._columns = None if layout is None else Columns(layout, self._buffers)
        if self._columns is not None and self._columns.write(0, block.infos):
            infos = self._columns.read()
        else:
            infos = join_infos(block.checked_infos(), self._add_info)
        if block.finals:
            first = block.rows.start
            finals = [(i - first, last, info) for i, last, info in block.finals]
            infos = add_finals(infos, finals, self._add_info)
        obs = self._layout.batch(self._buffers.obs, block.obs)
        return (obs, *self._buffers.outcome(), infos)

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        return self._noted(
            "call",
            lambda: [None if given is None else ("call", name, *given) for given in each],
            lambda: self._block.call(name, each),
        )

    def _noted(self, what: str, told: Callable[[], list[Entry | None]], do: Callable[[], T]) -> T:
        """Does it, and lets the journal know what environments were told, even if they raise."""
        block, journal, rows = self._block, self._told, self._block.rows
        if journal is None:
            return do()
        try:
            result = do()
        except BaseException:
            if what == "call":
                called = slice(rows.start, rows.start + block.called)
                journal.note(called, told()[: block.called], {})
            else:
                journal.note_failure(rows, block.all_states())
            raise
        journal.note(rows, told(), block.states, block.obs)
        return result

    def _render(self) -> list[Any]:
        return self._block.render()


class PartVectorEnv(BlockVectorEnv):
    """What `MetaVectorEnv.map_blocks` hands to a function.

    Args:
        block: The environments, which stay their owner's.
        buffers: What they write to.
        mode: Their autoreset mode.
        max_path_length: Their time limit.
        told: Where to note what they are told.
        state: Whether they were reset, whose episodes are over, and which rest, ``(n,)`` bool.
        on_step: Called in each step.
    """

    def __init__(
        self,
        block: EnvBlock,
        buffers: Buffers,
        mode: AutoresetMode,
        max_path_length: int | None,
        told: Journal | None,
        state: tuple[bool, NDArray[np.bool_], NDArray[np.bool_]],
        on_step: Callable[[], object] = lambda: None,
    ) -> None:
        super().__init__(len(block.envs), 1, max_path_length, mode)
        self._declare_block(block)
        self._take_block(block, buffers, told)
        self._was_reset, self._over, resting = state
        self._on_step = on_step
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
