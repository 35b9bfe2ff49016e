"""Trajectories for a batch of tasks, collected by our executors."""

from __future__ import annotations

import contextlib
import itertools
import logging
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

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
from mtwrappers.samplers.nested import map_arrays, with_text_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import PolicyCaller, PolicyIn, pickled
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Step, check_array_spaces, rollout
from mtwrappers.state import env_state as layers
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.make import EXECUTORS, Execution

_NAMES = ("task_name", "_task_name", "task_id", "_task_id")


class MetaSampler:
    """Collects exactly ``rollouts_per_meta_task`` trajectories for each of its tasks.

    The number of trajectories per environment is fixed before the rollout, so that short episodes
    are not over-represented: an environment that finishes early waits for the others. The name and
    the arguments are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), which calls a trajectory a
    path.

    Args:
        env: An environment with ``sample_tasks`` and ``set_task``, which the executor copies, or a
            constructor of such environments.
        policy: A callable from observations ``(N, O)`` to actions ``(N, A)``, or an object with
            ``get_actions``; see `mtwrappers.samplers.policies.PolicyCaller`.
        rollouts_per_meta_task: The number of trajectories per task.
        meta_batch_size: The number of tasks.
        max_path_length: The number of steps after which trajectories are truncated.
        envs_per_task: The number of environments per task; by default one per trajectory.
        parallel: ProMP's word for ``execution="parallel"``.
        execution: ``"iterative"`` (in this process), ``"parallel"`` (in worker processes) or
            ``"ray"`` (on a Ray cluster); by default parallel if ``workers`` is above 1.
        policy_in: ``"parent"`` calls the policy in this process, at every step, for all
            environments. ``"workers"`` sends it to the workers once per `obtain_samples`; each
            calls it for its own environments and returns whole trajectories. They are the same if
            the policy is deterministic or draws from its argument ``rng``, and each action depends
            only on its own observation, not on the rest of the batch; only the wall-clock time in
            ``info["episode"]["t"]`` differs, as between any two runs. Changes to the policy in a
            worker are lost, and a torch policy uses one thread there.
        seed: Seeds the tasks that `update_tasks` draws, the environments' first reset, and the
            policy's argument ``rng``.
        progress: Whether to display a progress bar. With ``policy_in="workers"`` it only displays
            activity, because all trajectories are returned at once.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`, for the figures of
            ``obtain_samples(log=True)``; by default the logger ``mtwrappers``.
        **executor: ``workers``, ``on_worker_failure``, ``journal``, ``timeout``, ``context``,
            ``ray_options`` and ``unify``, which `mtwrappers.vector.settings.Settings` describes.

    Raises:
        ValueError: If an argument is out of range, ``envs_per_task`` is more than
            ``rollouts_per_meta_task``, ``parallel`` contradicts ``execution``, or
            ``autoreset_mode`` is not ``"SameStep"``.
        TypeError: If an argument has the wrong type, or observations or actions are not arrays.
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.

    >>> import numpy as np
    >>> from mtwrappers import MetaSampler, PointGoalEnv
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> sizes = {"rollouts_per_meta_task": 2, "meta_batch_size": 3, "max_path_length": 20}
    >>> sampler = MetaSampler(PointGoalEnv(), policy, **sizes, seed=0)
    >>> tasks = sampler.update_tasks()
    >>> paths = sampler.obtain_samples()
    >>> {task: len(of_task) for task, of_task in paths.items()}
    {0: 2, 1: 2, 2: 2}
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any] | Callable[[], gymnasium.Env[Any, Any]],
        policy: Any,
        rollouts_per_meta_task: int,
        meta_batch_size: int,
        max_path_length: int,
        envs_per_task: int | None = None,
        parallel: bool = False,
        *,
        execution: Execution | None = None,
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
        m, k = self.meta_batch_size, self.envs_per_task
        PolicyCaller(policy, m, k)  # which checks it
        self._policy = policy
        make_executor = _executor_class(execution, parallel, executor)
        with contextlib.ExitStack() as undo:
            self.envs: MetaVectorEnv = make_executor(
                env, self.meta_batch_size, self.envs_per_task, self.max_path_length, **executor
            )
            undo.callback(self.envs.close)
            if (mode := self.envs.autoreset_mode) is not AutoresetMode.SAME_STEP:
                raise ValueError(
                    "MetaSampler needs autoreset_mode='SameStep', so that every step belongs to a "
                    f"trajectory; got {mode.value!r}"
                )
            check_array_spaces(self.envs)
            self._made_env = not isinstance(env, gymnasium.Env)
            self.env = env if isinstance(env, gymnasium.Env) else env()
            if self._seed is not None and self.env.has_wrapper_attr("sample_tasks"):
                self.env.reset(seed=self._seed)
            undo.pop_all()
        self.total_timesteps_sampled = 0

    def update_tasks(self, tasks: Sequence[Any] | None = None) -> list[Any]:
        """Sets the tasks, and returns them.

        Args:
            tasks: ``meta_batch_size`` tasks; by default drawn with the environment's
                ``sample_tasks``.

        Raises:
            ValueError: If the number of tasks is not ``meta_batch_size``.
            TypeError: If tasks are to be drawn and the environment has no ``sample_tasks``.
        """
        if tasks is None:
            check_env(self.env, "env", "sample_tasks(n); give update_tasks the tasks")
            tasks = self.env.get_wrapper_attr("sample_tasks")(self.meta_batch_size)
        self.envs.set_tasks(tasks)
        return list(tasks)

    def obtain_samples(self, log: bool = False, log_prefix: str = "") -> dict[int, list[Path]]:
        """Collects the trajectories of each task, by its index; see `mtwrappers.samplers.path`.

        Args:
            log: Whether to log steps, times (seconds) and returns.
            log_prefix: A prefix of every logged key.

        Raises:
            TypeError: If ``log`` is not a bool, the policy returns something of another form, or
                it is to go to workers and cannot be pickled.
            ValueError: If the policy returns arrays of another shape.
        """
        log = check_flag(log, "log")
        m, k = self.meta_batch_size, self.envs_per_task
        each, left_over = divmod(self.rollouts_per_meta_task, k)
        quotas = np.tile(each + (np.arange(k) < left_over), m)
        remote = self._policy_in == "workers"
        policy = pickled(self._policy) if remote else self._policy
        obs, infos = self.envs.reset(seed=self._seed)
        obs = with_text_arrays(self.envs.single_observation_space, obs)
        self._seed = None
        self._iteration += 1
        seed = self._policy_seed, self._iteration
        named = {key: infos[key] for key in _NAMES if key in infos}
        collect = _Collection(policy, m, k, seed, quotas, obs, named)
        with self._progress.of("paths", int(quotas.sum()), counts=not remote) as advance:
            if remote:
                blocks = self.envs.map_blocks(collect)
            else:
                observe: list[Callable[[Step], object]] = []
                if self._progress.visible:
                    observe = [lambda step: advance(int((step.finished & step.counted).sum()))]
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
            # The times of the slowest worker.
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
        """The state that determines the next samples, for `save_checkpoint`."""
        return {
            "env": layers.get_state(self.env),
            "envs": self.envs.get_state(between_episodes=True),
            "seed": self._seed,
            "policy_seed": self._policy_seed,
            "iteration": self._iteration,
            "total_timesteps_sampled": self.total_timesteps_sampled,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Args:
            state: The state of a sampler with the same numbers of tasks and environments, on any
                executor. Call `update_tasks` again if the environments' states do not contain
                their tasks.

        Raises:
            ValueError: If ``state`` belongs to other environments.
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


def _executor_class(
    execution: Execution | None, parallel: bool, executor: dict[str, Any]
) -> Callable[..., MetaVectorEnv]:
    """The executor's class; removes ``workers`` from its arguments if it has no workers."""
    check_choice(execution, (*EXECUTORS, None), "execution")
    if check_flag(parallel, "parallel") and execution not in (None, "parallel"):
        raise ValueError(f"parallel=True means execution='parallel', got {execution=}")
    if execution is None:
        several = parallel or positive(executor.get("workers", 1), "workers") > 1
        execution = "parallel" if several else "iterative"
        if not several:
            executor.pop("workers", None)
    chosen: Callable[..., MetaVectorEnv] = EXECUTORS[execution]
    return chosen


