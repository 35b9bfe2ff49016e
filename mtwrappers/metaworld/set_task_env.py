"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gymnasium
from gymnasium.error import ResetNeeded

from mtwrappers.checks import check_options, not_negative, positive
from mtwrappers.metaworld.benchmarks import Kind, take_benchmark
from mtwrappers.metaworld.class_env import (
    METADATA,
    SawyerClassEnv,
    SawyerSettings,
    action_box,
    check_camera,
)
from mtwrappers.metaworld.set_task_dict import BenchmarkTasks, Layout, SetTaskDict, check_task
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

Env: TypeAlias = gymnasium.Env[Any, Any]
Wrapper: TypeAlias = Callable[[Env, Any], Env]


class MetaWorldSetTaskEnv(gymnasium.Env[Any, Any]):
    """A benchmark as one environment whose task is set from outside.

    A task is a small dict (under 4 KB pickled) that any `MetaWorldSetTaskEnv` understands, even one
    that was made without arguments in another process. Copies and pickles are on the same task and
    begin with a `reset`. ``info`` carries ``task_name``, with a one-hot also ``task_id``.

    The interface is garage's (https://github.com/rlworkgroup/garage).

    Args:
        benchmark: A `metaworld.Benchmark` or the name of one. With ``None``, the first task that is
            set decides on the observation space, and tasks that do not fit into it are refused.
        kind: ``"train"`` or ``"test"`` tasks; ``None`` means all.
        wrapper: ``wrapper(env, task)`` is applied to the environment of each class when it is
            built; ``task`` is a `metaworld.Task`. All must end up with one observation space.
        add_env_onehot: Append a one-hot of the class. For the train tasks of multi-task
            benchmarks only.
        seed: Determines the benchmark's goals when it is a name, and the order of `sample_tasks`;
            ``None`` takes entropy.
        max_episode_steps: When to truncate, ``None`` for never.
        **options: ``env_name``, ``train_classes``, ``test_classes`` and ``num_goals`` as
            `mtwrappers.metaworld.make_benchmark` takes them, when ``benchmark`` is a name; and how
            the classes are built, the fields of `mtwrappers.metaworld.class_env.SawyerSettings`.

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
        wrapper: Wrapper | None = None,
        add_env_onehot: bool = False,
        *,
        seed: int | None = 0,
        max_episode_steps: int | None = 500,
        **options: Any,
    ) -> None:
        if kind not in ("train", "test", None):
            raise ValueError(f"kind must be 'train', 'test' or None, got {kind!r}")
        if max_episode_steps is not None:
            max_episode_steps = positive(max_episode_steps, "max_episode_steps")
        benchmark = take_benchmark(benchmark, seed, options)
        self._settings = SawyerSettings(**options)
        self.render_mode = self._settings.render_mode
        self._max_episode_steps = max_episode_steps
        self._kind = kind
        self._wrapper = wrapper
        self._built: dict[str, tuple[SawyerClassEnv, Env]] = {}  # of each class, bare and wrapped
        self._task: SetTaskDict | None = None
        self._env: Env | None = None
        self._reset_needed = True
        self.action_space = action_box()
        self._source: BenchmarkTasks | None = None
        if benchmark is not None:
            self._source = BenchmarkTasks(benchmark, kind, bool(add_env_onehot))
            self._source.seed(seed)
            self._layout = self._source.layout
        elif add_env_onehot:
            raise ValueError("add_env_onehot needs a benchmark to know its classes, got None")
        else:
            self._layout = Layout(all_classes(), goals_visible=True, onehot=False)
        check_camera(self._settings, self._layout.classes)
        self.observation_space = self._layout.space
        if self._source is not None and wrapper is not None:
            _, env = self._class_env(self.tasks[0], self._layout)
            self.observation_space = env.observation_space

    @property
    def tasks(self) -> list[Any]:
        """The benchmark's `metaworld.Task`s in its order; none without a benchmark."""
        return [] if self._source is None else self._source.tasks

    @property
    def num_tasks(self) -> int:
        """How many tasks there are; 0 without a benchmark."""
        return len(self.tasks)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The classes, in the order of the one-hot."""
        return tuple(self._layout.classes)

    @property
    def classes(self) -> dict[str, type[Any]]:
        """The Sawyer class of each name, in the order of the one-hot."""
        return dict(self._layout.classes)

    @property
    def goals_visible(self) -> bool:
        """Whether observations show the goal."""
        return self._layout.goals_visible

    @property
    def env_observation_space(self) -> Any:
        """`observation_space` without the one-hot at its end."""
        return self.observation_space if self._wrapper is not None else self._layout.box

    @property
    def envs_built(self) -> int:
        """How many classes have been built so far."""
        return len(self._built)

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
        if self._source is None:
            raise ValueError("sample_tasks needs a benchmark; this environment was made without")
        return self._source.sample(not_negative(n_tasks, "n_tasks"))

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the order of `sample_tasks`, from entropy when ``seed`` is ``None``."""
        if self._source is not None:
            self._source.seed(seed)

    def set_task(self, task: SetTaskDict) -> None:
        """Makes ``task`` the present one; the next `reset` begins it.

        Args:
            task: As `sample_tasks` returns it.

        Raises:
            ValueError: If it is malformed, of the other kind, of another benchmark, or needs
                another observation space; the present task then stays.
        """
        check_task(task)
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        if self._source is None and self._task is None:
            layout = Layout.of(task)
        else:
            self._layout.require(task, self._source.name if self._source else "its first")
            layout = self._layout
        self._turn(task["inner"], layout)
        self._task = dict(task)

    def turn_to(self, place: int) -> Env:
        """Makes ``tasks[place]`` the present task; returns the environment that plays it."""
        if self._source is None:
            raise ValueError("turn_to needs a benchmark; this environment was made without")
        env = self._turn(self._source.tasks[place], self._layout)
        self._task = self._source.describe(place)
        return env

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the present task, the benchmark's first if none was set.

        Args:
            seed: Also seeds the order of `sample_tasks`.
            options: ``{"task": task}`` sets a task first. Never changed.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark to take one from.
            ValueError: If the task cannot be set, or there are other options.
        """
        check_options(options, ("task",), "MetaWorldSetTaskEnv")
        super().reset(seed=seed)
        if seed is not None:
            self.seed_tasks(seed)
        if options and "task" in options:
            self.set_task(options["task"])
        elif self._env is None:
            if self._task is not None:  # a copy, on the task that it was copied on
                self.set_task(self._task)
            elif self.tasks:
                self.turn_to(0)
        if self._env is None:
            raise ResetNeeded("no task was set: call set_task(task) before reset()")
        obs, info = self._env.reset(seed=seed)
        self._reset_needed = False
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulates an eightieth of a second; see `SawyerClassEnv.step`.

        Raises:
            ResetNeeded: If the task was set and not reset since.
        """
        if self._reset_needed or self._env is None:
            raise ResetNeeded("call reset() after set_task() and before step()")
        obs, reward, terminated, truncated, info = self._env.step(action)
        return obs, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """A frame of the present class."""
        if self._reset_needed or self._env is None:
            raise ResetNeeded("call reset() before render()")
        return self._env.render()

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes: the present task, and the order of `sample_tasks`."""
        source = self._source and self._source.get_state()
        return {"task": self.get_task(), "source": source}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned; a ``ValueError`` if it is of other tasks."""
        if self._source is not None:
            self._source.set_state(state["source"] or {})
        if state["task"] is not None:
            self.set_task(state["task"])

    def close(self) -> None:
        """Closes every class that was built."""
        with contextlib.ExitStack() as stack:  # all of them, whatever one of them does
            for _, env in self._built.values():
                stack.callback(env.close)

    def __getstate__(self) -> dict[str, Any]:
        # A copy builds its own simulations, on the same task, at its first reset.
        return {**self.__dict__, "_built": {}, "_env": None, "_reset_needed": True}

    def _turn(self, inner: Any, layout: Layout) -> Env:
        """Turns to a task; whatever fails, it fails before anything is changed."""
        bare, env = self._class_env(inner, layout)
        bare.set_task(inner)
        if layout is not self._layout:
            self._layout, self.observation_space = layout, layout.space
        if self._wrapper is not None:
            self.observation_space = env.observation_space
        self._env = env
        self._reset_needed = True
        return env

    def _class_env(self, task: Any, layout: Layout) -> tuple[SawyerClassEnv, Env]:
        """The environment of a `metaworld.Task`'s class, bare and wrapped, built on first use."""
        name = task.env_name
        if name in self._built:
            return self._built[name]
        bare = SawyerClassEnv(
            name, layout.classes[name], layout.box, self._settings, self._max_episode_steps
        )
        env: Env = bare
        if layout.onehot:
            env = TaskOnehotWrapper(bare, list(layout.classes).index(name), len(layout.classes))
        if self._wrapper is not None:
            bare.set_task(task)
            env = self._wrapper(env, task)
            if not isinstance(env, gymnasium.Env):
                raise TypeError(f"wrapper must return a gymnasium.Env for {name!r}, got {env!r}")
            if self._built and env.observation_space != self.observation_space:
                raise ValueError(
                    f"wrapper gives {name!r} the observation space {env.observation_space}, "
                    f"expected {self.observation_space} as for the other classes"
                )
        self._built[name] = bare, env
        return bare, env
