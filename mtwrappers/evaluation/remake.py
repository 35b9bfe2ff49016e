"""Makes the environments of a result again.

A file is only data: nothing in it is run, and only environments of this package are made from it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import reprlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import load_env_creator
from gymnasium.vector import VectorObservationWrapper, VectorWrapper
from gymnasium.wrappers import vector as vector_wrappers

from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import printable
from mtwrappers.common.registration import EPISODE_STEPS, TABLE
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.plan import Design, Plan
from mtwrappers.metaworld.make import select_determining_arguments, shares_goals
from mtwrappers.metaworld.observations import drop_frame_arguments
from mtwrappers.metaworld.upstream_names import rename_arguments
from mtwrappers.vector.calls import read_only
from mtwrappers.vector.make import make_executor
from mtwrappers.wrappers.normalize_observation import VectorNormalizeObservationPerTask
from mtwrappers.wrappers.rl2 import VectorRL2Observation
from mtwrappers.wrappers.task_name import TaskNameWrapper

# Limits of arguments that cost time and memory: before an episode begins, and in each.
_MAX = {"num_envs": 10_000, "meta_batch_size": 10_000, "envs_per_task": 10_000, "num_goals": 1000}
_MAX |= {"action_repeat": 100, "idle_steps": 1000}
_MAX_LENGTH = 1000
# The arguments that every id of Meta-World has one of, and the modules of these ids.
_METAWORLD_ARGUMENTS = {"benchmark", "sequence"}
_METAWORLD = ("mtwrappers.metaworld", "mtwrappers.continual")
# With more environments than this, each must have an episode.
_FEW = 100
# The wrappers of vector environments that change neither actions nor rewards nor ends nor success.
# What a policy makes of observations is its own affair.
_HARMLESS: tuple[type[Any], ...] = (
    VectorNormalizeObservationPerTask,
    VectorRL2Observation,
    VectorObservationWrapper,
    vector_wrappers.NormalizeObservation,
    vector_wrappers.VectorizeTransformObservation,
    vector_wrappers.RecordEpisodeStatistics,
    vector_wrappers.HumanRendering,
)
if hasattr(vector_wrappers, "RecordVideo"):  # later than Gymnasium 1.2
    _HARMLESS += (vector_wrappers.RecordVideo,)
# Likewise for wrappers of single environments, in which a stream may be, besides this package's.
_HARMLESS_SINGLE: tuple[type[Any], ...] = (
    gymnasium.ObservationWrapper,
    gymnasium.wrappers.RecordEpisodeStatistics,
    gymnasium.wrappers.RecordVideo,
)
# A subclass that overrides one of these is another wrapper.
_METHODS = ("step", "step_async", "step_wait", "reset", "set_tasks")


class VerificationError(ValueError):
    """A result contradicts itself, or cannot be replayed here."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 1000))


@dataclass(frozen=True)
class Environments:
    """The vector environment of an evaluation, as a file names it.

    Args:
        id: The id in Gymnasium's registry.
        kwargs: What was passed to ``gymnasium.make_vec``, as JSON values, by the names of this
            package; and as ``"wrappers"`` the names of the classes around the vector environment
            that may change what is scored, the outermost first.
        goals: A digest of the goals, if there is a list.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> result = mtwrappers.evaluate(lambda observations: np.full((2, 2), 0.1), envs, 3)
    >>> result.environments.id, result.environments.kwargs["max_episode_steps"]
    ('mtwrappers/PointGoal-v0', 5)
    """

    id: str
    kwargs: Mapping[str, Any]
    goals: str | None = None

    def __post_init__(self) -> None:
        if self.is_metaworld:  # which has two names for some
            object.__setattr__(self, "kwargs", rename_arguments(self.kwargs))
        names = self.kwargs.get("wrappers")
        if names is not None and not (isinstance(names, list) and {*map(type, names)} <= {str}):
            raise ValueError(f"wrappers must be a list of names, got {reprlib.repr(names)}")

    @property
    def is_metaworld(self) -> bool:
        """Whether they are Meta-World's: by their arguments, or a registered id of its modules."""
        module, *_ = TABLE.get(self.id, ("",))
        return bool(self.kwargs.keys() & _METAWORLD_ARGUMENTS) or module.startswith(_METAWORLD)

    @property
    def is_family(self) -> bool:
        """Whether they are a family of tasks of this package, whose seeds determine the tasks."""
        return "family" in TABLE.get(self.id, ("", {}))[1]

    @property
    def spec(self) -> dict[str, Any]:
        """The id and the arguments, for `mtwrappers.metaworld.make`."""
        return {"id": self.id, "kwargs": self.kwargs}

    @property
    def wrappers(self) -> tuple[str, ...]:
        """The names of wrappers that may change what is scored, the outermost first."""
        return tuple(self.kwargs.get("wrappers") or ())


