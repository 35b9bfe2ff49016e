"""Training runs of methods: which results are of one run, and which run is whose.

A run has an id: its method, its training seed, and whether it is a reference of the package. A
result is a run at some number of training steps. Results of the same run and steps are parts of one
evaluation, such as a file per task, if they share no episode: how episodes are divided into results
changes nothing. Results without a training seed are of one run, so at the same steps they also need
one plan; otherwise nothing says which run they are of, and they are refused. If such results are
compared by force, those of a training seed that are no parts of one evaluation are left out, and
named; which they are does not depend on the order of the results.

An environment that reports success only when it happens may report none in a whole result, so
success is decided for all runs of a method together. If no method records success, returns are
compared.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ParamSpec, TypeAlias, TypeVar

from mtwrappers.common.checks import check_list
from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import short
from mtwrappers.evaluation.episodes import (
    Episode,
    identify_goal,
    label_episode,
    reporting_tasks,
    with_failures,
)
from mtwrappers.evaluation.plan import Design
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.score_table import group_by_trial
from mtwrappers.evaluation.statistics import Values
from mtwrappers.evaluation.typed import to_plain

# The results of each policy, by its name: in a list, or by their names in errors.
Policies: TypeAlias = Mapping[str, Sequence[EvaluationResult] | Mapping[str, EvaluationResult]]
_P = ParamSpec("_P")
_R = TypeVar("_R")
_EXAMPLE = "such as {'ppo': [result], 'random': [other_result]}"
# The way out where it is unknown which run a result is of.
NAME_THE_SEED = "give it to rollout as --training-seed, or to result.described(training_seed=...)"


class IncomparableError(ValueError):
    """Results were measured in different ways, so the policies cannot be compared."""


@dataclass(frozen=True)
class RunId:
    """Who made a result.

    Args:
        method: The name of the method.
        training_seed: The seed of the training, if it is known.
        is_reference: Whether the run comes with the package.
    """

    method: str
    training_seed: int | None
    is_reference: bool


@dataclass(frozen=True)
class LabelledResult:
    """A result with its name in errors, such as its file."""

    label: str
    result: EvaluationResult


@dataclass(frozen=True)
class Run:
    """A training run at one number of training steps.

    Args:
        id: The run.
        label: The name of its results in errors, such as their files.
        result: The result, with the episodes of all parts.
        results: The results that it is put together from.
    """

    id: RunId
    label: str
    result: EvaluationResult
    results: tuple[LabelledResult, ...]

    @property
    def training_steps(self) -> int | None:
        """The agent steps of training until then, if they are known."""
        return self.result.description.training_steps

    @cached_property
    def evidence(self) -> tuple[str, ...] | None:
        """The digests of the recorded actions, if all parts have them."""
        digests = sorted(labelled.result.evidence or "" for labelled in self.results)
        return tuple(digests) if all(digests) else None

    @cached_property
    def goals(self) -> Any:
        """A key that is equal for episodes that have the same goals; ``None`` if unknown."""
        keys = [_goals_key(labelled.result) for labelled in self.results]
        return keys[0] if all(key == keys[0] for key in keys) else None

    @property
    def keeps_tasks(self) -> bool:
        """Whether all parts record the tasks that their environments kept."""
        return all(keeps_tasks(labelled.result) for labelled in self.results)

    def values_by_goal(self, values: Values, task: str) -> dict[tuple[int, int], float]:
        """The values at a task by their goals, each with a count of how often it came before."""
        counts: Counter[int] = Counter()
        by_goal = {}
        trials = group_by_trial(self.result.of_task(task))
        for trial, value in zip(trials, values.tolist(), strict=True):
            goal = identify_goal(trial[0], self.result.draws_goals)
            by_goal[goal, counts[goal]] = value
            counts[goal] += 1
        return by_goal


def keeps_tasks(result: EvaluationResult) -> bool:
    """Whether a result records the tasks that its environments kept."""
    return result.design is not None and result.design.kept_tasks is not None


def _goals_key(result: EvaluationResult) -> Any:
    """What determines the goals of a result's episodes; ``None`` if the result does not say it.

    It has nothing of how a policy adapts, nor of which tasks are in one file.
    """
    environments, design = result.environments, result.design
    if environments is not None and environments.goals and not result.draws_goals:
        return environments.goals
    if design is None or keeps_tasks(result):
        return None
    if result.unit == "trials" and not design.trials:
        # Episodes before any adaptation: their design has neither trials nor their tasks.
        return None
    if environments is not None and environments.goals:
        return environments.goals, design.seed, design.trials, design.trial_tasks
    if design.trial_tasks is not None:
        return result.origin.settings, design.trial_tasks
    if environments is not None and environments.is_family:
        return result.origin.settings, design.seed, design.trials
    return None


def _join_parts(method: str, results: Sequence[LabelledResult]) -> Run:
    """The run that results are parts of."""
    label, result = results[0].label, results[0].result
    if len(results) > 1:
        others_label = results[1].label if len(results) == 2 else f"{len(results) - 1} others"
        label = f"{label} and {others_label}"
        episodes = tuple(itertools.chain(*(labelled.result.episodes for labelled in results)))
        # By force, parts may differ in protocol and environments: their order must not decide.
        result = min((labelled.result for labelled in results), key=_format_measurement)
        result = dataclasses.replace(result, episodes=episodes, normalization=None)
    run_id = RunId(method, result.description.training_seed, result.reference is not None)
    return Run(run_id, label, result, tuple(results))


def _format_measurement(result: EvaluationResult) -> str:
    """How a result was measured, as a text to sort by."""
    fields = result.protocol, result.environments, result.versions
    return json.dumps(to_plain(fields), sort_keys=True)


@dataclass(frozen=True)
class Method:
    """The runs of a method at each number of training steps.

    Args:
        name: Its name.
        runs: Its runs, whose parts are put together.
        mismatch: The reason if it is unknown which run a result is of, or if results executed
            different numbers of actions per chunk, which is part of a policy; or ``""``.
        left_out: A sentence for each result that is in no run, because it is no part of the
            evaluation that others of its training seed and steps are parts of.
    """

    name: str
    runs: tuple[Run, ...]
    mismatch: str
    left_out: tuple[str, ...] = ()

    @property
    def last_runs(self) -> list[Run]:
        """Each run at its largest training steps."""
        last: dict[RunId, Run] = {}

        def key(run: Run) -> int:
            return -1 if run.training_steps is None else run.training_steps

        for run in sorted(self.runs, key=key, reverse=True):
            last.setdefault(run.id, run)
        return [run for run in self.runs if run is last[run.id] or self._is_separate_run(run)]

    def _is_separate_run(self, run: Run) -> bool:
        """Whether a result without a training seed is of another run than the others.

        Those at several training steps are of one run; otherwise they are compared by force.
        """
        if run.id.training_seed is not None:
            return False
        steps = [
            run_at_steps.training_steps for run_at_steps in self.runs if run_at_steps.id == run.id
        ]
        return None in steps or len({*steps}) < len(steps)

    @property
    def has_success(self) -> bool:
        """Whether any of its runs reports success; then one that reports none has failed."""
        return any(run.result.has_success for run in self.runs)

    @property
    def num_points(self) -> int:
        """The number of different training steps."""
        return len({run.training_steps for run in self.runs})


def takes_policies(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorates a function of `Policies`; a call with the results one by one is explained."""

    @functools.wraps(function)
    def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if len(args) > 1:
            raise TypeError(
                f"{function.__name__} takes the results of all policies in one dict, {_EXAMPLE}, "
                f"got {len(args)} arguments"
            )
        return function(*args, **kwargs)

    return checked


