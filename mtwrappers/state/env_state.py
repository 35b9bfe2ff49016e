"""The state of an environment between two episodes, layer by layer.

A layer (a wrapper, or the environment at the bottom) can define its state by the methods
``get_state() -> dict`` and ``set_state(dict)``, with JSON values, tuples and arrays. Otherwise, the
state of

- an environment is its random generator ``np_random``, which is all that Gymnasium's own
  environments keep from one episode to the next;
- a wrapper of Gymnasium, or of a package in `mtwrappers.state.packages`, is what it keeps from one
  episode to the next: statistics, counts and tasks, but not recorded frames;
- a subclass of `identity.WATCHERS`, such as a recorder of videos, is what Gymnasium's own keeps;
- any other wrapper is its attributes of plain data: ``None``, bools, numbers, texts, arrays,
  `numpy.random.Generator`, `RunningMeanStd`, and lists, tuples, deques and dicts of these.
  Functions, classes, modules and spaces are taken as constant. Anything else is an error.

Each state comes with the `identity` of its layer, which has to be that of the layer that takes it.

States are copied when they are returned and when they are set. A state may come from an untrusted
file, of which nothing is run.
"""

from __future__ import annotations

import copy
import functools
import inspect
import time
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import gymnasium
from gymnasium import wrappers
from gymnasium.vector import VectorEnv, VectorWrapper
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers.state import packages
from mtwrappers.state.identity import WATCHERS, identity_of, require_same
from mtwrappers.state.plain_data import copied, restored, snapshot

# The class of a layer, its identity, and its state.
Layers = list[tuple[str, dict[str, Any], Any]]

_STATISTICS = ("episode_count", "time_queue", "return_queue", "length_queue")
# The attributes that wrappers of Gymnasium keep from one episode to the next. Vector environments
# are saved in mid-episode, so all of their wrappers' attributes are listed.
_OF_GYMNASIUM: dict[type[Any], tuple[str, ...]] = {
    wrappers.MaxAndSkipObservation: ("_obs_buffer",),  # which a short first step does not fill
    wrappers.NormalizeObservation: ("obs_rms", "_update_running_mean"),
    wrappers.NormalizeReward: ("return_rms", "discounted_reward", "_update_running_mean"),
    wrappers.RecordEpisodeStatistics: _STATISTICS,
    wrappers.RecordVideo: ("step_id", "episode_id"),
    vector_wrappers.NormalizeObservation: ("obs_rms", "_update_running_mean"),
    vector_wrappers.NormalizeReward: (
        *("return_rms", "accumulated_reward", "_prev_dones", "_update_running_mean"),
    ),
    vector_wrappers.RecordEpisodeStatistics: (
        *_STATISTICS,
        *("episode_start_times", "episode_returns", "episode_lengths", "prev_dones"),
    ),
}
if hasattr(vector_wrappers, "RecordVideo"):  # later than Gymnasium 1.2
    _OF_GYMNASIUM[vector_wrappers.RecordVideo] = ("step_id", "episode_id", "has_autoreset")
# Packages whose other wrappers keep nothing.
_KNOWN = ("gymnasium", "mtwrappers", *packages.KNOWN_BY)
# What every wrapper has.
_COMMON = {
    *vars(gymnasium.Wrapper(gymnasium.Env())),
    *vars(VectorWrapper(VectorEnv())),
    *("_saved_kwargs", "_arguments"),
}
_CLOCKS = {"episode_start_times"}  # stored as time elapsed, because clocks differ by process


def get_state(env: Any, *, between_episodes: bool = False) -> Layers:
    """The state of each layer that has one, the outermost first.

    Args:
        env: An environment or a vector environment, in any wrappers.
        between_episodes: Whether to leave the current episodes of a vector environment out; a reset
            is then due after `set_state`.

    Raises:
        TypeError: If a wrapper has an attribute that is not plain data, or a vector environment has
            no ``get_state`` of its own.

    >>> import gymnasium
    >>> from mtwrappers.state.env_state import get_state, set_state
    >>> env, other = gymnasium.make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
    >>> obs, info = env.reset(seed=0)
    >>> set_state(other, get_state(env))
    >>> (other.reset()[0] == env.reset()[0]).tolist()
    [True, True, True]
    """
    chain = _chain(env)
    found: Layers = []
    for name, layer, keeps in _layers(chain):
        if keeps is not None:
            state = keeps.read(layer, chain)
        else:
            options = {"between_episodes": True} if between_episodes and layer is chain[-1] else {}
            state = copied(layer.get_state(**options), copy.deepcopy)
        found.append((name, _identity(layer, keeps, chain), state))
    return found


