"""Which entries of an observation are the environment's own, and which a layer has appended."""

from __future__ import annotations

from typing import Any, cast

import gymnasium
from gymnasium.spaces import Box, Dict
from gymnasium.spaces.utils import flatten_space
from gymnasium.wrappers import FlattenObservation

from mtwrappers.common.types import AnyEnv, AnySpace
from mtwrappers.vector.calls import read_only


@read_only
def find_env_space(env: AnyEnv) -> AnySpace:
    """The space of the leading entries of observations: those before what a layer has appended.

    Such layers are wrappers with ``appends_entries``, Gymnasium's `FlattenObservation` of an
    `MTEnv`, and an environment that has a one-hot of its own. Without one, all entries are the
    environment's, though another wrapper may have changed their number.
    """
    name = "env_observation_space"
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if getattr(layer, "appends_entries", False) and layer.has_wrapper_attr(name):
            return cast("AnySpace", layer.get_wrapper_attr(name))
        space = layer.env.observation_space
        if isinstance(layer, FlattenObservation) and isinstance(space, Dict):
            env_space = space.get("env_obs")
            if env_space is not None:
                # Of any kind, and not that of the MTEnv where a wrapper between has changed it.
                return flatten_space(env_space)
        layer = layer.env
    space, env_space = layer.observation_space, getattr(layer, name, None)
    if isinstance(space, Box) and isinstance(env_space, Box) and env_space.shape != space.shape:
        return env_space  # the environment has a one-hot of its own
    return env.observation_space
