"""Checks that a vector environment's episodes end and begin according to its autoreset mode."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from mtwrappers.testing.difference import Difference, Found, difference, find, same, text_of
from mtwrappers.testing.recording import (
    Call,
    Recording,
    ends_of,
    finished,
    mode_of,
    recorded,
    steps_of,
    without,
)
from mtwrappers.testing.report import Failed, Skipped
from mtwrappers.testing.sub_environments import info_of
from mtwrappers.testing.subject import Subject

_SAME, _NEXT, _DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)
# Of how many values an info's beginnings must be, if their being ends, too, is to be no accident.
_VARIETY = 3


def as_declared(subject: Subject) -> str:
    """Episodes end and begin according to the autoreset mode in the metadata."""
    subject.require_infos()
    ended = 0
    for mode, recording in subject.modes:
        if not isinstance(mode, AutoresetMode):
            where = Difference(
                None, "the metadata", "autoreset_mode", "an AutoresetMode", text_of(mode)
            )
            raise Failed("metadata['autoreset_mode'] must say when an environment is reset", where)
        ended += sum(1 for _ in ends_of(recording))
        _only_at_ends(recording, subject.num_envs)
        if mode is _SAME:
            _final_obs(recording)
            _final_infos(subject, recording)
        if mode is _NEXT:
            _reset_is_a_step(recording)
    if not ended:
        raise Skipped(f"no episode ended within {subject.length} steps")
    if subject.is_repeatable():
        _modes_agree(subject)
    names = ", ".join(mode.value for mode, _ in subject.modes if mode)
    return f"{names}: {ended} ends of episodes as the mode says"


def _in_infos(i: Any, call: Call, key: str, expected: str, actual: str) -> Difference:
    return Difference(int(i), call.what, f"info['{key}'][{i}]", expected, actual)


def _only_at_ends(recording: Recording, n: int) -> None:
    """Raises `Failed` if infos contain a final observation or info of an unfinished episode."""
    for call in steps_of(recording):
        infos, ends = call.values["info"], finished(call)
        for key in ("final_obs", "final_info"):
            mask = infos.get(f"_{key}")
            for i in np.flatnonzero(mask & ~ends) if np.shape(mask) == (n,) else ():
                where = _in_infos(i, call, f"_{key}", "False", "True")
                raise Failed(f"the infos have a {key} where no episode ended", where)
        final = infos.get("final_obs")
        objects = isinstance(final, np.ndarray) and final.dtype.hasobject
        for i in np.flatnonzero(~ends) if objects else ():
            if final[i] is not None:
                where = _in_infos(i, call, "final_obs", "None", text_of(final[i]))
                raise Failed("the infos have a final_obs where no episode ended", where)


def _reset_is_a_step(recording: Recording) -> None:
    """Raises `Failed` if, in mode ``NEXT_STEP``, the step after an end is not a reset."""
    stale: list[bool] = []
    for last, call in itertools.pairwise(steps_of(recording)):
        for i in np.flatnonzero(finished(last)):
            for name in ("reward", "terminated", "truncated"):
                if (value := call.values[name][i]) != 0:
                    key, expected = f"{name}[{i}]", "0 or False"
                    raise Failed(
                        "in mode NextStep the step after an episode's end is its reset, "
                        "without a reward or a flag",
                        Difference(int(i), call.what, key, expected, text_of(value)),
                    )
            obs, end = call.values["observation"], last.values["observation"]
            if isinstance(obs, np.ndarray):
                begins_there = same(recording.calls[0].values["observation"][i], obs[i])
                stale.append(same(end[i], obs[i]) and not begins_there)
    if stale and all(stale):
        raise Failed(
            "in mode NextStep the step after an episode's end returns the episode's last "
            f"observation once more, in all {len(stale)} episodes that ended: the first one of "
            "the next is missing"
        )


def _final_obs(recording: Recording) -> None:
    """Raises `Failed` if infos lack final observations, or contain first ones instead."""
    ended = list(ends_of(recording))
    for c, i in ended:
        _require_final_obs(recording.calls[c], i)
    observations = [call.values["observation"] for call in recording.calls]
    alike = [(c, i) for c, i in ended if _ends_alike(recording.calls[c], i)]
    if not alike or len(alike) < len(ended):
        return
    if all(same(observations[0], obs) for obs in observations):
        return  # nothing is seen
    if all(same(observations[0][i], observations[c][i]) for c, i in alike):
        return  # episodes may end where all of them begin
    last, first = _goes_on(recording, observations, alike)
    both = f"at all {len(ended)} ends of episodes observation and info['final_obs'] are the same, "
    if last and not first:
        says = "and continue the episode: the first observation of the next episode is missing"
    elif first and not last:
        says = "and belong to the next episode: info['final_obs'] is the first observation of that "
        says += "episode, and the last one is lost"
    else:
        says = "so either the last observation of the episode is lost, or the first of the next"
    raise Failed(both + says)


def _require_final_obs(call: Call, i: int) -> None:
    infos = call.values["info"]
    final, mask = infos.get("final_obs"), infos.get("_final_obs")
    if final is None or final[i] is None or (mask is not None and not mask[i]):
        raise Failed(
            "in mode SameStep the last observation of an episode must be in the infos",
            _in_infos(i, call, "final_obs", "an observation", "none"),
        )


def _ends_alike(call: Call, i: int) -> bool:
    """Whether an episode's last observation equals the first one of the next episode."""
    begins, final = call.values["observation"], call.values["info"]["final_obs"]
    return isinstance(begins, np.ndarray) and find(final[i], begins[i], loose=True) is None


