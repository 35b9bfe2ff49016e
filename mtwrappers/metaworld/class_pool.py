"""The tasks of a benchmark with an environment per class, and the environments that own them."""

from __future__ import annotations

import abc
import contextlib
import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.core import ObsType
from gymnasium.spaces import Box
from numpy.typing import NDArray

from mtwrappers.common.checks import (
    check_callable,
    check_choice,
    check_flag,
    check_mapping,
    positive,
)
from mtwrappers.common.errors import short
from mtwrappers.common.spaces import append_onehot, difference
from mtwrappers.common.types import AnyEnv, AnySpace, State
from mtwrappers.core.mtenv import check_stream
from mtwrappers.metaworld.class_env import (
    ClassKeywords,
    SawyerClassEnv,
    SawyerSettings,
    find_cameras,
    observation_box,
)
from mtwrappers.metaworld.interfaces import Benchmark, Classes, Task
from mtwrappers.metaworld.tasks import (
    BENCHMARK_OPTIONS,
    BenchmarkOptions,
    ContinuousGoals,
    Goals,
    Kind,
    check_goals,
    check_task,
    check_task_vector,
    decode,
    digest,
    make_benchmark,
    read_splits,
)
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.env_state import Layers, get_state, set_state
from mtwrappers.state.identity import describe
from mtwrappers.wrappers.env_space import find_env_space
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

if TYPE_CHECKING:
    from mtwrappers.metaworld.frames import ImageKind, Images

Wrapper: TypeAlias = Callable[[AnyEnv, Task], AnyEnv]


class PoolOptions(BenchmarkOptions, ClassKeywords, total=False):
    """The arguments of `make_benchmark` and of `SawyerSettings` that a `ClassPool` takes."""


@dataclasses.dataclass(frozen=True)
class Layout:
    """The settings that determine the observation space: classes, visible goals, one-hot."""

    classes: Classes
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
    def is_upstream(self) -> bool:
        """Whether all classes are Meta-World's own."""
        return self.classes.items() <= all_classes().items()

    def accepts(self, name: str, task_layout: Layout) -> bool:
        """Whether a task of the class ``name`` from an environment of a layout can be set here."""
        if self.goals_visible != task_layout.goals_visible or self.onehot != task_layout.onehot:
            return False
        if self.onehot:
            return list(self.classes.items()) == list(task_layout.classes.items())
        # Without a one-hot, the number and order of classes do not matter.
        return self.classes.get(name) is task_layout.classes[name]

    def __str__(self) -> str:
        return f"add_env_onehot={self.onehot} and goals_visible={self.goals_visible}"


@dataclasses.dataclass(frozen=True)
class _ClassEnv:
    """The environment of a class, without and with wrappers.

    Attributes:
        task: The task that it was built for, which the user's wrapper was given.
        bare: Without wrappers.
        wrapped: With the one-hot and the user's wrapper.
    """

    task: Task
    bare: SawyerClassEnv
    wrapped: AnyEnv


