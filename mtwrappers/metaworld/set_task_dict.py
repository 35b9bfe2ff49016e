"""The tasks of `MetaWorldSetTaskEnv`: small dicts that mean the same in every process.

Keys: ``benchmark`` (name), ``kind`` (``"train"`` or ``"test"``), ``add_env_onehot`` and
``goals_visible`` (bool), ``classes`` (all classes of the benchmark, which the observation space
depends on), and ``inner`` (the `metaworld.Task`).
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np

from mtwrappers import seeding
from mtwrappers.metaworld.benchmarks import Kind, split_of
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.metaworld.upstream import all_classes, metaworld
from mtwrappers.spaces import append_onehot

SetTaskDict: TypeAlias = dict[str, Any]
TASK_KEYS = ("benchmark", "kind", "add_env_onehot", "goals_visible", "classes", "inner")


def check_task(task: Any) -> None:
    """Raises `ValueError` unless ``task`` has the form that `sample_tasks` gives it."""
    if not isinstance(task, dict) or any(key not in task for key in TASK_KEYS):
        got = sorted(task) if isinstance(task, dict) else repr(task)
        raise ValueError(
            f"a task must be a dict with the keys {list(TASK_KEYS)}, as sample_tasks() returns "
            f"it; got {got}"
        )
    inner, classes = task["inner"], _resolve(task["classes"])
    if not isinstance(inner, metaworld().Task):
        raise ValueError(f"task['inner'] must be a metaworld.Task, got {inner!r}")
    if task["kind"] not in ("train", "test"):
        raise ValueError(f"task['kind'] must be 'train' or 'test', got {task['kind']!r}")
    if inner.env_name not in classes:
        raise ValueError(
            f"task['inner'] is of class {inner.env_name!r}, expected one of {list(classes)}"
        )
    data = _decode(inner)
    expected = {
        "env_cls": classes[inner.env_name],
        "partially_observable": not task["goals_visible"],
    }
    found = {key: data.get(key) for key in expected}
    if found != expected:
        raise ValueError(
            f"the data of task['inner'] does not agree with its class {inner.env_name!r} and with "
            f"task['goals_visible']: expected {expected}, got {found}"
        )


def _decode(inner: Any) -> dict[str, Any]:
    try:
        return dict(pickle.loads(inner.data))
    except Exception as exc:
        raise ValueError(f"the data of task['inner'] cannot be read: {exc}") from exc


def _shorten(classes: Mapping[str, type[Any]]) -> Any:
    """The classes as a task holds them: names suffice for Meta-World's own, and are smaller."""
    return tuple(classes) if classes.items() <= all_classes().items() else dict(classes)


def _resolve(classes: Any) -> dict[str, type[Any]]:
    """The classes that a task names."""
    if isinstance(classes, Mapping):
        return dict(classes)
    known = all_classes()
    if not isinstance(classes, (tuple, list)):
        raise ValueError(f"task['classes'] must be class names, got {classes!r}")
    missing = [name for name in classes if name not in known]
    if missing:
        raise ValueError(f"task['classes'] names unknown classes {missing}")
    return {name: known[name] for name in classes}


def digest(tasks: Iterable[Any]) -> str:
    """What tells a list of `metaworld.Task` from another, the same on every machine."""
    code = hashlib.sha256()
    for task in tasks:
        data = _decode(task)
        code.update(f"{task.env_name} {data['partially_observable']} ".encode())
        code.update(np.asarray(data["rand_vec"], dtype="<f8").tobytes())
    return code.hexdigest()[:16]


