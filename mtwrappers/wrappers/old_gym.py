"""The interface of OpenAI Gym before 0.26, which the loops of older meta-RL projects call."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from numpy.random import Generator

from mtwrappers.common.checks import check_env, check_index, check_list, check_reset, check_step
from mtwrappers.common.seeding import check_seed, fresh_seed, task_generator
from mtwrappers.common.types import AnyEnv, AnySpace, Info
from mtwrappers.vector.calls import begin_trial
from mtwrappers.wrappers.vector import require_single


class OldGym:
    """An environment with the interface that PEARL, VariBAD, learn2learn and others call.

    `reset` returns an observation, and `step` four values. `reset_task`, `get_all_task_idx` and
    `seed` are the methods that those projects added. Unlike in Gymnasium, a task stays until the
    next `reset_task` or `set_task`, also where ``env`` draws a task at every reset.

    ``env`` and ``tasks`` can be replaced. All other attributes are those of ``env``, such as
    ``sample_tasks``, ``_max_episode_steps``, or ``_freeze_rand_vec`` of Meta-World's classes, which
    are also set there. ``unwrapped`` is this object. If the program has imported the old ``gym``,
    Box and Discrete spaces are its own, since those projects check their type.

    Args:
        env: An environment with ``set_task``, or with the task states of `MTEnv`, or with neither
            if no task is set.
        tasks: The tasks that `reset_task` takes by index, or task states of an `MTEnv`; by default
            all task states that an `MTEnv` with a list of tasks draws.

    Raises:
        TypeError: If ``env`` is not a single environment, or ``tasks`` is not a list.
        ValueError: If ``tasks`` is empty.

    >>> from mtwrappers import OldGym, PointGoalEnv
    >>> env = PointGoalEnv()
    >>> env = OldGym(env, tasks=[{"goal": (1.0, 0.0)}, {"goal": (0.0, 1.0)}])
    >>> env.reset_task(1)
    array([0., 0.])
    >>> obs, reward, done, info = env.step([0.0, 0.1])
    >>> reward, done, env.get_task(), env.get_all_task_idx()
    (-0.9, False, {'goal': (0.0, 1.0)}, range(0, 2))
    """

    env: AnyEnv
    tasks: Sequence[Any] | None
    # Whether a task state of an `MTEnv` was set, which its own resets may replace.
    _keeps_task_state: bool
    # Draws from ``tasks``.
    _rng: Generator

    def __init__(self, env: AnyEnv, tasks: Sequence[dict[str, Any]] | None = None) -> None:
        self.env = env
        self.tasks = tasks
        self._rng = task_generator(fresh_seed())

    @property
    def unwrapped(self) -> OldGym:
        """This object, since there is nothing below it that has the old interface."""
        return self

    @property
    def observation_space(self) -> Any:
        """The environment's space; the old ``gym``'s if that was imported."""
        return _convert_space(self.env.observation_space)

    @property
    def action_space(self) -> Any:
        """The environment's space; the old ``gym``'s if that was imported."""
        return _convert_space(self.env.action_space)

    @property
    def _goal(self) -> Any:
        """The value of the current task, which PEARL stores in the paths of its evaluation."""
        task = self.get_task()
        return next(iter(task.values())) if isinstance(task, dict) and len(task) == 1 else task

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment and the drawing of tasks at once, by a reset with ``seed``.

        Returns:
            The seed; an empty list for ``None``, which seeds nothing.
        """
        if seed is None:
            return []
        seed = check_seed(seed)
        self._keep_task_state()
        self.env.reset(seed=seed)
        self._rng = task_generator(seed)
        return [seed]

    def reset(self) -> Any:
        """Begins an episode on the task that was set, and returns its observation."""
        self._keep_task_state()
        return check_reset(self.env.reset())[0]

    def step(self, action: Any) -> tuple[Any, float, bool, Info]:
        """Steps the environment.

        Returns:
            The observation, the reward, whether the episode has ended for any reason, and the info,
            which at a time limit has ``"TimeLimit.truncated"``, as in the old ``gym``: whether the
            limit alone ended the episode.
        """
        obs, reward, terminated, truncated, info = check_step(self.env.step(action))
        if truncated:
            info = {**info, "TimeLimit.truncated": not terminated}
        return obs, reward, bool(terminated or truncated), info

    def reset_task(self, task: Any = None) -> Any:
        """Sets a task and begins an episode on it, whose observation it returns.

        Args:
            task: One of `get_all_task_idx` (PEARL), a task (VariBAD), or ``None`` to draw one: from
                ``tasks``, uniformly, or as ``env`` draws if there are no ``tasks``.

        Raises:
            TypeError: If the environment takes no tasks.
            ValueError: If the index is out of range, or there are no tasks to take it from.
        """
        if isinstance(task, (int, np.integer)):
            task = self._look_up(task)
        elif task is None:
            task = self._draw()
        self.set_task(task)
        return self.reset()

    def set_task(self, task: Any) -> None:
        """Sets the task, or the task state of an `MTEnv`, of the next `reset` and all later ones.

        Raises:
            TypeError: If the environment takes neither.
        """
        if self._sets_tasks():
            self.env.get_wrapper_attr("set_task")(task)
        elif self.env.has_wrapper_attr("set_task_state"):
            self.env.get_wrapper_attr("set_task_state")(task)
            self._keeps_task_state = True
        else:
            raise TypeError(f"{self.env} has no set_task(task) and no set_task_state(task_state)")
        begin_trial(self.env)

    def get_task(self) -> Any:
        """The current task, or the task state of an `MTEnv`.

        Raises:
            TypeError: If the environment has neither.
        """
        name = "get_task" if self._sets_tasks() else "get_task_state"
        if not self.env.has_wrapper_attr(name):
            raise TypeError(f"{self.env} has no get_task() and no get_task_state()")
        return self.env.get_wrapper_attr(name)()

    def get_all_task_idx(self) -> range:
        """The indices that `reset_task` takes.

        Raises:
            ValueError: If there is no list of tasks.
        """
        return range(len(self._list_tasks()))

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def _keep_task_state(self) -> None:
        """Sets the current task state again, if it was set, because a reset may draw another."""
        if self._keeps_task_state:
            task_state = self.env.get_wrapper_attr("get_task_state")()
            self.env.get_wrapper_attr("set_task_state")(task_state)

    def _sets_tasks(self) -> bool:
        return self.env.has_wrapper_attr("set_task")

    def _list_tasks(self) -> Sequence[Any]:
        """The tasks, or task states of an `MTEnv`, behind the indices of `reset_task`."""
        if self.tasks is not None:
            return self.tasks
        if not self._sets_tasks() and self.env.has_wrapper_attr("num_tasks"):
            task_states: Sequence[Any] = self.env.get_wrapper_attr("task_states")
            num_tasks = self.env.get_wrapper_attr("num_tasks")
            # While no reset draws, the only state that `task_states` has is the current one.
            return task_states if len(task_states) == num_tasks else range(num_tasks)
        raise ValueError(
            "there is no list of tasks: pass one, such as OldGym(env, env.sample_tasks(130))"
        )

    def _look_up(self, index: Any) -> Any:
        tasks = self._list_tasks()
        return tasks[check_index(index, len(tasks), "the index of a task")]

    def _draw(self) -> Any:
        if self.tasks is not None:
            return self.tasks[int(self._rng.integers(len(self.tasks)))]
        if self._sets_tasks():
            return self._require("sample_tasks")(1)[0]
        return self._require("sample_task_state")()

    def _require(self, name: str) -> Any:
        """A method of the environment that draws tasks."""
        if not self.env.has_wrapper_attr(name):
            raise TypeError(f"{self.env} has no {name}() to draw a task: pass one")
        return self.env.get_wrapper_attr(name)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "env" not in vars(self):  # a copy that is being built
            raise AttributeError(name)
        return self.env.get_wrapper_attr(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "env":
            require_single(check_env(value, "env"), "OldGym")
            self._keeps_task_state = False
        elif name == "tasks" and value is not None:
            value = check_list(value, "tasks", "task")
        # VariBAD replaces `reset_task`, and adds attributes that it reads by `__getattribute__`.
        is_attribute = name in OldGym.__annotations__ or hasattr(type(self), name)
        if is_attribute or not self.env.has_wrapper_attr(name):
            super().__setattr__(name, value)
        else:
            self.env.set_wrapper_attr(name, value)

    def __repr__(self) -> str:
        return f"OldGym({self.env})"


def _convert_space(space: AnySpace) -> Any:
    """The space as one of the old ``gym``, if that was imported and has an equal one."""
    old_gym = sys.modules.get("gym")
    if old_gym is None:
        return space
    if isinstance(space, Box):
        return old_gym.spaces.Box(space.low, space.high, dtype=space.dtype)
    if isinstance(space, Discrete) and space.start == 0:
        return old_gym.spaces.Discrete(int(space.n))
    return space
