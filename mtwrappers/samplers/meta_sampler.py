"""Paths from a batch of tasks, on our executors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from mtwrappers._extras import import_extra
from mtwrappers.checks import positive
from mtwrappers.log import LogSink, resolve_sink
from mtwrappers.samplers.policies import PolicyCaller
from mtwrappers.samplers.recorder import Recorder
from mtwrappers.samplers.trajectory import Path
from mtwrappers.seeding import check_seed
from mtwrappers.vector.base import MetaVectorEnv
from mtwrappers.vector.iterative import MetaIterativeEnvExecutor
from mtwrappers.vector.parallel import MetaParallelEnvExecutor


class MetaSampler:
    """Collects exactly ``rollouts_per_meta_task`` whole paths of each of ``meta_batch_size`` tasks.

    How many paths each environment gives is decided before the rollout, so short episodes are not
    preferred: an environment that is done early waits (its further steps are thrown away) until
    the others are. The name and the arguments are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784).

    Args:
        env: An environment with ``sample_tasks`` and ``set_task``, which every environment of the
            executor is a copy of; or a constructor of one.
        policy: See `mtwrappers.samplers.policies.PolicyCaller`.
        rollouts_per_meta_task: How many paths a task.
        meta_batch_size: How many tasks.
        max_path_length: Truncate paths after this many steps.
        envs_per_task: How many environments a task; one a path by default.
        parallel: Whether to use worker processes.
        seed: Seeds the tasks that `update_tasks` draws and the environments' first reset.
        progress: Whether to show a progress bar.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`.
        **executor: Passed to the executor, such as ``workers``.

    Raises:
        ValueError: If a size is not positive.
        TypeError: If the environment or the policy is none.
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
        self._seed = None if seed is None else check_seed(seed)
        self._sink = resolve_sink(log_sink)
        self._progress = progress
        if progress:
            import_extra("rich.progress", "cli")
        self._policy = PolicyCaller(policy, self.meta_batch_size, self.envs_per_task)
        make = MetaParallelEnvExecutor if parallel else MetaIterativeEnvExecutor
        self.envs: MetaVectorEnv = make(
            env, self.meta_batch_size, self.envs_per_task, self.max_path_length, **executor
        )
        self._made_env = not isinstance(env, gymnasium.Env)
        self.env = env if isinstance(env, gymnasium.Env) else env()
        if self._seed is not None and self.env.has_wrapper_attr("sample_tasks"):
            self.env.reset(seed=self._seed)
        self.total_timesteps_sampled = 0

    def update_tasks(self, tasks: Sequence[Any] | None = None) -> list[Any]:
        """Sets tasks, and returns them.

        Args:
            tasks: ``meta_batch_size`` tasks; drawn with the environment's ``sample_tasks`` by
                default.

        Raises:
            ValueError: If there are not exactly ``meta_batch_size``.
        """
        if tasks is None:
            tasks = self.env.get_wrapper_attr("sample_tasks")(self.meta_batch_size)
        self.envs.set_tasks(tasks)
        return list(tasks)

    def obtain_samples(self, log: bool = False, log_prefix: str = "") -> dict[int, list[Path]]:
        """Collects the paths; see `mtwrappers.samplers.trajectory`.

        Args:
            log: Whether to log steps, times (seconds) and returns.
            log_prefix: Put before every key.

        Returns:
            The paths of each task, by its index.
        """
        quotas = self._quotas()
        recorder = Recorder(quotas, int(quotas.max()) * self.max_path_length)
        policy_seconds = env_seconds = 0.0
        obs, _ = self.envs.reset(seed=self._seed)
        self._seed = None
        over = np.ones(self.envs.num_envs, dtype=np.bool_)
        missing, total = quotas.copy(), int(quotas.sum())
        last: tuple[Any, ...] | None = None
        clock = time.perf_counter
        with self._bar(total) as advance:
            while missing.any():
                start = clock()
                if over.any():
                    self._policy.reset(over)
                actions, agent_infos = self._policy(obs)
                asked = clock()
                self.envs.step_async(actions)
                # The step before this one is recorded while workers are busy with this one.
                try:
                    if last is not None:
                        recorder.add(*last)
                finally:
                    step = self.envs.step_wait()
                policy_seconds += asked - start
                env_seconds += clock() - asked
                last = (obs, actions, agent_infos, step)
                obs, over = step[0], step[2] | step[3]
                if over.any():
                    missing -= over & (missing > 0)
                    advance(total - int(missing.sum()))
            if last is not None:
                recorder.add(*last)
        paths = self._by_task(recorder)
        steps = sum(len(path["rewards"]) for own in paths.values() for path in own)
        self.total_timesteps_sampled += steps
        if log:
            self._log(log_prefix, paths, steps, policy_seconds, env_seconds)
        return paths

    def close(self) -> None:
        """Closes the environments that the sampler made."""
        self.envs.close()
        if self._made_env:
            self.env.close()

    def _quotas(self) -> NDArray[np.int64]:
        """How many paths each environment is to give, as even as it goes."""
        whole, rest = divmod(self.rollouts_per_meta_task, self.envs_per_task)
        own = [whole + (k < rest) for k in range(self.envs_per_task)]
        return np.array(own * self.meta_batch_size, dtype=np.int64)

    def _by_task(self, recorder: Recorder) -> dict[int, list[Path]]:
        each, k = recorder.paths(), self.envs_per_task
        return {
            task: [path for own in each[task * k : (task + 1) * k] for path in own]
            for task in range(self.meta_batch_size)
        }

    def _bar(self, total: int) -> AbstractContextManager[Callable[[int], object]]:
        if not self._progress:
            return nullcontext(_no_bar)
        return _Bar(total)

    def _log(
        self,
        prefix: str,
        paths: dict[int, list[Path]],
        steps: int,
        policy_seconds: float,
        env_seconds: float,
    ) -> None:
        returns = [float(path["rewards"].sum()) for own in paths.values() for path in own]
        figures = {
            "PolicyExecTime": policy_seconds,
            "EnvExecTime": env_seconds,
            "n_timesteps": steps,
            "TotalTimestepsSampled": self.total_timesteps_sampled,
            "NumTrajs": len(returns),
            "AverageReturn": float(np.mean(returns)),
            "StdReturn": float(np.std(returns)),
            "MinReturn": min(returns),
            "MaxReturn": max(returns),
        }
        for key, value in figures.items():
            self._sink(f"{prefix}{key}", value)


def _no_bar(done: int) -> None: ...


class _Bar:
    """A progress bar of paths."""

    def __init__(self, total: int) -> None:
        self._progress = import_extra("rich.progress", "cli").Progress(transient=True)
        self._bar = self._progress.add_task("paths", total=total)

    def __enter__(self) -> Callable[[int], object]:
        self._progress.start()
        return lambda done: self._progress.update(self._bar, completed=done)

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()
