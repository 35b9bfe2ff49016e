"""Many environments as one multi-task environment, built when they are first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from mtwrappers.checks import (
    check_choice,
    check_index,
    check_makers,
    check_task_names,
    construct_env,
)
from mtwrappers.core import Observation
from mtwrappers.selection import SelectName, Strategy
from mtwrappers.spaces import as_row, difference, fits, pad_boxes, padded
from mtwrappers.task_list import TaskListMTEnv


class MultiEnvWrapper(TaskListMTEnv):
    """One environment that moves between the environments of a list.

    The task state is the index of the active environment. Only the initial one is built at once,
    every other one on first use, and each keeps its own random stream, so results do not depend
    on when it was built. ``info`` carries ``task_id`` (int), and ``task_name`` when names were
    given. The wrapper is an environment of its own: ``unwrapped is self``.

    Args:
        funcs_to_make_envs: A constructor for each task.
        initial_task_state: The task at the start.
        task_names: A name for each task.
        select: How `sample_task_state` draws: ``"uniform"``, ``"round_robin"``,
            ``"without_replacement"``, ``"least_success"``, or a callable
            ``(num_tasks, last_task, rng) -> int``, which may also take a ``history``; see
            `mtwrappers.selection`.
        env_observation_space: The space of ``env_obs``, within which every environment's own must
            lie. By default that of the initial environment.
        unify: ``"pad"`` unites 1-D Boxes of different lengths by appending zeros. To know the
            longest, every environment is then built at once, unless ``env_observation_space``
            says it.
        sample_tasks_on_reset: Whether every reset draws the next task, unless one was set since
            the last. Such an environment seeds itself at its first reset if nobody did.

    Raises:
        TypeError: If an argument is of another kind, or a constructor returns no `gymnasium.Env`.
        ValueError: If there are no constructors, a task state is out of range, there are not as
            many names as tasks, or spaces do not fit together.

    >>> import gymnasium
    >>> from functools import partial
    >>> env = MultiEnvWrapper([partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)])
    >>> env.num_tasks, env.envs_built
    (2, 1)
    >>> obs, info = env.reset(seed=0, options={"task_state": 1})
    >>> int(obs["task_obs"]), info["task_id"], env.envs_built
    (1, 1, 2)
    """

    def __init__(
        self,
        funcs_to_make_envs: Sequence[Callable[[], gymnasium.Env[Any, Any]]],
        initial_task_state: int = 0,
        *,
        task_names: Sequence[str] | None = None,
        select: SelectName | Strategy = "uniform",
        env_observation_space: Space[Any] | None = None,
        unify: Literal["pad"] | None = None,
        sample_tasks_on_reset: bool = False,
    ) -> None:
        self._makers = check_makers(funcs_to_make_envs, "funcs_to_make_envs")
        check_choice(unify, ("pad", None), "unify")
        n = len(self._makers)
        initial = check_index(initial_task_state, n, "initial_task_state")
        self.task_names = check_task_names(task_names, n)
        self._pad = unify == "pad"
        self._zeros: NDArray[Any] | None = None
        self._envs: dict[int, gymnasium.Env[Any, Any]] = {}

        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._env = first = self._envs[initial] = self._construct(initial)
            self._branch = initial
            space = env_observation_space
            if space is None and self._pad:
                for i in set(range(n)) - {initial}:
                    self._envs[i] = self._construct(i)
                space = pad_boxes([self._envs[i].observation_space for i in range(n)])
            elif space is None:
                space = first.observation_space
            super().__init__(
                first.action_space,
                space,
                task_ids=range(n),
                task_names=task_names,
                initial_task_state=initial,
                select=select,
                sample_tasks_on_reset=sample_tasks_on_reset,
            )
            for i, env in self._envs.items():
                self._check_fit(i, env)
            undo.pop_all()
        if self._pad and isinstance(space, Box):
            self._zeros = np.zeros_like(space.low)
        self.metadata = first.metadata
        self.render_mode = first.render_mode

    @property
    def envs_built(self) -> int:
        """How many environments have been built so far."""
        return len(self._envs)

    @property
    def active_env(self) -> gymnasium.Env[Any, Any]:
        """The environment of the present task."""
        env: gymnasium.Env[Any, Any] = self._env
        return env

    @property
    def _max_episode_steps(self) -> Any:
        """That of the active environment's ``TimeLimit``; an ``AttributeError`` if it has none."""
        return self._env.get_wrapper_attr("_max_episode_steps")

    def observe(self, env_obs: Any) -> Observation:
        """The observation of the protocol; with ``unify="pad"`` zeros are appended first."""
        if self._zeros is not None:
            row = as_row(env_obs, self._env.observation_space)
            env_obs = self._zeros.copy()
            env_obs[: len(row)] = row
        return {"env_obs": env_obs, "task_obs": self._task_obs}

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # all of them, whatever one of them does
            for env in self._envs.values():
                stack.callback(env.close)

    def _activate(self, task_state: int) -> None:
        self._env = self._build(task_state)
        self._branch = task_state

    def _build(self, branch: int) -> gymnasium.Env[Any, Any]:
        if branch not in self._envs:
            env = self._construct(branch)
            try:
                self._check_fit(branch, env)
            except ValueError:
                env.close()
                raise
            self._envs[branch] = env
        return self._envs[branch]

    def _name(self, index: int) -> str:
        return f"task {index}" + (f" ({self.task_names[index]!r})" if self.task_names else "")

    def _construct(self, index: int) -> gymnasium.Env[Any, Any]:
        env: gymnasium.Env[Any, Any] = construct_env(self._makers[index], self._name(index))
        return env

    def _check_fit(self, index: int, env: gymnasium.Env[Any, Any]) -> None:
        if env.action_space != self.action_space:
            raise ValueError(
                f"{self._name(index)} has action space {env.action_space}, expected "
                f"{self.action_space} as in the initial task"
                f"{difference(env.action_space, self.action_space)}"
            )
        expected, actual = self.env_observation_space, env.observation_space
        compared = padded(actual, expected) if self._pad else actual
        if not fits(compared, expected):
            how, hint = " when padded with zeros", ""
            if not self._pad:
                how, hint = "", "; pass unify='pad' to append zeros to shorter Boxes, or "
                hint += "env_observation_space= to name one that holds all"
            raise ValueError(
                f"{self._name(index)} has observation space {actual}, expected one within "
                f"{expected}{how}{difference(compared, expected, within=True)}{hint}"
            )
