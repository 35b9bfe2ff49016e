"""All environments in this process, one after another."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.vector.base import EachCall, MetaVectorEnv, StepResult
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.infos import InfoBatcher
from mtwrappers.vector.layout import BatchLayout
from mtwrappers.vector.makers import Maker, resolve_makers


class MetaIterativeEnvExecutor(MetaVectorEnv):
    """``M * K`` environments in this process.

    The name and the layout are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), the interface is
    Gymnasium's; see `MetaVectorEnv`.

    Args:
        env: A constructor; a list of constructors, one a task or one an environment; or an
            environment that pickles, of which every environment is a copy.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments a task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.

    Raises:
        TypeError: If ``env`` is none of those.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.

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
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, autoreset_mode)
        if max_path_length is not None:
            max_path_length = positive(max_path_length, "max_path_length")
        makers = resolve_makers(env, self.meta_batch_size, self.envs_per_task)
        self._block = EnvBlock(makers, 0, self.autoreset_mode, max_path_length)
        with contextlib.ExitStack() as undo:
            undo.callback(self._block.close)
            first = self._block.envs[0]
            self._declare(
                [(e.observation_space, e.action_space) for e in self._block.envs],
                first.metadata,
                first.render_mode,
            )
            undo.pop_all()
        self._layout = BatchLayout(self.single_observation_space, self.num_envs)
        self._batch_infos = InfoBatcher()
        self._actions: Any = None

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._block.envs

    def _batch(self) -> Any:
        layout = self._layout
        if not layout.fixed:
            return layout.stack(self._block.obs)
        arrays = layout.empty()
        layout.write(arrays, 0, self._block.obs)
        return layout.batch(arrays)

    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        mask: NDArray[np.bool_] | None,
    ) -> tuple[Any, dict[str, Any]]:
        self._block.reset(seeds, options, None if mask is None else mask.tolist())
        return self._batch(), self._batch_infos(self._block.infos, self._add_info)

    def _begin_step(self, actions: Any) -> None:
        self._actions = actions

    def _end_step(self) -> StepResult:
        n, block = self.num_envs, self._block
        rewards = np.empty(n, dtype=np.float64)
        terminated, truncated = np.empty(n, dtype=np.bool_), np.empty(n, dtype=np.bool_)
        block.step(self._actions, rewards, terminated, truncated)
        infos = self._batch_infos(block.infos, self._add_info)
        for i, obs, info in block.finals:
            infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, i)
        return self._batch(), rewards, terminated, truncated, infos

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        return self._block.call(name, each)

    def _set_attr_each(self, name: str, values: list[Any]) -> None:
        self._block.set_attr(name, values)

    def _render(self) -> list[Any]:
        return self._block.render()

    def close_extras(self, **kwargs: Any) -> None:
        """Closes every environment."""
        self._block.close()
