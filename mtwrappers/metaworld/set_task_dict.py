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
    if inner.env_name not in resolve_classes(task["classes"]):
        raise ValueError(
            f"task['inner'] is of class {inner.env_name!r}, expected one of {list(task['classes'])}"
        )


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
    known = all_classes()
    missing = [name for name in classes if name not in known]
    if missing:
        raise ValueError(f"task['classes'] names unknown classes {missing}")
    return {name: known[name] for name in classes}


def goal_is_visible(task: Any) -> bool:
    """Whether a `metaworld.Task` shows its goal in observations."""
    return not pickle.loads(task.data)["partially_observable"]
