"""A block of environments that are stepped one after another, with autoreset.

Both executors step blocks: the iterative one has a single block in its own process, the parallel
one a block in each worker.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode

from mtwrappers.checks import construct_env
from mtwrappers.errors import with_context
from mtwrappers.state import get_state
from mtwrappers.vector.arguments import Maker
from mtwrappers.vector.buffers import Buffers, ObsLayout
from mtwrappers.vector.infos import Info
from mtwrappers.vector.journal import Past, call_env, play_again, require_same

# The arguments of a call for each environment; ``None`` leaves one alone.
EachCall = Sequence[tuple[tuple[Any, ...], dict[str, Any]] | None]


class EnvBlock:
    """Environments ``offset`` to ``offset + n - 1`` of a vector environment.

    Rewards, flags and fixed observations are written into buffers. After `reset` and `step`,
    ``obs`` and ``infos`` hold each environment's last observation and info, ``finals`` the
    environment, last observation and last info of each episode that a SAME_STEP autoreset has
    ended, and ``states`` the state that each environment which was reset had just before, if the
    block keeps a journal.
    """

    def __init__(
        self,
        makers: Sequence[Maker],
        offset: int,
        mode: AutoresetMode,
        max_path_length: int | None = None,
        journal: bool = False,
    ) -> None:
        self.envs: list[gymnasium.Env[Any, Any]] = []
        self.rows = slice(offset, offset + len(makers))
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            for maker in makers:
                self.envs.append(construct_env(maker, f"environment {offset + len(self.envs)}"))
            undo.pop_all()
        self.obs: list[Any] = [None] * len(self.envs)
        self.infos: list[Info] = [{}] * len(self.envs)
        self.finals: list[tuple[int, Any, Info]] = []
        self.states: dict[int, Any] = {}
        self.called = 0  # how many environments the last call has reached
        self.mode, self.max_path_length = mode, max_path_length
        self.journal = journal  # whether there is one, for which ``states`` are kept
        self._over = [False] * len(self.envs)
        # As TimeLimit would, without a wrapper's call in every step.
        self._limit = sys.maxsize if max_path_length is None else max_path_length
        self._elapsed = [0] * len(self.envs)
        self._names: list[Any] = [None] * len(self.envs)

    def traits(self) -> tuple[list[tuple[Any, Any]], dict[str, Any], str | None]:
        """Spaces (observation, action) of each; metadata and render mode of the first."""
        first = self.envs[0]
        spaces = [(env.observation_space, env.action_space) for env in self.envs]
        return spaces, first.metadata, first.render_mode

    def write_to(self, layout: ObsLayout, buffers: Buffers) -> None:
        """Says where results go: into the block's rows of these buffers."""
        self._layout, self._arrays = layout, buffers.obs
        self._rewards = buffers.rewards[self.rows]
        self._terminated = buffers.terminated[self.rows]
        self._truncated = buffers.truncated[self.rows]
        self._resting = buffers.resting[self.rows]

    def reset(
        self,
        seeds: Sequence[int | None],
        options: dict[str, Any] | None,
        mask: Sequence[bool],
    ) -> list[Info | None]:
        """Resets the environments in ``mask``; the info of any other is ``None``."""
        self.finals, self.states = [], {}
        infos: list[Info | None] = [None] * len(self.envs)
        i = 0
        try:
            for i in range(len(self.envs)):
                if mask[i]:
                    self.infos[i] = info = self._reset_one(i, seed=seeds[i], options=options)
                    infos[i] = info
        except Exception as exc:
            self._fail(exc, i)
        self._write_obs()
        return infos

    def step(self, actions: Any) -> None:
        """Steps every environment that does not rest; ``actions`` has one for each."""
        self.finals, self.states = [], {}
        obs, infos, over = self.obs, self.infos, self._over
        same_step = self.mode is AutoresetMode.SAME_STEP
        next_step = self.mode is AutoresetMode.NEXT_STEP
        elapsed, limit = self._elapsed, self._limit
        resting = self._resting.tolist()
        rewards, terminated, truncated = self._rewards, self._terminated, self._truncated
        terminated[:] = truncated[:] = False
        i = 0
        try:
            for i, env in enumerate(self.envs):
                if resting[i]:
                    rewards[i] = 0.0
                    continue
                if next_step and over[i]:
                    infos[i] = self._reset_one(i)
                    rewards[i] = 0.0
                    continue
                result = env.step(actions[i])
                try:
                    obs[i], reward, ended, cut, info = result
                    rewards[i] = reward
                except (TypeError, ValueError) as exc:
                    raise TypeError(
                        "expected (observation, reward, terminated, truncated, info) from step(), "
                        f"with a number as reward, got {result!r}"
                    ) from exc
                if reward is None:  # to NumPy a NaN
                    raise TypeError("expected a reward that is a number, got None")
                elapsed[i] += 1
                if ended is False and cut is False and elapsed[i] < limit:
                    infos[i] = info
                    continue
                terminated[i] = _flag(ended, "terminated")
                truncated[i] = _flag(cut, "truncated") or elapsed[i] >= limit
                over[i] = bool(terminated[i] or truncated[i])
                if over[i] and same_step:
                    _require_info(info)
                    # Copies: an environment may use its arrays again in the reset.
                    seen = obs[i]
                    last = seen.copy() if type(seen) is np.ndarray else copy.deepcopy(seen)
                    self.finals.append((self.rows.start + i, last, _copied(info)))
                    info = self._reset_one(i)
                infos[i] = info
        except Exception as exc:
            self._fail(exc, i)
        self._write_obs()

    def checked_infos(self) -> list[Info]:
        """The infos of the last step, all of which are dicts."""
        i = 0
        try:
            for i in range(len(self.infos)):
                _require_info(self.infos[i])
        except TypeError as exc:
            self._fail(exc, i)
        return self.infos

    def _reset_one(self, i: int, **arguments: Any) -> Info:
        """Resets one environment, and returns its info."""
        if self.journal:
            self.states[self.rows.start + i] = get_state(self.envs[i])
        result = self.envs[i].reset(**arguments)
        if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], dict):
            raise TypeError(f"expected (observation, info dict) from reset(), got {result!r}")
        self.obs[i] = result[0]
        info: Info = result[1]
        self._elapsed[i], self._over[i] = 0, False
        self._names[i] = info.get("task_name")
        return info

    def reached(self, failed: str) -> Any:
        """How far a command has come that failed, for `Journal.note_failure`."""
        return self.called if failed == "call" else [get_state(env) for env in self.envs]

    def replay(self, pasts: Sequence[Past]) -> None:
        """Brings new environments to where others were, and checks that they are there."""
        i = 0
        try:
            for i, (env, past) in enumerate(zip(self.envs, pasts, strict=True)):
                obs, reward, ended, steps = play_again(env, past)
                self._elapsed[i], self._over[i] = steps, ended or steps >= self._limit
                if obs is not None:  # it was reset
                    self.obs[i] = obs
                    row = self.rows.start + i
                    if self._layout.fixed:
                        self._layout.write(self._arrays, row, [obs])
                        obs = [array[row] for array in self._arrays]
                    require_same(past, obs, reward)
        except Exception as exc:
            self._fail(exc, i)

    def _write_obs(self) -> None:
        layout, start = self._layout, self.rows.start
        if not layout.fixed:
            return
        try:
            layout.write(self._arrays, start, self.obs)
        except Exception:  # an observation of any class may refuse to be an array in any way
            for i, row in enumerate(self.obs):  # to find out which it was
                try:
                    layout.write(self._arrays, start + i, [row])
                except Exception as exc:  # noqa: PERF203 (it has failed already)
                    self._fail(exc, i)

    def call(self, name: str | Callable[..., Any], each: EachCall) -> list[Any]:
        """What `call_env` gives of each environment that is not left alone, of which it is None."""
        results: list[Any] = []
        self.states = {}
        i = 0
        try:
            for i, env in enumerate(self.envs):
                self.called = i + 1
                told = each[i]
                results.append(None if told is None else call_env(env, name, *told))
        except Exception as exc:
            self._fail(exc, i)
        return results

    def close(self) -> None:
        """Closes every environment, and raises what the last failing one raised, if any did."""
        with contextlib.ExitStack() as stack:
            for env in self.envs:
                stack.callback(env.close)

    def _fail(self, exc: Exception, i: int) -> NoReturn:
        name = f", task {self._names[i]!r}" if self._names[i] is not None else ""
        raise with_context(exc, f"environment {self.rows.start + i}{name}") from exc


def _require_info(info: Any) -> None:
    if not isinstance(info, dict):
        raise TypeError(f"expected an info that is a dict, got {info!r}")


def _flag(value: Any, name: str) -> bool:
    if not isinstance(value, (bool, np.bool_, int, np.integer)):
        raise TypeError(f"expected {name} to be a bool, got {value!r}")
    return bool(value)


def _copied(value: Any) -> Any:
    """An info with copies of its arrays, however deep; anything else in it stays what it is."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if type(value) is dict:
        return {key: _copied(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_copied(item) for item in value)
    return value
