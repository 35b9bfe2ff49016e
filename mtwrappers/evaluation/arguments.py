"""Which arguments a protocol fixes, and which change no score.

Each argument of `evaluate`, of `few_shot_evaluate` and of `gymnasium.make_vec` with Meta-World's
ids is in one table: it is fixed by a field of the protocol, refused under any protocol, or free.
"""

from __future__ import annotations

import functools
import reprlib
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Literal, TypeAlias

from mtwrappers.evaluation.rules import LIST_OF_GOALS, Rules
from mtwrappers.metaworld.agent_view import by_our_names, default_task_encoding
from mtwrappers.metaworld.benchmarks import DEFAULT_CLASS, META_LEARNING
from mtwrappers.metaworld.class_env import SawyerSettings
from mtwrappers.metaworld.pixels import CAMERA
from mtwrappers.metaworld.registered import VectorSettings

Kind: TypeAlias = Literal["fixed", "free", "refused"]
Function: TypeAlias = Literal["evaluate", "few_shot_evaluate", "make_vec"]

# What the agent is shown of its task. It changes no score, so no field says it and every policy
# gets what it was trained on; but sentences are the task where frames are observed, and where goals
# are hidden the agent has to infer the task.
SHOWN_OF_THE_TASK = ("task_encoding", "descriptions")


def _kinds(*, fixed: str, free: str, refused: str = "") -> dict[str, Kind]:
    kinds: dict[str, Kind] = {}
    kinds.update(dict.fromkeys(fixed.split(), "fixed"))
    kinds.update(dict.fromkeys(free.split(), "free"))
    kinds.update(dict.fromkeys(refused.split(), "refused"))
    return kinds


ARGUMENTS: dict[Function, dict[str, Kind]] = {
    # A choice of tasks has no score: not all episodes are there.
    "evaluate": _kinds(
        fixed="protocol envs episodes_per_task max_episode_steps",
        free="policy policy_name policy_in tasks seed observers finished confidence resamples "
        "progress evidence",
    ),
    "few_shot_evaluate": _kinds(
        fixed="protocol envs trials adaptation_episodes evaluation_episodes adaptation_steps "
        "adaptation_terminate_on_success",
        free="policy policy_name seed finished confidence resamples evidence",
        refused="tasks",
    ),
    # Meta-World's own names count as ours, see `by_our_names`. Those of frames are fixed where
    # frames are observed; those of `SHOWN_OF_THE_TASK`, where that says so; envs_per_task, in
    # few-shot evaluation, where it would change how a trial is shared out.
    "make_vec": _kinds(
        fixed="benchmark kind env_name goals seed num_goals meta_batch_size "
        "max_episode_steps action_repeat idle_steps terminate_on_success reward_function_version "
        "observation camera_name camera_id width height upright shadows "
        "task_encoding descriptions envs_per_task",
        free="id num_envs workers execution context timeout on_worker_failure max_recoveries "
        "journal journal_warn_bytes ray_options autoreset_mode observation_mode unify fast "
        "render_mode record_episode_statistics select sample_tasks_on_reset "
        "recurrent_info_in_obs normalize_reward_in_recurrent_info normalize_observations",
        refused="train_classes test_classes reward_normalization_method reward_alpha "
        "vectorization_mode vector_kwargs wrappers",
    ),
}


def fixed_by(rules: Rules, function: Function) -> dict[str, Any]:
    """The arguments of a function that a protocol fixes, with their values.

    ``None`` is what is not given.
    """
    if function == "evaluate":
        steps = rules.env_steps  # after which the environments cut episodes by themselves
        return {"episodes_per_task": rules.episodes_per_task, "max_episode_steps": steps}
    if function == "few_shot_evaluate":
        return {
            "trials": rules.trials,
            "adaptation_episodes": rules.adaptation_episodes,
            "evaluation_episodes": rules.episodes_per_task,
            "adaptation_steps": rules.adaptation_steps,
            "adaptation_terminate_on_success": rules.adaptation_terminate_on_success,
        }
    frames = rules.observation != "state"
    found: dict[str, Any] = {
        "benchmark": rules.benchmark,
        "kind": rules.kind,
        "env_name": rules.env_name,
        "goals": rules.goals,
        "seed": rules.goals_seed,
        "num_goals": rules.num_goals or LIST_OF_GOALS,
        "meta_batch_size": rules.meta_batch_size or None,
        "max_episode_steps": rules.env_steps,
        "action_repeat": rules.action_repeat,
        "idle_steps": rules.idle_steps,
        "terminate_on_success": rules.terminate_on_success,
        "reward_function_version": rules.reward_function_version,
        "observation": rules.observation,
    }
    if rules.few_shot:
        found["envs_per_task"] = 1
    if frames:
        height, width = rules.image_size or (None, None)
        found |= {"camera_name": rules.camera_name, "camera_id": None, "upright": True}
        found |= {"height": height, "width": width, "shadows": True}
    if frames or not rules.goal_visible:
        found |= dict(zip(SHOWN_OF_THE_TASK, ("none", rules.descriptions), strict=True))
    return found


