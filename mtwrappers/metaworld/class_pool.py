"""The classes of a benchmark: its tasks, one observation space, and its environments."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import gymnasium
from gymnasium.spaces import Box

from mtwrappers.common.checks import check_callable, check_choice, check_flag, positive
from mtwrappers.common.spaces import append_onehot
from mtwrappers.metaworld.benchmarks import Kind, split_of, take_benchmark
from mtwrappers.metaworld.class_env import SawyerClassEnv, observation_box
from mtwrappers.metaworld.continuous import (
    ContinuousGoals,
    Goals,
    check_goals,
    first_of_each_class,
)
from mtwrappers.metaworld.plain_task import decode, digest
from mtwrappers.metaworld.settings import SawyerSettings, find_cameras
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.identity import describe
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

Env: TypeAlias = gymnasium.Env[Any, Any]
Wrapper: TypeAlias = Callable[[Env, Any], Env]


@dataclasses.dataclass(frozen=True)
class Layout:
    """The settings that determine the observation space: classes, visible goals, one-hot."""

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
        """The classes as stored in a task: for Meta-World's own, only names, which are smaller."""
        return tuple(self.classes) if self.is_upstream else dict(self.classes)

    @functools.cached_property
    def is_upstream(self) -> bool:
        """Whether all classes are Meta-World's own."""
        return self.classes.items() <= all_classes().items()

    def takes(self, name: str, other: Layout) -> bool:
        """Whether a task of the class ``name`` with the layout ``other`` can be set here."""
        if (self.goals_visible, self.onehot) != (other.goals_visible, other.onehot):
            return False
        if self.onehot:
            return list(self.classes.items()) == list(other.classes.items())
        # Without a one-hot, the number and order of classes do not matter.
        return self.classes.get(name) is other.classes[name]

    def __str__(self) -> str:
        return f"add_env_onehot={self.onehot} and goals_visible={self.goals_visible}"