class Layout:
    """What the observation space depends on: the classes, visible goals, a one-hot at the end."""

    def __init__(self, classes: Mapping[str, type[Any]], goals_visible: bool, onehot: bool) -> None:
        self.classes = dict(classes)
        self.goals_visible = goals_visible
        self.onehot = onehot
        self.box = observation_box(self.classes, goals_visible=goals_visible)
        self.space = append_onehot(self.box, len(self.classes)) if onehot else self.box

    @classmethod
    def of(cls, task: SetTaskDict) -> Layout:
        """The layout of the environment that a task comes from."""
        return cls(_resolve(task["classes"]), task["goals_visible"], task["add_env_onehot"])

    def require(self, task: SetTaskDict, whose: str) -> None:
        """Raises `ValueError` unless a task can be played here; ``whose`` tasks this is for."""
        classes, name = _resolve(task["classes"]), task["inner"].env_name
        mine = self.goals_visible, self.onehot
        theirs = task["goals_visible"], task["add_env_onehot"]
        same_classes = list(classes.items()) == list(self.classes.items())
        known = self.classes.get(name) is classes[name]
        if mine == theirs and (same_classes or (known and not self.onehot)):
            return
        raise ValueError(
            f"this environment is for tasks of {whose} with add_env_onehot={self.onehot} and "
            f"goals_visible={self.goals_visible}, got {name!r} of {task['benchmark']} with "
            f"add_env_onehot={theirs[1]} and goals_visible={theirs[0]}: it needs another "
            "observation space"
        )


class BenchmarkTasks:
    """The tasks of a benchmark, in its order, and the order in which they are sampled."""

    def __init__(self, benchmark: Any, kind: Kind | None, onehot: bool) -> None:
        if not isinstance(benchmark, metaworld().Benchmark):
            raise ValueError(
                f"benchmark must be a metaworld.Benchmark or the name of one, got {benchmark!r}"
            )
        self.name = type(benchmark).__name__
        kinds = (kind,) if kind else ("train", "test")
        classes, self.tasks, self._kinds = split_of(benchmark, *kinds)
        visible = not _decode(self.tasks[0])["partially_observable"]
        if onehot and (not visible or "test" in self._kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{self.name} with kind={kind!r}"
            )
        self.layout = Layout(classes, visible, onehot)
        self._short = _shorten(classes)
        self._by_class: dict[str, list[int]] = {}
        for place, task in enumerate(self.tasks):
            self._by_class.setdefault(task.env_name, []).append(place)

    def seed(self, seed: int | None) -> None:
        """Seeds the order of `sample`, from entropy when ``seed`` is ``None``."""
        value = seeding.chosen_seed(seed)
        self._order = seeding.task_generator(value)
        self._sweeps: dict[str, list[int]] = {}
        self._next_class = 0

    def get_state(self) -> dict[str, Any]:
        """What `sample` goes on from, and what tells these tasks from others."""
        return {
            "tasks": digest(self.tasks),
            "order": dict(self._order.bit_generator.state),
            "sweeps": {name: list(sweep) for name, sweep in self._sweeps.items()},
            "next_class": self._next_class,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned.

        Raises:
            ValueError: If it is of other tasks.
        """
        if state.get("tasks") != digest(self.tasks):
            raise ValueError(f"expected the state of this {self.name}'s own tasks, got others'")
        self._order.bit_generator.state = state["order"]
        self._sweeps = {name: list(sweep) for name, sweep in state["sweeps"].items()}
        self._next_class = state["next_class"]

    def sample(self, n: int) -> list[SetTaskDict]:
        """Draws ``n`` tasks class by class, each class's own without replacement."""
        names = list(self._by_class)
        drawn = []
        for _ in range(n):
            name = names[self._next_class % len(names)]
            self._next_class += 1
            places = self._by_class[name]
            if not self._sweeps.get(name):
                self._sweeps[name] = self._order.permutation(len(places)).tolist()
            drawn.append(self.describe(places[self._sweeps[name].pop()]))
        return drawn

    def describe(self, place: int) -> SetTaskDict:
        """A task as the dict that means the same in every process."""
        return {
            "benchmark": self.name,
            "kind": self._kinds[place],
            "add_env_onehot": self.layout.onehot,
            "goals_visible": self.layout.goals_visible,
            "classes": self._short,
            "inner": self.tasks[place],
        }
