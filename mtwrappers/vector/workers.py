"""Environments that are elsewhere, a contiguous block of them with each worker."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import cloudpickle
import gymnasium
from numpy.typing import NDArray

from mtwrappers.checks import above_zero, check_choice, positive
from mtwrappers.errors import WorkerDiedError
from mtwrappers.vector.arguments import Maker, resolve_makers
from mtwrappers.vector.base import MetaVectorEnv, StepResult
from mtwrappers.vector.block import EachCall
from mtwrappers.vector.buffers import Buffers
from mtwrappers.vector.calls import BlockFunction
from mtwrappers.vector.crew import Crew
from mtwrappers.vector.infos import Info, Layout
from mtwrappers.vector.journal import Entry, Journal, Past, steps_of
from mtwrappers.vector.messages import command
from mtwrappers.vector.process import Request, Worker


class WorkersVectorEnv(MetaVectorEnv):
    """What executors with workers have in common, wherever the workers are.

    A subclass builds with `_hire`. ``make_worker`` takes the first arguments of `Worker`.
    """

    _fd = -1  # the file of the memory that workers share

    def _hire(
        self,
        env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
        count: int,
        make_worker: Callable[[int, slice, bytes, float | None], Worker],
        on_worker_failure: Literal["raise", "recover"],
        max_recoveries: int,
        journal: bool,
        timeout: float | None,
    ) -> None:
        """Builds the environments on ``count`` workers."""
        n = self.num_envs
        self._crew = Crew(self.envs_per_task)
        self._objects: list[Any] = [None] * n  # observations that are not arrays
        try:
            known = ("raise", "recover")
            recovers = check_choice(on_worker_failure, known, "on_worker_failure") == "recover"
            if recovers:
                self._crew.max_recoveries = positive(max_recoveries, "max_recoveries")
            if timeout is not None:
                timeout = above_zero(timeout, "timeout, if it is not None,")
            journal = journal or recovers
            makers, self._first_seeds = resolve_makers(
                env, self.meta_batch_size, self.envs_per_task
            )
            count = min(count, n)
            workers = []
            for w in range(count):
                rows = slice(n * w // count, n * (w + 1) // count)
                settings = rows.start, self.autoreset_mode, self._max_path_length, journal
                block = cloudpickle.dumps((makers[rows], *settings))
                workers.append(make_worker(w, rows, block, timeout))
            built = self._crew.build(workers)
            self._declare([pair for spaces, *_ in built for pair in spaces], *built[0][1:])
            shape = self._check_actions.row_shape
            self._buffers = self._crew.buffers = Buffers(self._layout, shape, self._fd)
            self._crew.prepare(command("share", n, shape))
            if journal:
                self._journal = self._crew.journal = Journal(n, self._buffers)
        except BaseException:
            self._abandon()
            raise

    @property
    def num_workers(self) -> int:
        """How many worker processes there are."""
        return len(self._crew.workers)

    @property
    def recoveries(self) -> int:
        """How many workers were lost and recovered so far."""
        return self._crew.recoveries

    def _ask(
        self,
        name: str,
        arguments: Callable[[slice], tuple[Any, ...]],
        entries: Sequence[Entry | None] | None = None,
    ) -> list[Any]:
        """The answer of every worker to a command with arguments for its rows."""
        request = Request(name, lambda worker: command(name, *arguments(worker.rows)), entries)
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
        """Ends the workers at once."""
        self.closed = True
        self._crew.kill()
        self._release()

    def _release(self) -> None:
        """Gives up what workers have needed."""

    def _require_open(self) -> None:
        super()._require_open()
        if os.getpid() != self._pid:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to process {self._pid}, from which this one "
                "was forked; make another one here"
            )

    def _reset(
        self, seeds: list[int | None], options: dict[str, Any] | None, masks: list[bool]
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
        return self._layout.batch(self._buffers.obs, self._objects), self._join(infos)

    def _begin_step(self, actions: Any) -> None:
        with self._open_after():
            self._crew.settle()  # before the actions of a call that was interrupted are overwritten
            resting = self._buffers.resting
            told = None if self._journal is None else steps_of(actions, resting)
            message: Callable[[Worker], bytes] = (
                self._step_message(actions)
                if self._check_actions.is_array
                else lambda to: command("step_objects", actions[to.rows], resting[to.rows])
            )
            self._crew.begin(Request("step", message, told))

    def _step_message(self, actions: NDArray[Any]) -> Callable[[Worker], bytes]:
        """The message of a step."""
        dtype, resting = actions.dtype.str.encode() + b"\0", self._buffers.resting
        return lambda to: dtype + resting[to.rows].tobytes() + actions[to.rows].tobytes()

    def _end_step(self) -> StepResult:
        with self._open_after():
            answers = self._crew.end()
        finals: list[tuple[int, Any, Info]] = []
        sent: list[list[Info] | None] = []  # infos that did not go through shared memory
        for worker, answer in zip(self._crew.workers, answers, strict=True):
            objects, infos, own = answer or (None, None, ())
            self._take_objects(worker, objects)
            finals += own
            sent.append(infos)
        each: list[Info] = []
        if any(sent):
            for worker, some in zip(self._crew.workers, sent, strict=True):
                if some is None and self._columns is not None:
                    some = self._columns.read_each(worker.rows)
                each += some or ()
        return self._results(each, finals, self._objects)

    def _fix_columns(self, layout: Layout) -> None:
        super()._fix_columns(layout)
        with self._open_after():
            self._crew.prepare(command("columns_are", layout))

    def _take_objects(self, worker: Worker, objects: Sequence[Any] | None) -> None:
        if objects is not None:
            self._objects[worker.rows] = objects

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        told = [None if arguments is None else ("call", name, *arguments) for arguments in each]
        answers = self._ask("call", lambda rows: (name, each[rows]), told)
        return [value for answer in answers for value in answer]

    def _map_blocks(self, function: BlockFunction) -> list[Any]:
        try:
            data = cloudpickle.dumps(function)
        except Exception as exc:
            raise TypeError(
                f"a function must pickle to be called in workers, {function!r} does not ({exc})"
            ) from exc
        journal = self._journal
        was_reset, self._was_reset = self._was_reset, False  # should it raise
        # A worker that is lost on the way may have let others rest.
        over, resting = self._over, self._buffers.resting.copy()

        with self._open_after():
            stored = self._stored(data)

            def message(worker: Worker) -> bytes:
                rows = worker.rows
                pasts = None if journal is None else journal.pasts(rows)
                return command(
                    "run", worker.post(stored), (was_reset, over[rows], resting[rows]), pasts
                )

            answers = self._crew.ask(Request("run", message, ()))
        results = []
        self._over = over.copy()
        for worker, (objects, result, _, *state) in zip(self._crew.workers, answers, strict=True):
            self._take_objects(worker, objects)
            self._over[worker.rows], self._buffers.resting[worker.rows] = state
            results.append(result)
        self._was_reset = all(answer[2] for answer in answers)
        self._some_rest = bool(self._buffers.resting.any())
        return results

    def _stored(self, data: bytes) -> Any:
        """Large data for all workers, for `Worker.post`."""
        return data

    def _restore(self, pasts: Sequence[Past]) -> None:
        try:
            self._ask("replay", lambda rows: (pasts[rows], True))
        except BaseException:
            if not self.closed:
                self._ask("keep", lambda rows: (False,))
            raise
        self._get_journal().take(pasts)  # what a worker that is lost from here on is to know
        self._ask("keep", lambda rows: (True,))
        if not self._layout.fixed:
            self._objects = [past.obs for past in pasts]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        if os.getpid() != self._pid:
            return  # a forked process, to which they do not belong
        self._crew.close()
        self._release()
