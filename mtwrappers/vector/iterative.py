"""Environments in this process, one after another."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.core.pad_spaces import Unify
from mtwrappers.vector.arguments import (
    JOURNAL_WARN_BYTES,
    Maker,
    ObservationMode,
    Settings,
    check_autoreset_mode,
    resolve_makers,
)
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.blocks import LocalBlocks


class MetaIterativeEnvExecutor(MetaVectorEnv):
    """``M * K`` environments in this process.

    The name and the layout are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), the interface is
    Gymnasium's; see `MetaVectorEnv`.

    Args:
        env: A constructor; a list of constructors, one per task or one per environment; or an
            environment that pickles, of which every environment is a copy. Copies are seeded at
            their first reset, each with another branch of the environment's generator (or of
            entropy, if it was never seeded), unless `reset` is given seeds.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        observation_mode: ``"same"``, ``"different"`` or the spaces ``(observation_space,
            single_observation_space)``, as in `gymnasium.vector.SyncVectorEnv`: which observation
            space the batch has, where those of the environments have other bounds.
        unify: ``"pad"`` wraps each environment in `PadSpaces`, so that all have the length of the
            longest; a dict has arguments for it, such as
            ``{"observation_size": 128, "action_size": 16, "rescale": True}``.
        journal: Whether to keep what was done with the environments since their last resets, so
            that `get_state` works in mid-episode.
        journal_warn_bytes: How large the journal may grow, in bytes, before a warning says so. It
            takes the bytes of every action, and some 200 for every call.

    Raises:
        TypeError: If ``env`` is none of those, or spaces cannot be padded.
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
        observation_mode: ObservationMode = "same",
        unify: Unify = None,
        journal: bool = False,
        journal_warn_bytes: float = JOURNAL_WARN_BYTES,
    ) -> None:
        settings = Settings(
            meta_batch_size,
            envs_per_task,
            max_path_length,
            check_autoreset_mode(autoreset_mode),
            journal,
            journal_warn_bytes,
            observation_mode,
            unify,
        ).checked()
        makers, seeds = resolve_makers(env, settings.meta_batch_size, settings.envs_per_task)
        self._local = LocalBlocks(functools.partial(EnvBlock, lambda: makers, 0, settings))
        super().__init__(self._local, settings, seeds)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._local.block.envs
