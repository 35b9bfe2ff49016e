"""What an executor checks of its caller's arguments before anything happens."""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, TypeAlias

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers.vector.buffers import ARRAY_SPACES

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]


def resolve_makers(
    env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
    meta_batch_size: int,
    envs_per_task: int,
) -> tuple[list[Maker], list[int] | None]:
    """One constructor per environment, and, for copies of one, a seed for the first reset of each.

    Copies share its random state, so without seeds of their own they would all play the same. The
    seeds follow from the environment's generator, or from entropy if it has none yet.
    """
    n = meta_batch_size * envs_per_task
    seeds = None
    makers: list[Any]
    if isinstance(env, gymnasium.Env):
        try:
            data = cloudpickle.dumps(env)
        except Exception as exc:
            raise TypeError(
                f"an environment must pickle to be given to an executor, {env} does not ({exc}); "
                "give its constructor instead"
            ) from exc
        makers = [functools.partial(cloudpickle.loads, data)] * n
        seeds = [seeding.child_seed(_seed_of(env), i) for i in range(n)]
    elif callable(env):
        makers = [env] * n
    elif isinstance(env, Sequence) and not isinstance(env, (str, bytes)):
        if len(env) == n:
            makers = list(env)
        elif len(env) == meta_batch_size:
            makers = [maker for maker in env for _ in range(envs_per_task)]
        else:
            raise ValueError(
                f"expected {meta_batch_size} constructors (one per task) or {n} (one per "
                f"environment), got {len(env)}"
            )
    else:
        raise TypeError(
            f"expected a constructor, a list of constructors or a gymnasium.Env, got {env!r}"
        )
    for i, maker in enumerate(makers):
        if not callable(maker):
            raise TypeError(f"the constructor of environment {i} must be callable, got {maker!r}")
    return makers, seeds


def _seed_of(env: gymnasium.Env[Any, Any]) -> int:
    """A seed from a copy of an environment's generator, which itself draws nothing."""
    # Not `np_random`, which would make a generator where there is none.
    rng = getattr(env.unwrapped, "_np_random", None)
    if not isinstance(rng, np.random.Generator):
        return seeding.fresh_seed()
    return int(copy.deepcopy(rng).integers(2**32))


def check_autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """The `AutoresetMode` of this name or value."""
    for known in AutoresetMode:
        if mode in (known, known.value, known.name):
            return known
    raise ValueError(
        f"autoreset_mode must be one of {[known.value for known in AutoresetMode]}, got {mode!r}"
    )


def check_rllib(num_envs: int, autoreset_mode: AutoresetMode) -> None:
    """Refuses to make a vector environment that an RLlib env runner would misread.

    An env runner takes the step after the end of an episode for a reset, whatever the
    environment's metadata says, and passes nothing on that tells who asks. So the stack is
    searched for it; in a process that has not imported ``ray.rllib`` nothing is done.
    """
    frame = _env_runner_frame() if "ray.rllib" in sys.modules else None
    if frame is None:
        return
    if autoreset_mode is not AutoresetMode.NEXT_STEP:
        raise ValueError(
            "RLlib's env runners take the step after the end of an episode for a reset, and need "
            f"autoreset_mode='NextStep', got {autoreset_mode.value!r}: pass "
            ".environment(..., env_config={'autoreset_mode': 'NextStep'})"
        )
    config = getattr(frame.f_locals["self"], "config", None)
    expected = getattr(config, "num_envs_per_env_runner", num_envs)
    if expected != num_envs:
        raise ValueError(
            f"RLlib expects {expected} environments of this vector environment, which has "
            f"{num_envs}: pass .env_runners(num_envs_per_env_runner={num_envs})"
        )


def _env_runner_frame() -> FrameType | None:
    """The env runner's frame that makes its environment, if that is what is going on."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("ray.rllib."):
            # A callback, which makes environments of its own, is called from elsewhere.
            if not module.startswith("ray.rllib.env."):
                return None
            if frame.f_code.co_name == "make_env" and "self" in frame.f_locals:
                return frame
        frame = frame.f_back
    return None


def spread_seeds(seed: Any, n: int) -> list[int | None]:
    """A seed for each of ``n`` environments: ``s + i`` for an integer ``s``."""
    if seed is None:
        return [None] * n
    if isinstance(seed, (list, tuple, np.ndarray)):
        if len(seed) != n:
            raise ValueError(f"expected {n} seeds, one per environment, got {len(seed)}")
        return [None if s is None else seeding.check_seed(s) for s in seed]
    first = seeding.check_seed(seed)
    return [first + i for i in range(n)]


def split_options(options: Any, n: int) -> tuple[dict[str, Any] | None, NDArray[np.bool_] | None]:
    """The options for environments, and a copy of the reset mask among them."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict or None, got {options!r}")
    if options is None or "reset_mask" not in options:
        return options, None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
        raise TypeError(f"reset_mask must be a bool array, got {mask!r}")
    if mask.shape != (n,) or not mask.any():
        raise ValueError(
            f"reset_mask must have shape ({n},) and name at least one environment, got {mask}"
        )
    return {key: value for key, value in options.items() if key != "reset_mask"}, mask.copy()


def check_same_spaces(spaces: Sequence[tuple[Space[Any], Space[Any]]]) -> None:
    """Refuses environments whose spaces (observation, action) differ."""
    for i, pair in enumerate(spaces):
        for what, space, expected in zip(("observation", "action"), pair, spaces[0], strict=True):
            if space != expected:
                raise ValueError(
                    f"environment {i} has {what} space {space}, expected {expected} as in "
                    "environment 0"
                )


class ActionCheck:
    """Checks ``n`` actions in a space, whose batch is ``batch``, and copies them."""

    def __init__(self, space: Space[Any], batch: Space[Any], n: int) -> None:
        self._batch, self._n = batch, n
        self.is_array = isinstance(space, ARRAY_SPACES)
        self.row_shape: tuple[int, ...] = tuple(space.shape or ()) if self.is_array else ()
        self._may_be_nan = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)

    def __call__(self, actions: Any) -> Any:
        """The actions as a new array, or as a list where the space has no array."""
        n = self._n
        if not self.is_array:
            try:
                rows = list(iterate(self._batch, actions))
            except Exception:  # anything that is not nested as the space is
                raise ValueError(f"expected actions in {self._batch}, got {actions!r}") from None
            if len(rows) != n:
                raise ValueError(f"expected actions for environments 0 to {n - 1}, got {len(rows)}")
            return rows
        shape: Any
        try:
            array = np.array(actions)
            shape = array.shape
        except ValueError:  # rows of several lengths
            shape = [np.shape(action) for action in actions]
        if shape != (n, *self.row_shape):
            raise ValueError(
                f"expected actions of shape {(n, *self.row_shape)}, a row for each of environments "
                f"0 to {n - 1}, got {type(actions).__name__} of shape {shape}"
            )
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise ValueError(f"actions must be numbers of at most 8 bytes, got {array.dtype}")
        if self._may_be_nan and np.isnan(array).any():
            bad = np.isnan(array).reshape(n, -1).any(axis=1)
            raise ValueError(
                f"actions of environments {np.flatnonzero(bad).tolist()} are NaN; nothing was "
                "stepped"
            )
        return array