def name_environments(envs: Any) -> Environments | None:
    """The environments as a file names them; ``None`` if they have no spec that JSON holds."""
    names, layer = [], envs
    while isinstance(layer, VectorWrapper):
        if not _is_harmless(type(layer), _HARMLESS):
            names.append(type(layer).__name__)
        layer = layer.env
    if layer.spec is None:
        return None
    specs = reversed(layer.spec.additional_wrappers)
    names += [spec.name for spec in specs if not _is_harmless_single(spec.entry_point)]
    kwargs = {**layer.spec.kwargs, **({"wrappers": names} if names else {})}
    try:
        described = json.loads(json.dumps(kwargs, default=_to_json))
    except (TypeError, ValueError):  # arguments that no JSON holds
        return None
    return Environments(layer.spec.id, described, digest_goals(envs))


def _is_harmless(cls: Any, kinds: tuple[type[Any], ...]) -> bool:
    """Whether a wrapper is of a known kind, with the methods of that kind."""
    kind = next((base for base in cls.__mro__ if base in kinds), None)
    return kind is not None and all(
        getattr(cls, name, None) is getattr(kind, name, None) for name in _METHODS
    )


def _is_harmless_single(entry_point: str) -> bool:
    """Whether a wrapper of single environments is this package's, or of a known kind."""
    if entry_point.startswith("mtwrappers."):  # which arguments of the id choose
        return True
    try:
        return _is_harmless(load_env_creator(entry_point), _HARMLESS_SINGLE)
    except (ImportError, AttributeError):  # a class inside a function
        return False


