"""Many environments as one multi-task environment, built lazily."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict
from gymnasium.wrappers import TimeLimit
from numpy.typing import ArrayLike, NDArray

from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.checks import (
    check_each,
    check_index,
    check_makers,
    check_space,
    check_task_names,
    construct_env,
    positive,
)
from mtwrappers.common.spaces import difference, fits
from mtwrappers.common.types import AnyEnv, AnySpace, State
from mtwrappers.core.mtenv import Observation
from mtwrappers.core.pad_spaces import Padding, Unify, check_unify, explain_spaces
from mtwrappers.core.selection import SelectName, Strategy
from mtwrappers.core.task_set_env import TaskSetMTEnv
from mtwrappers.core.tasks import TaskList
from mtwrappers.state.identity import keep_arguments
from mtwrappers.wrappers.action_repeat import ActionRepeat
from mtwrappers.wrappers.task_embedding import check_embeddings, embedding_box


class MultiEnvWrapper(TaskSetMTEnv[int]):
    """One environment that switches between the environments of a list.

    The task state is the index of the active environment. The initial environment is built at once,
    every other one on first use. Each has its own random stream, so results do not depend on when
    it was built. ``info`` contains ``task_id`` (int), and ``task_name`` if names were given. It
    counts as the innermost environment: ``unwrapped is self``.

    Args:
        funcs_to_make_envs: A constructor for each task.
        initial_task_state: The task at the start.
        task_names: A name for each task; names must differ.
        select: How `sample_task_state` draws: ``"uniform"``, ``"round_robin"``,
            ``"without_replacement"``, ``"least_success"``, or a callable
            ``(num_tasks, last_task, rng) -> int``, which may also take a ``history``; see
            `mtwrappers.core.selection`.
        env_observation_space: The space of ``env_obs``, which must contain the space of every
            environment. By default, the space of the initial environment.
        unify: ``"pad"`` wraps each environment in `PadSpaces`, which pads all to the longest; a
            dict has arguments for it, such as
            ``{"observation_size": 128, "action_size": 16}``. Every environment is
            built at once to find the longest, unless both sizes are given; actions are then
            float64. With ``observation_size``, observations are float64 without bounds, unless
            ``env_observation_space`` is given.
        max_episode_steps: The number of environment steps after which episodes are truncated, or a
            list with one number (or ``None``) for each task. It cannot lengthen episodes that the
            environment itself truncates.
        action_repeat: The number of environment steps per action, or a list with one number for
            each task; see `ActionRepeat`.
        task_embedding: A vector to observe for each task, ``(num_tasks, E)``. Observations then
            have a third key, ``task_embedding``, ``(E,)``.
        sample_tasks_on_reset: Whether every reset draws the next task, unless one was set since
            the last reset. Such an environment seeds itself at its first reset if necessary.

    Raises:
        TypeError: If an argument has the wrong type, or a constructor returns no `gymnasium.Env`.
        ValueError: If there are no constructors, a task state is out of range, the numbers of
            names and tasks differ, a name is repeated, or spaces do not fit together.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import MultiEnvWrapper
    >>> env = MultiEnvWrapper([partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)])
    >>> env.num_tasks, env.envs_built
    (2, 1)
    >>> obs, info = env.reset(seed=0, options={"task_state": 1})
    >>> int(obs["task_obs"]), info["task_id"], env.envs_built
    (1, 1, 2)
    """

    @explains_arguments()
    def __init__(
        self,
        funcs_to_make_envs: Sequence[Callable[[], AnyEnv]],
        initial_task_state: int = 0,
        *,
        task_names: Sequence[str] | None = None,
        select: SelectName | Strategy = "uniform",
        env_observation_space: AnySpace | None = None,
        unify: Unify | Padding = None,
        max_episode_steps: int | Sequence[int | None] | None = None,
        action_repeat: int | Sequence[int | None] | None = None,
        task_embedding: ArrayLike | None = None,
        sample_tasks_on_reset: bool = False,
    ) -> None:
        keep_arguments(self, locals())
        self._makers = check_makers(funcs_to_make_envs, "funcs_to_make_envs")
        n = len(self._makers)
        initial = check_index(initial_task_state, n, "initial_task_state")
        self.task_names = check_task_names(task_names, n)
        if env_observation_space is not None:
            check_space(env_observation_space, "env_observation_space")
        self._names_space = env_observation_space is not None
        self.padding = unify if isinstance(unify, Padding) else None
        unify = None if isinstance(unify, Padding) else check_unify(unify)
        self._limits = check_each(max_episode_steps, n, "max_episode_steps", positive)
        self._repeats = check_each(action_repeat, n, "action_repeat", positive)
        self._embeddings = check_embeddings(task_embedding, n, "task")
        self._envs: dict[int, AnyEnv] = {}

        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            first = self._envs[initial] = self._construct(initial)
            if unify is not None:
                self.padding = self._pad_all(initial, unify, env_observation_space)
            if self.padding is not None:
                action_space = self.padding.action_space
                env_observation_space = self.padding.observation_space
            else:
                action_space = first.action_space
                if env_observation_space is None:
                    env_observation_space = first.observation_space
            super().__init__(
                action_space,
                env_observation_space,
                None,
                TaskList(range(n), task_names, select=select),
                initial_task_state=initial,
                sample_tasks_on_reset=sample_tasks_on_reset,
            )
            for i, env in self._envs.items():
                self._envs[i] = self._fit(i, env)
            undo.pop_all()
        self._env = self._envs[initial]
        self._branch = initial
        if self._embeddings is not None:
            spaces: Any = self.observation_space
            embedding_space = embedding_box(self._embeddings)
            self.observation_space = Dict({**spaces, "task_embedding": embedding_space})
        self.metadata = first.metadata
        self.render_mode = first.render_mode

    @property
    def envs_built(self) -> int:
        """The number of environments built so far."""
        return len(self._envs)

    @property
    def active_env(self) -> AnyEnv:
        """The environment of the current task."""
        return self._current_env

    @property
    def _max_episode_steps(self) -> Any:
        """The limit of the active environment's ``TimeLimit``; `AttributeError` if it has none."""
        return self._current_env.get_wrapper_attr("_max_episode_steps")

    @property
    def observation_mask(self) -> NDArray[np.bool_]:
        """A mask of the active environment's own observation entries, ``(O,)``; see `PadSpaces`."""
        mask: NDArray[np.bool_] = self._current_env.get_wrapper_attr("observation_mask")
        return mask

    @property
    def action_mask(self) -> NDArray[np.bool_] | None:
        """A mask of the active environment's own action entries, ``(A,)``; see `PadSpaces`."""
        mask: NDArray[np.bool_] | None = self._current_env.get_wrapper_attr("action_mask")
        return mask

    def observe(self, env_obs: Any) -> Observation:
        """Returns the multi-task observation, with ``task_embedding`` if there is one."""
        obs = {"env_obs": env_obs, "task_obs": self._task_obs}
        if self._embeddings is not None:
            obs["task_embedding"] = self._embeddings[self._task_state].copy()
        return obs

    def set_state(self, state: State) -> None:
        """Restores the state that `get_state` returned; the next `reset` continues from it.

        Environments that were not built when it was taken are closed, and built anew on next use.

        Raises:
            TypeError: If ``state`` is not a dict.
            ValueError: If ``state`` does not fit.
        """
        super().set_state(state)
        unused = set(self._envs) - {*map(int, state["envs"]), self._branch}
        for branch in unused:
            self._envs.pop(branch).close()

    def close(self) -> None:
        with contextlib.ExitStack() as stack:  # closes all of them, even if one raises
            for env in self._envs.values():
                stack.callback(env.close)

    def _activate(self, task_state: int) -> None:
        self._env = self._build(task_state)
        self._branch = task_state

    def _build(self, branch: int) -> AnyEnv:
        if branch not in self._envs:
            check_index(branch, len(self._makers), "the task of an environment")
            env = self._construct(branch)
            try:
                self._envs[branch] = self._fit(branch, env)
            except (TypeError, ValueError):
                env.close()
                raise
        return self._envs[branch]

    def _name(self, index: int) -> str:
        return f"task {index}" + (f" ({self.task_names[index]!r})" if self.task_names else "")

    def _construct(self, index: int) -> AnyEnv:
        env: AnyEnv = construct_env(self._makers[index], self._name(index))
        for built_index, built_env in self._envs.items():
            if built_env.unwrapped is env.unwrapped:
                names = f"{self._name(index)} and {self._name(built_index)}"
                raise ValueError(
                    f"the constructors of {names} return the same environment: each must make a "
                    "new one"
                )
        if (limit := self._limits[index]) is not None:
            env = _limit_steps(env, limit, self._name(index))
        if (repeat := self._repeats[index]) is not None:
            env = ActionRepeat(env, repeat)
        return env

    def _pad_all(self, initial: int, unify: Unify, space: AnySpace | None) -> Padding:
        """Computes the common padding; builds all environments if it depends on them."""
        sizes = unify if isinstance(unify, Mapping) else {}
        action_space = self._envs[initial].action_space
        size = sizes.get("observation_size")
        if space is not None and size is not None and space.shape != (size,):
            raise ValueError(
                f"unify['observation_size'] is {size}, but env_observation_space has shape "
                f"{space.shape}: pass one of them"
            )
        knows_observations = space is not None or "observation_size" in sizes
        knows_actions = "action_size" in sizes or not isinstance(action_space, Box)
        action_dtype: Any = None
        if knows_observations and knows_actions:
            if space is None:
                space = Box(-np.inf, np.inf, (sizes["observation_size"],), np.float64)
            indices = [initial]
            # Environments that are built later may have a more precise dtype.
            action_dtype = np.float64
        else:
            indices = list(range(len(self._makers)))
            for i in set(indices) - {initial}:
                self._envs[i] = self._construct(i)
        spaces = [(self._envs[i].observation_space, self._envs[i].action_space) for i in indices]
        names = [self._name(i) for i in indices]
        padding = Padding.from_spaces(spaces, names, sizes, action_dtype)
        return padding if space is None else padding._replace(observation_space=space)

    def _fit(self, index: int, env: AnyEnv) -> AnyEnv:
        """Pads an environment or checks its spaces; errors name its task."""
        if self.padding is not None:
            return self.padding.wrap(env, self._name(index))
        expected, actual = self.env_observation_space, env.observation_space
        is_within = fits(actual, expected)
        if is_within and env.action_space == self.action_space:
            return env
        # An observation space that fits needs no padding.
        observed = expected if is_within else actual
        hint = explain_spaces([(expected, self.action_space), (observed, env.action_space)])
        if env.action_space != self.action_space:
            raise ValueError(
                f"{self._name(index)} has another action space than the initial task; {hint}: "
                f"{difference(env.action_space, self.action_space)}"
            )
        if self._names_space:
            hint = "give an env_observation_space that holds those of all"
        elif actual.shape is not None and actual.shape == expected.shape:
            hint += "; MultiEnvWrapper also takes env_observation_space=, one that holds all"
        raise ValueError(
            f"{self._name(index)} has an observation space that is not within that of all tasks; "
            f"{hint}: {difference(actual, expected, contained=True)}"
        )


def _limit_steps(env: AnyEnv, limit: int, name: str) -> AnyEnv:
    """Limits the steps of episodes, or closes an environment whose limit is lower."""
    inner_limit = None
    if env.has_wrapper_attr("_max_episode_steps"):
        inner_limit = env.get_wrapper_attr("_max_episode_steps")
    if inner_limit is not None and inner_limit < limit:
        env.close()
        raise ValueError(
            f"{name} truncates its episodes after {inner_limit} steps, which "
            f"max_episode_steps={limit} cannot lengthen: pass it to gymnasium.make"
        )
    return TimeLimit(env, limit)
