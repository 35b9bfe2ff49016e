"""The state of an environment between two episodes, layer by layer.

A layer (a wrapper, or the environment at the bottom) declares its state by the methods
``get_state() -> dict`` and ``set_state(dict)``, with JSON values, tuples and arrays. Other classes
are in the table of `mtwrappers.state.registry`, such as the wrappers of Gymnasium that have
statistics. Otherwise,

- the state of an environment is its random generator ``np_random``, which is all that Gymnasium's
  own environments keep from one episode to the next;
- a wrapper has no state. If it does keep something, a replay returns other results, and an error
  names the environment.

Each state comes with the `identity` of its layer, which has to be that of the layer that takes it.

States are copied when they are returned and when they are set. A state may come from an untrusted
file, of which nothing is run: each layer checks the values that it takes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

from mtwrappers.common.errors import short
from mtwrappers.state import packages
from mtwrappers.state.identity import WATCHERS, describe_identity, require_same
from mtwrappers.state.plain_data import copied
from mtwrappers.state.registry import (
    StateFunctions,
    find_functions,
    get_random_stream,
    require_names,
    set_random_stream,
)

# The state of an environment: a `LayerState` for each of its layers, as a tuple of its fields,
# because a state is plain data. From JSON, it is a list of lists.
Layers: TypeAlias = list[tuple[str, dict[str, Any], Any]]

# Packages whose wrappers are compared by the arguments that they have as attributes.
_PACKAGES = ("gymnasium", "mtwrappers", *packages.MODULES)
_RANDOM_STREAM = StateFunctions(get_random_stream, set_random_stream)
_NO_STATE = StateFunctions(lambda layer: {}, lambda layer, state: require_names(state, (), layer))


class LayerState(NamedTuple):
    """The state of a layer, as a state of an environment has it.

    Attributes:
        label: The name of the layer.
        identity: Its identity, see `mtwrappers.state.identity`.
        state: The layer's own state.
    """

    label: str
    identity: dict[str, Any]
    state: Any


@dataclass(frozen=True)
class _Layer:
    """A wrapper, or the environment at the bottom.

    Attributes:
        env: The wrapper or the environment.
        bottom: Whether it is the environment at the bottom.
        functions: The functions that get and set its state; ``None`` if it has methods for it.
    """

    env: Any
    bottom: bool
    functions: StateFunctions | None

    @property
    def label(self) -> str:
        """The name of the layer in a state."""
        # An environment with methods for its state checks itself whether a state fits.
        return "environment" if self.bottom and self.functions is None else type(self.env).__name__

    def get_state(self, between_episodes: bool) -> Any:
        if self.functions is not None:
            return copied(self.functions.get_state(self.env))
        options = {"between_episodes": True} if between_episodes and self.bottom else {}
        return copied(self.env.get_state(**options), copy.deepcopy)

    def set_state(self, state: Any) -> None:
        if self.functions is not None:
            self.functions.set_state(self.env, copied(state))
        else:
            self.env.set_state(copied(state, copy.deepcopy))

    def identity(self) -> dict[str, Any]:
        """The identity of the layer; a vector environment has its own in its state."""
        if self.bottom and isinstance(self.env, VectorEnv):
            return {}
        return describe_identity(
            self.env,
            bottom=self.bottom,
            has_attributes=type(self.env).__module__.split(".")[0] in _PACKAGES,
            get_state=None if self.functions is None else self.functions.get_state,
        )


def get_state(env: Any, *, between_episodes: bool = False) -> Layers:
    """The state of each layer that has one, the outermost first.

    Args:
        env: An environment or a vector environment, in any wrappers.
        between_episodes: Whether to leave the current episodes of a vector environment out; a reset
            is then due after `set_state`.

    Raises:
        TypeError: If a vector environment has no ``get_state`` of its own, or the ``np_random`` of
            an environment without one is not a generator of NumPy.

    >>> import gymnasium
    >>> from mtwrappers.state.env_state import get_state, set_state
    >>> env, other = gymnasium.make("Pendulum-v1"), gymnasium.make("Pendulum-v1")
    >>> obs, info = env.reset(seed=0)
    >>> set_state(other, get_state(env))
    >>> (other.reset()[0] == env.reset()[0]).tolist()
    [True, True, True]
    """
    layers = _list_layers(env)
    return [(layer.label, layer.identity(), layer.get_state(between_episodes)) for layer in layers]


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
    # The environment at the bottom comes first, because wrappers may read from it.
    layers = zip(_list_layers(env), _read_layers(state), strict=True)
    for layer, layer_state in reversed(list(layers)):
        layer.set_state(layer_state.state)


def require_identity(env: Any, state: Layers) -> None:
    """Raises `ValueError` unless a state belongs to an environment of these layers and arguments.

    It is part of `set_state`. The arguments are those of `mtwrappers.state.identity`.
    """
    layers, layer_states = _list_layers(env), _read_layers(state)
    expected = [layer.label for layer in layers]
    labels = [layer_state.label for layer_state in layer_states]
    if labels != expected:
        raise ValueError(
            f"expected the state of {expected}, got one of {labels}: put the environment into the "
            "wrappers that it was saved in"
        )
    for layer, layer_state in zip(layers, layer_states, strict=True):
        require_same(layer.identity(), layer_state.identity, type(layer.env).__name__)


def _read_layers(state: Layers) -> list[LayerState]:
    """The states of the layers, or `ValueError` if it is no state of an environment."""
    is_state = isinstance(state, list) and all(
        isinstance(entry, (list, tuple)) and len(entry) == len(LayerState._fields)
        for entry in state
    )
    if not is_state:
        raise ValueError(
            "expected the state of an environment, a list of (label, identity, state) for each of "
            f"its layers, got {short(state)}"
        )
    return [LayerState(*entry) for entry in state]


def find_undeclared(env: Any, name: str) -> str:
    """Finds the layer with a method or attribute, if no state is declared for what that changes.

    The state may be the layer's own, or that of a layer inside, which the layer may call. It is not
    the one that the class of the layer inherits from a class without that method.

    Args:
        env: An environment, in any wrappers.
        name: The name of the method or attribute; ``""`` stands for a function of the environment.

    Returns:
        The name of the class of the layer that has the method, if no state is declared. Otherwise
        ``""``.
    """
    chain = list_wrappers(env)
    has_name = [bool(name) and hasattr(layer, name) for layer in chain[:-1]] + [True]
    classes: list[type] = [type(layer) for layer in chain[has_name.index(True) :]]
    declares = any(_has_methods(cls) or find_functions(cls) is not None for cls in classes)
    if declares and not _inherits_state_without(classes[0], name):
        return ""
    return classes[0].__name__


def guard(env: Any) -> None:
    """Keeps an environment from running data that it is given, such as a pickle.

    Environments of a package that unpickles its tasks then accept only tasks that this package has
    built from plain values.
    """
    for package in packages.import_modules():
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
    wrappers = list(normalizers(env))
    if isinstance(switches, bool):
        switches = [switches] * len(wrappers)
    for wrapper, switch in zip(wrappers, switches, strict=True):
        wrapper.update_running_mean = switch


def normalizers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment that have running statistics, the outermost first."""
    while isinstance(env, (gymnasium.Wrapper, VectorWrapper)):
        if hasattr(env, "update_running_mean"):
            yield env
        env = env.env


