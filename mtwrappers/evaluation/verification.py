"""Verifies a result: its plan is run again with the recorded actions.

A file is only data. It names the environments, the goals and the actions, and nothing in it is run:
only environments of this package are made from it.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from pathlib import Path
from typing import Any

from gymnasium.vector import VectorEnv
from numpy.random import PCG64, Generator, SeedSequence

from mtwrappers.common.checks import check_flag, check_fraction, not_negative
from mtwrappers.common.counts import format_count, format_range
from mtwrappers.common.errors import full_message, printable, short
from mtwrappers.common.registration import TABLE
from mtwrappers.evaluation.claims import UNEDITED, read_claims
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import (
    Actions,
    digest,
    evidence_beside,
    evidence_files,
    name_actions,
    read_evidence,
)
from mtwrappers.evaluation.loop import check_rewards, set_tasks_kept, undisturbed
from mtwrappers.evaluation.origin import versions
from mtwrappers.evaluation.plan import (
    TRIAL_FIELDS,
    Design,
    Plan,
    PlannedEpisode,
    plan_episodes,
    read_kept_tasks,
)
from mtwrappers.evaluation.protocol import check_envs
from mtwrappers.evaluation.published import protocols
from mtwrappers.evaluation.remake import (
    Environments,
    VerificationError,
    check_id_arguments,
    check_number,
    digest_goals,
    name_environments,
    remake,
)
from mtwrappers.evaluation.replay import compare_episodes, describe_episode, replay
from mtwrappers.evaluation.replay_fields import find_replayed_fields
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.typed import to_plain
from mtwrappers.samplers.bar import ProgressBar
from mtwrappers.samplers.task_texts import task_names
from mtwrappers.tasks.draws import read_task
from mtwrappers.vector.contract import MetaVectorEnv

_SAID = "said by the file"
# The largest number of characters of a list or a dict in the text of a verification.
_MAX_TEXT = 200


@dataclass(frozen=True)
class Verification:
    """The outcome of a replay; ``str`` lists everything that was verified, with the score.

    What the replay does not verify, because it may be the same with another value, is listed as
    said by the file.

    Args:
        results: The results of the file with the numbers of the replay, up to the first that
            differs. With a sample, other episodes are taken from the file.
        same: The number of episodes of each task with the same result: success, length, steps to
            success and goal exactly, and the return exactly or up to ``rounding``.
        replayed: The number of replayed episodes of each task.
        difference: The first episode that differs, and how; ``None`` if all are the same.
        rounding: The largest relative difference between the two returns of an episode, among
            episodes that count as the same: 0.0 if all are equal to the last bit.
        versions: The packages (and Python) whose version differs from that of a result: the version
            of the first such result, and the one here, by name.
        episodes: The replayed episodes of each result, with the numbers of the replay.
        named: Whether it is known that the environments were those that the file names. It is not
            for given environments without a spec.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2, max_episode_steps=5)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> verification = mtwrappers.verify("result.json")
    >>> verification.ok, verification.same, verification.difference
    (True, {'task 0': 3, 'task 1': 3}, None)
    """

    results: tuple[EvaluationResult, ...]
    same: Mapping[str, int]
    replayed: Mapping[str, int]
    difference: str | None
    rounding: float
    versions: Mapping[str, tuple[str | None, str | None]]
    episodes: tuple[tuple[Episode, ...], ...] = ()
    named: bool = True

    @property
    def result(self) -> EvaluationResult:
        """The last one of the results."""
        return self.results[-1]

    @property
    def ok(self) -> bool:
        """Whether the result is correct, as far as it was replayed."""
        return self.difference is None

    @property
    def said_by_file(self) -> tuple[dict[str, Any], ...]:
        """For each result, the fields that the replay may not depend on, by name."""
        return tuple(rows[_SAID] for rows in _tabulate_results(self))

    def __str__(self) -> str:
        return "\n".join([*_describe_fields(self), "", *_describe_outcome(self)])


def verify(
    result: str | os.PathLike[str],
    evidence: str | os.PathLike[str] | None = None,
    *,
    sample: float = 1.0,
    envs: Any = None,
    workers: int | None = None,
    progress: bool = False,
) -> Verification:
    """Replays the actions of a saved result, and compares every episode with the file.

    The episodes must be those that environments, goals, design and protocol determine, each once
    and in order. The replay computes their numbers; the score follows from them. What no replay can
    verify is listed as said by the file.

    The replay uses the versions that are installed here. Success, length, steps to success and
    goals must be equal. Returns must be equal too, or within a relative difference of 1e-9, which
    is then reported, because their last bits depend on versions and on the processor.

    Args:
        result: A file from `EvaluationResult.save`.
        evidence: A file from ``evaluate(..., evidence=...)`` or `few_shot_evaluate`; by default the
            ``.npz`` file of the same name next to the result: ``a.npz`` for ``a.json``, and
            ``lr-0.5.npz`` for ``lr-0.5``. Those of the points of a stream have numbers, as
            `PhaseEvaluator` writes them: ``a-0.npz`` and so on.
        sample: The share of each task's episodes to replay, in [0, 1]; at least one each. (For
            few-shot results, the share of the trials of each task group.) They are drawn from
            entropy, so nobody can know them in advance.
        envs: The vector environment to replay on; by default made from the result. It is required
            for environments that are not this package's, and must be those of the result and of its
            protocol. Wrappers around it are not replayed: those that change actions or rewards
            belong around each of its environments.
        workers: The number of worker processes for the replay, for environments made by this call;
            ``None`` replays in this process.
        progress: Whether to display a progress bar.

    Returns:
        The verified settings, the number of episodes with the same results, and the first
        difference; see `Verification`.

    Raises:
        DependencyNotInstalled: If ``progress`` is set and rich is not installed.
        EvidenceError: If the evidence is not such a file.
        OSError: If a file cannot be read.
        TypeError: If ``result`` or ``evidence`` is not the name of a file, ``envs`` is not a vector
            environment, ``progress`` is not a bool, or ``workers`` are passed with ``envs``.
        VerificationError: If the result contradicts itself, or cannot be replayed here.
        ValueError: If ``sample`` is not a number in [0, 1], or ``workers`` is not zero or a
            positive integer.

    >>> import gymnasium, numpy as np, mtwrappers
    >>> envs = gymnasium.make_vec("mtwrappers/PointGoal-v0", num_envs=2)
    >>> policy = lambda observations: np.full((2, 2), 0.1)
    >>> result = mtwrappers.evaluate(policy, envs, episodes_per_task=3, evidence="result.npz")
    >>> result.save("result.json")
    >>> mtwrappers.verify("result.json").ok
    True
    """
    sample = check_fraction(sample, "sample")
    bar = ProgressBar(check_flag(progress, "progress"))
    if isinstance(evidence, VectorEnv):
        raise TypeError("evidence is the name of a file: pass environments as envs=")
    if envs is not None and workers is not None:
        raise TypeError("workers are for environments made by this call, got envs")
    if envs is not None and not isinstance(envs, VectorEnv):
        hint = ": call it" if callable(envs) else ""
        raise TypeError(f"envs must be a vector environment, got {short(envs)}{hint}")
    num_workers = 0 if workers is None else not_negative(workers, "workers")
    claims = read_claims(result)
    evidence = evidence_beside(result) if evidence is None else evidence
    paths = evidence_files(evidence, len(claims))
    replays: list[_Replay] = []
    with _ReplayEnvs(envs, num_workers or 1) as replay_envs:
        for claim, path in zip(claims, paths, strict=True):
            actions = _read_actions(claim, path)
            try:
                episodes = _replay_claim(claim, actions, sample, replay_envs, bar)
                replays.append(_Replay.compare(claim, episodes, actions, path))
            except VerificationError:
                raise
            except Exception as exc:  # untrusted data may raise anything
                raise VerificationError(f"it cannot be replayed: {full_message(exc)}") from exc
            if replays[-1].difference is not None:
                break
    same, replayed = Counter[str](), Counter[str]()
    for claim_replay in replays:
        same.update(claim_replay.same)
        replayed.update(claim_replay.replayed)
    results = tuple(claim_replay.result for claim_replay in replays)
    return Verification(
        results,
        same={task: same[task] for task in replayed},
        replayed=replayed,
        difference=replays[-1].difference,
        rounding=max(claim_replay.rounding for claim_replay in replays),
        versions=_find_other_versions(results),
        episodes=tuple(claim_replay.episodes for claim_replay in replays),
        named=envs is None or name_environments(envs.unwrapped) is not None,
    )


@dataclass(frozen=True)
class _Replay:
    """The replay of one result, see `Verification`.

    Args:
        result: The result with the numbers of the replay.
        episodes: The replayed episodes.
        same: The number of episodes of each task that are the same.
        replayed: The number of replayed episodes of each task.
        rounding: The largest difference of returns among the same.
        difference: The first difference.
    """

    result: EvaluationResult
    episodes: tuple[Episode, ...]
    same: Counter[str]
    replayed: Counter[str]
    rounding: float
    difference: str | None

    @classmethod
    def compare(
        cls, claim: EvaluationResult, episodes: Mapping[Any, Episode], actions: Actions, path: Path
    ) -> _Replay:
        """Compares replayed episodes, by their places, with those of a result."""
        same, replayed = Counter[str](), Counter[str]()
        rounding, difference = 0.0, None
        for claimed in claim.episodes:
            if claimed.place not in episodes:
                continue
            replayed[claimed.task] += 1
            outcome = compare_episodes(claimed, episodes[claimed.place])
            if isinstance(outcome, str):
                difference = difference or outcome
            else:
                same[claimed.task] += 1
                rounding = max(rounding, outcome)
        if digest(actions) != claim.evidence:
            difference = "; ".join(filter(None, [_describe_other_evidence(path), difference]))
        with_replayed = tuple(episodes.get(claimed.place, claimed) for claimed in claim.episodes)
        return cls(
            replace(claim, episodes=with_replayed),
            tuple(episode for episode in with_replayed if episode.place in episodes),
            same=same,
            replayed=replayed,
            rounding=rounding,
            difference=difference,
        )


def _read_actions(claim: EvaluationResult, path: Path) -> Actions:
    """The actions of a result's episodes, with which all others agree."""
    if claim.evidence is None or claim.design is None:
        raise VerificationError(
            "it was saved without evidence, so there is nothing to replay: evaluate again with "
            "evidence=..."
        )
    try:
        actions = read_evidence(path)
    except FileNotFoundError:
        raise VerificationError(
            f"there is no file {os.fspath(path)} with its evidence, the actions to replay: put "
            "the file of evaluate(..., evidence=...) there (in Python, name it: "
            'verify("result.json", "e.npz")), or ask those who published the result for it; if '
            "there is none, evaluate again with evidence=..."
        ) from None
    is_its_evidence = digest(actions) == claim.evidence
    way_out = UNEDITED if is_its_evidence else _describe_other_evidence(path)
    if not is_its_evidence:
        _check_completeness(claim, actions, path)
    for episode in claim.episodes:
        steps = len(actions.get(name_actions(episode), ()))
        if steps != episode.length or not steps:
            raise VerificationError(
                f"{describe_episode(episode)} has {format_count(episode.length, 'step')}, and the "
                f"evidence {format_count(steps, 'action')}; {way_out}"
            )
    if unknown := [*actions.keys() - set(map(name_actions, claim.episodes))]:
        raise VerificationError(
            f"the evidence has actions of {unknown[0]!r}, not an episode of it; {way_out}"
        )
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")
    return actions


