"""The three executors, and how they are made, for registered ids and any environments.

The environments are in this process, in worker processes, or on Ray's actors.
"""

from __future__ import annotations

import abc
import functools
import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, TypeAlias, TypedDict, Unpack, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode

from mtwrappers.common.checks import check_choice, check_keywords, not_negative, positive
from mtwrappers.core.pad_spaces import Unify
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.pool import LocalPool, Pool
from mtwrappers.vector.ray import actor_pool
from mtwrappers.vector.settings import (
    SETTING_NAMES,
    AutoresetName,
    ExecutorSettings,
    Maker,
    OnWorkerFailure,
    Settings,
    StartMethod,
    resolve_makers,
)
from mtwrappers.vector.workers import ProcessWorker, WorkerPool, process_pool

# The executions that have a setting, if not all have it. (`timeout` and `context` have no effect in
# iterative execution, so that a script may choose the execution alone.)
_EXECUTIONS_WITH = {
    "workers": ("parallel", "ray"),
    "context": ("parallel", "iterative"),
    "ray_options": ("ray",),
}


class Executor(MetaVectorEnv):
    """A vector environment of ``M * K`` environments from constructors; subclasses run them.

    All subclasses take the same arguments, so that one script fits all.

    Args:
        env: A constructor; a list of constructors, one per task or one per environment; or a
            picklable environment, which is copied. Copies are seeded at their first reset, each
            with a different branch of the environment's generator (or of entropy, if it was never
            seeded), unless `reset` has seeds.
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        max_path_length: The number of steps after which episodes are truncated; ``None`` for no
            limit.
        **settings: ``autoreset_mode``, ``unify``, ``workers``, ``on_worker_failure``, ``journal``,
            ``timeout``, ``context`` and ``ray_options``; see
            `mtwrappers.vector.settings.Settings`.

    Raises:
        TypeError: If an argument has the wrong type or is unknown, or spaces cannot be padded.
        ValueError: If a size is not positive or does not fit the list, spaces differ, or an
            argument does not apply to this executor.
        Exception: Whatever a constructor raises, with the environment named.
    """

    execution: ClassVar[str]  # its name in `make_vec`

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        **settings: Unpack[ExecutorSettings],
    ) -> None:
        check_keywords(settings, SETTING_NAMES, type(self).__name__)
        options: Mapping[str, Any] = settings  # `Settings` takes the names of modes as well
        checked = Settings(
            meta_batch_size=meta_batch_size,
            envs_per_task=envs_per_task,
            max_path_length=max_path_length,
            **options,
        )
        makers, seeds = resolve_makers(env, checked.meta_batch_size, checked.envs_per_task)
        self._refuse_inapplicable(checked)
        first_index: dict[int, int] = {}  # of each constructor
        # For each environment, the first one with the same constructor, which has the same tasks.
        self.first_alike = [first_index.setdefault(id(maker), i) for i, maker in enumerate(makers)]
        super().__init__(self._make_pool(makers, checked), checked, seeds)

    @abc.abstractmethod
    def _make_pool(self, makers: Sequence[Maker], settings: Settings) -> Pool:
        """Makes the pool of workers."""

    def _refuse_inapplicable(self, settings: Settings) -> None:
        """Raises `ValueError` for a setting that this execution does not have."""
        for name, executions in _EXECUTIONS_WITH.items():
            value = getattr(settings, name)
            is_default = value is None or (name == "workers" and value == 1)
            if not is_default and self.execution not in executions:
                raise ValueError(
                    f"{self.execution} execution takes no {name}, got {value!r}: leave it out, or "
                    f"choose {' or '.join(executions)} execution"
                )

    @property
    def num_workers(self) -> int:
        """The number of workers; 0 if environments are in this process."""
        return len(self._pool.workers) if isinstance(self._pool, WorkerPool) else 0

    @property
    def recoveries(self) -> int:
        """The number of workers that were lost and recovered so far."""
        return self._pool.recoveries


