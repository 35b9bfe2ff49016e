"""Checks of the arguments of a vector environment's methods, and one argument per environment."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import check_options
from mtwrappers.common.errors import short


def spread_seeds(seed: Any, n: int) -> list[int | None]:
    """Returns a seed for each of ``n`` environments: ``s + i`` for an integer ``s``."""
    if seed is None:
        return [None] * n
    if isinstance(seed, (list, tuple)) or (isinstance(seed, np.ndarray) and seed.ndim):
        if len(seed) != n:
            raise ValueError(f"expected {n} seeds, one per environment, got {len(seed)}")
        return [None if s is None else seeding.check_seed(s) for s in seed]
    first = seeding.check_seed(seed)
    return [*range(first, first + n)]


def split_options(
    options: Any, n: int
) -> tuple[list[dict[str, Any] | None], NDArray[np.bool_] | None]:
    """Splits options into those of each of ``n`` environments, and a copy of the reset mask."""
    if options is not None and not isinstance(options, dict):
        hint = ""
        if isinstance(options, (list, tuple)):
            hint = ': for options of each environment, pass {"env_options": [...]}'
        raise TypeError(f"options must be a dict or None, got {short(options)}{hint}")
    vector_keys = ("reset_mask", "env_options")
    check_options(options, vector_keys, "a vector environment", passes_on=True)
    if options is None or not options.keys() & vector_keys:
        return [options] * n, None
    mask = _reset_mask(options["reset_mask"], n) if "reset_mask" in options else None
    shared = {key: value for key, value in options.items() if key not in vector_keys}
    env_options = options.get("env_options", [None] * n)
    if not isinstance(env_options, (list, tuple)) or len(env_options) != n:
        raise ValueError(f"env_options must be a list with {n} dicts or None, got {env_options!r}")
    for i, individual in enumerate(env_options):
        if not isinstance(individual, (dict, type(None))):
            raise TypeError(
                f"env_options of environment {i} must be a dict or None, got {individual!r}"
            )
    return [{**shared, **(individual or {})} for individual in env_options], mask


def _reset_mask(mask: Any, n: int) -> NDArray[np.bool_]:
    """A copy of a mask of the environments to reset."""
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"reset_mask must be a bool array, got {mask!r}")
    if mask.shape != (n,):
        raise ValueError(f"reset_mask must have shape ({n},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"reset_mask must be a bool array, got one of {mask.dtype}")
    if not mask.any():
        raise ValueError(f"reset_mask must name at least one environment, got {mask}")
    return mask.copy()


def refuse_indices(indices: Sequence[Any]) -> None:
    """Raises `TypeError` if ``get_attr`` is called as Stable-Baselines3 does."""
    if indices:
        raise TypeError(
            "get_attr takes a name, as Gymnasium's does, and no indices, as Stable-Baselines3's "
            f"does, got {indices[0]!r}: for Stable-Baselines3 and its wrappers, pass "
            "mtwrappers.as_sb3_vec_env(envs)"
        )


def check_mask(mask: Any, n: int, name: str) -> NDArray[np.bool_]:
    """A copy of a mask of environments; raises `ValueError` unless it is ``(n,)`` bool."""
    if np.shape(mask) != (n,) or np.asarray(mask).dtype != np.bool_:
        raise ValueError(f"expected {name} of shape ({n},) and dtype bool, got {mask!r}")
    return np.array(mask)


def refuse_episode_methods(name: Any) -> None:
    """Raises `ValueError` for methods that environments run without the executor's notice."""
    if isinstance(name, str) and name in ("reset", "step", "close"):
        raise ValueError(
            f"call {name}() of the vector environment, as call({name!r}) would go unnoticed by it"
        )
