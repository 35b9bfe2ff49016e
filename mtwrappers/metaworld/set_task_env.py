"""A Meta-World benchmark behind the set-task interface: sample_tasks, set_task, get_task.

Its tasks are small dicts that are valid in every process. Keys: ``benchmark`` (name), ``kind``
(``"train"`` or ``"test"``), ``add_env_onehot`` (bool), ``classes`` (all classes of the benchmark,
which determine the observation space), and ``inner`` (the `metaworld.Task`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
from gymnasium.error import ResetNeeded

from mtwrappers.common.checks import check_choice, check_flag, check_options, not_negative
from mtwrappers.common.seeding import check_seed, chosen_seed, task_generator
from mtwrappers.core.selection import WithoutReplacement
from mtwrappers.metaworld.class_env import METADATA, action_box
from mtwrappers.metaworld.env import ClassPool, Layout, Wrapper
from mtwrappers.metaworld.tasks import Goals, Kind, check_task_vector, decode, with_vector
from mtwrappers.metaworld.upstream import classes_by_name
from mtwrappers.state.identity import keep_arguments

SetTaskDict: TypeAlias = dict[str, Any]


class MetaWorldSetTaskEnv(gymnasium.Env[Any, Any]):
    """A benchmark as one environment whose task is set from outside.

    A task is a small dict (under 4 KB pickled) that any `MetaWorldSetTaskEnv` accepts, even one
    that was made without arguments in another process. Copies and pickles have the same task and
    need a `reset`. ``info`` contains ``task_name``, and with a one-hot also ``task_id``.

    The interface is garage's (https://github.com/rlworkgroup/garage).

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
        goals: Goals = "list",
        seed: int | None = None,
        max_episode_steps: int | None = 500,
        **options: Any,
    ) -> None:
        keep_arguments(self, {**locals(), "options": None})
        self._pool = ClassPool(
            benchmark,
            kind,
            wrapper,
            add_env_onehot,
            seed=seed,
            goals=goals,
            max_episode_steps=max_episode_steps,
            options=options,
        )
        keep_arguments(self, self._pool.arguments)
        self._kind = kind
        self._task: SetTaskDict | None = None
        self._env: Any = None  # of the current task
        self._begun = False  # whether it was reset since the task was set
        self._order = ClassByClass(self.tasks)
        self.seed_tasks(seed)
        self.action_space = action_box()
        self.observation_space = self._pool.observation_space
        self.render_mode = self._pool.render_mode

    @property
    def tasks(self) -> list[Any]:
        """The benchmark's `metaworld.Task`s in its order; none without a benchmark."""
        return self._pool.tasks

    @property
    def layout(self) -> Layout:
        """The settings that determine the observation space."""
        return self._pool.layout

    @property
    def _max_episode_steps(self) -> int | None:
        """The number of steps until truncation, named as in Gymnasium's ``TimeLimit``."""
        return self._pool.max_episode_steps

    @property
    def num_tasks(self) -> int:
        """The number of tasks (with continuous goals, of classes); 0 without a benchmark."""
        return len(self.tasks)

    @property
    def task_names(self) -> tuple[str, ...]:
        """The classes, in the order of the one-hot."""
        return tuple(self.layout.classes)

    @property
    def env_observation_space(self) -> Any:
        """`observation_space` without the one-hot at its end."""
        return self._pool.env_observation_space

    @property
    def envs_built(self) -> int:
        """The number of classes built so far."""
        return self._pool.envs_built

    def get_task(self) -> SetTaskDict | None:
        """The current task, or ``None`` before one is set."""
        return None if self._task is None else dict(self._task)

    def sample_tasks(self, n_tasks: int, with_replacement: bool = False) -> list[SetTaskDict]:
        """Draws tasks in rounds, so that each class has the same share.

        Each round has a task of every class, in a random order. Without replacement, tasks of a
        class repeat only after all of them were drawn. The seed determines all draws; a round goes
        on in the next call.

        Raises:
            TypeError: If ``with_replacement`` is not a bool.
            ValueError: If ``n_tasks`` is negative or not an integer, or there is no benchmark.
        """
        if not self.tasks:
            raise ValueError("sample_tasks needs a benchmark; this environment has none")
        n, anew = not_negative(n_tasks, "n_tasks"), check_flag(with_replacement, "with_replacement")
        return [self._describe(self._order.draw(anew)) for _ in range(n)]

    def seed_tasks(self, seed: int | None = None) -> None:
        """Seeds the draws of `sample_tasks`, from entropy if ``seed`` is ``None``."""
        seed = chosen_seed(seed)
        self._order.seed(seed)
        if self._pool.goals is not None:
            self._pool.goals.seed(seed)

    def set_task(self, task: SetTaskDict) -> None:
        """Sets a task from `sample_tasks`; the next `reset` begins an episode on it.

        Raises:
            ValueError: If it is malformed, of the other kind, or needs another observation space;
                the current task is then kept.
        """
        layout = layout_of(task)
        if self._kind is not None and task["kind"] != self._kind:
            raise ValueError(
                f"this environment is for {self._kind} tasks, got a {task['kind']} task"
            )
        fixed, name = bool(self.tasks) or self._task is not None, task["inner"].env_name
        if fixed and not self.layout.takes(name, layout):
            raise ValueError(
                f"this environment is for tasks of {self._pool.name} with {self.layout}, got "
                f"{name!r} of {task['benchmark']} with {layout}: it needs another observation space"
            )
        self._env = self._pool.turn_to(task["inner"], None if fixed else layout)
        self._begun = False
        self.observation_space = self._pool.observation_space
        self._task = dict(task)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begins an episode of the current task, or of the benchmark's first if none was set.

        ``seed`` also seeds `sample_tasks`; ``options={"task": task}`` sets a task first.

        Raises:
            ResetNeeded: If no task was set and there is no benchmark.
            ValueError: If the task cannot be set, or another option is about tasks.
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
            self.set_task(self._task or self._describe(0))  # a copy already has a task
        obs, info = self._env.reset(seed=seed)
        self._begun = True
        return obs, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Simulates one control step (12.5 ms); needs a `reset` after `set_task`."""
        if not self._begun:
            raise ResetNeeded("call reset() after set_task() and before step()")
        obs, reward, terminated, truncated, info = self._env.step(action)
        return obs, float(reward), terminated, truncated, info

    def render(self) -> Any:
        """Draws a frame of the current class; needs a `reset` after `set_task`."""
        if not self._begun:
            raise ResetNeeded("call reset() before render()")
        return self._env.render()

    def get_state(self) -> dict[str, Any]:
        """The state between two episodes: the current task, and what `sample_tasks` draws next."""
        goals = self._pool.goals
        drawn = {} if goals is None else {"goal_stream": goals.get_state()}
        return {"task": self.get_task(), "order": self._order.get_state(), **drawn}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned, or raises `ValueError`."""
        self._order.set_state(state["order"])
        if self._pool.goals is not None:
            self._pool.goals.set_state(state["goal_stream"])
        if state["task"] is not None:
            self.set_task(state["task"])

    def close(self) -> None:
        """Closes and frees every class that was built. A later `reset` builds it again."""
        self.__dict__.update(self.__getstate__())
        self._pool.close()

    def __getstate__(self) -> dict[str, Any]:
        # A copy builds its own simulations, on the same task, at its first reset.
        return {**self.__dict__, "_env": None, "_begun": False}

    def _describe(self, place: int) -> SetTaskDict:
        """The dict of a task; a continuous goal is drawn."""
        goals, inner = self._pool.goals, self.tasks[place]
        if goals is not None:
            inner = with_vector(inner, goals.draw(place))
        return {
            "benchmark": self._pool.name,
            "kind": self._pool.kinds[place],
            "add_env_onehot": self.layout.onehot,
            "classes": self.layout.short_classes,
            "inner": inner,
        }


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
            f"add_env_onehot, classes and inner; got {task!r}: {exc!r}"
        ) from exc