class MetaIterativeEnvExecutor(Executor):
    """``M * K`` environments in this process.

    The name and the layout are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), the interface is
    Gymnasium's; see `MetaVectorEnv`.

    `Executor` describes the arguments. ``on_worker_failure="recover"`` is the same as
    ``journal=True``, and ``timeout`` and ``context`` have no effect.

    Raises:
        ValueError: If ``workers`` is above 1, or where `Executor` raises it.

    >>> import functools, gymnasium
    >>> from mtwrappers import MetaIterativeEnvExecutor
    >>> makers = [functools.partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)]
    >>> envs = MetaIterativeEnvExecutor(makers, 2, 3, max_path_length=50)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (6, 3)
    >>> envs.close()
    """

    execution = "iterative"

    def _make_pool(self, makers: Sequence[Maker], settings: Settings) -> Pool:
        return LocalPool(lambda: EnvBlock(lambda: makers, 0, settings), len(makers), settings)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        assert isinstance(self._pool, LocalPool)
        return self._pool.block.envs


class MetaParallelEnvExecutor(Executor):
    """``M * K`` environments in worker processes.

    Workers build contiguous blocks of environments in parallel, from constructors that are sent
    with cloudpickle. A step takes one message per worker, which has the actions, and arrays of
    results go through shared memory. The results equal those of `MetaIterativeEnvExecutor`, for any
    number of workers.

    `Executor` describes the arguments.

    A worker's death is detected at once, a hang after ``timeout``. With
    ``on_worker_failure="raise"``, the executor closes and the error names the worker. With
    ``"recover"``, the call warns and returns the same values as without the loss: a new worker
    restores the state that each of the lost environments had at its last reset, replays the steps
    since then, and checks that their observations and rewards are the same. So environments must be
    deterministic, and all that they keep from one episode to the next must be in their
    ``np_random``, or in ``get_state()`` and ``set_state(state)``. The actions of the current
    episodes are kept in memory.

    Workers end with their parent, and have their own global random states (``random``,
    ``np.random``). A process that is forked from the parent cannot use its executor. Requires POSIX
    (Linux, macOS).

    Raises:
        RuntimeError: In a daemonic process, which cannot have children, and in a worker that
            imports a main module without a guard.
        WorkerDiedError: If a worker dies while it builds its environments; from any other method,
            if a worker is lost and not recovered.
        Exception: Whatever a constructor raises, with the environment named.

    >>> import functools, gymnasium
    >>> from mtwrappers import MetaParallelEnvExecutor
    >>> makers = [functools.partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)]
    >>> envs = MetaParallelEnvExecutor(makers, 2, 3, workers=2)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (6, 3)
    >>> envs.close()
    """

    execution = "parallel"

    def _make_pool(self, makers: Sequence[Maker], settings: Settings) -> Pool:
        return process_pool(makers, settings)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        assert isinstance(self._pool, WorkerPool)
        workers = cast("Sequence[ProcessWorker]", self._pool.workers)
        return [worker.process.pid for worker in workers]


class MetaRayEnvExecutor(Executor):
    """``M * K`` environments on the actors of a Ray cluster.

    The results equal those of `MetaIterativeEnvExecutor`, for any number and placement of actors. A
    lost actor is handled as in `MetaParallelEnvExecutor`, and replaced on any node. Every command
    is a call of an actor, which costs about as much as a step; whole trajectories
    (``policy_in="workers"``) take only one call.

    `Executor` describes the arguments.

    It uses an initialized Ray, otherwise the cluster at ``RAY_ADDRESS``, or starts one on this
    machine, which ends with this process or ``ray.shutdown()``. Closing ends all actors. Nodes need
    this package and the modules that the constructors import.

    Raises:
        DependencyNotInstalled: If ray is not installed.
        ConnectionError: If there is no such cluster.
        TypeError: If the options are not a dict, and as in `Executor`.
        ValueError: If the cluster has too few CPUs, and as in `Executor`.
        WorkerDiedError: If an actor does not start within 25 s, or dies; from any other method, if
            an actor is lost and not recovered.
        Exception: Whatever a constructor raises, with the environment named.
    """

    execution = "ray"

    def _make_pool(self, makers: Sequence[Maker], settings: Settings) -> Pool:
        return actor_pool(makers, settings)


