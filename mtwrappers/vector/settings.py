"""The settings of an executor, and the constructors of its environments."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, TypeAlias

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
    check_mapping,
    check_space,
    positive,
)
from mtwrappers.common.spaces import difference
from mtwrappers.core.pad_spaces import Unify, check_unify

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
ObservationMode: TypeAlias = Literal["same", "different"] | tuple[Space[Any], Space[Any]]
OnWorkerFailure: TypeAlias = Literal["raise", "recover"]
JOURNAL_WARN_BYTES = 1e9
TIMEOUT = 300.0  # seconds
# The settings in which executors may differ that go on with each other's state.
MAY_DIFFER = (
    *("workers", "on_worker_failure", "max_recoveries", "journal", "journal_warn_bytes"),
    *("timeout", "context", "ray_options"),
)


class DifferentSpacesError(ValueError, RuntimeError):
    """The spaces of environments differ; a ``RuntimeError`` too, as in Gymnasium."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an executor, checked at construction.

    Made by keyword, and checked when it is made; `mtwrappers.vector.executors.Executor`
    describes each argument.

    Raises:
        ValueError, TypeError: If an argument is not valid.
    """

    meta_batch_size: int
    envs_per_task: int = 1
    max_path_length: int | None = None
    autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP
    observation_mode: ObservationMode = "same"
    unify: Unify = None
    workers: int | None = None
    on_worker_failure: OnWorkerFailure = "raise"
    max_recoveries: int = 3
    journal: bool = False
    journal_warn_bytes: float = JOURNAL_WARN_BYTES
    timeout: float | None = TIMEOUT
    context: str | None = None
    ray_options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        limit, ray_options = self.max_path_length, self.ray_options
        checked = {
            "meta_batch_size": positive(self.meta_batch_size, "meta_batch_size"),
            "envs_per_task": positive(self.envs_per_task, "envs_per_task"),
            "max_path_length": None if limit is None else positive(limit, "max_path_length"),
            "observation_mode": _check_observation_mode(self.observation_mode),
            "unify": check_unify(self.unify),
            "workers": None if self.workers is None else positive(self.workers, "workers"),
            "max_recoveries": positive(self.max_recoveries, "max_recoveries"),
            "journal_warn_bytes": above_zero(self.journal_warn_bytes, "journal_warn_bytes"),
            "ray_options": ray_options and check_mapping(ray_options, "ray_options"),
        }
        check_choice(self.on_worker_failure, ("raise", "recover"), "on_worker_failure")
        check_choice(self.context, (None, "fork", "spawn", "forkserver"), "context")
        if self.timeout is not None:
            above_zero(self.timeout, "timeout, if it is not None,")
        # A lost worker is replaced by replaying the journal.
        checked["journal"] = check_flag(self.journal, "journal") or self.recovers
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def recovers(self) -> bool:
        """Whether lost workers are replaced."""
        return self.on_worker_failure == "recover"


def resolve_makers(
    env: Maker | Sequence[Maker] | gymnasium.Env[Any, Any],
    meta_batch_size: int,
    envs_per_task: int,
) -> tuple[list[Maker], list[int] | None]:
    """Returns one constructor per environment, and for copies of one environment, first seeds.

    Copies share the environment's random state, so their episodes would be identical without
    different seeds. The seeds follow from the environment's generator, or from entropy if it has
    none yet.
    """
    n = meta_batch_size * envs_per_task
    seeds = None
    makers: list[Any]
    if isinstance(env, gymnasium.Env):
        try:
            data = cloudpickle.dumps(env)
        except Exception as exc:
            raise TypeError(
                f"an environment must be picklable to be copied by an executor, {env} is not "
                f"({exc}); pass its constructor instead"
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
    """Draws a seed from a copy of an environment's generator, which is not advanced."""
    # Not `np_random`, which would create a generator if there is none.
    rng = getattr(env.unwrapped, "_np_random", None)
    if not isinstance(rng, np.random.Generator):
        return seeding.fresh_seed()
    return int(copy.deepcopy(rng).integers(2**32))


def check_autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    """The `AutoresetMode` with this name or value."""
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
        spaces: The space of each environment. They must be equal if the mode is ``"same"``, and
            otherwise have the same shapes and dtypes.
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
    """Raises `DifferentSpacesError` if action spaces differ."""
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
