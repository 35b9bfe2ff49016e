"""Environments spread over worker processes."""

from __future__ import annotations

import multiprocessing as mp
from collections.abc import Sequence
from typing import Any, Literal

import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.common.checks import positive
from mtwrappers.core.pad_spaces import Unify
from mtwrappers.vector.arguments import (
    JOURNAL_WARN_BYTES,
    Maker,
    ObservationMode,
    Settings,
    check_autoreset_mode,
    check_recovery,
    resolve_makers,
)
from mtwrappers.vector.pool import blocks_of
from mtwrappers.vector.process import ProcessPool, check_process, cores, start_method
from mtwrappers.vector.workers import WorkersVectorEnv

TIMEOUT = 300.0  # seconds


class MetaParallelEnvExecutor(WorkersVectorEnv):
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
