"""A family of tasks: its sources, its set of tasks, and the environment that draws them.

A family is a row: for each publication (*source*), a constructor of its environment and the length
of an episode. That environment has

- ``distributions``: the `Distribution` of each entry of a task, by its name;
- ``set_task(task)``: makes a task, a dict that was checked, that of the next episodes.

Everything else is here: draws, checks, infos and state.
"""

from __future__ import annotations

import copy
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from typing import Any, Literal, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Dict
from numpy.random import Generator

from mtwrappers.common.checks import check_choice, not_negative
from mtwrappers.common.types import Info, State
from mtwrappers.core.mtenv import Observation
from mtwrappers.core.selection import WithoutReplacement, check_sweep
from mtwrappers.core.tasks import Description, Tasks
from mtwrappers.envs.distributions import Distribution, Value, freeze
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.registry import require_names
from mtwrappers.wrappers.env_to_mtenv import EnvToMTEnv

Task: TypeAlias = dict[str, Value]
ListName: TypeAlias = Literal["train", "test"]


@dataclass(frozen=True)
class Source:
    """A family as one publication defines it.

    Attributes:
        make: Makes the environment. It takes ``render_mode``, and the settings of the family.
        episode_steps: The number of steps after which an episode is truncated.
        published: The name of its lists in ``published_tasks.json``, if tasks were published.
    """

    make: Callable[..., gymnasium.Env[Any, Any]]
    episode_steps: int
    published: str | None = None


@dataclass(frozen=True)
class Family:
    """A family of tasks.

    Attributes:
        name: Its name, ``HalfCheetahVel`` for ``mtwrappers/HalfCheetahVel-v0``.
        sources: Its sources by their names, the default one first.
        settings: The names of further arguments of all its constructors, such as a size.
    """

    name: str
    sources: Mapping[str, Source]
    settings: tuple[str, ...] = field(default=())

    def find_source(self, name: str | None) -> Source:
        """The source of a name, or the first one.

        Raises:
            ValueError: If there is none of this name.
        """
        if name is None:
            return next(iter(self.sources.values()))
        source: Source = self.sources[check_choice(name, tuple(self.sources), "source")]
        return source

    def load_tasks(self, source_name: str | None, tasks: ListName | None) -> list[Task] | None:
        """The published list of a source, ``None`` if tasks are drawn.

        Raises:
            ValueError: If the source has published no lists.
        """
        check_choice(tasks, ("train", "test", None), "tasks")
        if tasks is None:
            return None
        published = self.find_source(source_name).published
        if published is None:
            having = [name for name, source in self.sources.items() if source.published]
            alternatives = f"; sources with lists are {having}" if having else ""
            raise ValueError(
                f"source {source_name or next(iter(self.sources))!r} of {self.name} has published "
                f"no list of tasks, so tasks must be None, got {tasks!r}{alternatives}"
            )
        return load_published_tasks()[published][tasks]


@functools.cache
def load_published_tasks() -> dict[str, dict[str, list[Task]]]:
    """All published lists, by their name and ``"train"`` or ``"test"``."""
    text = resources.files("mtwrappers.envs").joinpath("published_tasks.json").read_text("utf-8")
    lists: dict[str, dict[str, list[dict[str, Any]]]] = json.loads(text)
    return {
        name: {
            kind: [{key: freeze(value) for key, value in task.items()} for task in tasks]
            for kind, tasks in kinds.items()
        }
        for name, kinds in lists.items()
    }