class ClassPool:
    """The tasks of a benchmark, and an environment for each class, built on first use.

    A `MetaWorldSetTaskEnv` or `MetaWorldMTEnv` owns one, and has the same arguments. Copies and
    pickles build their own environments.

    Attributes:
        name: The benchmark's name; empty without one.
        tasks: The benchmark's `metaworld.Task`s in order; with continuous goals only the first of
            each class; empty without a benchmark.
        kinds: ``"train"`` or ``"test"`` for each of them.
        goals: The stream of continuous goals; ``None`` for goals of the list.
        layout: The settings that determine the observation space.
        observation_space: The observation space of every environment here.
        settings: The settings that every environment here is built with.
        render_mode: The render mode of every environment here.
        max_episode_steps: The number of steps until truncation, ``None`` for no limit.
        current: The environment of the last `switch_to`, without wrappers; ``None`` before.
        arguments: The benchmark and all ``options``, for `keep_arguments`.
    """

    def __init__(
        self,
        benchmark: str | Benchmark | None,
        kind: Kind | None,
        wrapper: Wrapper | None = None,
        add_env_onehot: bool = False,
        *,
        seed: int | None,
        goals: Goals,
        max_episode_steps: int | None,
        options: PoolOptions,
    ) -> None:
        check_choice(kind, ("train", "test", None), "kind")
        continuous = check_goals(goals, benchmark, options.get("num_goals"))
        onehot = check_flag(add_env_onehot, "add_env_onehot")
        if max_episode_steps is not None:
            max_episode_steps = positive(max_episode_steps, "max_episode_steps")
        goals_seed = 0 if seed is None else seed
        class_options: dict[str, Any] = {**options}
        benchmark_options = {
            name: class_options.pop(name) for name in BENCHMARK_OPTIONS if name in class_options
        }
        if not isinstance(benchmark, str):
            for name, value in benchmark_options.items():
                if value is not None:
                    raise ValueError(
                        f"{name} is for the name of a benchmark, got {name}={value!r} with "
                        f"benchmark={short(benchmark)}: pass {name} to make_benchmark instead"
                    )
        if continuous:
            benchmark_options["num_goals"] = 1
        if isinstance(benchmark, str):
            # With continuous goals nothing depends on the benchmark's, so their seed is fixed.
            benchmark = make_benchmark(
                benchmark, seed=0 if continuous else goals_seed, **benchmark_options
            )
        self.settings = SawyerSettings(**class_options)
        self._wrapper: Wrapper | None = None
        if wrapper is not None:
            self._wrapper = check_callable(wrapper, "wrapper")
        self._built: dict[str, _ClassEnv] = {}  # by class
        self._terminate_on_success = False
        self.current: SawyerClassEnv | None = None
        self.render_mode = self.settings.render_mode
        self.max_episode_steps = max_episode_steps
        self.name = ""
        self.tasks: list[Task] = []
        self.kinds: list[Kind] = []
        self.goals: ContinuousGoals | None = None
        classes, visible = all_classes(), True
        if benchmark is not None:
            kinds: tuple[Kind, ...] = (kind,) if kind else ("train", "test")
            splits = read_splits(benchmark, *kinds)
            if continuous:
                splits = splits.first_of_each_class()
                self.goals = ContinuousGoals(splits.tasks, goals_seed)
            self.name = type(benchmark).__name__
            classes, self.tasks, self.kinds = splits.classes, splits.tasks, splits.kinds
            visible = not decode(self.tasks[0])["partially_observable"]
        if onehot and (benchmark is None or not visible or "test" in self.kinds):
            raise ValueError(
                "add_env_onehot is for the train tasks of multi-task benchmarks, got "
                f"{benchmark and self.name} with kind={kind!r}"
            )
        self.layout = Layout(classes, visible, onehot)
        self.arguments = dataclasses.asdict(self.settings)
        del self.arguments["fast"]  # the fast classes give the same bits
        description = describe(benchmark)
        if description is not None and "name" not in description:  # not from `make_benchmark`
            description = {"type": description["type"], "tasks": digest(self.tasks)}
        self.arguments["benchmark"] = description
        if self.layout.is_upstream:
            # The cameras of other classes are only known once these are built.
            find_cameras(self.settings.camera_name)
        self.observation_space: AnySpace = self.layout.space
        if self.tasks and wrapper is not None:
            class_env = self.build(self.tasks[0], self.layout)
            self.observation_space = class_env.wrapped.observation_space

    @property
    def envs_built(self) -> int:
        """The number of classes built so far."""
        return len(self._built)

    @property
    def terminate_on_success(self) -> bool:
        """Whether a success ends an episode. Can be set at any time."""
        return self._terminate_on_success

    @terminate_on_success.setter
    def terminate_on_success(self, on: bool) -> None:
        self._terminate_on_success = check_flag(on, "terminate_on_success")
        if self.current is not None:
            self.current.terminate_on_success = self._terminate_on_success

    @functools.cached_property
    def goals_digest(self) -> str:
        """The digest of all goals of the benchmark, also of those that an environment leaves out.

        For continuous goals, which follow from reset seeds, it is a digest of the classes.
        """
        tasks_digest = digest(self.tasks)
        return tasks_digest if self.goals is None else f"continuous {tasks_digest}"

    @property
    def current_env(self) -> SawyerClassEnv:
        """`current`, after a `switch_to`."""
        assert self.current is not None
        return self.current

    @property
    def goal(self) -> NDArray[np.float64]:
        """The goal of the current environment, ``(3,)``, in metres."""
        return np.array(self.current_env.sawyer._target_pos, dtype=np.float64)

    @property
    def env_observation_space(self) -> AnySpace:
        """`observation_space` without what was appended to it, such as the one-hot."""
        # All environments have the same layers.
        class_env = next(iter(self._built.values()), None)
        return self.layout.box if class_env is None else find_env_space(class_env.wrapped)

    def switch_to(self, task: Task, layout: Layout | None = None) -> AnyEnv:
        """Sets a `metaworld.Task`; returns its environment, which needs a reset.

        The task must be one of ``tasks``, or be checked, because Meta-World unpickles its data.
        ``layout`` replaces the current one, for the first task without a benchmark. Errors are
        raised before anything is changed.
        """
        layout = layout or self.layout
        class_env = self.build(task, layout)
        class_env.bare.sawyer.set_task(task)
        class_env.bare.terminate_on_success = self.terminate_on_success
        self.current = class_env.bare
        self.layout = layout
        self.observation_space = (
            layout.space if self._wrapper is None else class_env.wrapped.observation_space
        )
        return class_env.wrapped

    def get_state(self) -> State:
        """What the environment's state has of the pool."""
        state: State = {"terminate_on_success": self.terminate_on_success}
        if self.goals is not None:
            state["goal_stream"] = self.goals.get_state()
        return state

    def check_state(self, state: Mapping[str, object]) -> None:
        """Raises `TypeError` or `ValueError` unless a state has what `set_state` restores."""
        for name in self.get_state():
            if name not in check_mapping(state, "a state"):
                raise ValueError(f"expected a state with {name!r}, got {sorted(state)}")
        check_flag(state["terminate_on_success"], "terminate_on_success of the state")
        if self.goals is not None:
            check_stream(state["goal_stream"], "the goal_stream of the state", self)

    def set_state(self, state: State) -> None:
        """Restores what `get_state` returned, from a checked state of the environment."""
        self.terminate_on_success = state["terminate_on_success"]
        if self.goals is not None:
            self.goals.set_state(state["goal_stream"])

    def get_env_states(self) -> dict[str, tuple[Task, Layers]]:
        """The task and state of each environment in the user's wrapper, by class.

        Without one, there are none: an environment keeps nothing from one episode to the next.
        """
        if self._wrapper is None:
            return {}
        return {
            name: (class_env.task, get_state(class_env.wrapped))
            for name, class_env in self._built.items()
        }

    @staticmethod
    def check_env_states(states: object, layout: Layout) -> None:
        """Raises `ValueError` unless the classes and tasks of states belong to a layout."""
        for name, entry in check_mapping(states, "envs of the state").items():
            if not isinstance(entry, (list, tuple)) or len(entry) != 2:
                raise ValueError(f"expected the task and state of {name!r}, got {short(entry)}")
            task = check_task(entry[0])
            if task.env_name != name or layout.classes.get(name) is not decode(task)["env_cls"]:
                raise ValueError(f"expected a task of {name!r} in the state, got {short(task)}")
            check_task_vector(task)

    def close_other_envs(self, states: Mapping[str, tuple[Task, Layers]]) -> None:
        """Closes the environments in the user's wrapper that have no state for their task."""
        if self._wrapper is not None:
            for name, class_env in [*self._built.items()]:
                if name not in states or states[name][0] != class_env.task:
                    self._built.pop(name).wrapped.close()

    def set_env_states(self, states: Mapping[str, tuple[Task, Layers]]) -> None:
        """Restores checked states; raises `ValueError` if a wrapper refuses its own."""
        for name in sorted(states):
            task, env_state = states[name]
            set_state(self.build(task, self.layout).wrapped, env_state)

    def close(self) -> None:
        """Closes and frees every class that was built: a model takes 21 MB."""
        if not self._built:
            return
        try:
            with contextlib.ExitStack() as stack:  # closes all of them, even if one raises
                for class_env in self._built.values():
                    stack.callback(class_env.wrapped.close)
        finally:
            self._built, self.current = {}, None
            # Returns freed memory to the system; glibc keeps up to 64 MB, and more in fragments.
            with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
                ctypes.CDLL(None).malloc_trim(0)

    def __getstate__(self) -> State:
        return {**self.__dict__, "_built": {}, "current": None}

    def build(self, task: Task, layout: Layout) -> _ClassEnv:
        """Returns the environment of a task's class, built on first use."""
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
        env: AnyEnv = bare
        if layout.onehot:
            env = TaskOnehotWrapper(bare, list(layout.classes).index(name), len(layout.classes))
        if self._wrapper is not None:
            bare.sawyer.set_task(task)
            env = self._wrapper(env, task)
            if not isinstance(env, gymnasium.Env):
                raise TypeError(f"wrapper must return a gymnasium.Env for {name!r}, got {env!r}")
            if self._built and env.observation_space != self.observation_space:
                raise ValueError(
                    f"wrapper gives {name!r} another observation space than the other classes: "
                    f"{difference(env.observation_space, self.observation_space)}"
                )
        self._built[name] = _ClassEnv(task, bare, env)
        return self._built[name]


