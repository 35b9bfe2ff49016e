"""Whether runs are comparable: the first difference in how they were measured, or none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mtwrappers.common.checks import check_flag
from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import short
from mtwrappers.evaluation.episodes import describe_copies
from mtwrappers.evaluation.origin import comparable_settings
from mtwrappers.evaluation.plan import Design
from mtwrappers.evaluation.protocol import Protocol, count_needed_episodes
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.result_text import describe_other_numbers, describe_silent_tasks
from mtwrappers.evaluation.runs import (
    NAME_THE_SEED,
    IncomparableError,
    LabelledResult,
    Method,
    Run,
    keeps_tasks,
)


@dataclass(frozen=True)
class ComparedRuns:
    """Runs that were measured in the same way, or are to be compared in spite of it.

    Args:
        runs: The runs of each method, by its name.
        tasks: The tasks that all of them have.
        protocols: The protocols that were followed, each once.
        mismatch: The reason if they are not comparable, or ``""``.
        left_out: Sentences about results that are in no run.
        duplicates: Sentences about runs that did the same, or whose episodes are copies.
        silence: Sentences about tasks of which no run of a method reports success.
        unknown: Sentences about what results do not say, and so was not compared.
    """

    runs: Mapping[str, Sequence[Run]]
    tasks: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    mismatch: str
    left_out: tuple[str, ...]
    duplicates: tuple[str, ...]
    silence: tuple[str, ...]
    unknown: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for a reader of the numbers."""
        return self.left_out + self.duplicates + self.silence + self.unknown

    @property
    def has_success(self) -> bool:
        """Whether success is compared; otherwise no run records it, and returns are compared."""
        return any(run.result.has_success for run in _chain_runs(self.runs))

    @property
    def protocol(self) -> Protocol | None:
        """The protocol that defines groups and means; ``None`` if they are not comparable."""
        return None if self.mismatch or not self.protocols else self.protocols[0]

    @property
    def adaptation(self) -> tuple[int, int] | None:
        """The numbers of adaptation and of evaluation episodes of each trial."""
        for run in _chain_runs(self.runs):
            if (numbers := _count_trial_episodes(run.result)) is not None:
                return numbers
        return None


def select_last_runs(
    methods: Sequence[Method], force: bool, *, allow_unadapted: bool = False
) -> ComparedRuns:
    """The runs of each method at their last training steps; see `select_runs`."""
    mismatch = ""
    for method in methods:
        mismatch = mismatch or method.mismatch or _compare_ends(method)
    runs = {method.name: method.last_runs for method in methods}
    left_out = [sentence for method in methods for sentence in method.left_out]
    return select_runs(runs, force, mismatch, left_out, allow_unadapted=allow_unadapted)


def select_runs(
    runs: Mapping[str, Sequence[Run]],
    force: bool,
    mismatch: str = "",
    left_out: Sequence[str] = (),
    *,
    allow_unadapted: bool = False,
) -> ComparedRuns:
    """Chosen runs of each method.

    Args:
        runs: The runs of each method, by its name.
        force: Whether to accept runs that are not comparable.
        mismatch: A reason why they are not comparable, or ``""``.
        left_out: Sentences about results that are in no run.
        allow_unadapted: Whether to accept episodes before any adaptation, which are not a score of
            their protocol.

    Raises:
        IncomparableError: If they are not comparable, without ``force``, or have no task in common.
    """
    all_runs = _chain_runs(runs)
    mismatch = mismatch or _compare_measurements(all_runs)
    mismatch = mismatch or _find_missing_episodes(all_runs, allow_unadapted)
    for method_runs in runs.values():
        mismatch = mismatch or _find_missing_seed(method_runs)
    if not check_flag(force, "force") and mismatch:
        raise IncomparableError(f"{_describe_methods([*runs])} are not comparable: {mismatch}")
    tasks = [
        task
        for task in all_runs[0].result.tasks
        if all(task in run.result.tasks for run in all_runs)
    ]
    if not tasks:
        raise IncomparableError("the results have no task in common")
    protocols = dict.fromkeys(run.result.protocol for run in all_runs if run.result.protocol)
    silence = [_describe_silence(name, own_runs, tasks) for name, own_runs in runs.items()]
    return ComparedRuns(
        runs,
        tuple(tasks),
        tuple(protocols),
        mismatch,
        left_out=tuple(left_out),
        duplicates=(*find_duplicates(all_runs), *_find_copies(all_runs)),
        silence=tuple(filter(None, silence)),
        unknown=tuple(filter(None, [_describe_unknown(all_runs)])),
    )


def _chain_runs(runs: Mapping[str, Sequence[Run]]) -> list[Run]:
    return [run for method_runs in runs.values() for run in method_runs]


