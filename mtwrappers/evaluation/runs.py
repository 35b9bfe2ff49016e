"""Training runs of methods: the episodes of each run, its end, and whether runs are comparable.

Runs of a method differ in ``training_seed``, results of one run in ``training_steps``. Results of
the same run and steps that share no episode are parts of one evaluation, such as a file per task:
how episodes are divided into results changes nothing. Results without a seed at one number of steps
are parts of one run if no two of them share an episode, and otherwise a run each, which need the
same evaluation seed: with another one, they may be of one policy. Results without a seed at several
numbers of steps are of one run.

An environment that reports success only when it happens may report none in a whole result, so
success is decided for all runs of a method together.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

from mtwrappers.common.checks import check_flag, check_list, check_mapping
from mtwrappers.evaluation.episodes import goal_of, reporting_tasks, units, with_failures
from mtwrappers.evaluation.protocol import Protocol, episodes_needed
from mtwrappers.evaluation.result import EvaluationResult, comparable_terms, describe_silence

# A result with its name in errors.
Named: TypeAlias = tuple[str, EvaluationResult]
# The results of each policy, by its name: in a list, or by their names in errors.
Policies: TypeAlias = Mapping[str, Sequence[EvaluationResult] | Mapping[str, EvaluationResult]]
# The way out where it is unknown which run a result is of.
_NAME_SEED = "give it to rollout as --training-seed, or to result.described(training_seed=...)"


class IncomparableError(ValueError):
    """Results were measured in different ways, so the policies cannot be compared."""


@dataclass(frozen=True)
class Run:
    """A training run at one point, as measured by a result, or by several that are parts of it.

    Args:
        label: The name of the result in errors, such as its file.
        result: The result, with the episodes of all parts.
        parts: The results that it is put together from, by their names.
    """

    label: str
    result: EvaluationResult
    parts: tuple[Named, ...] = ()

    @property
    def seed(self) -> int | None:
        """The seed of the training, if it is known."""
        return self.result.description.training_seed

    @property
    def steps(self) -> int | None:
        """The agent steps of training until then, if they are known."""
        return self.result.description.training_steps

    @cached_property
    def evidence(self) -> tuple[str, ...] | None:
        """The digests of the recorded actions, if all parts have them."""
        found = sorted(one.evidence or "" for _, one in self.parts)
        return tuple(found) if all(found) else None

    @cached_property
    def goals(self) -> Any:
        """A key that is equal for episodes that have the same goals; ``None`` if unknown."""
        keys = [_goals(one) for _, one in self.parts]
        return keys[0] if all(key == keys[0] for key in keys) else None

    def by_goal(self, task: str) -> dict[Any, float]:
        """The rates at a task by their goals, each with a count of how often it came before."""
        met: Counter[int] = Counter()
        found, result = {}, self.result
        for unit, rate in zip(units(result.of_task(task)), result.rates(task), strict=True):
            goal = goal_of(unit[0], result.draws_goals)
            found[goal, met[goal]] = rate
            met[goal] += 1
        return found


def run_of(parts: Sequence[Named]) -> Run:
    """The run that results are parts of."""
    (label, result), *others = parts
    if others:
        more = others[0][0] if len(parts) == 2 else f"{len(others)} others"
        episodes = tuple(itertools.chain(*(one.episodes for _, one in parts)))
        result = dataclasses.replace(result, episodes=episodes, normalization=None)
        label = f"{label} and {more}"
    return Run(label, result, tuple(parts))


def _goals(result: EvaluationResult) -> Any:
    made, design = result.environments, result.design
    seed = design.seed if design is not None and result.draws_goals else None
    return made and made.goals and (made.goals, seed)


def _budget(result: EvaluationResult) -> tuple[int, int] | None:
    """The numbers of adaptation and of evaluation episodes per trial."""
    design = result.design
    if design is None or not design.trials:
        return None
    return design.adaptation_length, design.episodes_per_task


def _check(label: str, result: Any) -> None:
    if not isinstance(result, EvaluationResult):
        raise TypeError(f"expected an EvaluationResult as {label}, got {type(result).__name__}")
    if twice := _shared([result]):
        raise ValueError(f"{label} has {twice} twice")


def _shared(results: Iterable[EvaluationResult]) -> str:
    """The first episode that results have twice, or ``""``."""
    met = set()
    for one in itertools.chain(*(result.scored for result in results)):
        if one.place in met:
            of_trial = "" if one.trial is None else f"trial {one.trial}, "
            return f"{one.task!r}, {of_trial}episode {one.number}"
        met.add(one.place)
    return ""


@dataclass(frozen=True)
class Method:
    """The runs of a method at each number of training steps.

    Args:
        name: Its name.
        runs: Its runs, whose parts are put together.
        unlike: The reason if two results are of the same run and steps, or executed another number
            of actions per chunk, which is part of a policy; or ``""``.
    """

    name: str
    runs: tuple[Run, ...]
    unlike: str

    @property
    def last(self) -> list[Run]:
        """Each run at its largest training steps."""
        ends: dict[int | None, Run] = {}
        for run in sorted(self.runs, key=lambda run: run.steps or 0, reverse=True):
            ends.setdefault(run.seed, run)
        return [
            run
            for run in self.runs
            if run is ends[run.seed] or (run.seed is None and not self._seedless_is_one_run)
        ]

    @property
    def _seedless_is_one_run(self) -> bool:
        """Whether the results without a seed are those of one run at several training steps."""
        steps = [run.steps for run in self.runs if run.seed is None]
        return None not in steps and len({*steps}) == len(steps)


def methods_of(policies: Policies) -> list[Method]:
    """The runs of each policy.

    Raises:
        TypeError: If the policies are not a dict of results.
        ValueError: If a policy has no result, or a result does not record success or contains an
            episode twice.
    """
    return [_method(name, own) for name, own in check_mapping(policies, "policies").items()]


def _method(name: str, given: Any) -> Method:
    if not isinstance(given, Mapping):
        listed = check_list(given, f"the results of {name!r}", "result")
        given = {f"result {i + 1} of {name!r}": one for i, one in enumerate(listed)}
    if not given:
        raise ValueError(f"the results of {name!r} must hold at least one result, got none")
    groups: dict[Any, list[Named]] = {}
    for label, one in given.items():
        _check(str(label), one)
        point = one.description.training_seed, one.description.training_steps
        groups.setdefault(point, []).append((str(label), one))
    chunks = [{"action_chunk": one.description.action_chunk} for one in given.values()]
    runs, unlike = [], _first_difference(chunks, [*map(str, given)])
    for (seed, steps), parts in groups.items():
        if not (twice := _shared(one for _, one in parts)):
            runs.append(run_of(parts))
            continue
        alone = [run_of([part]) for part in parts]
        runs += alone
        if seed is not None:
            at = "" if steps is None else f" after {steps} steps"
            both = f"{alone[0].label} and {alone[1].label}"
            unlike = unlike or (
                f"{both} are both of training seed {seed}{at}, and both have {twice}"
            )
        elif same := _alike(alone):
            unlike = unlike or f"{same[0]}, and do not name their training_seed"
        else:
            unlike = unlike or _other_evaluation(alone)
    return Method(name, tuple(_with_success(runs)), unlike)


def _other_evaluation(runs: Sequence[Run]) -> str:
    """The reason if runs without a training seed were evaluated with several seeds, or ``""``."""
    designs = [(run.label, run.result.design) for run in runs if run.result.design is not None]
    for label, design in designs[1:]:
        first, first_design = designs[0]
        if design.seed != first_design.seed:
            return (
                f"{first} and {label} were evaluated with the seeds {first_design.seed} and "
                f"{design.seed}, and do not name their training_seed, so they may be of one "
                f"policy: {_NAME_SEED}"
            )
    return ""


def _with_success(runs: Sequence[Run]) -> list[Run]:
    """The runs of a method, with a failure where others show that a task reports success.

    Raises:
        ValueError: If no run reports success.
    """
    tasks = reporting_tasks(itertools.chain(*(run.result.episodes for run in runs)))
    if not tasks:
        raise ValueError(
            f"{runs[0].label} does not record success, and only success rates are compared; "
            "EvaluationResult.normalized scores returns, and environments that report success only "
            "when it happens can report False in all other steps"
        )
    results = (
        dataclasses.replace(run.result, episodes=with_failures(run.result.episodes, tasks))
        for run in runs
    )
    return [
        dataclasses.replace(run, result=result) for run, result in zip(runs, results, strict=True)
    ]


def _alike(runs: Iterable[Run]) -> list[str]:
    """A sentence for each run that did the same as an earlier one."""
    met: dict[Any, Run] = {}
    found = []
    for one in runs:
        other = met.setdefault(frozenset(one.result.scored), one)
        # Recorded actions tell policies apart that never get any reward.
        told_apart = one.evidence and other.evidence and one.evidence != other.evidence
        if other is not one and not told_apart:
            what = "actions" if one.evidence and other.evidence else "episodes"
            found.append(f"{other.label} and {one.label} have the same {what}")
    return found


@dataclass(frozen=True)
class Compared:
    """Runs that were measured in the same way, or are to be compared in spite of it.

    Args:
        runs: The runs of each method, by its name.
        tasks: The tasks that all of them have.
        protocols: The protocols that were followed, each once.
        forced: The reason if they are not comparable, or ``""``.
        alike: Sentences about runs that did the same.
        silence: Sentences about tasks of which no run of a method reports success.
    """

    runs: dict[str, list[Run]]
    tasks: tuple[str, ...]
    protocols: tuple[Protocol, ...]
    forced: str
    alike: tuple[str, ...]
    silence: tuple[str, ...]

    @property
    def notes(self) -> tuple[str, ...]:
        """Warnings for a reader of the numbers."""
        return self.alike + self.silence

    @property
    def ruling(self) -> Protocol | None:
        """The protocol that defines groups and means."""
        return None if self.forced or not self.protocols else self.protocols[0]

    @property
    def budget(self) -> tuple[int, int] | None:
        """The numbers of adaptation and of evaluation episodes of each trial."""
        budgets = (_budget(one.result) for own in self.runs.values() for one in own)
        return next(filter(None, budgets), None)


def compared(methods: Sequence[Method], force: bool, *, unadapted: bool = False) -> Compared:
    """The last runs of each method; see `together`."""
    last = {one.name: one.last for one in methods}
    reasons = (one.unlike or _ends(one) for one in methods)
    return together(last, force, next(filter(None, reasons), ""), unadapted=unadapted)


def together(
    runs: dict[str, list[Run]], force: bool, reason: str, *, unadapted: bool = False
) -> Compared:
    """Chosen runs of each method.

    Args:
        runs: The runs of each method, by its name.
        force: Whether to accept runs that are not comparable.
        reason: A reason why they are not comparable, or ``""``.
        unadapted: Whether to accept episodes before any adaptation, which are not a score of their
            protocol.

    Raises:
        IncomparableError: If they are not comparable, without ``force``, or have no task in common.
    """
    every = [one for own in runs.values() for one in own]
    reason = reason or _unlike(every) or _incomplete(every, unadapted)
    reason = reason or next(filter(None, map(_partly_seeded, runs.values())), "")
    if not check_flag(force, "force") and reason:
        *names, name = runs
        who = f"{', '.join(names)} and {name}" if names else f"the results of {name}"
        raise IncomparableError(f"{who} are not comparable: {reason}")
    first, *others = (one.result.tasks for one in every)
    tasks = [task for task in first if all(task in own for own in others)]
    if not tasks:
        raise IncomparableError("the results have no task in common")
    protocols = dict.fromkeys(one.result.protocol for one in every if one.result.protocol)
    silence = (_describe_silence(name, own, tasks) for name, own in runs.items())
    return Compared(
        runs,
        tuple(tasks),
        tuple(protocols),
        reason,
        alike=tuple(_alike(every)),
        silence=tuple(filter(None, silence)),
    )


def _describe_silence(name: str, runs: Sequence[Run], tasks: Sequence[str]) -> str:
    """A sentence that names the tasks of which no run of a method reports success, or ``""``."""
    silent = [task for task in tasks if all(task in run.result.silent_tasks for run in runs)]
    sentence = describe_silence(silent, len(tasks))
    return sentence and f"{name}: {sentence}"


def _ends(method: Method) -> str:
    """The reason if the runs of a method end at different training steps, or ``""``."""
    by_seed: dict[int, Run] = {}
    if reason := _seedless_ends(method):
        return reason
    for one in method.runs:
        other = one if one.seed is None else by_seed.setdefault(one.seed, one)
        if (one.steps is None) != (other.steps is None):
            silent, says = (one, other) if one.steps is None else (other, one)
            return f"{silent.label} does not name its training_steps, as {says.label} does"
    first, *others = method.last
    for one in others:
        if one.steps != first.steps:
            both = ["unknown" if n is None else n for n in (first.steps, one.steps)]
            return f"the ends of training, {both[0]} steps and {both[1]} steps ({one.label})"
    return ""


def _seedless_ends(method: Method) -> str:
    """The reason if results without a training seed are of several runs that end apart, or ``""``.

    Which of the results are of one run is then unknown.
    """
    seedless = [run for run in method.runs if run.seed is None]
    if len({run.steps for run in seedless}) < 2:
        return ""
    runs: dict[int | None, Run] = {}
    for run in seedless:
        other = runs.setdefault(run.steps, run)
        if other is not run and run.steps is not None:
            return (
                f"{other.label} and {run.label} are both after {run.steps} training steps, and do "
                f"not name their training_seed: {_NAME_SEED}"
            )
    return ""


def _partly_seeded(runs: Sequence[Run]) -> str:
    """The reason if only some runs of a method name their training seed, or ``""``."""
    seeded = [run.label for run in runs if run.seed is not None]
    seedless = [run.label for run in runs if run.seed is None]
    if seeded and seedless:
        return f"{seedless[0]} does not name its training_seed, as {seeded[0]} does: {_NAME_SEED}"
    return ""


def _unlike(runs: Sequence[Run]) -> str:
    """The first difference in what was measured, or ``""``."""
    labels, parts = zip(*(part for one in runs for part in one.parts), strict=True)
    # Results without a budget are of episodes before any adaptation.
    adapted = next(filter(None, map(_budget, parts)), None)
    if reason := _first_difference([_rules(one, adapted) for one in parts], labels):
        return reason
    for task in sorted({task for one in runs for task in one.result.tasks}):
        if not all(task in one.result.tasks for one in runs):
            return f"only some of them have the task {task}"
    terms = comparable_terms(parts)
    silent = [label for label, own in zip(labels, terms, strict=True) if own is None]
    if silent and len(silent) < len(parts):  # else all were made by hand
        return f"{silent[0]} does not say where it was measured, as others do"
    return _first_difference([own or {} for own in terms], labels)


def _rules(one: EvaluationResult, adapted: tuple[int, int] | None) -> dict[str, Any]:
    """The protocol and what is counted, by name; every field of the protocol is compared."""
    protocol = one.protocol
    rules: dict[str, Any] = {"protocols": "none" if protocol is None else protocol.label}
    if protocol is not None:
        fields = {"name": protocol.name, "source": protocol.source}
        fields |= {**vars(protocol.settings), **vars(protocol.scoring)}
        rules |= {f"{name} of the protocols": value for name, value in fields.items()}
    budget = _budget(one) or adapted
    return {**rules, "scores over": one.unit, "episodes to adapt on, and after,": budget}


def _first_difference(terms: Sequence[Mapping[str, Any]], labels: Sequence[str]) -> str:
    for name in dict.fromkeys(name for own in terms for name in own):
        for own, label in zip(terms, labels, strict=True):
            if own.get(name) != terms[0].get(name):
                return f"{name} {terms[0].get(name)} and {own.get(name)} ({label})"
    return ""


def _incomplete(runs: Sequence[Run], unadapted: bool) -> str:
    """The reason if a run lacks episodes of its protocol, or ``""``."""
    for one in runs:
        if (protocol := one.result.protocol) is None:
            continue
        needed, numbers = episodes_needed(protocol), [own.number for own in one.result.scored]
        n = sum(number >= protocol.scoring.adaptation_episodes for number in numbers)
        complete = n == len(numbers) == needed
        if unadapted and n == 0:  # each of these numbers in every trial
            per_task = protocol.scoring.episodes_per_task
            complete = len(numbers) == needed // per_task * len({*numbers})
        if not complete:
            return f"{one.label} has {n} of {needed} episodes of {protocol.name}"
        for label, result in one.parts:
            if reason := result.other_environments:
                return f"{label} has no score of {protocol.name}: {reason}"
    return ""
