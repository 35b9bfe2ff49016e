"""Calls of environments: of a method or an attribute by its name, or of a function."""

from __future__ import annotations

import copy
import functools
import importlib
import pickle
import reprlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import gymnasium

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.errors import NotDeterministicError, with_place
from mtwrappers.state import env_state as layers

# The arguments of a call for each environment; ``None`` leaves an environment out.
EachCall: TypeAlias = "Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None]"
Function = TypeVar("Function", bound=Callable[..., Any])

# Methods that change nothing.
READ_ONLY_CALLS = frozenset(
    {
        "exact_task_state",
        "render",
        "has_wrapper_attr",
        "get_wrapper_attr",
        "get_task",
        "get_task_obs",
        "get_task_state",
        "get_checkpoint",
        "get_state",
    }
)
# Methods that set the task of the next episode.
_TASK_SETTERS = ("set_task", "set_task_state")
# Functions of an environment that are called by name, like its methods. They change only what the
# state of a wrapper has.
_NAMED_FUNCTIONS = {"set_statistics_updates": layers.set_statistics_updates}


def read_only(function: Function) -> Function:
    """Marks a function or method that does not change the environment that it is called with.

    A journal does not record calls of it.

    >>> from mtwrappers import as_vector
    >>> from mtwrappers.vector.calls import read_only
    >>> angle = read_only(lambda env: float(env.unwrapped.state[0]))
    >>> envs = as_vector("Pendulum-v1", 2, journal=True)
    >>> obs, infos = envs.reset(seed=0)
    >>> [round(value, 2) for value in envs.call(angle)]
    [0.86, 0.07]
    >>> envs.close()
    """
    function.read_only = True  # type: ignore[attr-defined]
    return function


@dataclass(frozen=True)
class Call:
    """A call of one environment that may have changed it.

    Attributes:
        name: The method or attribute, or a function of the environment.
        args: The positional arguments.
        kwargs: The keyword arguments.
        raised: Whether it raised an exception.
        without_state: The class of the wrapper or environment that has the method, if it has no
            ``get_state`` that returns what the call has changed; empty otherwise.
    """

    name: str | Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    raised: bool = False
    without_state: str = ""

    @property
    def is_task_setter(self) -> bool:
        """Whether it sets the task of the next episode."""
        return self.name in _TASK_SETTERS

    def __str__(self) -> str:
        """Returns the call as it is written in Python, with long arguments shortened."""
        arguments = [reprlib.repr(value) for value in self.args]
        arguments += [f"{key}={reprlib.repr(value)}" for key, value in self.kwargs.items()]
        is_name = isinstance(self.name, str)
        name = self.name if is_name else getattr(self.name, "__qualname__", repr(self.name))
        return f"{name}({', '.join(arguments)})"

    def repeat(self, env: gymnasium.Env[Any, Any]) -> None:
        """Makes the call again, in a new environment.

        Raises:
            NotDeterministicError: If it succeeded before and now raises, or the other way round.
        """
        raised = None
        try:
            # Copies, because an environment may keep and change its arguments.
            find_call(env, self.name, copy.deepcopy(self.args), copy.deepcopy(self.kwargs))[0]()
        except Exception as exc:
            raised = exc
        if (raised is not None) != self.raised:
            outcome = "raised, and does not" if raised is None else "succeeded, and raises"
            reason = "" if raised is None else f": {type(raised).__name__}: {raised}"
            raise NotDeterministicError(
                f"the call {self} {outcome} when it is replayed in a new environment{reason}"
            ) from raised