def _check_completeness(claim: EvaluationResult, actions: Actions, path: Path) -> None:
    """Raises `VerificationError` if actions lack episodes, and agree with all others."""
    lengths = {name: len(array) for name, array in actions.items()}
    expected = {name_actions(episode): episode.length for episode in claim.episodes}
    if len(lengths) < len(expected) and lengths.items() <= expected.items():
        missing = next(e for e in claim.episodes if name_actions(e) not in lengths)
        raise VerificationError(
            printable(
                f"{path} has the actions of {len(lengths)} of the "
                f"{format_count(len(expected), 'episode')} of the result, not of "
                f"{describe_episode(missing)}: the file was truncated, as by an interrupted copy, "
                "or is of another evaluation; pass the whole file of the same evaluation, as in "
                "verify(result, evidence)"
            )
        )


def _describe_other_evidence(path: Path) -> str:
    """The sentence about actions that are not those of a result."""
    return printable(
        f"the actions in {path} are not those that the result was saved with: pass the file of the "
        "same evaluation, as in verify(result, evidence)"
    )


# The replay.


class _ReplayEnvs:
    """A context manager for the environments that results are replayed on.

    Results in one file are often points of one stream: these have the same environments, which are
    made once.

    Args:
        envs: The environments that the user gave for all results, or ``None``.
        workers: The number of worker processes of environments that are made.
    """

    def __init__(self, envs: Any, workers: int) -> None:
        self._given_envs, self._workers = envs, workers
        self._envs: Any = None  # those that were made
        self._key: Any = None  # what they were made for

    @property
    def are_given(self) -> bool:
        """Whether the user gave the environments."""
        return self._given_envs is not None

    def make(self, claim: EvaluationResult) -> Any:
        """Returns the environments of a result, which may be those of the previous one."""
        if self._given_envs is not None:
            _check_given_envs(claim, self._given_envs)
            return self._given_envs
        assert claim.design is not None  # it has actions
        key = claim.environments, claim.design, claim.tasks, len(claim.episodes)
        if self._envs is None or key != self._key:
            self._close()
            self._envs = remake(claim.environments, claim.design, claim.episodes, self._workers)
            self._key = key
            check_number(self._envs.num_envs, len(claim.episodes))
        return self._envs

    def _close(self) -> None:
        if self._envs is not None:
            self._envs.close()
            self._envs = None

    def __enter__(self) -> _ReplayEnvs:
        return self

    def __exit__(self, *exc: object) -> None:
        self._close()


