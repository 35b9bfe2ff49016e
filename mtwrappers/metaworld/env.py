"""A benchmark as one multi-task environment, which the registered ids make."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from gymnasium.spaces import Text

from mtwrappers.common.checks import check_index, check_list
from mtwrappers.common.seeding import check_seed, goal_generator
from mtwrappers.common.types import State
from mtwrappers.core.mtenv import Observation
from mtwrappers.core.selection import SelectName, Strategy
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList, Tasks
from mtwrappers.metaworld.class_env import METADATA, action_box, warn_of_v1
from mtwrappers.metaworld.class_pool import ClassPool, ClassPoolEnv, PoolOptions
from mtwrappers.metaworld.interfaces import Benchmark, Task
from mtwrappers.metaworld.tasks import (
    ClassAndVector,
    ContinuousTasks,
    Goals,
    Kind,
    with_vector,
)
from mtwrappers.metaworld.text import (
    DESCRIPTIONS,
    Descriptions,
    check_descriptions,
    find_sentences,
    text_space,
)
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.identity import keep_arguments

_META_WORLDS = {*DESCRIPTIONS["metaworld"]}


class MetaWorldMTEnv(TaskSetMTEnv["int | ClassAndVector"], ClassPoolEnv[Observation]):
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
        benchmark: str | Benchmark = "MT10",
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
        **options: Unpack[PoolOptions],
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
        if task_states is None:  # make_vec, which passes them, has warned once for all
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
        self._sentences = None if described is None else find_sentences(described)
        keep_arguments(self, {"descriptions": described})
        if missing := [name for name in classes if self._sentences and name not in self._sentences]:
            raise ValueError(
                f"descriptions must have each of the {len(classes)} classes, but lack {missing}"
            )
        self.terminate_on_success = terminate_on_success

    @property
    def task(self) -> str:
        """The name of the current class, such as ``"reach-v3"``.

        Raises:
            AttributeError: If there are no descriptions, by default because tasks are hidden.
        """
        self._require_sentences()
        return self._find_task().env_name

    @property
    def task_description(self) -> str:
        """The instruction for the current class, a sentence; raises as `task` does."""
        return self._require_sentences()[self.task]

    @property
    def description_space(self) -> Text:
        """The space of `task_description`, with all sentences; raises as `task` does."""
        return text_space(self._require_sentences())

    def _require_sentences(self) -> Mapping[str, str]:
        if self._sentences is None:
            tables = ", ".join(map(repr, DESCRIPTIONS))
            raise AttributeError(
                "task and task_description would reveal the class, which is hidden here; "
                f"to enable them, pass descriptions={tables} or a table to gymnasium.make"
            )
        return self._sentences

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

    def set_task_state(self, task_state: object) -> None:
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

    def get_state(self) -> State:
        """The state between two episodes, ready for JSON: the task, streams and settings."""
        return {**super().get_state(), **self.pool.get_state()}

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned, or raises `TypeError` or `ValueError`."""
        self.pool.check_state(state)
        super().set_state(state)  # which changes nothing if it raises
        self.pool.set_state(state)

    def __getstate__(self) -> State:
        return {**self.__dict__, "_env": None, "_episode": self._episode.without_episode()}

    def _activate(self, task_state: int | ClassAndVector) -> None:
        self._env = self.pool.switch_to(self._make_task(task_state))

    def _find_task(self) -> Task:
        return self._make_task(self._task_state)

    def _make_task(self, task_state: int | ClassAndVector) -> Task:
        """The `metaworld.Task` of a task state."""
        if isinstance(task_state, int):
            return self.pool.tasks[task_state]
        class_index, vector = task_state
        return with_vector(self.pool.tasks[class_index], vector)