def group_runs(policies: Policies) -> list[Method]:
    """The runs of each policy.

    Raises:
        TypeError: If the policies are not a dict of results.
        ValueError: If a policy has no result, has results of the user and of the package, or does
            not record success, though another does or its protocol scores it.
    """
    if not isinstance(policies, Mapping):
        raise TypeError(
            f"policies must be a dict of the results of each policy, {_EXAMPLE}, got "
            f"{short(policies)}"
        )
    methods = [_make_method(name, results) for name, results in policies.items()]
    _check_success(methods)
    return methods


def _check_success(methods: Sequence[Method]) -> None:
    """Raises `ValueError` if methods cannot be compared, because some record no success."""
    with_success = [method for method in methods if method.has_success]
    for method in methods:
        if method.has_success:
            continue
        run = method.runs[0]
        if with_success:
            contrast = f"as {with_success[0].runs[0].label} does"
        elif run.result.protocol is not None:
            contrast = f"which {run.result.protocol.name} scores"
        else:
            continue
        raise ValueError(
            f"{run.label} does not record success, {contrast}: let a wrapper report info["
            '"success"] in every step, False in those without one'
        )


def _make_method(name: str, given_results: Any) -> Method:
    if isinstance(given_results, EvaluationResult):
        raise TypeError(
            f"the results of {name!r} must be a list of at least one result, got "
            f"{given_results!r} alone: pass [result]"
        )
    if not isinstance(given_results, Mapping):
        listed = check_list(given_results, f"the results of {name!r}", "result")
        given_results = {f"result {i + 1} of {name!r}": result for i, result in enumerate(listed)}
    if not given_results:
        raise ValueError(f"the results of {name!r} must hold at least one result, got none")
    results = [LabelledResult(str(label), result) for label, result in given_results.items()]
    for labelled in results:
        if not isinstance(labelled.result, EvaluationResult):
            kind = type(labelled.result).__name__
            hint = ""
            if isinstance(labelled.result, (str, os.PathLike)):
                path = os.fspath(labelled.result)
                hint = f": load the file, as by EvaluationResult.load({path!r})"
            raise TypeError(f"expected an EvaluationResult as {labelled.label}, got {kind}{hint}")
    _check_references(name, results)
    points: dict[tuple[int | None, int | None], list[LabelledResult]] = {}
    for labelled in results:
        description = labelled.result.description
        point = description.training_seed, description.training_steps
        points.setdefault(point, []).append(labelled)
    runs: list[Run] = []
    left_out: list[str] = []
    mismatch = _compare_chunks(results)
    for (training_seed, _), results_of_point in points.items():
        reason = _compare_parts(results_of_point)
        mismatch = mismatch or reason
        if reason and training_seed is None:
            runs += [_join_parts(name, [labelled]) for labelled in results_of_point]
            continue
        if reason:
            reasons = _find_other_parts(results_of_point)
            left_out += [f"{label} is left out: {why}" for label, why in reasons.items()]
            results_of_point = [
                labelled for labelled in results_of_point if labelled.label not in reasons
            ]
        runs.append(_join_parts(name, results_of_point))
    return Method(name, tuple(_record_failures(runs)), mismatch, tuple(left_out))


