"""`MetaSampler` against the bare executor, and against loops that append Python lists a step.

Two such loops are compared on an environment that does nothing:

- ProMP's: its iterative executor (a list of environments, results turned from tuples to lists, a
  NumPy array of step counts) and its sampler (a dict of lists for each running path; every step of
  every environment appends an observation, an action, a reward and the two dicts of infos; at a
  path's end each list becomes an array, and each list of dicts a dict of arrays). Written here
  after its description in Rothfuss et al. 2019 (arXiv:1810.06784) and its published interface.
- The least: the same lists with as little around them as one could write today.

The policy's answer is made beforehand in the form that each takes: for the loops a dict an
environment, as ProMP's policies give, for `MetaSampler` an array. Both hold the same.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Box

from mtwrappers import MetaParallelEnvExecutor, MetaSampler, MetaWorldSetTaskEnv

TASKS, ENVS, STEPS = 20, 10, 100
ACTIONS = np.zeros((TASKS, ENVS, 4), np.float32)
KEPT = ("observations", "actions", "rewards", "env_infos", "agent_infos")

Calls = dict[str, Callable[[], Any]]


class NullTaskEnv(gymnasium.Env[Any, Any]):
    """Does nothing, for a while."""

    observation_space = Box(-1.0, 1.0, (39,), np.float64)
    action_space = Box(-1.0, 1.0, (4,), np.float32)

    def sample_tasks(self, n: int) -> list[int]:
        return list(range(n))

    def set_task(self, task: int) -> None: ...

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        return np.zeros(39), {}

    def step(self, action: Any) -> Any:
        return np.zeros(39), 0.0, False, False, {}


class ArrayPolicy:
    """Answers with an array of infos."""

    def get_actions(self, observations: Any) -> Any:
        return ACTIONS, {"mean": ACTIONS}


class DictPolicy:
    """Answers with a dict of infos for each environment, as ProMP's policies do."""

    def __init__(self) -> None:
        self._infos = [[{"mean": a} for a in own] for own in ACTIONS]

    def get_actions(self, observations: Any) -> Any:
        return ACTIONS, self._infos


def stack_dicts(dicts: list[dict[str, Any]]) -> dict[str, Any]:
    """Dicts of numbers and arrays, nested or not, as a dict of arrays."""
    return {
        key: stack_dicts([d[key] for d in dicts])
        if isinstance(first, dict)
        else np.asarray([d[key] for d in dicts])
        for key, first in dicts[0].items()
    }


def finished(path: dict[str, list[Any]]) -> dict[str, Any]:
    """A running path's lists as arrays."""
    arrays: dict[str, Any] = {key: np.asarray(path[key]) for key in KEPT[:3]}
    return arrays | {key: stack_dicts(path[key]) for key in KEPT[3:]}


class ListExecutor:
    """ProMP's iterative executor, on environments of today's Gymnasium."""

    def __init__(self, n: int, max_path_length: int) -> None:
        self.envs = [NullTaskEnv() for _ in range(n)]
        self.times = np.zeros(n, dtype=int)
        self.max_path_length = max_path_length

    def reset(self) -> list[Any]:
        self.times[:] = 0
        return [env.reset()[0] for env in self.envs]

    def step(self, actions: Any) -> Any:
        results = [env.step(a) for a, env in zip(actions, self.envs, strict=True)]
        columns = map(list, zip(*results, strict=True))
        obs, rewards, terminated, truncated, infos = columns
        dones = np.logical_or(terminated, truncated)
        self.times += 1
        dones = np.logical_or(self.times >= self.max_path_length, dones)
        for i in np.flatnonzero(dones):
            obs[i] = self.envs[i].reset()[0]
            self.times[i] = 0
        return obs, rewards, dones, infos


