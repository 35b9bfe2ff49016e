"""Many environments as one multi-task environment, built when they are first needed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers.closing import close_all
from mtwrappers.core import Observation, without_task_options
from mtwrappers.errors import with_context
from mtwrappers.indexed import IndexedMTEnv, check_index, check_task_names
from mtwrappers.selection import SelectName, Strategy
from mtwrappers.spaces import fits, fits_padded, pad_boxes


class MultiEnvWrapper(IndexedMTEnv):
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
            the last.

    Raises:
        TypeError: If a constructor is not callable or returns no `gymnasium.Env`.
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
        self._makers = list(funcs_to_make_envs)
        if not self._makers:
            raise ValueError("funcs_to_make_envs must hold at least one constructor, got none")
        for i, maker in enumerate(self._makers):
            if not callable(maker):
                raise TypeError(f"the constructor of task {i} must be callable, got {maker!r}")
        if unify not in (None, "pad"):
            raise ValueError(f"unify must be 'pad' or None, got {unify!r}")
        n = len(self._makers)
        initial = check_index(initial_task_state, n, "initial_task_state")
        self._task_names = check_task_names(task_names, n)
        self._pad = unify == "pad"
        self._envs: list[gymnasium.Env[Any, Any] | None] = [None] * n
        self._needs_seed = [False] * n

        with contextlib.ExitStack() as undo:
            undo.callback(self._close_all)
            first = self._envs[initial] = self._construct(initial)
            if env_observation_space is not None:
                space = env_observation_space
            elif self._pad:
                for i in range(n):
                    if self._envs[i] is None:
                        self._envs[i] = self._construct(i)
                space = pad_boxes([env.observation_space for env in self._envs if env is not None])
            else:
                space = first.observation_space
            super().__init__(
                n,
                first.action_space,
                space,
                initial_task_state=initial,
                select=select,
                sample_tasks_on_reset=sample_tasks_on_reset,
            )
            self._padding = _Padding(space) if self._pad and isinstance(space, Box) else None
            for i, env in enumerate(self._envs):
                if env is not None:
                    self._check_fit(i, env)
            undo.pop_all()
        self.metadata = first.metadata
        self.render_mode = first.render_mode
        self._env: gymnasium.Env[Any, Any] = first
        self._prepare(initial)

    @property
    def task_names(self) -> tuple[str, ...] | None:
        """The name of each task, when names were given."""
        return self._task_names

    @property
    def envs_built(self) -> int:
        """How many environments have been built so far."""
        return sum(env is not None for env in self._envs)

    @property
    def active_env(self) -> gymnasium.Env[Any, Any]:
        """The environment of the present task."""
        return self._env

    def seed(self, seed: int | None = None) -> list[int]:
        """Seeds the environment stream; each environment takes its own branch at its next reset."""
        seeds = super().seed(seed)
        self._needs_seed = [True] * len(self._makers)
        return seeds

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Resets the active environment, after carrying out the task options.

        Args:
            seed: Seeds both streams; see `MTEnv.reset`.
            options: The task options of `MTEnv.reset`; other keys reach the active environment.
        """
        super().reset(seed=seed, options=options)
        index = self._task_state
        env_seed = None
        if self._needs_seed[index]:
            assert self._env_seed is not None
            env_seed = seeding.child_seed(self._env_seed, index)
        env_obs, info = self._env.reset(seed=env_seed, options=without_task_options(options))
        self._needs_seed[index] = False
        self._begin_episode()
        return (
            {"env_obs": self._adapt(env_obs), "task_obs": self._task_obs},
            {**info, **self._task_info},
        )

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Steps the active environment.

        Raises:
            ResetNeeded: If the task was switched and not reset since.
        """
        if self._reset_needed:
            self._check_stepping()
        env_obs, reward, terminated, truncated, info = self._env.step(action)
        if self._history is not None:
            self._history.step(float(reward), bool(terminated or truncated), info)
        return (
            {"env_obs": self._adapt(env_obs), "task_obs": self._task_obs},
            float(reward),
            bool(terminated),
            bool(truncated),
            {**info, **self._task_info},
        )

    def render(self) -> Any:
        """A frame of the active environment."""
        self._check_stepping()
        return self._env.render()

    def close(self) -> None:
        """Closes every environment that was built."""
        self._close_all()

    def _close_all(self) -> None:
        close_all(env for env in self._envs if env is not None)

    def _activate(self, index: int) -> None:
        env = self._envs[index]
        if env is None:
            env = self._construct(index)
            try:
                self._check_fit(index, env)
            except ValueError:
                env.close()
                raise
            self._envs[index] = env
        self._env = env
        self._prepare(index)

    def _prepare(self, index: int) -> None:
        """Computes once what every step on task ``index`` hands out."""
        self._task_obs = np.int64(index)
        self._task_info: dict[str, Any] = {"task_id": index}
        if self._task_names is not None:
            self._task_info["task_name"] = self._task_names[index]
        self._adapt: Callable[[Any], Any] = self._padding or _as_it_is

    def _name(self, index: int) -> str:
        return f"task {index}" + (f" ({self._task_names[index]!r})" if self._task_names else "")

    def _construct(self, index: int) -> gymnasium.Env[Any, Any]:
        try:
            env = self._makers[index]()
        except Exception as exc:
            raise with_context(exc, f"the constructor of {self._name(index)} failed") from exc
        if not isinstance(env, gymnasium.Env):
            raise TypeError(
                f"the constructor of {self._name(index)} must return a gymnasium.Env, got {env!r}"
            )
        return env

    def _check_fit(self, index: int, env: gymnasium.Env[Any, Any]) -> None:
        if env.action_space != self.action_space:
            raise ValueError(
                f"{self._name(index)} has action space {env.action_space}, expected "
                f"{self.action_space} as in the initial task"
            )
        expected, actual = self.env_observation_space, env.observation_space
        if self._pad:
            if not isinstance(expected, Box) or not fits_padded(actual, expected):
                raise ValueError(
                    f"{self._name(index)} has observation space {actual}, which padded with "
                    f"zeros does not lie within {expected}"
                )
        elif not fits(actual, expected):
            hint = ""
            if isinstance(actual, Box) and isinstance(expected, Box):
                hint = (
                    "; pass unify='pad' to append zeros to the shorter ones"
                    if actual.shape != expected.shape
                    else "; pass env_observation_space= to name one that holds all"
                )
            raise ValueError(
                f"{self._name(index)} has observation space {actual}, expected one within "
                f"{expected}{hint}"
            )


def _as_it_is(obs: Any) -> Any:
    return obs


class _Padding:
    """Appends zeros to an observation."""

    def __init__(self, space: Box) -> None:
        self._zeros = np.zeros_like(space.low)

    def __call__(self, obs: NDArray[Any]) -> NDArray[Any]:
        padded: NDArray[Any] = self._zeros.copy()
        padded[: len(obs)] = obs
        return padded