def _find_other_parts(results: Sequence[LabelledResult]) -> dict[str, str]:
    """The results that are no parts of one evaluation with the others, by their labels.

    Those with most episodes stay. The order of the results decides nothing: among equally many
    episodes, their content does.

    Returns:
        For each of them, the reason.
    """

    def key(labelled: LabelledResult) -> tuple[int, str, str]:
        content = json.dumps(to_plain(labelled.result), sort_keys=True)
        return -len(labelled.result.episodes), content, labelled.label

    joined: list[LabelledResult] = []
    reasons: dict[str, str] = {}
    for labelled in sorted(results, key=key):
        if reason := _compare_parts([*joined, labelled]):
            reasons[labelled.label] = reason
        else:
            joined.append(labelled)
    return reasons


def _check_references(name: str, results: Sequence[LabelledResult]) -> None:
    """Raises `ValueError` if results of the package are among those of a user's method."""
    references = [labelled for labelled in results if labelled.result.reference is not None]
    own_results = [labelled for labelled in results if labelled.result.reference is None]
    if references and own_results:
        raise ValueError(
            f"{references[0].label} is a reference that comes with mtwrappers, and no run of "
            f"{name!r} as {own_results[0].label} is: give references a name of their own"
        )


def _compare_chunks(results: Sequence[LabelledResult]) -> str:
    """The reason if results executed different numbers of actions per chunk, or ``""``."""
    first = results[0].result.description.action_chunk
    for labelled in results:
        if (chunk := labelled.result.description.action_chunk) != first:
            return f"action_chunk {first} and {chunk} ({labelled.label})"
    return ""