class ClassPoolEnv(gymnasium.Env[ObsType, Any], abc.ABC):
    """The part of an environment that its `ClassPool` answers: goals, images, ends of episodes.

    Attributes:
        pool: The pool.
    """

    pool: ClassPool

    @abc.abstractmethod
    def _find_task(self) -> Task:
        """The current task, or `ResetNeeded` if none was set."""

    @abc.abstractmethod
    def _require_reset(self) -> object:
        """Raises `ResetNeeded` unless an episode is under way."""

    @property
    def envs_built(self) -> int:
        """The number of classes built so far."""
        return self.pool.envs_built

    @property
    def _max_episode_steps(self) -> int | None:
        """The number of steps until truncation, named as in Gymnasium's ``TimeLimit``."""
        return self.pool.max_episode_steps

    @property
    def goals_digest(self) -> str:
        """The digest of all goals of the benchmark; see `ClassPool.goals_digest`."""
        return self.pool.goals_digest

    @property
    def goal(self) -> NDArray[np.float64]:
        """The current goal, ``(3,)``, in metres. Privileged information if goals are hidden."""
        self._require_reset()
        return self.pool.goal

    @property
    def rand_vec(self) -> NDArray[np.float64]:
        """Meta-World's random vector of the current task, ``(3,)`` or ``(6,)``, in metres.

        It is the goal, or the object's start position and the goal. Privileged, as `goal` is.
        """
        return np.array(decode(self._find_task())["rand_vec"], dtype=np.float64)

    @property
    def terminate_on_success(self) -> bool:
        """Whether a success ends the episode. Can be set at any time."""
        return self.pool.terminate_on_success

    @terminate_on_success.setter
    def terminate_on_success(self, on: bool) -> None:
        self.pool.terminate_on_success = on

    def images(self, kinds: Iterable[ImageKind]) -> Images:
        """Draws the current state; see `mtwrappers.metaworld.frames.Cameras.images`."""
        self._require_reset()
        return self.pool.current_env.images(kinds)

    def close(self) -> None:
        """Closes and frees every class that was built. A later `reset` builds it again."""
        self.__dict__.update(self.__getstate__())
        self.pool.close()

    @abc.abstractmethod
    def __getstate__(self) -> State:
        """The attributes of a copy, which builds its own simulation and so needs a reset."""
