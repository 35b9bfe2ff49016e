"""Environments spread over worker processes, a contiguous block in each."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing as mp
import os
import weakref
from collections.abc import Callable, Sequence
from multiprocessing.reduction import send_handle
from typing import Any, Literal

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers.checks import positive
from mtwrappers.vector import worker as protocol
from mtwrappers.vector.base import TASK_SETTERS, EachCall, MetaVectorEnv, StepResult
from mtwrappers.vector.crew import ArgumentsOf, Crew
from mtwrappers.vector.handle import WorkerHandle, cores
from mtwrappers.vector.infos import Info, InfoBatcher
from mtwrappers.vector.makers import Maker, resolve_makers
from mtwrappers.vector.shared import SharedArrays, anonymous_file


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
        self._batch_infos = InfoBatcher()
        self._seeds: list[int | None] = [None] * self.num_envs
        self._restart_count = 0
        self._kept: dict[str, EachCall] = {}
        self._fd = -1
        self._dtype: Any = None
        # Workers that were replaced outside of a step, which the next step is to say.
        self._unreported: list[WorkerHandle] = []
        self._step_was_sent = False
        # The crew refers to its executor weakly, so that dropping the last reference ends it.
        me = weakref.proxy(self)
        count = min(count, self.num_envs)
        bounds = [self.num_envs * w // count for w in range(count + 1)]
        self._crew = Crew(
            self._plan_workers(makers, bounds, max_path_length),
            mp.get_context(context),
            timeout,
            on_worker_failure == "restart",
            self.envs_per_task,
            equip=lambda worker: me._equip(worker),
            revived=lambda worker: me._revived(worker),
            failed=lambda: me._abandon(),
        )
        self._workers = self._crew.workers
        try:
            self._share_memory(self._crew.launch())
            self._crew.equip()
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

    def _plan_workers(
        self, makers: Sequence[Maker], bounds: Sequence[int], limit: int | None
    ) -> list[WorkerHandle]:
        workers = []
        for w, (start, stop) in enumerate(itertools.pairwise(bounds)):
            block = (list(makers[start:stop]), start, self.autoreset_mode.value, limit)
            workers.append(WorkerHandle(w, start, stop, cloudpickle.dumps(block)))
        return workers

    def _share_memory(self, built: Sequence[Any]) -> None:
        """Makes the shared memory for what the workers have built."""
        spaces = [pair for own, *_ in built for pair in own]
        self._declare(spaces, *built[0][1:])
        shape = self._check_actions.row_shape
        size = int(np.prod(shape)) if self._check_actions.is_array else 0
        space, n = self.single_observation_space, self.num_envs
        self._fd = anonymous_file(SharedArrays.nbytes(space, size, n))
        self._shared = SharedArrays(self._fd, space, size, n)
        self._share = (n, size, shape)

    # What the crew asks for.

    def _equip(self, worker: WorkerHandle) -> None:
        worker.send("share", *self._share)
        assert worker.conn is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            send_handle(worker.conn, self._fd, worker.process.pid)

    def _revived(self, worker: WorkerHandle) -> None:
        if self._was_reset:
            # Also before a reset of some: it leaves the others where a new worker has none.
            self._reset_replaced(worker)
            self._unreported.append(worker)

    def _abandon(self) -> None:
        """Ends the workers at once and gives up the shared memory."""
        self.closed = True
        self._crew.kill()
        self._free_memory()

    def _free_memory(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _settle(self) -> None:
        """Takes what an interrupted call has left behind."""
        if self._crew.settle() and self._step_was_sent:
            self._over = self._shared.terminated | self._shared.truncated
        self._step_was_sent = False

    def _ask(self, command: str, arguments: ArgumentsOf) -> list[Any]:
        self._settle()
        return self._crew.ask(command, arguments)

    def _reset_replaced(self, worker: WorkerHandle) -> Any:
        """Resets the environments of a replaced worker, from branches of their last seeds."""
        self._restart_count += 1
        seeds = [
            None if seed is None else seeding.child_seed(seed, self._restart_count)
            for seed in self._seeds[worker.rows]
        ]
        worker.send("reset", seeds, None, None)
        return self._crew.answer(worker)

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
        answers = self._ask(
            "reset",
            lambda rows: (seeds[rows], options, None if masks is None else masks[rows]),
        )
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
        self._settle()
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
        self._ask("actions_in", lambda rows: (dtype.str,))
        self._crew.remember("actions_in", "actions_in", lambda rows: (dtype.str,))
        self._dtype = dtype

    def _end_step(self) -> StepResult:
        before = self._batch_obs() if self._crew.restarts else None
        answers, lost = self._crew.gather()
        for worker in lost:
            self._crew.replace(worker)
        self._step_was_sent = False
        lost = list(dict.fromkeys([*lost, *self._unreported]))
        self._unreported = []
        for worker in lost:
            answers[worker.index] = self._reset_replaced(worker)
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

    def _call_each(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        def arguments(rows: slice) -> tuple[Any, ...]:
            return name, each[rows]

        answers = self._ask("call", arguments)
        if isinstance(name, str) and (name.startswith("toggle_") or name in TASK_SETTERS):
            # Environments that were left alone keep what they were told before.
            before = self._kept.get(name, [None] * self.num_envs)
            kept = [new or old for new, old in zip(each, before, strict=True)]
            self._kept[name] = kept
            self._crew.remember(name, "call", lambda rows: (name, kept[rows]))
        return [value for answer in answers for value in answer]

    def _set_attr_each(self, name: str, values: list[Any]) -> None:
        def arguments(rows: slice) -> tuple[Any, ...]:
            return name, values[rows]

        self._ask("set_attr", arguments)
        self._crew.remember(name, "set_attr", arguments)

    def _render(self) -> list[Any]:
        return [frame for frames in self._ask("render", lambda rows: ()) for frame in frames]

    def close_extras(self, **kwargs: Any) -> None:
        """Lets the workers close their environments, and ends them."""
        self._crew.close()
        self._free_memory()
