"""A saved result as a claim: what it says is checked before anything of it is played."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from mtwrappers.errors import full_message
from mtwrappers.evaluation.arguments import check_made
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import MAX_FILE, Actions, name_of
from mtwrappers.evaluation.few_shot import FewShotResult
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.provenance import Provenance, versions
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.rules import Rules
from mtwrappers.files import opened

_MAX_RESAMPLES = 100_000


class VerificationError(ValueError):
    """A result cannot be what it says it is, or cannot be replayed here."""


def read_claim(path: str | os.PathLike[str]) -> EvaluationResult | FewShotResult:
    """A result from anywhere, if its numbers follow from its episodes.

    Raises:
        OSError: If it cannot be read.
        VerificationError: If it is no result, or contradicts itself.
    """
    with opened(path, MAX_FILE) as file:
        try:
            data = json.load(file)
            few_shot = isinstance(data, dict) and data.get("format") == FewShotResult.FORMAT
            kind: Any = FewShotResult if few_shot else EvaluationResult
            claim = kind.from_dict(data)
        except (ValueError, RecursionError) as exc:
            raise VerificationError(f"{os.fspath(path)} is no result: {full_message(exc)}") from exc
    parts = [claim]
    if isinstance(claim, FewShotResult):
        parts = [claim.adaptation, claim.evaluation]
    needed = max(part.resamples for part in parts)
    if needed > _MAX_RESAMPLES:
        raise VerificationError(
            f"at most {_MAX_RESAMPLES:,} resamples are drawn, its intervals need {needed}"
        )
    for name, expected in claim.to_dict().items():
        if found := _contradiction(expected, data.get(name), name):
            raise VerificationError(f"its numbers do not follow from its episodes: {found}")
    _check_made(parts[-1].provenance)
    return claim  # type: ignore[no-any-return]


def _check_made(provenance: Provenance | None) -> None:
    """Raises `VerificationError` if environments are not those of the protocol that is named."""
    if provenance is None or provenance.protocol is None or provenance.spec is None:
        return
    rules, spec = Rules.from_dict(provenance.protocol), provenance.spec
    kwargs = spec.get("kwargs")
    try:
        check_made(rules, spec.get("id"), kwargs if isinstance(kwargs, dict) else {})
    except (TypeError, ValueError) as exc:
        raise VerificationError(str(exc)) from None


def check_versions(there: Mapping[str, str]) -> None:
    """Raises `VerificationError` if a result was played with other versions than are here."""
    here = versions()
    for name in sorted({*here, *there} - {"python"}):  # whose version changes no number
        if here.get(name) != there.get(name):
            raise VerificationError(
                f"it was played with {name} {there.get(name)}, and {here.get(name)} is installed"
            )


def check_actions(episodes: Sequence[Episode], actions: Actions) -> None:
    """Raises `VerificationError` unless each episode has its actions, and nothing else has."""
    names = {name_of(one): one for one in episodes}
    if missing := [one for name, one in names.items() if name not in actions]:
        raise VerificationError(
            f"the evidence has no actions of {said(missing[0])}: {len(missing)} of {len(names)} "
            "episodes are missing in it"
        )
    for name, one in names.items():
        if len(actions[name]) != one.length:
            raise VerificationError(
                f"{said(one)} has {one.length} steps, and the evidence {len(actions[name])} actions"
            )
    if others := [name for name in actions if name not in names]:
        raise VerificationError(f"the evidence has actions of {others[0]!r}, which is no episode")
    kinds = {(array.dtype, array.shape[1:]) for array in actions.values()}
    if len(kinds) > 1:
        raise VerificationError(f"the evidence has actions of several kinds: {kinds}")


def check_trials(claim: FewShotResult, m: int, k: int) -> None:
    """Raises `VerificationError` unless few-shot episodes are all of their trials, in order.

    ``m`` and ``k`` are the task groups, and the environments of each.
    """
    design, episodes = claim.trials, claim.episodes
    if design is None:
        raise VerificationError("it does not say how its trials were played")
    if (due := design.length(m, k)) > 2 * len(episodes) + 1000:
        raise VerificationError(f"it has {len(episodes)} of {due:,} episodes")
    of_trial = {one.trial: one for one in episodes}
    plan = []
    for trial in range(design.trials):
        for number, n in sorted(design.of_trial(trial, m, k)):
            like = of_trial.get(number)
            task, state = (like.task, like.task_state) if like else ("a task", None)
            plan.append(PlannedEpisode(task, n, None, state, number))
    plan.sort(key=lambda one: one.number >= design.adaptation_length)
    check_plan(episodes, plan)


def check_plan(episodes: Sequence[Episode], plan: Sequence[PlannedEpisode]) -> None:
    """Raises `VerificationError` unless episodes are those of a plan, each once and in order."""
    places = {_place(one): one for one in plan}
    for place, times in Counter(map(_place, episodes)).items():
        if place not in places or times > 1:
            what = f"is there {times} times" if place in places else "is not to be played"
            raise VerificationError(f"{place[0]}, episode {place[1]} {what}")
    found = set(map(_place, episodes))
    if missing := [one for place, one in places.items() if place not in found]:
        raise VerificationError(
            f"it has {len(episodes)} of {len(plan)} episodes: {said(missing[0])} is missing"
        )
    for one, planned in zip(episodes, plan, strict=True):
        if _place(one) != _place(planned):
            raise VerificationError(f"expected {said(planned)} in the place of {said(one)}")
        if one.task_state != planned.task_state:
            raise VerificationError(
                f"with its seed {said(one)} plays the goal {planned.task_state}, not "
                f"{one.task_state}"
            )


def difference(claimed: Episode, replayed: Episode) -> str:
    """How an episode differs from what was claimed."""
    for name, value in vars(claimed).items():
        if (got := getattr(replayed, name)) != value:
            return f"{said(claimed)}: {name} is {got!r} in the replay, {value!r} in the result"
    raise AssertionError("they are equal")


def said(one: Episode | PlannedEpisode) -> str:
    """An episode in words."""
    trial = "" if one.trial is None else f"trial {one.trial}, "
    # What a file says may be meant for the terminal.
    task = one.task if one.task.isprintable() else ascii(one.task)
    return f"{task}, {trial}episode {one.number}"


def _place(one: Episode | PlannedEpisode) -> tuple[Any, ...]:
    return one.task, one.number, one.trial


def _contradiction(expected: Any, got: Any, where: str) -> str | None:
    """The first place in which what was read from JSON is not what it should be."""
    parts: list[tuple[Any, Any, Any]] = []
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        parts = [(value, got[name], name) for name, value in expected.items()]
    elif (
        isinstance(expected, (list, tuple)) and isinstance(got, list) and len(expected) == len(got)
    ):
        for i, one in enumerate(expected):
            label = one.get("task", i) if isinstance(one, dict) else i
            parts.append((one, got[i], label))
    elif type(expected) is float and type(got) in (int, float):
        # Means and intervals may be rounded otherwise on another machine.
        if math.isclose(expected, got, rel_tol=1e-9, abs_tol=1e-12):
            return None
        return f"{where} is {expected!r}, got {got!r}"
    elif expected != got:
        return f"{where} is {expected!r}, got {got!r}"
    found = (_contradiction(one, other, f"{where}, {label}") for one, other, label in parts)
    return next(filter(None, found), None)
