"""The observations of RL^2, with the previous action, reward and done flag appended."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box, Discrete, MultiBinary, MultiDiscrete
from gymnasium.spaces.utils import flatten_space
from gymnasium.utils import RecordConstructorArgs
from gymnasium.vector import VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from mtwrappers.common.checks import above_zero, check_flag, check_rows
from mtwrappers.common.equality import same_values
from mtwrappers.common.spaces import append_box, as_row, require_floating_box, summary
from mtwrappers.common.types import AnyArray, AnyEnv, AnySpace, Info, Options, State
from mtwrappers.core.task_set_env import TaskSetMTEnv, find_current_env
from mtwrappers.state.identity import keep_arguments
from mtwrappers.state.registry import require_names
from mtwrappers.vector.arguments import split_options
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import StepResult
from mtwrappers.wrappers.env_space import find_env_space
from mtwrappers.wrappers.vector import MetaVectorWrapper, require_single

# Methods that return the task, in the order of preference; otherwise it is ``info["task_id"]``.
_TASK_READERS = ("get_task_state", "get_task")
_STATE_NAMES = ("tails", "tasks", "stepped")


class RL2Observation(gymnasium.Wrapper[AnyArray, Any, AnyArray, Any], RecordConstructorArgs):
    """Appends the previous action, reward and done flag to the observation.

    A recurrent policy can then learn to adapt (Duan et al. 2016, "RL^2", arXiv:1611.02779). A
    *trial* is all consecutive episodes on one task. Its first observation has zeros appended; a
    reset on the same task keeps the appended values, with ``done`` one, so that the policy can use
    earlier episodes. A new trial begins when the task differs from the last reset's, when a reset
    has a seed or asks for a task, and after `begin_trial`. ``set_tasks`` of our vector environments
    calls that, and so ``update_tasks`` of `MetaSampler`; so do `SetTaskUpdate`, and ``set_task`` of
    `OldGym` and of a `MetaWorldSetTaskEnv` with this as its ``wrapper``. The task is the result of
    the environment's ``get_task_state()`` or ``get_task()``, otherwise ``info["task_id"]``; in a
    `MultiEnvWrapper`, also that of its current environment.

    A Box action is clipped to its bounds; a discrete one becomes a one-hot (a `MultiDiscrete` one
    per entry). ``done`` is one after termination, truncation, or a reset in mid-episode.

    ``RL2Observation(env, reward_divisor=10, across_episodes=False)`` appends what
    ``metaworld.wrappers.RNNBasedMetaRLWrapper`` appends to actions within their bounds.

    Args:
        env: An environment with a floating-point 1-D Box observation, shape ``(O,)``.
        reward_divisor: The divisor of the appended reward.
        across_episodes: Whether a reset on the same task keeps the appended values. If not, every
            episode begins with zeros.

    Raises:
        TypeError: If a space has another type, or ``across_episodes`` is not a bool.
        ValueError: If ``reward_divisor`` is not above zero; on a step, if an observation does not
            fit the environment's space.

    >>> from mtwrappers import PointGoalEnv, RL2Observation
    >>> env = RL2Observation(PointGoalEnv())
    >>> env.reset(seed=0)[0]
    array([0., 0., 0., 0., 0., 0.])
    >>> env.step([0.1, 0.0])[0]
    array([ 0.1,  0. ,  0.1,  0. , -0.9,  0. ])
    >>> env.reset()[0]
    array([ 0. ,  0. ,  0.1,  0. , -0.9,  1. ])
    """

    # Whether observations have entries after the environment's own.
    appends_entries = True

    def __init__(
        self,
        env: gymnasium.Env[AnyArray, Any],
        *,
        reward_divisor: float = 1.0,
        across_episodes: bool = True,
    ) -> None:
        require_single(env, "RL2Observation")
        # Python's own values, so that JSON can hold the spec.
        reward_divisor = above_zero(reward_divisor, "reward_divisor")
        across_episodes = check_flag(across_episodes, "across_episodes")
        RecordConstructorArgs.__init__(
            self, reward_divisor=reward_divisor, across_episodes=across_episodes
        )
        super().__init__(env)
        spaces = env.observation_space, env.action_space
        self._box: Any = env.observation_space
        self._memory = _Memory(1, *spaces, reward_divisor, across_episodes)
        self.observation_space = self._memory.space
        # What is before the appended entries, which NormalizeObservationPerTask leaves as they are.
        self.env_observation_space = find_env_space(env)

    def reset(
        self, *, seed: int | None = None, options: Options | None = None
    ) -> tuple[AnyArray, Info]:
        obs, info = self.env.reset(seed=seed, options=options)
        task = _read_trial_task(self.env)
        if task is None:
            task = info.get("task_id")
        self._memory.begin(0, task, seed is not None or _asks_for_a_task(options))
        return self._memory.append(as_row(obs, self._box), 0), info

    def step(self, action: Any) -> tuple[AnyArray, Any, bool, bool, Info]:
        obs, reward, terminated, truncated, info = self.env.step(action)
        memory = self._memory
        memory.record(0, memory.encode(action), reward, terminated or truncated)
        row = memory.append(as_row(obs, self._box), 0)
        return row, reward, terminated, truncated, info

    def begin_trial(self) -> None:
        """Makes the next reset begin a trial, even if it is on the same task."""
        self._memory.end_trial(0)

    def get_state(self) -> State:
        """The values to append to the next observation, and the task of the trial."""
        return self._memory.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            TypeError, ValueError: If ``state`` does not fit; nothing is changed then.
        """
        self._memory.set_state(require_names(state, _STATE_NAMES, self))