def _replay_claim(
    claim: EvaluationResult,
    actions: Actions,
    sample: float,
    replay_envs: _ReplayEnvs,
    bar: ProgressBar,
) -> dict[Any, Episode]:
    """Runs a sample of the episodes of a result; returns them by their places."""
    design = claim.design
    assert design is not None  # it has actions
    inner: MetaVectorEnv = replay_envs.make(claim).unwrapped
    if claim.environments is not None:
        way_out = UNEDITED
        if replay_envs.are_given:
            way_out = "pass environments of the same id, seed and arguments"
        goals = claim.environments.goals
        _require_equal("goals", goals, digest_goals(inner), way_out, form="the digest ")
    if design.phases is not None and inner.num_envs != len(claim.tasks):
        raise VerificationError(
            f"expected an environment for each of its phases {list(claim.tasks)}, as "
            "PhaseEvaluator(..., phases=...).envs has, got "
            f"{format_count(inner.num_envs, 'environment')}; save results that need other "
            "environments, such as baselines, in files of their own"
        )
    check_rewards(inner)
    _check_size(claim, design, inner)
    with ExitStack() as stack:
        stack.enter_context(undisturbed(inner))
        if design.kept_tasks is not None and not replay_envs.are_given:
            _set_kept_tasks(inner, design.kept_tasks)
        if not design.trials:
            stack.enter_context(set_tasks_kept(inner, warns=False))
        plan = plan_episodes(inner, design)
        if replay_envs.are_given:
            _check_given_tasks(claim, plan)
        _check_plan(claim, plan)
        if design.kept_tasks is not None:
            way_out = "set_tasks sets them" if replay_envs.are_given else UNEDITED
            kept_tasks = read_kept_tasks(inner, plan)
            if kept_tasks is None:
                raise VerificationError(
                    "its tasks are not those of the environments: expected "
                    f"{short(design.kept_tasks)}, got tasks that resets draw; {way_out}"
                )
            _require_equal("tasks", design.kept_tasks, kept_tasks, way_out)
        plan = plan.select(_draw_sample(claim, sample))
        advance = stack.enter_context(bar.track("episodes", len(plan.episodes)))
        episodes = replay(inner, plan, actions, lambda episode: advance(1))
        return {episode.place: episode for episode in episodes}