def promp_loop() -> Callable[[], Any]:
    """Paths of every task, as ProMP's sampler collects them."""
    executor, policy = ListExecutor(TASKS * ENVS, STEPS), DictPolicy()

    def collect() -> dict[int, list[Any]]:
        paths: dict[int, list[Any]] = {task: [] for task in range(TASKS)}
        running: list[Any] = [{key: [] for key in KEPT} for _ in executor.envs]
        collected = 0
        obs = executor.reset()
        while collected < TASKS * ENVS * STEPS:
            by_task = np.split(np.asarray(obs), TASKS)
            answer, said = policy.get_actions(by_task)
            actions = np.concatenate(answer)
            following, rewards, dones, env_infos = executor.step(actions)
            agent_infos = list(itertools.chain.from_iterable(said))
            for i, o, a, r, env_info, agent_info, done in zip(
                itertools.count(),
                obs,
                actions,
                rewards,
                env_infos,
                agent_infos,
                dones,
                strict=False,
            ):
                running[i]["observations"].append(o)
                running[i]["actions"].append(a)
                running[i]["rewards"].append(r)
                running[i]["env_infos"].append(env_info)
                running[i]["agent_infos"].append(agent_info)
                if done:
                    paths[i // ENVS].append(finished(running[i]))
                    collected += len(running[i]["rewards"])
                    running[i] = {key: [] for key in KEPT}
            obs = following
        return paths

    return collect


def least_loop() -> Callable[[], Any]:
    """The same lists, with as little around them as one could write."""
    envs = [NullTaskEnv() for _ in range(TASKS * ENVS)]
    policy = DictPolicy()

    def collect() -> list[Any]:
        running: list[Any] = [{key: [] for key in KEPT} for _ in envs]
        obs = [env.reset()[0] for env in envs]
        times, paths = [0] * len(envs), []
        while len(paths) < len(envs):
            by_task = np.asarray(obs).reshape(TASKS, ENVS, -1)
            answer, said = policy.get_actions(by_task)
            actions = [a for own in answer for a in own]
            agent_infos = [info for own in said for info in own]
            results = [env.step(a) for env, a in zip(envs, actions, strict=True)]
            for i, (new, reward, terminated, truncated, info) in enumerate(results):
                path = running[i]
                path["observations"].append(obs[i])
                path["actions"].append(actions[i])
                path["rewards"].append(reward)
                path["env_infos"].append(info)
                path["agent_infos"].append(agent_infos[i])
                obs[i] = new
                times[i] += 1
                if terminated or truncated or times[i] >= STEPS:
                    paths.append(finished(path))
                    running[i], times[i] = {key: [] for key in KEPT}, 0
                    obs[i] = envs[i].reset()[0]
        return paths

    return collect


def list_calls() -> tuple[Calls, Callable[[], None]]:
    """`MetaSampler`, the bare executor and the two loops, and what closes them."""
    sampler = MetaSampler(NullTaskEnv, ArrayPolicy(), ENVS, TASKS, STEPS, seed=0)
    sampler.update_tasks()
    flat = ACTIONS.reshape(-1, 4)

    def bare() -> None:
        sampler.envs.reset()
        for _ in range(STEPS):
            sampler.envs.step(flat)

    calls: Calls = {
        "MetaSampler": sampler.obtain_samples,
        "bare executor": bare,
        "ProMP's loop": promp_loop(),
        "least loop": least_loop(),
    }
    return calls, sampler.close


def metaworld_calls() -> tuple[Calls, Callable[[], None]]:
    """`MetaSampler` and the bare executor on MT10, and what closes them."""
    env = MetaWorldSetTaskEnv("MT10", "train", max_episode_steps=None)
    actions = np.zeros((10, 4), np.float32)
    sampler = MetaSampler(env, lambda _: actions, 1, 10, 200, workers=2, seed=0)
    tasks = sampler.update_tasks()
    executor = MetaParallelEnvExecutor(env, 10, 1, 200, workers=2)
    executor.set_tasks(tasks)

    def bare() -> None:
        executor.reset()
        for _ in range(200):
            executor.step(actions)

    def close() -> None:
        sampler.close()
        executor.close()

    return {"bare executor": bare, "MetaSampler": sampler.obtain_samples}, close
