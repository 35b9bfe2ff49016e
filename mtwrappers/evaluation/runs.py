"""Training runs of methods: the results of each run, its last one, and whether runs are comparable.

A result belongs to one training run. Runs of a method differ in ``training_seed``, results of one
run in ``training_steps``. A result without a seed is a run of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from mtwrappers.common.checks import check_list, check_mapping
from mtwrappers.evaluation.protocol import Protocol, episodes_needed
from mtwrappers.evaluation.result import AnyResult, EvaluationResult, FewShotResult, Provenance
from mtwrappers.metaworld.benchmarks import NUM_CLASSES
from mtwrappers.metaworld.spec import SIMULATION, determining

# Whether a training run makes one network for all tasks, or one per task.
Networks: TypeAlias = Literal["all_tasks", "per_task"]
# The results of each policy, by its name: in a list, or by their names in errors.
Policies: TypeAlias = Mapping[str, Sequence[AnyResult] | Mapping[str, AnyResult]]


class IncomparableError(ValueError):
    """Results were measured in different ways, so the policies cannot be compared."""


class Run(NamedTuple):
    """A training run at one point, as measured by a result.

    Args:
        label: The name of the result in errors, such as its file.
        result: The episodes; for a `FewShotResult`, those after adaptation.
        budget: The numbers of adaptation and evaluation episodes per trial of a `FewShotResult`.
        few_shot: The `FewShotResult`, if it is one.
    """

    label: str
    result: EvaluationResult
    budget: tuple[int, int] | None = None
    few_shot: FewShotResult | None = None

    @property
    def seed(self) -> int | None:
        """The seed of the training, if it is known."""
        provenance = self.result.provenance
        return None if provenance is None else provenance.training_seed

    @property
    def steps(self) -> int | None:
        """The agent steps of training until then, if they are known."""
        provenance = self.result.provenance
        return None if provenance is None else provenance.training_steps


def by_policy(results: Mapping[str, AnyResult]) -> dict[str, dict[str, AnyResult]]:
    """Groups results by the names of their policies.

    Args:
        results: The results by their names in errors, such as files, which also name policies
            without a name. Results of a policy with different ``action_chunk`` are treated as
            separate policies, with the chunk in their names.
    """
    met: dict[str, dict[int | None, dict[str, AnyResult]]] = {}
    for label, result in results.items():
        of = result.evaluation if isinstance(result, FewShotResult) else result
        name = (of.provenance and of.provenance.policy) or label
        met.setdefault(name, {}).setdefault(of.action_chunk, {})[label] = result
    return {
        f"{name}, action_chunk={chunk}" if len(chunks) > 1 else name: own
        for name, chunks in met.items()
        for chunk, own in chunks.items()
    }


def runs_of(policies: Policies) -> dict[str, list[Run]]:
    """All results of each policy, by its name.

    Raises:
        TypeError: If the policies are not a dict of results.
        ValueError: If a policy has no result, or a result does not record success or contains an
            episode twice.
    """
    given = check_mapping(policies, "policies").items()
    return {name: list(_checked(name, results)) for name, results in given}


def _checked(name: str, results: Any) -> Iterator[Run]:
    if isinstance(results, Mapping):
        labels, results = [str(label) for label in results], list(results.values())
    else:
        results = check_list(results, f"the results of {name!r}", "result")
        labels = [f"result {i + 1} of {name!r}" for i in range(len(results))]
    for label, one in zip(labels, results, strict=True):
        budget = few_shot = None
        if isinstance(one, FewShotResult):
            few_shot = one
            if one.trials is not None:
                budget = one.trials.adaptation_length, one.trials.evaluation_episodes
            one = one.evaluation
        if not isinstance(one, EvaluationResult):
            raise TypeError(
                f"expected an EvaluationResult or FewShotResult as {label}, got "
                f"{type(one).__name__}"
            )
        if not one.has_success:
            raise ValueError(f"{label} does not record success")
        met = set()
        for episode in one.episodes:
            place = episode.task, episode.trial, episode.number
            if place in met:
                of_trial = "" if episode.trial is None else f"trial {episode.trial}, "
                raise ValueError(
                    f"{label} has {episode.task!r}, {of_trial}episode {episode.number} twice"
                )
            met.add(place)
        yield Run(label, one, budget, few_shot)


def repeated(runs: Iterable[Run], networks: Networks) -> str:
    """The reason if two results have the same training seed and steps, or ``""``.

    With a network per task, results of different tasks are of different networks.
    """
    met: dict[Any, Run] = {}
    for one in runs:
        for network in _networks(one, networks):
            other = met.setdefault((network, one.steps), one)
            if other is not one:
                at = "" if one.steps is None else f" after {one.steps} steps"
                return f"{other.label} and {one.label} are both of training seed {one.seed}{at}"
    return ""


def last_of(runs: Sequence[Run], networks: Networks) -> tuple[list[Run], str]:
    """The results at the end of each training run, and the reason if their training differs.

    A run ends at its largest training steps. The reason is ``""`` if all runs end at the same.
    """
    ends: dict[Any, Run] = {}
    for one in runs:
        for network in _networks(one, networks):
            end = ends.setdefault(network, one)
            if None in (end.steps, one.steps) and end.steps != one.steps:
                both = end.label, one.label
                silent, says = both if end.steps is None else reversed(both)
                return list(runs), (f"{silent} does not name its training_steps, as {says} does")
            if (one.steps or 0) > (end.steps or 0):
                ends[network] = one
    last = list(ends.values())
    kept = [one for one in runs if any(one is end for end in last)]
    ended = [f"{'unknown' if one.steps is None else one.steps} steps" for one in kept]
    return kept, next(_unlike("the ends of training,", ended, kept), "")


def _networks(one: Run, networks: Networks) -> list[Any]:
    """A key for each network that a result has measured."""
    run: Any = ("result", id(one)) if one.seed is None else ("seed", one.seed)
    return [run] if networks == "all_tasks" else [(run, task) for task in one.result.tasks]


def comparable(
    policies: Mapping[str, Sequence[Run]],
    networks: Networks,
    force: bool,
    *,
    unadapted: bool = False,
) -> tuple[dict[str, list[Run]], str]:
    """The last runs of each policy, and with ``force`` the reason if they are not comparable.

    Args:
        policies: The runs of each policy, by name.
        networks: Whether a training run makes one network for all tasks, or one per task.
        force: Whether to return the reason instead of raising an error.
        unadapted: Whether to accept episodes before any adaptation, which are not a score of their
            protocol.

    Raises:
        IncomparableError: If they are not comparable, without ``force``.
    """
    reason, last = "", {}
    for name, runs in policies.items():
        reason = reason or repeated(runs, networks) or chunks_differ(runs)
        last[name], unequal = last_of(runs, networks)
        reason = reason or unequal
    reason = reason or _why_incomparable([*last.values()], networks, unadapted)
    if reason and not force:
        *names, name = policies
        who = f"{', '.join(names)} and {name}" if names else f"the results of {name}"
        raise IncomparableError(f"{who} are not comparable: {reason}")
    return last, reason


def _why_incomparable(
    policies: Sequence[Sequence[Run]], networks: Networks, unadapted: bool
) -> str:
    """The reason why the results of policies are not comparable, or ``""``."""
    every = [one for of in policies for one in of]
    measured = measured_unlike(policies, networks)
    whole = [one for one in every if not (unadapted and _is_unadapted(one.result))]
    return duplicate(every) or measured or incomplete(whole, networks)


def measured_unlike(policies: Sequence[Sequence[Run]], networks: Networks) -> str:
    """The first difference in how results were measured, or ``""``."""
    every = [one for of in policies for one in of]
    if networks == "all_tasks":
        return next(_differ(every, [one.result.tasks for one in every]), "")
    tasks = [[task for one in of for task in one.result.tasks] for of in policies]
    for names in tasks:
        if alone := set(tasks[0]) ^ set(names):
            return f"only some of them have the task {min(alone)}"
    for task in dict.fromkeys(tasks[0]):
        of_task = [one for one in every if task in one.result.tasks]
        for reason in _differ(of_task, [(task,)] * len(of_task)):
            return reason
    return ""


def chunks_differ(runs: Sequence[Run]) -> str:
    """The reason if results of one policy differ in ``action_chunk``, or ``""``."""
    chunks = [one.result.action_chunk for one in runs]
    return next(_unlike("action_chunk of one policy", chunks, runs), "")


def duplicate(results: Sequence[Run]) -> str:
    """The reason if two results are the same one, or ``""``.

    Different runs never have equal episodes. Recorded actions distinguish policies that never get
    any reward.
    """
    met: dict[Any, Run] = {}
    for one in results:
        kept = one.result.provenance and one.result.provenance.evidence
        for key in (kept, frozenset(one.result.episodes)):
            if key is None:
                continue
            other = met.setdefault(key, one)
            if other is one:
                continue
            of_other = other.result.provenance and other.result.provenance.evidence
            if key == kept or not (kept and of_other):
                what = "actions" if key == kept else "episodes"
                return f"{other.label} and {one.label} have the same {what}"
    return ""


def incomplete(results: Sequence[Run], networks: Networks) -> str:
    """The reason if a result lacks episodes of its protocol, or ``""``."""
    for label, result, *_ in results:
        if result.protocol is None or result.headline is not None:
            continue
        needed, n = episodes_needed(result.protocol), len(result.episodes)
        if networks == "per_task":  # of some of the tasks, perhaps
            classes = NUM_CLASSES[result.protocol.benchmark][result.protocol.kind]
            needed = needed * min(len(result.tasks), classes) // classes
        if networks == "all_tasks" or n != needed:
            return f"{label} has {n} of {needed} episodes of {result.protocol.name}"
    return ""


def protocols_of(runs: Iterable[Run]) -> tuple[Protocol, ...]:
    """The protocols that runs were measured by, each once."""
    met = dict.fromkeys(one.result.protocol for one in runs)
    return tuple(one for one in met if one is not None)


def _is_unadapted(result: EvaluationResult) -> bool:
    """Whether these are the episodes of all trials of a protocol before any adaptation."""
    protocol = result.protocol
    if protocol is None or not protocol.few_shot:
        return False
    numbers: dict[Any, set[int]] = {}
    for one in result.episodes:
        numbers.setdefault((one.task, one.trial), set()).add(one.number)
    first = min(numbers.values(), key=len)
    return (
        len(numbers) == episodes_needed(protocol) // protocol.episodes_per_task
        and all(own == first for own in numbers.values())
        and first in (set(range(1)), set(range(protocol.adaptation_episodes)))
    )


def _differ(results: Sequence[Run], tasks: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields the differences in how results on these tasks were measured."""
    protocols = [one.result.protocol for one in results]
    labels = ["none" if one is None else one.label for one in protocols]
    yield from _unlike("protocols", labels, results)
    every = set[str]().union(*tasks)
    for alone in (task for own in tasks for task in sorted(every - set(own))):
        yield f"only some of them have the task {alone}"
    yield from _unlike("scores over", [one.result.unit for one in results], results)
    adapted = [one for one in results if one.budget is not None]
    budgets = [one.budget for one in adapted]
    yield from _unlike("episodes to adapt on, and after,", budgets, adapted)
    described = [one.result.provenance for one in results]
    if None not in described:
        yield from _origins_differ([one for one in described if one is not None], results)
    elif any(described):  # else all were made by hand
        silent = results[described.index(None)].label
        yield f"{silent} has no provenance, as others do"


