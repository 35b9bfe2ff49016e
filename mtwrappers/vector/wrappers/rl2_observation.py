"""The input of RL^2, for many environments at once."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.rl2_input import (
    TASK_READERS,
    ActionCode,
    asks_for_a_trial,
    rl2_space,
    same_task,
)
from mtwrappers.vector.wrapper import MetaVectorWrapper
from mtwrappers.vector.wrappers.per_task import reset_rows


class VectorRL2Observation(MetaVectorWrapper, RecordConstructorArgs):
    """`RL2Observation` for vector environments, in every autoreset mode.

    A trial begins in an environment as it does there, and with the first reset after `set_tasks`.
    In SAME_STEP ``infos["final_obs"]`` has the action, the reward and ``done`` of the step that
    ended the episode; the observation that begins the next one has the same numbers if the trial
    goes on, and zeros if not.

    The task is what ``get_task_state()`` or ``get_task()`` of the environments says, asked where an
    episode begins, else ``infos["task_id"]``.

    Args:
        env: One of our vector environments, or a wrapper of one; observations ``(N, O)``.

    Raises:
        TypeError: If observations or actions are of another kind.
    """

    def __init__(self, env: VectorEnv[Any, Any, Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        n = env.num_envs
        self._code = ActionCode(env.single_action_space)
        space = rl2_space(env.single_observation_space, self._code)
        self.single_observation_space = space
        self.observation_space = batch_space(space, n)
        self._shape = (n, *space.shape)
        self._dtype: Any = space.dtype
        self._head = space.shape[0] - self._code.size - 2
        self._tail = np.zeros((n, self._code.size + 2), dtype=self._dtype)
        self._actions = np.zeros((n, self._code.size), dtype=self._dtype)
        self._reader = next(
            (name for name in TASK_READERS if all(self._inner.call("has_wrapper_attr", name))), None
        )
        self._of: list[Any] = [None] * n
        self._begun = np.zeros(n, dtype=np.bool_)
        self._set = np.ones(n, dtype=np.bool_)
        self._over = np.zeros(n, dtype=np.bool_)
        self._any_over = False
        mode = env.metadata.get("autoreset_mode")
        self._same_step = mode is AutoresetMode.SAME_STEP
        self._next_step = mode is AutoresetMode.NEXT_STEP

    def set_tasks(self, tasks: Any) -> None:
        """Turns each task's environments to a task, whose trial the next reset begins."""
        super().set_tasks(tasks)
        self._set[:] = True

    def reset(
        self, *, seed: Any = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environments, and begins trials where tasks are others."""
        n = self.num_envs
        rows = reset_rows(options, n)
        obs, infos = self._inner.reset(seed=seed, options=options)
        new = self._set | asks_for_a_trial(options)
        if seed is not None:
            new |= np.array([s is not None for s in _spread(seed, n)])
        self._begin(infos, rows, new)
        self._set[rows] = False
        self._over[rows] = False
        self._any_over = bool(self._over.any())
        return self._append(obs), infos

    def step_async(self, actions: Any) -> None:
        """Begins a step."""
        self._inner.step_async(actions)
        # Now: the caller may change the array before the step ends.
        self._code.write(actions, self._actions)

    def step_wait(self) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Ends a step and appends what was done."""
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        over = terminated | truncated
        tail, began = self._tail, self._over
        if self._next_step and self._any_over:
            played = ~began
            tail[played, :-2] = self._actions[played]
            tail[played, -2], tail[played, -1] = rewards[played], over[played]
            self._begun |= played
            self._begin(infos, began, None)
        else:
            tail[:, :-2] = self._actions
            tail[:, -2], tail[:, -1] = rewards, over
            self._begun[:] = True
        self._over, self._any_over = over, bool(over.any())
        if self._same_step and self._any_over:
            finals = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(over):
                finals[i] = np.concatenate([infos["final_obs"][i], tail[i]], dtype=self._dtype)
            infos["final_obs"] = finals
            self._begin(infos, over, None)
        return self._append(obs), rewards, terminated, truncated, infos

    def _begin(
        self, infos: dict[str, Any], rows: NDArray[np.bool_], new: NDArray[np.bool_] | None
    ) -> None:
        """Begins episodes in ``rows``: trials where ``new`` or where the task is another."""
        tasks: Any = infos.get("task_id")
        if self._reader is not None:
            tasks = self._inner.call(self._reader)
        for i in np.flatnonzero(rows).tolist():
            task = None if tasks is None else tasks[i]
            if (new is not None and new[i]) or not same_task(task, self._of[i]):
                self._tail[i] = 0
                self._begun[i] = False
            elif self._begun[i]:
                self._tail[i, -1] = 1
            self._of[i] = copy.deepcopy(task)

    def _append(self, obs: NDArray[Any]) -> NDArray[Any]:
        out: NDArray[Any] = np.empty(self._shape, dtype=self._dtype)
        out[:, : self._head] = obs
        out[:, self._head :] = self._tail
        return out


def _spread(seed: Any, n: int) -> list[Any]:
    return [seed] * n if np.ndim(seed) == 0 else list(seed)
