"""The one-hot of a task, appended to the observation."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Dict, Discrete
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_env, check_index, check_list, check_makers, positive
from mtwrappers.common.spaces import append_onehot, as_row, require_flat_box
from mtwrappers.common.types import AnyArray, AnyEnv, AnyWrapper, Info, Options
from mtwrappers.wrappers.env_space import find_env_space
from mtwrappers.wrappers.flatten import FlattenMTEnv

W = TypeVar("W")


class TaskOnehotWrapper(gymnasium.Wrapper[AnyArray, Any, AnyArray, Any], RecordConstructorArgs):
    """Appends a one-hot task id to a 1-D Box observation, keeping its dtype.

    ``info`` contains ``task_id`` (int).

    Args:
        env: An environment of one task, whose observations have shape ``(O,)``. For one that
            switches between tasks, `FlattenMTEnv` appends the one-hot of the current task.
        task_index: The entry that is one, in ``[0, n_total_tasks - 1]``.
        n_total_tasks: The length of the one-hot. Observations become ``(O + n_total_tasks,)``.

    Raises:
        TypeError: If the observation space is not a 1-D Box.
        ValueError: If ``task_index`` is out of range, ``n_total_tasks`` is not positive, or the
            environment can switch between tasks or has a one-hot already; on a step, if an
            observation does not fit the environment's space.

    >>> import gymnasium
    >>> from mtwrappers import TaskOnehotWrapper
    >>> env = TaskOnehotWrapper(gymnasium.make("Pendulum-v1"), task_index=1, n_total_tasks=3)
    >>> obs, info = env.reset(seed=0)
    >>> obs[3:], info
    (array([0., 1., 0.], dtype=float32), {'task_id': 1})
    """

    # Whether observations have entries after the environment's own.
    appends_entries = True

    def __init__(
        self, env: gymnasium.Env[AnyArray, Any], task_index: int, n_total_tasks: int
    ) -> None:
        check_env(env, "env")
        n_total_tasks = positive(n_total_tasks, "n_total_tasks")
        index = check_index(task_index, n_total_tasks, "task_index")
        # Python's own integers, so that JSON can hold the spec.
        RecordConstructorArgs.__init__(self, task_index=index, n_total_tasks=n_total_tasks)
        _require_one_task(env)
        super().__init__(env)
        box = require_flat_box(
            env.observation_space, "the observation space to append a one-hot to"
        )
        self.observation_space = append_onehot(box, n_total_tasks)
        # The space without the one-hot, under the name that it has in an MTEnv.
        self.env_observation_space = find_env_space(env)
        self._box = box
        self.n_total_tasks = n_total_tasks
        self._task_id = index
        self._shape, self._dtype = box.shape, box.dtype
        self._head = slice(0, box.shape[0])
        # Copying this and writing the observation into it is the fastest way to append.
        self._template = np.zeros_like(self.observation_space.low)
        self._template[box.shape[0] + index] = 1

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[AnyArray, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        extended = self._template.copy()
        extended[self._head] = as_row(obs, self._box)
        return extended, {**info, "task_id": self._task_id}

    def step(self, action: Any) -> tuple[AnyArray, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        # `as_row` checks this as well, in more time.
        if type(obs) is not np.ndarray or obs.dtype is not self._dtype or obs.shape != self._shape:
            obs = as_row(obs, self._box)
        extended = self._template.copy()
        extended[self._head] = obs
        info = info.copy()
        info["task_id"] = self._task_id
        return extended, reward, terminated, truncated, info

    @classmethod
    def wrap_env_list(cls, envs: Sequence[AnyEnv]) -> list[TaskOnehotWrapper]:
        """Wraps each environment with the one-hot of its place in the list.

        Raises:
            TypeError: If the list is not one of environments.
            ValueError: If an environment is in the list twice, or as in the constructor.
        """
        all_envs = check_list(envs, "envs", "environment")
        places: dict[int, int] = {}
        for i, env in enumerate(all_envs):
            check_env(env, f"environment {i} of envs")
            first = places.setdefault(id(env.unwrapped), i)
            if first != i:
                raise ValueError(
                    f"environment {i} of envs is environment {first}: each task needs an "
                    "environment of its own"
                )
        return [cls(env, i, len(all_envs)) for i, env in enumerate(all_envs)]

    @classmethod
    def wrap_env_cons_list(
        cls, env_cons: Sequence[Callable[[], AnyEnv]]
    ) -> list[Callable[[], TaskOnehotWrapper]]:
        """Wraps each constructor likewise; the results can be pickled if the constructors can.

        An executor needs environments with the same observation space. If their observations differ
        in length, ``make_vec("mtwrappers/MultiEnv-v0", env_ids=[...], unify="pad")`` and
        `MultiEnvWrapper` with ``unify="pad"`` append zeros before the one-hot.
        """
        makers = check_makers(env_cons, "env_cons")
        return [
            functools.partial(construct, cls, make, i, len(makers)) for i, make in enumerate(makers)
        ]


def _require_one_task(env: AnyEnv) -> None:
    """Raises `ValueError` if an environment has a one-hot already, or switches between tasks."""
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if _appends_onehot(layer):
            raise ValueError(
                f"the observations of {env} have the one-hot of a task already, which "
                f"{type(layer).__name__} appends: leave TaskOnehotWrapper out, or flatten the "
                "MTEnv with FlattenMTEnv(env, task_encoding='none')"
            )
        layer = layer.env
    # An environment may refuse a part of its task ids, such as a benchmark with task_states.
    name = "settable_task_ids" if env.has_wrapper_attr("settable_task_ids") else "task_ids"
    if not env.has_wrapper_attr(name):
        return
    num_tasks = len({*env.get_wrapper_attr(name)})
    if num_tasks > 1:
        raise ValueError(
            f"TaskOnehotWrapper is for an environment of one task, but {env} can switch between "
            f"{num_tasks}: FlattenMTEnv, or task_encoding='onehot' of an id, appends the one-hot "
            "of the current task"
        )


def _appends_onehot(layer: AnyWrapper) -> bool:
    """Whether a wrapper puts the one-hot of a task into observations."""
    if isinstance(layer, FlattenMTEnv):
        return layer.has_onehot
    if isinstance(layer, gymnasium.wrappers.FlattenObservation):
        space = layer.env.observation_space  # of an MTEnv, whose task Gymnasium makes a one-hot
        return isinstance(space, Dict) and isinstance(space.get("task_obs"), Discrete)
    return isinstance(layer, TaskOnehotWrapper)


def construct(cls: Callable[..., W], env_cons: Callable[[], Any], *args: Any) -> W:
    """Wraps a new environment in ``cls``; a partial of it can be pickled, unlike a lambda."""
    return cls(env_cons(), *args)