class VectorRL2Observation(MetaVectorWrapper):
    """`RL2Observation` for vector environments, in every autoreset mode.

    In each environment a trial begins as in the single form, whether the ``options`` of a reset ask
    for a task or its ``env_options``, and also with the first reset after `set_tasks`.
    In SAME_STEP mode, ``infos["final_obs"]`` has the action, the reward and ``done`` of the step
    that ended the episode; the first observation of the next episode has the same values if the
    trial continues, and zeros if not.

    Args:
        env: One of our vector environments, or a `MetaVectorWrapper` of one, with floating-point
            observations ``(N, O)``.
        reward_divisor: The divisor of the appended reward.
        across_episodes: Whether a reset on the same task keeps the appended values. If not, every
            episode begins with zeros.

    Raises:
        TypeError: If observations or actions are of another kind, or ``env`` is none of ours.
        ValueError: If ``reward_divisor`` is not above zero.

    >>> import gymnasium, numpy as np
    >>> from mtwrappers import VectorRL2Observation
    >>> envs = VectorRL2Observation(gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2))
    >>> obs, infos = envs.reset(seed=0)
    >>> obs, *_ = envs.step(np.full((2, 2), 0.1))
    >>> obs.shape, obs[0, 2:4]  # the action is in the observation
    ((2, 6), array([0.1, 0.1]))
    """

    def __init__(
        self,
        env: VectorEnv[Any, Any, Any],
        *,
        reward_divisor: float = 1.0,
        across_episodes: bool = True,
    ) -> None:
        keep_arguments(self, locals())
        super().__init__(env)
        spaces = env.single_observation_space, env.single_action_space
        self._memory = _Memory(self.num_envs, *spaces, reward_divisor, across_episodes)
        self.single_observation_space = self._memory.space
        self.observation_space = batch_space(self._memory.space, self.num_envs)
        # The space of the entries that VectorNormalizeObservationPerTask normalizes.
        self.env_observation_space = self._inner.call(find_env_space)[0]
        self._set = np.ones(self.num_envs, dtype=np.bool_)

    def set_tasks(self, tasks: Any) -> None:
        """Sets the task of each group's environments; the next reset begins new trials."""
        super().set_tasks(tasks)
        self._set[:] = True

    def reset(self, *, seed: Any = None, options: Options | None = None) -> tuple[Any, Info]:
        n, rows = self.num_envs, self._reset_rows(options)
        obs, infos = self._inner.reset(seed=seed, options=options)
        seeds = [seed] * n if np.ndim(seed) == 0 else seed
        with_task = [_asks_for_a_task(env_options) for env_options in split_options(options, n)[0]]
        with_seed = [env_seed is not None for env_seed in seeds]
        new = self._set | with_task | with_seed
        self._begin(infos, rows, new)
        self._set[rows] = False
        return self._memory.append(obs), infos

    def step_async(self, actions: Any) -> None:
        self._inner.step_async(actions)
        # Encoded at once, because the caller may change the array before the step ends.
        self._encoded = self._memory.encode(actions)

    def step_wait(self) -> StepResult:
        obs, rewards, terminated, truncated, infos = self._inner.step_wait()
        stepped, done = self._executor.stepped, terminated | truncated
        rows: Any = stepped if np.count_nonzero(stepped) < len(stepped) else slice(None)  # faster
        self._memory.record(rows, self._encoded[rows], rewards[rows], done[rows])
        began = self._executor.restarted
        if "final_obs" in infos:
            began = self._restarted_at_end(infos)
            finals = np.full(self.num_envs, None, dtype=object)
            for i in np.flatnonzero(began):
                finals[i] = self._memory.append(infos["final_obs"][i], i)
            infos["final_obs"] = finals
        if np.count_nonzero(began):
            self._begin(infos, began, np.zeros_like(began))
        return self._memory.append(obs), rewards, terminated, truncated, infos

    def get_state(self) -> State:
        """The values to append to the next observations, and the tasks of the trials."""
        return {**self._memory.get_state(), "set": self._set.tolist()}

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            TypeError, ValueError: If ``state`` does not fit; nothing is changed then.
        """
        require_names(state, (*_STATE_NAMES, "set"), self)
        task_was_set = _read_flags(state["set"], self.num_envs, "set")
        self._memory.set_state(state)
        self._set = task_was_set

    def _begin(self, infos: dict[str, Any], rows: AnyArray, new: AnyArray) -> None:
        """Begins episodes in ``rows``, and new trials where ``new`` or if the task changed."""
        ids: Any = infos.get("task_id", [None] * self.num_envs)
        tasks = self._inner.call(_read_trial_task)
        for i in np.flatnonzero(rows).tolist():
            task = ids[i] if tasks[i] is None else tasks[i]
            self._memory.begin(i, task, bool(new[i]))


class _Memory:
    """The values (action, reward, done) that RL^2 appends to observations of ``n`` environments.

    Actions of a Box are clipped to its bounds; discrete ones are encoded as one-hots.
    """

    def __init__(
        self,
        n: int,
        observation_space: AnySpace,
        action_space: AnySpace,
        reward_divisor: float,
        across_episodes: bool,
    ) -> None:
        if not isinstance(action_space, (Box, Discrete, MultiDiscrete, MultiBinary)):
            raise TypeError(
                "expected a Box, Discrete, MultiDiscrete or MultiBinary action space, got "
                f"{summary(action_space)}"
            )
        self._ndim = len(action_space.shape or ())
        flat: Any = flatten_space(action_space)
        self._low, self._high = flat.low, flat.high
        # For one-hots: the action entry of each column, and the value that sets the column to one.
        self._columns: AnyArray | None = None
        if isinstance(action_space, (Discrete, MultiDiscrete)):
            discrete = isinstance(action_space, Discrete)
            sizes = np.ravel(getattr(action_space, "n" if discrete else "nvec"))
            self._columns = np.repeat(np.arange(len(sizes)), sizes)
            first = np.cumsum(sizes) - sizes - np.ravel(action_space.start)
            self._values = np.arange(len(flat.low)) - np.repeat(first, sizes)
        # A trial begins with zeros, whatever the bounds are.
        low = np.concatenate([np.minimum(flat.low, 0), [-np.inf, 0.0]])
        high = np.concatenate([np.maximum(flat.high, 0), [np.inf, 1.0]])
        self.space = append_box(require_floating_box(observation_space, "given rewards"), low, high)
        self._divisor = above_zero(reward_divisor, "reward_divisor")
        self._across = check_flag(across_episodes, "across_episodes")
        dtype: Any = self.space.dtype
        # Copying this and writing the observations into it is the fastest way to append.
        self._template = np.zeros((n, *self.space.shape), dtype)
        self._size = self.space.shape[0] - len(low)
        self._tasks: list[Any] = [None] * n
        self._stepped_once = np.zeros(n, dtype=np.bool_)

    def get_state(self) -> State:
        return {
            "tails": self._template[:, self._size :].copy(),
            "tasks": copy.deepcopy(self._tasks),
            "stepped": self._stepped_once.tolist(),
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned, or raises and changes nothing."""
        n, width = self._template[:, self._size :].shape
        tails = np.asarray(state["tails"])
        if tails.shape != (n, width):
            raise ValueError(
                f"expected the appended values of {n} environments, {(n, width)}, got {tails.shape}"
            )
        if tails.dtype.kind not in "biuf":
            raise ValueError(f"expected numbers as appended values, got dtype {tails.dtype}")
        tasks = check_rows(state["tasks"], n, "tasks")
        stepped_once = _read_flags(state["stepped"], n, "stepped")
        self._template[:, self._size :] = tails
        self._tasks = copy.deepcopy(tasks)
        self._stepped_once = stepped_once

    def begin(self, i: int, task: Any, new: bool) -> None:
        """Begins an episode of environment ``i``, and a trial if ``new`` or the task changed."""
        stays = self._across and not new and same_values(task, self._tasks[i])
        if not stays:
            self.end_trial(i)
            # A copy: the environment may change its task in place.
            self._tasks[i] = copy.deepcopy(task)
        elif self._stepped_once[i]:
            self._template[i, -1] = 1

    def end_trial(self, i: int) -> None:
        """Forgets the trial of environment ``i``."""
        self._template[i, self._size :] = 0
        self._stepped_once[i] = False
        self._tasks[i] = None

    def encode(self, actions: Any) -> AnyArray:
        """Encodes one action as a new array ``(A,)``, or ``N`` actions as ``(N, A)``."""
        rows = np.asarray(actions)
        if self._ndim != 1:
            rows = rows.reshape((*rows.shape[: rows.ndim - self._ndim], -1))
        if self._columns is None:
            encoded: AnyArray = np.minimum(np.maximum(rows, self._low), self._high)
        else:
            encoded = rows[..., self._columns] == self._values
        return encoded

    def record(self, rows: Any, encoded: AnyArray, rewards: Any, done: Any) -> None:
        """Records a step of some environments; ``rows`` is an index, a mask ``(n,)`` or a slice."""
        self._template[rows, self._size : -2] = encoded
        self._template[rows, -2] = rewards / self._divisor
        self._template[rows, -1] = done
        self._stepped_once[rows] = True

    def append(self, obs: AnyArray, rows: Any = slice(None)) -> AnyArray:
        """A new array of the observations ``obs`` of some environments with values appended."""
        appended: AnyArray = self._template[rows].copy()
        appended[..., : self._size] = obs
        return appended


