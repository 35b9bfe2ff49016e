"""The contract of the vector environments, for every execution."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np
from gymnasium.error import (
    AlreadyPendingCallError,
    ClosedEnvironmentError,
    NoAsyncCallError,
    ResetNeeded,
)
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, iterate
from numpy.typing import NDArray

from mtwrappers.common.checks import check_callable, check_index, check_mapping, check_rows
from mtwrappers.common.counts import format_count, format_range
from mtwrappers.common.errors import with_place
from mtwrappers.common.types import Info
from mtwrappers.core.pad_spaces import Padding
from mtwrappers.state.identity import describe, require_same
from mtwrappers.vector.arguments import (
    check_mask,
    refuse_episode_methods,
    refuse_indices,
    split_options,
    spread_seeds,
)
from mtwrappers.vector.block import BlockResult, EnvBlock, describe_env
from mtwrappers.vector.buffers import ARRAY_SPACES, InfoColumns, ObsLayout, infer_schema
from mtwrappers.vector.calls import (
    EachCall,
    find_similar_attributes,
    has_trials,
    replayable,
    warn_of_new_attribute,
)
from mtwrappers.vector.commands import (
    Apply,
    CallEach,
    Commit,
    DropPrepared,
    GetStates,
    Pause,
    Prepare,
    Reset,
    SetStates,
    SetTasks,
    Step,
    UseColumns,
    Wrap,
)
from mtwrappers.vector.journal import ReplayLog
from mtwrappers.vector.pool import BorrowedPool, Pool
from mtwrappers.vector.settings import MAY_DIFFER, Settings, require_same_spaces
from mtwrappers.vector.workers import pickle_function

StepResult = tuple[Any, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]
# A function for `MetaVectorEnv.map_blocks`, of environments and of their rows among all.
BlockFunction: TypeAlias = "Callable[[MetaVectorEnv, slice], Any]"
_NEEDS_JOURNAL = (
    "the state of a vector environment in mid-episode needs its journal: make it with "
    "journal=True, or on_worker_failure='recover'"
)
Method = TypeVar("Method", bound=Callable[..., Any])


def exclusive(method: Method) -> Method:
    """Makes a method raise an error if the executor is closed or has a pending step."""
    name = method.__name__

    @functools.wraps(method)
    def checked(self: MetaVectorEnv, /, *args: Any, **kwargs: Any) -> Any:
        if self.closed or self._pending or self._pid != os.getpid():
            self._require_free(name)
        try:
            return method(self, *args, **kwargs)
        finally:
            if self._pool.is_lost:
                self.closed = True

    return cast("Method", checked)


class MetaVectorEnv(VectorEnv[Any, Any, Any]):
    """A vector environment of ``M`` tasks with ``K`` environments each.

    Environment ``k`` of a task has index ``task * K + k``.

    It is a `gymnasium.vector.VectorEnv`. For the same constructors and seed, it returns exactly the
    same observations, rewards, flags and infos as `gymnasium.vector.SyncVectorEnv`, in all three
    autoreset modes. Every returned array and dict is new. ``call``, ``get_attr`` and ``set_attr``
    are Gymnasium's; `set_tasks` sets one task per group of ``K`` environments.

    After a `step` or `reset` that raised, the environments are out of sync, and a `reset` of all of
    them is required. Methods must be called by one thread at a time.

    Args:
        pool: The workers that hold the environments.
        settings: The number of environments, and how they are stepped.
        first_seeds: For copies of an environment: a seed for the first reset of each.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, meta_batch_size=2)
    >>> envs.set_tasks([{"goal": (1.0, 0.0)}, {"goal": (0.0, 1.0)}])
    >>> obs, infos = envs.reset(seed=0)
    >>> obs, rewards, terminated, truncated, infos = envs.step([[0.1, 0.0]] * 4)
    >>> rewards.round(2)
    array([-0.9, -0.9, -1. , -1. ])
    >>> envs.call("get_task")[2]
    {'goal': (0.0, 1.0)}
    >>> envs.close()
    """

    meta_batch_size: int
    envs_per_task: int
    autoreset_mode: AutoresetMode
    closed = True  # until there is a pool to close
    _pending = False  # whether a step was begun and not ended
    _setter: str | None = None  # the method of environments that sets a task
    _have_trials: Sequence[bool] = ()  # whether a wrapper of each environment has trials
    _columns: InfoColumns | None = None
    _autoreset = True  # whether environments reset themselves, if the mode is not DISABLED
    _first_row = 0  # the row of its first environment, among those of the executor that owns them
    _schema_known = False  # whether it was decided which infos go through buffers

    def __init__(
        self, pool: Pool, settings: Settings, first_seeds: Sequence[int | None] | None = None
    ) -> None:
        super().__init__()
        self._pid = os.getpid()
        self._settings, self._first_seeds = settings, first_seeds
        self.meta_batch_size, self.envs_per_task = settings.meta_batch_size, settings.envs_per_task
        self.num_envs = self.meta_batch_size * self.envs_per_task
        self.autoreset_mode = settings.autoreset_mode
        self._pool = pool
        self.closed = False
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    @classmethod
    def _borrow(
        cls,
        pool: BorrowedPool,
        settings: Settings,
        first_row: int,
        autoreset: bool,
        columns: InfoColumns | None,
    ) -> MetaVectorEnv:
        """Makes an executor of environments that belong to another one.

        Args:
            pool: The pool of their block.
            settings: Those of an executor of this block alone.
            first_row: The row of the first environment, among those of the other executor.
            autoreset: Whether environments reset themselves, if the mode is not DISABLED.
            columns: The infos that go through buffers, if that was decided.
        """
        envs = cls(pool, settings)
        envs._first_row = first_row
        envs._autoreset = autoreset
        envs._columns = columns
        envs._schema_known = columns is not None
        return envs

    @exclusive
    def _build(self) -> None:
        """Makes the workers build the environments, and takes their spaces."""
        n, pool, settings = self.num_envs, self._pool, self._settings
        traits = pool.build()
        spaces = [pair for block in traits for pair in block.spaces]
        metadata, self.render_mode = traits[0].metadata, traits[0].render_mode
        if settings.unify is not None:
            names = [f"environment {i}" for i in range(n)]
            padding = Padding.from_spaces(spaces, names, settings.unify)
            pool.set_up(Wrap(padding.wrap))
            spaces = [(padding.observation_space, padding.action_space)] * n
        observation_space, action_space = require_same_spaces(spaces)
        self.single_observation_space, self.single_action_space = spaces[0]
        self.observation_space = batch_space(observation_space, n)
        self.action_space = batch_space(action_space, n)
        self.metadata = {**metadata, "autoreset_mode": self.autoreset_mode}
        self._takes_arrays = isinstance(action_space, ARRAY_SPACES)
        self._actions_shape = (n, *(action_space.shape or ()))
        self._layout = ObsLayout(observation_space, n)
        self._buffers = pool.connect(self._layout)
        # Masks of the environments before the last step; before the first, no step has stepped any.
        self._was_paused = np.ones(n, dtype=np.bool_)
        self._was_finished = np.zeros(n, dtype=np.bool_)
        if settings.journal:
            pool.start_journal()

    # Episodes.

    @exclusive
    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Resets the environments.

        Args:
            seed: An integer ``s`` seeds environment ``i`` with ``s + i``; a list has one seed for
                each.
            options: Passed to every environment. ``{"reset_mask": mask}``, shape ``(N,)`` bool,
                resets only some. ``{"env_options": [...]}``, with a dict or None for each
                environment, adds individual options. The dict is not changed.

        Returns:
            Observations ``(N, ...)`` and infos.

        Raises:
            ValueError: If the seeds, ``env_options`` or the mask have another length, the mask is
                all false, or a seed is negative.
            TypeError: If a seed is not an integer, options are not a dict, or the mask is not a
                bool array.
            ResetNeeded: If a mask is given before all environments were reset.
            Exception: Whatever an environment raises, with the environment named.

        >>> import gymnasium, numpy as np, mtwrappers
        >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=3)
        >>> obs, infos = envs.reset(seed=0)
        >>> obs, *_ = envs.step(np.full((3, 2), 0.1))
        >>> obs, infos = envs.reset(options={"reset_mask": np.array([True, False, False])})
        >>> obs
        array([[0. , 0. ],
               [0.1, 0.1],
               [0.1, 0.1]])
        >>> envs.close()
        """
        buffers = self._buffers
        seeds = spread_seeds(seed, self.num_envs)
        env_options, mask = split_options(options, self.num_envs)
        if mask is None:
            mask = np.ones(self.num_envs, dtype=np.bool_)
        elif self._pool.due.any() and not mask.all():
            raise ResetNeeded("reset every environment before some of them")
        for i, first in enumerate(self._first_seeds or ()):
            seeds[i] = first if seeds[i] is None else seeds[i]
        if self._pool.logs is not None:
            env_options = copy.deepcopy(env_options)
        results = self._pool.run(Reset(seeds, env_options, mask.tolist()))
        infos = self._join(results)
        self._note_names(infos)
        observations = self._layout.batch(buffers.obs)
        self._first_seeds = None
        self._pool.due.fill(False)
        return observations, infos

    @exclusive
    def pause(self, mask: NDArray[np.bool_]) -> None:
        """Pauses some environments: `step` does not step them.

        For a paused environment, `step` returns its last observation and info, the reward 0.0, and
        no end of the episode. A `reset` of the environment ends its pause. Our vector wrappers and
        adapters count no step of a paused environment.

        Args:
            mask: A mask of the environments to pause, ``(N,)`` bool; all others are resumed.

        Raises:
            ValueError: If the mask has another shape or dtype.
        """
        self._pool.run(Pause(check_mask(mask, self.num_envs, "a mask")))

    @contextlib.contextmanager
    def without_autoreset(self) -> Iterator[None]:
        """A context manager that disables autoreset, as the mode DISABLED does.

        It is for code that resets environments by its own decision, such as `evaluate`. If an
        episode has ended at exit, and the mode is SAME_STEP, a `reset` is due.
        """
        autoreset, self._autoreset = self._autoreset, False
        try:
            yield
        finally:
            self._autoreset = autoreset

    @exclusive
    def step(self, actions: Any) -> StepResult:
        """Steps every environment.

        Args:
            actions: Shape ``(N, ...)``, in `action_space`.

        Returns:
            Observations ``(N, ...)``, rewards ``(N,)`` float64, terminated and truncated ``(N,)``
            bool, and infos.

        Raises:
            ValueError: If actions have another shape, or arrays of actions are not numbers or are
                NaN; then nothing is stepped.
            ResetNeeded: If a `reset` is due.
            Exception: Whatever an environment raises, with the environment named.
        """
        self._begin_step(actions)
        return self._step_result(self._pool.end())

    @exclusive
    def step_async(self, actions: Any) -> None:
        """Begins a `step`, so that other work can be done meanwhile; `step_wait` ends it."""
        self._begin_step(actions)
        self._pending = True

    def _begin_step(self, actions: Any) -> None:
        """Gives a step to all blocks; what is wrong with it raises before anything has changed."""
        pool, buffers, autoreset = self._pool, self._buffers, self._autoreset
        if not pool.is_settled:
            pool.settle()
        if np.count_nonzero(pool.due):  # a tenth of the time of any()
            raise ResetNeeded(
                "call reset() before step(): a reset is due at the start, and after set_tasks and "
                "set_state"
            )
        resets_next = autoreset and self.autoreset_mode is AutoresetMode.NEXT_STEP
        if not resets_next and np.count_nonzero(buffers.finished):
            ended = buffers.finished & ~buffers.paused
            if ended.any():
                raise ResetNeeded(
                    f"the episodes of environments {self._rows_in(ended)} have ended: "
                    "reset them with options={'reset_mask': ...}"
                )
        checked: Any = None
        if not self._takes_arrays:
            checked = self._iterate_actions(actions)
        else:
            try:
                # Of a tensor, `np.array` would warn: its `__array__` has no argument `copy`.
                # Workers and replays have the rows of actions in C order, so here they are, too.
                checked = np.array(np.asarray(actions), order="C")
            except ValueError:  # rows of several lengths
                self._refuse_actions(actions, None)
            if (
                checked.shape != self._actions_shape
                or checked.dtype.kind not in "biuf"
                or checked.itemsize > 8
                or np.count_nonzero(np.isnan(checked))
            ):
                self._refuse_actions(actions, checked)
        schema = None if self._columns is None else self._columns.schema
        paused, finished = buffers.paused.copy(), buffers.finished.copy()
        pool.begin(Step(checked, autoreset, schema))
        self._was_paused, self._was_finished = paused, finished

    def _iterate_actions(self, actions: Any) -> list[Any]:
        """Copies of actions whose space has no arrays: environments and journals may keep them."""
        n, space = self.num_envs, self.action_space
        try:
            rows = list(iterate(space, actions))
        except Exception:  # anything that is not nested like the space
            raise ValueError(f"expected actions in {space}, got {actions!r}") from None
        if len(rows) != n:
            raise ValueError(f"expected actions for {self._span}, got {len(rows)}")
        # What goes to workers is pickled at once.
        is_kept = self._pool.is_local or self._pool.logs is not None
        return copy.deepcopy(rows) if is_kept else rows

    def _refuse_actions(self, actions: Any, array: NDArray[Any] | None) -> NoReturn:
        """Raises the error for actions, which are an array unless the lengths of rows differ."""
        expected, n = self._actions_shape, self.num_envs
        shape = "different lengths" if array is None else f"shape {array.shape}"
        if array is None or array.shape != expected:
            raise ValueError(
                f"expected actions of shape {expected} for {self._span}, got "
                f"{type(actions).__name__} of {shape}"
            )
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise ValueError(f"actions must be numbers of at most 8 bytes, got dtype {array.dtype}")
        rows = self._rows_in(np.isnan(array).reshape(n, -1).any(axis=1))
        raise ValueError(
            f"actions of environments {rows} are NaN; nothing was stepped: check the policy's "
            "observations and its learning rate"
        )

    @property
    def _span(self) -> str:
        """The environments, for messages."""
        last_row = self._first_row + self.num_envs - 1
        return format_range("environment", self._first_row, last_row)

    def _rows_in(self, mask: NDArray[np.bool_]) -> list[int]:
        """The environments in a mask, for messages."""
        rows: list[int] = (self._first_row + np.flatnonzero(mask)).tolist()
        return rows

    @property
    def stepped(self) -> NDArray[np.bool_]:
        """A mask of the environments that the last `step` stepped, ``(N,)`` bool.

        The others were paused or restarted, so a wrapper must not count their rewards.
        """
        return self._find_stepped(self._was_paused, self._was_finished)

    @property
    def restarted(self) -> NDArray[np.bool_]:
        """A mask of the environments that the last `step` reset instead, ``(N,)`` bool.

        The mode NEXT_STEP does this after the end of an episode.
        """
        return ~self._was_paused & ~self.stepped

    @property
    def will_be_stepped(self) -> NDArray[np.bool_]:
        """A mask of the environments that a step which begins now will step, ``(N,)`` bool."""
        return self._find_stepped(self._buffers.paused, self._buffers.finished)

    def _find_stepped(
        self, paused: NDArray[np.bool_], finished: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """A mask of the environments that a step steps, given the masks before it."""
        if self.autoreset_mode is AutoresetMode.NEXT_STEP:
            return ~(paused | finished)
        return ~paused

    @exclusive
    def step_wait(self) -> StepResult:
        """Waits for the step that `step_async` began, and returns the result of `step`.

        Raises:
            NoAsyncCallError: If no step was begun.
        """
        try:
            if not self._pending:
                raise NoAsyncCallError("step_wait() needs a step_async() before it", "step")
            return self._step_result(self._pool.end())
        finally:
            self._pending = False

    def _step_result(self, results: Sequence[Any]) -> StepResult:
        """The results of a step, from those of the blocks and the buffers."""
        buffers, columns = self._buffers, self._columns
        in_columns = columns is not None and not any(results)
        infos = columns.read() if columns is not None and in_columns else self._join(results)
        obs = self._layout.batch(buffers.obs)
        rewards = buffers.rewards.copy()
        flags = buffers.terminated.copy(), buffers.truncated.copy()
        if not self._schema_known:  # decides which infos go through the buffers from now on
            self._schema_known = True  # even if it is interrupted here
            schema = infer_schema([info for result in results for info in result.infos])
            if schema is not None:
                self._columns = InfoColumns(schema, buffers)
                self._pool.set_up(UseColumns(schema))
        if any(map(np.count_nonzero, (*flags, self._was_finished))):
            self._note_names(infos)  # an environment that began an episode may have another task
        self._pool.due.fill(False)
        return obs, rewards, *flags, infos

    def _note_names(self, infos: Info) -> None:
        """Takes the names of tasks from infos, for messages."""
        for i in np.flatnonzero(infos.get("_task_name", ())).tolist():
            self._pool.names[i] = infos["task_name"][i]

    def _join(self, results: Sequence[BlockResult | None]) -> Info:
        """Batches infos as Gymnasium does, and keeps observations that are not arrays."""
        batched: Info = {}
        for rows, result in zip(self._pool.rows, results, strict=True):
            if result is None:
                result = BlockResult(None)
            if result.observations is not None:
                self._buffers.obs[0][rows] = result.observations
            infos = result.infos
            if infos is None and self._columns is not None:
                infos = self._columns.read_each(rows)
            final_infos = [
                (final.index, {"final_obs": final.obs, "final_info": final.info})
                for final in result.final_steps
            ]
            for i, info in (*enumerate(infos or ()), *final_infos):
                for key, value in (info or {}).items():  # None reports nothing
                    try:
                        self._add_info(batched, {key: value}, rows.start + i)
                    except Exception as exc:  # values of any class may be incompatible
                        env_name = f"environment {self._first_row + rows.start + i}"
                        with_place(exc, f"the info {key!r} of {env_name} does not fit the others")
                        raise
        return batched

    # Tasks, methods and attributes.

    @exclusive
    def set_tasks(self, tasks: Sequence[Any]) -> None:
        """Sets one task per group of ``K`` environments, from the next `reset` on.

        Args:
            tasks: ``M`` tasks for the environments' method ``set_task``, or ``set_task_state`` if
                they have no ``set_task``. A wrapper's method ``begin_trial``, such as that of
                `RL2Observation`, is called then.

        Raises:
            ValueError: If the number of tasks is not ``M``.
            AttributeError: If the environments have neither method.
        """
        m, k = self.meta_batch_size, self.envs_per_task
        is_list = (isinstance(tasks, Sequence) and not isinstance(tasks, (str, bytes))) or (
            isinstance(tasks, np.ndarray) and tasks.ndim > 0
        )
        if not is_list or len(tasks) != m:
            got, expected, hint = repr(tasks), format_count(m, "task"), ""
            if is_list:
                got = str(len(tasks))
            else:  # a number would read like a number of tasks
                expected = f"a list of {expected}"
            if is_list and m == 1 and len(tasks) == k:
                hint = f"; as_vector([id] * {k}) has a task for each environment"
            raise ValueError(
                f"expected {expected}, one for each group of "
                f"{format_count(k, 'environment')}, got {got}{hint}"
            )
        if self._setter is None:
            setter = self._find_setter()
            self._have_trials = self._call_each(has_trials, [((), {})] * self.num_envs)
            self._setter = setter  # last, because an exception may interrupt this
        arguments: EachCall = [((task,), {}) for task in tasks for _ in range(k)]
        self._call_each(self._setter, arguments, SetTasks)
        if any(self._have_trials):
            self._call_each("begin_trial", [((), {}) if has else None for has in self._have_trials])

    def _find_setter(self) -> str:
        """The method that sets a task, of all environments, or `AttributeError`."""
        lacking: dict[str, int] = {}  # the first environment without each method
        for setter in ("set_task", "set_task_state"):
            has = self._call_each("has_wrapper_attr", [((setter,), {})] * self.num_envs)
            if all(has):
                return setter
            if any(has):
                lacking[setter] = has.index(False)
        if not lacking:
            raise AttributeError(
                f"{self._describe(0)} has neither set_task nor set_task_state, nor have the "
                "others: set_tasks needs environments with one of these methods"
            )
        setter, i = next(iter(lacking.items()))
        raise AttributeError(
            f"{self._describe(i)} has no {setter}, which others have: set_tasks needs environments "
            "that all have set_task, or all have set_task_state"
        )

    @exclusive
    def call(self, name: str | Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Calls a method, or reads an attribute, of each environment, through its wrappers.

        Args:
            name: The method or attribute, or a function ``name(env, *args, **kwargs)``, which runs
                in the environment's process. A function must be picklable if the environments run
                in workers. An executor that keeps a journal replays it to restore a lost
                environment, so it must be importable by name there; see `read_only` for functions
                that change nothing.
            *args: Passed to every method or function.
            **kwargs: Passed to every method or function.

        Returns:
            The ``N`` results.

        Raises:
            TypeError: If there is a journal and the call could not be replayed.
            ValueError: If ``name`` is ``"reset"``, ``"step"`` or ``"close"``.
            Exception: Whatever an environment raises, with the environment named.
        """
        refuse_episode_methods(name)
        return tuple(self._call_each(name, [(args, kwargs)] * self.num_envs))

    @exclusive
    def call_some(
        self, indices: Sequence[int], name: str | Callable[..., Any], /, *args: Any, **kwargs: Any
    ) -> list[Any]:
        """Like `call`, but only for the environments ``indices``.

        It also calls their ``reset``, ``step`` and ``close``, as adapters need; the vector
        environment does not notice, so a `reset` has to follow.

        Raises:
            ValueError: If there is no such environment.
        """
        n = self.num_envs
        chosen = [check_index(i, n, "an index of an environment") for i in indices]
        arguments = [(args, kwargs) if i in chosen else None for i in range(n)]
        results = self._call_each(name, arguments)
        return [results[i] for i in chosen]

    def get_attr(self, name: str, *indices: Any) -> tuple[Any, ...]:
        """Returns an attribute of each environment; a method is called, as in Gymnasium.

        Raises:
            TypeError: If there are ``indices``, which Stable-Baselines3 passes.
        """
        refuse_indices(indices)
        return self.call(name)

    @exclusive
    def set_attr(self, name: str, values: Any) -> None:
        """Sets an attribute of each environment.

        A warning says if no environment had it, such as a misspelled one; as in Gymnasium, it then
        becomes a new attribute of the outermost wrapper.

        Args:
            name: The attribute, looked up through the environment's wrappers.
            values: A list or tuple with one value per environment, or one value for all. (A
                `metaworld.Task` is a tuple: put it in a list.)

        Raises:
            ValueError: If the length of a list is not ``N``.
        """
        n = self.num_envs
        values = list(values) if isinstance(values, (list, tuple)) else [values] * n
        if len(values) != n:
            raise ValueError(f"expected {n} values, one per environment, got {len(values)}")
        hints = self._call_each(find_similar_attributes, [((name,), {})] * n)
        warn_of_new_attribute(name, hints)
        self._call_each("set_wrapper_attr", [((name, value), {}) for value in values])

    def render(self) -> tuple[Any, ...]:
        """A frame of each environment."""
        return self.call("render")

    @property  # type: ignore[misc] # Gymnasium's SyncVectorEnv has no setter either
    def np_random(self) -> Any:
        """Each environment's generator."""
        return self.get_attr("np_random")

    @property
    def np_random_seed(self) -> Any:
        """Each environment's seed."""
        return self.get_attr("np_random_seed")

    def _call_each(
        self,
        name: str | Callable[..., Any],
        arguments: EachCall,
        command: type[CallEach] = CallEach,
    ) -> list[Any]:
        """Calls each environment; the result is None for those that are left out."""
        if self._pool.logs is not None:
            arguments = replayable(name, arguments)
        results = self._pool.run(command(name, arguments))
        return [value for block_results in results for value in block_results]

    # Where the environments are.

    @exclusive
    def map_blocks(self, function: BlockFunction) -> list[Any]:
        """Runs a function in each worker on that worker's environments.

        So a whole rollout takes a single round trip to each worker, as in
        `MetaSampler` with ``policy_in="workers"``.

        Args:
            function: ``function(envs, rows)``, where ``envs`` is a `MetaVectorEnv` of the
                environments ``rows``, one task each, in their current state. It may reset, step and
                call them. The function and its results are sent with cloudpickle.

        Returns:
            The result of each call, one per block, in order. Each worker has one block; without
            workers there is a single block.

        Raises:
            TypeError: If the function is not callable, or there are workers and it cannot be
                pickled.
            WorkerDiedError: If a worker is lost and not recovered. A replacement calls the function
                again.
            Exception: Whatever the function raises; a `reset` of all environments is then due.

        >>> import gymnasium, mtwrappers
        >>> def steps(envs, rows):  # runs in each worker
        ...     for _ in range(10):
        ...         envs.step(envs.action_space.sample())
        ...     return f"{rows.start} to {rows.stop - 1}: {10 * envs.num_envs} steps"
        >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=4, workers=2)
        >>> obs, infos = envs.reset(seed=0)
        >>> envs.map_blocks(steps)
        ['0 to 1: 20 steps', '2 to 3: 20 steps']
        >>> envs.close()
        """
        check_callable(function, "function")
        carried: Any = function if self._pool.is_local else pickle_function(function)
        due = self._pool.due.copy()
        logs: list[Any] = self._pool.logs or [None] * self.num_envs
        rows = range(self._first_row, self._first_row + self.num_envs)
        first_seeds = dict(zip(rows, self._first_seeds or (), strict=False))
        function_of_block = functools.partial(_call_in_block, carried, self._autoreset, first_seeds)
        apply = Apply(function_of_block, rows, due, logs)
        outcomes: list[BlockOutcome] = self._pool.run(apply)
        self._pool.due[...] = np.concatenate([outcome.due for outcome in outcomes])
        self._pool.names[:] = [name for outcome in outcomes for name in outcome.names]
        if self._first_seeds is not None:
            self._first_seeds = [seed for outcome in outcomes for seed in outcome.first_seeds]
        return [outcome.result for outcome in outcomes]

    # State.

    @exclusive
    def get_state(self, *, between_episodes: bool = False) -> dict[str, Any]:
        """The state of the environments, for `save_checkpoint`: plain values and arrays.

        It is what environments keep from one episode to the next, at their last reset, that reset's
        arguments, and the actions since. If no episode is under way, it is what they keep now.

        Args:
            between_episodes: Whether to leave out the current episodes; a `reset` is then due after
                `set_state`.

        Raises:
            RuntimeError: If episodes are under way, and there is no journal, or an environment was
                called since its last reset.
            TypeError: If there is a journal, and an environment was called, and has no
                ``get_state`` that could return what the call has changed. Without a journal nobody
                knows of the call, and the state does not have its changes.

        >>> import gymnasium, numpy as np, mtwrappers
        >>> make = lambda: gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, journal=True)
        >>> envs, other = make(), make()
        >>> obs, infos = envs.reset(seed=0)
        >>> obs, *_ = envs.step(np.full((2, 2), 0.1))
        >>> other.set_state(envs.get_state())
        >>> other.step(np.full((2, 2), 0.1))[0]  # goes on in mid-episode
        array([[0.2, 0.2],
               [0.2, 0.2]])
        """
        pool, due = self._pool, self._pool.due.copy()
        if not pool.is_settled:
            pool.settle()
        paused = self._buffers.paused.copy()
        logs: Sequence[ReplayLog] = pool.logs or ()
        has_no_episode = due if pool.logs is not None else due | self._buffers.finished
        if between_episodes or has_no_episode.all():
            states = pool.run(GetStates())
            logs = [ReplayLog(state) for block_states in states for state in block_states]
            due.fill(True)
            paused.fill(False)
        elif pool.logs is None:
            raise RuntimeError(_NEEDS_JOURNAL)
        state = {
            "identity": self._identity(),
            "first_seeds": self._first_seeds,
            "due": due,
            "paused": paused,
            "logs": [log.to_state(self._describe(i)) for i, log in enumerate(logs)],
        }
        for i, log in enumerate(pool.logs or ()):
            log.require_savable(self._describe(i))
        return state

    def _describe(self, i: int) -> str:
        """The name of environment ``i`` for messages."""
        return describe_env(self._first_row + i, self._pool.names[i])

    @exclusive
    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restores the state that `get_state` returned.

        A state in mid-episode is replayed in new environments. After a state between episodes, a
        `reset` of all environments is due.

        Args:
            state: A state of this executor, or of another one with the same constructors and
                settings, on any number of workers.

        Raises:
            RuntimeError: If the state is in mid-episode and there is no journal.
            TypeError, ValueError: If the state is malformed, or belongs to other environments.
            NotDeterministicError: If a replay does not return the same results. After any error
                with a state in mid-episode, the environments are unchanged.
        """
        check_mapping(state, "a state")
        require_same(self._identity(), state.get("identity"), "vector environment")
        n, pool = self.num_envs, self._pool
        first_seeds: Any = state.get("first_seeds")
        if first_seeds is not None:
            first_seeds = spread_seeds(check_rows(first_seeds, n, "the first seeds"), n)
        log_states = check_rows(state.get("logs"), n, "the states")
        logs = [ReplayLog.from_state(log, f"environment {i}") for i, log in enumerate(log_states)]
        due = check_mask(state.get("due"), n, "due in a state")
        paused = check_mask(state.get("paused"), n, "paused in a state")
        if not any(log.entries for log in logs):
            pool.run(SetStates(logs))
            self._first_seeds = first_seeds
            pool.names[:] = [None] * n
            return
        if pool.logs is None:
            raise RuntimeError(_NEEDS_JOURNAL)
        try:
            pool.run(Prepare(logs, paused))
        except Exception:
            if not pool.is_lost:
                pool.run(DropPrepared())
            raise
        pool.run(Commit(logs, paused))
        self._first_seeds = first_seeds
        pool.due[...] = due
        pool.names[:] = [None] * n

    def _identity(self) -> dict[str, Any]:
        """All settings that can change a result; each environment has its own identity."""
        settings = describe(self._settings)
        return {name: value for name, value in settings.items() if name not in MAY_DIFFER}

    def __reduce__(self) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"this {name} cannot be copied or pickled, because its environments and workers belong "
            f"to this process: make another {name} with the same arguments; save_checkpoint() and "
            "load_checkpoint() copy the state of this one to it"
        )

    # The end.

    def _require_free(self, name: str) -> None:
        """Raises an error if the method ``name`` cannot be called now, or here."""
        if name == "close_extras":
            return
        if self.closed:
            raise ClosedEnvironmentError(f"{type(self).__name__} was closed")
        if os.getpid() != self._pid and not self._pool.is_local:
            raise RuntimeError(
                f"this {type(self).__name__} belongs to process {self._pid}, and cannot be used in "
                "a fork of it; make another one here"
            )
        if self._pending and name != "step_wait":
            raise AlreadyPendingCallError(
                f"{name}() while a step is under way: call step_wait() first", "step"
            )

    @exclusive
    def close_extras(self, **kwargs: Any) -> None:
        """Closes every environment, except in a forked process, which does not own the workers."""
        if self._pool.is_local or os.getpid() == self._pid:
            self._pool.close()

    def __del__(
        self,
        # Defaults, because modules may be gone when the interpreter exits.
        getpid: Callable[[], int] = os.getpid,
        is_finalizing: Callable[[], bool] = sys.is_finalizing,
    ) -> None:
        """Closes the executor, except in a forked process."""
        if self.closed or self._pid != getpid():
            return
        if self._pool.is_local or not is_finalizing():  # workers end with this process
            try:
                self.close()
            except Exception:
                if not is_finalizing():
                    raise


@dataclasses.dataclass
class BlockOutcome:
    """What a function of `MetaVectorEnv.map_blocks` leaves in a block.

    Attributes:
        result: What the function returned.
        due: A mask of the block's environments that are due for a reset.
        names: The name of each environment's task.
        first_seeds: A seed for the first reset of each environment; ``None`` if it was reset.
    """

    result: Any
    due: NDArray[np.bool_]
    names: list[Any]
    first_seeds: Sequence[int | None]


def _call_in_block(
    carried: BlockFunction | bytes,
    autoreset: bool,
    first_seeds: Mapping[int, int | None],
    block: EnvBlock,
    rows: range,
    due: NDArray[np.bool_],
    logs: list[ReplayLog],
) -> BlockOutcome:
    """Calls a function of `MetaVectorEnv.map_blocks` with the environments of a block.

    Args:
        carried: The function, or its pickle.
        autoreset: Whether environments reset themselves, if the mode is not DISABLED.
        first_seeds: Seeds for the first reset of environments, by their rows.
        block: The block, which its owner closes.
        rows: The rows of its environments.
        due: A mask of environments that are due for a reset.
        logs: The logs of the environments, to go on with if there is a journal.
    """
    n = len(rows)
    settings = dataclasses.replace(block.settings, meta_batch_size=n, envs_per_task=1, unify=None)
    pool = BorrowedPool(block, n, settings)
    envs = MetaVectorEnv._borrow(pool, settings, rows.start, autoreset, block.columns)
    pool.due[...] = due
    if first_seeds:
        envs._first_seeds = [first_seeds[i] for i in rows]
    if settings.journal:
        pool.logs = logs
    function = pickle.loads(carried) if isinstance(carried, bytes) else carried
    try:
        result = function(envs, slice(rows.start, rows.stop))
        return BlockOutcome(result, pool.due, block.names, envs._first_seeds or [None] * n)
    finally:
        pool.settle()
        envs.closed = True  # what would be done with it later is in no journal
