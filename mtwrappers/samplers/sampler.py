"""Trajectories from one environment."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    LogSink,
    check_env,
    check_flag,
    check_log_sink,
    not_negative,
    positive,
)
from mtwrappers.common.types import AnyEnv, AnyWrapper, State
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller, require_env_first
from mtwrappers.samplers.recorder import Recorder
from mtwrappers.samplers.rollout import Flags, check_array_spaces, rollout
from mtwrappers.state.registry import require_names
from mtwrappers.vector.make import MetaIterativeEnvExecutor

_STATE_NAMES = ("envs", "seed", "policy_seed", "iteration")


class _WithoutClose(AnyWrapper):
    """An environment that the caller closes."""

    def close(self) -> None: ...


class Sampler:
    """Collects ``batch_size`` trajectories from one environment.

    The name and the arguments are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), which calls a
    trajectory a path.

    Args:
        env: The environment. It is stepped, and not closed.
        policy: A callable from observations ``(1, O)`` to actions ``(1, A)``, or an object with
            ``get_actions`` for ``M = K = 1``; see `mtwrappers.samplers.policies.PolicyCaller`.
        batch_size: The number of trajectories.
        max_path_length: The number of steps after which trajectories are truncated.
        seed: Seeds the environment's first reset, and the policy's argument ``rng``.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`, for the figures of
            ``obtain_samples(log=True)``; by default the logger ``mtwrappers``.

    Raises:
        ValueError: If a size is not positive or the seed is negative.
        TypeError: If an argument has the wrong type, or observations or actions are not arrays.

    >>> import numpy as np
    >>> from mtwrappers import PointGoalEnv, Sampler
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> sampler = Sampler(PointGoalEnv(), policy, batch_size=2, max_path_length=20, seed=0)
    >>> paths = sampler.obtain_samples()
    >>> len(paths), paths[0]["observations"].shape
    (2, (20, 2))
    """

    def __init__(
        self,
        env: AnyEnv,
        policy: Any,
        batch_size: int,
        max_path_length: int,
        *,
        seed: int | None = None,
        log_sink: LogSink | logging.Logger | None = None,
    ) -> None:
        self.batch_size = positive(batch_size, "batch_size")
        self.max_path_length = positive(max_path_length, "max_path_length")
        self._seed = None if seed is None else seeding.check_seed(seed)
        self._policy_seed, self._iteration = seeding.chosen_seed(seed), 0
        self._sink = check_log_sink(log_sink)
        require_env_first(env, policy, "Sampler")
        self.env = check_env(env, "env")
        PolicyCaller(policy, 1, 1)  # which checks it
        self._policy = policy
        self._envs = MetaIterativeEnvExecutor(
            functools.partial(_WithoutClose, env),
            1,
            1,
            self.max_path_length,
            autoreset_mode="Disabled",
        )
        check_array_spaces(self._envs)

    def obtain_samples(self, log: bool = False, log_prefix: str = "") -> list[Path]:
        """Collects ``batch_size`` trajectories; see `mtwrappers.samplers.path`.

        Args:
            log: Whether to log the number of steps and the seconds they took.
            log_prefix: A prefix of every logged key.

        Raises:
            TypeError: If ``log`` is not a bool, or the policy returns something of another form.
            ValueError: If the policy returns arrays of another shape.
        """
        log = check_flag(log, "log")
        start = time.perf_counter()
        self._iteration += 1
        recorder = Recorder()
        caller = PolicyCaller(
            self._policy,
            1,
            1,
            seed=(self._policy_seed, self._iteration),
            action_space=self.env.action_space,
        )
        quotas = np.array([self.batch_size])
        rollout(self._envs, caller, quotas, begin=self._begin, observe=[recorder], ends=True)
        [paths] = recorder.paths()
        if log:
            self._sink(f"{log_prefix}n_timesteps", sum(len(path["rewards"]) for path in paths))
            self._sink(f"{log_prefix}SamplingTime", time.perf_counter() - start)
        return paths

    def get_state(self) -> State:
        """The state that determines the next samples, for `save_checkpoint`."""
        return {
            "envs": self._envs.get_state(between_episodes=True),
            "seed": self._seed,
            "policy_seed": self._policy_seed,
            "iteration": self._iteration,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Raises:
            TypeError, ValueError: If ``state`` is malformed, or belongs to another environment.
        """
        require_names(state, _STATE_NAMES, self)
        seed = None if state["seed"] is None else seeding.check_seed(state["seed"])
        policy_seed = seeding.check_seed(state["policy_seed"])
        iteration = not_negative(state["iteration"], "iteration of the state")
        self._envs.set_state(state["envs"])
        self._seed, self._policy_seed, self._iteration = seed, policy_seed, iteration

    def _begin(self, mask: Flags) -> tuple[Any, Mapping[str, Any]]:
        """Resets the environment for the next trajectory."""
        result = self._envs.reset(seed=self._seed)
        self._seed = None
        return result
