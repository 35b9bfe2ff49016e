"""The settings of an executor, and the environments that it is made of."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple, NoReturn, TypeAlias

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.spaces.utils import is_space_dtype_shape_equiv
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import batch_differing_spaces, batch_space

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    above_zero,
    check_choice,
    check_flag,
    check_space,
    positive,
)
from mtwrappers.common.spaces import difference
from mtwrappers.core.pad_spaces import Unify, check_unify

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
ObservationMode: TypeAlias = Literal["same", "different"] | tuple[Space[Any], Space[Any]]
JOURNAL_WARN_BYTES = 1e9


class DifferentSpacesError(ValueError, RuntimeError):
    """Environments whose spaces differ; to Gymnasium's vector environments a ``RuntimeError``."""


class Settings(NamedTuple):
    """What is common to an executor and its blocks.

    Attributes:
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; None leaves them alone.
        autoreset_mode: How an episode begins after another ends.
        journal: Whether to keep what was done with the environments since their last resets.
        journal_warn_bytes: How large that may grow before a warning says so.
        observation_mode: What the batch of observations is, as in Gymnasium's `SyncVectorEnv`.
        unify: How environments with spaces of other lengths are padded.
    """

    meta_batch_size: int
    envs_per_task: int
    max_path_length: int | None
    autoreset_mode: AutoresetMode
    journal: bool = False
    journal_warn_bytes: float = math.inf
    observation_mode: ObservationMode = "same"
    unify: Unify = None

    def checked(self) -> Settings:
        """These, if a caller may ask for them, or a ``ValueError`` or ``TypeError``."""
        limit = self.max_path_length
        return Settings(
            positive(self.meta_batch_size, "meta_batch_size"),
            positive(self.envs_per_task, "envs_per_task"),
            None if limit is None else positive(limit, "max_path_length"),
            self.autoreset_mode,
            check_flag(self.journal, "journal"),
            above_zero(self.journal_warn_bytes, "journal_warn_bytes"),
            _check_observation_mode(self.observation_mode),
            check_unify(self.unify),
        )


def check_recovery(
    settings: Settings, on_worker_failure: str, max_recoveries: int, timeout: float | None
) -> tuple[Settings, int, float]:
    """Checks the settings of an executor with workers, and what it does when one of them is lost.

    Returns:
        The settings, with a journal if workers are to be replaced; how often in a row that may
        happen in one call; and after how many seconds a silent worker counts as hung.
    """
    settings = settings.checked()
    recover = check_choice(on_worker_failure, ("raise", "recover"), "on_worker_failure")
    most = positive(max_recoveries, "max_recoveries")
    seconds = math.inf
    if timeout is not None:
        seconds = above_zero(timeout, "timeout, if it is not None,")
    if recover == "raise":
        return settings, 0, seconds
    return settings._replace(journal=True), most, seconds


def resolve_makers(
    env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
    meta_batch_size: int,
    envs_per_task: int,
) -> tuple[list[Maker], list[int] | None]:
    """One constructor per environment, and, for copies of one, a seed for the first reset of each.

    Copies share its random state, so without different seeds they would all play the same. The
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
        if isinstance(mode, (str, AutoresetMode)) and mode in (known, known.value, known.name):
            return known
    raise ValueError(
        f"autoreset_mode must be one of {[known.value for known in AutoresetMode]}, got {mode!r}"
    )


def _check_observation_mode(mode: Any) -> ObservationMode:
    if isinstance(mode, tuple) and len(mode) == 2:
        batch, single = (check_space(space, "a space of observation_mode") for space in mode)
        return batch, single
    if isinstance(mode, str) and mode in ("same", "different"):
        return "same" if mode == "same" else "different"
    raise ValueError(
        "observation_mode must be 'same', 'different', or the spaces (observation_space, "
        f"single_observation_space), got {mode!r}"
    )


def observation_spaces(
    spaces: Sequence[Space[Any]], mode: ObservationMode
) -> tuple[Space[Any], Space[Any]]:
    """The observation space of a vector environment, and the one of a single environment.

    Args:
        spaces: Of each environment. They must be equal if the mode is ``"same"``, and else have the
            same shapes and dtypes.
        mode: ``"same"``, ``"different"`` or both spaces.
    """
    single = spaces[0] if isinstance(mode, str) else mode[1]
    for i, space in enumerate(spaces):
        if mode == "same" and space != single:
            _refuse(space, single, i, "observation", "; observation_mode='different' allows it")
        if mode != "same" and not is_space_dtype_shape_equiv(space, single):
            _refuse(space, single, i, "observation", " in shape and dtype")
    if mode == "same":
        return batch_space(single, len(spaces)), single
    if mode == "different":
        return batch_differing_spaces(spaces), single
    if not is_space_dtype_shape_equiv(mode[0], batch_space(single, len(spaces))):
        raise ValueError(
            f"the first space of observation_mode must be a batch of {len(spaces)} observations in "
            f"{single}, got {mode[0]}"
        )
    return mode


def check_same_actions(spaces: Sequence[Space[Any]]) -> None:
    """Refuses environments whose action spaces differ."""
    for i, space in enumerate(spaces):
        if space != spaces[0]:
            _refuse(space, spaces[0], i, "action")


def _refuse(space: Space[Any], expected: Space[Any], i: int, what: str, hint: str = "") -> NoReturn:
    shapes = [each.shape for each in (space, expected) if isinstance(each, Box)]
    if len(shapes) == 2 and {*map(len, shapes)} == {1} and shapes[0] != shapes[1]:
        hint = "; unify='pad' pads environments to one length"
    raise DifferentSpacesError(
        f"environment {i} has {what} space {space}, expected {expected} as in environment 0"
        f"{difference(space, expected)}{hint}"
    )