def _check_given_envs(claim: EvaluationResult, envs: Any) -> None:
    """Checks that environments are those of a result and of its protocol, as far as it is known.

    Raises:
        TypeError, ValueError: If they are not.
    """
    if claim.protocol is not None:
        check_envs(claim.protocol, envs)
    named, claimed = name_environments(envs.unwrapped), claim.environments
    if named is None or claimed is None:
        return
    if claimed.id == named.id and claimed.id in TABLE:
        check_id_arguments(claimed.id, claimed.kwargs)
    expected, actual = (
        replace(claim, environments=environments).origin.settings or {}
        for environments in (_without_wrappers(claimed), _without_wrappers(named))
    )
    for name in dict.fromkeys((*expected, *actual)):
        if expected.get(name) != actual.get(name):
            raise VerificationError(
                f"the environments in envs are not those of the result: expected {name}="
                f"{expected.get(name)!r}, got {actual.get(name)!r}"
            )


def _without_wrappers(environments: Environments) -> Environments:
    """Environments by their id and arguments alone: what a wrapper does is in the numbers."""
    kwargs = {name: value for name, value in environments.kwargs.items() if name != "wrappers"}
    return replace(environments, kwargs=kwargs)


def _draw_sample(claim: EvaluationResult, sample: float) -> set[tuple[Any, ...]]:
    """The places of a share of each task's episodes, or of all trials, drawn from entropy."""
    rng = Generator(PCG64(SeedSequence()))
    groups: dict[Any, dict[Any, list[Any]]] = {}
    for episode in claim.episodes:
        # In few-shot evaluation, the unit is a trial; trials of all groups are drawn together.
        group, unit = episode.task, episode.number
        if episode.trial is not None:
            group, unit = "", episode.trial
        groups.setdefault(group, {}).setdefault(unit, []).append(episode.place)
    places: set[tuple[Any, ...]] = set()
    for places_of_units in groups.values():
        units = list(places_of_units.values())
        size = max(1, math.ceil(sample * len(units)))
        for i in rng.permutation(len(units))[:size].tolist():
            places.update(units[i])
    return places


