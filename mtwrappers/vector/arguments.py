"""What an executor checks of its caller's arguments before anything happens."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Box, Space
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate
from numpy.typing import NDArray

from mtwrappers import seeding
from mtwrappers.checks import above_zero, check_choice, check_flag, check_options, positive
from mtwrappers.spaces import difference
from mtwrappers.vector.buffers import ARRAY_SPACES

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
JOURNAL_WARN_BYTES = 1e9


class Settings(NamedTuple):
    """What is common to an executor and its blocks.

    Attributes:
        meta_batch_size: ``M``, how many tasks.
        envs_per_task: ``K``, how many environments per task.
        max_path_length: Truncate episodes after this many steps; None leaves them alone.
        autoreset_mode: How an episode begins after another ends.
        journal: Whether to keep what the environments were told since their last resets.
        journal_warn_bytes: How large that may grow before a warning says so.
    """

    meta_batch_size: int
    envs_per_task: int
    max_path_length: int | None
    autoreset_mode: AutoresetMode
    journal: bool = False
    journal_warn_bytes: float = math.inf

    @classmethod
    def check(
        cls,
        meta_batch_size: int,
        envs_per_task: int,
        max_path_length: int | None,
        autoreset_mode: str | AutoresetMode,
        journal: bool,
        journal_warn_bytes: float,
    ) -> Settings:
        """The settings that a caller asks for, or a ``ValueError`` or ``TypeError``."""
        limit = None if max_path_length is None else positive(max_path_length, "max_path_length")
        return cls(
            positive(meta_batch_size, "meta_batch_size"),
            positive(envs_per_task, "envs_per_task"),
            limit,
            check_autoreset_mode(autoreset_mode),
            check_flag(journal, "journal"),
            above_zero(journal_warn_bytes, "journal_warn_bytes"),
        )


def check_recovery(
    settings: Settings, on_worker_failure: str, max_recoveries: int, timeout: float | None
) -> tuple[Settings, int, float | None]:
    """Checks what an executor with workers is to do when one of them is lost.

    Returns:
        The settings, with a journal if workers are to be replaced; how often in a row that may
        happen in one call; and after how many seconds a silent worker counts as hung.
    """
    recover = check_choice(on_worker_failure, ("raise", "recover"), "on_worker_failure")
    most = positive(max_recoveries, "max_recoveries")
    if timeout is not None:
        timeout = above_zero(timeout, "timeout, if it is not None,")
    if recover == "raise":
        return settings, 0, timeout
    return settings._replace(journal=True), most, timeout


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


def check_same_spaces(spaces: Sequence[tuple[Space[Any], Space[Any]]]) -> None:
    """Refuses environments whose spaces (observation, action) differ."""
    for i, pair in enumerate(spaces):
        for what, space, expected in zip(("observation", "action"), pair, spaces[0], strict=True):
            if space != expected:
                hint = ""
                boxes = isinstance(space, Box) and isinstance(expected, Box)
                if boxes and len(space.shape or ()) == len(expected.shape or ()) == 1:
                    hint = (
                        "; gymnasium.make_vec('mtwrappers/MultiEnv-v0', env_ids=[...], "
                        "unify='pad') appends zeros to shorter observations"
                    )
                raise ValueError(
                    f"environment {i} has {what} space {space}, expected {expected} as in "
                    f"environment 0{difference(space, expected) or hint}"
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
