"""A single environment with a parameter, as a multi-task environment."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
from gymnasium.spaces import Space

from mtwrappers import seeding
from mtwrappers.core import Observation, without_task_options
from mtwrappers.indexed import IndexedMTEnv, check_index, check_task_names
from mtwrappers.selection import SelectName, Strategy


class EnvToMTEnv(IndexedMTEnv):
    """An environment and a list of values that turn it into one task after another.

    Use it for a family that differs in a parameter, such as a goal or a gravity; for environments
    of different classes use `MultiEnvWrapper`. The task state is the index into ``tasks``.

    Args:
        env: The environment that plays every task.
        tasks: What distinguishes the tasks, in any form that ``set_task`` understands.
        set_task: ``set_task(env, task)`` turns ``env`` to a task. By default the environment's own
            ``set_task(task)``.
        task_obs: ``task_obs(task)`` is what the agent sees of a task; by default its index.
        task_observation_space: The space of ``task_obs``; needed when ``task_obs`` is given.
        initial_task_state: The task at the start.
        task_names: A name for each task.
        select: See `mtwrappers.selection`.

    Raises:
        TypeError: If ``set_task`` is left out and the environment has none.
        ValueError: If there are no tasks, or only one of ``task_obs`` and
            ``task_observation_space`` is given.

    >>> import gymnasium
    >>> env = EnvToMTEnv(
    ...     gymnasium.make("Pendulum-v1"),
    ...     tasks=[8.0, 10.0],
    ...     set_task=lambda env, g: setattr(env.unwrapped, "g", g),
    ... )
    >>> obs, info = env.reset(seed=0, options={"task_state": 1})
    >>> env.env.unwrapped.g, info["task_id"]
    (10.0, 1)
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        tasks: Sequence[Any],
        set_task: Callable[[gymnasium.Env[Any, Any], Any], object] | None = None,
        *,
        task_obs: Callable[[Any], Any] | None = None,
        task_observation_space: Space[Any] | None = None,
        initial_task_state: int = 0,
        task_names: Sequence[str] | None = None,
        select: SelectName | Strategy = "uniform",
    ) -> None:
        self.env = env
        self.tasks = list(tasks)
        if not self.tasks:
            raise ValueError("tasks must hold at least one task, got none")
        if set_task is None and not env.has_wrapper_attr("set_task"):
            raise TypeError(f"{env} has no set_task(task); pass set_task= to say how to set one")
        if (task_obs is None) != (task_observation_space is None):
            raise ValueError("task_obs and task_observation_space go together; got only one")
        initial = check_index(initial_task_state, len(self.tasks), "initial_task_state")
        super().__init__(
            len(self.tasks),
            env.action_space,
            env.observation_space,
            task_observation_space,
            initial_task_state=initial,
            select=select,
        )
        self._task_names = check_task_names(task_names, len(self.tasks))
        self._set_task = set_task or _call_own_set_task
        self._describe = task_obs
        self._needs_seed = False
        self.metadata = env.metadata
        self.render_mode = env.render_mode
        self._activate(initial)

    @property
    def task_names(self) -> tuple[str, ...] | None:
        """The name of each task, when names were given."""
        return self._task_names

    def get_task_obs(self) -> Any:
        """The index of the present task, or what ``task_obs`` makes of it."""
        if self._describe is None:
            return super().get_task_obs()
        # A copy: what the caller does to it must not change the task.
        return copy.deepcopy(self._describe(self.tasks[self._task_state]))

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment stream, and the environment at its next reset."""
        seeds = super().seed(seed)
        self._needs_seed = True
        return seeds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Resets the environment on the present task; see `MTEnv.reset`."""
        super().reset(seed=seed, options=options)
        env_seed = None
        if self._needs_seed:
            assert self._env_seed is not None
            env_seed = seeding.child_seed(self._env_seed, 0)
        env_obs, info = self.env.reset(seed=env_seed, options=without_task_options(options))
        self._needs_seed = False
        self._begin_episode()
        return self.observe(env_obs), {**info, **self._task_info}

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Steps the environment.

        Raises:
            ResetNeeded: If the task was switched and not reset since.
        """
        if self._reset_needed:
            self._check_stepping()
        env_obs, reward, terminated, truncated, info = self.env.step(action)
        if self._history is not None:
            self._history.step(float(reward), bool(terminated or truncated), info)
        return (
            self.observe(env_obs),
            float(reward),
            bool(terminated),
            bool(truncated),
            {**info, **self._task_info},
        )

    def render(self) -> Any:
        """A frame of the environment."""
        self._check_stepping()
        return self.env.render()

    def close(self) -> None:
        """Closes the environment."""
        self.env.close()

    def _activate(self, index: int) -> None:
        self._set_task(self.env, self.tasks[index])
        self._task_info: dict[str, Any] = {"task_id": index}
        if self._task_names is not None:
            self._task_info["task_name"] = self._task_names[index]


def _call_own_set_task(env: gymnasium.Env[Any, Any], task: Any) -> None:
    env.get_wrapper_attr("set_task")(task)