def _describe_methods(names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"the results of {names[0]}"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def find_duplicates(runs: Iterable[Run]) -> list[str]:
    """A sentence for each run that did the same as an earlier one."""
    runs_by_episodes: dict[frozenset[Any], list[Run]] = {}
    sentences = []
    for run in runs:
        earlier_runs = runs_by_episodes.setdefault(frozenset(run.result.scored), [])
        for earlier in earlier_runs:
            both_recorded = run.evidence is not None and earlier.evidence is not None
            # Recorded actions tell policies apart that never get any reward.
            if not both_recorded or run.evidence == earlier.evidence:
                same = "actions" if both_recorded else "episodes"
                sentence = f"{earlier.label} and {run.label} have the same {same}"
                if run.id.method == earlier.id.method:
                    sentence += " and count as two runs: perhaps they are of one policy"
                sentences.append(sentence)
                break
        earlier_runs.append(run)
    return sentences


def _find_copies(runs: Iterable[Run]) -> list[str]:
    """A sentence for each run of which episodes are copies of others."""
    copies = [(run.label, describe_copies(run.result.episodes)) for run in runs]
    return [f"{label}: {sentence}" for label, sentence in copies if sentence]


def _describe_silence(name: str, runs: Sequence[Run], tasks: Sequence[str]) -> str:
    """A sentence that names the tasks of which no run of a method reports success, or ``""``."""
    silent_tasks = [task for task in tasks if all(task in run.result.silent_tasks for run in runs)]
    sentence = describe_silent_tasks(silent_tasks, len(tasks))
    return sentence and f"{name}: {sentence}"


def _describe_unknown(runs: Sequence[Run]) -> str:
    """A sentence about what was not compared of environments, or ``""``."""
    results = [labelled.result for run in runs for labelled in run.results]
    unnamed = [result for result in results if result.environments is None and result.versions]
    if not unnamed:
        return ""
    # A task state is an index, which means nothing without the environments.
    knows_tasks = all(
        result.design is not None and (result.design.kept_tasks or result.design.trial_tasks)
        for result in unnamed
    )
    unknown = "settings, such as limits of steps," if knows_tasks else "tasks and settings"
    return (
        f"the {unknown} of environments were not compared, because results name only those of "
        "gymnasium.make_vec"
    )


# The rules, each of which returns the reason why runs are not comparable, or "".


def _compare_ends(method: Method) -> str:
    """The reason if the runs of a method end at different training steps, or ``""``."""
    by_seed: dict[int, Run] = {}
    for run in method.runs:
        seed = run.id.training_seed
        first = run if seed is None else by_seed.setdefault(seed, run)
        if (run.training_steps is None) != (first.training_steps is None):
            unnamed, named = (run, first) if run.training_steps is None else (first, run)
            return (
                f"{unnamed.label} does not name its training_steps, as {named.label} does: give "
                "them to rollout as --training-steps, or to result.described(training_steps=...)"
            )
    first = method.last_runs[0]
    for run in method.last_runs:
        if run.training_steps != first.training_steps:
            ends = [
                "unknown" if steps is None else steps
                for steps in (first.training_steps, run.training_steps)
            ]
            way_out = "evaluate every run after the same number of steps"
            if "unknown" in ends:
                way_out = (
                    "give them to rollout as --training-steps, or to "
                    "result.described(training_steps=...)"
                )
            return (
                f"the ends of training, {ends[0]} steps and {ends[1]} steps ({run.label}): "
                f"{way_out}; if these are two methods, give them different names (rollout --name)"
            )
    return ""


def _find_missing_seed(runs: Sequence[Run]) -> str:
    """The reason if only some runs of a method name their training seed, or ``""``."""
    seeded = [run.label for run in runs if run.id.training_seed is not None]
    seedless = [run.label for run in runs if run.id.training_seed is None]
    if seeded and seedless:
        return (
            f"{seedless[0]} does not name its training_seed, as {seeded[0]} does: {NAME_THE_SEED}"
        )
    return ""


def _compare_measurements(runs: Sequence[Run]) -> str:
    """The first difference in how runs were measured, or ``""``."""
    results = [labelled for run in runs for labelled in run.results]
    if reason := _compare_protocols(results):
        return reason
    if reason := _first_difference(results, _list_rules([labelled.result for labelled in results])):
        return reason
    if reason := _find_missing_task(runs):
        return reason
    if reason := _compare_tasks(results):
        return reason
    settings = comparable_settings([labelled.result.origin for labelled in results])
    unknown = [
        labelled.label
        for labelled, named_settings in zip(results, settings, strict=True)
        if named_settings is None
    ]
    if unknown and len(unknown) < len(results):  # else all were made by hand
        return f"{unknown[0]} does not say where it was measured, as others do"
    return _first_difference(results, [named_settings or {} for named_settings in settings])


def _find_missing_task(runs: Sequence[Run]) -> str:
    """The reason if a task is not in all runs, or ``""``."""
    for task in sorted({task for run in runs for task in run.result.tasks}):
        lacking = [run.label for run in runs if task not in run.result.tasks]
        having = [run.label for run in runs if task in run.result.tasks]
        if lacking:
            return (
                f"{lacking[0]} does not have the task {task}, as {having[0]} does: evaluate it "
                "too, or leave the task out of the others with evaluate(..., tasks=[...])"
            )
    return ""


def _compare_tasks(results: Sequence[LabelledResult]) -> str:
    """The reason if environments of one name were on different tasks, as far as results say.

    Families of tasks either keep the tasks that were set, or draw one in each episode.
    """
    tasks: dict[str, tuple[Any, str]] = {}
    for labelled in results:
        design = labelled.result.design or Design()
        recorded: dict[str, Any] = {**(design.kept_tasks or {})}
        if design.trial_tasks is not None:
            recorded["the tasks of the trials"] = design.trial_tasks
        for name, task in recorded.items():
            first_task, first_label = tasks.setdefault(name, (task, labelled.label))
            if task != first_task:
                return (
                    f"{name}: {short(first_task, 60)} in {first_label}, and {short(task, 60)} in "
                    f"{labelled.label}"
                )
    keeping = [labelled.label for labelled in results if keeps_tasks(labelled.result)]
    drawing = [labelled.label for labelled in results if _draws_tasks(labelled.result)]
    if keeping and drawing:
        return (
            f"{keeping[0]} keeps the tasks that were set, and {drawing[0]} draws a task in each "
            "episode: call envs.set_tasks before both evaluations, or before neither"
        )
    return ""


def _draws_tasks(result: EvaluationResult) -> bool:
    """Whether each episode is known to have drawn its task, as in a family without `set_tasks`."""
    is_family = result.environments is not None and result.environments.is_family
    has_plan = result.design is not None and result.unit == "episodes"
    return is_family and has_plan and not keeps_tasks(result)


def _compare_protocols(results: Sequence[LabelledResult]) -> str:
    """The reason if results have different protocols, with a field in which they differ."""
    first = results[0].result.protocol
    for labelled in results:
        protocol = labelled.result.protocol
        if protocol == first:
            continue
        if first is None or protocol is None:
            unnamed, named = (results[0], labelled) if first is None else (labelled, results[0])
            label = next(p.label for p in (first, protocol) if p is not None)
            return (
                f"{unnamed.label} has no protocol, and {named.label} has {label}: evaluate it by "
                "the same, with protocol.evaluate(policy) or rollout --protocol"
            )
        reason = f"protocols {first.label} and {protocol.label} ({labelled.label})"
        first_fields, fields = (
            {**vars(p.settings), **vars(p.scoring), "source": p.source} for p in (first, protocol)
        )
        for name, value in fields.items():
            if value != first_fields[name]:
                return f"{reason}, which differ in {name}: {first_fields[name]} and {value}"
        return reason
    return ""


def _list_rules(results: Sequence[EvaluationResult]) -> list[dict[str, Any]]:
    """For each result, what is counted, by name.

    Results without trials beside others with trials are of episodes before any adaptation.
    """
    adapted = next(filter(None, map(_count_trial_episodes, results)), None)
    return [
        {
            "scores over": result.unit,
            "episodes to adapt on, and after,": _count_trial_episodes(result) or adapted,
        }
        for result in results
    ]


def _first_difference(
    results: Sequence[LabelledResult], settings: Sequence[Mapping[str, Any]]
) -> str:
    """The first setting in which results differ from the first one, or ``""``."""
    first = settings[0]
    for name in dict.fromkeys(name for named in settings for name in named):
        for labelled, named in zip(results, settings, strict=True):
            if named.get(name) != first.get(name):
                hint = ""
                if name == "seed":
                    hint = f": it is of the evaluation; as for the training's, {NAME_THE_SEED}"
                return f"{name} {first.get(name)} and {named.get(name)} ({labelled.label}){hint}"
    return ""


def _count_trial_episodes(result: EvaluationResult) -> tuple[int, int] | None:
    """The numbers of adaptation and of evaluation episodes per trial."""
    design = result.design
    if design is None or not design.trials:
        return None
    return design.adaptation_length, design.episodes_per_task


def _find_missing_episodes(runs: Sequence[Run], allow_unadapted: bool) -> str:
    """The reason if a run lacks episodes of its protocol, or ``""``."""
    for run in runs:
        protocol = run.result.protocol
        if protocol is None:
            continue
        scored, needed = run.result.scored, count_needed_episodes(protocol)
        numbers = [episode.number for episode in scored]
        num_adapted = sum(number >= protocol.scoring.adaptation_length for number in numbers)
        num_needed = needed.total()
        is_complete = num_adapted == len(numbers) == num_needed
        if allow_unadapted and num_adapted == 0:  # each of these numbers in every trial
            per_trial = protocol.scoring.episodes_per_task
            needed = Counter({t: n // per_trial * len({*numbers}) for t, n in needed.items()})
            is_complete = len(numbers) == needed.total()
        if not is_complete:
            episodes = format_count(num_needed, "episode")
            return f"{run.label} has {num_adapted} of {episodes} of {protocol.name}"
        if difference := describe_other_numbers(scored, needed):
            return f"{run.label} has no score of {protocol.name}: {difference}"
        for labelled in run.results:
            if reason := labelled.result.other_environments:
                return f"{labelled.label} has no score of {protocol.name}: {reason}"
    return ""