def set_state(env: Any, state: Layers) -> None:
    """Restores the state that `get_state` returned; the next reset continues from it.

    Args:
        env: An environment or a vector environment of the same layers.
        state: The result of `get_state`, possibly from a file: nothing in it is run.

    Raises:
        TypeError: If a vector environment has no ``set_state`` of its own.
        ValueError: If ``state`` belongs to other layers, or to layers that were made with other
            arguments; the message names each argument.

    >>> import gymnasium
    >>> from mtwrappers.state.env_state import get_state, set_state
    >>> env = gymnasium.make("Pendulum-v1")
    >>> obs, info = env.reset(seed=0)
    >>> state = get_state(env)
    >>> first, _ = env.reset()
    >>> set_state(env, state)
    >>> again, _ = env.reset()
    >>> (first == again).tolist()
    [True, True, True]
    """
    guard(env)
    require_identity(env, state)
    layers = list(_layers(_chain(env)))
    # The environment at the bottom comes first, because wrappers may read from it.
    for (_, layer, keeps), (_, _, kept) in reversed(list(zip(layers, state, strict=True))):
        if keeps is None:
            layer.set_state(copied(kept, copy.deepcopy))
        else:
            keeps.write(layer, kept)


def require_identity(env: Any, state: Layers) -> None:
    """Raises `ValueError` unless a state belongs to an environment of these layers and arguments.

    It is part of `set_state`. The arguments are those of `mtwrappers.state.identity`.
    """
    chain = _chain(env)
    layers = list(_layers(chain))
    expected, found = [name for name, _, _ in layers], [name for name, _, _ in state]
    if found != expected:
        raise ValueError(f"expected the state of {expected}, got one of {found}")
    for (_, layer, keeps), (_, identity, _) in zip(layers, state, strict=True):
        require_same(_identity(layer, keeps, chain), identity, type(layer).__name__)


def saves_changes(env: Any, name: str) -> bool:
    """Whether a layer has a state for what a method or attribute of an environment changes.

    It may belong to the layer that has the method, or to a layer inside, which this one may call.

    Args:
        env: An environment, in any wrappers.
        name: The name of the method or attribute; ``""`` stands for a function of the environment.
    """
    chain = _chain(env)
    has_name = [bool(name) and hasattr(layer, name) for layer in chain[:-1]] + [True]
    for layer in chain[has_name.index(True) :]:
        cls: Any = type(layer)
        declares_state = hasattr(cls, "get_state") and hasattr(cls, "set_state")
        if declares_state or _keeps(cls, layer is chain[-1]).lasts:
            return True
    return False


def guard(env: Any) -> None:
    """Keeps an environment from running data that it is given, such as a pickle.

    Environments of a package that unpickles its tasks then accept only tasks that this package has
    built from plain values.
    """
    for package in packages.imported():
        package.guard(env)


def set_statistics_updates(env: Any, switches: bool | Sequence[bool]) -> None:
    """Sets whether normalizing wrappers (with ``update_running_mean``) update their statistics.

    Args:
        env: An environment or a vector environment, in any wrappers.
        switches: For each of those wrappers, the outermost first, or one for all.

    >>> import gymnasium
    >>> from mtwrappers.state.env_state import set_statistics_updates
    >>> env = gymnasium.wrappers.NormalizeObservation(gymnasium.make("Pendulum-v1"))
    >>> set_statistics_updates(env, False)
    >>> obs, info = env.reset(seed=0)
    >>> env.obs_rms.mean
    array([0., 0., 0.], dtype=float32)
    """
    found = list(normalizers(env))
    each = [switches] * len(found) if isinstance(switches, bool) else switches
    for wrapper, switch in zip(found, each, strict=True):
        wrapper.update_running_mean = switch


