"""The loop that calls a policy and steps environments, for samplers and evaluation.

It runs on any vector environment, or on the block of it that one worker has.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common.types import AnyArray
from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.task_texts import TaskNamer, read_texts, task_names
from mtwrappers.vector.buffers import ARRAY_SPACES, ObsLayout
from mtwrappers.vector.contract import MetaVectorEnv

Flags = NDArray[np.bool_]
# An episode of this many steps is assumed to be endless, unless a limit is given.
ENDLESS = 100_000


class Step(NamedTuple):
    """One step of all ``N`` environments.

    Attributes:
        began: A mask of environments that began an episode with this step, ``(N,)`` bool.
        counted: A mask of environments with episodes left to run, ``(N,)`` bool. The others are
            paused, and their values are meaningless.
        finished: A mask of environments whose episode ended with this step, ``(N,)`` bool:
            terminated or truncated.
        observations: The policy's observations, ``(N, O)``, or a dict or tuple of such arrays.
            Texts are an array ``(N,)`` of strings, dtype object.
        actions: The policy's actions, ``(N, A)``.
        agent_infos: The policy's agent infos, a nested dict of arrays ``(N, ...)``.
        next_observations: The observations that the step returned, in the same form.
        rewards: ``(N,)`` float64.
        terminated: ``(N,)`` bool.
        truncated: ``(N,)`` bool.
        infos: The infos of the vector environment; `info` reads them.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> from mtwrappers.evaluation import Observer
    >>> class Printer(Observer):
    ...     def step(self, step):
    ...         distances, reported = step.info("distance")
    ...         print(step.began, step.finished, distances.round(1))
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, 1, observers=[Printer()])
    [ True  True] [False False] [0.9 0.9]
    [False False] [ True  True] [0.8 0.8]
    """

    began: Flags
    counted: Flags
    finished: Flags
    observations: Any
    actions: AnyArray
    agent_infos: dict[str, Any]
    next_observations: Any
    rewards: NDArray[np.float64]
    terminated: Flags
    truncated: Flags
    infos: dict[str, Any]

    def info(self, key: str) -> tuple[Any, Flags]:
        """The values that the environments reported in this step under ``key``.

        If an episode ended in SAME_STEP mode, ``infos`` come from the next episode's reset, and
        ``final_info`` comes from the step.

        Returns:
            Values ``(N, ...)``, or a dict of them; and a mask of the environments that reported
            one, ``(N,)`` bool. Values of the others are meaningless.
        """
        nowhere = np.zeros_like(self.finished)
        now, reported = self.infos.get(key), self.infos.get(f"_{key}", nowhere)
        if "final_info" not in self.infos:
            return now, reported
        final, ended = self.infos["final_info"], self.infos["_final_info"]
        last, last_reported = final.get(key), final.get(f"_{key}", nowhere)
        if last is None:
            return now, reported & ~ended
        if not (isinstance(now, np.ndarray) and isinstance(last, np.ndarray)) or (
            now.shape[1:] != last.shape[1:]
        ):
            return last, last_reported & ended
        rows = ended.reshape(-1, *[1] * (now.ndim - 1))
        return np.where(rows, last, now), np.where(ended, last_reported, reported)


class Seconds(NamedTuple):
    """The seconds that a rollout has spent in the policy, and in the environments."""

    policy: float
    envs: float


class RolloutPolicy(Protocol):
    """Chooses the actions of a rollout, such as `mtwrappers.samplers.policies.PolicyCaller`."""

    texts: tuple[str, ...]
    first: int
    envs_per_task: int

    def reset(self, mask: Flags) -> None:
        """Called with the environments that begin an episode, ``(N,)`` bool."""

    def seed(self, rows: Sequence[int], seeds: Sequence[int]) -> None:
        """Seeds the generators of some environments."""

    def describe(self, rows: Sequence[int], texts: Mapping[str, Sequence[str]]) -> None:
        """Sets the ``texts`` of episodes that begin."""

    def __call__(
        self, observations: Any, live: Flags | None = None
    ) -> tuple[NDArray[Any], dict[str, Any]]:
        """Returns actions ``(N, A)`` and agent infos ``(N, ...)`` for observations ``(N, O)``."""


def rollout(
    envs: Any,
    policy: RolloutPolicy,
    quotas: NDArray[np.int64],
    obs: Any = None,
    *,
    infos: Mapping[str, Any] | None = None,
    names: TaskNamer | None = None,
    seeds: Callable[[Sequence[int]], Sequence[int]] | None = None,
    begin: Callable[[Flags], tuple[Any, Mapping[str, Any]]] | None = None,
    observe: Sequence[Callable[[Step], object]] = (),
    ends: bool = False,
) -> Seconds:
    """Steps the environments until each has completed its quota of episodes.

    Quotas are fixed in advance, so that short episodes are not over-represented: an environment
    that finishes early is paused until the others have finished.

    Args:
        envs: One of our vector environments, or a wrapper of one.
        policy: Computes the actions; its ``reset`` is called with the environments that begin an
            episode.
        quotas: The number of episodes per environment, ``(N,)``.
        obs: The observations of the first reset, ``(N, O)``; by default ``begin`` does that too.
        infos: The infos of the first reset.
        names: Maps the indices of environments that begin an episode, and the last infos, to task
            names, for a policy that takes ``task_names``. By default names come from the infos.
        seeds: Maps the indices of environments that begin an episode to seeds for the generators of
            a policy that takes ``rng``. By default generators are not seeded again.
        begin: Called with a mask of the environments that begin an episode, ``(N,)`` bool. It
            resets them, and returns the observations of all environments and the infos of the
            reset. By default the environments reset themselves (SAME_STEP).
        observe: Called with each step at once, while the environments are idle.
        ends: Whether all episodes are known to end, so that `ENDLESS` does not apply.

    Raises:
        RuntimeError: If an episode has not ended after `ENDLESS` steps, without ``ends``.
        TypeError, ValueError: If the policy's actions or agent infos have another form, or the
            texts that it takes cannot be read; see
            `mtwrappers.samplers.policies.PolicyCaller` and `read_texts`.
    """
    remaining, counted = quotas.copy(), quotas > 0
    start_step = np.zeros_like(remaining)  # the step at which each environment's episode began
    finished = np.ones(len(remaining), dtype=np.bool_)
    executor: MetaVectorEnv = envs.unwrapped
    if obs is not None:
        obs = map_arrays(np.asarray, obs)
    if not counted.all():
        executor.pause(~counted)
    infos = infos or {}
    steps, ended, running = 0, True, bool(counted.any())
    policy_seconds = env_seconds = 0.0
    clock = time.perf_counter
    while running:
        began = finished & counted
        any_began = ended and bool(began.any())
        if any_began:
            start_step[began] = steps
            if begin is not None and (steps > 0 or obs is None):
                start = clock()
                first_obs, infos = begin(began)
                obs = map_arrays(np.asarray, first_obs)
                env_seconds += clock() - start
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
        step_obs, rewards, terminated, truncated, step_infos = envs.step(actions)
        policy_seconds += acted - start
        env_seconds += clock() - acted
        steps += 1
        finished = terminated | truncated
        if steps >= ENDLESS and not ends:
            stuck = np.flatnonzero(counted & ~finished & (steps - start_step >= ENDLESS)).tolist()
            if stuck:
                raise RuntimeError(
                    f"episodes of environments {stuck} have not ended after {ENDLESS:,} steps: "
                    "give the environments a limit, such as max_episode_steps of gymnasium.make"
                )
        step = Step(
            began=began,
            counted=counted,
            finished=finished,
            observations=obs,
            actions=actions,
            agent_infos=agent_infos,
            next_observations=map_arrays(np.asarray, step_obs),
            rewards=rewards,
            terminated=terminated,
            truncated=truncated,
            infos=step_infos,
        )
        for observer in observe:
            observer(step)
        obs, infos = step.next_observations, step.infos
        ended = bool(finished.any())
        if ended:
            remaining -= finished & counted
            if (counted != (remaining > 0)).any():
                counted = remaining > 0
                running = bool(counted.any())
                executor.pause(~counted & running)
    return Seconds(policy_seconds, env_seconds)


def _describe(
    policy: RolloutPolicy,
    executor: MetaVectorEnv,
    began: Flags,
    infos: Mapping[str, Any],
    names: TaskNamer | None,
) -> None:
    """Gives the policy the texts of the episodes that begin."""
    rows, first, k = np.flatnonzero(began).tolist(), policy.first, policy.envs_per_task

    def name_tasks() -> list[str]:
        if names is not None:
            return names(rows, infos)
        return task_names(executor, infos, rows, lambda i: (first + i) // k)

    policy.describe(rows, read_texts(executor, policy.texts, rows, name_tasks))


def check_array_spaces(envs: Any) -> None:
    """Raises `TypeError` unless actions are arrays, and observations nested arrays or texts."""
    if not isinstance(envs.single_action_space, ARRAY_SPACES):
        raise TypeError(f"actions must be arrays, got {envs.single_action_space}")
    if not ObsLayout(envs.single_observation_space, 1).fixed:
        raise TypeError(
            "observations must be arrays or texts of at most 1024 characters, or dicts or tuples "
            f"of them, got {envs.single_observation_space}"
        )
