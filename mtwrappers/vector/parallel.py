"""Environments spread over worker processes, a contiguous block in each."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing as mp
import os
import time
from collections.abc import Iterable, Sequence
from multiprocessing.reduction import send_handle
from typing import Any, Literal

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers.checks import positive
from mtwrappers.errors import WorkerDiedError, WorkerTraceback
from mtwrappers.vector import worker as protocol
from mtwrappers.vector.balance import block_bounds
from mtwrappers.vector.base import EachCall, MetaVectorEnv, StepResult
from mtwrappers.vector.handle import WorkerHandle, cores, gather
from mtwrappers.vector.infos import Info, InfoBatcher
from mtwrappers.vector.makers import Maker, resolve_makers
from mtwrappers.vector.shared import SharedArrays, anonymous_file

_CLOSE_TIMEOUT = 5.0  # seconds that workers have to close their environments


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
    their parent. Needs POSIX (Linux, macOS).

    Args:
        env: A constructor; a list of constructors, one a task or one an environment; or an
            environment that pickles. Constructors are sent with cloudpickle.
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments a task.
        max_path_length: Truncate episodes after this many steps; ``None`` leaves them alone.
        autoreset_mode: See `gymnasium.vector.AutoresetMode`.
        workers: How many processes; by default as many as there are cores for this process, and
            never more than environments.
        on_worker_failure: ``"raise"`` or ``"restart"``.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits for ever.
        context: ``"fork"``, ``"spawn"``, ``"forkserver"`` or Python's default.
        step_costs: How long a step of each of the ``M * K`` environments takes, in any unit, so
            that every worker gets about equally much to do. By default they take equally long.

    Raises:
        RuntimeError: In a daemonic process, which may have no children.
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
        timeout: float | None = 300.0,
        context: str | None = None,
        step_costs: Sequence[float] | None = None,
    ) -> None:
        super().__init__(meta_batch_size, envs_per_task, autoreset_mode)
        if mp.current_process().daemon:
            raise RuntimeError(
                "a daemonic process may not have children, so there can be no workers here; use "
                "MetaIterativeEnvExecutor, or execution='iterative' in make_vec"
            )
        if on_worker_failure not in ("raise", "restart"):
            raise ValueError(
                f"on_worker_failure must be 'raise' or 'restart', got {on_worker_failure!r}"
            )
        if timeout is not None and not timeout > 0:
            raise ValueError(f"timeout must be positive or None, got {timeout!r}")
        if max_path_length is not None:
            max_path_length = positive(max_path_length, "max_path_length")
        count = cores() if workers is None else positive(workers, "workers")
        makers = resolve_makers(env, self.meta_batch_size, self.envs_per_task)
        self._restarts = on_worker_failure == "restart"
        self._timeout = timeout
        self._context = mp.get_context(context)
        self._batch_infos = InfoBatcher()
        self._seeds: list[int | None] = [None] * self.num_envs
        self._restart_count = 0
        self._replayed: dict[str, tuple[str, Any]] = {}
        self._fd = -1
        self._lost: list[WorkerHandle] = []
        # Workers that were restarted outside of a step, which the next step is to say.
        self._unreported: list[WorkerHandle] = []
        self._step_was_sent = False
        bounds = block_bounds(step_costs, self.num_envs, min(count, self.num_envs))
        self._workers = self._plan_workers(makers, bounds, max_path_length)
        try:
            for worker in self._workers:
                worker.launch(self._context)
            self._built(self._workers)
            for worker in self._workers:
                worker.ready = True
        except BaseException:
            self.closed = True
            self._kill_all()
            raise

    @property
    def num_workers(self) -> int:
        """How many worker processes there are."""
        return len(self._workers)

    @property
    def worker_pids(self) -> list[int]:
        """The process id of each worker."""
        return [worker.process.pid for worker in self._workers]

    def _plan_workers(
        self, makers: Sequence[Maker], bounds: Sequence[int], limit: int | None
    ) -> list[WorkerHandle]:
        workers = []
        for w, (start, stop) in enumerate(itertools.pairwise(bounds)):
            block = (list(makers[start:stop]), start, self.autoreset_mode.value, limit)
            workers.append(WorkerHandle(w, start, stop, cloudpickle.dumps(block)))
        return workers

    def _built(self, workers: Sequence[WorkerHandle]) -> None:
        """Takes what the workers have built, and gives them the shared memory."""
        built = self._gather(workers)
        if self._lost:
            self._fail(self._lost)
        if self._fd < 0:
            spaces = [pair for worker in workers for pair in built[worker.index][0]]
            self._declare(spaces, *built[0][1:])
            size = (
                int(np.prod(self._check_actions.row_shape)) if self._check_actions.is_array else 0
            )
            space, n = self.single_observation_space, self.num_envs
            self._fd = anonymous_file(SharedArrays.nbytes(space, size, n))
            self._shared = SharedArrays(self._fd, space, size, n)
            self._share = (n, size, self._check_actions.row_shape)
            self._dtype: Any = None
        for worker in workers:
            worker.send("share", *self._share)
            assert worker.conn is not None
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                send_handle(worker.conn, self._fd, worker.process.pid)
        self._gather(workers)
        if self._lost:
            self._fail(self._lost)

    # Talking to workers.

    def _gather(self, workers: Iterable[WorkerHandle]) -> dict[int, Any]:
        """The answer of each worker, by its index.

        Workers that died or hung are left in `_lost`, or raised where they may not be restarted.
        An exception in a worker is raised once every answer has come.
        """
        answers, self._lost, failure = gather(workers, self._timeout)
        if self._lost and not self._restarts:
            self._fail(self._lost)
        if failure is not None:
            self._revive(self._lost)
            raise failure[0] from WorkerTraceback(failure[1])
        return answers

    def _ask(self, command: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Sends a command to every worker; a lost one is restarted and asked again."""
        self._drain()
        for worker, own in zip(self._workers, arguments, strict=True):
            worker.send(command, *own)
        answers = self._gather(self._workers)
        for worker in self._lost:
            self._restart(worker)
            if self._was_reset:
                # A reset of some environments leaves the others where a new worker has none.
                self._reset_restarted(worker)
                self._unreported.append(worker)
            worker.send(command, *arguments[worker.index])
            answers.update(self._gather_or_fail(worker))
        return [answers[worker.index] for worker in self._workers]

    def _drain(self) -> None:
        """Takes the answers that an interrupted call has left in the pipes."""
        late = [worker for worker in self._workers if worker.awaited]
        if late:
            try:
                self._gather(late)
            except WorkerDiedError:
                raise
            except Exception as exc:
                # Of a call that its caller has given up.
                gymnasium.logger.warn(f"an interrupted call had failed: {exc}")
            self._revive(self._lost)
            if self._step_was_sent:
                self._over = self._shared.terminated | self._shared.truncated
        # A restart that was itself interrupted is done again.
        self._revive([worker for worker in self._workers if not worker.ready])
        self._step_was_sent = False

    # Faults.

    def _fail(self, lost: Sequence[WorkerHandle]) -> None:
        """Closes everything and raises `WorkerDiedError`."""
        said = "; ".join(self._describe(worker) for worker in lost)
        self._kill_all()
        self.closed = True
        raise WorkerDiedError(f"{said}; all workers were closed")

    def _describe(self, worker: WorkerHandle) -> str:
        k = self.envs_per_task
        tasks = sorted({i // k for i in range(worker.start, worker.stop)})
        names = dict.fromkeys(str(name) for name in worker.names if name)
        named = f" ({', '.join(names)})" if names else ""
        return (
            f"worker {worker.index} {worker.how_it_ended()}, with environments {worker.start} to "
            f"{worker.stop - 1} of tasks {tasks}{named}"
        )

    def _gather_or_fail(self, worker: WorkerHandle) -> dict[int, Any]:
        """The answer of a worker that may not be lost again."""
        answers = self._gather([worker])
        if self._lost:
            self._fail(self._lost)
        return answers

    def _restart(self, worker: WorkerHandle) -> None:
        """A new worker in the place of a lost one, with its tasks and settings."""
        worker.ready = False
        worker.kill()
        worker.launch(self._context)
        lost, self._lost = self._lost, []
        self._built([worker])
        rows = worker.rows
        if self._dtype is not None:
            worker.send("actions_in", self._dtype.str)
            self._gather_or_fail(worker)
        for name, (command, each) in self._replayed.items():
            worker.send(command, name, each[rows])
            self._gather_or_fail(worker)
        if self._tasks is not None:
            tasks = [self._tasks[i // self.envs_per_task] for i in range(worker.start, worker.stop)]
            worker.send("call", self._task_setter(), [((task,), {}) for task in tasks])
            self._gather_or_fail(worker)
        self._lost = lost
        worker.ready = True

    def _revive(self, lost: Sequence[WorkerHandle]) -> None:
        """Restarts workers outside of a step; the next step says so."""
        for worker in list(lost):
            self._restart(worker)
            if self._was_reset:
                self._reset_restarted(worker)
                self._unreported.append(worker)
        self._lost = []

    def _reset_restarted(self, worker: WorkerHandle) -> Any:
        """Resets the environments of a restarted worker, from branches of their last seeds."""
        self._restart_count += 1
        seeds = [
            None if seed is None else seeding.child_seed(seed, self._restart_count)
            for seed in self._seeds[worker.rows]
        ]
        worker.send("reset", seeds, None, None)
        return self._gather_or_fail(worker)[worker.index]

    # What the base asks for.

    def _reset(
        self,
        seeds: list[int | None],
        options: dict[str, Any] | None,
        mask: NDArray[np.bool_] | None,
    ) -> tuple[Any, dict[str, Any]]:
        for i, seed in enumerate(seeds):
            if seed is not None:
                self._seeds[i] = seed
        masks = None if mask is None else mask.tolist()
        arguments = [
            (seeds[w.rows], options, None if masks is None else masks[w.rows])
            for w in self._workers
        ]
        answers = self._ask("reset", arguments)
        if mask is None or mask.all():
            self._unreported = []
        infos = [info for answer in answers for info in answer["infos"]]
        for worker, answer in zip(self._workers, answers, strict=True):
            for row, info in enumerate(answer["infos"]):
                if info is not None:
                    worker.names[row] = info.get("task_name")
        self._object_obs = [obs for answer in answers for obs in answer.get("obs", ())]
        return self._batch_obs(), self._batch_infos(infos, self._add_info)

    def _batch_obs(self) -> Any:
        layout = self._shared.layout
        if not layout.fixed:
            return layout.stack(self._object_obs)
        return layout.batch([array.copy() for array in self._shared.obs])

    def _begin_step(self, actions: Any) -> None:
        self._drain()
        if not self._check_actions.is_array:
            self._step_was_sent = True
            self._last_actions = actions
            for worker in self._workers:
                worker.send("step", actions[worker.rows])
            return
        # Not `!=` alone: to NumPy, None is float64.
        if self._dtype is None or actions.dtype != self._dtype:
            self._use_dtype(actions.dtype)
        self._step_was_sent = True
        self._action_view[...] = actions
        for worker in self._workers:
            worker.send_bytes(protocol.STEP)

    def _use_dtype(self, dtype: np.dtype[Any]) -> None:
        """Agrees with the workers on how actions lie in shared memory."""
        if dtype.hasobject or dtype.itemsize > 8:
            raise ValueError(f"actions must be numbers of at most 8 bytes, got {dtype}")
        self._action_view = self._shared.actions(dtype, self._check_actions.row_shape)
        self._ask("actions_in", [(dtype.str,)] * len(self._workers))
        self._dtype = dtype

    def _end_step(self) -> StepResult:
        before = self._batch_obs() if self._restarts else None
        answers = self._gather(self._workers)
        for worker in self._lost:
            self._restart(worker)
        self._step_was_sent = False
        lost = list(dict.fromkeys([*self._lost, *self._unreported]))
        self._unreported = []
        for worker in lost:
            answers[worker.index] = self._reset_restarted(worker)
            self._shared.rewards[worker.rows] = 0.0
            self._shared.terminated[worker.rows] = False
            self._shared.truncated[worker.rows] = True
        finals = []
        for worker in self._workers:
            extras = answers[worker.index]
            if not extras:
                continue
            if "obs" in extras:
                self._object_obs[worker.rows] = extras["obs"]
            finals += extras.get("finals", ())
        infos = self._collect_infos(answers)
        for i, obs, info in finals:
            infos = self._add_info(infos, {"final_obs": obs, "final_info": info}, i)
        shared = self._shared
        if lost:
            infos = self._mark_restarted(infos, lost, before)
        return (
            self._batch_obs(),
            shared.rewards.copy(),
            shared.terminated.copy(),
            shared.truncated.copy(),
            infos,
        )

    def _collect_infos(self, answers: dict[int, Any]) -> Info:
        first = self._workers[0].columns
        # Infos in an answer are newer than those in shared memory: of a reset after a restart.
        sent = {index for index, answer in answers.items() if answer and "infos" in answer}
        if first is not None and not sent and self._same_columns():
            strings = {
                key: [value for worker in self._workers for value in worker.strings[key]]
                for key in self._workers[0].strings
            }
            return self._shared.cells.read(first, strings)
        infos: list[Info | None] = []
        for worker in self._workers:
            if worker.index in sent or worker.columns is None:
                infos += answers[worker.index]["infos"]
            else:
                infos += self._shared.cells.read_each(
                    worker.columns, worker.start, worker.stop, worker.strings
                )
        return self._batch_infos(infos, self._add_info)

    def _same_columns(self) -> bool:
        first = self._workers[0].columns
        for worker in self._workers:
            own = worker.columns
            if own is not first:
                if own is None or first is None or own.layout != first.layout:
                    return False
                worker.columns = first  # so that the next step need not compare
        return True

    def _mark_restarted(self, infos: Info, lost: Sequence[WorkerHandle], before: Any) -> Info:
        from gymnasium.vector.utils import iterate

        rows = [i for worker in lost for i in range(worker.start, worker.stop)]
        last = list(iterate(self.observation_space, before))
        for i in rows:
            mark: Info = {"worker_restarted": True}
            if self.autoreset_mode is AutoresetMode.SAME_STEP:
                mark.update(final_obs=last[i], final_info={"worker_restarted": True})
            infos = self._add_info(infos, mark, i)
        return infos

    def _call_each(self, name: str, each: EachCall) -> list[Any]:
        answers = self._ask("call", [(name, each[w.rows]) for w in self._workers])
        if name.startswith("toggle_"):
            self._replayed[name] = ("call", each)
        return [value for answer in answers for value in answer]

    def _set_attr_each(self, name: str, values: list[Any]) -> None:
        self._ask("set_attr", [(name, values[w.rows]) for w in self._workers])
        self._replayed[name] = ("set_attr", values)

    def _render(self) -> list[Any]:
        return [f for frames in self._ask("render", [()] * len(self._workers)) for f in frames]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        for worker in self._workers:
            with contextlib.suppress(OSError, AttributeError):
                worker.send("close")
        deadline = time.monotonic() + _CLOSE_TIMEOUT
        for worker in self._workers:
            if worker.process is not None and worker.process.pid is not None:
                worker.process.join(max(deadline - time.monotonic(), 0.0))
        self._kill_all()

    def _kill_all(self) -> None:
        for worker in self._workers:
            worker.kill()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
