"""Meta-World's objects in a state, for `mtwrappers.state.packages`.

Its tasks are plain data, and each of its classes keeps certain attributes between two episodes.

Meta-World unpickles ``task.data`` whenever a task is set, and arrays have an attribute ``data``
too. So data from a file reaches ``set_task`` only as a `metaworld.Task` that this package has built
from plain values (see `mtwrappers.metaworld.tasks`).
"""

from __future__ import annotations

import reprlib
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium
import numpy as np
from metaworld import wrappers
from metaworld.sawyer_xyz_env import SawyerXYZEnv

from mtwrappers.metaworld.blueprint import check_vector
from mtwrappers.metaworld.tasks import from_plain, is_task, to_plain
from mtwrappers.metaworld.upstream import is_upstream

__all__ = ["attributes", "check", "from_plain", "guard", "is_plain", "to_plain"]

_ATTRIBUTES: dict[type[Any], tuple[str, ...]] = {
    wrappers.AutoTerminateOnSuccessWrapper: ("terminate_on_success",),
    wrappers.NormalizeRewardsExponential: ("_reward_mean", "_reward_var"),
    wrappers.PseudoRandomTaskSelectWrapper: ("tasks", "current_task_idx", "sample_tasks_on_reset"),
    wrappers.RandomTaskSelectWrapper: ("tasks", "sample_tasks_on_reset"),
    SawyerXYZEnv: ("_set_task_called", "_freeze_rand_vec", "_last_rand_vec"),
}

is_plain = is_task


def attributes(cls: type[Any]) -> tuple[str, ...]:
    """What a class of Meta-World, without its bases, keeps between episodes."""
    return _ATTRIBUTES.get(cls, ())


def check(layer: Any, values: Mapping[str, Any]) -> None:
    """Raises `ValueError` unless a layer may take these attributes from a file.

    Meta-World would redraw a random vector forever that puts an object too close to its goal.
    """
    if isinstance(layer, SawyerXYZEnv) and (vector := values.get("_last_rand_vec")) is not None:
        if not isinstance(vector, np.ndarray):
            raise ValueError(f"expected a random vector, got {reprlib.repr(vector)}")
        for cls in filter(is_upstream, type(layer).__mro__[:-1]):
            check_vector(cls, vector, f"the random vector of {cls.__name__}", drawn=False)


def guard(env: Any) -> None:
    """Makes the Sawyer environments inside ``env`` accept only `metaworld.Task`s as tasks.

    Args:
        env: An environment, in any wrappers, that may receive data from a file.
    """
    for sawyer in _find_sawyers(env):
        if not isinstance(vars(sawyer).get("set_task"), _SetTask):
            sawyer.set_task = _SetTask(sawyer)


class _SetTask:
    """The method ``set_task`` of a Sawyer environment, for tasks alone.

    A class with a ``set_task`` of its own may also be given plain values, but no arrays.
    """

    def __init__(self, sawyer: Any) -> None:
        self._sawyer = weakref.ref(sawyer)  # no reference cycle, so that it is freed at once
        self._overridden = type(sawyer).set_task is not SawyerXYZEnv.set_task

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for argument in (*args, *kwargs.values()):
            # Nothing else has data that could be unpickled.
            types = {type(item) for item in _iterate_items(argument)}
            is_scalar = types <= {type(None), bool, int, float, str}
            if not is_task(argument) and not (self._overridden and is_scalar):
                raise TypeError(
                    f"expected a metaworld.Task, got {reprlib.repr(argument)}: Meta-World "
                    "unpickles the data of a task, which may come from an untrusted file"
                )
        sawyer: Any = self._sawyer()
        return type(sawyer).set_task(sawyer, *args, **kwargs)


def _find_sawyers(env: Any) -> list[Any]:
    """The Sawyer environments inside an environment, under any attributes."""
    envs_by_id, pending = {id(env): env}, [env]
    while pending:
        layer = pending.pop()
        for value in _iterate_items(list(vars(layer).values())):
            if isinstance(value, gymnasium.Env) and id(value) not in envs_by_id:
                envs_by_id[id(value)] = value
                pending.append(value)
    return [layer for layer in envs_by_id.values() if isinstance(layer, SawyerXYZEnv)]


def _iterate_items(value: Any) -> Iterator[Any]:
    """The items in a value, in any number of nested containers."""
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, (list, tuple, deque)) and not is_task(value):
        for item in value:
            yield from _iterate_items(item)
    else:
        yield value