@read_only
def _read_trial_task(env: AnyEnv) -> Any:
    """The task of an environment; ``None`` if it does not tell it.

    An environment inside of a `MultiEnvWrapper`, such as one of a family, may draw a task of its
    own: the result is then a list of both.
    """
    tasks: list[Any] = []
    layer: Any = env
    while layer is not None:
        reader = next((name for name in _TASK_READERS if layer.has_wrapper_attr(name)), None)
        if reader is not None:
            tasks.append(layer.get_wrapper_attr(reader)())
        bottom = layer.unwrapped
        layer = find_current_env(bottom) if isinstance(bottom, TaskSetMTEnv) else None
    if len(tasks) > 1:
        return tasks
    return tasks[0] if tasks else None


def _read_flags(value: Any, n: int, name: str) -> NDArray[np.bool_]:
    """Returns the flags of ``n`` environments in a state as a new array ``(n,)``, or raises."""
    flags = [check_flag(flag, f"{name} of the state") for flag in check_rows(value, n, name)]
    return np.array(flags, dtype=np.bool_)


def _asks_for_a_task(options: Options | None) -> bool:
    """Whether the options of a reset set or draw a task."""
    options = options or {}
    sets_task = "task_state" in options or "task" in options
    return sets_task or bool(options.get("resample_task"))
