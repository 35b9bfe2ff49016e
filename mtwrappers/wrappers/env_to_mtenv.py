"""A single environment with a task parameter, as a multi-task environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Space

from mtwrappers.common.checks import check_callable, check_env, check_list
from mtwrappers.common.errors import short, with_place
from mtwrappers.common.types import AnyEnv, AnySpace, Info
from mtwrappers.core.selection import SelectName, Strategy
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList, Tasks, TaskSpace
from mtwrappers.state.identity import keep_arguments

# The methods by which a class changes how it is copied.
_COPYING = ("__deepcopy__", "__getstate__", "__reduce__", "__reduce_ex__", "__setstate__")


class EnvToMTEnv(TaskSetMTEnv[Any]):
    """A multi-task environment whose tasks are values of a parameter of one environment.

    Use it for tasks that differ in a parameter, such as a goal or a gravity; for environments of
    different classes use `MultiEnvWrapper`.

    With a list of values, the task state is the index into it. With a Gymnasium space, such as a
    Box of goals, the task state and ``task_obs`` are an element of it, `sample_task_state` draws
    one, and there are no task ids and no ``num_tasks``. A declared set of tasks has its own task
    states.

    Copies and pickles are on the same task. They need a `reset` where the environment is built anew
    when it is copied, such as those of Gymnasium on MuJoCo.

    Args:
        env: The environment of every task.
        tasks: The values that ``set_task`` takes, one per task: a list, a space, or a declared set,
            `mtwrappers.core.tasks.Tasks`, whose task states they are.
        set_task: ``set_task(env, task)`` sets a task. By default, it calls the environment's method
            ``set_task(task)``.
        task_obs: ``task_obs(task)`` returns what the agent observes of a task; by default its
            index, or the element of the space.
        task_observation_space: The space of ``task_obs``; needed when ``task_obs`` is given.
        initial_task_state: The task at the start; by default the first of a list, or an element of
            the space drawn from entropy.
        task_names: A name for each task of a list; names must differ.
        select: How `sample_task_state` draws from a list; see `mtwrappers.core.selection`.
        sample_tasks_on_reset: Whether every reset draws the next task, unless one was set since
            the last reset. Such an environment seeds itself at its first reset if necessary.

    Raises:
        TypeError: If an argument has the wrong type, or ``set_task`` is left out and the
            environment has none.
        ValueError: If there are no tasks, ``initial_task_state`` is not one of them, only one of
            ``task_obs`` and ``task_observation_space`` is given, a name is repeated, or
            ``task_names`` or ``select`` is given without a list.

    >>> import gymnasium, numpy as np
    >>> from mtwrappers import EnvToMTEnv
    >>> def set_gravity(env, g):
    ...     env.unwrapped.g = float(g)
    >>> env = EnvToMTEnv(gymnasium.make("Pendulum-v1"), [8.0, 10.0], set_gravity)
    >>> obs, info = env.reset(seed=0, options={"task_state": 1})
    >>> env.env.unwrapped.g, info["task_id"]
    (10.0, 1)
    >>> gravities = gymnasium.spaces.Box(8.0, 10.0, (), np.float64)
    >>> env = EnvToMTEnv(gymnasium.make("Pendulum-v1"), gravities, set_gravity)
    >>> obs, info = env.reset(seed=0, options={"resample_task": True})
    >>> bool(env.env.unwrapped.g == obs["task_obs"] == env.get_task_state())
    True
    """

    _branch = 0
    # Whether the current task was set in ``env``; in a copy, only from its first reset on.
    _is_set = False

    def __init__(
        self,
        env: AnyEnv,
        tasks: Sequence[Any] | AnySpace | Tasks[Any],
        set_task: Callable[[AnyEnv, Any], object] | None = None,
        *,
        task_obs: Callable[[Any], Any] | None = None,
        task_observation_space: AnySpace | None = None,
        initial_task_state: Any = None,
        task_names: Sequence[str] | None = None,
        select: SelectName | Strategy = "uniform",
        sample_tasks_on_reset: bool = False,
    ) -> None:
        keep_arguments(self, locals())
        needed = None
        if set_task is None:
            needed = "set_task(task); pass a function as set_task="
            set_task = _call_set_task
        self.env = self._env = check_env(env, "env", needed)
        self._envs = {0: env}
        self._set_task = check_callable(set_task, "set_task")
        if (task_obs is None) != (task_observation_space is None):
            raise ValueError("task_obs and task_observation_space go together; got only one")
        self._observe_task = None if task_obs is None else check_callable(task_obs, "task_obs")
        self.tasks: list[Any] = []
        task_set: Tasks[Any]
        if not isinstance(tasks, (Space, Tasks)):
            if not isinstance(tasks, Iterable):
                raise TypeError(
                    "tasks must be a list of values for set_task, one per task, a gymnasium.Space "
                    f"or a declared set of tasks, got {tasks!r}"
                )
            self.tasks = check_list(tasks, "tasks", "task")
            task_set = TaskList(range(len(self.tasks)), task_names, select=select)
        elif task_names is None and isinstance(select, str) and select == "uniform":
            task_set = TaskSpace(tasks) if isinstance(tasks, Space) else tasks
        else:
            raise ValueError(
                f"task_names and select are for a list of tasks, got a {type(tasks).__name__} with "
                f"task_names={task_names!r} and select={select!r}"
            )
        super().__init__(
            env.action_space,
            env.observation_space,
            task_observation_space,
            task_set,
            initial_task_state=initial_task_state,
            sample_tasks_on_reset=sample_tasks_on_reset,
        )
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self._activate(self._task_state)

    def get_task_obs(self) -> Any:
        """The index of the current task, the element of the space, or ``task_obs(task)``."""
        if self._observe_task is None and self._task_set.states is not None:
            return self._task_obs  # a number, which needs no copy
        if self._observe_task is None:
            return copy.deepcopy(self._task_obs)
        task = self._task(self._task_state)
        try:
            return copy.deepcopy(self._observe_task(task))
        except Exception as exc:
            with_place(exc, f"task_obs(task) for the task {short(task)}")
            raise

    def get_task_state(self) -> Any:
        """The index of the current task, or the element of the space."""
        return copy.deepcopy(self._task_state)

    def close(self) -> None:
        self.env.close()

    def __getstate__(self) -> dict[str, Any]:
        state = {**self.__dict__, "_is_set": False}
        if _copies_are_built_anew(self.env):
            state |= {"_episode": self._episode.without_episode(), "_seeded": set()}
        return state

    def _task(self, task_state: Any) -> Any:
        return self.tasks[task_state] if self.tasks else task_state

    def _activate(self, task_state: Any) -> None:
        task = self._task(task_state)
        try:
            self._set_task(self.env, task)
        except Exception as exc:
            with_place(exc, f"set_task(env, task) for the task {short(task)}")
            raise
        self._is_set = True

    def _reset_below(self, options: dict[str, Any]) -> tuple[Any, Info]:
        if not self._is_set:
            self._activate(self._task_state)
        return super()._reset_below(options)


def _copies_are_built_anew(env: Any) -> bool:
    """Whether a copy may be another environment than a copy of all attributes.

    With ``EzPickle``, as in Gymnasium's environments on MuJoCo, it is built by its constructor, and
    has neither the task nor the random stream.
    """
    layers = [env]
    while isinstance(layers[-1], gymnasium.Wrapper):
        layers.append(layers[-1].env)
    classes = [base for layer in layers for base in type(layer).__mro__ if base is not object]
    return any(name in vars(base) for base in classes for name in _COPYING)


def _call_set_task(env: AnyEnv, task: Any) -> None:
    env.get_wrapper_attr("set_task")(task)
