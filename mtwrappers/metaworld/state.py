"""Meta-World's objects in a state, for `mtwrappers.state.packages`.

Its tasks are plain data, and the states of its classes are registered here.

Meta-World unpickles ``task.data`` whenever a task is set, and arrays have an attribute ``data``
too. So data from a file reaches ``set_task`` only as a `metaworld.Task` that this package has built
from plain values (see `mtwrappers.metaworld.tasks`).
"""

from __future__ import annotations

import functools
import reprlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from metaworld import wrappers
from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.common.checks import check_flag, check_index
from mtwrappers.common.types import State
from mtwrappers.metaworld.blueprint import check_vector
from mtwrappers.metaworld.tasks import from_plain, is_task, to_plain
from mtwrappers.metaworld.upstream import is_upstream
from mtwrappers.state.registry import (
    attribute_functions,
    get_random_stream,
    register_state,
    require_names,
    set_random_stream,
)

__all__ = ["from_plain", "guard", "is_plain", "to_plain"]

is_plain = is_task

_TASK_INDEX = "current_task_idx"  # which only one of the two wrappers that select tasks has


TaskSelectWrapper: TypeAlias = (
    wrappers.RandomTaskSelectWrapper | wrappers.PseudoRandomTaskSelectWrapper
)


def _get_task_selection(wrapper: TaskSelectWrapper) -> State:
    state = {"tasks": wrapper.tasks, "sample_tasks_on_reset": wrapper.sample_tasks_on_reset}
    if hasattr(wrapper, _TASK_INDEX):
        state[_TASK_INDEX] = wrapper.current_task_idx
    return state


def _set_task_selection(wrapper: TaskSelectWrapper, state: State) -> None:
    values = require_names(state, _get_task_selection(wrapper), wrapper)
    tasks = values["tasks"]
    if not (isinstance(tasks, list) and tasks and all(map(is_task, tasks))):
        raise ValueError(f"expected a list of tasks, got {reprlib.repr(tasks)}")
    samples = check_flag(values["sample_tasks_on_reset"], "sample_tasks_on_reset")
    if _TASK_INDEX in values:
        index = values[_TASK_INDEX]
        before_first_task = type(index) is int and index == -1
        wrapper.current_task_idx = (
            index if before_first_task else check_index(index, len(tasks), _TASK_INDEX)
        )
    wrapper.tasks, wrapper.sample_tasks_on_reset = tasks, samples


def _get_sawyer_state(env: SawyerXYZEnv) -> State:
    return {
        **get_random_stream(env),
        "_set_task_called": env._set_task_called,
        "_freeze_rand_vec": env._freeze_rand_vec,
        "_last_rand_vec": env._last_rand_vec,
    }


def _set_sawyer_state(env: SawyerXYZEnv, state: State) -> None:
    names = {"np_random", "_set_task_called", "_freeze_rand_vec", "_last_rand_vec"}
    values = require_names(state, names, env)
    flags = {
        name: check_flag(values[name], name) for name in ("_set_task_called", "_freeze_rand_vec")
    }
    vector = values["_last_rand_vec"]
    if vector is not None:
        if not isinstance(vector, np.ndarray):
            raise ValueError(f"expected a random vector, got {reprlib.repr(vector)}")
        # Meta-World would redraw a vector forever that puts an object too close to its goal.
        for cls in filter(is_upstream, type(env).__mro__[:-1]):
            check_vector(cls, vector, f"the random vector of {cls.__name__}", bounded=False)
    set_random_stream(env, {"np_random": values["np_random"]})
    env._set_task_called = flags["_set_task_called"]
    env._freeze_rand_vec = flags["_freeze_rand_vec"]
    env._last_rand_vec = vector


register_state(wrappers.AutoTerminateOnSuccessWrapper, *attribute_functions("terminate_on_success"))
register_state(
    wrappers.NormalizeRewardsExponential, *attribute_functions("_reward_mean", "_reward_var")
)
register_state(wrappers.RandomTaskSelectWrapper, _get_task_selection, _set_task_selection)
register_state(wrappers.PseudoRandomTaskSelectWrapper, _get_task_selection, _set_task_selection)
register_state(SawyerXYZEnv, _get_sawyer_state, _set_sawyer_state)


def guard(env: object) -> None:
    """Makes the Sawyer environments inside ``env`` accept only `metaworld.Task`s as tasks.

    Args:
        env: An environment, in any wrappers, that may receive data from a file.
    """
    for sawyer in _find_sawyers(env):
        if not hasattr(type(sawyer), _GUARDED):
            cls: Any = type(sawyer)
            sawyer.__class__ = _guarded_class(cls)


_GUARDED = "_accepts_tasks_alone"  # the attribute of a guarded class


@functools.cache
def _guarded_class(cls: Any) -> type[Any]:
    """A subclass whose ``set_task`` accepts tasks alone; copies and pickles are guarded too.

    If ``cls`` has a ``set_task`` of its own, it accepts plain values as well, but no arrays.
    """
    is_overridden = cls.set_task is not SawyerXYZEnv.set_task

    def set_task(self: SawyerXYZEnv, *args: object, **kwargs: object) -> object:
        for argument in (*args, *kwargs.values()):
            # Nothing else has data that could be unpickled.
            types = {type(item) for item in _iterate_items(argument)}
            is_scalar = types <= {type(None), bool, int, float, str}
            if not is_task(argument) and not (is_overridden and is_scalar):
                raise TypeError(
                    f"expected a metaworld.Task, got {reprlib.repr(argument)}: Meta-World "
                    "unpickles the data of a task, which may come from an untrusted file"
                )
        return cls.set_task(self, *args, **kwargs)

    def reduce(self: SawyerXYZEnv, protocol: int) -> tuple[object, ...]:
        function, arguments, *state = cls.__reduce_ex__(self, protocol)
        # A pickle finds `cls` by its name, which is that of the guarded class too.
        new_arguments = [cls if argument is guarded else argument for argument in arguments]
        return _build_guarded, (function, *new_arguments), *state

    members = {
        "set_task": set_task,
        "__reduce_ex__": reduce,
        "__module__": cls.__module__,
        "__qualname__": cls.__qualname__,
        _GUARDED: True,
    }
    guarded: type[Any] = type(cls.__name__, (cls,), members)
    return guarded


def _build_guarded(function: Callable[..., object], *arguments: object) -> object:
    """Builds a copy as ``function(*arguments)`` does, and guards it."""
    env = function(*arguments)
    guard(env)
    return env


def _find_sawyers(env: object) -> list[SawyerXYZEnv]:
    """The Sawyer environments inside an environment, under any attributes."""
    envs_by_id, pending = {id(env): env}, [env]
    while pending:
        layer = pending.pop()
        for value in _iterate_items(list(vars(layer).values())):
            if isinstance(value, gymnasium.Env) and id(value) not in envs_by_id:
                envs_by_id[id(value)] = value
                pending.append(value)
    return [layer for layer in envs_by_id.values() if isinstance(layer, SawyerXYZEnv)]


def _iterate_items(value: object) -> Iterator[object]:
    """The items in a value, in any number of nested containers."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, deque)) and not is_task(value):
        for item in value:
            yield from _iterate_items(item)
    else:
        yield value