Execution: TypeAlias = Literal["parallel", "iterative", "ray"]
EXECUTORS: dict[str, type[Executor]] = {
    executor.execution: executor
    for executor in (MetaParallelEnvExecutor, MetaIterativeEnvExecutor, MetaRayEnvExecutor)
}
# The arguments that registered ids pass to `make_executor`.
EXECUTOR_OPTIONS = {"execution", *SETTING_NAMES}
# The end of the message of an id in `gymnasium.make` for an argument that only its `make_vec` has.
VECTOR_HINT = "it is for make_vec, without vectorization_mode"


class WorkerOptions(TypedDict, total=False):
    """Where environments run; see `mtwrappers.vector.settings.Settings`.

    ``None`` stands for the default here, except for ``timeout``.
    """

    workers: int | None
    on_worker_failure: OnWorkerFailure | None
    journal: bool | None
    timeout: float | None
    context: StartMethod | None
    ray_options: Mapping[str, Any] | None


class VectorOptions(WorkerOptions, total=False):
    """The options that all registered ids have in `gymnasium.make_vec`."""

    execution: Execution | None
    autoreset_mode: AutoresetMode | AutoresetName | None


class SamplerOptions(WorkerOptions, total=False):
    """The options of a sampler, which chooses the autoreset mode."""

    unify: Unify


class ExecutorOptions(SamplerOptions, total=False):
    """The options of `make_executor`."""

    autoreset_mode: AutoresetMode | AutoresetName | None


def make_executor(
    makers: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
    meta_batch_size: int,
    envs_per_task: int = 1,
    max_path_length: int | None = None,
    *,
    execution: Execution | None = None,
    renders: bool = False,
    **options: Unpack[ExecutorOptions],
) -> MetaVectorEnv:
    """Makes an executor, whose class depends on ``execution`` and the number of workers.

    Args:
        makers: ``M * K`` constructors, task by task, or what else `Executor` takes.
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        max_path_length: The number of steps after which episodes are truncated; ``None`` for no
            limit.
        execution: ``"parallel"``, ``"iterative"`` or ``"ray"``; by default parallel if ``workers``
            is above 1, else iterative, with 0 as with 1.
        renders: Whether environments draw with OpenGL, which is not fork-safe.
        **options: ``autoreset_mode``, ``unify``, ``workers``, ``on_worker_failure``, ``journal``,
            ``timeout``, ``context`` and ``ray_options``, which
            `mtwrappers.vector.settings.Settings` describes. ``None`` stands for the default,
            except for ``timeout``.

    Raises:
        TypeError: If an option is unknown; the message suggests similar names.
        ValueError: If an argument is none of those, or does not apply to the execution.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers.vector.make import make_executor
    >>> makers = [partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 8.0, 10.0, 10.0)]
    >>> envs = make_executor(makers, 2, 2, autoreset_mode="NextStep")
    >>> obs, infos = envs.reset(seed=0)
    >>> type(envs).__name__, obs.shape
    ('MetaIterativeEnvExecutor', (4, 3))
    >>> envs.close()
    """
    check_choice(execution, (*EXECUTORS, None), "execution")
    check_keywords(options, EXECUTOR_OPTIONS, "make_vec")
    settings: dict[str, Any] = {key: value for key, value in options.items() if value is not None}
    if "timeout" in options:
        settings["timeout"] = options["timeout"]
    workers = settings.get("workers", 1)
    if execution in (None, "iterative") and not_negative(workers, "workers") == 0:
        workers = 1
        del settings["workers"]
    if execution is None:
        execution = "parallel" if workers > 1 else "iterative"
    if execution == "parallel" and renders:
        settings.setdefault("context", "forkserver")
    executor_type = EXECUTORS[execution]
    return executor_type(makers, meta_batch_size, envs_per_task, max_path_length, **settings)


