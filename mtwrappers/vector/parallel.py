"""Environments spread over worker processes, a contiguous block in each."""

from __future__ import annotations

import contextlib
import itertools
import mmap
import multiprocessing as mp
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import cloudpickle
import gymnasium
from gymnasium.vector import AutoresetMode

from mtwrappers.checks import positive
from mtwrappers.errors import WorkerDiedError
from mtwrappers.vector.arguments import Maker, check_timeout, resolve_makers
from mtwrappers.vector.base import MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.buffers import Buffers, anonymous_file
from mtwrappers.vector.crew import Crew
from mtwrappers.vector.infos import Columns, Info, add_finals, join_infos, layout_of
from mtwrappers.vector.journal import Entry, Journal, Past
from mtwrappers.vector.process import Request, Worker, check_process, command, cores

TIMEOUT = 300.0  # seconds
# Which arguments a command has for the environments in these rows.
ArgumentsOf = Callable[[slice], tuple[Any, ...]]


class MetaParallelEnvExecutor(MetaVectorEnv):
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
        on_worker_failure: ``"raise"`` or ``"recover"``.
        max_recoveries: How often in a row workers may be lost in the same call before it raises
            `WorkerDiedError` after all, as when an environment itself causes the crash.
        journal: Whether to keep what the environments were told since their last resets, so that
            `get_state` works, in mid-episode too; ``"recover"`` always does.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        context: How processes are started: ``"fork"``, ``"spawn"`` or ``"forkserver"``; ``None`` is
            Python's default.

    Raises:
        RuntimeError: In a daemonic process, which may have no children, and in a worker that
            imports a main module without a guard.
        TypeError: If ``env`` is none of those.
        ValueError: If a size is not positive or does not fit the list, or spaces differ.
        WorkerDiedError: If a worker dies while it builds its environments; from any other method if
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
        workers: int | None = None,
        on_worker_failure: Literal["raise", "recover"] = "raise",
        max_recoveries: int = 3,
        journal: bool = False,
        timeout: float | None = TIMEOUT,
        context: str | None = None,
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, max_path_length, autoreset_mode)
        check_process()
        if on_worker_failure not in ("raise", "recover"):
            raise ValueError(
                f"on_worker_failure must be 'raise' or 'recover', got {on_worker_failure!r}"
            )
        recovers = on_worker_failure == "recover"
        journal = journal or recovers
        count = cores() if workers is None else positive(workers, "workers")
        count = min(count, self.num_envs)
        makers, self._first_seeds = resolve_makers(env, self.meta_batch_size, self.envs_per_task)
        bounds = [self.num_envs * w // count for w in range(count + 1)]
        handles, mode = [], self.autoreset_mode
        for w, (start, stop) in enumerate(itertools.pairwise(bounds)):
            block = makers[start:stop], start, mode, self._max_path_length, journal
            handles.append(Worker(w, slice(start, stop), cloudpickle.dumps(block)))
        self._crew = Crew(
            handles,
            mp.get_context(context),
            check_timeout(timeout),
            self.envs_per_task,
            positive(max_recoveries, "max_recoveries") if recovers else 0,
        )
        self._objects: list[Any] = [None] * self.num_envs  # observations that are not arrays
        self._columns: Columns | None = None
        self._first_step = True
        self._fd = -1
        try:
            built = self._crew.build()
            self._declare([pair for spaces, *_ in built for pair in spaces], *built[0][1:])
            check = self._check_actions
            size = Buffers.nbytes(self._layout, check.size)
            self._fd = anonymous_file(size)
            memory = memoryview(mmap.mmap(self._fd, size))
            self._buffers = Buffers(self._layout, check.size, memory)
            shape = command("share", self.num_envs, check.row_shape, check.size)
            self._crew.share(self._fd, self._buffers, shape)
            if journal:
                self._journal = Journal(self.num_envs, self._buffers)
                self._crew.exchange.journal = self._journal
        except BaseException:
            self._abandon()
            raise

    @property
    def num_workers(self) -> int:
        """How many worker processes there are."""
        return len(self._crew.workers)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._crew.workers]

    @property
    def recoveries(self) -> int:
        """How many workers were lost and recovered so far."""
        return self._crew.recoveries

    def _ask(
        self, name: str, arguments: ArgumentsOf, entries: Sequence[Entry | None] | None = None
    ) -> list[Any]:
        """The answer of every worker to a command."""
        request = Request(name, lambda rows: command(name, *arguments(rows)), entries)
        with self._open_after():
            return self._crew.ask(request)

    @contextlib.contextmanager
    def _open_after(self) -> Iterator[None]:
        """Gives up all workers if one of them is lost for good."""
        try:
            yield
        except WorkerDiedError:
            self._abandon()
            raise

    def _abandon(self) -> None:
        """Ends the workers at once and gives up the shared memory."""
        self.closed = True
        self._crew.kill()
        self._free_memory()

    def _free_memory(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

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
        masks: list[bool],
    ) -> tuple[Any, Info]:
        told = [("reset", s, options) if m else None for s, m in zip(seeds, masks, strict=True)]
        answers = self._ask("reset", lambda rows: (seeds[rows], options, masks[rows]), told)
        infos: list[Info | None] = []
        for worker, (objects, own) in zip(self._crew.workers, answers, strict=True):
            self._take_objects(worker, objects)
            infos += own
            for row, info in enumerate(own):
                if info is not None:
                    worker.names[row] = info.get("task_name")
        obs = self._layout.batch(self._buffers.obs, self._objects)
        return obs, join_infos(infos, self._add_info)

    def _begin_step(self, actions: Any) -> None:
        with self._open_after():
            self._crew.settle()  # before the actions of a call that was interrupted are overwritten
            told = (
                None
                if self._crew.exchange.journal is None
                else [("step", action) for action in actions]
            )
            if self._check_actions.is_array:
                dtype = actions.dtype
                self._buffers.actions(dtype, self._check_actions.row_shape)[...] = actions
                message = dtype.str.encode()
                self._crew.begin(Request("step", lambda rows: message, told))
            else:
                self._crew.begin(Request("step", lambda rows: command("step", actions[rows]), told))

    def _end_step(self) -> StepResult:
        with self._open_after():
            answers = self._crew.end()
        finals: list[tuple[int, Any, Info]] = []
        sent: dict[int, list[Info]] = {}  # infos that did not go through shared memory
        for worker, answer in zip(self._crew.workers, answers, strict=True):
            if answer is None:
                continue
            objects, infos, own = answer
            self._take_objects(worker, objects)
            finals += own
            if infos is not None:
                sent[worker.index] = infos
        batched = add_finals(self._batch_infos(sent), finals, self._add_info)
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
        for worker in self._crew.workers:
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
            with self._open_after():
                self._crew.prepare(command("columns_are", layout))

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        told = [None if arguments is None else ("call", name, *arguments) for arguments in each]
        answers = self._ask("call", lambda rows: (name, each[rows]), told)
        return [value for answer in answers for value in answer]

    def _restore(self, pasts: Sequence[Past]) -> None:
        try:
            self._ask("restore", lambda rows: (pasts[rows],))
        except BaseException:
            if not self.closed:
                self._ask("keep", lambda rows: (False,))
            raise
        self._get_journal().take(pasts)  # what a worker that is lost from here on is to know
        self._ask("keep", lambda rows: (True,))
        if not self._layout.fixed:
            self._objects = [past.obs for past in pasts]

    def _render(self) -> list[Any]:
        return [frame for frames in self._ask("render", lambda rows: ()) for frame in frames]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        if os.getpid() != self._pid:
            return  # a forked process, to which they do not belong
        self._crew.close()
        self._free_memory()
