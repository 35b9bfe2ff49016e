"""The settings of an executor, and the constructors of its environments."""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, get_args

import cloudpickle
import gymnasium
import numpy as np
from gymnasium.spaces import Space
from gymnasium.vector import AutoresetMode

from mtwrappers.common import seeding
from mtwrappers.common.checks import (
    above_zero,
    check_choice,
    check_flag,
    check_maker,
    check_mapping,
    hint_at_maker,
    positive,
)
from mtwrappers.common.errors import short
from mtwrappers.common.loop_variables import warn_of_loop_variables
from mtwrappers.common.spaces import difference
from mtwrappers.core.pad_spaces import Unify, check_unify, explain_spaces

Maker: TypeAlias = Callable[[], gymnasium.Env[Any, Any]]
OnWorkerFailure: TypeAlias = Literal["raise", "recover"]
StartMethod: TypeAlias = Literal["fork", "spawn", "forkserver"]
# A value or a name of `gymnasium.vector.AutoresetMode`.
AutoresetName: TypeAlias = Literal[
    "NextStep", "SameStep", "Disabled", "NEXT_STEP", "SAME_STEP", "DISABLED"
]
# The settings in which executors may differ that go on with each other's state.
MAY_DIFFER = ("workers", "on_worker_failure", "journal", "timeout", "context", "ray_options")


class DifferentSpacesError(ValueError, RuntimeError):
    """The spaces of environments differ; a ``RuntimeError`` too, as in Gymnasium."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of an executor, checked when they are made.

    Attributes:
        meta_batch_size: ``M``, the number of tasks.
        envs_per_task: ``K``, the number of environments per task.
        max_path_length: The number of steps after which episodes are truncated; ``None`` for no
            limit.
        autoreset_mode: How an episode begins after another ends, one of
            `gymnasium.vector.AutoresetMode`.
        unify: ``"pad"`` wraps each environment in `PadSpaces`, which pads all to the longest; a
            dict has arguments for it, such as
            ``{"observation_size": 128, "action_size": 16}``; see
            `mtwrappers.MultiEnvWrapper`.
        workers: The number of workers, at most one per environment. By default one process per core
            that this process may use, or one actor per CPU of the cluster. Must be 1 or ``None``
            for the iterative executor.
        on_worker_failure: ``"raise"`` closes the executor when a worker is lost. ``"recover"``
            replaces the worker, and always keeps a journal. Workers that are lost more than three
            times in the same call raise `WorkerDiedError`, as when an environment causes it.
        journal: Whether to record all that was done since the last resets, so that `get_state`
            works in mid-episode: the bytes of every action, and calls.
        timeout: Seconds after which a silent worker counts as hung; ``None`` waits forever.
        context: How processes are started: ``"fork"``, ``"spawn"`` or ``"forkserver"``. ``None`` is
            Python's default, but ``"forkserver"`` instead of a fork if this process has other
            threads or has imported JAX, and with ``"recover"``, when there may be threads later.
        ray_options: Arguments of Ray's ``options`` for the resources and placement of each actor,
            such as ``{"num_cpus": 2, "scheduling_strategy": "SPREAD"}``; by default one CPU. Only
            on Ray.

    Raises:
        ValueError, TypeError: If an argument is not valid.

    >>> from mtwrappers.vector.settings import Settings
    >>> Settings(meta_batch_size=10, on_worker_failure="recover").journal
    True
    """

    meta_batch_size: int
    envs_per_task: int = 1
    max_path_length: int | None = None
    autoreset_mode: AutoresetMode = AutoresetMode.SAME_STEP
    unify: Unify = None
    workers: int | None = None
    on_worker_failure: OnWorkerFailure = "raise"
    journal: bool = False
    timeout: float | None = 300.0
    context: StartMethod | None = None
    ray_options: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        limit, ray_options = self.max_path_length, self.ray_options
        if ray_options is not None:
            check_mapping(ray_options, "ray_options")
        checked = {
            "meta_batch_size": positive(self.meta_batch_size, "meta_batch_size"),
            "envs_per_task": positive(self.envs_per_task, "envs_per_task"),
            "max_path_length": None if limit is None else positive(limit, "max_path_length"),
            "unify": None if self.unify is None else check_unify(self.unify),
            "workers": None if self.workers is None else positive(self.workers, "workers"),
            # A lost worker is replaced by replaying the journal.
            "journal": check_flag(self.journal, "journal") or self.on_worker_failure == "recover",
        }
        check_choice(self.on_worker_failure, get_args(OnWorkerFailure), "on_worker_failure")
        check_choice(self.context, (None, *get_args(StartMethod)), "context")
        if self.timeout is not None:
            above_zero(self.timeout, "timeout, if it is not None,")
        if not isinstance(self.autoreset_mode, AutoresetMode):
            checked["autoreset_mode"] = _find_autoreset_mode(self.autoreset_mode)
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def seconds_of_silence(self) -> float:
        """The ``timeout``, infinite if it is ``None``."""
        return math.inf if self.timeout is None else self.timeout