class FamilyTasks(Tasks[Task]):
    """The tasks of a family: drawn from distributions, or a list of them, drawn in sweeps.

    Args:
        distributions: The distribution of each entry of a task.
        listed: The list, if not all tasks are drawn.
    """

    def __init__(
        self, distributions: Mapping[str, Distribution], listed: Sequence[Task] | None = None
    ) -> None:
        keep_arguments(self, locals())
        self._distributions = dict(distributions)
        # Copies, because a space has a random stream, and families share their distributions.
        self.space = Dict(
            {name: copy.deepcopy(entry.space) for name, entry in distributions.items()}
        )
        self.listed = None if listed is None else [self.check(task, "a task") for task in listed]
        self._sweep = WithoutReplacement()

    def first(self) -> Task:
        """The first task of the list, or one that is always the same."""
        return self.draw(np.random.default_rng(0)) if self.listed is None else dict(self.listed[0])

    def draw(self, rng: Generator) -> Task:
        """Draws each entry, or the next task of a sweep over the list."""
        if self.listed is not None:
            return dict(self.listed[self._sweep(len(self.listed), None, rng)])
        entries = self._distributions.items()
        return {name: freeze(distribution.draw(rng)) for name, distribution in entries}

    def check(self, task_state: object, name: str) -> Task:
        """Returns a task of `space` with floats and tuples, or raises `ValueError`.

        Any task that can be drawn can be set, whether or not it is in the list.
        """
        if not isinstance(task_state, Mapping) or set(task_state) != set(self._distributions):
            items = self._distributions.items()
            expected = ", ".join(f"{key!r}: {entry.describe()}" for key, entry in items)
            hint = ""
            is_index = isinstance(task_state, (int, np.integer)) and not isinstance(
                task_state, bool
            )
            if is_index and self.listed is not None:
                hint = (
                    ": a task is not an index; pass tasks[i] of the environment, in vector "
                    "environments envs.get_attr('tasks')[0][i]"
                )
            raise ValueError(f"{name} must be {{{expected}}}, got {task_state!r}{hint}")
        entries = self._distributions.items()
        return {key: entry.check(task_state[key], f"{key!r} of {name}") for key, entry in entries}

    def describe(self, task_state: Task) -> Description:
        """The task as arrays; `TaskFamilyEnv` adds its infos."""
        return {name: np.array(value) for name, value in task_state.items()}, {}

    def restart(self) -> None:
        """Begins the first sweep over the list."""
        self._sweep.reset()

    def get_state(self) -> dict[str, Any]:
        """The indices that are left of the current sweep."""
        return {"sweep": self._sweep.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the sweep that `get_state` returned, or raises `ValueError`."""
        sweep = require_names(state, ("sweep",), self)["sweep"]
        check_sweep(sweep, len(self.listed or ()), "the sweep of tasks")
        self._sweep.set_state(sweep)


class TaskFamilyEnv(EnvToMTEnv):
    """An environment whose task is drawn from a family.

    Each `reset` draws a task, unless one was set: `set_task` sets the task of all episodes from
    the next one on. ``reset(options={"task_state": task})`` sets the current task, too: for one
    episode while resets draw, and after `set_task` until the next task is set.
    ``sample_tasks_on_reset = True`` lets resets draw again.

    A task is a dict of numbers and tuples of numbers. ``info["task"]`` has the same entries, with
    arrays for tuples, and ``info`` has each term of the reward. Tasks and environments have random
    streams of their own, which ``reset(seed=...)`` seeds. `sample_tasks` and ``set_task`` are
    garage's interface (https://github.com/rlworkgroup/garage).

    Args:
        env: The environment, with ``set_task``.
        tasks: The set of tasks.

    Attributes:
        env: The environment.
        task_space: The space of tasks, with an array for each entry.
        tasks: The tasks of the list; empty if all tasks are drawn.

    >>> import gymnasium, mtwrappers
    >>> env = gymnasium.make("mtwrappers/AntGoal-v0").unwrapped
    >>> env.task_space
    Dict('goal': Box(-3.0, 3.0, (2,), float64))
    >>> obs, info = env.reset(seed=0)
    >>> env.set_task({"goal": (0.5, 0.5)})
    >>> obs, info = env.reset()
    >>> info["task"], env.get_task()
    ({'goal': array([0.5, 0.5])}, {'goal': (0.5, 0.5)})
    """

    _passes_options_on = False
    _options_hint = "a task_state is a task, a dict; a seed is an argument of reset"

    def __init__(self, env: gymnasium.Env[Any, Any], tasks: FamilyTasks) -> None:
        super().__init__(env, tasks, sample_tasks_on_reset=True)
        self.task_space = tasks.space
        self.tasks = [dict(task) for task in tasks.listed or ()]

    @property
    def num_tasks(self) -> int:
        """The number of tasks of the list; without a list there is no such attribute."""
        if not self.tasks:
            raise AttributeError("there is no num_tasks without a list of tasks")
        return len(self.tasks)

    def _task(self, task_state: Task) -> Task:
        return task_state

    def sample_tasks(self, n_tasks: int) -> list[Task]:
        """Draws tasks; those of a list in sweeps, each a random order of all of them.

        An environment that was never seeded takes a seed from entropy.

        Raises:
            ValueError: If ``n_tasks`` is negative or not an integer.
        """
        n = not_negative(n_tasks, "n_tasks")
        if self._task_seed is None:
            self.seed_task()
        return [self.sample_task_state() for _ in range(n)]

    def set_task(self, task: Task) -> None:
        """Sets the task of all episodes from the next `reset` on.

        Raises:
            ValueError: If it is no task of the family; the current one is then kept.
        """
        self.set_task_state(task)
        self.sample_tasks_on_reset = False

    def get_task_obs(self) -> dict[str, Any]:
        """The current task, with a new array of float64 for each entry."""
        task_obs: Any = self._task_obs
        return {name: array.copy() for name, array in task_obs.items()}

    def get_task(self) -> Task:
        """The current task."""
        return dict(self._task_state)

    def get_state(self) -> State:
        """The state of `EnvToMTEnv`, which has all that `set_task` and `sample_tasks` change."""
        return super().get_state()

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, Info]:
        """Begins an episode as `MTEnv.reset` does."""
        obs, info = super().reset(seed=seed, options=options)
        return obs, {**info, "task": _describe_task(self._task_state)}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, Info]:
        """Steps the environment, or raises `ResetNeeded`."""
        obs, reward, terminated, truncated, info = super().step(action)
        info = {**info, "task": _describe_task(self._task_state)}
        return obs, reward, terminated, truncated, info


def _describe_task(task: Task) -> dict[str, Any]:
    """A task as it is in infos, with arrays for tuples."""
    return {
        name: np.array(value) if isinstance(value, tuple) else value for name, value in task.items()
    }
