"""A saved result as a claim: what it says is checked before anything of it is played."""

from __future__ import annotations

import math
import os
import reprlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mtwrappers.common.errors import full_message, printable
from mtwrappers.evaluation.arguments import check_made
from mtwrappers.evaluation.episodes import Episode
from mtwrappers.evaluation.evidence import Actions, name_of
from mtwrappers.evaluation.few_shot import FewShotResult
from mtwrappers.evaluation.plan import PlannedEpisode
from mtwrappers.evaluation.provenance import Provenance, versions
from mtwrappers.evaluation.result import MAX_SIZE, EvaluationResult
from mtwrappers.evaluation.rules import Rules
from mtwrappers.state.files import load_json

# How far apart, relative, two returns may be that differ by rounding.
ROUNDING = 1e-9
# What takes time by its size before anything is replayed: resamples, their product with episodes,
# and rows of tables.
_MAX_RESAMPLES, _MAX_DRAWS, _MAX_ROWS = 100_000, 10**8, 5000
# What `mtwrappers rollout` notes beside its result. Nothing of it is verified.
_NOTED = {"benchmark", "policy", "episodes", "seed", "protocol", "name", "privileged_goal"}
_NOTED |= {"interrupted", "seconds", "steps", "steps_per_second"}


class VerificationError(ValueError):
    """A result cannot be what it says it is, or cannot be replayed here."""

    def __init__(self, message: str) -> None:
        super().__init__(printable(message, 1000))


def read_claim(path: str | os.PathLike[str]) -> EvaluationResult | FewShotResult:
    """A result from anywhere, if its numbers follow from its episodes.

    Raises:
        OSError: If it cannot be read.
        VerificationError: If it is no result, or contradicts itself.
    """
    try:
        data = load_json(path, MAX_SIZE)
        few_shot = isinstance(data, dict) and data.get("format") == FewShotResult.FORMAT
        kind: Any = FewShotResult if few_shot else EvaluationResult
        claim: EvaluationResult | FewShotResult = kind.from_dict(data)
        _check_noted(data.pop("rollout", {}))
        _check_sizes(claim)
        found = _contradiction(claim.to_dict(), data, "")
    except VerificationError:
        raise
    except (ValueError, OverflowError, RecursionError) as exc:
        raise VerificationError(f"{os.fspath(path)} is no result: {full_message(exc)}") from exc
    if found:
        raise VerificationError(f"its numbers do not follow from its episodes: {found}")
    _check_made((claim.evaluation if isinstance(claim, FewShotResult) else claim).provenance)
    return claim


def _check_noted(note: Any) -> None:
    if not isinstance(note, dict) or not note.keys() <= _NOTED:
        raise VerificationError(f"a rollout notes no {reprlib.repr(note)}")
    for name, value in note.items():
        if isinstance(value, (list, dict)):
            raise VerificationError(f"a rollout notes of {name} no {reprlib.repr(value)}")


def _check_sizes(claim: EvaluationResult | FewShotResult) -> None:
    """Raises `VerificationError` if a table of its numbers would take very long to make."""
    parts = [claim] if isinstance(claim, EvaluationResult) else [claim.adaptation, claim.evaluation]
    needed = max(part.resamples for part in parts)
    if needed > _MAX_RESAMPLES:
        raise VerificationError(
            f"at most {_MAX_RESAMPLES:,} resamples are drawn, its intervals need {needed:,}"
        )
    if needed * len(claim.episodes) > _MAX_DRAWS:
        raise VerificationError(
            f"it has {len(claim.episodes):,} episodes, of which {needed:,} resamples take too long"
        )
    rows = sum(len(part.tasks) for part in parts)
    if isinstance(claim, FewShotResult):
        rows += len({(one.number, one.task) for one in claim.episodes})
    if rows > _MAX_ROWS:
        raise VerificationError(f"its tables have {rows:,} rows, more than {_MAX_ROWS:,}")


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


def other_versions(there: Mapping[str, str]) -> dict[str, tuple[str | None, str | None]]:
    """Of what was played with another version than is installed here: both, by its name."""
    here = versions()
    return {
        name: (there.get(name), here.get(name))
        for name in sorted({*here, *there})
        if here.get(name) != there.get(name)
    }


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
    before, after = claim.adaptation, claim.evaluation
    for name in ("seed", "confidence", "resamples"):
        if getattr(before, name) != getattr(after, name):
            raise VerificationError(f"its adaptation and its evaluation have another {name}")
    made = after.provenance
    given = made and (made.episodes_per_task, made.tasks, made.max_episode_steps)
    if given != (design.evaluation_episodes, None, None) or before.provenance is not None:
        raise VerificationError("its provenance and its trials do not go together")
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


def rounding(claimed: Episode, replayed: Episode) -> float | None:
    """How far apart, relative to the larger, the returns of episodes are that are equal otherwise.

    ``None`` if anything else differs, or they are further apart than rounding makes them.
    """
    one, other = claimed.episode_return, replayed.episode_return
    if replace(replayed, episode_return=one) != claimed:
        return None
    if one == other:
        return 0.0
    apart = abs(one - other) / max(abs(one), abs(other))
    return apart if apart <= ROUNDING else None


def difference(claimed: Episode, replayed: Episode) -> str:
    """How an episode differs from what was claimed."""
    names = [name for name in vars(claimed) if name != "episode_return"]
    for name in (*names, "episode_return"):
        value, got = getattr(claimed, name), getattr(replayed, name)
        if got == value:
            continue
        if name == "length" and got > value:
            return f"{said(claimed)} goes on in the replay after its {value} steps"
        return f"{said(claimed)}: {name} is {got!r} in the replay, {value!r} in the result"
    raise AssertionError("they are equal")


def said(one: Episode | PlannedEpisode) -> str:
    """An episode in words."""
    trial = "" if one.trial is None else f"trial {one.trial}, "
    return f"{one.task}, {trial}episode {one.number}"


def _place(one: Episode | PlannedEpisode) -> tuple[Any, ...]:
    return one.task, one.number, one.trial


def _contradiction(expected: Any, got: Any, where: str) -> str | None:
    """The first place in which what was read from JSON is not what it should be."""
    parts: list[tuple[Any, Any, Any]] = []
    if isinstance(expected, dict) and isinstance(got, dict):
        for name in (*expected, *got):
            if name not in got or name not in expected:
                what = "is not there" if name in expected else "is no part of it"
                return f"{_within(where, name)} {what}"
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
    elif type(expected) is not type(got) or expected != got:
        return f"{where} is {reprlib.repr(expected)}, got {reprlib.repr(got)}"
    found = (_contradiction(one, other, _within(where, label)) for one, other, label in parts)
    return next(filter(None, found), None)


def _within(where: str, label: Any) -> str:
    return f"{where}, {label}" if where else f"{label}"
