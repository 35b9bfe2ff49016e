"""The fields of a result that its replay depends on.

A replay would be the same with other values of all other fields: these are said by the file.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.metaworld.tasks import NUM_CLASSES, NUM_GOALS


def find_replayed_fields(
    result: EvaluationResult, replayed: Sequence[Episode]
) -> dict[str, set[str]]:
    """The fields of the design and of the environments that the replay of a result depends on.

    It is a list: a field that is not in it is said by the file. Each has the condition under which
    these episodes, or the plan that they follow, would differ if it had another value.
    """
    design, environments = result.design, result.environments
    assert design is not None  # or nothing could be replayed
    kwargs: Mapping[str, Any] = {} if environments is None else environments.kwargs
    is_metaworld, few_shot = "benchmark" in kwargs, result.few_shot
    listed = _has_list(result)
    all_tasks = len({episode.task for episode in replayed}) == count_tasks(result)
    design_fields = {
        "seed": environments is not None and _draws_goals(result),
        "episodes_per_task": not few_shot,  # nothing marks the end of adaptation
        "tasks": True,
        "trials": few_shot,
        "trial_tasks": few_shot,
        "adaptation_terminate_on_success": _ends_by_success(result, replayed, adaptation=True),
    }
    env_fields = {
        # Of tasks that were not evaluated, nothing was replayed.
        **dict.fromkeys(("id", "benchmark", "sequence", "goals_digest"), all_tasks),
        "train_classes": all_tasks and kwargs.get("kind") != "test",
        "test_classes": all_tasks and kwargs.get("kind") == "test",
        **dict.fromkeys(("kind", "env_name", "goals"), True),
        **dict.fromkeys(("reward_function_version", "action_repeat", "idle_steps"), True),
        "num_goals": listed and _numbers_goals(result),
        "seed": listed and design.phases is None,
        "terminate_on_success": _ends_by_success(result, replayed, adaptation=False),
        "max_episode_steps": _reaches_limit(result, replayed),
        # In Meta-World they change the plan of trials alone. Where the environments of a task share
        # its episodes, their number does not.
        "meta_batch_size": few_shot if is_metaworld else design.tasks is None,
    }
    # How many environments there are decides how many tasks there are, unless another argument
    # does: then a task's environments share its episodes. Few-shot trials are different episodes in
    # other environments, but not those of Meta-World that adapt.
    sizes_trials = few_shot and not (
        is_metaworld and design.adapts and kwargs.get("meta_batch_size") is not None
    )
    env_fields |= dict.fromkeys(("num_envs", "envs_per_task"), sizes_trials)
    return {
        "design": {name for name, depends in design_fields.items() if depends},
        "environments": {name for name, depends in env_fields.items() if depends},
    }


def count_tasks(result: EvaluationResult) -> int:
    """The number of tasks that the environments of a result have."""
    assert result.design is not None
    if result.design.phases is not None:
        return len(result.design.phases)
    kwargs = {} if result.environments is None else result.environments.kwargs
    kind: Any = kwargs.get("kind", "train")
    classes = kwargs.get(f"{kind}_classes")
    if isinstance(classes, (list, tuple)):
        return len(classes)
    number = NUM_CLASSES.get(str(kwargs.get("benchmark")), {}).get(kind)
    return len(result.tasks) if number is None else number


def _num_goals(result: EvaluationResult) -> int:
    """The number of goals per class in a list."""
    assert result.environments is not None
    number = result.environments.kwargs.get("num_goals", NUM_GOALS)
    return number if isinstance(number, int) else NUM_GOALS


def _has_list(result: EvaluationResult) -> bool:
    """Whether goals come from a list, unless each is new, as in streams by default."""
    assert result.design is not None
    kwargs = {} if result.environments is None else result.environments.kwargs
    default = "list" if result.design.phases is None else "continuous"
    return bool(kwargs.get("goals", default) == "list")


def _draws_goals(result: EvaluationResult) -> bool:
    """Whether the seed of an evaluation decides between goals."""
    design, environments = result.design, result.environments
    assert design is not None
    assert environments is not None
    if not _has_list(result):
        return True
    if environments.goals is None or design.trial_tasks is not None:
        return False
    tasks = count_tasks(result)
    groups = environments.kwargs.get("meta_batch_size")
    return _num_goals(result) * tasks > (groups if isinstance(groups, int) else tasks)


def _numbers_goals(result: EvaluationResult) -> bool:
    """Whether goals were drawn from a list, or given by numbers beyond those of its first class."""
    assert result.design is not None
    states = [state for row in result.design.trial_tasks or () for state in row]
    return not states or result.environments is None or max(states) >= _num_goals(result)


def _limit(result: EvaluationResult) -> float:
    """The number of steps after which episodes are truncated."""
    if (environments := result.environments) is None:
        return math.inf
    default = TABLE[environments.id][2] if environments.id in TABLE else None
    limit = environments.kwargs.get("max_episode_steps", default)
    return limit if isinstance(limit, int) else math.inf


def _ends_by_success(
    result: EvaluationResult, replayed: Sequence[Episode], adaptation: bool
) -> bool:
    """Whether an episode (of adaptation or not) had a success that could end it.

    A success in the last step that an episode may have ends nothing.
    """
    design, limit = result.design, _limit(result)
    assert design is not None
    # Where adaptation has no setting of its own, the environments' setting is for all episodes.
    differs = design.adaptation_terminate_on_success is not None
    return any(
        episode.steps_to_success is not None and episode.steps_to_success < limit
        for episode in replayed
        if (differs and episode.number < design.adaptation_length) is adaptation
    )


def _reaches_limit(result: EvaluationResult, replayed: Sequence[Episode]) -> bool:
    """Whether an episode ended because it was as long as it may be, and for nothing else."""
    design, environments = result.design, result.environments
    assert design is not None
    kwargs: Mapping[str, Any] = {} if environments is None else environments.kwargs
    always = kwargs.get("terminate_on_success") is True
    of_adaptation = design.adaptation_terminate_on_success
    for episode in replayed:
        ends = always
        if of_adaptation is not None and episode.number < design.adaptation_length:
            ends = of_adaptation
        succeeds = episode.steps_to_success == episode.length
        if episode.length == _limit(result) and not (ends and succeeds):
            return True
    return False
