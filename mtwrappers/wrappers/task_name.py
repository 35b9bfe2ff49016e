"""The name and id of a task in infos."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs

from mtwrappers.common.checks import check_string
from mtwrappers.common.types import AnyEnv, AnyWrapper, Info, Options


class TaskNameWrapper(AnyWrapper, RecordConstructorArgs):
    """Adds ``task_name`` and ``task_id`` to ``info``, on reset and on every step.

    Args:
        env: Any environment.
        task_name: The name to add, if any.
        task_id: The integer to add, if any.

    Raises:
        ValueError: If neither is given.
        TypeError: If one of them has another type.

    >>> import gymnasium
    >>> from mtwrappers import TaskNameWrapper
    >>> env = TaskNameWrapper(gymnasium.make("CartPole-v1"), task_name="balance", task_id=3)
    >>> env.reset(seed=0)[1]
    {'task_name': 'balance', 'task_id': 3}
    """

    def __init__(
        self,
        env: AnyEnv,
        task_name: str | None = None,
        *,
        task_id: int | None = None,
    ) -> None:
        if task_name is None and task_id is None:
            raise ValueError("give task_name, task_id, or both; got neither")
        if task_name is not None:
            check_string(task_name, "task_name")
        if task_id is not None:
            if isinstance(task_id, bool) or not isinstance(task_id, (int, np.integer)):
                raise TypeError(f"task_id must be an int, got {task_id!r}")
            task_id = int(task_id)  # so that JSON can hold the spec
        RecordConstructorArgs.__init__(self, task_name=task_name, task_id=task_id)
        super().__init__(env)
        infos = {"task_name": task_name, "task_id": task_id}
        self._added_infos = {key: value for key, value in infos.items() if value is not None}

    def reset(self, *, seed: int | None = None, options: Options | None = None) -> tuple[Any, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        return obs, {**info, **self._added_infos}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        return obs, reward, terminated, truncated, {**info, **self._added_infos}
