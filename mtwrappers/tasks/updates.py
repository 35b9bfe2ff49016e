"""Environment updates: small, picklable callables ``update(old_env=None) -> env``.

A sampler sends one to wherever an environment lives, and there it makes, turns or replaces it. The
four classes are garage's (https://github.com/rlworkgroup/garage).
"""

from __future__ import annotations

import abc
import functools
import warnings
from collections.abc import Callable
from typing import Any, TypeAlias

import gymnasium

from mtwrappers.tasks.copying import copy_env

Env: TypeAlias = gymnasium.Env[Any, Any]


class EnvUpdate(abc.ABC):
    """Turns the environment that there is into the one that is wanted."""

    @abc.abstractmethod
    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns the wanted environment.

        Args:
            old_env: The environment in use so far, to be reused or closed.
        """


class NewEnvUpdate(EnvUpdate):
    """Constructs a new environment and closes the old one.

    Args:
        env_constructor: Makes the environment. It must pickle if the update is to.

    Raises:
        TypeError: If it is not callable.
    """

    def __init__(self, env_constructor: Callable[[], Env]) -> None:
        if not callable(env_constructor):
            raise TypeError(f"env_constructor must be callable, got {env_constructor!r}")
        self.env_constructor = env_constructor

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns a new environment."""
        if old_env is not None:
            old_env.close()
        return self.env_constructor()


class SetTaskUpdate(EnvUpdate):
    """Sets a task, on the old environment if it is of the right kind.

    Args:
        env_type: Makes an environment that has ``set_task``: a class, or another constructor. An
            old environment is of the right kind when it, or what it wraps, is an instance of that
            class, or was made by an update with the same constructor.
        task: What ``set_task`` is given.
        wrapper_constructor: ``wrapper(env, task) -> env`` is applied to a new environment.

    Raises:
        TypeError: If a constructor is not callable.
    """

    def __init__(
        self,
        env_type: Callable[[], Env],
        task: Any,
        wrapper_constructor: Callable[[Env, Any], Env] | None = None,
    ) -> None:
        if not callable(env_type):
            raise TypeError(f"env_type must be callable, got {env_type!r}")
        if wrapper_constructor is not None and not callable(wrapper_constructor):
            raise TypeError(f"wrapper_constructor must be callable, got {wrapper_constructor!r}")
        self.env_type = env_type
        self.task = task
        self.wrapper_constructor = wrapper_constructor

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns an environment on the task; `reset` begins it."""
        if old_env is not None and not self._is_right(old_env):
            warnings.warn(
                f"expected an environment of {_name(self.env_type)} to set a task on, got "
                f"{old_env}; it is closed and a new one made",
                stacklevel=2,
            )
            old_env.close()
            old_env = None
        if old_env is not None:
            old_env.get_wrapper_attr("set_task")(self.task)
            return old_env
        env = self.env_type()
        env.get_wrapper_attr("set_task")(self.task)
        if self.wrapper_constructor is not None:
            env = self.wrapper_constructor(env, self.task)
        # What tells the next update that this environment is of its own kind.
        env.made_by = self.env_type  # type: ignore[attr-defined]
        return env

    def _is_right(self, env: Env) -> bool:
        while True:
            if _same_maker(env.__dict__.get("made_by"), self.env_type):
                return True
            if isinstance(self.env_type, type) and isinstance(env, self.env_type):
                return True
            if not isinstance(env, gymnasium.Wrapper):
                return False
            env = env.env


class ExistingEnvUpdate(EnvUpdate):
    """Returns an environment that already exists, and closes another old one.

    It pickles with its environment, which should therefore pickle small.

    Args:
        env: The environment.
    """

    def __init__(self, env: Env) -> None:
        self.env = env

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns the environment."""
        if old_env is not None and old_env is not self.env:
            old_env.close()
        return self.env

    def __deepcopy__(self, memo: dict[int, Any]) -> ExistingEnvUpdate:
        return type(self)(copy_env(self.env))


def _same_maker(one: Any, other: Any) -> bool:
    """Whether two constructors are the same, also after they were pickled."""
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        return (one.func, one.args, one.keywords) == (other.func, other.args, other.keywords)
    return bool(one == other)


def _name(constructor: Any) -> str:
    return getattr(constructor, "__name__", repr(constructor))