def _check_size(claim: EvaluationResult, design: Design, inner: MetaVectorEnv) -> None:
    """Raises `VerificationError` if the plan would be much larger than the result."""
    share = inner.meta_batch_size if design.adapts else inner.num_envs
    units = design.trials * share if design.trials else len(design.tasks or claim.tasks)
    due = units * (design.adaptation_length + design.episodes_per_task)
    if due > 2 * len(claim.episodes) + 1000:
        raise VerificationError(
            f"it has {len(claim.episodes):,} of {format_count(due, 'episode')}; {UNEDITED}"
        )


def _check_given_tasks(claim: EvaluationResult, plan: Plan) -> None:
    """Raises `VerificationError` unless a plan for given environments has the tasks of a result."""
    if plan.tasks != claim.tasks:
        raise VerificationError(
            f"the environments in envs are not those of the result: expected the tasks "
            f"{short(list(claim.tasks))}, got {short(list(plan.tasks))}; pass environments of "
            "these tasks alone, in this order, with the names that they had, as by "
            "TaskNameWrapper(env, task_name=...) or task_names=[...]"
        )


def _set_kept_tasks(inner: MetaVectorEnv, kept_tasks: Mapping[str, Any]) -> None:
    """Sets the tasks of a result in environments, by the names of their tasks."""
    _, infos = inner.reset(seed=0)
    names = task_names(inner, infos)[:: inner.envs_per_task]
    tasks = inner.call(read_task)[:: inner.envs_per_task]
    named_tasks = zip(names, tasks, strict=True)
    inner.set_tasks([kept_tasks.get(name, task) for name, task in named_tasks])


def _require_equal(noun: str, expected: Any, actual: Any, way_out: str, form: str = "") -> None:
    """Raises `VerificationError` unless environments have what a result says of them.

    Args:
        noun: The word for the values, for the message.
        expected: The value in the result.
        actual: The value of the environments.
        way_out: The end of the message.
        form: What stands before the expected value in the message.
    """
    if actual != expected:
        raise VerificationError(
            f"its {noun} are not those of the environments: expected {form}{short(expected)}, got "
            f"{short(actual)}; {way_out}"
        )