def _to_json(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON values."""
    if isinstance(value, (np.generic, np.ndarray)):
        return value.tolist()
    raise TypeError(f"{value!r} is not JSON")


def digest_goals(envs: Any) -> str | None:
    """A digest of the goals of environments, if there is a list."""
    digest: str | None = envs.unwrapped.call_some([0], _read_goals_digest)[0]
    return digest


@read_only
def _read_goals_digest(env: Any) -> str | None:
    """A digest of the goals of an environment; runs in the environment's process."""
    digest: str | None = getattr(env.unwrapped, "goals_digest", None)
    return digest


def remake(
    environments: Environments | None,
    design: Design,
    episodes: Sequence[Episode],
    workers: int = 1,
) -> Any:
    """Makes the environments of a result, enough for all ``workers``.

    Few-shot trials get the original number of environments. No frames are drawn, because
    observations do not matter if actions are given.

    A file must not decide which code runs. So the id must be one of this package's, and it calls
    the entry point that is registered here, not one from the result. Nor can a file exhaust the
    memory: sizes are checked before anything is made.

    Args:
        environments: The environments, from the result.
        design: The design, from the result.
        episodes: The episodes of the result.
        workers: The number of worker processes; 1 for none.

    Raises:
        Exception: Whatever the environments raise, with arguments that may be anything.
        VerificationError: If the result does not say how to make them, or they are not this
            package's, or too many.
    """
    if environments is None:
        hint = ": PhaseEvaluator(...).envs of the same stream" * (design.phases is not None)
        raise VerificationError(
            "it does not say how to make its environments, which have no spec: call "
            f"mtwrappers.verify(..., envs=...) with them{hint}"
        )
    in_trials = design.trials > 0
    # Wrappers around the vector environment are not made.
    arguments = {k: v for k, v in environments.kwargs.items() if k != "wrappers"}
    env_id, chosen = select_determining_arguments(
        {"id": environments.id, "kwargs": arguments}, in_trials
    )
    if env_id not in TABLE or env_id == "mtwrappers/MultiEnv-v0":
        raise VerificationError(
            f"its environments are {env_id!r}, and a results file never decides which code "
            "runs: make them, and call mtwrappers.verify(..., envs=...)"
        )
    id_arguments = TABLE[env_id][1]
    check_id_arguments(env_id, arguments)
    kwargs = drop_frame_arguments({k: v for k, v in chosen.items() if k not in id_arguments})
    kwargs.update({k: v for k, v in arguments.items() if k.endswith("_classes")})
    _check_sizes(kwargs, len(episodes))
    if design.phases is not None:
        return _make_phases(env_id, kwargs, design, workers)
    if "benchmark" in id_arguments and not (in_trials or shares_goals(arguments)):
        limit = kwargs.setdefault("max_episode_steps", EPISODE_STEPS)
        if design.tasks is not None and limit is not None:
            # Single environments run the same episodes, and build only the chosen classes. (Without
            # a limit, `gymnasium.make` would give them one.)
            make = functools.partial(
                gymnasium.make, f"mtwrappers:{env_id}", disable_env_checker=True, **kwargs
            )
            num_envs = max(workers, 1)
            return make_executor([make] * num_envs, num_envs, workers=workers)
        # More environments of a class give the same episodes.
        kwargs["envs_per_task"] = -(-workers // len({episode.task for episode in episodes}))
    return gymnasium.make_vec(f"mtwrappers:{env_id}", workers=workers, **kwargs)


def check_id_arguments(env_id: str, arguments: Mapping[str, Any]) -> None:
    """Raises `VerificationError` if arguments that an id fixes have other values in a result."""
    id_arguments = TABLE[env_id][1]
    for name in ("benchmark", "kind", "sequence", "family"):
        if arguments.get(name) != id_arguments.get(name):
            got = f"{id_arguments.get(name)!r}, got {arguments.get(name)!r}"
            raise VerificationError(f"{env_id} has {name} {got}")


def _make_phases(env_id: str, kwargs: Mapping[str, Any], design: Design, workers: int) -> Any:
    """Makes an environment for each evaluated phase of a stream, which stays in this phase."""
    assert design.phases is not None
    claimed = [phase_label(i, name) for i, (name, _) in enumerate(design.phases)]
    if unknown := [label for label in design.tasks or () if label not in claimed]:
        raise VerificationError(f"its stream has no phase {unknown[0]!r}")
    make = functools.partial(gymnasium.make, f"mtwrappers:{env_id}", **kwargs)
    with contextlib.closing(make()) as env:
        stream: Any = env.unwrapped
        steps = [phase.steps for phase in stream.phases]
        phases = tuple(zip(stream.phase_names, steps, strict=True))
    if phases != design.phases:
        raise VerificationError(f"its stream has the phases {phases}, got {design.phases}")
    chosen = claimed if design.tasks is None else design.tasks
    makers = [functools.partial(make_held, make, claimed.index(label), label) for label in chosen]
    return make_executor(makers, len(makers), 1, workers=workers)


def phase_label(phase: int, name: str) -> str:
    """The name of a phase as a task of results."""
    return f"{phase} {name}"


def make_held(make: Callable[[], Any], phase: int, label: str) -> gymnasium.Env[Any, Any]:
    """Makes an environment with a stream that stays in a phase, under the name ``label``."""
    env = make()
    env.unwrapped.held_phase = phase
    return TaskNameWrapper(env, task_name=label)


def _check_sizes(kwargs: Mapping[str, Any], episodes: int) -> None:
    """Checks the sizes that arguments ask for, before anything is made."""
    for name, value in kwargs.items():
        if name in ("id", "vector_kwargs"):  # of `gymnasium.make_vec` itself
            raise VerificationError(f"environments of this package take no argument {name!r}")
        if isinstance(value, int) and value > (most := _MAX.get(name, sys.maxsize)):
            raise VerificationError(f"{name} must be at most {most:,}, got {value:,}")
        if isinstance(value, (list, dict)) and len(value) > _MAX_LENGTH:
            raise VerificationError(
                f"{name} must have at most {_MAX_LENGTH:,} entries, got {len(value):,}"
            )
    sizes = {name: size for name, size in kwargs.items() if isinstance(size, int)}
    in_groups = sizes.get("meta_batch_size", 1) * sizes.get("envs_per_task", 1)
    check_number(max(sizes.get("num_envs", 1), in_groups), episodes)


def check_replayable(environments: Environments | None, plan: Plan) -> None:
    """Checks that `remake` accepts the environments of a result that is to have evidence.

    Raises:
        ValueError: If they are too many, or an argument is too large.
    """
    if environments is None:  # which are passed to `verify`
        return
    env_id, kwargs = select_determining_arguments(environments.spec, plan.design.trials > 0)
    try:
        _check_sizes({k: v for k, v in kwargs.items() if k != "wrappers"}, len(plan.episodes))
    except VerificationError as exc:
        raise ValueError(
            f"a result of {env_id} with evidence could not be verified: {exc}"
        ) from exc


def check_number(num_envs: int, episodes: int) -> None:
    """Raises `VerificationError` for very many environments, compared with the episodes."""
    if num_envs > max(_FEW, episodes):
        raise VerificationError(
            f"it has {num_envs:,} environments for {format_count(episodes, 'episode')}: make the "
            "environments and give them as envs=..."
        )
