"""What environments were told since their last resets, from which all that they are follows."""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import gymnasium
import numpy as np
from gymnasium.utils.env_checker import data_equivalence
from numpy.typing import NDArray

from mtwrappers.checks import check_callable
from mtwrappers.errors import NotDeterministicError
from mtwrappers.state import set_state
from mtwrappers.vector.buffers import Buffers

# ("reset", seed, options), ("step", action) or ("call", name, args, kwargs).
Entry = tuple[Any, ...]
# Calls that change nothing, and may cost much.
READS = ("render", "has_wrapper_attr", "get_wrapper_attr")


class Past(NamedTuple):
    """All that it takes to bring a new environment to where another one was."""

    told: list[Entry]  # the calls from before its last reset, the last of each name
    state: Any  # just before that reset (see `mtwrappers.state`); None before the first
    entries: list[Entry]  # that reset, and all that it was told since
    obs: Any  # the last: one array per leaf of its space, or itself where that is no array
    reward: np.float64  # the last

    def to_state(self) -> dict[str, Any]:
        """This as a dict, in which the actions of steps in a row are one array if they can be."""
        entries: list[list[Any]] = []
        for what, some in itertools.groupby(self.entries, key=operator.itemgetter(0)):
            if what == "step":
                actions = [action for _, action in some]
                arrays = isinstance(actions[0], (np.ndarray, np.generic))
                entries.append(["steps", np.stack(actions) if arrays else actions])
            else:
                entries += map(list, some)
        told = [[*entry] for entry in self.told]
        return {**self._asdict(), "told": told, "entries": entries}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Past:
        """What `to_state` made a dict of."""
        entries: list[Entry] = []
        for what, *told in state["entries"]:
            entries += [("step", a) for a in told[0]] if what == "steps" else [(what, *told)]
        told = [tuple(entry) for entry in state["told"]]
        return cls(**{**state, "told": told, "entries": entries})


class Journal:
    """The past of each of ``n`` environments, which write to ``buffers``."""

    def __init__(self, n: int, buffers: Buffers) -> None:
        self._buffers = buffers
        self._arrays: list[NDArray[Any]] = [array.copy() for array in buffers.obs]
        self._objects: list[Any] = [None] * n
        self._rewards = buffers.rewards.copy()
        self._told: list[dict[Any, Entry]] = [{} for _ in range(n)]
        self._states: list[Any] = [None] * n
        self._entries: list[list[Entry]] = [[] for _ in range(n)]

    def note(
        self,
        rows: slice,
        entries: Sequence[Entry | None],
        states: Mapping[int, Any],
        objects: Sequence[Any] | None = None,
    ) -> None:
        """Notes what the environments ``rows`` were told, and have done.

        ``states`` has what those which were reset were just before, by environment, ``objects``
        what ``rows`` show, where observations are not arrays.
        """
        for i, entry in zip(range(rows.start, rows.stop), entries, strict=True):
            if i in states:
                self._begin(i, states[i])
                if entry is None or entry[0] != "reset":  # an autoreset
                    entry = ("reset", None, None)
            if entry is None:
                continue
            if not (entry[0] == "call" and entry[1] in READS):
                self._entries[i].append(entry)
            self._rewards[i] = self._buffers.rewards[i]
        for mine, theirs in zip(self._arrays, self._buffers.obs, strict=True):
            mine[rows] = theirs[rows]
        if objects is not None:
            self._objects[rows] = objects

    def note_failure(
        self, rows: slice, what: str, entries: Sequence[Entry | None], reached: Any
    ) -> None:
        """Notes a command that failed.

        ``reached`` is how many environments a call has reached, which go on. After any other
        command it is the state of each, which must be reset.
        """
        if what == "call":
            self.note(slice(rows.start, rows.start + reached), entries[:reached], {})
            return
        for i, state in enumerate(reached, rows.start):
            self._begin(i, state)

    def pasts(self, rows: slice) -> list[Past]:
        """The past of each of the environments ``rows``."""
        return [
            Past(
                [*self._told[i].values()],
                self._states[i],
                self._entries[i],
                [array[i].copy() for array in self._arrays] or self._objects[i],
                self._rewards[i],
            )
            for i in range(rows.start, rows.stop)
        ]

    def take(self, pasts: Sequence[Past], first: int = 0) -> None:
        """Goes on from pasts of the environments from ``first`` on, which they have played."""
        for i, past in enumerate(pasts, first):
            self._told[i], self._entries[i] = {}, [*past.told]
            self._begin(i, past.state)
            self._entries[i] = [*past.entries]
            # The next call or reset of others is noted together with what the buffers hold.
            self._rewards[i] = self._buffers.rewards[i] = past.reward
            if not self._arrays:
                self._objects[i] = past.obs
            for array, obs in zip(self._arrays, past.obs if self._arrays else [], strict=True):
                array[i] = obs

    def _begin(self, i: int, state: Any) -> None:
        """Forgets an environment's episode, but for what it was called with."""
        told = self._told[i]
        for entry in self._entries[i]:
            if entry[0] == "call":
                name, args = entry[1], entry[2]
                key = name if isinstance(name, str) else getattr(name, "__qualname__", type(name))
                if name == "set_wrapper_attr":
                    key = name, args[0]
                told.pop(key, None)  # so that it is the last
                told[key] = entry
        self._states[i], self._entries[i] = state, []