def _check_plan(claim: EvaluationResult, plan: Plan) -> None:
    """Raises `VerificationError` unless a result's episodes are those of a plan, in order."""
    episodes = claim.episodes
    for episode, planned in itertools.zip_longest(episodes, plan.episodes):
        if episode is None or planned is None or episode.place != planned.place:
            raise VerificationError(
                f"its {format_count(len(episodes), 'episode')} must be the {len(plan.episodes)} "
                f"of its plan: expected {_describe_or_none(planned)}, got "
                f"{_describe_or_none(episode)}; {UNEDITED}"
            )
        if episode.task_state != planned.task_state:
            raise VerificationError(
                f"with its seed {plan.design.seed}, {describe_episode(episode)} must have the "
                f"{claim.origin.state_noun} {planned.task_state}, got {episode.task_state}; "
                f"{UNEDITED}"
            )


def _describe_or_none(episode: Episode | PlannedEpisode | None) -> str:
    return "no more" if episode is None else describe_episode(episode)


def _find_other_versions(
    results: Sequence[EvaluationResult],
) -> dict[str, tuple[str | None, str | None]]:
    """The packages whose version differs from that of a result: both versions, by name."""
    here, differing = versions(), dict[str, tuple[str | None, str | None]]()
    for there in (result.versions for result in results):
        for name in sorted({*here, *there}):
            if there.get(name) != here.get(name):
                differing.setdefault(name, (there.get(name), here.get(name)))
    return differing


# The text of a verification.


def _describe_fields(verification: Verification) -> list[str]:
    """Lines on the values that the replay depends on, and those that it may not depend on."""
    results = _tabulate_results(verification)
    first, protocol = dict(results[0]), verification.result.protocol
    if verification.versions:
        first["versions"] = {
            name: f"{there}, here {here}" for name, (there, here) in verification.versions.items()
        }
    rows = [("protocol", protocol.label if protocol else "none")]
    for head, values in first.items():
        changes = [*_list_changes([tables.get(head, {}) for tables in results])]
        if values or changes:
            rows += [(head, _format_values(values)), *changes]
    num_replayed = sum(verification.replayed.values())
    episodes = format_count(_count_episodes(verification), "episode")
    rows.append(("replayed", f"{num_replayed:,} of {episodes}"))
    width = max(len(label) for label, _ in rows) + 2
    return [line for label, text in rows for line in _wrap(f"{label:<{width}}{text}", width)]


def _list_changes(results: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    """The label and the text of rows on values that differ from those of the result before.

    Consecutive results in which the same fields change have one row, with a list of values.
    """
    changes = [
        {
            name: values.get(name)
            for name in dict.fromkeys((*values, *previous))
            if values.get(name) != previous.get(name)
        }
        for previous, values in itertools.pairwise(results)
    ]
    groups = itertools.groupby(enumerate(changes, 1), key=lambda change: change[1].keys())
    for names, numbered_changes in groups:
        numbers, changed = zip(*numbered_changes, strict=True)
        values = changed[0]
        if len(changed) > 1:
            values = {name: [values[name] for values in changed] for name in names}
        if values:
            label = f"  {format_range('result', numbers[0], numbers[-1])}"
            yield label, _format_values(values)


def _count_episodes(verification: Verification) -> int:
    """The number of episodes in the file."""
    return sum(len(result.episodes) for result in verification.results)


def _format_values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_format_value(value)}" for name, value in values.items())


def _format_value(value: Any) -> str:
    """A value as JSON, of which only texts are printed whole at any length."""
    text = json.dumps(value, ensure_ascii=False)
    if isinstance(value, str) or len(text) <= _MAX_TEXT:
        return text
    return f"{text[:_MAX_TEXT]}... ({format_count(len(text), 'character')})"


def _wrap(text: str, indent: int) -> list[str]:
    return textwrap.wrap(text, 80, subsequent_indent=" " * indent, break_on_hyphens=False)


def _tabulate_results(verification: Verification) -> list[dict[str, dict[str, Any]]]:
    pairs = zip(verification.results, verification.episodes, strict=True)
    return [_tabulate_fields(result, episodes, verification.named) for result, episodes in pairs]


