"""Environments spread over worker processes, a contiguous block in each."""

from __future__ import annotations

import itertools
import mmap
import multiprocessing as mp
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers.checks import positive
from mtwrappers.errors import WorkerDiedError
from mtwrappers.vector.arguments import Maker, check_timeout, resolve_makers
from mtwrappers.vector.base import TASK_SETTERS, MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.buffers import Buffers, anonymous_file
from mtwrappers.vector.crew import ArgumentsOf, Crew
from mtwrappers.vector.infos import Columns, Info, add_finals, join_infos, layout_of
from mtwrappers.vector.pool import Worker, WorkerPool, check_process, command, cores

TIMEOUT = 300.0  # seconds


class MetaParallelEnvExecutor(MetaVectorEnv):
    """``M * K`` environments in worker processes.

    Each worker builds a contiguous block of the environments from their constructors, all workers
    at once, and steps its block for one message. Numbers go through shared memory. The results are
    those of `MetaIterativeEnvExecutor`, whatever the number of workers.

    A worker that dies or hangs is noticed at once. With ``on_worker_failure="raise"`` the executor
    closes and says which; with ``"restart"`` a new worker takes its place and its tasks: the step
    returns the other workers' results and, for the lost environments, a first observation with
    ``truncated`` and ``info["worker_restarted"]``. (In SAME_STEP mode ``final_obs`` is then the
    last observation before, and ``final_info`` holds ``worker_restarted`` alone.) Workers end with
    their parent, and have global random states (``random``, ``np.random``) of their own. A process
    that is forked from the parent cannot use its executor. Needs POSIX (Linux, macOS).

    Args:
        env: A constructor; a list of constructors, one per task or one per environment; or an
            environment that pickles, of which every environment is a copy. Copies are seeded at
            their first reset, each with its own branch of the environment's generator (or of
            entropy, if it was never seeded), unless `reset` is given seeds. Constructors are sent
            with cloudpickle.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        workers: How many processes; by default as many as there are cores for this process, and
            never more than environments.
        on_worker_failure: ``"raise"`` or ``"restart"``.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        context: How processes are started: ``"fork"``, ``"spawn"`` or ``"forkserver"``; ``None`` is
            Python's default.

    Raises:
        RuntimeError: In a daemonic process, which may have no children, and in a worker that
            imports a main module without a guard.
        TypeError: If ``env`` is none of those.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.
        WorkerDiedError: If a worker dies while it builds its environments.
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
        workers: int | None = None,
        on_worker_failure: Literal["raise", "restart"] = "raise",
        timeout: float | None = TIMEOUT,
        context: str | None = None,
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, autoreset_mode)
        check_process()
        if on_worker_failure not in ("raise", "restart"):
            raise ValueError(
                f"on_worker_failure must be 'raise' or 'restart', got {on_worker_failure!r}"
            )
        if max_path_length is not None:
            max_path_length = positive(max_path_length, "max_path_length")
        count = cores() if workers is None else positive(workers, "workers")
        count = min(count, self.num_envs)
        makers, self._first_seeds = resolve_makers(env, self.meta_batch_size, self.envs_per_task)
        bounds = [self.num_envs * w // count for w in range(count + 1)]
        handles = []
        for w, (start, stop) in enumerate(itertools.pairwise(bounds)):
            block = (makers[start:stop], start, self.autoreset_mode.value, max_path_length)
            handles.append(Worker(w, slice(start, stop), cloudpickle.dumps(block)))
        pool = WorkerPool(handles, mp.get_context(context), check_timeout(timeout))
        self._crew = Crew(pool, self.num_envs, self.envs_per_task, on_worker_failure == "restart")
        self._objects: list[Any] = [None] * self.num_envs  # observations that are not arrays
        self._columns: Columns | None = None
        self._first_step = True
        self._fd = -1
        try:
            built = self._crew.build(handles)
            self._declare([pair for spaces, *_ in built for pair in spaces], *built[0][1:])
            check = self._check_actions
            size = Buffers.nbytes(self._layout, check.size)
            self._fd = anonymous_file(size)
            memory = memoryview(mmap.mmap(self._fd, size))
            self._buffers = Buffers(self._layout, check.size, memory)
            self._crew.share(self._fd, command("share", self.num_envs, check.row_shape, check.size))
        except BaseException:
            self._abandon()
            raise

    @property
    def num_workers(self) -> int:
        """How many worker processes there are."""
        return len(self._crew.pool.workers)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._crew.pool.workers]

    def _ask(self, name: str, arguments: ArgumentsOf) -> list[Any]:
        """The answer of every worker to a command."""
        try:
            return self._crew.ask(name, arguments)
        except WorkerDiedError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Ends the workers at once and gives up the shared memory."""
        self.closed = True
        self._crew.pool.kill()
        self._free_memory()

    def _free_memory(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    # What the base asks for.

    def _require_open(self) -> None:
        super()._require_open()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to process {self._pid}, from which this one "
                "was forked; make another one here"
            )

    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        mask: NDArray[np.bool_] | None,
    ) -> tuple[Any, Info]:
        self._crew.journal.note_seeds(seeds)
        masks = None if mask is None else mask.tolist()
        answers = self._ask(
            "reset",
            lambda rows: (seeds[rows], options, None if masks is None else masks[rows]),
        )
        if mask is None or mask.all():
            self._crew.restarted.clear()
        infos: list[Info | None] = []
        for worker, (objects, own) in zip(self._crew.pool.workers, answers, strict=True):
            self._take_objects(worker, objects)
            infos += own
            for row, info in enumerate(own):
                if info is not None:
                    worker.names[row] = info.get("task_name")
        obs = self._layout.batch(self._buffers.obs, self._objects)
        return obs, join_infos(infos, self._add_info)

    def _begin_step(self, actions: Any) -> None:
        try:
            self._crew.settle()
        except WorkerDiedError:
            self._abandon()
            raise
        if self._crew.restarts:
            self._before = self._layout.batch(self._buffers.obs, self._objects)
        if self._check_actions.is_array:
            dtype = actions.dtype
            self._buffers.actions(dtype, self._check_actions.row_shape)[...] = actions
            message = dtype.str.encode()
            self._crew.begin_step(lambda rows: message)
        else:
            self._crew.begin_step(lambda rows: command("step", actions[rows]))

    def _end_step(self) -> StepResult:
        try:
            results = self._crew.end_step()
        except WorkerDiedError:
            self._abandon()
            raise
        restarted = self._crew.restarted
        for worker, answer in restarted.items():
            results[worker.index] = (*answer, ())
            self._buffers.rewards[worker.rows] = 0.0
            self._buffers.terminated[worker.rows] = False
            self._buffers.truncated[worker.rows] = True
        finals: list[tuple[int, Any, Info]] = []
        sent: dict[int, list[Info]] = {}  # infos that did not go through shared memory
        for worker in self._crew.pool.workers:
            if (answer := results[worker.index]) is None:
                continue
            objects, infos, own = answer
            self._take_objects(worker, objects)
            finals += own
            if infos is not None:
                sent[worker.index] = infos
        batched = add_finals(self._batch_infos(sent), finals, self._add_info)
        if restarted:
            batched = self._mark_restarted(batched)
            restarted.clear()
        obs = self._layout.batch(self._buffers.obs, self._objects)
        result = (obs, *self._buffers.outcome(), batched)
        if self._first_step:
            self._fix_columns(sent)
        return result

    def _take_objects(self, worker: Worker, objects: Sequence[Any] | None) -> None:
        if objects is not None:
            self._objects[worker.rows] = objects

    def _batch_infos(self, sent: dict[int, list[Info]]) -> Info:
        columns = self._columns
        if columns is not None and not sent:
            return columns.read()
        each: list[Info] = []
        for worker in self._crew.pool.workers:
            if worker.index in sent:
                each += sent[worker.index]
            elif columns is not None:
                each += columns.read_each(worker.rows.start, worker.rows.stop)
        return join_infos(each, self._add_info)

    def _fix_columns(self, sent: dict[int, list[Info]]) -> None:
        """Decides after the first step which infos go through shared memory from now on."""
        self._first_step = False
        layout = layout_of([info for _, own in sorted(sent.items()) for info in own], self._buffers)
        if layout is not None:
            self._columns = Columns(layout, self._buffers)
            self._crew.journal.columns = command("columns_are", layout)
            self._ask("columns_are", lambda rows: (layout,))

    def _mark_restarted(self, infos: Info) -> Info:
        last = list(iterate(self.observation_space, self._before))
        for i in (i for worker in self._crew.restarted for i in range(self.num_envs)[worker.rows]):
            mark: Info = {"worker_restarted": True}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                mark.update(final_obs=last[i], final_info={"worker_restarted": True})
            infos = self._add_info(infos, mark, i)
        return infos

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        answers = self._ask("call", lambda rows: (name, each[rows]))
        if isinstance(name, str) and (name.startswith("toggle_") or name in TASK_SETTERS):
            self._crew.journal.note_call(name, each)
        return [value for answer in answers for value in answer]

    def _set_attr_each(self, name: str, values: list[Any]) -> None:
        self._ask("set_attr", lambda rows: (name, values[rows]))
        self._crew.journal.note_attribute(name, values)

    def _render(self) -> list[Any]:
        return [frame for frames in self._ask("render", lambda rows: ()) for frame in frames]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        if os.getpid() != self._pid:
            return  # a forked process, to which they do not belong
        self._crew.pool.close()
        self._free_memory()
