"""Checks that a vector environment's episodes end and begin as its autoreset mode says."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from mtwrappers.testing.check.recording import (
    Call,
    Recording,
    difference,
    find,
    over,
    show,
    steps_of,
    without,
)
from mtwrappers.testing.check.report import Difference, Failed, Skipped
from mtwrappers.testing.check.rows import info_row
from mtwrappers.testing.check.subject import Subject
from mtwrappers.testing.check.vector_checks import at, modes

_SAME, _NEXT = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP
# Of how many values an info's beginnings must be, if their being ends, too, is to be no accident.
_VARIETY = 3


class End(NamedTuple):
    """The end of an episode of one environment, in mode ``SAME_STEP``.

    Attributes:
        env: Which environment.
        call: The step that ended it.
        before: The infos of the call before.
        final: ``final_info``, or None if there is none.
        begin: The other infos of the step, of the episode that it begins.
    """

    env: int
    call: Call
    before: dict[Any, Any]
    final: dict[Any, Any] | None
    begin: dict[Any, Any]


def autoreset_declared(subject: Subject) -> str:
    """Episodes end and begin as the autoreset mode in the metadata says."""
    subject.require_infos()
    n, ended = subject.num_envs, 0
    played = modes(subject)
    for mode, recording in played:
        if not isinstance(mode, AutoresetMode):
            raise Failed(
                "metadata['autoreset_mode'] must say when an environment is reset",
                Difference(None, "the metadata", "autoreset_mode", "an AutoresetMode", show(mode)),
            )
        ended += sum(int(over(call).sum()) for call in steps_of(recording))
        _only_at_ends(recording, n)
        if mode is _SAME:
            _final_obs(recording)
            _final_infos(subject, recording, alone=len(played) == 1)
        if mode is _NEXT:
            _reset_is_a_step(recording)
    if not ended:
        raise Skipped(f"no episode ended within {subject.length} steps")
    if subject.is_repeatable():
        _modes_agree(subject, dict(played))
    names = ", ".join(mode.value for mode, _ in played if mode)
    return f"{names}: {ended} ends of episodes as the mode says"


def _in_infos(i: Any, call: Call, key: str, expected: str, actual: str) -> Difference:
    return Difference(int(i), call.what, f"info['{key}'][{i}]", expected, actual)


def _only_at_ends(played: Recording, n: int) -> None:
    """Raises `Failed` if the infos have the last observation or info of an episode that goes on."""
    for call in steps_of(played):
        infos, ends = call.values["info"], over(call)
        for key in ("final_obs", "final_info"):
            mask = infos.get(f"_{key}")
            for i in np.flatnonzero(mask & ~ends) if np.shape(mask) == (n,) else ():
                where = _in_infos(i, call, f"_{key}", "False", "True")
                raise Failed(f"the infos have a {key} where no episode ended", where)
        final = infos.get("final_obs")
        objects = isinstance(final, np.ndarray) and final.dtype.hasobject
        for i in np.flatnonzero(~ends) if objects else ():
            if final[i] is not None:
                where = _in_infos(i, call, "final_obs", "None", show(final[i]))
                raise Failed("the infos have a final_obs where no episode ended", where)


def _reset_is_a_step(played: Recording) -> None:
    """Raises `Failed` if the step after an end is no reset, in mode ``NEXT_STEP``."""
    stale: list[bool] = []
    for last, call in itertools.pairwise(steps_of(played)):
        for i in np.flatnonzero(over(last)):
            for name in ("reward", "terminated", "truncated"):
                if call.values[name][i] != 0:
                    raise Failed(
                        "in mode NextStep the step after an episode's end is its reset, "
                        "without a reward or a flag",
                        at(i, call, name, "0 or False"),
                    )
            obs, end = call.values["observation"], last.values["observation"]
            if isinstance(obs, np.ndarray):
                begins_there = find(played.calls[0].values["observation"][i], obs[i]) is None
                stale.append(find(end[i], obs[i]) is None and not begins_there)
    if stale and all(stale):
        raise Failed(
            "in mode NextStep the step after an episode's end returns the episode's last "
            f"observation once more, in all {len(stale)} episodes that ended: the first one of "
            "the next is missing"
        )


def _final_obs(played: Recording) -> None:
    """Raises `Failed` if last observations are not in the infos, or are first ones."""
    alike: list[tuple[int, int]] = []  # which environment, in which call
    ended = 0
    for c, call in enumerate(played.calls):
        infos = call.values["info"]
        for i in np.flatnonzero(over(call)) if "reward" in call.values else ():
            ended += 1
            final, mask = infos.get("final_obs"), infos.get("_final_obs")
            if final is None or final[i] is None or (mask is not None and not mask[i]):
                raise Failed(
                    "in mode SameStep the last observation of an episode must be in the infos",
                    _in_infos(i, call, "final_obs", "an observation", "none"),
                )
            begins = call.values["observation"]
            if isinstance(begins, np.ndarray) and find(final[i], begins[i], loose=True) is None:
                alike.append((int(i), c))
    shown = [call.values["observation"] for call in played.calls]
    if not alike or len(alike) < ended or all(find(shown[0], obs) is None for obs in shown):
        return
    if all(find(shown[0][i], shown[c][i]) is None for i, c in alike):
        return  # episodes may end where all of them begin
    last, first = _goes_on(played, shown, alike)
    both = f"at all {ended} ends of episodes observation and info['final_obs'] are the same, "
    if last and not first:
        says = "and next to what was before: the first observation of the next episode is missing"
    elif first and not last:
        says = "and next to what follows: info['final_obs'] is the first observation of the next "
        says += "episode, and the last one is lost"
    else:
        says = "so either the last observation of the episode is lost, or the first of the next"
    raise Failed(both + says)


def _goes_on(
    played: Recording, shown: list[Any], alike: list[tuple[int, int]]
) -> tuple[bool, bool]:
    """Whether observations are as near to those before, and to those after them, as steps are."""
    n = len(shown[0])
    step = [np.zeros(np.shape(shown[0][i])) for i in range(n)]
    ends = [over(call) if "reward" in call.values else np.ones(n, bool) for call in played.calls]
    for c in range(2, len(shown)):
        for i in range(n):
            if not (ends[c][i] or ends[c - 1][i]):
                jump = np.abs(np.subtract(shown[c][i], shown[c - 1][i], dtype=float))
                step[i] = np.maximum(step[i], jump)

    def near(i: int, c: int, d: int) -> bool:
        jump = np.abs(np.subtract(shown[c][i], shown[d][i], dtype=float))
        return bool(np.all(jump <= step[i] * (1 + 1e-6)))

    inner = [(i, c) for i, c in alike if c + 1 < len(shown) and not (ends[c + 1] | ends[c - 1])[i]]
    return (
        bool(inner) and all(near(i, c, c - 1) for i, c in inner),
        bool(inner) and all(near(i, c, c + 1) for i, c in inner),
    )


def _ends(subject: Subject, played: Recording) -> Iterator[End]:
    n = subject.num_envs
    infos = [without(call.values, subject.ignore)["info"] for call in played.calls]
    for c, call in enumerate(played.calls):
        for i in np.flatnonzero(over(call)) if "reward" in call.values else ():
            row = info_row(infos[c], i, n)
            final = row.pop("final_info", None)
            row.pop("final_obs", None)
            yield End(int(i), call, info_row(infos[c - 1], i, n), final, row)


def _final_infos(subject: Subject, played: Recording, alone: bool) -> None:
    """Raises `Failed` if the infos of an episode's last step are not there, or of the next one.

    Args:
        subject: The vector environment.
        played: A recording in mode ``SAME_STEP``.
        alone: Whether there is no other mode, in which these infos are seen.
    """
    n, ends = subject.num_envs, list(_ends(subject, played))
    steps = [call for call in steps_of(played) if not over(call).any()]
    rows = [
        info_row(without(c.values, subject.ignore)["info"], i, n) for c in steps for i in range(n)
    ]
    always = set.intersection(*(set(row) for row in rows)) if rows else set()
    for end in ends:
        if end.final is None and always:
            where = _in_infos(end.env, end.call, "final_info", "a value", "none")
            raise Failed(
                "in mode SameStep the infos of an episode's last step must be in final_info", where
            )
    if alone and ends and all(find(end.final, end.begin, loose=True) is None for end in ends):
        lost = all(always - set(end.final or ()) for end in ends)
        moved = all(find(end.before, end.begin, loose=True) for end in ends)
        if lost or (moved and (_many(ends) or _always_change(subject, played))):
            end = ends[0]
            raise Failed(
                "info['final_info'] has the first infos of the next episode, in all "
                f"{len(ends)} episodes that ended: those of the last step are lost",
                _in_infos(end.env, end.call, "final_info", f"not {show(end.begin)}", "the same"),
            )


def _many(ends: list[End]) -> bool:
    """Whether episodes begin with so many infos that it is no accident if they end with them."""
    begins: list[dict[Any, Any]] = []
    for end in ends:
        if all(find(other, end.begin, loose=True) for other in begins):
            begins.append(end.begin)
    return len(begins) >= _VARIETY


def _always_change(subject: Subject, played: Recording) -> bool:
    """Whether no two steps of an episode in a row have the same infos."""
    n = subject.num_envs
    infos = [without(call.values, subject.ignore)["info"] for call in played.calls]
    return not any(
        find(info_row(infos[c - 1], i, n), info_row(infos[c], i, n), loose=True) is None
        for c in range(1, len(infos))
        for i in np.flatnonzero(~over(played.calls[c]))
    )


def _modes_agree(subject: Subject, played: dict[Any, Recording]) -> None:
    """Raises `Failed` if the first episode to end, in mode ``SAME_STEP``, ends not as in others."""
    mode = next((mode for mode in played if mode is not _SAME), None)
    if mode is None or _SAME not in played:
        return
    n, space = subject.num_envs, subject.observation_space
    ends = iter(_ends(subject, played[_SAME]))
    for one, other in zip(played[_SAME].calls, played[mode].calls, strict=False):
        if "reward" not in one.values or not (over(one).any() or over(other).any()):
            continue
        if not np.array_equal(over(one), over(other)):
            return
        shown = list(iterate(space, other.values["observation"]))
        infos = without(other.values, subject.ignore)["info"]
        for i in np.flatnonzero(over(one)):
            end, final = next(ends), one.values["info"]["final_obs"][i]
            differs = find(shown[i], final, ("info", "final_obs", int(i)), loose=True)
            for key, value in info_row(infos, i, n).items():
                place = ("info", "final_info", key, int(i))
                # The statistics of an episode may be where the infos of its step are.
                row = next((row for row in (end.final, end.begin) if row and key in row), None)
                if not differs and row is None:
                    differs = place, show(value), "no such key"
                elif not differs and row is not None:
                    differs = find(value, row[key], place, loose=True)
            if differs:
                raise Failed(
                    f"the end of an episode is another in mode SameStep than in {mode.value}",
                    replace(difference(differs, one.what, False), env=int(i)),
                )
        return
