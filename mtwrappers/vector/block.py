"""A block of environments that are stepped one after another, with autoreset.

All executors step blocks: a single one in this process, or one in each worker.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete, Space
from gymnasium.vector import AutoresetMode
from numpy.typing import NDArray

from mtwrappers.common.checks import check_reset, construct_env, explain_step
from mtwrappers.common.errors import short, warn_about_close, with_place
from mtwrappers.common.types import AnySpace, Info
from mtwrappers.state.env_state import get_state, guard, require_identity, set_state
from mtwrappers.state.plain_data import copied, copied_if_possible
from mtwrappers.vector.buffers import Buffers, InfoColumns, InfoSchema, ObsLayout
from mtwrappers.vector.calls import Call, EachCall, class_without_state, find_call
from mtwrappers.vector.journal import ReplayLog, ResetEntry, StepEntry, fingerprint
from mtwrappers.vector.settings import Maker, Settings

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class BlockTraits:
    """The properties of a block's environments that an executor has to know.

    Attributes:
        spaces: The observation and the action space of each environment.
        metadata: The metadata of the first.
        render_mode: The render mode of the first.
    """

    spaces: Sequence[tuple[Space[Any], Space[Any]]]
    metadata: dict[str, Any]
    render_mode: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class FinalStep:
    """The end of an episode after which its environment has reset itself, in the mode SAME_STEP.

    Attributes:
        index: The place of the environment in its block.
        obs: The last observation of the episode.
        info: The last info of the episode.
    """

    index: int
    obs: Any
    info: Info


@dataclasses.dataclass(frozen=True, slots=True)
class BlockResult:
    """The results of a step or reset that are not in the buffers.

    Attributes:
        infos: The info of each environment, or None for one that was left out; None if all infos
            are in the buffers.
        final_steps: The ends of episodes.
        observations: The observation of each environment if they are not arrays, else None.
    """

    infos: Sequence[Info | None] | None
    final_steps: Sequence[FinalStep] = ()
    observations: list[Any] | None = None


@dataclasses.dataclass(frozen=True)
class CallOutcome:
    """What a call of an environment may have changed; see `mtwrappers.vector.calls.Call`."""

    raised: bool
    without_state: str


class EnvBlock:
    """Environments ``offset`` to ``offset + n - 1`` of a vector environment.

    It owns their state: whose episode has ended, which are paused, and what each has returned.
    Rewards, flags, fixed observations and usual infos are written into buffers. The methods below
    `beat` are what the commands of `mtwrappers.vector.commands` call.

    Args:
        makers: Returns a constructor for each environment.
        offset: The index of the first environment, for errors.
        settings: The settings of the executor.
        memory: The descriptor of the memory that workers share; -1 if there is none.
        wrap: Wraps each environment.
    """

    def __init__(
        self,
        makers: Callable[[], Sequence[Maker]],
        offset: int,
        settings: Settings,
        memory: int = -1,
        wrap: Callable[[Any], Any] = lambda env: env,
    ) -> None:
        self._makers, self.offset, self.settings = makers, offset, settings
        self._memory, self._wrap = memory, wrap
        self._logged = settings.journal
        self._same_step = settings.autoreset_mode is AutoresetMode.SAME_STEP
        self._next_step = settings.autoreset_mode is AutoresetMode.NEXT_STEP
        # Replaces a TimeLimit, without the cost of a wrapper.
        self._limit = settings.max_path_length or sys.maxsize
        self.notes: Any = None  # of the current command, for the journal
        self._prepared: EnvBlock | None = None  # by `prepare`
        # Environments that are to be closed, with their places, once that has begun.
        self._unclosed: list[tuple[int, gymnasium.Env[Any, Any]]] | None = None
        self.columns: InfoColumns | None = None
        self.buffers: Buffers
        self._layout: ObsLayout
        self._build()

    def _build(self) -> None:
        """Builds new environments."""
        makers = self._makers()
        n = len(makers)
        self.envs: list[gymnasium.Env[Any, Any]] = []
        # Of each, the last observation and info, the steps of the episode, and the task's name.
        self._obs: list[Any] = [None] * n
        self._infos: list[Info] = [{}] * n
        self._elapsed = [0] * n
        self.names: list[Any] = [None] * n
        index_by_id: dict[int, int] = {}
        try:
            for i, maker in enumerate(makers, self.offset):
                env = construct_env(maker, f"environment {i}")
                # Also in different wrappers.
                if (first := index_by_id.setdefault(id(env.unwrapped), i)) != i:
                    raise ValueError(
                        f"the constructors of environments {first} and {i} return the same "
                        "environment: each must make a new one"
                    )
                self.envs.append(env)
            if self._logged:
                # The arguments of resets may come from a file.
                self._map_envs(lambda i, env: guard(env))
                self.get_states()  # an error at once if one cannot be read
            self.envs = self._map_envs(lambda i, env: self._wrap(env))
        except BaseException:
            with contextlib.suppress(Exception):
                self.close()
            raise

    def _map_envs(self, do: Callable[[int, gymnasium.Env[Any, Any]], T]) -> list[T]:
        """Calls a function with the place of each environment and the environment."""
        results, i = [], 0
        try:
            for i, env in enumerate(self.envs):
                results.append(do(i, env))
        except Exception as exc:
            self._fail(exc, i)
        return results

    def beat(self) -> None:
        """Gives a sign of life, as often as it is called."""
        self.buffers.beats.fill(time.monotonic())

    # What commands call.

    def traits(self) -> BlockTraits:
        """The spaces of each environment, and metadata and render mode of the first."""
        first_env = self.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in self.envs]
        return BlockTraits(spaces, first_env.metadata, first_env.render_mode)

    def wrap(self, wrap: Callable[[Any], Any]) -> None:
        """Wraps every environment, now and whenever they are built again."""
        self._wrap = wrap
        self.envs = self._map_envs(lambda i, env: wrap(env))

    def connect(self, rows: range, n: int) -> None:
        """Makes the buffers for results.

        Args:
            rows: The rows of the environments, among ``n`` in shared memory.
            n: The number of all environments.
        """
        shared = self._memory >= 0
        self._layout = ObsLayout(self.envs[0].observation_space, n if shared else len(rows))
        self.buffers = Buffers(self._layout, self._memory)
        if shared:
            self.buffers = self.buffers.part(slice(rows.start, rows.stop))
        self.actions_shape = (len(rows), *(self.envs[0].action_space.shape or ()))

    def use_columns(self, schema: InfoSchema) -> None:
        """Sets which infos go through the buffers."""
        self.columns = InfoColumns(schema, self.buffers)

    def reset(
        self,
        seeds: Sequence[int | None],
        options: Sequence[dict[str, Any] | None],
        mask: Sequence[bool],
    ) -> BlockResult:
        """Resets the environments in ``mask``, each with its seed and options."""
        self.notes = {}
        self.buffers.paused[[*mask]] = False

        def reset(i: int, env: gymnasium.Env[Any, Any]) -> Info | None:
            # An environment may change its options, which belong to the caller and to all others.
            options_copy = copied(options[i], copied_if_possible)
            return self._reset_one(i, seeds[i], options_copy) if mask[i] else None

        infos = self._map_envs(reset)
        return BlockResult(infos, observations=self._write_obs())

    def pause(self, mask: NDArray[np.bool_]) -> None:
        """Pauses the environments in a mask, and resumes all others."""
        self.buffers.paused[...] = mask

    def step(self, actions: Any, autoreset: bool, schema: InfoSchema | None) -> BlockResult | None:
        """Steps every environment that is not paused.

        Args:
            actions: An action for each.
            autoreset: Whether environments reset themselves, if the mode is SAME_STEP.
            schema: That of the infos that are read from the buffers; None for none.

        Returns:
            None if all is in the buffers.
        """
        self.notes = {}
        if self._logged:  # an environment may change its action, which belongs to the journal
            actions = copied(actions, copied_if_possible)
        final_steps: list[FinalStep] = []
        buffers, limit = self.buffers, self._limit
        obs, infos, elapsed = self._obs, self._infos, self._elapsed
        # Assigns a single number in half of NumPy's time, and raises TypeError for anything else.
        rewards: Any = buffers.rewards.data
        paused = buffers.paused.tolist()
        # The environments that are not stepped: paused ones, and those that NEXT_STEP resets.
        skipped = (buffers.paused | buffers.finished).tolist() if self._next_step else paused
        buffers.terminated.fill(False)
        buffers.truncated.fill(False)
        i = 0
        try:
            for i, (env, action) in enumerate(zip(self.envs, actions, strict=True)):
                if skipped[i]:
                    if not paused[i]:
                        self._reset_one(i)
                    rewards[i] = 0.0
                    continue
                result = env.step(action)
                try:
                    obs[i], reward, terminated, truncated, infos[i] = result
                    rewards[i] = reward
                except (TypeError, ValueError) as exc:
                    raise explain_step(result) from exc
                steps = elapsed[i] + 1
                elapsed[i] = steps
                if terminated is not False or truncated is not False or steps >= limit:
                    terminated = _flag(terminated, "terminated")
                    buffers.terminated[i] = terminated
                    truncated = _flag(truncated, "truncated") or steps >= limit
                    buffers.truncated[i] = truncated
                    finished = terminated or truncated
                    buffers.finished[i] = finished
                    if finished and self._same_step and autoreset:
                        final_steps.append(self._copy_final_step(i))
                        self._reset_one(i)
        except Exception as exc:
            _hint_at_dtype(exc, self.envs[i].action_space, actions)
            self._fail(exc, i)
        observations = self._write_obs()
        if self._logged:
            self._hash_step(paused)
        columns = self.columns
        in_columns = columns is not None and schema is not None and columns.schema == schema
        if columns is None or not in_columns or not columns.write(infos):
            self._map_envs(lambda i, env: _require_info(infos[i]))
            return BlockResult(infos, final_steps, observations)
        if final_steps or observations:
            return BlockResult(None, final_steps, observations)
        return None

    def call(self, name: str | Callable[..., Any], arguments: EachCall) -> list[Any]:
        """Calls each environment; the result is None for those that are left out."""
        self.notes = {}
        return self._map_envs(lambda i, env: self._call_one(i, env, name, arguments[i]))

    def apply(
        self,
        function: Callable[[EnvBlock, range, NDArray[np.bool_], list[Any]], Any],
        rows: range,
        due: NDArray[np.bool_],
        logs: list[Any],
    ) -> Any:
        """Calls a function with this block.

        Args:
            function: Takes the block, rows, environments that are due, and logs.
            rows: The rows of its environments.
            due: A mask of environments that are due for a reset.
            logs: The log of each environment, which the function replaces as it goes on, if there
                is a journal.
        """
        columns = self.columns
        try:
            return function(self, rows, due, logs)
        finally:
            self.columns = columns

    def get_states(self) -> list[Any]:
        """The state of each environment between two episodes."""
        return self._map_envs(lambda i, env: get_state(env))

    def set_states(self, states: Sequence[Any]) -> None:
        """Restores the state of each environment; a reset is then due."""
        self._map_envs(lambda i, env: set_state(env, states[i]))

    def replay(self, logs: Sequence[ReplayLog], paused: NDArray[np.bool_]) -> None:
        """Brings new environments to the state of others by a replay, and checks the result."""
        self.notes = {}  # of resets that the journal has already
        self._map_envs(lambda i, env: self._replay_one(i, env, logs[i]))
        self.buffers.paused[...] = paused
        self.notes = None

    def prepare(self, logs: Sequence[ReplayLog], paused: NDArray[np.bool_]) -> None:
        """Builds new environments and replays logs in them, until `commit` goes on with them.

        Nothing that is in use changes: they are in a block of their own, with buffers of its own.
        """
        self.drop_prepared()  # of an interrupted call
        block = EnvBlock(self._makers, self.offset, self.settings, wrap=self._wrap)
        self._prepared = block
        try:
            n = len(block.envs)
            block.connect(range(n), n)
            block.buffers.beats = self.buffers.beats  # signs of life are of this block
            block.replay(logs, paused)
        except BaseException:
            self.drop_prepared()
            raise

    @property
    def has_prepared(self) -> bool:
        """Whether there are environments to go on with."""
        return self._prepared is not None

    def commit(self) -> None:
        """Goes on with the environments that were prepared, and closes the others."""
        block, self._prepared = self._prepared, None
        assert block is not None
        envs, buffers = self.envs, block.buffers
        vars(self).update(
            envs=block.envs,
            _obs=block._obs,
            _infos=block._infos,
            _elapsed=block._elapsed,
            names=block.names,
        )
        self.buffers.finished[...] = buffers.finished
        self.buffers.paused[...] = buffers.paused
        self.buffers.digests[...] = buffers.digests
        for i, env in enumerate(envs):
            try:
                env.close()
            except Exception as exc:
                warn_about_close(with_place(exc, self._describe(i)))

    def drop_prepared(self) -> None:
        """Closes the environments that were prepared, if there are any."""
        block, self._prepared = self._prepared, None
        if block is not None:
            try:
                block.close()
            except Exception as exc:
                warn_about_close(exc)

    def close(self) -> None:
        """Closes every environment, then raises the last exception, if there were any."""
        self.drop_prepared()
        if self._unclosed is None:
            self._unclosed = [*enumerate(self.envs)]
        failure: Exception | None = None
        while self._unclosed:
            i, env = self._unclosed.pop(0)
            try:
                env.close()
            except Exception as exc:
                failure = with_place(exc, self._describe(i))
        if failure is not None:
            raise failure

    # Parts of these.

    def _reset_one(
        self, i: int, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> Info:
        """Resets one environment, and returns its info."""
        env = self.envs[i]
        if self._logged:
            self.notes[i] = get_state(env)
        obs, info = check_reset(env.reset(seed=seed, options=options))
        self._obs[i], self._infos[i] = obs, info
        self._elapsed[i], self.buffers.finished[i] = 0, False
        self.names[i] = info.get("task_name")
        if self._logged:
            self.buffers.digests[i] = fingerprint(0, obs, info)
        return info

    def _call_one(
        self,
        i: int,
        env: gymnasium.Env[Any, Any],
        name: str | Callable[..., Any],
        arguments: tuple[tuple[Any, ...], dict[str, Any]] | None,
    ) -> Any:
        """Calls one environment, unless it is left out."""
        if arguments is None:
            return None
        args, kwargs = arguments
        if self._logged:  # an environment may change its arguments, which belong to the journal
            args, kwargs = copied(arguments, copied_if_possible)
        call, changes = find_call(env, name, args, kwargs)
        if not changes:
            return call()
        record = Call(name, args, kwargs)
        without_state = class_without_state(env, record) if self._logged else ""
        if self._logged:
            self.notes[i] = CallOutcome(raised=True, without_state=without_state)
        try:
            result = call()
        except Exception as exc:
            # Some environments raise as little as a missing key, without the task that lacks it.
            if record.is_task_setter:
                tasks = [*map(short, (*args, *kwargs.values()))]
                if not all(task in str(exc) for task in tasks):
                    with_place(exc, f"{name}({', '.join(tasks)})")
            raise
        if self._logged:
            self.notes[i] = CallOutcome(raised=False, without_state=without_state)
        return result

    def _copy_final_step(self, i: int) -> FinalStep:
        """Copies the last observation and info: an environment may reuse both in its reset."""
        obs, info = self._obs[i], self._infos[i]
        _require_info(info)
        obs_copy = obs.copy() if type(obs) is np.ndarray else copy.deepcopy(obs)
        return FinalStep(i, obs_copy, copied(info))

    def _replay_one(self, i: int, env: gymnasium.Env[Any, Any], log: ReplayLog) -> None:
        """Replays a log in a new environment.

        Raises:
            ValueError: If the log is of an environment with other arguments.
            NotDeterministicError: If a call succeeded before and now raises, or the other way
                round, or something else is returned.
        """
        buffers = self.buffers
        buffers.finished[i], buffers.digests[i] = False, 0
        log.require_restorable()
        if log.state is not None:
            require_identity(env, log.state)
            if log.task is not None:
                log.task.repeat(env)
            set_state(env, log.state)
        for entry in log.unpacked():
            self.beat()
            if isinstance(entry, ResetEntry):
                self._reset_one(i, entry.seed, entry.options)
            elif isinstance(entry, StepEntry):
                obs, reward, terminated, truncated, info = env.step(entry.action)
                self._obs[i], self._infos[i] = obs, info
                self._elapsed[i] += 1
                flags = bool(terminated), bool(truncated) or self._elapsed[i] >= self._limit
                buffers.finished[i] = any(flags)
                digest = int(buffers.digests[i])
                buffers.digests[i] = fingerprint(digest, obs, float(reward), *flags, info)
            elif isinstance(entry, Call):
                entry.repeat(env)
        log.require_same(int(buffers.digests[i]))

    def _hash_step(self, paused: Sequence[bool]) -> None:
        """Hashes the results of environments that were stepped, and not reset since.

        It hashes all in one loop, which makes better use of the processor's caches.
        """
        buffers, i = self.buffers, 0
        numbers = buffers.digests, buffers.rewards, buffers.terminated, buffers.truncated
        digests, *values = [array.tolist() for array in numbers]
        results = zip(digests, self._obs, *values, self._infos, strict=True)
        try:
            for i, result in enumerate(results):
                if not paused[i] and i not in self.notes:
                    digests[i] = fingerprint(*result)
        except Exception as exc:
            self._fail(exc, i)
        buffers.digests[...] = digests

    def _write_obs(self) -> list[Any] | None:
        """Writes the last observations of all environments; returns them if they are not arrays."""
        layout, obs = self._layout, self._obs
        if not layout.fixed:
            return obs
        try:
            layout.write(self.buffers.obs, 0, obs)
        except Exception:  # an observation of any class may refuse to be an array in any way
            # This finds the environment that caused it.
            self._map_envs(lambda i, env: layout.write(self.buffers.obs, i, [obs[i]]))
            raise
        return None

    def _describe(self, i: int) -> str:
        """The name of environment ``i`` of the block for messages."""
        return describe_env(self.offset + i, self.names[i])

    def _fail(self, exc: Exception, i: int) -> NoReturn:
        raise with_place(exc, self._describe(i))


def describe_env(index: int, task_name: Any) -> str:
    """The name of an environment for messages, with that of its task unless it is None."""
    return f"environment {index}" + (f", task {task_name!r}" if task_name is not None else "")


def _hint_at_dtype(exc: Exception, space: AnySpace, actions: Any) -> None:
    """Adds a note to what an environment raised if its actions should have been integers."""
    dtype = getattr(actions, "dtype", None)
    if isinstance(space, (Discrete, MultiDiscrete)) and dtype is not None and dtype.kind == "f":
        with_place(
            exc,
            f"actions in {space} must be integers, got {dtype}: convert them with "
            "actions.astype(np.int64)",
        )


def _require_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise TypeError(f"expected an info that is a dict, got {info!r}")


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_, int, np.integer)):
        raise TypeError(f"expected {name} to be a bool, got {value!r}")
    return bool(value)
