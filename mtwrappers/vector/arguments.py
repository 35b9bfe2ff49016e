"""What an executor checks of its caller's arguments before anything happens."""

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
from gymnasium.vector.utils import batch_differing_spaces, batch_space, iterate
from numpy.typing import NDArray

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    above_zero,
    check_choice,
    check_flag,
    check_options,
    check_space,
    positive,
)
from mtwrappers.common.spaces import difference
from mtwrappers.core.pad_spaces import Unify, check_unify
from mtwrappers.vector.buffers import ARRAY_SPACES

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


def split_options(
    options: Any, n: int
) -> tuple[list[dict[str, Any] | None], NDArray[np.bool_] | None]:
    """The options of each of ``n`` environments, and a copy of the reset mask if there is one."""
    if options is not None and not isinstance(options, dict):
        raise TypeError(f"options must be a dict or None, got {options!r}")
    known = ("reset_mask", "env_options")
    check_options(options, known, "a vector environment", passes_on=True)
    if options is None or not options.keys() & known:
        return [options] * n, None
    shared = {key: value for key, value in options.items() if key not in known}
    each: list[dict[str, Any] | None] = [shared] * n
    if "env_options" in options:
        given = options["env_options"]
        if not isinstance(given, (list, tuple)) or len(given) != n:
            raise ValueError(f"env_options must be a list with {n} dicts or None, got {given!r}")
        for i, one in enumerate(given):
            if not isinstance(one, (dict, type(None))):
                raise TypeError(
                    f"env_options of environment {i} must be a dict or None, got {one!r}"
                )
            each[i] = {**shared, **(one or {})}
    if "reset_mask" not in options:
        return each, None
    mask = options["reset_mask"]
    if not isinstance(mask, np.ndarray):
        raise TypeError(f"reset_mask must be a bool array, got {mask!r}")
    if mask.shape != (n,):
        raise ValueError(f"reset_mask must have shape ({n},), got {mask.shape}")
    if mask.dtype != np.bool_:
        raise TypeError(f"reset_mask must be a bool array, got one of {mask.dtype}")
    if not mask.any():
        raise ValueError(f"reset_mask must name at least one environment, got {mask}")
    return each, mask.copy()


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


class ActionCheck:
    """Checks ``n`` actions in a space, whose batch is ``batch``, and copies them."""

    def __init__(self, space: Space[Any], batch: Space[Any], n: int) -> None:
        self._batch, self._n = batch, n
        self.is_array = isinstance(space, ARRAY_SPACES)
        self.row_shape: tuple[int, ...] = tuple(space.shape or ()) if self.is_array else ()
        self._shape = (n, *self.row_shape)
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
        if shape != self._shape:
            raise ValueError(
                f"expected actions of shape {self._shape}, a row for each of environments "
                f"0 to {n - 1}, got {type(actions).__name__} of shape {shape}"
            )
        if array.dtype.kind not in "biuf" or array.itemsize > 8:
            raise ValueError(f"actions must be numbers of at most 8 bytes, got {array.dtype}")
        if self._may_be_nan and np.count_nonzero(np.isnan(array)):
            bad = np.isnan(array).reshape(n, -1).any(axis=1)
            raise ValueError(
                f"actions of environments {np.flatnonzero(bad).tolist()} are NaN; nothing was "
                "stepped"
            )
        return array