class ExecutorSettings(TypedDict, total=False):
    """The keywords of an executor, which are the `Settings` other than sizes."""

    autoreset_mode: AutoresetMode | AutoresetName
    unify: Unify
    workers: int | None
    on_worker_failure: OnWorkerFailure
    journal: bool
    timeout: float | None
    context: StartMethod | None
    ray_options: Mapping[str, Any] | None


SETTING_NAMES = ExecutorSettings.__optional_keys__


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
        makers = [functools.partial(_load_copy, data, str(env))] * n
        seed = _draw_seed(env)
        seeds = [seeding.child_seed(seed, i) for i in range(n)]
    elif callable(env):
        makers = [env] * n
    elif isinstance(env, Sequence) and not isinstance(env, (str, bytes)):
        if len(env) == n:
            makers = list(env)
        elif len(env) == meta_batch_size:
            makers = [maker for maker in env for _ in range(envs_per_task)]
        else:
            raise ValueError(
                f"expected {meta_batch_size} constructors (one per task, {meta_batch_size=}) or "
                f"{n} (one per environment, {envs_per_task=}), got {len(env)}"
            )
    else:
        raise TypeError(
            "expected a constructor, a list of constructors or a gymnasium.Env, got "
            f"{short(env)}{hint_at_maker(env)}"
        )
    for i, maker in enumerate(makers):
        check_maker(maker, f"the constructor of environment {i}")
    warn_of_loop_variables(makers, "the list")
    return makers, seeds


def _load_copy(data: bytes, name: str) -> Any:
    """Returns a copy of the environment ``name`` from its pickle, or raises `TypeError`."""
    try:
        return cloudpickle.loads(data)
    except Exception as exc:
        raise TypeError(
            f"an environment must be picklable to be copied by an executor, but unpickling {name} "
            f"failed ({exc}); pass its constructor instead. A class that derives from one with "
            "EzPickle, such as Gymnasium's on MuJoCo, has to call EzPickle.__init__ with its own "
            "arguments"
        ) from exc


def _draw_seed(env: gymnasium.Env[Any, Any]) -> int:
    """Draws a seed from a copy of an environment's generator, which is not advanced."""
    # Not `np_random`, which would create a generator if there is none.
    rng = getattr(env.unwrapped, "_np_random", None)
    if not isinstance(rng, np.random.Generator):
        return seeding.fresh_seed()
    return int(copy.deepcopy(rng).integers(2**32))


def _find_autoreset_mode(name: str) -> AutoresetMode:
    """The `AutoresetMode` with this name or value."""
    for mode in AutoresetMode:
        if isinstance(name, str) and name in (mode.value, mode.name):
            return mode
    raise ValueError(
        f"autoreset_mode must be one of {[mode.value for mode in AutoresetMode]}, got {name!r}"
    )


def require_same_spaces(
    spaces: Sequence[tuple[Space[Any], Space[Any]]],
) -> tuple[Space[Any], Space[Any]]:
    """The observation and action space of all environments.

    Raises:
        DifferentSpacesError: If they differ.
    """
    for i, pair in enumerate(spaces):
        for kind, space, expected in zip(("observation", "action"), pair, spaces[0], strict=True):
            if space != expected:
                raise DifferentSpacesError(
                    f"environment {i} has another {kind} space than environment 0; "
                    f"{explain_spaces(spaces)}: {difference(space, expected)}"
                )
    return spaces[0]