def steps_of(actions: Iterable[Any], resting: NDArray[np.bool_]) -> list[Entry | None]:
    """What a step tells each environment."""
    both = zip(actions, resting.tolist(), strict=True)
    return [None if rests else ("step", action) for action, rests in both]


def call_env(
    env: gymnasium.Env[Any, Any],
    name: str | Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Calls a function of an environment, or its method of this name, or reads the attribute."""
    if not isinstance(name, str):
        return check_callable(name, "a name that is no string")(env, *args, **kwargs)
    value = env.get_wrapper_attr(name)
    return value(*args, **kwargs) if callable(value) else value


def play_again(env: gymnasium.Env[Any, Any], past: Past) -> tuple[Any, Any, bool, int]:
    """Tells a new environment all that another one was told.

    Returns its last observation and reward (``None`` after a reset), whether its episode is over,
    and how many steps that has had.
    """
    obs = reward = None
    ended, steps = False, 0
    if past.state is not None:
        for _, *call in past.told:
            with contextlib.suppress(Exception):  # as it may have raised the first time
                call_env(env, *call)
        set_state(env, past.state)
    for what, *told in past.entries:
        if what == "reset":
            obs, _ = env.reset(seed=told[0], options=told[1])
            reward, ended, steps = None, False, 0
        elif what == "step":
            obs, reward, terminated, truncated, _ = env.step(told[0])
            ended, steps = bool(terminated or truncated), steps + 1
        else:
            with contextlib.suppress(Exception):
                call_env(env, *told)
    return obs, reward, ended, steps


def require_same(past: Past, obs: Any, reward: Any) -> None:
    """Raises `NotDeterministicError` if a replay did not end where the environment was before."""
    if isinstance(past.obs, list):
        same = all(a.tobytes() == b.tobytes() for a, b in zip(obs, past.obs, strict=True))
    else:
        same = data_equivalence(obs, past.obs)
    if same and (reward is None or np.float64(reward).tobytes() == past.reward.tobytes()):
        return
    raise NotDeterministicError(
        f"this environment is not deterministic: from the state of its last reset and told the "
        f"same {len(past.entries)} things again, it shows {obs} with reward {reward}, and showed "
        f"{past.obs} with reward {past.reward}; all that it draws must come from np_random, and "
        "all else that it keeps from one episode to the next must be in its get_state() and "
        "set_state()"
    )