def _goes_on(
    recording: Recording, observations: list[Any], alike: list[tuple[int, int]]
) -> tuple[bool, bool]:
    """Whether observations are as close to the previous and the next ones as in other steps."""
    n = len(observations[0])
    calls = recording.calls
    ends = [finished(call) if "reward" in call.values else np.ones(n, bool) for call in calls]

    def jump(i: int, c: int, d: int) -> Any:
        return np.abs(np.subtract(observations[c][i], observations[d][i], dtype=float))

    step = [np.zeros(np.shape(observations[0][i])) for i in range(n)]
    for c in range(2, len(calls)):
        for i in np.flatnonzero(~(ends[c] | ends[c - 1])).tolist():
            step[i] = np.maximum(step[i], jump(i, c, c - 1))

    def near(i: int, c: int, d: int) -> bool:
        return bool(np.all(jump(i, c, d) <= step[i] * (1 + 1e-6)))

    inner = [(c, i) for c, i in alike if c + 1 < len(calls) and not (ends[c + 1] | ends[c - 1])[i]]
    return (
        bool(inner) and all(near(i, c, c - 1) for c, i in inner),
        bool(inner) and all(near(i, c, c + 1) for c, i in inner),
    )


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


def _infos(subject: Subject, recording: Recording) -> list[list[dict[Any, Any]]]:
    """Returns the infos to compare, per call and environment."""
    n = subject.num_envs
    found = [without(call.values, subject.ignore)["info"] for call in recording.calls]
    return [[info_of(infos, i, n) for i in range(n)] for infos in found]


def _ends(subject: Subject, recording: Recording) -> Iterator[End]:
    infos = _infos(subject, recording)
    for c, i in ends_of(recording):
        begin = dict(infos[c][i])
        final = begin.pop("final_info", None)
        begin.pop("final_obs", None)
        yield End(i, recording.calls[c], infos[c - 1][i], final, begin)


def _final_infos(subject: Subject, recording: Recording) -> None:
    """Raises `Failed` if final infos are missing, or belong to the next episode."""
    infos, ends = _infos(subject, recording), list(_ends(subject, recording))
    inner = [
        set(infos[c][i])
        for c, call in enumerate(recording.calls)
        if "reward" in call.values and not finished(call).any()
        for i in range(subject.num_envs)
    ]
    always = set.intersection(*inner) if inner else set[Any]()
    for end in ends:
        if end.final is None and always:
            where = _in_infos(end.env, end.call, "final_info", "a value", "none")
            raise Failed(
                "in mode SameStep the infos of an episode's last step must be in final_info", where
            )
    # In another mode, these infos are seen and compared.
    if len(subject.modes) == 1 and ends and _are_of_the_next(ends, always, recording, infos):
        end = ends[0]
        raise Failed(
            "info['final_info'] has the first infos of the next episode, in all "
            f"{len(ends)} episodes that ended: those of the last step are lost",
            _in_infos(end.env, end.call, "final_info", f"not {text_of(end.begin)}", "the same"),
        )


def _are_of_the_next(
    ends: list[End], always: set[Any], recording: Recording, infos: list[list[dict[Any, Any]]]
) -> bool:
    """Whether all final infos belong to the next episode, and not by chance.

    Args:
        ends: The ends of episodes.
        always: The keys that all other steps have.
        recording: The recording.
        infos: Of each call, of each environment.
    """
    if any(find(end.final, end.begin, loose=True) for end in ends):
        return False
    if all(always - set(end.final or ()) for end in ends):
        return True
    if not all(find(end.before, end.begin, loose=True) for end in ends):
        return False
    return _many(ends) or _always_change(recording, infos)


def _many(ends: list[End]) -> bool:
    """Whether first infos vary so much that equal final infos are not by chance."""
    begins: list[dict[Any, Any]] = []
    for end in ends:
        if all(find(other, end.begin, loose=True) for other in begins):
            begins.append(end.begin)
    return len(begins) >= _VARIETY


def _always_change(recording: Recording, infos: list[list[dict[Any, Any]]]) -> bool:
    """Whether consecutive steps of an episode always have different infos."""
    return not any(
        find(infos[c - 1][i], infos[c][i], loose=True) is None
        for c in range(1, len(infos))
        for i in np.flatnonzero(~finished(recording.calls[c]))
    )


