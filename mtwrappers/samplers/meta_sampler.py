"""Trajectories for a batch of tasks, collected by our executors."""

from __future__ import annotations

import contextlib
import functools
import itertools
import logging
import operator
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, get_args

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.arguments import explains_arguments
from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import (
    LogSink,
    check_choice,
    check_env,
    check_flag,
    check_log_sink,
    not_negative,
    positive,
)
from mtwrappers.common.errors import short
from mtwrappers.common.types import AnyEnv, State
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.samplers.nested import map_arrays
from mtwrappers.samplers.path import Path
from mtwrappers.samplers.policies import (
    PolicyCaller,
    PolicyIn,
    pickle_policy,
    require_env_first,
)
from mtwrappers.samplers.recorder import Recorder, with_common_infos
from mtwrappers.samplers.rollout import Flags, Seconds, Step, check_array_spaces, rollout
from mtwrappers.state.env_state import find_undeclared, get_state, set_state
from mtwrappers.state.registry import require_names
from mtwrappers.tasks.draws import TaskDraws, read_task
from mtwrappers.tasks.updates import copy_env
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.journal import hash_value
from mtwrappers.vector.make import Execution, SamplerOptions, make_executor
from mtwrappers.vector.settings import SETTING_NAMES, Maker

# The infos that name the task of an environment, and their masks.
_TASK_INFOS = ("task_name", "_task_name", "task_id", "_task_id")
_STATE_NAMES = (
    "env",
    "envs",
    "tasks_set",
    "seed",
    "policy_seed",
    "iteration",
    "total_timesteps_sampled",
)
# The attribute of an environment that makes its resets draw tasks.
_DRAWS_ON_RESET = "sample_tasks_on_reset"
# What to pass for arguments of vector environments that it does not take.
_HINTS = {
    "autoreset_mode": "it resets environments itself, when a trajectory begins",
    "num_envs": "it makes envs_per_task environments for each of meta_batch_size tasks",
}