def list_wrappers(env: Any) -> list[Any]:
    """The wrappers of an environment and itself, the outermost first."""
    bottom, chain = env.unwrapped, [env]
    while chain[-1] is not bottom and isinstance(chain[-1], (gymnasium.Wrapper, VectorWrapper)):
        chain.append(chain[-1].env)
    return chain


def _list_layers(env: Any) -> list[_Layer]:
    """The layers that have a part in a state, the outermost first."""
    chain = list_wrappers(env)
    layers = [_find_layer(layer, layer is chain[-1]) for layer in chain]
    return [layer for layer in layers if layer is not None]


def _find_layer(env: Any, bottom: bool) -> _Layer | None:
    cls: Any = type(env)
    if _has_methods(cls):
        return _Layer(env, bottom, None)
    if (functions := find_functions(cls)) is not None:
        return _Layer(env, bottom, functions)
    if not bottom:
        return None if issubclass(cls, WATCHERS) else _Layer(env, bottom, _NO_STATE)
    if isinstance(env, VectorEnv):
        raise TypeError(
            f"the state of {cls.__name__} is unknown: make these environments with "
            "MetaIterativeEnvExecutor or MetaParallelEnvExecutor and journal=True, or give "
            f"{cls.__name__} the methods get_state() and set_state(state)"
        )
    return _Layer(env, bottom, _RANDOM_STREAM)


def _inherits_state_without(cls: type[Any], name: str) -> bool:
    """Whether a class inherits ``get_state`` from one without a method that itself has."""
    if not name or not hasattr(cls, name) or not _has_methods(cls):
        return False
    declaring_class = next(base for base in cls.__mro__ if "get_state" in vars(base))
    return not hasattr(declaring_class, name)


def _has_methods(cls: type[Any]) -> bool:
    """Whether a class declares its state by methods."""
    return hasattr(cls, "get_state") and hasattr(cls, "set_state")
