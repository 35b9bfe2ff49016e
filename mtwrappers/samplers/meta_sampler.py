"""Paths from a batch of tasks, on our executors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, get_args

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    LogSink,
    check_choice,
    check_env,
    check_flag,
    check_log_sink,
    positive,
)
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller, PolicyIn, pickled
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Step, check_array_spaces, rollout
from mtwrappers.state import env_state as layers
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import EXECUTORS


class MetaSampler:
    """Collects exactly ``rollouts_per_meta_task`` whole paths of each of ``meta_batch_size`` tasks.

    How many paths each environment gives is decided before the rollout, so short episodes are not
    preferred: an environment that is done early waits until the others are. The name and the
    arguments are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784).

    Args:
        env: An environment with ``sample_tasks`` and ``set_task``, which every environment of the
            executor is a copy of; or a constructor of one.
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`.
        rollouts_per_meta_task: How many paths per task.
        meta_batch_size: How many tasks.
        max_path_length: Truncate paths after this many steps.
        envs_per_task: How many environments per task; one per path by default.
        parallel: Whether to use worker processes; ``"ray"`` uses the actors of a Ray cluster.
        policy_in: ``"parent"`` calls the policy in this process, in every step, for all
            environments. ``"workers"`` sends it to the workers once per `obtain_samples`; each
            calls it for the environments that it has, and whole paths come back. The paths are the
            same if the policy is deterministic or draws from the ``rng`` that it is given, and its
            rows do not depend on who shares the batch; only the wall-clock time in
            ``info["episode"]["t"]`` differs, as between any two runs. What a policy remembers in a
            worker does not come back, and a torch policy has one thread there.
        seed: Seeds the tasks that `update_tasks` draws, the environments' first reset, and the
            generators that policies are given.
        progress: Whether to show a progress bar. With ``policy_in="workers"`` it counts no paths,
            since they come back all at once.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`, for the figures of
            ``obtain_samples(log=True)``; by default the logger ``mtwrappers``.
        **executor: Passed to the executor, such as ``workers``.

    Raises:
        ValueError: If an argument is out of range, ``envs_per_task`` is more than
            ``rollouts_per_meta_task``, or ``autoreset_mode`` is not ``"SameStep"``.
        TypeError: If the environment, the policy, the seed or the log sink is of another kind, or
            observations or actions are no arrays.
        DependencyNotInstalled: If there is to be a progress bar and rich is not installed.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]],
        policy: Any,
        rollouts_per_meta_task: int,
        meta_batch_size: int,
        max_path_length: int,
        envs_per_task: int | None = None,
        parallel: bool | Literal["ray"] = False,
        *,
        policy_in: PolicyIn = "parent",
        seed: int | None = None,
        progress: bool = False,
        log_sink: LogSink | logging.Logger | None = None,
        **executor: Any,
    ) -> None:
        self.rollouts_per_meta_task = positive(rollouts_per_meta_task, "rollouts_per_meta_task")
        self.meta_batch_size = positive(meta_batch_size, "meta_batch_size")
        self.max_path_length = positive(max_path_length, "max_path_length")
        k = self.rollouts_per_meta_task if envs_per_task is None else envs_per_task
        self.envs_per_task = positive(k, "envs_per_task")
        if self.envs_per_task > self.rollouts_per_meta_task:
            raise ValueError(
                f"envs_per_task={self.envs_per_task} is more than rollouts_per_meta_task="
                f"{self.rollouts_per_meta_task}: some environments would have nothing to do"
            )
        self._policy_in = check_choice(policy_in, get_args(PolicyIn), "policy_in")
        self._seed = None if seed is None else seeding.check_seed(seed)
        self._policy_seed, self._iteration = seeding.chosen_seed(seed), 0
        self._sink = check_log_sink(log_sink)
        self._progress = ProgressBar(progress)
        PolicyCaller(policy, self.meta_batch_size, self.envs_per_task)  # which checks it
        self._policy = policy
        known = {False: "iterative", True: "parallel", "ray": "ray"}
        execution = known[check_choice(parallel, list(known), "parallel")]
        with contextlib.ExitStack() as undo:
            self.envs: MetaVectorEnv = EXECUTORS[execution](
                env, self.meta_batch_size, self.envs_per_task, self.max_path_length, **executor
            )
            undo.callback(self.envs.close)
            if (mode := self.envs.autoreset_mode) is not AutoresetMode.SAME_STEP:
                raise ValueError(
                    "MetaSampler needs autoreset_mode='SameStep', so that every step belongs to a "
                    f"path; got {mode.value!r}"
                )
            check_array_spaces(self.envs)
            self._made_env = not isinstance(env, gymnasium.Env)
            self.env = env if isinstance(env, gymnasium.Env) else env()
            if self._seed is not None and self.env.has_wrapper_attr("sample_tasks"):
                self.env.reset(seed=self._seed)
            undo.pop_all()
        self.total_timesteps_sampled = 0

    def update_tasks(self, tasks: Sequence[Any] | None = None) -> list[Any]:
        """Sets tasks, and returns them.

        Args:
            tasks: ``meta_batch_size`` tasks; drawn with the environment's ``sample_tasks`` by
                default.

        Raises:
            ValueError: If there are not exactly ``meta_batch_size``.
            TypeError: If tasks are to be drawn and the environment has no ``sample_tasks``.
        """
        if tasks is None:
            check_env(self.env, "env", "sample_tasks(n); give update_tasks the tasks")
            tasks = self.env.get_wrapper_attr("sample_tasks")(self.meta_batch_size)
        self.envs.set_tasks(tasks)
        return list(tasks)

    def obtain_samples(self, log: bool = False, log_prefix: str = "") -> dict[int, list[Path]]:
        """Collects the paths of each task, by its index; see `mtwrappers.samplers.path`.

        Args:
            log: Whether to log steps, times (seconds) and returns.
            log_prefix: Put before every key.
        """
        log = check_flag(log, "log")
        m, k = self.meta_batch_size, self.envs_per_task
        each, rest = divmod(self.rollouts_per_meta_task, k)
        quotas = np.tile(each + (np.arange(k) < rest), m)
        remote = self._policy_in == "workers"
        policy = pickled(self._policy) if remote else self._policy
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        self._iteration += 1
        seed = self._policy_seed, self._iteration
        collect = functools.partial(_collect, policy, (m, k), seed, quotas, obs)
        with self._progress.of("paths", int(quotas.sum()), counts=not remote) as advance:
            if remote:
                blocks = self.envs.map_blocks(collect)
            else:
                observe: list[Callable[[Step], object]] = []
                if advance:
                    observe = [lambda step: advance(int((step.over & step.counted).sum()))]
                blocks = [collect(self.envs, slice(0, m * k), observe)]
        by_env = [paths for recorded, _ in blocks for paths in recorded]
        by_task = {
            task: with_common_infos(list(itertools.chain(*by_env[task * k : (task + 1) * k])))
            for task in range(m)
        }
        rewards = [path["rewards"] for path in itertools.chain(*by_task.values())]
        steps = sum(map(len, rewards))
        self.total_timesteps_sampled += steps
        if log:
            # Of workers, the one that took longest.
            policy_seconds, env_seconds = np.max([seconds for _, seconds in blocks], axis=0)
            returns = [float(one.sum()) for one in rewards]
            figures = {
                "PolicyExecTime": float(policy_seconds),
                "EnvExecTime": float(env_seconds),
                "n_timesteps": steps,
                "TotalTimestepsSampled": self.total_timesteps_sampled,
                "NumTrajs": len(returns),
                "AverageReturn": float(np.mean(returns)),
                "StdReturn": float(np.std(returns)),
                "MinReturn": min(returns),
                "MaxReturn": max(returns),
            }
            for key, value in figures.items():
                self._sink(f"{log_prefix}{key}", value)
        return by_task

    def get_state(self) -> dict[str, Any]:
        """What the next `update_tasks` and `obtain_samples` follow from, for `save_checkpoint`."""
        return {
            "env": layers.get_state(self.env),
            "envs": self.envs.get_state(between_episodes=True),
            "seed": self._seed,
            "policy_seed": self._policy_seed,
            "iteration": self._iteration,
            "total_timesteps_sampled": self.total_timesteps_sampled,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Goes on from what `get_state` returned.

        Args:
            state: The state of a sampler of as many tasks and environments, on any executor. Tasks
                must be set anew, with `update_tasks`, where environments do not have them in
                their state.

        Raises:
            ValueError: If it is of other environments.
        """
        self.envs.set_state(state["envs"])
        layers.set_state(self.env, state["env"])
        self._seed = state["seed"]
        self._policy_seed, self._iteration = state["policy_seed"], state["iteration"]
        self.total_timesteps_sampled = state["total_timesteps_sampled"]

    def close(self) -> None:
        """Closes the environments that the sampler made."""
        self.envs.close()
        if self._made_env:
            self.env.close()


def _collect(
    policy: Any,
    sizes: tuple[int, int],
    seed: tuple[int, ...],
    quotas: NDArray[np.int64],
    obs: Any,
    envs: Any,
    rows: slice,
    observe: Sequence[Callable[[Step], object]] = (),
) -> tuple[list[list[Path]], tuple[float, float]]:
    """The paths of the environments ``rows``, which are ``envs``; and the seconds that they took.

    ``sizes`` are ``M`` and ``K``. ``quotas`` (how many paths each gives) and ``obs`` (what the
    reset before has returned) are of all environments. The seconds are the policy's and theirs.
    """
    recorder = Recorder()
    caller = PolicyCaller(policy, *sizes, rows, seed)
    obs = map_arrays(operator.itemgetter(rows), obs)
    seconds = rollout(envs, caller, quotas[rows], obs, observe=(recorder, *observe), ends=True)
    return recorder.paths(), seconds
