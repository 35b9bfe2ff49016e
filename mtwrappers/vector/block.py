"""A block of environments that are stepped one after another, with autoreset.

All executors step blocks: a single one in this process, or one in each worker.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from mtwrappers.common.checks import construct_env
from mtwrappers.common.errors import with_place
from mtwrappers.state.env_state import get_state, guard, require_kept, set_state
from mtwrappers.state.plain_data import copied
from mtwrappers.vector.buffers import Buffers, Info, InfoColumns, InfoSchema, ObsLayout
from mtwrappers.vector.journal import (
    Answer,
    EachCall,
    ReplayLog,
    find_call,
    fingerprint,
    replay,
    require_same,
)
from mtwrappers.vector.settings import Maker, Settings

# Commands after whose failure environments must be reset.
_RESET_AFTER = ("reset", "step", "apply", "set_states")


class _Rows:
    """Environments with their last observation and info, step count, and task name."""

    def __init__(self, makers: Sequence[Maker], offset: int) -> None:
        self.offset = offset
        self.envs: list[gymnasium.Env[Any, Any]] = []
        n = len(makers)
        self.obs: list[Any] = [None] * n
        self.infos: list[Info] = [{}] * n
        self.elapsed = [0] * n
        self.names: list[Any] = [None] * n
        self._closed = False
        made: dict[int, int] = {}
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for i, maker in enumerate(makers, offset):
                env = construct_env(maker, f"environment {i}")
                if (other := made.setdefault(id(env), i)) != i:
                    raise ValueError(
                        f"the constructors of environments {other} and {i} return the same "
                        "environment: each must make a new one"
                    )
                self.envs.append(env)
            undo.pop_all()

    def describe(self, i: int) -> str:
        """The name of environment ``i`` for messages."""
        task = f", task {self.names[i]!r}" if self.names[i] is not None else ""
        return f"environment {self.offset + i}{task}"

    def close(self) -> None:
        """Closes every environment, then raises the last exception, if there were any."""
        if self._closed:
            return
        self._closed = True
        failure: Exception | None = None
        for i, env in enumerate(self.envs, self.offset):
            try:
                env.close()
            except Exception as exc:
                failure = with_place(exc, self.describe(i - self.offset))
        if failure is not None:
            raise failure


class EnvBlock:
    """Environments ``offset`` to ``offset + n - 1`` of a vector environment.

    It owns their state: whose episode has ended, which are paused, and what each has returned.
    Rewards, flags, fixed observations and usual infos are written into buffers. Every public method
    is a command; `handle` calls them by name.

    Args:
        makers: Returns a constructor for each environment.
        offset: The index of the first environment, for errors.
        settings: The settings of the executor.
    """

    def __init__(
        self,
        makers: Callable[[], Sequence[Maker]],
        offset: int,
        settings: Settings,
    ) -> None:
        self._makers, self.offset, self.settings = makers, offset, settings
        self.logged = logged = settings.journal
        self.same_step = settings.autoreset_mode is AutoresetMode.SAME_STEP
        self._next_step = settings.autoreset_mode is AutoresetMode.NEXT_STEP
        # Replaces a TimeLimit, without the cost of a wrapper.
        self._limit = settings.max_path_length or sys.maxsize
        self.beat: Callable[[], object] = lambda: None  # called now and then while it works
        self._states: dict[int, Any] = {}
        self.made: list[str | None] = []  # of the last call, see `Answer`
        self.apply_logs: Sequence[ReplayLog] | None = None  # of a function that has raised
        self._spare: tuple[_Rows, bytes] | None = None
        self.columns: InfoColumns | None = None
        self.buffers: Buffers
        self._layout: ObsLayout
        self._rows = self._built()
        if logged:
            self._require_states()

    @property
    def envs(self) -> list[gymnasium.Env[Any, Any]]:
        """The environments."""
        return self._rows.envs

    def traits(self) -> Answer:
        """The spaces of each environment, and metadata and render mode of the first."""
        envs = self.envs
        spaces = [(env.observation_space, env.action_space) for env in envs]
        return Answer((spaces, envs[0].metadata, envs[0].render_mode))

    def handle(self, name: str, arguments: tuple[Any, ...]) -> Answer:
        """Runs a command, and returns its answer, with the failure if it raised."""
        try:
            answer: Answer = getattr(self, name)(*arguments)
        except Exception as exc:
            return self.failed(name, exc)
        return answer

    def failed(self, name: str, exc: BaseException) -> Answer:
        """The answer to a command that raised."""
        states = self._all_states() if name in _RESET_AFTER else {}
        text = "".join(traceback.format_exception(exc))
        logs, self.apply_logs = self.apply_logs, None
        return Answer(
            logs,
            states=states,
            made=self.made,
            failure=(exc, text),
        )

    def _all_states(self) -> dict[int, Any]:
        """The state of each environment, for the journal."""
        return {i: get_state(env) for i, env in enumerate(self.envs)} if self.logged else {}

    def _require_states(self) -> None:
        """Raises an error if the state of a new environment cannot be read."""
        i = 0
        try:
            for i in range(len(self.envs)):
                get_state(self.envs[i])
        except Exception as exc:
            with contextlib.suppress(Exception):
                self._rows.close()
            self._fail(exc, i)

    def _built(self) -> _Rows:
        """Builds new environments."""
        rows = _Rows(self._makers(), self.offset)
        if self.logged:  # the arguments of their resets may come from a file
            for env in rows.envs:
                guard(env)
        return rows

    # The commands.

    def wrap(self, wrap: Callable[[Any], Any]) -> Answer:
        """Wraps every environment, now and whenever they are built again."""
        makers = self._makers
        self._makers = lambda: [functools.partial(_wrapped, wrap, make) for make in makers()]
        for i, env in enumerate(self._rows.envs):
            try:
                self._rows.envs[i] = wrap(env)
            except Exception as exc:
                self._fail(exc, i)
        return Answer()

    def connect(self, layout: ObsLayout, buffers: Buffers) -> Answer:
        """Sets the buffers for results, with a row for each environment."""
        self._layout, self.buffers = layout, buffers
        # Assigns a single number in half of NumPy's time, and raises TypeError for anything else.
        self._rewards: Any = buffers.rewards.data
        return Answer()

    def use_columns(self, schema: InfoSchema) -> Answer:
        """Sets which infos go through the buffers."""
        self.columns = InfoColumns(schema, self.buffers)
        return Answer()

    def autoreset(self, active: bool) -> Answer:
        """Switches the autoreset of mode SAME_STEP on or off."""
        self.same_step = active and self.settings.autoreset_mode is AutoresetMode.SAME_STEP
        return Answer()

    def reset(
        self,
        seeds: Sequence[int | None],
        options: Sequence[dict[str, Any] | None],
        mask: Sequence[bool],
    ) -> Answer:
        """Resets the environments in ``mask``, each with its seed and options."""
        self._states = {}
        infos: list[Info | None] = [None] * len(mask)
        i = 0
        try:
            for i in range(len(mask)):
                if mask[i]:
                    given = copied(options[i]) if self.logged else options[i]
                    infos[i] = self._reset_one(i, seed=seeds[i], options=given)
        except Exception as exc:
            self._fail(exc, i)
        return Answer(infos=infos, objects=self._write_obs(), states=self._states)

    def step(self, actions: Any) -> Answer:
        """Steps every environment that is not paused; ``actions`` has one for each."""
        self._states = {}
        finals: list[tuple[int, Any, Info]] = []
        rows, buffers, limit = self._rows, self.buffers, self._limit
        obs, infos, elapsed = rows.obs, rows.infos, rows.elapsed
        rewards, paused = self._rewards, buffers.paused.tolist()
        # The environments that are not stepped: paused ones, and those that NEXT_STEP resets.
        left = (buffers.paused | buffers.finished).tolist() if self._next_step else paused
        buffers.terminated.fill(False)
        buffers.truncated.fill(False)
        i = 0
        try:
            for i, (env, action) in enumerate(zip(rows.envs, actions, strict=True)):
                if left[i]:
                    if not paused[i]:
                        self._reset_one(i)
                    rewards[i] = 0.0
                    continue
                result = env.step(action)
                try:
                    obs[i], reward, terminated, truncated, infos[i] = result
                    rewards[i] = reward
                except (TypeError, ValueError) as exc:
                    raise _not_a_step(result) from exc
                elapsed[i] = steps = elapsed[i] + 1
                if terminated is not False or truncated is not False or steps >= limit:
                    self._end_step(i, terminated, truncated, finals)
        except Exception as exc:
            self._fail(exc, i)
        objects = self._write_obs()
        if self.logged:
            self._hash_step(paused)
        in_columns = self.columns is not None and self.columns.write(infos)
        each = None if in_columns else self._checked_infos()
        return Answer(None, each, objects, tuple(finals), self._states)

    def _end_step(
        self, i: int, terminated: Any, truncated: Any, finals: list[tuple[int, Any, Info]]
    ) -> None:
        """Records the end of an episode; begins the next one if the mode is SAME_STEP."""
        rows, buffers = self._rows, self.buffers
        ended = _flag(terminated, "terminated")
        cut = _flag(truncated, "truncated") or rows.elapsed[i] >= self._limit
        buffers.terminated[i], buffers.truncated[i] = ended, cut
        buffers.finished[i] = ended or cut
        if (ended or cut) and self.same_step:
            info = rows.infos[i]
            _require_info(info)
            # Copies, because an environment may reuse its arrays in the reset.
            seen = rows.obs[i]
            last = seen.copy() if type(seen) is np.ndarray else copy.deepcopy(seen)
            finals.append((i, last, copied(info)))
            self._reset_one(i)

    def call(self, name: str | Callable[..., Any], each: EachCall) -> Answer:
        """Calls each environment; the result is None for those that are left out."""
        results: list[Any] = [None] * len(each)
        made: list[str | None] = []
        self.made = made
        i = 0
        try:
            for i, env in enumerate(self.envs):
                if (given := each[i]) is None:
                    made.append(None)
                else:
                    # With a journal each gets copies, as in a replay, so that they share nothing.
                    args, kwargs = copied(list(given)) if self.logged else given
                    do, changes = find_call(env, name, args, kwargs)
                    made.append("tried" if changes else None)
                    results[i] = do()
                    made[i] = "call" if changes else None
        except Exception as exc:
            self._fail(exc, i)
        return Answer(results, made=made)

    def apply(self, function: Callable[[EnvBlock], Any]) -> Answer:
        """Calls a function with this block."""
        return Answer(function(self))

    def get_states(self) -> Answer:
        """The state of each environment between two episodes."""
        return Answer([get_state(env) for env in self.envs])

    def set_states(self, logs: Sequence[ReplayLog]) -> Answer:
        """Restores the states with which logs begin; a reset is then due."""
        i = 0
        try:
            for i, env in enumerate(self.envs):
                set_state(env, logs[i].state)
        except Exception as exc:
            self._fail(exc, i)
        return Answer(states={i: log.state for i, log in enumerate(logs)})

    def require_kept(self, targets: Sequence[Sequence[str]]) -> Answer:
        """Raises an error if an environment was called, and no state has what this has changed.

        Args:
            targets: For each environment, the names of methods and attributes that were called.
        """
        i = 0
        try:
            for i, env in enumerate(self.envs):
                for name in targets[i]:
                    require_kept(env, name)
        except Exception as exc:
            self._fail(exc, i)
        return Answer()

    def replay(self, logs: Sequence[ReplayLog]) -> Answer:
        """Brings new environments to the state of others by a replay, and checks the result."""
        i, rows = 0, self._rows
        try:
            for i, (env, log) in enumerate(zip(self.envs, logs, strict=True)):
                at = replay(env, log, self._limit, self.beat)
                rows.obs[i], rows.infos[i], rows.elapsed[i], rows.names[i] = at[:4]
                self.buffers.finished[i], self.buffers.digests[i] = at.finished, at.digest
                require_same(log, at.digest)
        except Exception as exc:
            self._fail(exc, i)
        return Answer()

    def restore(self, logs: Sequence[ReplayLog]) -> Answer:
        """Builds new environments and replays logs in them; `keep` accepts or drops them."""
        before = self._rows, self.buffers.pack(())
        self._rows = self._built()
        self._spare = before
        return self.replay(logs)

    def keep(self, restored: bool) -> Answer:
        """Closes the environments from before `restore`, or the ones that it has built."""
        if self._spare is not None:
            (rows, written), self._spare = self._spare, None
            if not restored:
                rows, self._rows = self._rows, rows
                self.buffers.unpack(written, ())
            rows.close()
        return Answer()

    def close(self) -> Answer:
        """Closes every environment, then raises the last exception, if there were any."""
        self._rows.close()
        return Answer()

    def _reset_one(self, i: int, **arguments: Any) -> Info:
        """Resets one environment, and returns its info."""
        rows = self._rows
        env = rows.envs[i]
        if self.logged:
            self._states[i] = get_state(env)
        result = env.reset(**arguments)
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise TypeError(f"expected (observation, info dict) from reset(), got {result!r}")
        obs, info = result
        rows.obs[i], rows.infos[i] = obs, info
        rows.elapsed[i], self.buffers.finished[i] = 0, False
        rows.names[i] = info.get("task_name")
        if self.logged:
            self.buffers.digests[i] = fingerprint(0, obs, info)
        return info

    def _hash_step(self, paused: Sequence[bool]) -> None:
        """Hashes the results of environments that were stepped, and not reset since.

        It hashes all in one loop, which makes better use of the processor's caches.
        """
        buffers, rows, i = self.buffers, self._rows, 0
        numbers = buffers.digests, buffers.rewards, buffers.terminated, buffers.truncated
        digests, *others = [array.tolist() for array in numbers]
        returned = zip(digests, rows.obs, *others, rows.infos, strict=True)
        try:
            for i, parts in enumerate(returned):
                if not paused[i] and i not in self._states:
                    buffers.digests[i] = fingerprint(*parts)
        except Exception as exc:
            self._fail(exc, i)

    def _write_obs(self) -> list[Any] | None:
        """Writes the last observations of all environments; returns them if they are not arrays."""
        layout, obs = self._layout, self._rows.obs
        try:
            layout.write(self.buffers.obs, 0, obs)
        except Exception:  # an observation of any class may refuse to be an array in any way
            for i, row in enumerate(obs):  # finds the environment that caused it
                try:
                    layout.write(self.buffers.obs, i, [row])
                except Exception as exc:
                    self._fail(exc, i)
        return None if layout.fixed else obs

    def _checked_infos(self) -> list[Info]:
        """The infos of the last step, all of which are dicts."""
        i = 0
        try:
            for i in range(len(self._rows.infos)):
                _require_info(self._rows.infos[i])
        except TypeError as exc:
            self._fail(exc, i)
        return self._rows.infos

    def _fail(self, exc: Exception, i: int) -> NoReturn:
        raise with_place(exc, self._rows.describe(i))


def _wrapped(wrap: Callable[[Any], Any], make: Maker) -> Any:
    return wrap(make())


def _require_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise TypeError(f"expected an info that is a dict, got {info!r}")


def _not_a_step(result: Any) -> TypeError:
    if isinstance(result, tuple) and len(result) == 5 and result[1] is None:
        return TypeError("expected a reward that is a number, got None")
    return TypeError(
        "expected (observation, reward, terminated, truncated, info) from step(), with a number as "
        f"reward, got {result!r}"
    )


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_, int, np.integer)):
        raise TypeError(f"expected {name} to be a bool, got {value!r}")
    return bool(value)
