"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Box

from mtwrappers import seeding
from mtwrappers.metaworld.benchmarks import Kind, make_benchmark
from mtwrappers.metaworld.class_env import METADATA, ClassPool, SawyerSettings, action_box
from mtwrappers.metaworld.set_task_dict import (
    SetTaskDict,
    check_task,
    goal_is_visible,
    layout_of_task,
    resolve_classes,
    shorten_classes,
)
from mtwrappers.metaworld.upstream import all_classes, metaworld
from mtwrappers.spaces import append_onehot
from mtwrappers.wrappers.task_name import TaskNameWrapper
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper


class MetaWorldSetTaskEnv(gymnasium.Env[Any, Any]):
    """A benchmark as one environment whose task is set from outside.

    A task is a small dict (under 4 KB pickled) that any `MetaWorldSetTaskEnv` understands, even one
    that was made without arguments in another process. Copies and pickles are on the same task and
    begin with a `reset`. ``info`` carries ``task_name``, with a one-hot also ``task_id``.

    The interface is garage's (https://github.com/rlworkgroup/garage).

    Args:
        benchmark: A `metaworld.Benchmark` or the name of one; ``None`` takes the benchmark of the
            first task that is set.
        kind: ``"train"`` or ``"test"``; ``None`` means every task that there is.
        wrapper: ``wrapper(env, task)`` is applied to the environment of each class when it is
            built; ``task`` is a `metaworld.Task`. All must end up with one observation space.
        add_env_onehot: Append a one-hot of the class. For the train tasks of multi-task
            benchmarks only.
        env_name: The class of MT1 and ML1, when ``benchmark`` is a name.
        num_goals: How many tasks a class, when ``benchmark`` is a name.
        seed: Determines the benchmark's goals when it is a name, and the order of `sample_tasks`.
        max_episode_steps: When to truncate, ``None`` for never.
        **settings: See `mtwrappers.metaworld.class_env.SawyerSettings`.

    Raises:
        ValueError: If an argument is none of those, or they do not go together.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> env = MetaWorldSetTaskEnv("MT1", "train", env_name="push-v3", num_goals=3)
    >>> [task] = env.sample_tasks(1)
    >>> other = MetaWorldSetTaskEnv()
    >>> other.set_task(task)
    >>> obs, info = other.reset()
    >>> obs.shape, info["task_name"], env.num_tasks
    ((39,), 'push-v3', 3)
    """

    metadata = METADATA

    def __init__(
        self,
        benchmark: Any = None,
        kind: Kind | None = None,
        wrapper: Callable[[gymnasium.Env[Any, Any], Any], gymnasium.Env[Any, Any]] | None = None,
        add_env_onehot: bool = False,
        *,
        env_name: str | None = None,
        num_goals: int = 50,
        seed: int | None = 0,
        max_episode_steps: int | None = 500,
        **settings: Any,
    ) -> None:
        if kind not in ("train", "test", None):
            raise ValueError(f"kind must be 'train', 'test' or None, got {kind!r}")
        self._settings = SawyerSettings(**settings)
        self.render_mode = self._settings.render_mode
        self._max_episode_steps = max_episode_steps
        self._kind = kind
        self._wrapper = wrapper
        self._onehot = bool(add_env_onehot)
        self._name: str | None = None
        self._own = benchmark is not None
        self._tasks: dict[str, list[SetTaskDict]] = {}
        self._task: SetTaskDict | None = None
        self._wrapped: dict[str, gymnasium.Env[Any, Any]] = {}
        self._reset_needed = True
        self.seed_tasks(seed)
        self.action_space = action_box()
        if isinstance(benchmark, str):
            self._name = benchmark
            benchmark = make_benchmark(benchmark, env_name=env_name, seed=seed, num_goals=num_goals)
        if benchmark is None:
            if self._onehot:
                raise ValueError("add_env_onehot needs a benchmark to know its classes, got None")
            self._arrange(all_classes(), goals_visible=True)
        else:
            self._take(benchmark)

    # What there is.

    @property
    def num_tasks(self) -> int:
        """How many tasks there are; 0 without a benchmark."""
        return sum(len(tasks) for tasks in self._tasks.values())

    @property
    def task_names(self) -> tuple[str, ...]:
        """The classes, in the order of the one-hot."""
        return tuple(self._pool.classes)

    @property
    def env_observation_space(self) -> Any:
        """`observation_space` without the one-hot at its end."""
        return self.observation_space if self._wrapper is not None else self._pool.observation_space

    @property
    def envs_built(self) -> int:
        """How many classes have been built so far."""
        return self._pool.envs_built

    def get_task(self) -> SetTaskDict | None:
        """The present task, or ``None`` before the first was set."""
        return None if self._task is None else dict(self._task)

    def sample_tasks(self, n_tasks: int) -> list[SetTaskDict]:
        """Draws tasks class by class, each class's own without replacement.

        Args:
            n_tasks: How many. After a class's last task its sweep begins anew, in another order.

        Raises:
            ValueError: If there is no benchmark to draw from, or ``n_tasks`` is negative.
        """
        if not self._tasks:
            raise ValueError("sample_tasks needs a benchmark; this environment was made without")
        if isinstance(n_tasks, bool) or not isinstance(n_tasks, (int, np.integer)) or n_tasks < 0:
            raise ValueError(f"n_tasks must be zero or a positive integer, got {n_tasks!r}")
        names = list(self._tasks)
        drawn = []
        for _ in range(n_tasks):
            name = names[self._next_class % len(names)]
            self._next_class += 1
            tasks = self._tasks[name]
            if not self._sweeps.get(name):
                self._sweeps[name] = self._order.permutation(len(tasks)).tolist()
            drawn.append(dict(tasks[self._sweeps[name].pop()]))
        return drawn

    def sample_task_of(self, class_name: str, rng: np.random.Generator) -> SetTaskDict:
        """Draws any task of a class from ``rng``, leaving this environment's own order alone."""
        tasks = self._tasks[class_name]
        return dict(tasks[int(rng.integers(len(tasks)))])

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the order of `sample_tasks`, from entropy when ``seed`` is ``None``."""
        value = seeding.fresh_seed() if seed is None else seeding.check_seed(seed)
        self._order = seeding.task_generator(value)
        self._sweeps: dict[str, list[int]] = {}
        self._next_class = 0

    def set_task(self, task: SetTaskDict) -> None:
        """Makes ``task`` the present one; the next `reset` begins it.

        Args:
            task: As `sample_tasks` returns it.

        Raises:
            ValueError: If it is malformed, of the other kind, or of another benchmark.
        """
        self._require_ours(task)
        inner = task["inner"]
        if not self._own and layout_of_task(task) != self._layout():
            self._arrange(resolve_classes(task["classes"]), goals_visible=task["goals_visible"])
            self._onehot = task["add_env_onehot"]
            self._declare_space()
        env = self._build(inner)
        env.unwrapped.set_task(inner)  # type: ignore[attr-defined]
        if not self._own and self._wrapper is not None:
            self.observation_space = env.observation_space
        self._env = env
        self._task = dict(task)
        self._reset_needed = True

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the present task, the benchmark's first if none was set.

        Args:
            seed: Also seeds the order of `sample_tasks`.
            options: ``{"task": task}`` sets a task first. Never changed.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark to take one from.
        """
        super().reset(seed=seed)
        if seed is not None:
            self.seed_tasks(seed)
        if options and "task" in options:
            self.set_task(options["task"])
        elif self._task is None:
            if not self._tasks:
                raise ResetNeeded("no task was set: call set_task(task) before reset()")
            self.set_task(next(iter(self._tasks.values()))[0])
        elif self._reset_needed and not self._wrapped:
            self.set_task(self._task)
        obs, info = self._env.reset(seed=seed)
        self._reset_needed = False
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulates an eightieth of a second.

        Raises:
            ResetNeeded: If the task was set and not reset since.
            ValueError: If the action has another shape than ``(4,)`` or is not finite.
        """
        if self._reset_needed:
            raise ResetNeeded("call reset() after set_task() and before step()")
        obs, reward, terminated, truncated, info = self._env.step(action)
        return obs, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """A frame of the present class."""
        if self._reset_needed:
            raise ResetNeeded("call reset() before render()")
        return self._env.render()

    def close(self) -> None:
        """Closes every class that was built."""
        for env in self._wrapped.values():
            env.close()
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        # A copy builds its own simulations, on the same task, at its first reset.
        state = {**self.__dict__, "_wrapped": {}, "_reset_needed": True}
        state.pop("_env", None)
        return state

    # How it is arranged.

    def _take(self, benchmark: Any) -> None:
        """Takes the classes and tasks of a benchmark."""
        if not isinstance(benchmark, metaworld().Benchmark):
            raise ValueError(
                f"benchmark must be a metaworld.Benchmark or the name of one, got {benchmark!r}"
            )
        splits: dict[Kind, tuple[Any, Any]] = {
            "train": (benchmark.train_classes, benchmark.train_tasks),
            "test": (getattr(benchmark, "_test_classes", {}), benchmark.test_tasks),
        }
        kinds: list[Kind] = [self._kind] if self._kind else [k for k in splits if splits[k][1]]
        tasks = {kind: list(splits[kind][1]) for kind in kinds}
        if not any(tasks.values()):
            raise ValueError(f"{type(benchmark).__name__} has no {self._kind or ''} tasks")
        classes: dict[str, type[Any]] = {}
        for kind in kinds:
            classes.update(splits[kind][0])
        visible = goal_is_visible(tasks[kinds[0]][0])
        if self._onehot and (not visible or "test" in kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{type(benchmark).__name__} with kind={self._kind!r}"
            )
        self._name = self._name or type(benchmark).__name__
        self._arrange(classes, goals_visible=visible)
        self._declare_space()
        short = shorten_classes(classes)
        for kind in kinds:
            for inner in tasks[kind]:
                described = {
                    "benchmark": self._name,
                    "kind": kind,
                    "add_env_onehot": self._onehot,
                    "goals_visible": visible,
                    "classes": short,
                    "inner": inner,
                }
                self._tasks.setdefault(inner.env_name, []).append(described)
        if self._wrapper is not None:
            first = next(iter(self._tasks.values()))[0]["inner"]
            self.observation_space = self._build(first).observation_space

    def _arrange(self, classes: Mapping[str, type[Any]], *, goals_visible: bool) -> None:
        """Makes the pool of these classes."""
        for env in self._wrapped.values():
            env.close()
        self._wrapped = {}
        self._pool = ClassPool(
            classes,
            goals_visible=goals_visible,
            settings=self._settings,
            max_episode_steps=self._max_episode_steps,
        )
        self._declare_space()

    def _declare_space(self) -> None:
        box: Box = self._pool.observation_space
        self.observation_space = (
            append_onehot(box, len(self._pool.classes)) if self._onehot else box
        )

    def _require_ours(self, task: Any) -> None:
        """Raises `ValueError` unless ``task`` can be set here."""
        check_task(task)
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        if self._own and not self._fits(task):
            raise ValueError(
                f"this environment is for tasks of {self._name} with "
                f"add_env_onehot={self._onehot}, got one of {task['benchmark']} with "
                f"add_env_onehot={task['add_env_onehot']}"
            )

    def _fits(self, task: SetTaskDict) -> bool:
        """Whether the task is played in the same observation space."""
        classes, visible, onehot = layout_of_task(task)
        if onehot or self._onehot:
            return (classes, visible, onehot) == self._layout()
        name = task["inner"].env_name
        known = self._pool.classes.get(name) is dict(classes)[name]
        return known and visible == self._pool.goals_visible

    def _layout(self) -> tuple[Any, ...]:
        """What the observation space depends on."""
        return tuple(self._pool.classes.items()), self._pool.goals_visible, self._onehot

    def _build(self, inner: Any) -> gymnasium.Env[Any, Any]:
        """The environment of the task's class, wrapped, built on first use."""
        name = inner.env_name
        if name in self._wrapped:
            return self._wrapped[name]
        base = self._pool.get(name)
        env: gymnasium.Env[Any, Any] = TaskNameWrapper(base, task_name=name)
        if self._onehot:
            index = list(self._pool.classes).index(name)
            env = TaskOnehotWrapper(env, index, len(self._pool.classes))
        if self._wrapper is not None:
            base.set_task(inner)
            env = self._wrapper(env, inner)
            if not isinstance(env, gymnasium.Env):
                raise TypeError(f"wrapper must return a gymnasium.Env for {name!r}, got {env!r}")
            if self._wrapped and env.observation_space != self.observation_space:
                raise ValueError(
                    f"wrapper gives {name!r} the observation space {env.observation_space}, "
                    f"expected {self.observation_space} as for the other classes"
                )
        self._wrapped[name] = env
        return env