def check_given(rules: Rules, function: Function, given: Mapping[str, Any]) -> None:
    """Refuses arguments that contradict a protocol.

    Raises:
        ValueError: If one does; the message names it, what the protocol fixes and what came.
    """
    fixed, kinds = fixed_by(rules, function), ARGUMENTS[function]
    for name, value in given.items():
        # None is what is not given, but for a make_vec that never cuts episodes.
        if value is None and (function == "make_vec") is (name != "max_episode_steps"):
            continue
        if kinds.get(name) == "refused" and value is not None:
            got = reprlib.repr(value)
            raise ValueError(f"{rules.name} takes no {name} in {function}, got {got}")
        if name in fixed and value != fixed[name]:
            got = reprlib.repr(value)
            raise ValueError(f"{rules.name} fixes {name}={fixed[name]!r}, got {got}")


def check_evaluation(rules: Rules, function: Function, envs: Any, given: Mapping[str, Any]) -> None:
    """Refuses an evaluation that does not follow a protocol.

    Args:
        rules: The protocol.
        function: What evaluates.
        envs: The vector environments, or a wrapper of them.
        given: Its arguments.

    Raises:
        ValueError: If an argument or an environment contradicts the protocol.
    """
    if rules.few_shot != (function == "few_shot_evaluate"):
        other = "few_shot_evaluate" if rules.few_shot else "evaluate"
        raise ValueError(f"{rules.name} is measured by {other}, not by {function}")
    check_given(rules, function, given)
    inner = getattr(envs, "unwrapped", envs)
    spec = getattr(inner, "spec", None)
    check_made(rules, spec and spec.id, {} if spec is None else spec.kwargs, f" in {envs}")
    ends = inner.get_attr("terminate_on_success")
    if any(end is not rules.terminate_on_success for end in ends):
        raise ValueError(
            f"{rules.name} fixes terminate_on_success={rules.terminate_on_success}, which was "
            f"changed since the environments were made: got {ends}"
        )


def check_made(rules: Rules, env_id: Any, kwargs: Mapping[str, Any], where: str = "") -> None:
    """Refuses environments that are not a protocol's, by the id and arguments they were made with.

    Raises:
        TypeError, ValueError: If they are not; the message ends with ``where``.
    """

    def refuse(name: str, expected: Any, got: Any) -> None:
        raise ValueError(
            f"{rules.name} needs environments of its make_vec: it fixes {name}={expected!r}, got "
            f"{reprlib.repr(got)}{where}"
        )

    if env_id != rules.env_id:
        refuse("id", rules.env_id, env_id)
    given = by_our_names(kwargs)
    made = _with_defaults(given)
    for name, expected in fixed_by(rules, "make_vec").items():
        if made.get(name) != expected:
            refuse(name, expected, made.get(name))
    for name, value in given.items():
        refused = ARGUMENTS["make_vec"].get(name) == "refused"
        if refused and value is not None and value != _defaults().get(name):
            raise ValueError(
                f"{rules.name} takes no {name} in make_vec, got {reprlib.repr(value)}{where}"
            )


@functools.cache
def _defaults() -> dict[str, Any]:
    """The arguments of `make_vec` that are not given."""
    settings = (*fields(VectorSettings), *fields(SawyerSettings))
    found: dict[str, Any] = {field.name: field.default for field in settings}
    # What Gymnasium writes into the spec where it has called ours.
    found |= {"vectorization_mode": "vector_entry_point", "reward_alpha": 0.001}
    return {**found, "observation": "state", "action_repeat": 1}


def _with_defaults(given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `make_vec` as they count, whether they were given or not."""
    made = {**_defaults(), **given}
    benchmark = str(made.get("benchmark"))
    hidden, one_class = benchmark in META_LEARNING, benchmark in ("MT1", "ML1")
    frames = made["observation"] != "state" and made["camera_id"] is None
    each = made["envs_per_task"] or 1
    of_size = made.get("num_envs", 1)
    groups = of_size // each if hidden and type(of_size) is int and of_size > 1 else None
    stands_for = {
        "seed": 0,
        "env_name": DEFAULT_CLASS if one_class else None,
        "meta_batch_size": groups,
        "envs_per_task": 1,
        "camera_name": CAMERA if frames else None,
        "task_encoding": default_task_encoding(benchmark),
        "descriptions": None if hidden else "metaworld",
    }
    return {**made, **{k: v for k, v in stands_for.items() if made.get(k) is None}}
