"""The tasks of `MetaWorldSetTaskEnv`: small dicts that mean the same in every process.

Keys: ``benchmark`` (name), ``kind`` (``"train"`` or ``"test"``), ``add_env_onehot`` and
``goals_visible`` (bool), ``classes`` (all classes of the benchmark, which the observation space
depends on), and ``inner`` (the `metaworld.Task`).
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from typing import Any, TypeAlias

from mtwrappers.metaworld.upstream import all_classes, metaworld

SetTaskDict: TypeAlias = dict[str, Any]
TASK_KEYS = ("benchmark", "kind", "add_env_onehot", "goals_visible", "classes", "inner")


def check_task(task: Any) -> None:
    """Checks that a task has the form that `MetaWorldSetTaskEnv.sample_tasks` gives it.

    Raises:
        ValueError: If it has not; the message says what was expected.
    """
    if not isinstance(task, dict) or any(key not in task for key in TASK_KEYS):
        got = sorted(task) if isinstance(task, dict) else repr(task)
        raise ValueError(
            f"a task must be a dict with the keys {list(TASK_KEYS)}, as sample_tasks() returns "
            f"it; got {got}"
        )
    inner = task["inner"]
    if not isinstance(inner, metaworld().Task):
        raise ValueError(f"task['inner'] must be a metaworld.Task, got {inner!r}")
    if task["kind"] not in ("train", "test"):
        raise ValueError(f"task['kind'] must be 'train' or 'test', got {task['kind']!r}")
    classes = resolve_classes(task["classes"])
    if inner.env_name not in classes:
        raise ValueError(
            f"task['inner'] is of class {inner.env_name!r}, expected one of {list(classes)}"
        )
    data = _decode(inner)
    if not isinstance(data, dict) or data.get("env_cls") is not classes[inner.env_name]:
        raise ValueError(
            f"the data of task['inner'] is not that of class {inner.env_name!r}; got {data!r}"
        )
    if data.get("partially_observable") is not (not task["goals_visible"]):
        raise ValueError(
            f"task['goals_visible'] is {task['goals_visible']!r}, but task['inner'] has "
            f"partially_observable={data.get('partially_observable')!r}: the goal would not be "
            "shown as promised"
        )


def _decode(inner: Any) -> Any:
    try:
        return pickle.loads(inner.data)
    except Exception as exc:
        raise ValueError(f"the data of task['inner'] cannot be read: {exc}") from exc


def layout_of_task(task: SetTaskDict) -> tuple[Any, ...]:
    """What the observation space of a task depends on."""
    classes = tuple(resolve_classes(task["classes"]).items())
    return classes, task["goals_visible"], task["add_env_onehot"]


def shorten_classes(classes: Mapping[str, type[Any]]) -> Any:
    """The classes as a task holds them: names suffice for Meta-World's own, and are smaller."""
    known = all_classes()
    by_name = all(known.get(name) is cls for name, cls in classes.items())
    return tuple(classes) if by_name else dict(classes)


def resolve_classes(classes: Any) -> dict[str, type[Any]]:
    """The classes that `shorten_classes` shortened.

    Raises:
        ValueError: If a name is unknown.
    """
    if isinstance(classes, Mapping):
        return dict(classes)
    if not isinstance(classes, (tuple, list)):
        raise ValueError(f"task['classes'] must be class names, got {classes!r}")
    known = all_classes()
    missing = [name for name in classes if name not in known]
    if missing:
        raise ValueError(f"task['classes'] names unknown classes {missing}")
    return {name: known[name] for name in classes}


def goal_is_visible(task: Any) -> bool:
    """Whether a `metaworld.Task` shows its goal in observations."""
    return not _decode(task)["partially_observable"]