class ClassPool:
    """The tasks of a benchmark, and an environment for each class, built on first use.

    `MetaWorldSetTaskEnv` and `MetaWorldMTEnv` share it, and have the same arguments. Copies and
    pickles build their own environments.

    Attributes:
        name: The benchmark's name.
        tasks: The benchmark's `metaworld.Task`s in order; with continuous goals only the first of
            each class; empty without a benchmark.
        kinds: ``"train"`` or ``"test"`` for each of them.
        goals: The stream of continuous goals; ``None`` for goals of the list.
        layout: The settings that determine the observation space.
        observation_space: The observation space of every environment here.
        settings: The settings that every environment here is built with.
        render_mode: The render mode of every environment here.
        max_episode_steps: The number of steps until truncation, ``None`` for no limit.
        arguments: The benchmark and all ``options``, for `keep_arguments`.
    """

    def __init__(
        self,
        benchmark: Any,
        kind: Kind | None,
        wrapper: Wrapper | None = None,
        add_env_onehot: bool = False,
        *,
        seed: int | None,
        goals: Goals,
        max_episode_steps: int | None,
        options: dict[str, Any],
    ) -> None:
        check_choice(kind, ("train", "test", None), "kind")
        continuous = check_goals(goals, benchmark, options)
        onehot = check_flag(add_env_onehot, "add_env_onehot")
        if max_episode_steps is not None:
            max_episode_steps = positive(max_episode_steps, "max_episode_steps")
        goals_seed = 0 if seed is None else seed
        # With continuous goals nothing depends on the benchmark's goals, so their seed is fixed.
        benchmark = take_benchmark(benchmark, 0 if continuous else goals_seed, options)
        self.settings = SawyerSettings(**options)
        self._wrapper = None if wrapper is None else check_callable(wrapper, "wrapper")
        self._built: dict[str, tuple[SawyerClassEnv, Env]] = {}  # of each class, bare and wrapped
        self._terminate_on_success = False
        self.render_mode = self.settings.render_mode
        self.max_episode_steps = max_episode_steps
        self.name = "its first"
        self.tasks: list[Any] = []
        self.kinds: list[Kind] = []
        self.goals: ContinuousGoals | None = None
        classes, visible = all_classes(), True
        if benchmark is not None:
            kinds = [kind] if kind else ["train", "test"]
            classes, self.tasks, self.kinds = split_of(benchmark, *kinds)
            self.name = type(benchmark).__name__
            if continuous:
                self.tasks, self.kinds = first_of_each_class(self.tasks, self.kinds)
                self.goals = ContinuousGoals(self.tasks, goals_seed)
            visible = not decode(self.tasks[0])["partially_observable"]
        if onehot and (benchmark is None or not visible or "test" in self.kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{benchmark and self.name} with kind={kind!r}"
            )
        self.layout = Layout(classes, visible, onehot)
        self.arguments = dataclasses.asdict(self.settings)
        del self.arguments["fast"]  # the fast classes give the same bits
        made = self.arguments["benchmark"] = describe(benchmark)
        if made is not None and "name" not in made:  # not from `make_benchmark`
            made["tasks"] = digest(self.tasks)
        if self.layout.is_upstream:
            # The cameras of other classes are only known once these are built.
            find_cameras(self.settings)
        self.observation_space: gymnasium.Space[Any] = self.layout.space
        if self.tasks and wrapper is not None:
            _, env = self._environment(self.tasks[0], self.layout)
            self.observation_space = env.observation_space

    @property
    def envs_built(self) -> int:
        """The number of classes built so far."""
        return len(self._built)

    @property
    def env_observation_space(self) -> Any:
        """`observation_space` without the one-hot at its end."""
        return self.observation_space if self._wrapper is not None else self.layout.box

    @property
    def terminate_on_success(self) -> bool:
        """Whether a success ends an episode, in every environment here."""
        return self._terminate_on_success

    @terminate_on_success.setter
    def terminate_on_success(self, on: bool) -> None:
        self._terminate_on_success = on
        for bare, _ in self._built.values():
            bare.terminate_on_success = on

    def turn_to(self, task: Any, layout: Layout | None = None) -> Env:
        """Sets a `metaworld.Task`; returns its environment, which needs a reset.

        The task must be one of ``tasks``, or be checked, because Meta-World unpickles its data.
        ``layout`` replaces the current one, for the first task without a benchmark. Errors are
        raised before anything is changed.
        """
        layout = layout or self.layout
        bare, env = self._environment(task, layout)
        bare.sawyer.set_task(task)
        self.layout = layout
        self.observation_space = layout.space if self._wrapper is None else env.observation_space
        return env

    def close(self) -> None:
        """Closes and frees every class that was built: a model takes 21 MB."""
        if not self._built:
            return
        try:
            _close_all(env for _, env in self._built.values())
        finally:
            self._built = {}
            _return_memory()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": {}}

    def _environment(self, task: Any, layout: Layout) -> tuple[SawyerClassEnv, Env]:
        """The environment of a task's class, bare and wrapped, built on first use."""
        name = task.env_name
        if name in self._built:
            return self._built[name]
        bare = SawyerClassEnv(
            name,
            layout.classes[name],
            layout.box,
            self.settings,
            self.max_episode_steps,
        )
        if self.goals is not None:
            bare.sawyer.max_snapshots = 4  # continuous goals seldom repeat
        bare.terminate_on_success = self._terminate_on_success
        env: Env = bare
        if layout.onehot:
            env = TaskOnehotWrapper(bare, list(layout.classes).index(name), len(layout.classes))
        if self._wrapper is not None:
            bare.sawyer.set_task(task)
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


def _close_all(envs: Iterable[Env]) -> None:
    with contextlib.ExitStack() as stack:  # closes all of them, even if one raises
        for env in envs:
            stack.callback(env.close)


def _return_memory() -> None:
    """Returns freed memory to the system; glibc keeps up to 64 MB, and more in fragments."""
    with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)
