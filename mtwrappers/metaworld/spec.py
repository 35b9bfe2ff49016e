"""The arguments of an environment's spec: with defaults, and those that determine episodes.

Comparing and replaying results needs to know which arguments of a Meta-World id determine an
episode. Specs of other ids are returned unchanged.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from mtwrappers.metaworld.agent_view import default_task_encoding
from mtwrappers.metaworld.benchmarks import DEFAULT_CLASS, META_LEARNING, ONE_CLASS
from mtwrappers.metaworld.pixels import CAMERA
from mtwrappers.metaworld.registered import VectorSettings
from mtwrappers.metaworld.settings import SawyerSettings
from mtwrappers.vector.make import EXECUTOR_OPTIONS

# The packages whose versions change the results of episodes.
SIMULATION = ("metaworld", "mujoco")
# Arguments for how observations identify the task. They do not change an episode with given
# actions, except with frames and sentences, or if goals are hidden and the agent has to infer the
# task.
TASK_IN_OBSERVATION = ("task_encoding", "descriptions", "instruction")
# Arguments for the number of task groups, which share a class's goals in meta-learning.
GROUPS = ("num_envs", "meta_batch_size")
# These do not change an episode, and can be chosen freely for a replay.
_CHOSEN_BY_USER = {*EXECUTOR_OPTIONS, "execution", "vector_strategy", "vectorization_mode"}
_CHOSEN_BY_USER |= {"fast", "render_mode"}
# The number of environments per class does not change an episode.
_OF_EACH = ("num_envs", "envs_per_task")


@functools.cache
def defaults() -> Mapping[str, Any]:
    """The default arguments of `gymnasium.make_vec` with Meta-World's ids."""
    settings = (*dataclasses.fields(VectorSettings), *dataclasses.fields(SawyerSettings))
    found: dict[str, Any] = {field.name: field.default for field in settings}
    # The value that Gymnasium writes into the spec if it has called our entry point.
    found |= {"vectorization_mode": "vector_entry_point", "reward_alpha": 0.001}
    view = {"observation": "state", "depth": False, "instruction": False}
    return {**found, **view, "action_repeat": 1}


def with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """Completes arguments of `gymnasium.make_vec` with their defaults, in canonical form.

    ``given`` has our names, see `mtwrappers.metaworld.agent_view.by_our_names`.
    """
    made = {**defaults(), **given}
    benchmark = str(made.get("benchmark"))
    hidden = benchmark in META_LEARNING
    frames = made["observation"] != "state" and made["camera_id"] is None
    each = made["envs_per_task"] or 1
    of_size = made.get("num_envs", 1)
    groups = of_size // each if hidden and type(of_size) is int and of_size > 1 else None
    stands_for = {
        "seed": 0,
        "env_name": DEFAULT_CLASS if benchmark in ONE_CLASS else None,
        "meta_batch_size": groups,
        "envs_per_task": 1,
        "camera_name": CAMERA if frames else None,
        "task_encoding": default_task_encoding(benchmark),
        "descriptions": None if hidden else "metaworld",
    }
    made |= {k: v for k, v in stands_for.items() if made.get(k) is None}
    if isinstance(made["camera_name"], list):
        made["camera_name"] = tuple(made["camera_name"])  # a list in JSON
    return made


def determining(spec: Mapping[str, Any], in_trials: bool = False) -> tuple[str, dict[str, Any]]:
    """The id of a spec, and its arguments that determine episodes.

    Args:
        spec: A dict with ``id`` and ``kwargs``.
        in_trials: Whether the episodes belong to few-shot trials, which environments share.
    """
    kwargs = spec["kwargs"]
    found = {name: value for name, value in kwargs.items() if name not in _CHOSEN_BY_USER}
    frames = kwargs.get("observation", "state") != "state"
    if not frames and kwargs.get("benchmark") not in META_LEARNING:
        left_out = {*TASK_IN_OBSERVATION, "use_one_hot"}
        found = {name: value for name, value in found.items() if name not in left_out}
    if "benchmark" in kwargs and not (in_trials or shares_goals(kwargs)):
        found = {name: value for name, value in found.items() if name not in _OF_EACH}
    return spec["id"], found


def shares_goals(kwargs: Mapping[str, Any]) -> bool:
    """Whether task groups may have shared a class's goals."""
    return kwargs.get("benchmark") in META_LEARNING and any(name in kwargs for name in GROUPS)


def draws_goals(spec: Mapping[str, Any] | None) -> bool:
    """Whether each episode has its own goal, determined by its number and the seed."""
    return spec is not None and spec["kwargs"].get("goals") == "continuous"