class ClassByClass:
    """Draws places in a list of tasks in rounds: one of every class, in a random order."""

    def __init__(self, tasks: Sequence[Any]) -> None:
        self._by_class: dict[str, list[int]] = {}
        for place, task in enumerate(tasks):
            self._by_class.setdefault(task.env_name, []).append(place)

    def seed(self, seed: int | None) -> None:
        """Seeds the order, from entropy if ``seed`` is ``None``."""
        self._rng = task_generator(chosen_seed(seed))
        self._round = WithoutReplacement()  # of the classes
        self._sweeps = {name: WithoutReplacement() for name in self._by_class}

    def draw(self, with_replacement: bool) -> int:
        """Draws a place of the next class of the round."""
        name = list(self._by_class)[self._round(len(self._by_class), None, self._rng)]
        places = self._by_class[name]
        if with_replacement:
            return places[int(self._rng.integers(len(places)))]
        return places[self._sweeps[name](len(places), None, self._rng)]

    def get_state(self) -> dict[str, Any]:
        """The state that `draw` continues from."""
        return {
            "rng": dict(self._rng.bit_generator.state),
            "round": self._round.get_state(),
            "sweeps": {name: sweep.get_state() for name, sweep in self._sweeps.items()},
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned."""
        self._rng.bit_generator.state = state["rng"]
        self._round.set_state(state["round"])
        for name, sweep in self._sweeps.items():
            sweep.set_state(state["sweeps"][name])
