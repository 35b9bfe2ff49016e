"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task.

Its tasks are small dicts that are valid in every process. Keys: ``benchmark`` (name), ``kind``
(``"train"`` or ``"test"``), ``add_env_onehot`` (bool), ``classes`` (all classes of the benchmark,
which determine the observation space), and ``inner`` (the `metaworld.Task`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn, TypeAlias

from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete
from numpy.random import Generator

from mtwrappers.common.checks import check_choice, check_flag, check_options, not_negative
from mtwrappers.common.errors import short
from mtwrappers.core.mtenv import TASK_OPTIONS
from mtwrappers.core.selection import WithoutReplacement
from mtwrappers.core.task_set_env import TaskChange, TaskSetMTEnv
from mtwrappers.core.tasks import Description, Tasks
from mtwrappers.metaworld.class_env import action_box, warn_of_v1
from mtwrappers.metaworld.env import ClassPool, Layout, MetaWorldMTEnv, Wrapper
from mtwrappers.metaworld.tasks import Goals, Kind, check_task_vector, decode, with_vector
from mtwrappers.metaworld.upstream import classes_by_name
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.plain_data import PLAIN_DICTS

SetTaskDict: TypeAlias = dict[str, Any]


class SetTask(dict[str, Any]):
    """A task, which is printed as its class and goal."""

    def __repr__(self) -> str:
        try:
            name, vector = self["inner"].env_name, decode(self["inner"])["rand_vec"]
        except Exception:  # it was changed to anything
            return super().__repr__()
        return f"<{self['kind']} task of {self['benchmark']}: {name}, rand_vec {vector.round(3)}>"


PLAIN_DICTS.add(SetTask)


def _without(name: str) -> Any:
    """A property of `MetaWorldMTEnv` that is missing here."""

    def missing(self: Any) -> NoReturn:
        raise AttributeError(
            f"{type(self).__name__} has no {name}: its tasks are dicts, from sample_tasks and for "
            "set_task; MetaWorldMTEnv has a list of tasks and their indices"
        )

    return property(missing)


class MetaWorldSetTaskEnv(MetaWorldMTEnv):
    """A benchmark as one environment whose task is set from outside.

    A task is a small dict (under 4 KB pickled) that any `MetaWorldSetTaskEnv` accepts, even one
    that was made without arguments in another process. Copies and pickles have the same task and
    need a `reset`. ``info`` contains ``task_name``, and with a one-hot also ``task_id``.

    The interface is garage's (https://github.com/rlworkgroup/garage). It stands on
    `MetaWorldMTEnv`, whose task state is then a task, or ``None`` before one is set; observations
    are plain arrays.

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

    _sentences = None
    task_ids = _without("task_ids")
    task_states = _without("task_states")
    exact_task_state = _without("exact_task_state")
    task = _without("task")
    task_description = _without("task_description")
    description_space = _without("description_space")

    def __init__(
        self,
        benchmark: Any = None,
        kind: Kind | None = None,
        wrapper: Wrapper | None = None,
        add_env_onehot: bool = False,
        *,
        goals: Goals = "list",
        seed: int | None = None,
        max_episode_steps: int | None = 500,
        **options: Any,
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
        self._set_tasks = SetTasks(self.pool, kind)
        space = self.pool.observation_space
        TaskSetMTEnv.__init__(self, action_box(), space, None, self._set_tasks)
        self.tasks = self.pool.tasks
        self.render_mode = self.pool.render_mode
        self._take_spaces()
        self.seed_tasks(seed)

    def get_task(self) -> SetTaskDict | None:
        """The current task, or ``None`` before one is set."""
        return None if self._task_state is None else SetTask(self._task_state)

    def sample_tasks(self, n_tasks: int, with_replacement: bool = False) -> list[SetTaskDict]:
        """Draws tasks in rounds, so that each class has the same share.

        Each round has a task of every class, in a random order. Without replacement, tasks of a
        class repeat only after all of them were drawn. The seed determines all draws; a round goes
        on in the next call.

        Raises:
            TypeError: If ``with_replacement`` is not a bool.
            ValueError: If ``n_tasks`` is negative or not an integer, or there is no benchmark.
        """
        n, anew = not_negative(n_tasks, "n_tasks"), check_flag(with_replacement, "with_replacement")
        return [self._set_tasks.draw(self.np_random_task, anew) for _ in range(n)]

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the draws of `sample_tasks`, from entropy if ``seed`` is ``None``."""
        self.seed_task(seed)

    def set_task(self, task: SetTaskDict) -> None:
        """Sets a task from `sample_tasks`; the next `reset` begins an episode on it.

        Raises:
            ValueError: If it is malformed, of the other kind, or needs another observation space;
                the current task is then kept.
        """
        self._turn_to(self._set_tasks.check(task, "task"))

    def get_task_state(self) -> SetTaskDict | None:
        """As `get_task`."""
        return self.get_task()

    def set_task_state(self, task_state: Any) -> None:
        """As `set_task`; ``None`` is the state before a task was set."""
        if task_state is not None:
            self.set_task(task_state)
            return
        self._env = self._task_state = self._task_obs = None
        self._change, self._in_episode = TaskChange.NONE, False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the current task, or of the benchmark's first if none was set.

        ``seed`` also seeds `sample_tasks`; ``options={"task": task}`` sets a task first, as
        ``task_state``, the name in `MTEnv`, does.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark.
            ValueError: If the task cannot be set, or there is another option.
        """
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
        self._seed_below = seed
        return super().reset(seed=seed, options=named or None)

    def observe(self, env_obs: Any) -> Any:
        """Returns ``env_obs`` itself."""
        return env_obs

    def _reset_below(self, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        # A wrapper may be random.
        return self._current_env.reset(seed=self._seed_below)

    def _activate(self, task_state: Any) -> None:
        if task_state is None:
            if not self.tasks:
                raise ResetNeeded("no task was set: call set_task(task) before reset()")
            task_state = self._task_state = self._set_tasks.of_place(0)
            self._task_obs, _ = self._set_tasks.describe(task_state)
        layout = None if self._set_tasks.fixed else layout_of(task_state)
        self._env = self.pool.turn_to(task_state["inner"], layout)
        if layout is not None:
            self._set_tasks.fixed = True
            self._take_spaces()

    def _take_spaces(self) -> None:
        self.observation_space = self.pool.observation_space
        self.env_observation_space = self.pool.env_observation_space
        self.task_names = tuple(self.pool.layout.classes)

    def _task(self, task_state: Any) -> Any:
        if task_state is None:
            raise ResetNeeded("no task was set: call set_task(task) before reset()")
        return task_state["inner"]


class SetTasks(Tasks[Any]):
    """The tasks of a `ClassPool` as dicts, which are also the task states.

    They are drawn in rounds: one of every class, in a random order.
    """

    def __init__(self, pool: ClassPool, kind: Kind | None) -> None:
        self._pool, self._kind = pool, kind
        self.fixed = bool(pool.tasks)  # whether the observation space is
        self.states = tuple(range(len(pool.tasks)))
        self.names = tuple(pool.layout.classes)
        self.space = Discrete(len(pool.layout.classes))
        self._by_class: dict[str, list[int]] = {}
        for place, task in enumerate(pool.tasks):
            self._by_class.setdefault(task.env_name, []).append(place)
        self.restart()

    def restart(self) -> None:
        """Begins the first round."""
        self._round = WithoutReplacement()  # of the classes
        self._sweeps = {name: WithoutReplacement() for name in self._by_class}

    def first(self) -> None:
        """No task: the first reset sets one."""

    def draw(self, rng: Generator, anew: bool = False) -> SetTaskDict:
        """Draws a task of the next class of the round."""
        if not self._by_class:
            raise ValueError("sample_tasks needs a benchmark; this environment has none")
        name = list(self._by_class)[self._round(len(self._by_class), None, rng)]
        places = self._by_class[name]
        if anew:
            return self.of_place(places[int(rng.integers(len(places)))])
        return self.of_place(places[self._sweeps[name](len(places), None, rng)])

    def of_place(self, place: int) -> SetTaskDict:
        """The dict of a task of the benchmark; a continuous goal is drawn."""
        goals, inner = self._pool.goals, self._pool.tasks[place]
        if goals is not None:
            inner = with_vector(inner, goals.draw(place))
        layout = self._pool.layout
        return SetTask(
            benchmark=self._pool.name,
            kind=self._pool.kinds[place],
            add_env_onehot=layout.onehot,
            # Names are smaller than classes.
            classes=tuple(layout.classes) if layout.is_upstream else dict(layout.classes),
            inner=inner,
        )

    def check(self, task: Any, what: str) -> SetTaskDict:
        """Returns a copy of a task that can be set, or raises `ValueError`."""
        layout, here = layout_of(task), self._pool.layout
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        name = task["inner"].env_name
        if self.fixed and not here.takes(name, layout):
            raise ValueError(
                f"this environment is for tasks of {self._pool.name} with {here}, got {name!r} of "
                f"{task['benchmark']} with {layout}: it needs another observation space"
            )
        return SetTask(task)

    def describe(self, task: SetTaskDict | None) -> Description:
        """The index of a task's class; its infos are those of the class."""
        known = list(self._pool.layout.classes)
        return None if task is None else known.index(task["inner"].env_name), {}

    def get_state(self) -> dict[str, Any]:
        """The state that `draw` continues from."""
        sweeps = {name: sweep.get_state() for name, sweep in self._sweeps.items()}
        return {"round": self._round.get_state(), "sweeps": sweeps}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned."""
        self._round.set_state(state["round"])
        for name, sweep in self._sweeps.items():
            sweep.set_state(state["sweeps"][name])


def layout_of(task: Any) -> Layout:
    """The layout of the environment that a task comes from.

    Raises:
        ValueError: If the task is not like one from `MetaWorldSetTaskEnv.sample_tasks`.
    """
    try:
        check_choice(task["kind"], ("train", "test"), "task['kind']")
        given, inner, _ = task["classes"], task["inner"], task["benchmark"]
        classes = dict(given) if isinstance(given, Mapping) else classes_by_name(given)
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