def _tabulate_fields(
    result: EvaluationResult, replayed: Sequence[Episode], named: bool
) -> dict[str, dict[str, Any]]:
    """Every field of a result: those that the replay depends on, and those that it may not.

    Left out are fields without a value; episodes and evidence, which the replay compares; and those
    of the protocol with which environments and design agree.
    """
    data, replayed_fields = to_plain(result), find_replayed_fields(result, replayed)
    replayed_arguments = replayed_fields.environments if named else frozenset()
    environments = data["environments"] or {"id": None, "kwargs": {}, "goals": None}
    design = data["design"]
    if not result.few_shot:
        design = {name: value for name, value in design.items() if name not in TRIAL_FIELDS}
    unverified: dict[str, Any] = dict(data["description"])
    rows: dict[str, dict[str, Any]] = {"environments": {}, "design": {}, _SAID: unverified}
    for name, value in design.items():
        if name in replayed_fields.design:
            rows["design"][name] = value
        else:
            unverified[f"design_{name}"] = value
    arguments = {"id": environments["id"], **environments["kwargs"]}
    arguments["goals_digest"] = environments["goals"]
    for name, value in arguments.items():
        if name in replayed_arguments:
            rows["environments"][name] = value
        else:
            unverified[name] = value
    for head in ("versions", "normalization"):
        unverified |= {f"{head}_{name}": value for name, value in (data[head] or {}).items()}
    if data["protocol"] is not None:
        unverified |= _list_own_rules(data["protocol"])
    return {
        head: {name: value for name, value in values.items() if value not in (None, "")}
        for head, values in rows.items()
    }


def _list_own_rules(protocol: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a protocol that neither environments nor design have.

    Those of a published protocol follow from its name.
    """
    if protocol["name"] in protocols or protocol["base"] is not None:
        return {}
    rules = {name: protocol["scoring"][name] for name in ("success", "means", "groups")}
    rules |= {"source": protocol["source"], "name": protocol["name"]}
    return {f"protocol_{name}": value for name, value in rules.items() if value}


def _describe_outcome(verification: Verification) -> list[str]:
    """Lines on the outcome of the replay, with the score if the result is verified."""
    same, replayed = sum(verification.same.values()), sum(verification.replayed.values())
    if not verification.ok:
        lines = [
            f"{task}: {verification.same[task]} of {n} the same"
            for task, n in verification.replayed.items()
            if verification.same[task] < n
        ]
        cause = ""
        if verification.versions:
            cause = f" (perhaps because of other versions of {', '.join(verification.versions)})"
        environments = verification.result.environments
        if environments is not None and environments.wrappers:
            wrappers = ", ".join(environments.wrappers)
            cause += f" (it was measured in {wrappers}, which no replay is)"
        cause = cause or f"; {UNEDITED}"
        lines += _wrap(f"false: {verification.difference}{cause}", indent=2)
        episodes = format_count(replayed, "episode")
        return [*lines, f"not verified: {same:,} of {episodes} gave the same numbers"]
    lines = [f"{_name_compared_fields(verification)} are equal;"]
    if verification.rounding:
        most = Context(prec=1, rounding=ROUND_CEILING).create_decimal(verification.rounding)
        why = "other versions or " * bool(verification.versions) + "another processor"
        text = f"returns are equal but for rounding, at most {most:.0e}: {why}"
        lines += textwrap.wrap(text, 80)
    else:
        lines.append("returns are equal to the last bit")
    extent = "" if replayed == _count_episodes(verification) else ", as far as it was replayed"
    score, result = [verification.result.score], verification.result
    if result.headline is not None:
        score = result.headline_lines()
    elif result.protocol is not None:
        score = textwrap.wrap(f"no score: {result.no_score}", 80)
    return [*lines, f"verified{extent}:", *score]


def _name_compared_fields(verification: Verification) -> str:
    """The fields of episodes that the replay compared exactly, of those that episodes have."""
    episodes = [episode for episodes in verification.episodes for episode in episodes]
    names = ["lengths"]
    if any(episode.success_once is not None for episode in episodes):
        names = ["success", "length", "steps to success"]
    if any(episode.task_state is not None for episode in episodes):
        names.append(f"{verification.result.origin.state_noun}s")
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))
