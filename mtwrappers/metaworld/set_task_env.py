"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task.

Its tasks are small dicts that are valid in every process. Keys: ``benchmark`` (name), ``kind``
(``"train"`` or ``"test"``), ``add_env_onehot`` (bool), ``classes`` (all classes of the benchmark,
which determine the observation space), and ``inner`` (the `metaworld.Task`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, Unpack

from gymnasium.error import ResetNeeded
from numpy.random import Generator

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    check_choice,
    check_flag,
    check_options,
    not_negative,
)
from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyEnv, Info, Options, State
from mtwrappers.core.mtenv import TASK_OPTIONS, check_stream
from mtwrappers.core.selection import WithoutReplacement, check_sweep
from mtwrappers.core.task_set_env import EpisodeStatus
from mtwrappers.metaworld.class_env import METADATA, action_box, warn_of_v1
from mtwrappers.metaworld.class_pool import ClassPool, ClassPoolEnv, Layout, PoolOptions, Wrapper
from mtwrappers.metaworld.interfaces import Benchmark, Task
from mtwrappers.metaworld.tasks import (
    Goals,
    Kind,
    check_task_vector,
    decode,
    with_vector,
)
from mtwrappers.metaworld.upstream import classes_by_name
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.plain_data import PLAIN_DICTS
from mtwrappers.state.registry import require_names
from mtwrappers.vector.calls import begin_trial

SetTaskDict: TypeAlias = dict[str, Any]
_NO_TASK = "no task was set: call set_task(task) before reset()"
_STATE_NAMES = ("task_state", "env_stream", "task_stream", "was_set", "selection", "seeded", "envs")


class SetTask(dict[str, Any]):
    """A task, which is printed as its class and goal."""

    def __repr__(self) -> str:
        try:
            name, vector = self["inner"].env_name, decode(self["inner"])["rand_vec"].round(3)
            return f"<{self['kind']} task of {self['benchmark']}: {name}, rand_vec {vector}>"
        except Exception:  # it was changed to anything
            return super().__repr__()


PLAIN_DICTS.add(SetTask)