def _origins_differ(described: Sequence[Provenance], results: Sequence[Run]) -> Iterator[str]:
    """Yields the differences of environments and simulations between results."""
    specs = [determining(one.spec) if one.spec else ("none", {}) for one in described]
    yield from _unlike("id", [env_id for env_id, _ in specs], results)
    kwargs = [own for _, own in specs]
    for name in dict.fromkeys(key for own in kwargs for key in own):
        yield from _unlike(name, [own.get(name) for own in kwargs], results)
    for name in SIMULATION:
        yield from _unlike(name, [one.versions.get(name) for one in described], results)


def _unlike(what: str, values: Sequence[Any], results: Sequence[Run]) -> Iterator[str]:
    """Yields the first value and the first different one, if there is one."""
    for value, one in zip(values, results, strict=True):
        if value != values[0]:
            yield f"{what} {values[0]} and {value} ({one.label})"
            return


def common_tasks(policies: Sequence[Sequence[Run]], networks: Networks) -> list[str]:
    """The tasks that all results have; with a network per task, that all policies have.

    Raises:
        IncomparableError: If there are none.
    """
    if networks == "all_tasks":
        owners = [set(one.result.tasks) for of in policies for one in of]
    else:
        owners = [{task for one in of for task in one.result.tasks} for of in policies]
    tasks = dict.fromkeys(task for one in policies[0] for task in one.result.tasks)
    found = [task for task in tasks if all(task in own for own in owners)]
    if not found:
        raise IncomparableError("the results have no task in common")
    return found
