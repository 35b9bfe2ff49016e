"""A block of environments that are stepped one after another, with autoreset.

Both executors step blocks: the iterative one has a single block in its own process, the parallel
one a block in each worker.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.closing import close_all
from mtwrappers.errors import with_context
from mtwrappers.vector.infos import Info
from mtwrappers.vector.makers import Maker


class EnvBlock:
    """Environments ``offset`` to ``offset + n - 1`` of a vector environment.

    After `reset` and `step`, `obs` and `infos` hold each environment's last observation and info
    (``None`` where a reset left an environment out), and `finals` the last observation and info of
    the episodes that a SAME_STEP autoreset has ended.

    Args:
        makers: The constructors of the block's environments.
        offset: The index of the first of them.
        mode: How episodes begin after others end.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.

    Raises:
        Exception: Whatever a constructor raises, with the environment named.
    """

    def __init__(
        self,
        makers: Sequence[Maker],
        offset: int,
        mode: AutoresetMode,
        max_path_length: int | None = None,
    ) -> None:
        self.offset = offset
        self.envs: list[gymnasium.Env[Any, Any]] = []
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for maker in makers:
                self.envs.append(_construct(maker, offset + len(self.envs)))
            undo.pop_all()
        self.obs: list[Any] = [None] * len(self.envs)
        self.infos: list[Info | None] = [None] * len(self.envs)
        self.finals: list[tuple[int, Any, Info]] = []
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._next_step = mode is AutoresetMode.NEXT_STEP
        self._over = [False] * len(self.envs)
        # As TimeLimit would, without a wrapper's call in every step.
        self._limit = sys.maxsize if max_path_length is None else max_path_length
        self._elapsed = [0] * len(self.envs)
        self._names: list[Any] = [None] * len(self.envs)

    def reset(
        self,
        seeds: Sequence[int | None],
        options: dict[str, Any] | None,
        mask: Sequence[bool] | None,
    ) -> None:
        """Resets the environments, or those in ``mask``.

        Args:
            seeds: One for each environment of the block.
            options: Handed to each.
            mask: Which to reset; all by default.
        """
        self.finals = []
        i = 0
        try:
            for i, env in enumerate(self.envs):
                if mask is not None and not mask[i]:
                    self.infos[i] = None
                    continue
                self.obs[i], info = env.reset(seed=seeds[i], options=options)
                self.infos[i] = info
                self._over[i] = False
                self._elapsed[i] = 0
                self._names[i] = info.get("task_name")
        except Exception as exc:
            raise self._named(exc, i) from exc

    def step(
        self,
        actions: Any,
        rewards: NDArray[Any],
        terminated: NDArray[Any],
        truncated: NDArray[Any],
    ) -> None:
        """Steps every environment and writes rewards and flags into the arrays, shape ``(n,)``.

        Args:
            actions: One for each environment, by its place in the block.
            rewards: Written, float64.
            terminated: Written, bool.
            truncated: Written, bool.
        """
        obs, infos, over, self.finals = self.obs, self.infos, self._over, []
        same_step, next_step = self._same_step, self._next_step
        elapsed, limit = self._elapsed, self._limit
        i = 0
        try:
            for i, env in enumerate(self.envs):
                if next_step and over[i]:
                    obs[i], infos[i] = env.reset()
                    rewards[i] = 0.0
                    terminated[i] = truncated[i] = over[i] = False
                    elapsed[i] = 0
                    continue
                obs[i], rewards[i], ended, cut, infos[i] = env.step(actions[i])
                elapsed[i] += 1
                if elapsed[i] >= limit:
                    cut = True
                terminated[i] = ended
                truncated[i] = cut
                over[i] = done = ended or cut
                if done and same_step:
                    self.finals.append((self.offset + i, obs[i], infos[i]))  # type: ignore[arg-type]
                    obs[i], info = env.reset()
                    elapsed[i] = 0
                    infos[i], self._names[i] = info, info.get("task_name")
        except Exception as exc:
            raise self._named(exc, i) from exc

    def call(
        self,
        name: str | Callable[..., Any],
        each: Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None],
    ) -> list[Any]:
        """Calls a method or a function, or reads an attribute, of each environment.

        Args:
            name: Looked up through the environment's wrappers; or a function of the environment.
            each: Arguments for each environment of the block; ``None`` leaves one alone, and its
                result is ``None``.
        """
        results: list[Any] = []
        i = 0
        try:
            for i, env in enumerate(self.envs):
                arguments = each[i]
                if arguments is None:
                    results.append(None)
                    continue
                args, kwargs = arguments
                if not isinstance(name, str):
                    results.append(name(env, *args, **kwargs))
                    continue
                value = env.get_wrapper_attr(name)
                results.append(value(*args, **kwargs) if callable(value) else value)
        except Exception as exc:
            raise self._named(exc, i) from exc
        return results

    def set_attr(self, name: str, values: Sequence[Any]) -> None:
        """Sets an attribute of each environment."""
        for env, value in zip(self.envs, values, strict=True):
            env.set_wrapper_attr(name, value)

    def render(self) -> list[Any]:
        """A frame of each environment."""
        return [env.render() for env in self.envs]

    def close(self) -> None:
        """Closes every environment."""
        close_all(self.envs)

    def _named(self, exc: Exception, i: int) -> Exception:
        name = f", task {self._names[i]!r}" if self._names[i] is not None else ""
        return with_context(exc, f"environment {self.offset + i}{name}")


def _construct(maker: Maker, index: int) -> gymnasium.Env[Any, Any]:
    try:
        env = maker()
    except Exception as exc:
        raise with_context(exc, f"the constructor of environment {index} failed") from exc
    if not isinstance(env, gymnasium.Env):
        raise TypeError(
            f"the constructor of environment {index} must return a gymnasium.Env, got {env!r}"
        )
    return env
