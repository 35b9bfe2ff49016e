"""Environment updates: small, picklable callables ``update(old_env=None) -> env``.

A sampler sends an update to the process of an environment, where it makes, changes or replaces the
environment. The four classes are garage's (https://github.com/rlworkgroup/garage).
"""

from __future__ import annotations

import abc
import copy
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import gymnasium

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import check_callable, check_env
from mtwrappers.common.equality import same_values
from mtwrappers.common.types import AnyEnv
from mtwrappers.vector.calls import begin_trial

Env: TypeAlias = AnyEnv


class EnvUpdate(abc.ABC):
    """Turns an existing environment into the wanted one, or makes it."""

    @abc.abstractmethod
    def __call__(self, old_env: Env | None = None) -> Env:
        """Returns the wanted environment.

        Args:
            old_env: The environment in use so far; do not use it after the call.
        """


class NewEnvUpdate(EnvUpdate):
    """Constructs a new environment and closes the old one.

    Args:
        env_constructor: Makes the environment. It must be picklable if the update is to be.

    Raises:
        TypeError: If ``env_constructor`` is not callable.

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
        env: Env = check_env(self.env_constructor(), "what env_constructor makes")
        return env


class SetTaskUpdate(EnvUpdate):
    """Sets a task, on the old environment if it has the right type.

    This is the case if it, or an environment that it wraps, is an instance of ``env_type``, or was
    made by an update with the same ``env_type``. Any other old environment is closed, with a
    warning, and replaced.

    Args:
        env_type: Makes an environment that has ``set_task``: a class, or another constructor. If
            the update is to be pickled, it must be a class or function of a module, or a
            ``functools.partial`` of one. A lambda cannot be pickled, and its copies by
            ``cloudpickle`` do not recognize each other's environments.
        task: The argument of ``set_task``.
        wrapper_constructor: ``wrapper(env, task) -> env`` is applied to an environment that the
            update makes. When an update sets a task of another Meta-World class, it is applied
            again, and replaces the previous wrapper.

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
        base = next(filter(self._has_env_type, layers), None)
        if old_env is None or base is None:
            if old_env is not None:
                name = getattr(self.env_type, "__name__", self.env_type)
                is_local = "<" in getattr(self.env_type, "__qualname__", "")
                way_out = (
                    ". A lambda or local function is another one in each copy and process: pass a "
                    "class or function of a module, or a functools.partial of one"
                )
                warnings.warn(
                    f"expected an environment of {name} to set a task on, got {old_env}; it is "
                    f"closed and a new one made{way_out if is_local else ''}",
                    stacklevel=find_stacklevel(),
                )
                old_env.close()
            base = check_env(self.env_type(), "what env_type makes", "set_task(task)")
            # The next update recognizes the environment by it.
            base.made_by = self.env_type
            try:
                base.get_wrapper_attr("set_task")(self.task)
                return self._wrap(base)
            except BaseException:
                base.close()
                raise
        base.get_wrapper_attr("set_task")(self.task)
        begin_trial(old_env)
        index = next((i for i, layer in enumerate(layers) if "wrapped_for" in vars(layer)), None)
        if index is None or vars(layers[index])["wrapped_for"] == _find_class(self.task):
            return old_env
        wrapped = self._wrap(base)
        if index == 0:
            return wrapped
        # The wrappers outside of it stay.
        layers[index - 1].env = wrapped  # type: ignore[attr-defined]
        return old_env

    def _wrap(self, base: Env) -> Env:
        if self.wrapper_constructor is None:
            return base
        try:
            env = self.wrapper_constructor(base, self.task)
        except TypeError as exc:
            exc.add_note("in wrapper(env, task), which gets an environment and its task")
            raise
        env.wrapped_for = _find_class(self.task)  # type: ignore[attr-defined]
        return env

    def _has_env_type(self, env: Env) -> bool:
        is_instance = isinstance(self.env_type, type) and isinstance(env, self.env_type)
        return is_instance or same_values(vars(env).get("made_by"), self.env_type)


class ExistingEnvUpdate(EnvUpdate):
    """Returns an environment that already exists, and leaves the old one as it is.

    It is pickled together with its environment, which should therefore be small.

    Args:
        env: The environment.

    Raises:
        TypeError: If ``env`` is not an environment.

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


# The attributes of Meta-World 3.1.1's Sawyer environments for rendering, and for the task.
_RENDERING = ("render_mode", "camera_name", "camera_id", "width", "height")
_TASK = ("_set_task_called", "_freeze_rand_vec", "_last_rand_vec", "seeded_rand_vec")
# Further attributes that a program may have set.
_SETTINGS = ("_partially_observable", "max_path_length")


def copy_env(env: Env) -> Env:
    """Copies an environment; the copy needs a reset.

    A bare Sawyer environment is rebuilt on its task, because upstream's own deep copies are broken.

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
    settings = {name: getattr(sawyer, name) for name in ("reward_function_version", *_RENDERING)}
    sawyer_copy: Env = type(sawyer)(**settings)
    for name in (*_TASK, *_SETTINGS):
        setattr(sawyer_copy, name, copy.copy(getattr(sawyer, name)))
    # Upstream caches the space, which depends on whether the goal is visible.
    sawyer_copy.__dict__.pop("sawyer_observation_space", None)
    return sawyer_copy


def _layers(env: Env | None) -> Iterator[Env]:
    """An environment and all that it wraps, from the outermost to the innermost."""
    while env is not None:
        yield env
        env = env.env if isinstance(env, gymnasium.Wrapper) else None


def _find_class(task: Any) -> str | None:
    """The name of the class of a Meta-World task, or of a task of `MetaWorldSetTaskEnv`."""
    inner = task.get("inner") if isinstance(task, dict) else task
    return getattr(inner, "env_name", None)
