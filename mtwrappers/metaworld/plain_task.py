"""The data of a `metaworld.Task`: class, random vector, and whether the goal is hidden."""

from __future__ import annotations

import functools
import hashlib
import pickle
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mtwrappers.metaworld.upstream import all_classes, metaworld


def encode(name: str, cls: type[Any], rand_vec: Any, hidden: bool) -> Any:
    """Makes a `metaworld.Task`, byte for byte as Meta-World does."""
    data = {"rand_vec": rand_vec, "env_cls": cls, "partially_observable": hidden}
    return metaworld().Task(env_name=name, data=pickle.dumps(data))


def is_task(value: Any) -> bool:
    """Whether ``value`` is a `metaworld.Task`; does not import Meta-World."""
    return type(value).__name__ == "Task" and type(value).__module__.startswith("metaworld")


def check(task: Any) -> None:
    """Raises `TypeError` unless ``task`` is a `metaworld.Task`."""
    if not is_task(task):
        raise TypeError(f"expected a metaworld.Task, got {task!r}")


def decode(task: Any) -> dict[str, Any]:
    """The data of a task: ``rand_vec``, ``env_cls`` and ``partially_observable``.

    Raises:
        TypeError: If ``task`` is not a `metaworld.Task`, whose data alone is unpickled.
    """
    check(task)
    return dict(pickle.loads(task.data))


@functools.lru_cache(maxsize=10_000)
def check_vector(task: Any) -> None:
    """Raises `ValueError` for a random vector that Meta-World's reset would redraw forever."""
    from mtwrappers.metaworld import blueprint

    data = decode(task)
    vector = np.array(data["rand_vec"], dtype=np.float64)
    what = f"the random vector of {task.env_name}"
    blueprint.check_vector(data["env_cls"], vector, what, drawn=False)


def digest(tasks: Iterable[Any]) -> str:
    """The digest of a list of tasks, the same on every machine."""
    code = hashlib.sha256()
    for task in tasks:
        data = decode(task)
        code.update(f"{task.env_name} {data['partially_observable']} ".encode())
        code.update(np.asarray(data["rand_vec"], dtype="<f8").tobytes())
    return code.hexdigest()[:16]


def with_vector(task: Any, vector: Any) -> Any:
    """The same task with another random vector."""
    data = decode(task)
    return encode(task.env_name, data["env_cls"], np.array(vector), data["partially_observable"])


def to_plain(task: Any) -> list[Any]:
    """Returns a task as JSON values and an array.

    Raises:
        TypeError: If the task's class is not Meta-World's own.
    """
    data = decode(task)
    if data["env_cls"] is not all_classes().get(task.env_name):
        raise TypeError(f"{task.env_name!r} is {data['env_cls']}, not a class of Meta-World")
    return [task.env_name, np.array(data["rand_vec"]), bool(data["partially_observable"])]


def from_plain(plain: Sequence[Any]) -> Any:
    """Reverses `to_plain`, or raises `ValueError`."""
    name, rand_vec, hidden = plain
    if not isinstance(name, str) or name not in all_classes():
        raise ValueError(f"expected a class of Meta-World, got {name!r}")
    if not (isinstance(rand_vec, np.ndarray) and rand_vec.ndim == 1 and rand_vec.dtype.kind == "f"):
        raise ValueError(f"expected a random vector of {name}, got {rand_vec!r}")
    if not isinstance(hidden, bool):
        raise ValueError(f"expected True or False for the hidden goal of {name}, got {hidden!r}")
    task = encode(name, all_classes()[name], rand_vec, hidden)
    check_vector(task)
    return task
