"""Environment updates: small, picklable callables ``update(old_env=None) -> env``.

A sampler sends one to wherever an environment lives, and there it makes, turns or replaces it. The
four classes are garage's (https://github.com/rlworkgroup/garage).
"""

from __future__ import annotations

import abc
import copy
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import gymnasium

from mtwrappers.common.checks import check_callable, check_env

Env: TypeAlias = gymnasium.Env[Any, Any]


class EnvUpdate(abc.ABC):
    """Turns the environment that there is into the one that is wanted."""

    @abc.abstractmethod
    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns the wanted environment.

        Args:
            old_env: The environment in use so far, not to be used after the call.
        """


class NewEnvUpdate(EnvUpdate):
    """Constructs a new environment and closes the old one.

    Args:
        env_constructor: Makes the environment. It must pickle if the update is to.

    Raises:
        TypeError: If it is not callable.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import NewEnvUpdate
    >>> update = NewEnvUpdate(partial(gymnasium.make, "Pendulum-v1", g=2.0))
    >>> update().unwrapped.g
    2.0
    """

    def __init__(self, env_constructor: Callable[[], Env]) -> None:
        self.env_constructor = check_callable(env_constructor, "env_constructor")

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns a new environment."""
        if old_env is not None:
            old_env.close()
        made: Env = check_env(self.env_constructor(), "what env_constructor makes")
        return made


class SetTaskUpdate(EnvUpdate):
    """Sets a task, on the old environment if it is of the right kind.

    An old environment is of the right kind when it, or what it wraps, is an instance of
    ``env_type``, or was made by an update with the same ``env_type``. Any other is closed, with a
    warning, and a new one made.

    Args:
        env_type: Makes an environment that has ``set_task``: a class, or another constructor.
        task: What ``set_task`` is given.
        wrapper_constructor: ``wrapper(env, task) -> env`` is applied to an environment that the
            update makes, and applied anew, in place of the wrapper before it, when an update
            turns that environment to another class of Meta-World.

    Raises:
        TypeError: If a constructor is not callable.

    >>> from mtwrappers import PointGoalEnv, SetTaskUpdate
    >>> env = SetTaskUpdate(PointGoalEnv, {"goal": (1.0, 0.0)})()
    >>> SetTaskUpdate(PointGoalEnv, {"goal": (0.0, 1.0)})(env) is env
    True
    """

    def __init__(
        self,
        env_type: Callable[[], Env],
        task: Any,
        wrapper_constructor: Callable[[Env, Any], Env] | None = None,
    ) -> None:
        self.env_type = check_callable(env_type, "env_type")
        self.task = task
        if wrapper_constructor is not None:
            check_callable(wrapper_constructor, "wrapper_constructor")
        self.wrapper_constructor = wrapper_constructor

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns an environment on the task; `reset` begins it."""
        layers = list(_layers(old_env))
        base = next(filter(self._is_right, layers), None)
        if old_env is None or base is None:
            if old_env is not None:
                name = getattr(self.env_type, "__name__", self.env_type)
                warnings.warn(
                    f"expected an environment of {name} to set a task on, got {old_env}; it is "
                    "closed and a new one made",
                    stacklevel=2,
                )
                old_env.close()
            base = check_env(self.env_type(), "what env_type makes", "set_task(task)")
            # By which the next update knows that this environment is of its kind.
            base.made_by = self.env_type
            base.get_wrapper_attr("set_task")(self.task)
            return self._wrap(base)
        base.get_wrapper_attr("set_task")(self.task)
        top = next((i for i, layer in enumerate(layers) if "wrapped_for" in layer.__dict__), None)
        if top is None or layers[top].__dict__["wrapped_for"] == _class(self.task):
            return old_env
        wrapped = self._wrap(base)
        if top == 0:
            return wrapped
        # The wrappers that were put around it since stay.
        layers[top - 1].env = wrapped  # type: ignore[attr-defined]
        return old_env

    def _wrap(self, base: Env) -> Env:
        if self.wrapper_constructor is None:
            return base
        env = self.wrapper_constructor(base, self.task)
        env.wrapped_for = _class(self.task)  # type: ignore[attr-defined]
        return env

    def _is_right(self, env: Env) -> bool:
        made_alike = _same_maker(env.__dict__.get("made_by"), self.env_type)
        return made_alike or (isinstance(self.env_type, type) and isinstance(env, self.env_type))


class ExistingEnvUpdate(EnvUpdate):
    """Returns an environment that already exists, and leaves the old one as it is.

    It pickles with its environment, which should therefore pickle small.

    Args:
        env: The environment.

    Raises:
        TypeError: If it is none.

    >>> from mtwrappers import ExistingEnvUpdate, PointGoalEnv
    >>> env = PointGoalEnv()
    >>> ExistingEnvUpdate(env)() is env
    True
    """

    def __init__(self, env: Env) -> None:
        self.env: Env = check_env(env, "env")

    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns the environment; the old one, which may be in the same pool, stays open."""
        return self.env

    def __deepcopy__(self, memo: dict[int, Any]) -> ExistingEnvUpdate:
        return type(self)(copy_env(self.env))


# How a Sawyer environment of Meta-World 3.1.1 renders, and what setting a task sets.
_RENDERING = ("render_mode", "camera_name", "camera_id", "width", "height")
_TASK = ("_set_task_called", "_freeze_rand_vec", "_last_rand_vec", "seeded_rand_vec")


def copy_env(env: Env) -> Env:
    """A copy of an environment, to be reset.

    A bare Sawyer environment is built anew on its task: upstream's own deep copies are broken.

    >>> from mtwrappers import PointGoalEnv
    >>> from mtwrappers.tasks.updates import copy_env
    >>> env = PointGoalEnv()
    >>> env.set_task({"goal": (0.0, 1.0)})
    >>> copy_env(env).get_task()
    {'goal': (0.0, 1.0)}
    """
    sawyer: Any = env.unwrapped
    if not hasattr(sawyer, "sawyer_observation_space"):
        try:
            return copy.deepcopy(env)
        except Exception as exc:
            raise TypeError(f"cannot copy {env}: {exc}") from exc
    if sawyer is not env:
        raise TypeError(
            f"cannot copy {env}: wrap a MetaWorldSetTaskEnv, which copies, instead of a bare "
            "Sawyer environment"
        )
    given = {name: getattr(sawyer, name) for name in ("reward_function_version", *_RENDERING)}
    other: Env = type(sawyer)(**given)
    for name in (*_TASK, "_partially_observable"):
        setattr(other, name, copy.copy(getattr(sawyer, name)))
    # Upstream computes the space once, and from whether the goal is visible.
    other.__dict__.pop("sawyer_observation_space", None)
    return other


def _layers(env: Env | None) -> Iterator[Env]:
    """An environment and what it wraps, from the outside to the inside."""
    while env is not None:
        yield env
        env = env.env if isinstance(env, gymnasium.Wrapper) else None


def _class(task: Any) -> str | None:
    """The class of a Meta-World task, or of a task of `MetaWorldSetTaskEnv`."""
    inner = task.get("inner") if isinstance(task, dict) else task
    return getattr(inner, "env_name", None)


def _same_maker(one: Any, other: Any) -> bool:
    """Whether two constructors are the same, also after they were pickled."""
    if isinstance(one, functools.partial) and isinstance(other, functools.partial):
        return (one.func, one.args, one.keywords) == (other.func, other.args, other.keywords)
    return bool(one == other)