class MetaSampler:
    """Collects exactly ``rollouts_per_meta_task`` trajectories for each of its tasks.

    The number of trajectories per environment is fixed before the rollout, so that short episodes
    are not over-represented: an environment that finishes early waits for the others. The name and
    the arguments are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), which calls a trajectory a
    path.

    Every trajectory is on the task that was set last: environments whose resets draw a task by
    themselves (``sample_tasks_on_reset``) are made to stop it.

    Args:
        env: An environment with ``sample_tasks`` and ``set_task``, which the executor copies; a
            constructor of such environments; or a list of constructors, one per task or one per
            environment.
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
            ``info["episode"]["t"]`` differs, as between any two runs. A policy with
            ``get_actions`` needs ``for_tasks``. Changes to the policy in a worker are lost, also
            those of a random generator that it holds, of which there is a warning. A torch policy
            uses one thread there.
        seed: Seeds the tasks that `update_tasks` draws, the environments' first reset, and the
            policy's argument ``rng``. There is a warning if ``sample_tasks`` draws other tasks
            after the same seed.
        progress: Whether to display a progress bar. With ``policy_in="workers"`` it only displays
            activity, because all trajectories are returned at once.
        log_sink: A callable ``(key, value)`` or a `logging.Logger`, for the figures of
            ``obtain_samples(log=True)``; by default the logger ``mtwrappers``.
        **executor: ``workers``, ``on_worker_failure``, ``journal``, ``timeout``, ``context``,
            ``ray_options`` and ``unify``, which `mtwrappers.vector.settings.Settings` describes;
            ``None`` stands for the default, except for ``timeout``.

    Raises:
        ValueError: If an argument is out of range, ``envs_per_task`` is more than
            ``rollouts_per_meta_task``, or ``parallel`` contradicts ``execution``.
        TypeError: If an argument has the wrong type or is unknown, or observations or actions are
            not arrays.
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.

    >>> import numpy as np
    >>> from mtwrappers import MetaSampler, PointGoalEnv
    >>> def policy(observations):
    ...     return np.full((len(observations), 2), 0.1)
    >>> sizes = {"rollouts_per_meta_task": 2, "meta_batch_size": 3, "max_path_length": 20}
    >>> sampler = MetaSampler(PointGoalEnv(), policy, **sizes, seed=0)
    >>> tasks = sampler.update_tasks()
    >>> paths = sampler.obtain_samples()
    >>> {task: len(task_paths) for task, task_paths in paths.items()}
    {0: 2, 1: 2, 2: 2}
    """

    @explains_arguments(SETTING_NAMES - {"autoreset_mode"}, hints=_HINTS)
    def __init__(
        self,
        env: AnyEnv | Maker | Sequence[Maker],
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
        **executor: Unpack[SamplerOptions],
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
        require_env_first(env, policy, "MetaSampler")
        argument_names = PolicyCaller(policy, m, k).argument_names  # which checks the policy
        self._policy = policy
        # Another generator than `rng` may be for training.
        self._warns_of_generators = "rng" not in argument_names
        if check_flag(parallel, "parallel") and execution not in (None, "parallel"):
            raise ValueError(f"parallel=True means execution='parallel', got {execution=}")
        with contextlib.ExitStack() as undo:
            self.envs: MetaVectorEnv = make_executor(
                env,
                m,
                k,
                self.max_path_length,
                execution="parallel" if parallel else execution,
                autoreset_mode=AutoresetMode.DISABLED,
                **executor,
            )
            undo.callback(self.envs.close)
            check_array_spaces(self.envs)
            drew_tasks = self._stop_drawing_tasks()
            self._owns_env = not isinstance(env, gymnasium.Env)
            make_env: Maker
            if isinstance(env, gymnasium.Env):
                self.env, make_env = env, functools.partial(copy_env, env)
            else:
                make_env = env if callable(env) else env[0]
                self.env = make_env()
                undo.callback(self.env.close)
            self._draw_tasks = TaskDraws(
                self.env, make_env, self._seed, "or give update_tasks the tasks"
            )
            undo.pop_all()
        self._makers_are_tasks = isinstance(env, Sequence)
        # Why `obtain_samples` needs `update_tasks` before it; "" if it does not.
        self._why_needs_tasks = ""
        if drew_tasks:
            self._why_needs_tasks = (
                "otherwise each of these environments would draw a task of its own"
            )
        elif m > 1 and not self._makers_are_tasks and _has_several_tasks(self.env):
            self._why_needs_tasks = (
                f"otherwise its {m} tasks are all the task that a new environment has"
            )
        # A digest of the task that was set in each environment; None before `update_tasks`.
        self._task_digests: Sequence[int | None] | None = None
        self.total_timesteps_sampled = 0

    def update_tasks(self, tasks: Sequence[Any] | None = None) -> list[Any]:
        """Sets the tasks, and returns them.

        Args:
            tasks: ``meta_batch_size`` tasks; by default drawn with the environment's
                ``sample_tasks``.

        Raises:
            ValueError: If the number of tasks is not ``meta_batch_size``, or the environments of a
                task are on different tasks then.
            TypeError: If tasks are to be drawn and the environment has no ``sample_tasks``.
        """
        if tasks is None:
            way_out = "give update_tasks the tasks"
            has = self.env.has_wrapper_attr
            if not has("set_task") and has("set_task_state") and has("num_tasks"):
                states = _list_task_states(self.env)
                cycle = [states[i % len(states)] for i in range(self.meta_batch_size)]
                way_out += f", which are task states, such as {short(cycle)}"
            if self._makers_are_tasks:
                way_out += ", or leave it out if each constructor makes the environment of a task"
            check_env(self.env, "env", f"sample_tasks(n); {way_out}")
            tasks = self._draw_tasks(self.meta_batch_size)
        self.envs.set_tasks(tasks)
        self._take_tasks()
        return list(tasks)

    def obtain_samples(self, log: bool = False, log_prefix: str = "") -> dict[int, list[Path]]:
        """Collects the trajectories of each task, by its index; see `mtwrappers.samplers.path`.

        Args:
            log: Whether to log steps, times (seconds) and returns.
            log_prefix: A prefix of every logged key.

        Raises:
            TypeError: If ``log`` is not a bool, the policy returns something of another form, or
                it is to go to workers and cannot be pickled, or has ``get_actions`` and no
                ``for_tasks``.
            ValueError: If the policy returns arrays of another shape, or a reset left the task that
                was set.
            RuntimeError: If no tasks were set, and each environment would draw its own, or all
                tasks would be the same; or if the last tasks were refused.
        """
        log = check_flag(log, "log")
        if self._why_needs_tasks and self._task_digests is None:
            raise RuntimeError(f"call update_tasks before obtain_samples: {self._why_needs_tasks}")
        collections = self._collect()
        k = self.envs_per_task
        by_env = [paths for collection in collections for paths in collection.paths]
        by_task = {
            task: with_common_infos(list(itertools.chain(*by_env[task * k : (task + 1) * k])))
            for task in range(self.meta_batch_size)
        }
        paths = [*itertools.chain(*by_task.values())]
        self.total_timesteps_sampled += sum(len(path["rewards"]) for path in paths)
        if log:
            # The times of the slowest worker.
            policy_seconds = max(collection.seconds.policy for collection in collections)
            env_seconds = max(collection.seconds.envs for collection in collections)
            self._log(paths, Seconds(policy_seconds, env_seconds), log_prefix)
        return by_task

    def _collect(self) -> Sequence[_Collection]:
        """Resets the environments and collects the trajectories of each, in their order."""
        m, k = self.meta_batch_size, self.envs_per_task
        per_env, remainder = divmod(self.rollouts_per_meta_task, k)
        quotas = np.tile(per_env + (np.arange(k) < remainder), m)
        in_workers = self._policy_in == "workers"
        policy = self._pickle_policy() if in_workers else self._policy
        obs, infos = self.envs.reset(seed=self._seed)
        self._seed = None
        self._iteration += 1
        collector = _Collector(
            policy=policy,
            meta_batch_size=m,
            envs_per_task=k,
            seed=(self._policy_seed, self._iteration),
            quotas=quotas,
            obs=obs,
            infos={key: infos[key] for key in _TASK_INFOS if key in infos},
            task_digests=self._task_digests or [None] * (m * k),
        )
        with self._progress.track("paths", int(quotas.sum()), counts=not in_workers) as advance:
            if in_workers:
                collections: list[_Collection] = self.envs.map_blocks(collector)
                return collections
            observe: list[Callable[[Step], object]] = []
            if self._progress.visible:
                observe = [lambda step: advance(int((step.finished & step.counted).sum()))]
            return [collector(self.envs, slice(0, m * k), observe)]

    def _pickle_policy(self) -> bytes:
        """Pickles the policy; warns once if it holds random generators."""
        policy, generators = pickle_policy(self._policy)
        if generators and self._warns_of_generators:
            self._warns_of_generators = False
            warnings.warn(
                f"the policy holds a random generator ({', '.join(generators)}), of which each "
                "worker gets the same copy, in each call of obtain_samples again: if it draws "
                "from it, the noise repeats; take the argument rng instead, which has a generator "
                "for each environment",
                stacklevel=find_stacklevel(),
            )
        return policy

    def _log(self, paths: Sequence[Path], seconds: Seconds, prefix: str) -> None:
        """Logs the figures of a collection, under ProMP's keys."""
        returns = [float(path["rewards"].sum()) for path in paths]
        figures = {
            "PolicyExecTime": seconds.policy,
            "EnvExecTime": seconds.envs,
            "n_timesteps": sum(len(path["rewards"]) for path in paths),
            "TotalTimestepsSampled": self.total_timesteps_sampled,
            "NumTrajs": len(returns),
            "AverageReturn": float(np.mean(returns)),
            "StdReturn": float(np.std(returns)),
            "MinReturn": min(returns),
            "MaxReturn": max(returns),
        }
        for key, value in figures.items():
            self._sink(f"{prefix}{key}", value)

    def get_state(self) -> State:
        """The state that determines the next samples, for `save_checkpoint`.

        Raises:
            TypeError: If `update_tasks` was called, and an environment has no ``get_state`` that
                could return the task.
        """
        if self._task_digests is not None:
            self._require_tasks_in_state()
        return {
            "env": get_state(self.env),
            "envs": self.envs.get_state(between_episodes=True),
            "tasks_set": self._task_digests is not None,
            "seed": self._seed,
            "policy_seed": self._policy_seed,
            "iteration": self._iteration,
            "total_timesteps_sampled": self.total_timesteps_sampled,
        }

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        Args:
            state: The state of a sampler with the same numbers of tasks and environments, on any
                executor.

        Raises:
            TypeError, ValueError: If ``state`` is malformed, or belongs to other environments.
        """
        require_names(state, _STATE_NAMES, self)
        seed = None if state["seed"] is None else seeding.check_seed(state["seed"])
        policy_seed = seeding.check_seed(state["policy_seed"])
        iteration, total_timesteps_sampled = (
            not_negative(state[name], f"{name} of the state")
            for name in ("iteration", "total_timesteps_sampled")
        )
        tasks_set = check_flag(state["tasks_set"], "tasks_set of the state")
        self._require_envs_per_task(state["envs"])
        self.envs.set_state(state["envs"])
        set_state(self.env, state["env"])
        self._task_digests = None
        if tasks_set:
            self._take_tasks()
        self._seed, self._policy_seed, self._iteration = seed, policy_seed, iteration
        self.total_timesteps_sampled = total_timesteps_sampled

    def _require_envs_per_task(self, envs_state: Any) -> None:
        """Raises `ValueError` if the state is of another number of environments per task."""
        identity = envs_state.get("identity") if isinstance(envs_state, Mapping) else None
        saved = identity.get("envs_per_task") if isinstance(identity, Mapping) else None
        if isinstance(saved, int) and saved != self.envs_per_task:
            raise ValueError(
                f"expected a state with {self.envs_per_task} environments per task, got {saved}: "
                f"pass envs_per_task={saved}, or rollouts_per_meta_task={saved}, its default"
            )

    def _stop_drawing_tasks(self) -> bool:
        """Makes resets keep the tasks; returns whether some environments drew tasks."""
        draws: Sequence[bool] = self.envs.call(_draws_tasks)
        rows = np.flatnonzero(draws).tolist()
        if rows:
            self.envs.call_some(rows, "set_wrapper_attr", _DRAWS_ON_RESET, False)
        return bool(rows)

    def _take_tasks(self) -> None:
        """Notes the tasks that were set, and requires one task per group of environments."""
        digests: Sequence[int | None] = self.envs.call(_task_digest)
        for task in range(self.meta_batch_size):
            first = task * self.envs_per_task
            if len({*digests[first : first + self.envs_per_task]}) > 1:
                self._task_digests = None
                self._why_needs_tasks = "the last tasks were refused, and are set"
                raise ValueError(
                    f"the environments of task {task} were given one task and are on several: give "
                    "update_tasks tasks that leave nothing to draw, such as exact_task_state(task, "
                    "seed) of environments with continuous goals"
                )
        self._task_digests = digests

    def _require_tasks_in_state(self) -> None:
        """Raises `TypeError` if the state of an environment has no place for its task."""
        for i, class_name in enumerate(self.envs.call(_class_without_task_state)):
            if class_name:
                raise TypeError(
                    f"a checkpoint cannot hold the task of environment {i}, which update_tasks has "
                    f"set: give {class_name} the methods get_state() and set_state(state), whose "
                    "state has the task"
                )

    def close(self) -> None:
        """Closes the environments that the sampler made."""
        self.envs.close()
        if self._owns_env:
            self.env.close()


def _has_several_tasks(env: AnyEnv) -> bool:
    """Whether an environment takes tasks, and has not only one task state."""
    if env.has_wrapper_attr("set_task"):
        return True
    num_tasks = env.get_wrapper_attr("num_tasks") if env.has_wrapper_attr("num_tasks") else None
    return env.has_wrapper_attr("set_task_state") and num_tasks != 1


def _list_task_states(env: AnyEnv) -> Sequence[int]:
    """The task states of an environment over a list, which may be those of a longer list."""
    count: int = env.get_wrapper_attr("num_tasks")
    if env.has_wrapper_attr("task_states"):
        states: Sequence[int] = env.get_wrapper_attr("task_states")
        if len(states) == count:  # otherwise they are only the current one
            return states
    return range(count)


@read_only
def _draws_tasks(env: AnyEnv) -> bool:
    """Whether some resets of an environment draw a task, and can be made to stop it."""
    if not env.has_wrapper_attr(_DRAWS_ON_RESET):
        return False
    moves = env.has_wrapper_attr("task_states") and len(env.get_wrapper_attr("task_states")) > 1
    return moves or bool(env.get_wrapper_attr(_DRAWS_ON_RESET))


@read_only
def _class_without_task_state(env: AnyEnv) -> str:
    """The class of the layer whose task is in no state of an environment; ``""`` if none is."""
    setter = "set_task" if env.has_wrapper_attr("set_task") else "set_task_state"
    return find_undeclared(env, setter)


@read_only
def _task_digest(env: AnyEnv) -> int | None:
    """A digest of the task of an environment; ``None`` if it does not tell its task."""
    task = read_task(env)
    return None if task is None else hash_value(task)


@dataclass(frozen=True)
class _Collection:
    """Collected trajectories.

    Attributes:
        paths: The trajectories of each environment.
        seconds: The time that they took.
    """

    paths: list[list[Path]]
    seconds: Seconds


@dataclass(frozen=True)
class _Collector:
    """Collects the trajectories of all environments, or of the ones of a worker.

    Attributes:
        policy: The policy, pickled if it goes to workers.
        meta_batch_size: ``M``.
        envs_per_task: ``K``.
        seed: Seeds the policy's generators.
        quotas: The number of trajectories per environment, ``(M * K,)``.
        obs: The observations of the last reset, ``(M * K, O)``.
        infos: The infos of this reset that name the tasks.
        task_digests: A digest of the task that was set in each environment, ``(M * K,)``; ``None``
            if it was not set, or the environment does not tell it.
    """

    policy: Any
    meta_batch_size: int
    envs_per_task: int
    seed: tuple[int, ...]
    quotas: NDArray[np.int64]
    obs: Any
    infos: dict[str, Any]
    task_digests: Sequence[int | None]

    def __call__(
        self, envs: Any, rows: slice, observe: Sequence[Callable[[Step], object]] = ()
    ) -> _Collection:
        """Collects from ``envs``, the environments ``rows``."""
        recorder = Recorder()
        caller = PolicyCaller(
            self.policy,
            self.meta_batch_size,
            self.envs_per_task,
            rows,
            self.seed,
            action_space=envs.single_action_space,
        )
        obs, infos = map_arrays(operator.itemgetter(rows), (self.obs, self.infos))
        self._require_set_tasks(envs, rows, range(envs.num_envs))

        def begin(mask: Flags) -> tuple[Any, dict[str, Any]]:
            result: tuple[Any, dict[str, Any]] = envs.reset(options={"reset_mask": mask})
            self._require_set_tasks(envs, rows, np.flatnonzero(mask).tolist())
            return result

        seconds = rollout(
            envs,
            caller,
            self.quotas[rows],
            obs,
            infos=infos,
            begin=begin,
            observe=(recorder, *observe),
            ends=True,
        )
        return _Collection(recorder.paths(), seconds)

    def _require_set_tasks(self, envs: Any, rows: slice, reset: Iterable[int]) -> None:
        """Raises `ValueError` if a reset left the task that was set.

        Args:
            envs: The environments ``rows``.
            rows: Their indices among all.
            reset: The indices, among ``envs``, of those that were reset.
        """
        expected = self.task_digests[rows]
        telling = [i for i in reset if expected[i] is not None]
        digests = envs.call_some(telling, _task_digest) if telling else []
        for i, digest in zip(telling, digests, strict=True):
            if digest != expected[i]:
                raise ValueError(
                    f"environment {rows.start + i} left the task that was set when it was reset: "
                    "MetaSampler needs environments whose resets keep their task, or draw it only "
                    "while their attribute sample_tasks_on_reset is true"
                )
