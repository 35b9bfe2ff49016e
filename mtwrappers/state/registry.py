"""Two functions per class that get and set its state, for classes that have no such methods.

The table holds the wrappers of Gymnasium that keep something from one episode to the next:
statistics and counts, but no recorded frames. The modules in `mtwrappers.state.packages` add the
classes of their packages, and `register_state` adds any other class.
"""

from __future__ import annotations

import functools
import reprlib
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import wrappers
from gymnasium.wrappers import vector as vector_wrappers
from gymnasium.wrappers.utils import RunningMeanStd

from mtwrappers.state import packages
from mtwrappers.state.plain_data import BIT_GENERATORS, set_generator

_MOMENTS = ("mean", "var", "count")
_NUMBERS = (int, float, np.integer, np.floating)


class StateFunctions(NamedTuple):
    """The functions that get and set the state of an object."""

    get_state: Callable[[Any], dict[str, Any]]
    set_state: Callable[[Any, dict[str, Any]], object]


_FUNCTIONS: dict[type[Any], StateFunctions] = {}


def register_state(
    cls: type[Any],
    get: Callable[[Any], dict[str, Any]],
    set: Callable[[Any, dict[str, Any]], object],
) -> None:
    """Declares the state of a class of another package, which has no methods for it.

    A subclass has the same state, unless it is registered itself or has the methods ``get_state``
    and ``set_state``. Call it where the class is imported, so that workers do so too.

    Args:
        cls: A wrapper, or an environment. The state of an environment should include its random
            stream: see `get_random_stream` and `set_random_stream`.
        get: Takes an object, and returns what it keeps from one episode to the next as a dict of
            JSON values, tuples and arrays, of which copies are kept.
        set: Takes an object and such a dict, which may come from an untrusted file: it raises
            `TypeError` or `ValueError` for values that the object cannot take.

    >>> import gymnasium
    >>> from mtwrappers.state.env_state import get_state
    >>> from mtwrappers.state.registry import register_state
    >>> class CountResets(gymnasium.Wrapper):
    ...     resets = 0
    ...     def reset(self, **kwargs):
    ...         self.resets += 1
    ...         return self.env.reset(**kwargs)
    >>> def get_count(wrapper):
    ...     return {"resets": wrapper.resets}
    >>> def set_count(wrapper, state):
    ...     wrapper.resets = int(state["resets"])
    >>> register_state(CountResets, get_count, set_count)
    >>> env = CountResets(gymnasium.make("CartPole-v1"))
    >>> obs, info = env.reset()
    >>> get_state(env)[0]
    ('CountResets', {}, {'resets': 1})
    """
    _FUNCTIONS[cls] = StateFunctions(get, set)
    find_functions.cache_clear()


@functools.lru_cache(maxsize=256)  # because a journal reads the state at each reset
def find_functions(cls: type[Any]) -> StateFunctions | None:
    """The functions of a class or of the base class that is registered, if any is."""
    packages.import_modules()  # which register the classes of their packages
    return next((_FUNCTIONS[base] for base in cls.__mro__ if base in _FUNCTIONS), None)


def require_names(state: Any, names: Collection[str], owner: object) -> Mapping[str, Any]:
    """Returns a state if it is a dict with these keys, or raises `ValueError`."""
    if not isinstance(state, dict) or state.keys() != {*names}:
        keys = sorted(map(str, state)) if isinstance(state, dict) else reprlib.repr(state)
        raise ValueError(f"expected {sorted(names)} of {type(owner).__name__}, got {keys}")
    return state


# Random streams.


def get_random_stream(env: Any) -> dict[str, Any]:
    """The state of an environment's generator ``np_random``."""
    generator = env.np_random
    name = type(getattr(generator, "bit_generator", None)).__name__
    if not isinstance(generator, np.random.Generator) or name not in BIT_GENERATORS:
        cls = type(env).__name__
        raise TypeError(
            f"the state of {cls} is unknown: its np_random must be a numpy.random.Generator "
            f"with one of {list(BIT_GENERATORS)}, got {generator!r}; give {cls} the methods "
            "get_state() and set_state(state)"
        )
    return {"np_random": generator.bit_generator.state}


def set_random_stream(env: Any, state: dict[str, Any]) -> None:
    """Gives an environment's generator the state that `get_random_stream` returned."""
    stream = require_names(state, {"np_random"}, env)["np_random"]
    name = stream.get("bit_generator") if isinstance(stream, dict) else None
    if name not in BIT_GENERATORS:
        raise ValueError(f"expected the state of a generator, got {reprlib.repr(stream)}")
    generator = env.np_random
    if type(generator.bit_generator).__name__ == name:
        set_generator(generator, stream)  # in place, because other objects may share it
    else:
        generator = np.random.Generator(BIT_GENERATORS[name]())
        set_generator(generator, stream)
        env.np_random = generator