class MetaWorldSetTaskEnv(ClassPoolEnv[Any]):
    """A benchmark as one environment whose task is set from outside.

    A task is a small dict (under 4 KB pickled) that any `MetaWorldSetTaskEnv` accepts, even one
    that was made without arguments in another process. Copies and pickles have the same task and
    need a `reset`; their wrappers begin anew. ``info`` contains ``task_name``, and with a one-hot
    also ``task_id``.

    The interface is garage's (https://github.com/rlworkgroup/garage). A `reset` keeps the task
    unless its options set or draw another one. It is no `MTEnv`; over the same benchmarks,
    `MetaWorldMTEnv` is one.

    Args:
        benchmark: A `metaworld.Benchmark` or the name of one. With ``None``, the first task that is
            set fixes the observation space, and setting a task with another space is an error.
        kind: ``"train"`` or ``"test"`` tasks; ``None`` means all.
        wrapper: ``wrapper(env, task)`` is applied to the environment of each class when it is
            built; ``task`` is a `metaworld.Task`. All must have the same observation space.
        add_env_onehot: Whether to append a one-hot of the class; only for the train tasks of
            multi-task benchmarks.
        goals: ``"list"`` takes the benchmark's own goals. With ``"continuous"``, each task that
            `sample_tasks` draws has a new goal from its class's distribution; ``tasks`` has one
            task per class, whose goal is ignored.
        seed: Determines the benchmark's goals if ``benchmark`` is a name, and the draws of
            `sample_tasks`. ``None`` takes the goals of seed 0, and draws from entropy.
        max_episode_steps: The number of steps until truncation, ``None`` for no limit.
        **options: The arguments ``env_name``, ``train_classes``, ``test_classes`` and ``num_goals``
            of `mtwrappers.metaworld.make_benchmark`, if ``benchmark`` is a name, and the fields of
            `mtwrappers.metaworld.class_env.SawyerSettings`.

    Attributes:
        pool: The `ClassPool` that owns the tasks and their environments.
        tasks: The benchmark's `metaworld.Task`s; with continuous goals, one task per class.
        task_names: The names of all classes that determine the observation space.
        env_observation_space: The observation space without the one-hot at its end.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If an argument has none of these values, or arguments cannot be combined.
        DependencyNotInstalled: If Meta-World is not installed.

    >>> from mtwrappers import MetaWorldSetTaskEnv
    >>> env = MetaWorldSetTaskEnv("MT1", env_name="push-v3", num_goals=3, seed=0)
    >>> [task] = env.sample_tasks(1)
    >>> other = MetaWorldSetTaskEnv()
    >>> other.set_task(task)
    >>> obs, info = other.reset()
    >>> obs.shape, info["task_name"], env.num_tasks
    ((39,), 'push-v3', 3)
    >>> task
    <train task of MT1: push-v3, rand_vec [-0.076  0.664  0.02   0.089  0.852  0.014]>
    """

    metadata = METADATA

    def __init__(
        self,
        benchmark: str | Benchmark | None = None,
        kind: Kind | None = None,
        wrapper: Wrapper | None = None,
        add_env_onehot: bool = False,
        *,
        goals: Goals = "list",
        seed: int | None = None,
        max_episode_steps: int | None = 500,
        **options: Unpack[PoolOptions],
    ) -> None:
        keep_arguments(self, {**locals(), "options": None})
        self.pool = ClassPool(
            benchmark,
            kind,
            wrapper,
            add_env_onehot,
            seed=seed,
            goals=goals,
            max_episode_steps=max_episode_steps,
            options=options,
        )
        keep_arguments(self, self.pool.arguments)
        if benchmark is not None:
            warn_of_v1(self.pool.settings.reward_function_version, self.pool.layout.classes)
        self._task_dicts = TaskDicts(self.pool, kind)
        self._task: SetTask | None = None
        # The environment of the task's class in its wrappers, ``None`` until a reset needs it.
        self._env: AnyEnv | None = None
        self._seeded: set[str] = set()  # the classes whose environments were seeded
        self._episode = EpisodeStatus.NONE
        self.action_space = action_box()
        self.tasks = self.pool.tasks
        self.render_mode = self.pool.render_mode
        self._take_spaces()
        self.seed_tasks(seed)

    # Tasks.

    @property
    def num_tasks(self) -> int:
        """The number of tasks of the benchmark; with continuous goals, of its classes."""
        return len(self.tasks)

    def get_task(self) -> SetTaskDict | None:
        """The current task, or ``None`` before one is set."""
        return None if self._task is None else SetTask(self._task)

    def sample_tasks(self, n_tasks: int, with_replacement: bool = False) -> list[SetTaskDict]:
        """Draws tasks in rounds, so that each class has the same share.

        Each round has a task of every class, in a random order. Without replacement, tasks of a
        class repeat only after all of them were drawn. The seed determines all draws; a round goes
        on in the next call.

        Raises:
            TypeError: If ``with_replacement`` is not a bool.
            ValueError: If ``n_tasks`` is negative or not an integer, or there is no benchmark.
        """
        n = not_negative(n_tasks, "n_tasks")
        with_replacement = check_flag(with_replacement, "with_replacement")
        return [self._task_dicts.draw(self._task_stream, with_replacement) for _ in range(n)]

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the draws of `sample_tasks`, from entropy if ``seed`` is ``None``."""
        self._task_seed = seeding.chosen_seed(seed)
        self._task_stream = seeding.task_generator(self._task_seed)
        self._task_dicts.restart()
        if self.pool.goals is not None:
            self.pool.goals.seed(self._task_seed)

    def set_task(self, task: SetTaskDict) -> None:
        """Sets a task from `sample_tasks`; the next `reset` begins an episode on it.

        A wrapper's method ``begin_trial``, such as that of `RL2Observation`, is called then.

        Raises:
            ValueError: If it is malformed, of the other kind, or needs another observation space;
                the current task is then kept.
        """
        self._set_checked(self._task_dicts.check(task))

    def _set_checked(self, task: SetTask) -> None:
        self._activate(task)
        assert self._env is not None  # it was just activated
        begin_trial(self._env)
        self._episode = EpisodeStatus.TASK_SET

    def _activate(self, task: SetTask) -> None:
        """Switches to a task and its class, or raises and changes nothing."""
        layout = None if self._task_dicts.fixed else read_layout(task)
        self._env = self.pool.switch_to(task["inner"], layout)
        self._task = task
        if layout is not None:
            self._task_dicts.fixed = True
            self._take_spaces()

    def _take_spaces(self) -> None:
        self.observation_space = self.pool.observation_space
        self.env_observation_space = self.pool.env_observation_space
        self.task_names = tuple(self.pool.layout.classes)

    # Episodes.

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        """Begins an episode of the current task, or of the benchmark's first if none was set.

        ``seed`` also seeds `sample_tasks`; ``options={"task": task}`` sets a task first, as
        ``task_state``, the name in `MTEnv`, does; ``options={"resample_task": True}`` draws one.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark.
            TypeError: If ``resample_task`` is not a bool.
            ValueError: If the task cannot be set, or there is another option.
        """
        task, draws = self._read_options(options)
        if seed is not None:
            seed = seeding.check_seed(seed)
            self._seed_env(seed)
            self.seed_tasks(seed)
        if draws:
            task = self._task_dicts.draw(self._task_stream)
        if task is not None:
            self._set_checked(task)
        elif self._env is None:
            self._activate(self._task_dicts.first() if self._task is None else self._task)
        assert self._env is not None  # it was just activated, or before
        self._episode = self._episode.without_episode()  # if the reset fails
        class_name = self._find_task().env_name
        obs, info = self._env.reset(seed=self._find_class_seed(class_name))
        self._seeded.add(class_name)
        self._episode = EpisodeStatus.BEGUN
        return obs, dict(info)

    def _find_class_seed(self, class_name: str) -> int | None:
        """The seed of a class's environment, whose wrapper may be random, at its first reset.

        ``None`` if it was reset since the last seed, or there was no seed.
        """
        # -1 is Gymnasium's mark of a generator that was set without a seed.
        if class_name in self._seeded or self._np_random_seed in (None, -1):
            return None
        return seeding.child_seed(self._np_random_seed, self.task_names.index(class_name))

    def _read_options(self, options: Options | None) -> tuple[SetTask | None, bool]:
        """The task that reset options name, and whether they ask to draw one."""
        check_options(
            options,
            ("task", *TASK_OPTIONS),
            "MetaWorldSetTaskEnv",
            hint="task is a dict from sample_tasks; a seed is an argument of reset",
        )
        named = dict(options or {})
        if "task" in named:
            if "task_state" in named:
                raise ValueError(
                    "options must hold task or task_state, which is its name in MTEnv, not both; "
                    f"got task={named['task']!r} and task_state={named['task_state']!r}"
                )
            named["task_state"] = named.pop("task")
        draws = check_flag(named.get("resample_task", False), "options['resample_task']")
        if "task_state" not in named:
            return None, draws
        if draws:
            raise ValueError(
                "options must hold task_state or resample_task, not both; got "
                f"task_state={named['task_state']!r} and resample_task=True"
            )
        return self._task_dicts.check(named["task_state"]), False

    def step(self, action: Any) -> tuple[Any, float, bool, bool, Info]:
        """Steps the environment of the current task, or raises `ResetNeeded`."""
        obs, reward, terminated, truncated, info = self._require_reset().step(action)
        return obs, float(reward), bool(terminated), bool(truncated), dict(info)

    def render(self) -> Any:
        """Renders the environment of the current task; needs a `reset`, as `step` does."""
        return self._require_reset().render()

    def _require_reset(self) -> AnyEnv:
        """The environment of the current episode, or `ResetNeeded`."""
        if self._episode is not EpisodeStatus.BEGUN or self._env is None:
            raise ResetNeeded(
                f"task {self._task} {self._episode.value}: call reset() before step() and render()"
            )
        return self._env

    def _find_task(self) -> Task:
        if self._task is None:
            raise ResetNeeded(_NO_TASK)
        task: Task = self._task["inner"]
        return task

    # The state between two episodes.

    def get_state(self) -> State:
        """The state between two episodes: task, streams, round of draws, and the wrappers'."""
        if self._np_random_seed is None:
            self._seed_env(seeding.fresh_seed())
        return {
            "task_state": self.get_task(),
            "env_stream": seeding.stream_state(self._np_random_seed, self._np_random),
            "task_stream": seeding.stream_state(self._task_seed, self._task_stream),
            "was_set": self._episode is EpisodeStatus.TASK_SET,
            "selection": self._task_dicts.get_state(),
            "seeded": sorted(self._seeded),
            "envs": self.pool.get_env_states(),
            **self.pool.get_state(),
        }

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Raises:
            TypeError: If ``state`` is not a dict.
            ValueError: If ``state`` does not fit. Only a state that a wrapper refuses leaves a part
                of it set.
        """
        self.pool.check_state(state)
        if missing := sorted({*_STATE_NAMES} - state.keys()):
            raise ValueError(f"expected {sorted(_STATE_NAMES)} in a state, got none of {missing}")
        for name in ("env_stream", "task_stream"):
            check_stream(state[name], f"the {name} of the state", self)
        check_flag(state["was_set"], "was_set of the state")
        self._task_dicts.check_state(state["selection"])
        layout, class_name = self.pool.layout, None
        if state["task_state"] is not None:
            task = self._task_dicts.check(state["task_state"])
            layout = layout if self._task_dicts.fixed else read_layout(task)
            class_name = task["inner"].env_name
        seeded, env_states = state["seeded"], state["envs"]
        if not isinstance(seeded, list) or not all(
            isinstance(name, str) and name in layout.classes for name in seeded
        ):
            raise ValueError(f"expected the names of classes in a state, got {short(seeded)}")
        self.pool.check_env_states(env_states, layout)
        self.pool.close_other_envs(env_states)
        if class_name in env_states:
            # The wrapper was given the class's first task, which may be another than the current.
            self.pool.build(env_states[class_name][0], layout)
        if state["task_state"] is None:
            self._task = self._env = None
        else:
            self.set_task(state["task_state"])  # which changes nothing if it raises
        self._seed_env(state["env_stream"]["seed"])
        self.np_random.bit_generator.state = state["env_stream"]["state"]
        self.seed_tasks(state["task_stream"]["seed"])
        self._task_stream.bit_generator.state = state["task_stream"]["state"]
        self._task_dicts.set_state(state["selection"])
        self.pool.set_env_states(env_states)
        self._seeded = {*seeded}
        self._episode = EpisodeStatus.TASK_SET if state["was_set"] else EpisodeStatus.NONE
        self.pool.set_state(state)

    def _seed_env(self, seed: int) -> None:
        self._np_random_seed, self._np_random = seed, seeding.env_generator(seed)
        self._seeded = set()

    def __getstate__(self) -> State:
        state = {**self.__dict__, "_env": None, "_episode": self._episode.without_episode()}
        return {**state, "_seeded": set()}


class TaskDicts:
    """The tasks of a `ClassPool` as dicts: how they are made, checked, and drawn in rounds.

    A round has a task of every class, in a random order.

    Attributes:
        fixed: Whether the observation space is fixed, by a benchmark or by the first task.
    """

    def __init__(self, pool: ClassPool, kind: Kind | None) -> None:
        self._pool, self._kind = pool, kind
        self.fixed = bool(pool.tasks)
        self._indices_by_class: dict[str, list[int]] = {}
        for index, task in enumerate(pool.tasks):
            self._indices_by_class.setdefault(task.env_name, []).append(index)
        self.restart()

    def restart(self) -> None:
        """Begins the first round."""
        self._round = WithoutReplacement()  # of the classes
        self._sweeps = {name: WithoutReplacement() for name in self._indices_by_class}

    def first(self) -> SetTask:
        """The benchmark's first task."""
        if not self._pool.tasks:
            raise ResetNeeded(_NO_TASK)
        return self.make_task(0)

    def draw(self, rng: Generator, with_replacement: bool = False) -> SetTask:
        """Draws a task of the next class of the round."""
        if not self._indices_by_class:
            raise ValueError("sample_tasks needs a benchmark; this environment has none")
        classes = list(self._indices_by_class)
        name = classes[self._round(len(classes), None, rng)]
        indices = self._indices_by_class[name]
        if with_replacement:
            return self.make_task(indices[int(rng.integers(len(indices)))])
        return self.make_task(indices[self._sweeps[name](len(indices), None, rng)])

    def make_task(self, index: int) -> SetTask:
        """The dict of a task of the benchmark; a continuous goal is drawn."""
        goals, inner = self._pool.goals, self._pool.tasks[index]
        if goals is not None:
            inner = with_vector(inner, goals.draw(index))
        layout = self._pool.layout
        return SetTask(
            benchmark=self._pool.name,
            kind=self._pool.kinds[index],
            add_env_onehot=layout.onehot,
            # Names are smaller than classes.
            classes=tuple(layout.classes) if layout.is_upstream else dict(layout.classes),
            inner=inner,
        )

    def check(self, task: object) -> SetTask:
        """Returns a copy of a task that can be set, or raises `ValueError`."""
        layout = read_layout(task)
        assert isinstance(task, Mapping)
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        class_name = task["inner"].env_name
        if self.fixed and not self._pool.layout.accepts(class_name, layout):
            origin = f"of {self._pool.name}" if self._pool.tasks else "like its first"
            raise ValueError(
                f"this environment is for tasks {origin}, with {self._pool.layout}, got "
                f"{class_name!r} of {task['benchmark']}, with {layout}: it needs another "
                "observation space"
            )
        return SetTask(task)

    def get_state(self) -> State:
        """The state that `draw` continues from."""
        sweeps = {name: sweep.get_state() for name, sweep in self._sweeps.items()}
        return {"round": self._round.get_state(), "sweeps": sweeps}

    def set_state(self, state: State) -> None:
        """Restores a checked state that `get_state` returned."""
        self._round.set_state(state["round"])
        for name, sweep in self._sweeps.items():
            sweep.set_state(state["sweeps"][name])

    def check_state(self, state: object) -> None:
        """Raises `ValueError` if ``state`` is not one of this benchmark's."""
        values = require_names(state, ("round", "sweeps"), self)
        sweeps = require_names(values["sweeps"], self._indices_by_class, self)
        check_sweep(values["round"], len(self._indices_by_class), "the round of classes")
        for name, indices in self._indices_by_class.items():
            check_sweep(sweeps[name], len(indices), f"the sweep of {name}")


def read_layout(task: Any) -> Layout:
    """The layout of the environment that a task comes from.

    Raises:
        ValueError: If the task is not like one from `MetaWorldSetTaskEnv.sample_tasks`.
    """
    if not isinstance(task, Mapping):
        raise ValueError(
            f"expected a dict as sample_tasks() returns, got {type(task).__name__} {short(task)}"
        )
    try:
        check_choice(task["kind"], ("train", "test"), "task['kind']")
        names, inner, _ = task["classes"], task["inner"], task["benchmark"]
        classes = dict(names) if isinstance(names, Mapping) else classes_by_name(names)
        data = decode(inner)
        if classes[inner.env_name] is not data["env_cls"]:
            raise ValueError(f"{inner.env_name!r} is not the name of {data['env_cls']}")
        check_task_vector(inner)
        add_env_onehot = check_flag(task["add_env_onehot"], "task['add_env_onehot']")
        return Layout(classes, not data["partially_observable"], add_env_onehot)
    except Exception as exc:  # a damaged pickle may raise anything
        raise ValueError(
            "expected a task as sample_tasks() returns it, a dict of benchmark, kind, "
            f"add_env_onehot, classes and inner; got {short(task)}: {exc!r}"
        ) from exc
