"""The environments of Meta-World's classes, built on first use."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium
from gymnasium.spaces import Space

from mtwrappers.metaworld.class_env import SawyerClassEnv, SawyerSettings
from mtwrappers.metaworld.set_task_dict import Layout
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

Env: TypeAlias = gymnasium.Env[Any, Any]
Wrapper: TypeAlias = Callable[[Env, Any], Env]


class ClassEnvs:
    """One environment per class, bare and wrapped, built on first use.

    It pickles and copies as a plan: a copy builds its own environments.

    Args:
        settings: How to build the classes.
        max_episode_steps: When to truncate, ``None`` for never.
        wrapper: ``wrapper(env, task)`` is applied to each, ``task`` being a `metaworld.Task`.
    """

    def __init__(
        self, settings: SawyerSettings, max_episode_steps: int | None, wrapper: Wrapper | None
    ) -> None:
        self.settings = settings
        self._max_episode_steps = max_episode_steps
        self._wrapper = wrapper
        self.built: dict[str, tuple[SawyerClassEnv, Env]] = {}

    def get(
        self, task: Any, layout: Layout, expected: Space[Any] | None
    ) -> tuple[SawyerClassEnv, Env]:
        """The environment of a task's class, bare and wrapped.

        Args:
            task: A `metaworld.Task`.
            layout: The classes and the observation space.
            expected: The observation space that a wrapped environment after the first must have.

        Raises:
            TypeError: If the wrapper returns no environment.
            ValueError: If the wrapper gives it another observation space than the first.
        """
        name = task.env_name
        if name in self.built:
            return self.built[name]
        bare = SawyerClassEnv(
            name, layout.classes[name], layout.box, self.settings, self._max_episode_steps
        )
        env: Env = bare
        if layout.onehot:
            env = TaskOnehotWrapper(bare, list(layout.classes).index(name), len(layout.classes))
        if self._wrapper is not None:
            with contextlib.ExitStack() as undo:
                undo.callback(bare.close)
                bare.set_task(task)
                env = self._wrapper(env, task)
                if not isinstance(env, gymnasium.Env):
                    raise TypeError(
                        f"wrapper must return a gymnasium.Env for {name!r}, got {env!r}"
                    )
                if self.built and env.observation_space != expected:
                    raise ValueError(
                        f"wrapper gives {name!r} the observation space {env.observation_space}, "
                        f"expected {expected} as for the other classes"
                    )
                undo.pop_all()
        self.built[name] = bare, env
        return bare, env

    def close(self) -> None:
        """Closes every environment that was built."""
        with contextlib.ExitStack() as stack:  # all of them, whatever one of them does
            for _, env in self.built.values():
                stack.callback(env.close)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "built": {}}
