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
from mtwrappers.metaworld.benchmarks import Kind
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.metaworld.upstream import all_classes, metaworld
from mtwrappers.spaces import append_onehot

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


def _shorten_classes(classes: Mapping[str, type[Any]]) -> Any:
    """The classes as a task holds them: names suffice for Meta-World's own, and are smaller."""
    known = all_classes()
    by_name = all(known.get(name) is cls for name, cls in classes.items())
    return tuple(classes) if by_name else dict(classes)


def resolve_classes(classes: Any) -> dict[str, type[Any]]:
    """The classes that a task names.

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


def digest(tasks: Iterable[Any]) -> str:
    """What tells a list of `metaworld.Task` from another, the same on every machine."""
    code = hashlib.sha256()
    for task in tasks:
        data = _decode(task)
        code.update(f"{task.env_name} {data['partially_observable']} ".encode())
        code.update(np.asarray(data["rand_vec"], dtype="<f8").tobytes())
    return code.hexdigest()[:16]


class Layout:
    """What the observation space depends on.

    Args:
        classes: Every class by its name, in the order of the one-hot.
        goals_visible: Whether observations show the goal.
        onehot: Whether a one-hot of the class is appended.
    """

    def __init__(self, classes: Mapping[str, type[Any]], goals_visible: bool, onehot: bool) -> None:
        self.classes = dict(classes)
        self.goals_visible = goals_visible
        self.onehot = onehot
        self.box = observation_box(self.classes, goals_visible=goals_visible)
        self.space = append_onehot(self.box, len(self.classes)) if onehot else self.box

    @classmethod
    def of(cls, task: SetTaskDict) -> Layout:
        """The layout of the environment that a task comes from."""
        return cls(resolve_classes(task["classes"]), task["goals_visible"], task["add_env_onehot"])

    def require(self, task: SetTaskDict, whose: str) -> None:
        """Checks that a task can be played in this observation space.

        Args:
            task: The task.
            whose: The benchmark that this layout is of, for the message.

        Raises:
            ValueError: If it cannot.
        """
        classes, name = resolve_classes(task["classes"]), task["inner"].env_name
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
    """The tasks of a benchmark, in its order, and the order in which they are sampled.

    Args:
        benchmark: A `metaworld.Benchmark`.
        kind: ``"train"`` or ``"test"`` tasks; ``None`` means all.
        onehot: Whether observations are to show a one-hot of the class.
        name: The benchmark's name; by default that of its class.

    Raises:
        ValueError: If it is no benchmark, has no such tasks, or a one-hot does not suit them.
    """

    def __init__(
        self, benchmark: Any, kind: Kind | None, onehot: bool, name: str | None = None
    ) -> None:
        if not isinstance(benchmark, metaworld().Benchmark):
            raise ValueError(
                f"benchmark must be a metaworld.Benchmark or the name of one, got {benchmark!r}"
            )
        self.name = name or type(benchmark).__name__
        splits: dict[Kind, tuple[Any, Any]] = {
            "train": (benchmark.train_classes, benchmark.train_tasks),
            "test": (getattr(benchmark, "_test_classes", {}), benchmark.test_tasks),
        }
        kinds: list[Kind] = [kind] if kind else [k for k in splits if splits[k][1]]
        classes: dict[str, type[Any]] = {}
        self.tasks: list[Any] = []
        self._kinds: list[Kind] = []
        for own in kinds:
            classes.update(splits[own][0])
            self.tasks += splits[own][1]
            self._kinds += [own] * len(splits[own][1])
        if not self.tasks:
            raise ValueError(f"{self.name} has no {kind or ''} tasks")
        visible = not _decode(self.tasks[0])["partially_observable"]
        if onehot and (not visible or "test" in kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{self.name} with kind={kind!r}"
            )
        self.layout = Layout(classes, visible, onehot)
        self._short = _shorten_classes(classes)
        self._by_class: dict[str, list[int]] = {}
        for place, task in enumerate(self.tasks):
            self._by_class.setdefault(task.env_name, []).append(place)

    def seed(self, seed: int | None) -> None:
        """Seeds the order of `sample`, from entropy when ``seed`` is ``None``."""
        value = seeding.fresh_seed() if seed is None else seeding.check_seed(seed)
        self._order = seeding.task_generator(value)
        self._sweeps: dict[str, list[int]] = {}
        self._next_class = 0

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