def find_call(
    env: gymnasium.Env[Any, Any],
    name: str | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> tuple[Callable[[], Any], bool]:
    """Finds the target of a call: a function, or a method or attribute of the environment.

    Returns:
        A callable that makes the call, or reads the attribute; and whether it may change the
        environment.

    Raises:
        TypeError: If ``name`` is neither a name nor a function.
        AttributeError: If the environment has no such method or attribute.
    """
    if not isinstance(name, str):
        if not callable(name):
            raise TypeError(
                f"expected the name of a method or attribute, or a function of an environment, got "
                f"{name!r}"
            )
        changes = not getattr(name, "read_only", False)
        return functools.partial(name, env, *args, **kwargs), changes
    if name in _NAMED_FUNCTIONS:
        return functools.partial(_NAMED_FUNCTIONS[name], env, *args, **kwargs), True
    try:
        value = env.get_wrapper_attr(name)
    except AttributeError as exc:
        names = {attribute for layer in layers.list_wrappers(env) for attribute in dir(layer)}
        if name in names:  # such as a property that raises
            raise
        hint = did_you_mean(name, sorted(public for public in names if not public.startswith("_")))
        message = f"{env} has no method or attribute {name!r}"
        raise AttributeError(f"{message}: {hint}" if hint else message) from exc
    if not callable(value):
        return lambda: value, False
    changes = name not in READ_ONLY_CALLS and not getattr(value, "read_only", False)
    return functools.partial(value, *args, **kwargs), changes


@read_only
def has_trials(env: gymnasium.Env[Any, Any]) -> bool:
    """Whether a wrapper has a method ``begin_trial``, such as `RL2Observation`.

    A wrapper cannot see that a task is set which is equal to the last one. The environment at the
    bottom can, so that a method of this name there is not called.
    """
    *wrappers, _ = layers.list_wrappers(env)
    return any(hasattr(type(wrapper), "begin_trial") for wrapper in wrappers)


def begin_trial(env: gymnasium.Env[Any, Any]) -> None:
    """Makes the next reset begin a trial, in a wrapper that has trials."""
    if has_trials(env):
        env.get_wrapper_attr("begin_trial")()


@read_only
def find_similar_attributes(env: gymnasium.Env[Any, Any], name: str) -> str | None:
    """A question that suggests attributes like ``name``; ``None`` if an environment has it."""
    names = {attribute for layer in layers.list_wrappers(env) for attribute in dir(layer)}
    # A property that raises is an attribute as well; one of `__getattr__` is in no list.
    if name in names or env.has_wrapper_attr(name):
        return None
    return did_you_mean(name, sorted(public for public in names if not public.startswith("_")))


def warn_of_new_attribute(name: str, hints: Sequence[str | None]) -> None:
    """Warns that an attribute is about to be set which no environment has.

    Args:
        name: The attribute.
        hints: What `find_similar_attributes` returned for each environment.
    """
    if not hints or None in hints:
        return
    hint = next(filter(None, hints), "to add it on purpose, define it in the environment's class")
    warnings.warn(
        f"set_attr sets a new attribute {name!r}, which no environment had, so that nothing may "
        f"read it: {hint}",
        stacklevel=find_stacklevel(),
    )


def class_without_state(env: gymnasium.Env[Any, Any], call: Call) -> str:
    """The wrapper or environment that has no state for what a call changes; empty otherwise."""
    target = call.name if isinstance(call.name, str) else ""
    if target in _NAMED_FUNCTIONS:
        return ""
    if target == "set_wrapper_attr":
        target = call.args[0] if call.args else call.kwargs.get("name", "")
    return layers.find_undeclared(env, target)


def replayable(name: str | Callable[..., Any], arguments: EachCall) -> EachCall:
    """Copies of the arguments of a call, which a journal keeps.

    Raises:
        TypeError: If the call could not be replayed.
        Exception: Whatever else the copies raise.
    """
    is_read_only = isinstance(name, str) and name in READ_ONLY_CALLS
    if is_read_only or getattr(name, "read_only", False):
        return arguments
    if not isinstance(name, str) and not _is_importable(name):
        raise TypeError(
            f"an executor that keeps a journal must be able to replay a call, and {name!r} cannot "
            "be imported by its name: pass the name of a method, or a function that "
            "can be imported, or mark one that changes nothing with "
            "mtwrappers.vector.calls.read_only"
        )
    try:
        return copy.deepcopy(arguments)
    except (TypeError, copy.Error, pickle.PickleError) as exc:
        raise TypeError(
            "an executor that keeps a journal must be able to replay a call, and the "
            f"arguments of {name!r} cannot be copied: {exc}"
        ) from exc
    except Exception as exc:
        # One of their class, or of a signal's handler, which has to stay what it is.
        with_place(exc, f"while the arguments of {name!r} were copied for the journal")
        raise


def _is_importable(function: Any) -> bool:
    """Whether a function can be imported by its module and name."""
    name, module = getattr(function, "__qualname__", ""), getattr(function, "__module__", None)
    if not name or not module or "<" in name:
        return False
    try:
        imported: Any = importlib.import_module(module)
    except ImportError:  # such as a script that was run by `exec`
        return False
    for attribute in name.split("."):
        imported = getattr(imported, attribute, None)
    return imported is function