# Attributes.


def attribute_functions(*names: str) -> StateFunctions:
    """Functions for a class whose state is attributes: numbers, arrays, deques and statistics.

    Each attribute takes only a value like the one that it has: of the same kind and shape.
    Attributes that the installed version of a package does not have are left out.
    """

    def list_names(layer: Any) -> list[str]:
        return [name for name in names if hasattr(layer, name)]

    def get_attributes(layer: Any) -> dict[str, Any]:
        return {name: _to_state(getattr(layer, name)) for name in list_names(layer)}

    def set_attributes(layer: Any, state: dict[str, Any]) -> None:
        values = require_names(state, list_names(layer), layer)
        for name, value in values.items():
            _require_alike(getattr(layer, name), value, f"{name} of {type(layer).__name__}")
        for name, value in values.items():
            attribute = getattr(layer, name)
            if isinstance(attribute, RunningMeanStd):
                vars(attribute).update(value)  # in place, because others may share it
            else:
                setattr(layer, name, value)

    return StateFunctions(get_attributes, set_attributes)


def _to_state(value: Any) -> Any:
    """An attribute, with a dict for statistics."""
    if isinstance(value, RunningMeanStd):
        return {name: getattr(value, name) for name in _MOMENTS}
    return value


def _require_alike(attribute: Any, value: Any, name: str) -> None:
    """Raises `ValueError` unless an attribute may take a value from a file."""
    if isinstance(attribute, RunningMeanStd):
        moments = require_names(value, {*_MOMENTS}, attribute)
        _require_alike(attribute.count, moments["count"], f"the count in {name}")
        for moment in ("mean", "var"):
            # Statistics of one number are an array at first, and later a scalar.
            array = np.asarray(getattr(attribute, moment))
            _require_alike(array, moments[moment], f"the {moment} in {name}")
        return
    if isinstance(attribute, np.ndarray):
        expected = f"numbers of shape {attribute.shape}"
        is_array = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "biuf"
        fits = is_array and value.shape == attribute.shape
    elif isinstance(attribute, deque):
        expected = f"a deque of at most {attribute.maxlen} numbers"
        fits = isinstance(value, deque) and value.maxlen == attribute.maxlen
        fits = fits and all(isinstance(item, _NUMBERS) for item in value)
    elif isinstance(attribute, (bool, np.bool_)):
        expected, fits = "True or False", isinstance(value, (bool, np.bool_))
    else:
        expected = "a number"
        fits = isinstance(value, _NUMBERS) and not isinstance(value, bool)
    if not fits:
        raise ValueError(f"expected {name} to be {expected}, got {reprlib.repr(value)}")


# Gymnasium.

_STATISTICS = ("episode_count", "time_queue", "return_queue", "length_queue")
# Vector environments are saved in mid-episode, so that episodes that go on are in the state.
_VECTOR_STATISTICS = attribute_functions(
    *_STATISTICS,
    "episode_start_times",
    "episode_returns",
    "episode_lengths",
    "prev_dones",
)


def _get_vector_statistics(wrapper: Any) -> dict[str, Any]:
    state = _VECTOR_STATISTICS.get_state(wrapper)
    # The time that has passed, because clocks differ between processes.
    state["episode_start_times"] = time.perf_counter() - state["episode_start_times"]
    return state


def _set_vector_statistics(wrapper: Any, state: dict[str, Any]) -> None:
    _VECTOR_STATISTICS.set_state(wrapper, state)
    wrapper.episode_start_times = time.perf_counter() - wrapper.episode_start_times


_FUNCTIONS |= {
    # The buffer is not filled by a first step that ends the episode.
    wrappers.MaxAndSkipObservation: attribute_functions("_obs_buffer"),
    wrappers.NormalizeObservation: attribute_functions("obs_rms", "_update_running_mean"),
    wrappers.NormalizeReward: attribute_functions(
        "return_rms", "discounted_reward", "_update_running_mean"
    ),
    wrappers.RecordEpisodeStatistics: attribute_functions(*_STATISTICS),
    wrappers.RecordVideo: attribute_functions("step_id", "episode_id"),
    vector_wrappers.NormalizeObservation: attribute_functions("obs_rms", "_update_running_mean"),
    vector_wrappers.NormalizeReward: attribute_functions(
        "return_rms", "accumulated_reward", "_prev_dones", "_update_running_mean"
    ),
    vector_wrappers.RecordEpisodeStatistics: StateFunctions(
        _get_vector_statistics, _set_vector_statistics
    ),
}
if hasattr(vector_wrappers, "RecordVideo"):  # later than Gymnasium 1.2
    _FUNCTIONS[vector_wrappers.RecordVideo] = attribute_functions(
        "step_id", "episode_id", "has_autoreset"
    )