@dataclass(frozen=True)
class _Collection:
    """One collection of trajectories, for all environments or the ones of a worker.

    Attributes:
        policy: The policy, pickled if it goes to workers.
        meta_batch_size: ``M``.
        envs_per_task: ``K``.
        seed: Seeds the policy's generators.
        quotas: The number of trajectories per environment, ``(M * K,)``.
        obs: The observations of the last reset, ``(M * K, O)``.
        infos: The infos of this reset that name the tasks.
    """

    policy: Any
    meta_batch_size: int
    envs_per_task: int
    seed: tuple[int, ...]
    quotas: NDArray[np.int64]
    obs: Any
    infos: dict[str, Any]

    def __call__(
        self, envs: Any, rows: slice, observe: Sequence[Callable[[Step], object]] = ()
    ) -> tuple[list[list[Path]], tuple[float, float]]:
        """Collects from ``envs``, the environments ``rows``.

        Returns:
            The trajectories of each environment, and the seconds spent in the policy and in the
            environments.
        """
        recorder = Recorder()
        caller = PolicyCaller(
            self.policy,
            self.meta_batch_size,
            self.envs_per_task,
            rows,
            self.seed,
            action_shape=envs.single_action_space.shape,
        )
        obs, infos = map_arrays(operator.itemgetter(rows), (self.obs, self.infos))
        seconds = rollout(
            envs,
            caller,
            self.quotas[rows],
            obs,
            infos=infos,
            observe=(recorder, *observe),
            ends=True,
        )
        return recorder.paths(), seconds
