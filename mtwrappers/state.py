"""The state that an environment has between two episodes, layer by layer.

A layer (a wrapper, or the environment at the bottom) has a state of its own if it has the methods
``get_state() -> dict`` and ``set_state(dict)``, of what JSON knows and arrays. An environment
without them has that of its random generator, which is all that Gymnasium's own environments keep
from one episode to the next.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import gymnasium
from gymnasium.vector import VectorWrapper

# The class of a layer, and its state.
Layers = list[tuple[str, Any]]


def get_state(env: Any) -> Layers:
    """The state of each layer that has one, the outermost first.

    Args:
        env: An environment or a vector environment, in any wrappers.
    """
    return [
        (name, layer.get_state() if own else dict(layer.np_random.bit_generator.state))
        for name, layer, own in _layers(env)
    ]


def set_state(env: Any, state: Layers) -> None:
    """Goes on from what `get_state` returned, with the next reset.

    Args:
        env: An environment or a vector environment of the same layers.
        state: What `get_state` returned.

    Raises:
        ValueError: If it is the state of other layers.
    """
    layers = list(_layers(env))
    expected, found = [name for name, _, _ in layers], [name for name, _ in state]
    if found != expected:
        raise ValueError(f"expected the state of {expected}, got one of {found}")
    # The environment at the bottom first: a wrapper may ask it what it is.
    for (_, layer, own), (_, kept) in reversed(list(zip(layers, state, strict=True))):
        if own:
            layer.set_state(kept)
        else:
            layer.np_random.bit_generator.state = kept


def set_statistics_updates(env: Any, switches: bool | Sequence[bool]) -> None:
    """Sets whether normalizing wrappers (whatever has ``update_running_mean``) update statistics.

    Args:
        env: An environment or a vector environment, in any wrappers.
        switches: For each of those wrappers, the outermost first, or one for all.
    """
    wrappers = list(normalizers(env))
    each = [switches] * len(wrappers) if isinstance(switches, bool) else switches
    for wrapper, switch in zip(wrappers, each, strict=True):
        wrapper.update_running_mean = switch


def normalizers(env: Any) -> Iterator[Any]:
    """The wrappers of an environment that have running statistics, the outermost first."""
    while isinstance(env, (gymnasium.Wrapper, VectorWrapper)):
        if hasattr(env, "update_running_mean"):
            yield env
        env = env.env


def _layers(env: Any) -> Iterator[tuple[str, Any, bool]]:
    """The class of each layer that has a state, the layer, and whether by methods of its own."""
    bottom = False
    while not bottom:
        own = hasattr(type(env), "get_state") and hasattr(type(env), "set_state")
        bottom = env.unwrapped is env
        if bottom and own:
            yield "environment", env, own  # which itself says whose state it takes
        elif bottom or own:
            yield type(env).__name__, env, own
        env = None if bottom else env.env
