"""A benchmark as one multi-task environment, which the registered ids make."""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Text
from numpy.typing import NDArray

from mtwrappers.common.checks import (
    check_callable,
    check_choice,
    check_flag,
    check_index,
    check_list,
    check_mapping,
    positive,
)
from mtwrappers.common.seeding import check_seed, goal_generator
from mtwrappers.common.spaces import append_onehot, difference
from mtwrappers.common.types import State
from mtwrappers.core.selection import SelectName, Strategy
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList, Tasks
from mtwrappers.metaworld.class_env import (
    METADATA,
    SawyerClassEnv,
    SawyerSettings,
    action_box,
    find_cameras,
    observation_box,
    warn_of_v1,
)
from mtwrappers.metaworld.tasks import (
    OPTIONS,
    ClassAndVector,
    Classes,
    ContinuousGoals,
    ContinuousTasks,
    Goals,
    Kind,
    Task,
    check_goals,
    decode,
    digest,
    first_of_each_class,
    make_benchmark,
    read_splits,
    with_vector,
)
from mtwrappers.metaworld.text import (
    DESCRIPTIONS,
    Descriptions,
    check_descriptions,
    sentences_of,
    text_space,
)
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.identity import describe, keep_arguments
from mtwrappers.wrappers.task_onehot import TaskOnehotWrapper

_META_WORLDS = {*DESCRIPTIONS["metaworld"]}
Env: TypeAlias = gymnasium.Env[Any, Any]
Wrapper: TypeAlias = Callable[[Env, Task], Env]


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
        current: The environment of the last `turn_to`, without wrappers; ``None`` before.
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
        benchmark_options = {name: options.pop(name) for name in OPTIONS if name in options}
        if isinstance(benchmark, str):
            benchmark = make_benchmark(
                benchmark, seed=0 if continuous else goals_seed, **benchmark_options
            )
        self.settings = SawyerSettings(**options)
        self._wrapper = None if wrapper is None else check_callable(wrapper, "wrapper")
        self._built: dict[str, tuple[SawyerClassEnv, Env]] = {}  # of each class, bare and wrapped
        self._terminate_on_success = False
        self.current: SawyerClassEnv | None = None
        self.render_mode = self.settings.render_mode
        self.max_episode_steps = max_episode_steps
        self.name = "its first"
        self.tasks: list[Task] = []
        self.kinds: list[Kind] = []
        self.goals: ContinuousGoals | None = None
        classes, visible = all_classes(), True
        if benchmark is not None:
            kinds: tuple[Kind, ...] = (kind,) if kind else ("train", "test")
            classes, self.tasks, self.kinds = read_splits(benchmark, *kinds)
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
        description = describe(benchmark)
        if description is not None and "name" not in description:  # not from `make_benchmark`
            description = {"type": description["type"], "tasks": digest(self.tasks)}
        self.arguments["benchmark"] = description
        if self.layout.is_upstream:
            # The cameras of other classes are only known once these are built.
            find_cameras(self.settings.camera_name)
        self.observation_space: gymnasium.Space[Any] = self.layout.space
        if self.tasks and wrapper is not None:
            _, env = self._environment(self.tasks[0], self.layout)
            self.observation_space = env.observation_space

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
        """`current`, after a `turn_to`."""
        assert self.current is not None
        return self.current

    @property
    def goal(self) -> NDArray[np.float64]:
        """The goal of the current environment, ``(3,)``, in metres."""
        return np.array(self.current_env.sawyer._target_pos, dtype=np.float64)

    @property
    def env_observation_space(self) -> gymnasium.Space[Any]:
        """`observation_space` without the one-hot at its end."""
        return self.observation_space if self._wrapper is not None else self.layout.box

    def turn_to(self, task: Task, layout: Layout | None = None) -> Env:
        """Sets a `metaworld.Task`; returns its environment, which needs a reset.

        The task must be one of ``tasks``, or be checked, because Meta-World unpickles its data.
        ``layout`` replaces the current one, for the first task without a benchmark. Errors are
        raised before anything is changed.
        """
        layout = layout or self.layout
        bare, env = self._environment(task, layout)
        bare.sawyer.set_task(task)
        bare.terminate_on_success = self.terminate_on_success
        self.current = bare
        self.layout = layout
        self.observation_space = layout.space if self._wrapper is None else env.observation_space
        return env

    def close(self) -> None:
        """Closes and frees every class that was built: a model takes 21 MB."""
        if not self._built:
            return
        try:
            with contextlib.ExitStack() as stack:  # closes all of them, even if one raises
                for _, env in self._built.values():
                    stack.callback(env.close)
        finally:
            self._built, self.current = {}, None
            # Returns freed memory to the system; glibc keeps up to 64 MB, and more in fragments.
            with contextlib.suppress(AttributeError, OSError, TypeError):  # another C library
                ctypes.CDLL(None).malloc_trim(0)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_built": {}, "current": None}

    def _environment(self, task: Task, layout: Layout) -> tuple[SawyerClassEnv, Env]:
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
                    f"wrapper gives {name!r} another observation space than the other classes: "
                    f"{difference(env.observation_space, self.observation_space)}"
                )
        self._built[name] = bare, env
        return bare, env