def _modes_agree(subject: Subject) -> None:
    """Raises `Failed` if the first episode to end, in mode ``SAME_STEP``, ends not as in others."""
    recordings = dict(subject.modes)
    mode = next((mode for mode in recordings if mode is not _SAME), None)
    if mode is None or _SAME not in recordings:
        return
    ends = _ends(subject, recordings[_SAME])
    for one, other in zip(recordings[_SAME].calls, recordings[mode].calls, strict=False):
        if "reward" not in one.values or not (finished(one).any() or finished(other).any()):
            continue
        if not np.array_equal(finished(one), finished(other)):
            return
        for end in itertools.islice(ends, int(finished(one).sum())):
            if found := _differs_at(end, other, subject):
                raise Failed(
                    f"the end of an episode differs between modes SameStep and {mode.value}",
                    replace(difference(found, one.what, False), env=end.env),
                )
        return


def _differs_at(end: End, other: Call, subject: Subject) -> Found | None:
    """Returns where an episode's end differs from the same call in another mode."""
    i = end.env
    last = list(iterate(subject.observation_space, other.values["observation"]))[i]
    final = end.call.values["info"]["final_obs"][i]
    if found := find(last, final, ("info", "final_obs", i), loose=True):
        return found
    infos = without(other.values, subject.ignore)["info"]
    for key, value in info_of(infos, i, subject.num_envs).items():
        place = ("info", "final_info", key, i)
        # The statistics of an episode may be where the infos of its step are.
        own = next((each for each in (end.final, end.begin) if each and key in each), None)
        if own is None:
            return place, text_of(value), "no such key"
        if found := find(value, own[key], place, loose=True):
            return found
    return None


def partial_reset(subject: Subject) -> str:
    """In mode ``DISABLED`` a reset with a mask resets those alone, and leaves the caller's dict."""
    with subject.open() as envs:
        declared = mode_of(envs)
    if declared is not _DISABLED and "autoreset_mode" not in subject.takes:
        raise Skipped(f"its mode is {getattr(declared, 'value', declared)}")
    kwargs = {} if declared is _DISABLED else {"autoreset_mode": _DISABLED}
    with ExitStack() as stack:
        try:
            envs = stack.enter_context(subject.open(**kwargs))
        except Exception as exc:
            raise Skipped(f"it has no mode Disabled ({type(exc).__name__})") from exc
        if envs.num_envs == 1:
            raise Skipped("there is only one environment")
        options = {"reset_mask": np.arange(envs.num_envs) == 0}
        _others_return_the_same(subject, envs, options)
        if subject.is_repeatable(reused=True) and _has_own_generators(envs, subject.seed):
            _others_go_on(subject, envs)
        if set(options) != {"reset_mask"}:
            raise Failed(
                "reset takes 'reset_mask' out of the caller's options: wrappers around it, such as "
                "RecordEpisodeStatistics, then take a reset of some for a reset of all"
            )
    return "environment 0 is reset, the others and the options are left alone"


def _others_return_the_same(subject: Subject, envs: Any, options: dict[str, Any]) -> None:
    """Raises `Failed` if a reset of environment 0 changes the observations of others."""
    envs.reset(seed=subject.seed)
    obs = envs.step(subject.actions(envs, 1)[0])[0]
    before = [recorded(each) for each in iterate(envs.observation_space, obs)]
    after = list(iterate(envs.observation_space, envs.reset(options=options)[0]))
    for i in range(1, envs.num_envs):
        if found := find(before[i], after[i], ("observation", i)):
            raise Failed(
                "a reset with a mask changes environments that it should leave alone",
                Difference(i, "a reset of environment 0", "observation", found[1], found[2]),
            )


def _others_go_on(subject: Subject, envs: Any) -> None:
    """Raises `Failed` if a reset of environment 0 changes the later steps of others."""
    actions = subject.actions(envs, 2)
    expected, got = (_others(envs, subject.seed, actions, resets) for resets in (False, True))
    for (call, one), (_, other) in zip(expected, got, strict=True):
        for i in range(1, envs.num_envs):
            if found := find(one[i], other[i], ("observation",)):
                raise Failed(
                    "a reset with a mask moves environments that it should leave alone, or "
                    "their generators: what follows is different",
                    replace(difference(found, call, False), env=i),
                )


def _others(envs: Any, seed: int, actions: list[Any], resets: bool) -> list[tuple[str, list[Any]]]:
    """Returns the observations of a step and the next reset, after a reset of the first or not."""
    mask = np.arange(envs.num_envs) == 0
    envs.reset(seed=seed)
    _, _, terminated, truncated, _ = envs.step(copy.deepcopy(actions[0]))
    if resets:
        envs.reset(options={"reset_mask": mask.copy()})
    seen = []
    if not (terminated | truncated).any():
        seen.append(("the next step", recorded(envs.step(copy.deepcopy(actions[1]))[0])))
    seen.append(("the next reset", recorded(envs.reset(options={"reset_mask": ~mask})[0])))
    return [(call, list(iterate(envs.observation_space, obs))) for call, obs in seen]


def _has_own_generators(envs: Any, seed: int) -> bool:
    """Whether each environment has its own seed; every reset advances a shared generator."""
    try:
        envs.reset(seed=[seed + i for i in range(envs.num_envs)])
    except Exception:  # whatever it raises for a list
        return False
    return True
