"""The environments of a saved result, made again."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from mtwrappers.common.errors import full_message
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.arguments import SHOWN_OF_THE_TASK
from mtwrappers.evaluation.claim import VerificationError
from mtwrappers.evaluation.provenance import Provenance
from mtwrappers.metaworld.benchmarks import META_LEARNING
from mtwrappers.metaworld.pixels import without_frames
from mtwrappers.vector.make import EXECUTOR_OPTIONS

# These do not change an episode's numbers, and are for whoever replays it to choose.
_CHOSEN_HERE = {*EXECUTOR_OPTIONS, "execution", "vector_strategy", "vectorization_mode"}
_CHOSEN_HERE |= {"fast", "render_mode"}
# Arguments of `gymnasium.make_vec` itself, which no spec of ours has.
_OF_GYMNASIUM = ("id", "vector_kwargs", "wrappers")
_GROUPS = ("num_envs", "meta_batch_size")
# How many environments play a class changes no episode.
_OF_EACH = ("num_envs", "envs_per_task")
# What takes time and memory by its size: before an episode begins, and in each.
_MAX = {"num_envs": 10_000, "meta_batch_size": 10_000, "envs_per_task": 10_000, "num_goals": 1000}
_MAX |= {"action_repeat": 100, "idle_steps": 1000}
_MAX_LENGTH = 1000
# More environments than this must have an episode each.
_FEW = 100


def determining(spec: Mapping[str, Any], in_trials: bool = False) -> tuple[str, dict[str, Any]]:
    """What of a spec determines episodes: the id, and the arguments that no user may choose.

    ``in_trials`` says that they are those of few-shot trials, which environments share.
    """
    kwargs = spec["kwargs"]
    chosen = {name: value for name, value in kwargs.items() if name not in _CHOSEN_HERE}
    seen = kwargs.get("observation", "state") != "state"
    if not seen and kwargs.get("benchmark") not in META_LEARNING:
        chosen = {k: v for k, v in chosen.items() if k not in (*SHOWN_OF_THE_TASK, "use_one_hot")}
    if "benchmark" in kwargs and not (in_trials or _shares_goals(kwargs)):
        chosen = {name: value for name, value in chosen.items() if name not in _OF_EACH}
    return spec["id"], chosen


def _shares_goals(kwargs: Mapping[str, Any]) -> bool:
    """Whether groups of environments may have shared a class's goals out among themselves."""
    return kwargs["benchmark"] in META_LEARNING and any(name in kwargs for name in _GROUPS)


def remake(
    provenance: Provenance,
    workers: int,
    fast: Any,
    episodes: int,
    make: Callable[..., Any] | None = None,
    in_trials: bool = False,
) -> Any:
    """Makes the environments of a result: as many as ``workers`` can step at once, or more.

    Few-shot trials (``in_trials``) are played on as many as before.
    They draw no frames: what is seen changes nothing where actions are given. ``make``, a
    protocol's `make_vec`, takes the place of `gymnasium.make_vec` with the id. ``episodes`` is how
    many the result has.

    A file is not to decide what code runs. So the id must be one of this package's, and what it
    calls is what is registered here, not what the result says. Nor is it to take all memory: sizes
    are checked before anything is made.

    Raises:
        VerificationError: If they cannot be made with these arguments.
    """
    spec = provenance.spec
    if spec is None:
        raise VerificationError(
            "it does not say how to make its environments (they have no spec, or are in a wrapper "
            "that changes actions or rewards): give them as envs=..."
        )
    env_id, chosen = determining(spec, in_trials)
    given = spec["kwargs"]
    if env_id not in TABLE or env_id == "mtwrappers/MultiEnv-v0":
        raise VerificationError(
            f"it was played on {env_id!r}, and no file decides which code runs: make these "
            "environments and give them as envs=..."
        )
    of_id = TABLE[env_id][1]
    for name in ("benchmark", "kind"):
        if given.get(name) != of_id.get(name):
            raise VerificationError(
                f"{env_id} has {name} {of_id.get(name)!r}, got {given.get(name)!r}"
            )
    kwargs = {name: value for name, value in chosen.items() if name not in of_id}
    kwargs.update({name: given[name] for name in given if name.endswith("_classes")})
    _check_sizes(kwargs, episodes)
    _check_sizes(provenance.protocol or {}, episodes)
    as_many = in_trials or ("benchmark" in of_id and _shares_goals(given))
    try:
        return _make(env_id, kwargs, workers, fast, episodes, make, as_many)
    except VerificationError:
        raise
    except Exception as exc:  # whatever arguments from anywhere lead to
        raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc


def _check_sizes(kwargs: Mapping[str, Any], episodes: int) -> None:
    for name in _OF_GYMNASIUM:
        if name in kwargs:
            raise VerificationError(f"environments of this package are not made with {name!r}")
    sizes = {name: size for name, size in kwargs.items() if isinstance(size, int)}
    for name, most in _MAX.items():
        if sizes.get(name, 0) > most:
            raise VerificationError(f"{name} must be at most {most:,}, got {sizes[name]:,}")
    for name, value in kwargs.items():
        if isinstance(value, (list, dict)) and len(value) > _MAX_LENGTH:
            raise VerificationError(
                f"{name} must have at most {_MAX_LENGTH:,} entries, got {len(value):,}"
            )
    groups = max(sizes.get(name, 1) for name in _GROUPS)
    each = sizes.get("envs_per_task", 1)
    _check_number(max(groups, each, sizes.get("meta_batch_size", 1) * each), episodes)


def _check_number(num_envs: int, episodes: int) -> None:
    if num_envs > max(_FEW, episodes):
        raise VerificationError(
            f"it was played in {num_envs:,} environments, and has {episodes:,} episodes: make the "
            "environments and give them as envs=..."
        )


def _make(
    env_id: str,
    kwargs: dict[str, Any],
    workers: int,
    fast: Any,
    episodes: int,
    make: Callable[..., Any] | None,
    as_many: bool,
) -> Any:
    if make is None:
        make = functools.partial(gymnasium.make_vec, f"mtwrappers:{env_id}")
        kwargs = without_frames(kwargs)
    else:  # which checks what is said of frames before it leaves them out
        make = functools.partial(make, frames=False)
    if "benchmark" in TABLE[env_id][1]:
        kwargs["fast"] = fast
        probe: Any = make(execution="iterative", **kwargs)
        with contextlib.closing(probe):
            groups, each = probe.meta_batch_size, probe.envs_per_task
        if as_many:
            _check_number(groups * each, episodes)
        else:
            each = kwargs["envs_per_task"] = -(-workers // groups)
        workers = min(workers, groups * each)
    return make(workers=workers, **kwargs)
