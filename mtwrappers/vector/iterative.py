"""All environments in this process, one after another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.vector.arguments import Maker, resolve_makers
from mtwrappers.vector.base import MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall, EnvBlock
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.infos import Columns, Info, add_finals, join_infos, layout_of
from mtwrappers.vector.journal import Entry, Journal, Past

T = TypeVar("T")


class MetaIterativeEnvExecutor(MetaVectorEnv):
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
            first = block.envs[0]
            spaces = [(e.observation_space, e.action_space) for e in block.envs]
            self._declare(spaces, first.metadata, first.render_mode)
            undo.pop_all()
        memory = memoryview(bytearray(Buffers.nbytes(self._layout, 0)))
        self._buffers = Buffers(self._layout, 0, memory)
        block.write_to(self._layout, self._buffers)
        self._columns: Columns | None = None
        self._first_step = True
        self._actions: Any = None
        if journal:
            self._journal = Journal(self.num_envs, self._buffers)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._block.envs

    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        masks: list[bool],
    ) -> tuple[Any, Info]:
        both = list(zip(seeds, masks, strict=True))
        self._noted(
            "reset",
            lambda: [("reset", seed, options) if mask else None for seed, mask in both],
            lambda: self._block.reset(seeds, options, masks),
        )
        infos = join_infos(self._block.infos, self._add_info)
        return self._layout.batch(self._buffers.obs, self._block.obs), infos

    def _begin_step(self, actions: Any) -> None:
        self._actions = actions

    def _end_step(self) -> StepResult:
        block = self._block
        actions = self._actions
        self._noted("step", lambda: [("step", a) for a in actions], lambda: block.step(actions))
        if self._first_step:
            self._first_step = False
            layout = layout_of(block.checked_infos(), self._buffers)
            self._columns = None if layout is None else Columns(layout, self._buffers)
        if self._columns is not None and self._columns.write(0, block.infos):
            infos = self._columns.read()
        else:
            infos = join_infos(block.checked_infos(), self._add_info)
        infos = add_finals(infos, block.finals, self._add_info)
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
        block, journal = self._block, self._journal
        if journal is None:
            return do()
        try:
            result = do()
        except BaseException:
            if what == "call":
                journal.note(slice(0, block.called), told(), {})
            else:
                journal.note_failure(block.rows, block.all_states())
            raise
        journal.note(block.rows, told(), block.states, block.obs)
        return result

    def _restore(self, pasts: Sequence[Past]) -> None:
        block = self._build()
        with contextlib.ExitStack() as undo:
            undo.callback(block.close)
            block.write_to(self._layout, self._buffers)
            block.replay(pasts)
            undo.pop_all()
        self._block.close()
        self._block = block

    def _render(self) -> list[Any]:
        return self._block.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every environment."""
        self._block.close()