def normalizers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment that have running statistics, the outermost first."""
    while isinstance(env, (gymnasium.Wrapper, VectorWrapper)):
        if hasattr(env, "update_running_mean"):
            yield env
        env = env.env


class _Keeps:
    """The attributes that make up the state of a layer without methods of its own."""

    def __init__(self, cls: type[Any], bottom: bool) -> None:
        self._label = cls.__name__
        names = ["np_random"] if bottom else []
        for base in cls.__mro__:
            names += _OF_GYMNASIUM.get(base, ())
            for package in packages.imported():
                names += package.attributes(base)
        self.names = tuple(dict.fromkeys(names))
        # Whether all other attributes of plain data belong to the state too. Those of a recorder
        # do not: where it writes comes from its constructor, never from a file.
        others = cls.__module__.split(".")[0] not in _KNOWN
        self._open = others and not bottom and not issubclass(cls, WATCHERS)
        # Whether anything but the random generator lasts from one episode to the next.
        self.lasts = self._open or bool({*self.names} - {"np_random"})
        # Whether a state has an entry for such a layer.
        self.listed = bool(self.names) or self._open or not issubclass(cls, WATCHERS)

    def read(self, layer: Any, chain: Sequence[Any]) -> dict[str, Any]:
        """Copies of the attributes of a layer."""
        values = {name: getattr(layer, name) for name in self._present(layer)}
        for name in _CLOCKS & values.keys():
            values[name] = time.perf_counter() - values[name]
        if self._open:
            for name, value in vars(layer).items():
                if name not in values and not _is_constant(name, value, chain):
                    values[name] = value
        state = {}
        try:
            for name, value in values.items():
                state[name] = snapshot(value)
        except TypeError as exc:
            raise TypeError(
                f"the state of {self._label} is unknown: its attribute {name} is or has {exc}, "
                f"which is not plain data; give {self._label} the methods get_state() and "
                "set_state(state)"
            ) from None
        return state

    def write(self, layer: Any, state: Any) -> None:
        """Gives a layer the state that `read` returned."""
        expected = set(self._present(layer))
        found = set(state) if isinstance(state, dict) else set()
        if not expected <= found or (found > expected and not self._open):
            raise ValueError(
                f"expected {sorted(expected)} of {self._label}, got {sorted(map(str, found))}"
            )
        for name in found - expected:
            of_class = inspect.getattr_static(type(layer), name, None)
            if name in _COMMON or callable(of_class) or hasattr(of_class, "__get__"):
                raise ValueError(f"{name} of {self._label} is not plain data")
        present = {name: getattr(layer, name, None) for name in state}
        values = {name: restored(value, present[name]) for name, value in state.items()}
        for package in packages.imported():
            package.check(layer, values)
        for name, value in values.items():
            if name in _CLOCKS:
                value = time.perf_counter() - value
            if value is not present[name]:
                setattr(layer, name, value)

    def _present(self, layer: Any) -> list[str]:
        """The attributes that exist in the installed version of the package."""
        return [name for name in self.names if hasattr(layer, name)]


@functools.lru_cache(maxsize=256)
def _keeps(cls: Any, bottom: bool) -> _Keeps:
    return _Keeps(cls, bottom)


def _chain(env: Any) -> list[Any]:
    """All layers, the outermost first."""
    bottom, chain = env.unwrapped, [env]
    while chain[-1] is not bottom and isinstance(chain[-1], (gymnasium.Wrapper, VectorWrapper)):
        chain.append(chain[-1].env)
    return chain


def _layers(chain: Sequence[Any]) -> Iterator[tuple[str, Any, _Keeps | None]]:
    """The class name of each layer that has a state, the layer, and its `_Keeps`.

    `_Keeps` is ``None`` for a layer with ``get_state`` and ``set_state``.
    """
    for layer in chain:
        cls: Any = type(layer)
        bottom = layer is chain[-1]
        if hasattr(cls, "get_state") and hasattr(cls, "set_state"):
            # The environment itself checks whether a state fits.
            yield "environment" if bottom else cls.__name__, layer, None
        elif isinstance(layer, VectorEnv) and bottom:
            raise TypeError(
                f"the state of {cls.__name__} is unknown: make these environments with "
                "MetaIterativeEnvExecutor or MetaParallelEnvExecutor and journal=True, or give "
                f"{cls.__name__} the methods get_state() and set_state(state)"
            )
        elif (keeps := _keeps(cls, bottom)).listed:
            yield cls.__name__, layer, keeps


def _identity(layer: Any, keeps: _Keeps | None, chain: Sequence[Any]) -> dict[str, Any]:
    """The identity of a layer; a vector environment has its own in its state."""
    bottom = layer is chain[-1]
    if bottom and isinstance(layer, VectorEnv):
        return {}
    known = type(layer).__module__.split(".")[0] in _KNOWN
    names = () if keeps is None else keeps.names
    return identity_of(layer, bottom=bottom, known=known, state=names)


def _is_constant(name: str, value: Any, chain: Sequence[Any]) -> bool:
    """Whether an attribute does not change, or is a layer, which has a state of its own."""
    return (
        name in _COMMON
        or inspect.isroutine(value)
        or isinstance(value, (type, ModuleType, gymnasium.Space))
        or (callable(value) and not getattr(value, "__dict__", None))
        or any(value is layer for layer in chain)
    )
