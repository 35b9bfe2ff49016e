"""The three executors: environments in this process, in worker processes, on Ray's actors."""

from __future__ import annotations

import functools
import multiprocessing as mp
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.common.checks import check_mapping, positive
from mtwrappers.common.cores import cores
from mtwrappers.core.pad_spaces import Unify
from mtwrappers.vector.block import EnvBlock
from mtwrappers.vector.blocks import LocalBlocks
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.vector.pool import WorkerPool, blocks_of
from mtwrappers.vector.process import ProcessPool, check_process, start_method
from mtwrappers.vector.ray import ActorPool, Cluster, needs_of
from mtwrappers.vector.settings import (
    JOURNAL_WARN_BYTES,
    Maker,
    ObservationMode,
    Settings,
    check_autoreset_mode,
    check_recovery,
    resolve_makers,
)

TIMEOUT = 300.0  # seconds


class MetaIterativeEnvExecutor(MetaVectorEnv):
    """``M * K`` environments in this process.

    The name and the layout are ProMP's (Rothfuss et al. 2019, arXiv:1810.06784), the interface is
    Gymnasium's; see `MetaVectorEnv`.

    Args:
        env: A constructor; a list of constructors, one per task or one per environment; or an
            environment that pickles, of which every environment is a copy. Copies are seeded at
            their first reset, each with another branch of the environment's generator (or of
            entropy, if it was never seeded), unless `reset` is given seeds.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        observation_mode: ``"same"``, ``"different"`` or the spaces ``(observation_space,
            single_observation_space)``, as in `gymnasium.vector.SyncVectorEnv`: which observation
            space the batch has, where those of the environments have other bounds.
        unify: ``"pad"`` wraps each environment in `PadSpaces`, so that all have the length of the
            longest; a dict has arguments for it, such as
            ``{"observation_size": 128, "action_size": 16, "rescale": True}``.
        journal: Whether to keep what was done with the environments since their last resets, so
            that `get_state` works in mid-episode.
        journal_warn_bytes: How large the journal may grow, in bytes, before a warning says so. It
            takes the bytes of every action, and some 200 for every call.

    Raises:
        TypeError: If ``env`` is none of those, or spaces cannot be padded.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.
        Exception: Whatever a constructor raises, with the environment named.

    >>> import functools, gymnasium
    >>> makers = [functools.partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)]
    >>> envs = MetaIterativeEnvExecutor(makers, 2, 3, max_path_length=50)
    >>> obs, infos = envs.reset(seed=0)
    >>> obs.shape
    (6, 3)
    >>> envs.close()
    """

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        observation_mode: ObservationMode = "same",
        unify: Unify = None,
        journal: bool = False,
        journal_warn_bytes: float = JOURNAL_WARN_BYTES,
    ) -> None:
        settings = Settings(
            meta_batch_size,
            envs_per_task,
            max_path_length,
            check_autoreset_mode(autoreset_mode),
            journal,
            journal_warn_bytes,
            observation_mode,
            unify,
        ).checked()
        makers, seeds = resolve_makers(env, settings.meta_batch_size, settings.envs_per_task)
        self._local = LocalBlocks(functools.partial(EnvBlock, lambda: makers, 0, settings))
        super().__init__(self._local, settings, seeds)

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._local.block.envs


class _WorkersEnvExecutor(MetaVectorEnv):
    """Environments spread over workers."""

    _pool: WorkerPool

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return len(self._pool.workers)

    @property
    def recoveries(self) -> int:
        """How many workers were lost and recovered so far."""
        return self._pool.recoveries


