"""Adapters of our vector environments for other libraries: one file each, imported on use."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
from gymnasium.error import ClosedEnvironmentError
from gymnasium.spaces import Dict, Text, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv, VectorWrapper

from mtwrappers.common.types import AnySpace
from mtwrappers.vector.contract import MetaVectorEnv
from mtwrappers.wrappers.vector import MetaVectorWrapper


def check_vec_env(vec_env: Any, library: str, *modes: AutoresetMode) -> None:
    """Requires a vector environment that ``library`` can use, in one of the autoreset ``modes``.

    Raises:
        TypeError: If it is none of ours.
        ClosedEnvironmentError: If it was closed.
        ValueError: If it is in another mode, or observes a Text, of which no library makes tensors.
    """
    if not isinstance(vec_env, (MetaVectorEnv, MetaVectorWrapper)):
        name = type(vec_env).__name__
        if isinstance(vec_env, gymnasium.Env):
            name = f"the environment {vec_env}: for one, pass mtwrappers.as_vector(lambda: env)"
        elif isinstance(vec_env, VectorEnv) and not isinstance(vec_env, VectorWrapper):
            name += ": make the same environments with mtwrappers.as_vector(env_fns)"
        elif isinstance(getattr(vec_env, "vec_env", None), VectorEnv):
            name += ", which is an adapter of one: use it as it is, or pass its vec_env"
        raise TypeError(
            "expected a MetaVectorEnv, such as gymnasium.make_vec returns for our ids, or one in "
            f"MetaVectorWrappers, got {name}"
        )
    if vec_env.unwrapped.closed:
        raise ClosedEnvironmentError(f"expected an open vector environment, {vec_env} was closed")
    if vec_env.autoreset_mode not in modes:
        expected = " or ".join(f"autoreset_mode={mode.value!r}" for mode in modes)
        raise ValueError(f"{library} needs {expected}, got {vec_env.autoreset_mode.value!r}")
    refuse_text(vec_env.single_observation_space, library)


def refuse_text(space: AnySpace, library: str) -> None:
    """Raises `ValueError` if a space is or contains a Text, which cannot become a tensor."""
    text = _find_text(space)
    if text is not None:
        raise ValueError(
            f"{library} takes no observations in a Text space, got {text}: make the environments "
            "without instruction=True, and read the sentence of each from "
            'vec_env.get_attr("task_description")'
        )


def _find_text(space: AnySpace) -> AnySpace | None:
    """Returns the first Text in a space."""
    if isinstance(space, (Dict, Tuple)):
        spaces = space.values() if isinstance(space, Dict) else space.spaces
        texts = map(_find_text, spaces)
        return next((text for text in texts if text is not None), None)
    return space if isinstance(space, Text) else None


@functools.cache
def combine_classes(base: type, ours: type) -> Any:
    """Returns ``ours`` as a subclass of a library's ``base``, which is imported on use."""
    return type(
        ours.__name__, (ours, base), {"__doc__": ours.__doc__, "__module__": ours.__module__}
    )
