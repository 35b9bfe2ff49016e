"""The random generators of an environment, and what their states say."""

from __future__ import annotations

import copy
import random
from typing import Any

import numpy as np
from gymnasium.utils import seeding
from gymnasium.vector import VectorEnv

from mtwrappers.testing.checks import same


def of(env: Any, name: str = "_np_random") -> list[Any]:
    """``np_random`` of an environment, or of all in a batch, None where there is none yet."""
    base = env.unwrapped
    if isinstance(base, VectorEnv) and hasattr(base, "get_attr"):
        try:
            return list(base.get_attr(name))
        except Exception:  # its environments need have no such attribute
            return []
    return [getattr(base, name, None)]


def own(env: Any) -> list[Any]:
    """The generators among the attributes of an environment, but for ``np_random``."""
    attributes = getattr(env.unwrapped, "__dict__", {}).items()
    return [each for name, each in attributes if name != "_np_random" and _is_generator(each)]


def states(env: Any) -> list[Any]:
    """A copy of the state of each generator, of `of` and of `own`."""
    return [_state(each) for each in (*of(env), *own(env)) if _is_generator(each)]


def drawn(env: Any) -> bool:
    """Whether one in ``np_random`` has drawn since it was seeded."""
    pairs = zip(of(env), of(env, "_np_random_seed"), strict=False)
    return any(
        isinstance(generator, np.random.Generator)
        and isinstance(seed, int)
        and seed >= 0
        and not same(_state(generator), _state(seeding.np_random(seed)[0]))
        for generator, seed in pairs
    )


def _is_generator(value: Any) -> bool:
    return isinstance(value, (np.random.Generator, np.random.RandomState, random.Random))


def _state(generator: Any) -> Any:
    if isinstance(generator, random.Random):
        return generator.getstate()
    if isinstance(generator, np.random.RandomState):
        return copy.deepcopy(generator.get_state(legacy=False))
    return copy.deepcopy(generator.bit_generator.state)
