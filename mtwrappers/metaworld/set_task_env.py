"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import gymnasium
from gymnasium.error import ResetNeeded

from mtwrappers.checks import (
    check_callable,
    check_choice,
    check_flag,
    check_options,
    not_negative,
    positive,
)
from mtwrappers.metaworld.benchmarks import Kind, split_of, take_benchmark
from mtwrappers.metaworld.class_env import METADATA, SawyerClassEnv, SawyerSettings, action_box
from mtwrappers.metaworld.plain_task import decode
from mtwrappers.metaworld.set_task_dict import ClassByClass, Layout, SetTaskDict, layout_of
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.seeding import check_seed
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
        seed: Determines the benchmark's goals when it is a name, and the order of `sample_tasks`.
            ``None`` takes the goals of seed 0, and an order from entropy.
        max_episode_steps: When to truncate, ``None`` for never.
        **options: ``env_name``, ``train_classes``, ``test_classes`` and ``num_goals`` as
            `mtwrappers.metaworld.make_benchmark` takes them, when ``benchmark`` is a name; and how
            the classes are built, the fields of `mtwrappers.metaworld.class_env.SawyerSettings`.

    Attributes:
        tasks: The benchmark's `metaworld.Task`s in its order; none without a benchmark.
        layout: What the observation space depends on.

    Raises:
        TypeError: If ``wrapper`` is not callable, or ``add_env_onehot`` is no bool.
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
        seed: int | None = None,
        max_episode_steps: int | None = 500,
        **options: Any,
    ) -> None:
        check_choice(kind, ("train", "test", None), "kind")
        add_env_onehot = check_flag(add_env_onehot, "add_env_onehot")
        if max_episode_steps is not None:
            max_episode_steps = positive(max_episode_steps, "max_episode_steps")
        benchmark = take_benchmark(benchmark, 0 if seed is None else seed, options)
        self._settings = SawyerSettings(**options)
        self.render_mode = self._settings.render_mode
        self._max_episode_steps = max_episode_steps
        self._kind = kind
        self._wrapper = None if wrapper is None else check_callable(wrapper, "wrapper")
        self._built: dict[str, tuple[SawyerClassEnv, Env]] = {}  # of each class, bare and wrapped
        self._task: SetTaskDict | None = None
        self._env: Any = None
        self._reset_needed = True
        self.action_space = action_box()
        self._name = "its first"  # whose tasks this is for
        self.tasks: list[Any] = []
        classes, visible = all_classes(), True
        if benchmark is not None:
            kinds = [kind] if kind else ["train", "test"]
            classes, self.tasks, self._kinds = split_of(benchmark, *kinds)
            self._name = type(benchmark).__name__
            visible = not decode(self.tasks[0])["partially_observable"]
        if add_env_onehot and (benchmark is None or not visible or "test" in self._kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{benchmark and self._name} with kind={kind!r}"
            )
        self.layout = Layout(classes, visible, add_env_onehot)
        self._order = ClassByClass(self.tasks)
        self.seed_tasks(seed)
        if not isinstance(self.layout.short_classes, dict):
            # Of others than Meta-World's own, the cameras are known when they are built.
            from mtwrappers.metaworld.camera import find_camera

            find_camera(self._settings)
        self.observation_space = self.layout.space
        if self.tasks and wrapper is not None:
            _, env = self._class_env(self.tasks[0], self.layout)
            self.observation_space = env.observation_space

    @property
    def num_tasks(self) -> int:
        """How many tasks there are; 0 without a benchmark."""
        return len(self.tasks)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The classes, in the order of the one-hot."""
        return tuple(self.layout.classes)

    @property
    def env_observation_space(self) -> Any:
        """`observation_space` without the one-hot at its end."""
        return self.observation_space if self._wrapper is not None else self.layout.box

    @property
    def envs_built(self) -> int:
        """How many classes have been built so far."""
        return len(self._built)

    def get_task(self) -> SetTaskDict | None:
        """The present task, or ``None`` before the first was set."""
        return None if self._task is None else dict(self._task)

    def sample_tasks(self, n_tasks: int, with_replacement: bool = False) -> list[SetTaskDict]:
        """Draws tasks class by class, so each class has the same share.

        Without replacement, a class's tasks all come once, then once more in another order.

        Raises:
            TypeError, ValueError: If an argument is none, or there is no benchmark to draw from.
        """
        if not self.tasks:
            raise ValueError("sample_tasks needs a benchmark; this environment was made without")
        n, anew = not_negative(n_tasks, "n_tasks"), check_flag(with_replacement, "with_replacement")
        return [self._describe(self._order.draw(anew)) for _ in range(n)]

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the order of `sample_tasks`, from entropy when ``seed`` is ``None``."""
        self._order.seed(seed)

    def set_task(self, task: SetTaskDict) -> None:
        """Makes a task of `sample_tasks` the present one; the next `reset` begins it.

        Raises:
            ValueError: If it is malformed, of the other kind, of another benchmark, or needs
                another observation space; the present task then stays.
        """
        layout = layout_of(task)
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        fixed, name = bool(self.tasks) or self._task is not None, task["inner"].env_name
        if fixed and not self.layout.plays(name, layout):
            raise ValueError(
                f"this environment is for tasks of {self._name} with {self.layout}, got {name!r} "
                f"of {task['benchmark']} with {layout}: it needs another observation space"
            )
        self._turn(task["inner"], self.layout if fixed else layout)
        self._task = dict(task)

    def turn_to(self, place: int) -> Env:
        """Makes ``tasks[place]`` the present task; returns the environment that plays it."""
        env = self._turn(self.tasks[place], self.layout)
        self._task = self._describe(place)
        return env

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the present task, the benchmark's first if none was set.

        ``seed`` also seeds the order of `sample_tasks`; ``options={"task": task}`` sets a task
        first.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark to take one from.
            ValueError: If the task cannot be set, or another option speaks of tasks.
        """
        check_options(options, ("task",), "MetaWorldSetTaskEnv")
        if seed is not None:
            seed = check_seed(seed)
            self.seed_tasks(seed)
        super().reset(seed=seed)
        if options and "task" in options:
            self.set_task(options["task"])
        elif self._env is None:
            if self._task is None and not self.tasks:
                raise ResetNeeded("no task was set: call set_task(task) before reset()")
            self.set_task(self._task or self._describe(0))  # a copy is on a task already
        obs, info = self._env.reset(seed=seed)
        self._reset_needed = False
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulates one control step (12.5 ms); needs a `reset` after `set_task`."""
        if self._reset_needed:
            raise ResetNeeded("call reset() after set_task() and before step()")
        obs, reward, terminated, truncated, info = self._env.step(action)
        return obs, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """A frame of the present class."""
        if self._reset_needed:
            raise ResetNeeded("call reset() before render()")
        return self._env.render()

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes: the present task, and the order of `sample_tasks`."""
        return {"task": self.get_task(), "order": self._order.get_state()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned; a ``ValueError`` if it is of other tasks."""
        self._order.set_state(state["order"])
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

    def _describe(self, place: int) -> SetTaskDict:
        """A task as the dict that means the same in every process."""
        return {
            "benchmark": self._name,
            "kind": self._kinds[place],
            "add_env_onehot": self.layout.onehot,
            "classes": self.layout.short_classes,
            "inner": self.tasks[place],
        }

    def _turn(self, inner: Any, layout: Layout) -> Env:
        """Turns to a task; whatever fails, it fails before anything is changed."""
        bare, env = self._class_env(inner, layout)
        bare.set_task(inner)
        if layout is not self.layout:
            self.layout, self.observation_space = layout, layout.space
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