class MetaParallelEnvExecutor(_WorkersEnvExecutor):
    """``M * K`` environments in worker processes.

    Each worker builds a contiguous block of the environments from their constructors, all workers
    at once, and steps its block for one message. Numbers go through shared memory. The results are
    those of `MetaIterativeEnvExecutor`, whatever the number of workers.

    A worker that dies or hangs is noticed at once. With ``on_worker_failure="raise"`` the executor
    closes and says which. With ``"recover"`` the call returns what it would have returned, and
    warns: a new worker takes the state that each of the lost environments had at its last reset,
    plays the actions since then again, and checks that it has come to the same observation and
    reward. So environments must be deterministic, and what they keep from one episode to the next
    must be in their ``np_random``, or in ``get_state()`` and ``set_state(state)``. The actions of
    the present episodes are kept in memory.

    Workers end with their parent, and have global random states (``random``, ``np.random``) of
    their own. A process that is forked from the parent cannot use its executor. Needs POSIX (Linux,
    macOS).

    Args:
        env, meta_batch_size, envs_per_task, max_path_length, autoreset_mode, observation_mode,
            unify: Those of `MetaIterativeEnvExecutor`; constructors are sent with cloudpickle.
        workers: How many processes; by default as many as there are cores for this process, and
            never more than environments.
        on_worker_failure: ``"raise"`` or ``"recover"``.
        max_recoveries: How often in a row workers may be lost in the same call before it raises
            `WorkerDiedError` after all, as when an environment itself causes the crash.
        journal, journal_warn_bytes: Those of `MetaIterativeEnvExecutor`; ``"recover"`` always keeps
            a journal.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        context: How processes are started: ``"fork"``, ``"spawn"`` or ``"forkserver"``. ``None`` is
            Python's default, but ``"forkserver"`` in place of a fork if this process has other
            threads or has imported JAX, and with ``"recover"``, as there may be threads by then.

    Raises:
        RuntimeError: In a daemonic process, which may have no children, and in a worker that
            imports a main module without a guard.
        TypeError: If ``env`` is none of those.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.
        WorkerDiedError: If a worker dies while it builds its environments; from any other method if
            one is lost and is not, or cannot be, recovered.
        Exception: Whatever a constructor raises, with the environment named.
    """

    _pool: ProcessPool

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        observation_mode: ObservationMode = "same",
        unify: Unify = None,
        workers: int | None = None,
        on_worker_failure: Literal["raise", "recover"] = "raise",
        max_recoveries: int = 3,
        journal: bool = False,
        journal_warn_bytes: float = JOURNAL_WARN_BYTES,
        timeout: float | None = TIMEOUT,
        context: str | None = None,
    ) -> None:
        check_process()
        settings, recoveries, timeout = check_recovery(
            Settings(
                meta_batch_size,
                envs_per_task,
                max_path_length,
                check_autoreset_mode(autoreset_mode),
                journal,
                journal_warn_bytes,
                observation_mode,
                unify,
            ),
            on_worker_failure,
            max_recoveries,
            timeout,
        )
        count = cores() if workers is None else positive(workers, "workers")
        makers, seeds = resolve_makers(env, settings.meta_batch_size, settings.envs_per_task)
        start = mp.get_context(context or start_method(replaces=recoveries > 0))
        self._pool = ProcessPool(
            blocks_of(makers, min(count, len(makers)), settings),
            settings.envs_per_task,
            recoveries,
            timeout,
            start,
        )
        super().__init__(self._pool, settings, seeds)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        return self._pool.pids


class MetaRayEnvExecutor(_WorkersEnvExecutor):
    """``M * K`` environments on the actors of a Ray cluster.

    The results are those of `MetaIterativeEnvExecutor`, whatever the number of actors and wherever
    they are, and so is what happens when one is lost; see `MetaParallelEnvExecutor`. Every command
    is a call of an actor, which costs about as much as a step: whole paths
    (``policy_in="workers"``) take one call.

    Uses the Ray that is initialized, or else the cluster that ``RAY_ADDRESS`` names, or starts one
    on this machine; what it has begun itself it ends with the last executor. Closing ends all
    actors. Nodes need this package and whatever the constructors import.

    Args:
        env, meta_batch_size, envs_per_task, max_path_length, autoreset_mode, observation_mode,
            unify, max_recoveries, journal, journal_warn_bytes, timeout: Those of
            `MetaParallelEnvExecutor`.
        workers: How many actors; by default as many as the cluster has CPUs, and never more than
            environments.
        on_worker_failure: ``"raise"`` or ``"recover"``, which starts another actor, on any node.
        ray_options: What each actor needs and where it goes, for Ray's ``options``, such as
            ``{"num_cpus": 2, "scheduling_strategy": "SPREAD"}``; one CPU by default.

    Raises:
        DependencyNotInstalled: If ray is not installed.
        ConnectionError: If there is no such cluster.
        TypeError: If ``env`` is none of those, or the options are no dict.
        ValueError: If a size is not positive or does not fit the list, spaces differ, or the
            cluster has too few CPUs.
        WorkerDiedError: If an actor does not start within 25 s, or dies; from any other method if
            one is lost and is not, or cannot be, recovered.
        Exception: Whatever a constructor raises, with the environment named.
    """

    def __init__(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        meta_batch_size: int,
        envs_per_task: int = 1,
        max_path_length: int | None = None,
        *,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        observation_mode: ObservationMode = "same",
        unify: Unify = None,
        workers: int | None = None,
        on_worker_failure: Literal["raise", "recover"] = "raise",
        max_recoveries: int = 3,
        journal: bool = False,
        journal_warn_bytes: float = JOURNAL_WARN_BYTES,
        timeout: float | None = TIMEOUT,
        ray_options: Mapping[str, Any] | None = None,
    ) -> None:
        settings, recoveries, timeout = check_recovery(
            Settings(
                meta_batch_size,
                envs_per_task,
                max_path_length,
                check_autoreset_mode(autoreset_mode),
                journal,
                journal_warn_bytes,
                observation_mode,
                unify,
            ),
            on_worker_failure,
            max_recoveries,
            timeout,
        )
        options = {"num_cpus": 1, **check_mapping(ray_options or {}, "ray_options")}
        makers, seeds = resolve_makers(env, settings.meta_batch_size, settings.envs_per_task)
        most = None if workers is None else positive(workers, "workers")
        cluster = Cluster.enter()
        try:
            room = cluster.room(needs := needs_of(options))
            count = min(most or room or 1, len(makers))
            if count > room:
                raise ValueError(
                    f"{count} workers do not fit: {cluster.resources(needs)}, room for {room}"
                )
            self._pool = ActorPool(
                blocks_of(makers, count, settings),
                settings.envs_per_task,
                recoveries,
                timeout,
                cluster,
                options,
            )
        except BaseException:
            cluster.leave()
            raise
        super().__init__(self._pool, settings, seeds)
