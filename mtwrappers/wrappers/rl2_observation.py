"""The input of RL^2: what the agent did last, and what came of it."""

from __future__ import annotations

import copy
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs
from numpy.typing import NDArray

from mtwrappers.rl2_input import (
    TASK_READERS,
    ActionCode,
    asks_for_a_trial,
    rl2_space,
    same_task,
)


class RL2Observation(
    gymnasium.Wrapper[NDArray[Any], Any, NDArray[Any], Any], RecordConstructorArgs
):
    """Appends the previous action, reward and end of an episode to the observation.

    A recurrent policy then learns to learn (Duan et al. 2016, "RL^2", arXiv:1611.02779). A *trial*
    is all episodes on one task: its first observation has zeros appended; after a reset on the
    same task the appended numbers stay, with ``done`` one, so that the policy can carry on what it
    found out. A trial begins where the task differs from that of the last reset, and wherever a
    reset has a seed or asks for a task. The task is what ``get_task_state()`` or ``get_task()`` of
    the environment says, else ``info["task_id"]``.

    A Box action is clipped to its bounds, any discrete one becomes a one-hot (a `MultiDiscrete`
    one for each entry). ``done`` is one after termination, truncation, or a reset in mid-episode.

    Args:
        env: An environment with a floating-point 1-D Box observation, shape ``(O,)``.

    Raises:
        TypeError: If observations or actions are of another kind.

    >>> from mtwrappers import PointGoalEnv
    >>> env = RL2Observation(PointGoalEnv())
    >>> env.reset(seed=0)[0]
    array([0., 0., 0., 0., 0., 0.])
    >>> env.step([0.1, 0.0])[0]
    array([ 0.1,  0. ,  0.1,  0. , -0.9,  0. ])
    >>> env.reset()[0]
    array([ 0. ,  0. ,  0.1,  0. , -0.9,  1. ])
    """

    def __init__(self, env: gymnasium.Env[NDArray[Any], Any]) -> None:
        RecordConstructorArgs.__init__(self)
        super().__init__(env)
        self._code = ActionCode(env.action_space)
        self.observation_space = space = rl2_space(env.observation_space, self._code)
        self._blank = np.zeros(space.shape, dtype=space.dtype)
        self._head = space.shape[0] - self._code.size - 2
        self._tail = self._blank[self._head :].copy()
        self._reader = next((name for name in TASK_READERS if env.has_wrapper_attr(name)), None)
        self._task: Any = None
        self._begun = False

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Resets the environment, and begins a trial where the task is another."""
        obs, info = self.env.reset(seed=seed, options=options)
        task = info.get("task_id")
        if self._reader is not None:
            task = copy.deepcopy(self.env.get_wrapper_attr(self._reader)())
        if seed is not None or asks_for_a_trial(options) or not same_task(task, self._task):
            self._tail[:] = 0
            self._begun = False
        elif self._begun:
            self._tail[-1] = 1
        self._task = task
        return self._append(obs), info

    def step(self, action: Any) -> tuple[NDArray[Any], Any, bool, bool, dict[str, Any]]:
        """Steps the environment."""
        obs, reward, terminated, truncated, info = self.env.step(action)
        tail = self._tail
        self._code.write(action, tail[:-2])
        tail[-2] = float(reward)
        tail[-1] = terminated or truncated
        self._begun = True
        return self._append(obs), reward, terminated, truncated, info

    def _append(self, obs: NDArray[Any]) -> NDArray[Any]:
        out: NDArray[Any] = self._blank.copy()
        out[: self._head] = obs
        out[self._head :] = self._tail
        return out
