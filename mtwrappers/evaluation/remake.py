"""The environments of a saved result, made again."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium

from mtwrappers.evaluation.arguments import SHOWN_OF_THE_TASK
from mtwrappers.evaluation.claim import VerificationError
from mtwrappers.evaluation.provenance import Provenance
from mtwrappers.metaworld.benchmarks import META_LEARNING
from mtwrappers.metaworld.pixels import without_frames
from mtwrappers.registration import TABLE
from mtwrappers.vector.make import EXECUTOR_OPTIONS

# These do not change an episode's numbers, and are for whoever replays it to choose.
_CHOSEN_HERE = {*EXECUTOR_OPTIONS, "execution", "vector_strategy", "vectorization_mode"}
_CHOSEN_HERE |= {"fast", "render_mode"}
_GROUPS = ("num_envs", "meta_batch_size")
# How many environments play a class changes no episode.
_OF_EACH = ("num_envs", "envs_per_task")
_SIZES = (*_GROUPS, "envs_per_task", "num_goals")
_MAX_SIZE = 10_000


def determining(spec: Mapping[str, Any], in_trials: bool = False) -> dict[str, Any]:
    """What of a spec determines episodes: the id, and the arguments that no user may choose.

    ``in_trials`` says that they are those of few-shot trials, which environments share.
    """
    given = spec.get("kwargs")
    kwargs = given if isinstance(given, dict) else {}
    chosen = {name: value for name, value in kwargs.items() if name not in _CHOSEN_HERE}
    seen = kwargs.get("observation", "state") != "state"
    if not seen and kwargs.get("benchmark") not in META_LEARNING:
        chosen = {k: v for k, v in chosen.items() if k not in (*SHOWN_OF_THE_TASK, "use_one_hot")}
    if "benchmark" in kwargs and not (in_trials or _shares_goals(kwargs)):
        chosen = {name: value for name, value in chosen.items() if name not in _OF_EACH}
    return {"id": spec.get("id"), **chosen}


def _shares_goals(kwargs: Mapping[str, Any]) -> bool:
    """Whether groups of environments may have shared a class's goals out among themselves."""
    return kwargs["benchmark"] in META_LEARNING and any(name in kwargs for name in _GROUPS)


def remake(
    provenance: Provenance,
    workers: int,
    fast: Any,
    make: Callable[..., Any] | None = None,
    in_trials: bool = False,
) -> Any:
    """Makes the environments of a result: as many as ``workers`` can step at once, or more.

    Few-shot trials (``in_trials``) are played on as many as before.
    They draw no frames: what is seen changes nothing where actions are given. ``make``, a
    protocol's `make_vec`, takes the place of `gymnasium.make_vec` with the id.

    A file is not to decide what code runs. So the id must be one of this package's, and what it
    calls is what is registered here, not what the result says.

    Raises:
        TypeError, ValueError: If they cannot be made with these arguments.
    """
    spec = provenance.spec
    if spec is None:
        raise VerificationError(
            "it does not say how to make its environments (they have no spec, or are in a wrapper "
            "that changes actions or rewards): give them as envs=..."
        )
    env_id, given = spec.get("id"), spec.get("kwargs")
    if env_id not in TABLE or env_id == "mtwrappers/MultiEnv-v0" or not isinstance(given, dict):
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
    kwargs = {
        name: value
        for name, value in determining(spec, in_trials).items()
        if name not in ("id", *of_id)
    }
    kwargs.update({name: given[name] for name in of_id if name.endswith("_classes")})
    for name in _SIZES:
        if isinstance(size := kwargs.get(name), int) and size > _MAX_SIZE:
            raise VerificationError(f"{name} must be at most {_MAX_SIZE:,}, got {size}")
    if make is None:
        make, kwargs = (
            functools.partial(gymnasium.make_vec, f"mtwrappers:{env_id}"),
            without_frames(kwargs),
        )
    else:  # which checks what is said of frames before it leaves them out
        make = functools.partial(make, frames=False)
    if "benchmark" in of_id:
        kwargs["fast"] = fast
        probe: Any = make(execution="iterative", **kwargs)
        with contextlib.closing(probe):
            groups, each = probe.meta_batch_size, probe.envs_per_task
        if not (in_trials or _shares_goals(given)):
            each = kwargs["envs_per_task"] = -(-workers // groups)
        workers = min(workers, groups * each)
    return make(workers=workers, **kwargs)