class MetaWorldMTEnv(TaskSetMTEnv["int | ClassAndVector"]):
    """An `MTEnv` over the tasks (class and goal) of a Meta-World benchmark.

    The task state is the index into the benchmark's own list; ``task_obs`` is the index of the
    task's class. Every `reset` draws the next task, unless a task was set since the last reset.
    ``info`` contains ``task_id`` (the class's index), ``task_name`` (such as ``"reach-v3"``) and
    Meta-World's seven values. Classes are built on first use.

    With ``goals="continuous"``, each drawn task has a new goal from the class's distribution, as in
    Meta-World's classes whose random vector is not frozen. The task list has one entry per class:
    the task state ``k`` stands for class ``k`` with a goal that is drawn when it is set.
    `get_task_state` returns ``(k, vector)``, which `set_task_state` and the option ``task_state``
    of `reset` accept to set exactly this goal again. After ``reset(seed=s)``, the first goal equals
    the one that a class of Meta-World draws in its reset after ``seed(s)`` with ``seeded_rand_vec``
    set; later goals come from the same stream. Goals do not depend on which classes were used. A
    reset to a new goal simulates the hand's way to its start (5 ms), which is done only once for
    goals of a list.

    Args:
        benchmark: The name of a benchmark, or a `metaworld.Benchmark`.
        kind: ``"train"`` or ``"test"`` tasks.
        goals: ``"list"`` takes the benchmark's own goals; ``"continuous"`` draws new goals.
        seed: Determines the goals, and seeds the first reset if that has no seed; ``None`` takes
            the goals of seed 0, and entropy for that reset.
        select: How the next task is drawn; by default ``"uniform"``, or ``"without_replacement"``
            for meta-learning. A curriculum such as ``"least_success"`` groups tasks by class, or
            treats each goal separately if there is a single class; see `mtwrappers.core.selection`.
        task_states: The indices of the benchmark's tasks to use (with continuous goals, of its
            classes); by default all.
        sample_tasks_on_reset: Whether every reset draws a task, or only the first and seeded ones.
        terminate_on_success: Whether a success ends the episode.
        max_episode_steps: The number of steps until truncation; ``None`` leaves it to a
            ``TimeLimit``.
        descriptions: The sentences of `task_description`: ``"metaworld"``, ``"lerobot-0.6.1"``, or
            a table ``{class: sentence}``; see `mtwrappers.metaworld.text`. ``None`` takes
            Meta-World's if goals are visible, and no descriptions if they are hidden, because a
            sentence reveals the class.
        **options: The arguments ``env_name``, ``train_classes``, ``test_classes`` and ``num_goals``
            of `mtwrappers.metaworld.make_benchmark`, if ``benchmark`` is a name, and the fields of
            `mtwrappers.metaworld.class_env.SawyerSettings`.

    Attributes:
        pool: The `ClassPool` that owns the tasks and their environments.
        tasks: This environment's `metaworld.Task`s; ``task_states`` holds the state of each. With
            continuous goals, one task per class, whose goal is ignored.
        sample_tasks_on_reset: Whether every reset draws a task. Can be set at any time.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has none of these values, or descriptions lack a class.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> from mtwrappers.metaworld import MetaWorldMTEnv
    >>> env = MetaWorldMTEnv("MT1", env_name="push-v3", num_goals=3)
    >>> obs, info = env.reset(seed=0, options={"task_state": 2})
    >>> obs["env_obs"].shape, info["task_name"], env.task_description
    ((39,), 'push-v3', 'Push the puck to a goal')
    """

    metadata = METADATA
    _passes_options_on = False
    _options_hint = (
        "a task_state is the index of a task, of the class task_names[task_ids[task_state]]; with "
        "goals='continuous' it may be (index of a class, random vector), which sets the goal; a "
        "seed is an argument of reset"
    )

    def __init__(
        self,
        benchmark: Any = "MT10",
        kind: Kind = "train",
        *,
        goals: Goals = "list",
        seed: int | None = None,
        select: SelectName | Strategy | None = None,
        task_states: Sequence[int] | None = None,
        sample_tasks_on_reset: bool = True,
        terminate_on_success: bool = False,
        max_episode_steps: int | None = None,
        descriptions: Descriptions | None = None,
        **options: Any,
    ) -> None:
        if benchmark is None:
            raise TypeError("benchmark must be a metaworld.Benchmark or its name, got None")
        keep_arguments(self, {**locals(), "options": None})
        self.pool = ClassPool(
            benchmark,
            kind,
            seed=seed,
            goals=goals,
            max_episode_steps=max_episode_steps,
            options=options,
        )
        keep_arguments(self, self.pool.arguments)
        all_tasks, classes = self.pool.tasks, list(self.pool.layout.classes)
        if task_states is None:
            warn_of_v1(self.pool.settings.reward_function_version, classes)
        chosen = range(len(all_tasks)) if task_states is None else task_states
        chosen = check_list(chosen, "task_states", "task")
        states = [check_index(state, len(all_tasks), "each of task_states") for state in chosen]
        self.tasks = [all_tasks[state] for state in states]
        if select is None:
            select = "uniform" if self.pool.layout.goals_visible else "without_replacement"
        task_ids = [classes.index(task.env_name) for task in all_tasks]
        task_list = TaskList(task_ids, classes, states, select)
        tasks: Tasks[Any] = task_list
        if self.pool.goals is not None:
            tasks = ContinuousTasks(self.pool.goals, task_list)
        super().__init__(
            action_box(),
            self.pool.observation_space,
            None,
            tasks,
            sample_tasks_on_reset=sample_tasks_on_reset,
            draws_after_seeding=True,
            first_seed=seed,
        )
        self.render_mode = self.pool.render_mode
        described = check_descriptions(descriptions, {*all_classes(), *classes})
        if described is None and self.pool.layout.goals_visible and {*classes} <= _META_WORLDS:
            described = "metaworld"
        self._sentences = None if described is None else sentences_of(described)
        keep_arguments(self, {"descriptions": described})
        if missing := [name for name in classes if self._sentences and name not in self._sentences]:
            raise ValueError(
                f"descriptions must have each of the {len(classes)} classes, but lack {missing}"
            )
        self.terminate_on_success = terminate_on_success

    @property
    def envs_built(self) -> int:
        """The number of classes built so far."""
        return self.pool.envs_built

    @property
    def _max_episode_steps(self) -> int | None:
        """The number of steps until truncation, named as in Gymnasium's ``TimeLimit``."""
        return self.pool.max_episode_steps

    @property
    def task(self) -> str:
        """The name of the current class, such as ``"reach-v3"``.

        Raises:
            AttributeError: If there are no descriptions, by default because tasks are hidden.
        """
        self._require_sentences()
        name: str = list(self.pool.layout.classes)[self.get_task_obs()]
        return name

    @property
    def task_description(self) -> str:
        """The instruction for the current class, a sentence; raises as `task` does."""
        return self._require_sentences()[self.task]

    @property
    def description_space(self) -> Text:
        """The space of `task_description`, with every sentence of the table; raises as `task`."""
        return text_space(self._require_sentences())

    def _require_sentences(self) -> Mapping[str, str]:
        if self._sentences is None:
            tables = ", ".join(map(repr, DESCRIPTIONS))
            raise AttributeError(
                "task and task_description would reveal the class, which is hidden here; "
                f"to enable them, pass descriptions={tables} or a table to gymnasium.make"
            )
        return self._sentences

    @property
    def goals_digest(self) -> str:
        """The digest of all goals of the benchmark, not only of those in ``task_states``.

        For continuous goals, which follow from reset seeds, it is a digest of the classes.
        """
        return self.pool.goals_digest

    @property
    def goal(self) -> NDArray[np.float64]:
        """The current goal, ``(3,)``, in metres. Privileged information if goals are hidden."""
        self._require_reset()
        return self.pool.goal

    @property
    def terminate_on_success(self) -> bool:
        """Whether a success ends the episode. Can be set at any time."""
        return self.pool.terminate_on_success

    @terminate_on_success.setter
    def terminate_on_success(self, on: bool) -> None:
        self.pool.terminate_on_success = on

    def images(self, kinds: Iterable[str]) -> dict[str, dict[str, NDArray[Any]]]:
        """Draws the current state; see `mtwrappers.metaworld.frames.Cameras.images`."""
        self._require_reset()
        return self.pool.current_env.images(kinds)

    @property
    def rand_vec(self) -> NDArray[np.float64]:
        """Meta-World's random vector of the current task, ``(3,)`` or ``(6,)``, in metres.

        It is the goal, or the object's start position and the goal. Privileged, as `goal` is.
        """
        return np.array(decode(self._task(self._task_state))["rand_vec"], dtype=np.float64)

    def exact_task_state(self, task_state: int, seed: int) -> int | ClassAndVector:
        """The task state that ``reset(seed=seed, options={"task_state": task_state})`` would set.

        With continuous goals it contains the goal; otherwise it is ``task_state``. Nothing is
        changed.
        """
        tasks = self._task_set
        state: int | ClassAndVector = tasks.check(task_state, "task state")
        if not isinstance(tasks, ContinuousTasks):
            return state
        return tasks.draw_missing(state, goal_generator(check_seed(seed)))

    def set_task_state(self, task_state: Any) -> None:
        """Makes ``task_state`` the current task, from the next `reset` on."""
        if self.pool.goals is not None:
            self._seed_itself()  # a goal may have to be drawn
        super().set_task_state(task_state)

    def seed_task(self, seed: int | None = None) -> list[int]:
        """Seeds the task stream and the stream of goals; the selection starts over."""
        seeds = super().seed_task(seed)
        if self.pool.goals is not None:
            self.pool.goals.seed(seeds[0])
        return seeds

    def close(self) -> None:
        """Closes and frees every class that was built. A later `reset` builds it again."""
        self.__dict__.update(self.__getstate__())
        self.pool.close()

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes, ready for JSON: the task, streams and settings."""
        state = {**super().get_state(), "terminate_on_success": self.terminate_on_success}
        if self.pool.goals is not None:
            state["goal_stream"] = self.pool.goals.get_state()
        return state

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned, or raises `ValueError`."""
        goals = self.pool.goals
        if goals is not None and "goal_stream" not in check_mapping(state, "a state"):
            raise ValueError(f"expected a state with 'goal_stream', got {sorted(state)}")
        super().set_state(state)
        self.terminate_on_success = state["terminate_on_success"]
        if goals is not None:
            goals.set_state(state["goal_stream"])

    def __getstate__(self) -> dict[str, Any]:
        # A copy builds its own simulation, so it needs a reset.
        return {**self.__dict__, "_env": None, "_in_episode": False}

    def _activate(self, task_state: Any) -> None:
        self._env = self.pool.turn_to(self._task(task_state))

    def _task(self, task_state: Any) -> Task:
        """The `metaworld.Task` of a task state."""
        if self.pool.goals is None:
            task: Task = self.pool.tasks[task_state]
            return task
        k, vector = task_state
        return with_vector(self.pool.tasks[k], vector)