def fit_sizes(num_envs: int, envs_per_task: int | None, num_tasks: int, name: str) -> int:
    """The number of environments per task; ``name`` is the set of tasks, for messages.

    ``num_envs=1`` (Gymnasium's default) and ``envs_per_task=None`` stand for the default size.
    """
    total = positive(num_envs, "num_envs")
    per_task = 1 if envs_per_task is None else positive(envs_per_task, "envs_per_task")
    if total in (1, num_tasks * per_task):
        return per_task
    if envs_per_task is None:
        if total % num_tasks == 0:
            return total // num_tasks
        multiples = f"{num_tasks}, {2 * num_tasks}, {3 * num_tasks}, ..."
        expected = f"num_envs must be a multiple of {num_tasks} ({multiples})"
    else:
        expected = f"with {envs_per_task=}, num_envs must be {num_tasks * per_task}"
    raise ValueError(
        f"{name} has {num_tasks} tasks: {expected} or 1 (the default size), got {total}"
    )


EnvFn: TypeAlias = str | EnvSpec | Maker


def as_vector(
    env_fns: EnvFn | Sequence[EnvFn],
    num_envs: int = 1,
    *,
    execution: Execution | None = None,
    **options: Unpack[ExecutorOptions],
) -> MetaVectorEnv:
    """Makes a vector environment from any Gymnasium environments.

    It replaces `gymnasium.vector.SyncVectorEnv` and `AsyncVectorEnv`: it returns the same results,
    bit for bit, on any number of workers, and has the methods of `MetaVectorEnv`. It adds no
    wrappers. (Wrap it in Gymnasium's ``RecordEpisodeStatistics`` for vector environments, if
    needed.)

    Args:
        env_fns: A registered id, its spec, or a function that makes an environment; or a list of
            these. Ids need not be registered in workers.
        num_envs: The total number of environments, a multiple of the length of the list: each entry
            is repeated equally often, in consecutive places; 1 means one of each.
        execution: See `mtwrappers.vector.make.make_executor`.
        **options: What `mtwrappers.vector.settings.Settings` describes: ``workers``,
            ``autoreset_mode`` (by default ``"SameStep"``; Gymnasium's default is ``"NextStep"``),
            ``unify``, ``on_worker_failure``, ``journal``, ``timeout``, ``context`` and
            ``ray_options``. Environments that draw with OpenGL in workers need
            ``context="forkserver"``.

    Returns:
        The vector environment. ``reset(seed=s)`` seeds environment ``i`` with ``s + i``. For
        `MetaVectorEnv.set_tasks`, each entry of the list is a task.

    Raises:
        TypeError: If ``env_fns`` is none of those, or an argument is unknown.
        ValueError: If ``num_envs`` does not fit, an argument has none of the allowed values, or the
            spaces of environments differ.
        gymnasium.error.Error: If an id is unknown.
        Exception: Whatever a function raises, with the environment named.

    >>> from mtwrappers import as_vector
    >>> envs = as_vector("CartPole-v1", 4, workers=2)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (4, 4)
    >>> envs.close()
    """
    check_keywords(options, {"num_envs", *EXECUTOR_OPTIONS}, "as_vector")
    entries: Sequence[Any] = env_fns if isinstance(env_fns, (list, tuple)) else [env_fns]
    if not entries:
        raise ValueError("env_fns must name at least one environment, got an empty list")
    makers = [_resolve_maker(env_fn, i) for i, env_fn in enumerate(entries)]
    copies = fit_sizes(num_envs, None, len(makers), "env_fns")
    repeated = [maker for maker in makers for _ in range(copies)]
    return make_executor(repeated, len(makers), copies, execution=execution, **options)


def _resolve_maker(env_fn: Any, i: int) -> Maker:
    """The constructor that entry ``i`` of ``env_fns`` stands for."""
    if isinstance(env_fn, str):
        module, _, name = env_fn.rpartition(":")
        if module:
            importlib.import_module(module)
        env_fn = gymnasium.spec(name)
    if isinstance(env_fn, EnvSpec):
        return functools.partial(gymnasium.make, env_fn)
    if callable(env_fn):
        maker: Maker = env_fn
        return maker
    hint = "; pass a function that makes it" if isinstance(env_fn, gymnasium.Env) else ""
    raise TypeError(
        f"entry {i} of env_fns must be an id, a spec or a function that makes an environment, got "
        f"{env_fn!r}{hint}"
    )
