"""The one loop that calls a policy and steps environments, for samplers and evaluation alike.

The loop knows nothing of processes: it runs on any vector environment, whole or a block of it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mtwrappers.samplers.nested import has_texts, with_text_arrays
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.samplers.task_texts import NamesOf, read_texts, task_names
from mtwrappers.vector.buffers import ARRAY_SPACES, ObsLayout
from mtwrappers.vector.contract import MetaVectorEnv

Flags = NDArray[np.bool_]
# An episode of this many steps is taken for one that never ends, unless a limit was given.
ENDLESS = 100_000


class Step(NamedTuple):
    """One step of all ``N`` environments.

    Attributes:
        began: Which environments began an episode with this step, ``(N,)`` bool.
        counted: Which have episodes left to give, ``(N,)`` bool. The others are paused, and their
            values mean nothing.
        finished: Which ended their episode with this step, ``(N,)`` bool: terminated, truncated, or
            cut by ``max_episode_steps``.
        observations: The policy's observations, ``(N, O)``, or a dict or tuple of such arrays.
            Texts are an array ``(N,)`` of strings, dtype object.
        actions: Its actions, ``(N, A)``.
        agent_infos: Its other values, a nested dict of arrays ``(N, ...)``.
        next_observations: The observations that the step returned, in the same form.
        rewards: ``(N,)`` float64.
        terminated: ``(N,)`` bool.
        truncated: ``(N,)`` bool.
        infos: As the vector environment returned them; `info` reads them.
    """

    began: Flags
    counted: Flags
    finished: Flags
    observations: Any
    actions: NDArray[Any]
    agent_infos: dict[str, Any]
    next_observations: Any
    rewards: NDArray[np.float64]
    terminated: Flags
    truncated: Flags
    infos: dict[str, Any]

    def info(self, key: str) -> tuple[Any, Flags]:
        """The values that the environments reported in this step under ``key``.

        Where an episode ended in SAME_STEP mode, ``infos`` are of the next episode's reset and
        ``final_info`` is of the step.

        Returns:
            Values ``(N, ...)``, or a dict of them; and which environments reported one, ``(N,)``
            bool. Values of the others mean nothing.
        """
        nobody = np.zeros_like(self.finished)
        now, reported = self.infos.get(key), self.infos.get(f"_{key}", nobody)
        if "final_info" not in self.infos:
            return now, reported
        final, ended = self.infos["final_info"], self.infos["_final_info"]
        last, last_reported = final.get(key), final.get(f"_{key}", nobody)
        if last is None:
            return now, reported & ~ended
        if not (isinstance(now, np.ndarray) and isinstance(last, np.ndarray)) or (
            now.shape[1:] != last.shape[1:]
        ):
            return last, last_reported & ended
        rows = ended.reshape(-1, *[1] * (now.ndim - 1))
        return np.where(rows, last, now), np.where(ended, last_reported, reported)


def rollout(
    envs: Any,
    policy: PolicyCaller,
    quotas: NDArray[np.int64],
    obs: Any,
    *,
    infos: Mapping[str, Any] | None = None,
    names: NamesOf | None = None,
    seeds: Callable[[Sequence[int]], Sequence[int]] | None = None,
    begin: Callable[[Flags], Any] | None = None,
    observe: Sequence[Callable[[Step], object]] = (),
    max_episode_steps: int | None = None,
    ends: bool = False,
) -> tuple[float, float]:
    """Steps the environments until each has ended as many episodes as it is to give.

    How many is decided before, so that short episodes are not preferred: an environment that has
    finished early is paused until the others have.

    Args:
        envs: One of our vector environments, or a wrapper of one.
        policy: Gives the actions; its ``reset`` is called with the environments that begin an
            episode.
        quotas: How many episodes each environment is to give, ``(N,)``.
        obs: The observations of the first reset, ``(N, O)``.
        infos: Those of the first reset.
        names: Returns the names of tasks for a policy that takes ``task_names``: of the
            environments (their indices) that begin an episode, given the last infos. By default
            they are taken from these.
        seeds: Returns the seeds from which the generators of a policy that takes ``rng`` begin anew
            with each episode, of the environments that begin one. By default they go on.
        begin: Called with the environments that are to begin an episode, ``(N,)`` bool, the first
            included. It resets them and returns all observations. By default the environments
            reset themselves (SAME_STEP).
        observe: Called with each step at once, while the environments stand still.
        max_episode_steps: End episodes after this many steps; needs ``begin``.
        ends: Whether the environments are known to end their episodes, however long they are.

    Returns:
        The seconds spent in the policy, and in the environments.

    Raises:
        RuntimeError: If an episode has no end after `ENDLESS` steps, and nothing says that it will.
    """
    left, counted = quotas.copy(), quotas > 0
    begun = np.zeros_like(left)  # at which step each environment's episode began
    finished = np.ones(len(left), dtype=np.bool_)
    executor: MetaVectorEnv = envs.unwrapped
    space = envs.single_observation_space
    texts = has_texts(space)
    obs = with_text_arrays(space, obs) if texts and begin is None else obs
    if not counted.all():
        executor.pause(~counted)
    infos = infos or {}
    steps, ended, going = 0, True, bool(counted.any())
    policy_seconds = env_seconds = 0.0
    clock = time.perf_counter
    while going:
        began = finished & counted
        any_began = ended and bool(began.any())
        if any_began:
            begun[began] = steps
            if begin is not None:
                obs = begin(began)
                obs = with_text_arrays(space, obs) if texts else obs
            if seeds is not None:
                rows = np.flatnonzero(began).tolist()
                policy.seed(rows, seeds(rows))
            if policy.texts:
                _describe(policy, executor, began, infos, names)
        start = clock()
        if any_began:
            policy.reset(began)
        actions, agent_infos = policy(obs, counted)
        acted = clock()
        result = envs.step(actions)
        policy_seconds += acted - start
        env_seconds += clock() - acted
        steps += 1
        finished = result[2] | result[3]
        if max_episode_steps is not None:
            finished |= steps - begun >= max_episode_steps
        elif steps >= ENDLESS and not ends:
            stuck = np.flatnonzero(counted & ~finished & (steps - begun >= ENDLESS)).tolist()
            if stuck:
                raise RuntimeError(
                    f"episodes of environments {stuck} have not ended after {ENDLESS:,} steps: "
                    "give max_episode_steps, here or to the environments"
                )
        next_obs, *rest = result
        if texts:
            next_obs = with_text_arrays(space, next_obs)
        step = Step(began, counted, finished, obs, actions, agent_infos, next_obs, *rest)
        for observer in observe:
            observer(step)
        obs, infos = step.next_observations, step.infos
        ended = bool(finished.any())
        if ended:
            left -= finished & counted
            if (counted != (left > 0)).any():
                counted = left > 0
                going = bool(counted.any())
                executor.pause(~counted & going)
    return policy_seconds, env_seconds


def _describe(
    policy: PolicyCaller,
    executor: MetaVectorEnv,
    began: Flags,
    infos: Mapping[str, Any],
    names: NamesOf | None,
) -> None:
    """Gives the policy the texts of the episodes that begin."""
    rows, first, share = np.flatnonzero(began).tolist(), policy.first, policy.envs_per_task

    def named() -> list[str]:
        if names is not None:
            return names(rows, infos)
        return task_names(executor, infos, rows, lambda i: (first + i) // share)

    policy.describe(rows, read_texts(executor, policy.texts, rows, named, first))


def check_array_spaces(envs: Any) -> None:
    """Raises `TypeError` unless actions are arrays, and observations arrays or texts, nested."""
    if not isinstance(envs.single_action_space, ARRAY_SPACES):
        raise TypeError(f"actions must be arrays, got {envs.single_action_space}")
    if not ObsLayout(envs.single_observation_space, 1).fixed:
        raise TypeError(
            "observations must be arrays or texts of at most 1024 characters, or dicts or tuples "
            f"of them, got {envs.single_observation_space}"
        )
