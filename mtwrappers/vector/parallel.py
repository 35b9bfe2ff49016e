"""Environments spread over worker processes, a contiguous block in each."""

from __future__ import annotations

import itertools
import mmap
import multiprocessing as mp
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn

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
from mtwrappers.vector.infos import Columns, Info, add_finals, join_infos, layout_of
from mtwrappers.vector.journal import Journal
from mtwrappers.vector.pool import (
    GUARD,
    Answers,
    Worker,
    WorkerPool,
    check_process,
    command,
    cores,
)

TIMEOUT = 300.0  # seconds
# Which arguments a command has for the environments in these rows.
ArgumentsOf = Callable[[slice], tuple[Any, ...]]


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
        self._workers = []
        for w, (start, stop) in enumerate(itertools.pairwise(bounds)):
            block = (makers[start:stop], start, self.autoreset_mode.value, max_path_length)
            self._workers.append(Worker(w, slice(start, stop), cloudpickle.dumps(block)))
        self._context = mp.get_context(context)
        self._pool = WorkerPool(self._workers, self._context, check_timeout(timeout))
        self._restarts = on_worker_failure == "restart"
        self._journal = Journal(self.num_envs)
        # Workers that a step has to report as restarted, with the answer of their first reset.
        self._restarted: dict[Worker, Any] = {}
        self._unfinished: set[Worker] = set()  # whose replacement was interrupted
        self._objects: list[Any] = [None] * self.num_envs  # observations that are not arrays
        self._columns: Columns | None = None
        self._first_step = True
        self._fd = -1
        try:
            built = self._certain(self._pool.build(self._workers))
            self._declare([pair for spaces, *_ in built for pair in spaces], *built[0][1:])
            size = Buffers.nbytes(self._layout, self._check_actions.size)
            self._fd = anonymous_file(size)
            memory = memoryview(mmap.mmap(self._fd, size))
            self._buffers = Buffers(self._layout, self._check_actions.size, memory)
            self._share(self._workers)
        except BaseException:
            self._abandon()
            raise

    @property
    def num_workers(self) -> int:
        """How many worker processes there are."""
        return len(self._workers)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._workers]

    # Asking all workers, and replacing those that are lost meanwhile.

    def _ask(self, name: str, arguments: ArgumentsOf) -> list[Any]:
        """The answer of every worker to a command."""
        self._settle()
        messages = {worker: command(name, *arguments(worker.rows)) for worker in self._workers}
        self._pool.send(messages)
        results, lost = self._gather(self._workers)
        for worker in lost:
            self._replace(worker)
            self._pool.send({worker: messages[worker]})
            results[worker.index] = self._certain(self._pool.gather([worker]))[0]
        return [results[worker.index] for worker in self._workers]

    def _gather(self, workers: Sequence[Worker]) -> tuple[dict[int, Any], list[Worker]]:
        """The answers of workers, and those that are lost and may be replaced.

        Raises:
            WorkerDiedError: If one is lost and may not be replaced.
            Exception: What a worker answered with.
        """
        results, lost, failure = self._pool.gather(workers)
        if lost and not self._restarts:
            self._die(lost)
        if failure is not None:
            for worker in lost:
                self._replace(worker)
            raise failure
        return results, lost

    def _certain(self, answers: Answers) -> list[Any]:
        """The answers of workers that may not be lost now, in their order."""
        if answers.lost:
            self._die(answers.lost)
        if answers.failure is not None:
            raise answers.failure
        return [result for _, result in sorted(answers.results.items())]

    def _settle(self) -> None:
        """Takes the answers that an interrupted call has left behind."""
        late = [worker for worker in self._workers if worker.owes]
        if late:
            try:
                for worker in self._gather(late)[1]:
                    self._replace(worker)
            except WorkerDiedError:
                raise
            except Exception as exc:
                gymnasium.logger.warn(f"an interrupted call had failed: {exc}")
        for worker in [*self._unfinished]:
            self._replace(worker)

    def _replace(self, worker: Worker) -> None:
        """Puts a new worker in the place of a lost one, in the same state but for its episodes."""
        self._unfinished.add(worker)
        worker.kill()
        self._certain(self._pool.build([worker]))
        self._share([worker])
        messages = self._journal.messages(worker.rows)
        if self._was_reset:
            messages.append(self._journal.restart(worker.rows))
        answer: Any = None
        for message in messages:
            self._pool.send({worker: message})
            answer = self._certain(self._pool.gather([worker]))[0]
        if self._was_reset:
            self._restarted[worker] = answer
            self._take_objects(worker, answer[0])
        self._unfinished.discard(worker)

    def _share(self, workers: Sequence[Worker]) -> None:
        """Gives workers the shared memory, and says which infos go through it."""
        check = self._check_actions
        told = [command("share", self.num_envs, check.row_shape, check.size)]
        if self._columns is not None:
            told.append(command("columns_are", self._columns.layout))
        for i, message in enumerate(told):
            self._pool.send(dict.fromkeys(workers, message))
            self._certain(self._pool.gather(workers))
            if i == 0:
                self._pool.send_fd(workers, self._fd)
                self._certain(self._pool.gather(workers))

    def _die(self, lost: Sequence[Worker]) -> NoReturn:
        """Ends everything and raises `WorkerDiedError`."""
        said = "; ".join(worker.describe(self.envs_per_task) for worker in lost)
        if self._context.get_start_method() != "fork" and not all(w.started for w in lost):
            said += f"; it ended before it began: {GUARD}"
        self._abandon()
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _abandon(self) -> None:
        """Ends the workers at once and gives up the shared memory."""
        self.closed = True
        self._pool.kill()
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
        self._journal.note_seeds(seeds)
        masks = None if mask is None else mask.tolist()
        answers = self._ask(
            "reset",
            lambda rows: (seeds[rows], options, None if masks is None else masks[rows]),
        )
        if mask is None or mask.all():
            self._restarted.clear()
        infos: list[Info | None] = []
        for worker, (objects, own) in zip(self._workers, answers, strict=True):
            self._take_objects(worker, objects)
            infos += own
            for row, info in enumerate(own):
                if info is not None:
                    worker.names[row] = info.get("task_name")
        obs = self._layout.batch(self._buffers.obs, self._objects)
        return obs, join_infos(infos, self._add_info)

    def _begin_step(self, actions: Any) -> None:
        self._settle()
        if self._restarts:
            self._before = self._layout.batch(self._buffers.obs, self._objects)
        # Those that were replaced since the last step have their first observation already.
        workers = [worker for worker in self._workers if worker not in self._restarted]
        if self._check_actions.is_array:
            dtype = actions.dtype
            self._buffers.actions(dtype, self._check_actions.row_shape)[...] = actions
            self._pool.send(dict.fromkeys(workers, dtype.str.encode()))
        else:
            self._pool.send({w: command("step", actions[w.rows]) for w in workers})
        self._stepped = workers

    def _end_step(self) -> StepResult:
        results, lost = self._gather(self._stepped)
        for worker in lost:
            self._replace(worker)
        for worker, answer in self._restarted.items():
            results[worker.index] = (*answer, ())
            self._buffers.rewards[worker.rows] = 0.0
            self._buffers.terminated[worker.rows] = False
            self._buffers.truncated[worker.rows] = True
        finals: list[tuple[int, Any, Info]] = []
        sent: dict[int, list[Info]] = {}  # infos that did not go through shared memory
        for worker in self._workers:
            if (answer := results[worker.index]) is None:
                continue
            objects, infos, own = answer
            self._take_objects(worker, objects)
            finals += own
            if infos is not None:
                sent[worker.index] = infos
        batched = add_finals(self._batch_infos(sent), finals, self._add_info)
        if self._restarted:
            batched = self._mark_restarted(batched)
            self._restarted.clear()
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
        for worker in self._workers:
            if worker.index in sent:
                each += sent[worker.index]
            elif columns is not None:
                each += columns.read_each(worker.rows.start, worker.rows.stop)
        return join_infos(each, self._add_info)

    def _fix_columns(self, sent: dict[int, list[Info]]) -> None:
        """Decides after the first step which infos go through shared memory from now on."""
        self._first_step = False
        layout = layout_of([info for w in self._workers for info in sent[w.index]], self._buffers)
        if layout is not None:
            self._columns = Columns(layout, self._buffers)
            self._ask("columns_are", lambda rows: (layout,))

    def _mark_restarted(self, infos: Info) -> Info:
        last = list(iterate(self.observation_space, self._before))
        for i in (i for worker in self._restarted for i in range(self.num_envs)[worker.rows]):
            mark: Info = {"worker_restarted": True}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                mark.update(final_obs=last[i], final_info={"worker_restarted": True})
            infos = self._add_info(infos, mark, i)
        return infos

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        answers = self._ask("call", lambda rows: (name, each[rows]))
        if isinstance(name, str) and (name.startswith("toggle_") or name in TASK_SETTERS):
            self._journal.note_call(name, each)
        return [value for answer in answers for value in answer]

    def _set_attr_each(self, name: str, values: list[Any]) -> None:
        self._ask("set_attr", lambda rows: (name, values[rows]))
        self._journal.note_attribute(name, values)

    def _render(self) -> list[Any]:
        return [frame for frames in self._ask("render", lambda rows: ()) for frame in frames]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        if os.getpid() != self._pid:
            return  # a forked process, to which they do not belong
        self._pool.close()
        self._free_memory()