def _compare_parts(results: Sequence[LabelledResult]) -> str:
    """The reason if results of one run and steps are no parts of one evaluation, or ``""``."""
    if reason := _find_other_reference(results) or _compare_adaptation(results):
        return reason
    description = results[0].result.description
    seed, steps = description.training_seed, description.training_steps
    if (repeated := _find_repeated_episode(results)) is not None:
        both = f"{repeated.first.label} and {repeated.second.label}"
        if seed is not None:
            point = f"training seed {seed}" + ("" if steps is None else f" after {steps} steps")
            return f"{both} are both of {point}, and both have {label_episode(repeated.episode)}"
        if steps is not None:
            return describe_missing_seeds(repeated.first.label, repeated.second.label, steps)
        same = f"both have {label_episode(repeated.episode)}"
        return f"{both} {same}, and do not name their training_seed: {NAME_THE_SEED}"
    first, *later_results = results
    for labelled in later_results if seed is None else ():
        if _plan(labelled.result) != _plan(first.result):
            plans = f"{_describe_plan(first.result)} and {_describe_plan(labelled.result)}"
            return (
                f"{first.label} and {labelled.label} are of different evaluations ({plans}), and "
                f"do not name their training_seed: {NAME_THE_SEED}"
            )
    return ""


def describe_missing_seeds(first_label: str, second_label: str, steps: int) -> str:
    """The reason why results of two runs without a seed cannot be told apart."""
    return (
        f"{first_label} and {second_label} are both after {steps} training steps, and do not name "
        f"their training_seed: {NAME_THE_SEED}"
    )


def _compare_adaptation(results: Sequence[LabelledResult]) -> str:
    """The reason if results differ in which episodes are of adaptation, or ``""``."""
    first = results[0]
    for labelled in results:
        both = f"{first.label} and {labelled.label} are not parts of one evaluation"
        if labelled.result.unit != first.result.unit:
            return f"{both}: they have scores over {first.result.unit} and {labelled.result.unit}"
        lengths = [
            0 if result.design is None else result.design.adaptation_length
            for result in (first.result, labelled.result)
        ]
        if lengths[0] != lengths[1]:
            episodes = format_count(lengths[1], "episode")
            return f"{both}: they adapt on {lengths[0]} and {episodes} of each trial"
    return ""


def _find_other_reference(results: Sequence[LabelledResult]) -> str:
    """The reason if references of one method are by different protocols, or ``""``."""
    first = results[0]
    for labelled in results:
        reference = labelled.result.reference
        if reference is not None and labelled.result.protocol != first.result.protocol:
            method = reference.partition("/")[0]
            return (
                f"{first.label} and {labelled.label} are references by different protocols: take "
                f"those of your result's protocol, reference({method!r}, like=result)"
            )
    return ""


def _plan(result: EvaluationResult) -> Design | None:
    """The plan of a result, of which a part has some tasks."""
    return None if result.design is None else dataclasses.replace(result.design, tasks=None)


def _describe_plan(result: EvaluationResult) -> str:
    design = result.design
    if design is None:
        return "without a plan"
    episodes = format_count(design.episodes_per_task, "episode")
    return f"seed {design.seed}, {episodes} per task"


@dataclass(frozen=True)
class _RepeatedEpisode:
    """An episode that two results have."""

    first: LabelledResult
    second: LabelledResult
    episode: Episode


def _find_repeated_episode(results: Iterable[LabelledResult]) -> _RepeatedEpisode | None:
    """The first episode that two results have."""
    owners: dict[Any, LabelledResult] = {}
    for labelled in results:
        for episode in labelled.result.episodes:
            if (owner := owners.get(episode.place)) is not None:
                return _RepeatedEpisode(owner, labelled, episode)
            owners[episode.place] = labelled
    return None


def _record_failures(runs: Sequence[Run]) -> list[Run]:
    """The runs of a method, with a failure where others show that a task reports success."""
    tasks = reporting_tasks(itertools.chain(*(run.result.episodes for run in runs)))
    return [
        dataclasses.replace(
            run,
            result=dataclasses.replace(
                run.result, episodes=with_failures(run.result.episodes, tasks)
            ),
        )
        for run in runs
    ]
