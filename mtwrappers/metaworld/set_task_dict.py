"""The tasks of `MetaWorldSetTaskEnv`: small dicts that mean the same in every process.

Keys: ``benchmark`` (name), ``kind`` (``"train"`` or ``"test"``), ``add_env_onehot`` (bool),
``classes`` (all classes of the benchmark, which the observation space depends on), and ``inner``
(the `metaworld.Task`).
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gymnasium.spaces import Box

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_choice, check_flag
from mtwrappers.common.spaces import append_onehot
from mtwrappers.core.selection import WithoutReplacement
from mtwrappers.metaworld import plain_task
from mtwrappers.metaworld.class_env import observation_box
from mtwrappers.metaworld.upstream import all_classes, classes_by_name

SetTaskDict: TypeAlias = dict[str, Any]


@dataclass(frozen=True)
class Layout:
    """What the observation space depends on: the classes, visible goals, a one-hot at the end."""

    classes: dict[str, type[Any]]
    goals_visible: bool
    onehot: bool

    @functools.cached_property
    def box(self) -> Box:
        """The observation space without the one-hot."""
        return observation_box(self.classes, goals_visible=self.goals_visible)

    @functools.cached_property
    def space(self) -> Box:
        """The observation space."""
        return append_onehot(self.box, len(self.classes)) if self.onehot else self.box

    @functools.cached_property
    def short_classes(self) -> Any:
        """The classes as a task holds them: names suffice for Meta-World's own, and are smaller."""
        upstream = self.classes.items() <= all_classes().items()
        return tuple(self.classes) if upstream else dict(self.classes)

    def plays(self, name: str, other: Layout) -> bool:
        """Whether a task of the class ``name``, which comes from ``other``, can be played here."""
        if (self.goals_visible, self.onehot) != (other.goals_visible, other.onehot):
            return False
        if self.onehot:
            return list(self.classes.items()) == list(other.classes.items())
        # Without a one-hot their number and their order do not matter.
        return self.classes.get(name) is other.classes[name]

    def __str__(self) -> str:
        return f"add_env_onehot={self.onehot} and goals_visible={self.goals_visible}"


def layout_of(task: Any) -> Layout:
    """The layout of the environment that a task comes from.

    Raises:
        ValueError: Unless the task has the form that `MetaWorldSetTaskEnv.sample_tasks` gives it.
    """
    try:
        check_choice(task["kind"], ("train", "test"), "task['kind']")
        given, inner, _ = task["classes"], task["inner"], task["benchmark"]
        classes = dict(given) if isinstance(given, Mapping) else classes_by_name(given)
        data = plain_task.decode(inner)
        if classes[inner.env_name] is not data["env_cls"]:
            raise ValueError(f"{inner.env_name!r} is no name of {data['env_cls']}")
        plain_task.check_vector(inner)
        add_env_onehot = check_flag(task["add_env_onehot"], "task['add_env_onehot']")
        return Layout(classes, not data["partially_observable"], add_env_onehot)
    except Exception as exc:  # a damaged pickle may raise anything
        raise ValueError(
            "expected a task as sample_tasks() returns it, a dict of benchmark, kind, "
            f"add_env_onehot, classes and inner; got {task!r}: {exc!r}"
        ) from exc


class ClassByClass:
    """Draws places in a list of tasks, class by class."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._tasks = tasks
        self._by_class: dict[str, list[int]] = {}
        for place, task in enumerate(tasks):
            self._by_class.setdefault(task.env_name, []).append(place)

    def seed(self, seed: int | None) -> None:
        """Seeds the order, from entropy when ``seed`` is ``None``."""
        self._rng = seeding.task_generator(seeding.chosen_seed(seed))
        self._sweeps = {name: WithoutReplacement() for name in self._by_class}
        self._next_class = 0

    def draw(self, with_replacement: bool) -> int:
        """The next place, of the next class."""
        name = list(self._by_class)[self._next_class]
        self._next_class = (self._next_class + 1) % len(self._by_class)
        places = self._by_class[name]
        if with_replacement:
            return places[int(self._rng.integers(len(places)))]
        return places[self._sweeps[name](len(places), None, self._rng)]

    def get_state(self) -> dict[str, Any]:
        """What `draw` goes on from, and what tells these tasks from others."""
        return {
            "tasks": plain_task.digest(self._tasks),
            "rng": dict(self._rng.bit_generator.state),
            "sweeps": {name: sweep.get_state() for name, sweep in self._sweeps.items()},
            "next_class": self._next_class,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Takes what `get_state` returned, or raises `ValueError` if it is of other tasks."""
        own = plain_task.digest(self._tasks)
        if state.get("tasks") != own:
            raise ValueError(
                f"expected a state of the tasks {own}, got one of {state.get('tasks')}"
            )
        self._rng.bit_generator.state = state["rng"]
        for name, sweep in self._sweeps.items():
            sweep.set_state(state["sweeps"][name])
        self._next_class = state["next_class"]
