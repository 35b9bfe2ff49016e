"""All environments in this process, one after another."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.vector.arguments import Maker, resolve_makers
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.calls import BlockFunction
from mtwrappers.vector.journal import Journal, Past
from mtwrappers.vector.part import BlockVectorEnv, PartVectorEnv


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
        block = self._build()
        with contextlib.ExitStack() as undo:
            undo.callback(block.close)
            self._declare_block(block)
            undo.pop_all()
        memory = memoryview(bytearray(Buffers.nbytes(self._layout, 0)))
        buffers = Buffers(self._layout, 0, memory)
        block.write_to(self._layout, buffers)
        self._take_block(block, buffers, Journal(self.num_envs, buffers) if journal else None)
        self._journal = self._told

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
        settings = self.autoreset_mode, self._max_path_length
        state = self._was_reset, self._over, self._buffers.resting
        envs = PartVectorEnv(self._block, self._buffers, *settings, self._told, state)
        self._was_reset = False  # should it raise
        result = function(envs, self._block.rows)
        self._was_reset, self._over, _ = envs.end()
        self._some_rest = bool(self._buffers.resting.any())
        return [result]

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every environment."""
        self._block.close()
