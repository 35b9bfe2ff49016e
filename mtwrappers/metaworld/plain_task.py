"""A `metaworld.Task`, whose data is a pickle, as what JSON knows and an array, and back."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import Any

import numpy as np

from mtwrappers.metaworld.upstream import all_classes, metaworld


def is_task(value: Any) -> bool:
    """Whether this is a `metaworld.Task`; does not import Meta-World."""
    return type(value).__name__ == "Task" and type(value).__module__.startswith("metaworld")


def to_plain(task: Any) -> list[Any]:
    """The class name, the random vector and whether the goal is hidden.

    Raises:
        TypeError: If the task is of a class that is not Meta-World's own.
    """
    data = pickle.loads(task.data)
    if data["env_cls"] is not all_classes().get(task.env_name):
        raise TypeError(f"{task.env_name!r} is {data['env_cls']}, no class of Meta-World's own")
    return [task.env_name, np.array(data["rand_vec"]), bool(data["partially_observable"])]


def from_plain(plain: Sequence[Any]) -> Any:
    """The task that `to_plain` described.

    Raises:
        ValueError: If there is no such class.
    """
    name, rand_vec, hidden = plain
    if name not in all_classes():
        raise ValueError(f"expected a class of Meta-World, got {name!r}")
    cls = all_classes()[name]
    data = {"rand_vec": rand_vec, "env_cls": cls, "partially_observable": hidden}
    return metaworld().Task(env_name=name, data=pickle.dumps(data))
