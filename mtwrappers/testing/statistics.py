"""Checks of the statistics of episodes and of rewards: each step counts once."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import RecordEpisodeStatistics
from gymnasium.wrappers.vector import RecordEpisodeStatistics as VectorStatistics

from mtwrappers.testing.difference import Difference, text_of
from mtwrappers.testing.executors import STEPS, makers
from mtwrappers.testing.recording import Recording, finished, mode_of, record, steps_of
from mtwrappers.testing.report import Failed, Skipped
from mtwrappers.testing.subject import Subject, chain


def statistics(subject: Subject) -> str:
    """`RecordEpisodeStatistics` reports the sums of what was returned, with every reset."""
    subject.require_one_reward()
    if any("episode" in call.values["info"] for call in subject.first.calls):
        return check_statistics(subject.first)
    with closing(RecordEpisodeStatistics(subject.make())) as env:
        recording = record(env, subject.actions(env, subject.length), subject.seed)
    return check_statistics(recording)


def check_statistics(recording: Recording) -> str:
    """Compares ``info["episode"]`` at each episode's end with the sums of its steps."""
    total, length, checked = 0.0, 0, 0
    for call in recording.calls:
        if "reward" not in call.values:
            total, length = 0.0, 0
            continue
        total, length = total + float(call.values["reward"]), length + 1
        if finished(call):
            episode = call.values["info"].get("episode")
            if episode is None:
                raise Failed(
                    "an episode ended without its statistics",
                    Difference(None, call.what, "info['episode']", "r and l", "no such key"),
                )
            compare_episode(call.what, None, (total, length), (episode["r"], episode["l"]))
            checked += 1
    if not checked:
        raise Skipped("no episode ended")
    return f"returns and lengths of {checked} episodes are the sums of their steps"


def compare_episode(
    call: str, env: int | None, expected: tuple[float, int], actual: tuple[Any, Any]
) -> None:
    """Raises `Failed` unless a return and a length are what was expected."""
    says = "the statistics of an episode are not the sums of its steps"
    if int(actual[1]) != expected[1]:
        what = "info['episode']['l']"
        raise Failed(says, Difference(env, call, what, str(expected[1]), text_of(actual[1])))
    # Statistics are kept in single precision by some.
    if not np.isclose(float(actual[0]), expected[0], rtol=1e-4, atol=1e-4):
        what = "info['episode']['r']"
        raise Failed(says, Difference(env, call, what, text_of(expected[0]), text_of(actual[0])))


def vector_statistics(subject: Subject) -> str:
    """Gymnasium's vector `RecordEpisodeStatistics` sums each episode, in both autoreset modes."""
    if tuple(map(int, gymnasium.__version__.split(".")[:2])) < (1, 4):
        raise Skipped(f"this wrapper of Gymnasium {gymnasium.__version__} leaves steps out")
    subject.require_repeatable()
    checked = 0
    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        with closing(VectorStatistics(SyncVectorEnv(makers(subject), autoreset_mode=mode))) as envs:
            recording = record(envs, subject.actions(envs, STEPS), subject.seed)
        checked += check_sums(recording, subject.num_envs, mode)
    return f"{checked} episodes are the sums of their steps, wherever they are reset"


def check_sums(
    recording: Recording, n: int, mode: AutoresetMode | None, returns: bool = True
) -> int:
    """Compares the episode statistics in a vector environment's infos with the sums of steps.

    Returns:
        How many episodes there were.
    """
    totals, lengths, phantom = np.zeros(n), np.zeros(n, int), np.zeros(n, bool)
    checked = 0
    done = np.zeros(n, bool)
    for call in recording.calls:
        if "reward" not in call.values:
            begun = done if done.any() else np.ones(n, bool)
            totals[begun], lengths[begun], done = 0.0, 0, np.zeros(n, bool)
            continue
        totals += np.where(phantom, 0.0, call.values["reward"])
        lengths += ~phantom
        done = finished(call)
        episode, known = _episodes(call.values["info"], n)
        for i in np.flatnonzero(done):
            if not known[i]:
                continue
            expected = (float(totals[i]), int(lengths[i]))
            r = episode["r"][i] if returns else expected[0]
            compare_episode(call.what, int(i), expected, (r, episode["l"][i]))
            checked += 1
        totals[done], lengths[done] = 0.0, 0
        phantom = done if mode is AutoresetMode.NEXT_STEP else np.zeros(n, bool)
    return checked


def _episodes(info: dict[str, Any], n: int) -> tuple[dict[str, Any], Any]:
    for place in (info, info.get("final_info")):
        if isinstance(place, dict) and isinstance(place.get("episode"), dict):
            known = place.get("_episode", np.ones(n, bool))
            return place["episode"], known
    return {}, np.zeros(n, bool)


def vector_sums(subject: Subject) -> str:
    """Statistics in infos and in wrappers count each step once, whatever the autoreset mode."""
    subject.require_infos()
    episodes = 0
    with subject.open() as envs:
        wrappers = list(chain(envs))
        scaled = any("Reward" in type(each).__name__ for each in wrappers)
    for mode, recording in subject.modes:
        episodes += check_sums(recording, subject.num_envs, mode, returns=not scaled)
    counted = _running(subject)
    if not episodes and counted is None:
        raise Skipped("it keeps no statistics")
    said = [f"{episodes} episodes are the sums of their steps"] if episodes else []
    return "; ".join([*said, *([counted] if counted else [])])


def _running(subject: Subject) -> str | None:
    """Whether the running statistics of rewards count every step once."""
    with subject.open() as envs:
        mode = mode_of(envs)
        found = next((e.return_rms for e in chain(envs) if hasattr(e, "return_rms")), None)
        if found is None:
            return None
        before = float(found.count)
        recording = record(envs, subject.actions(envs, subject.length), subject.seed)
        counted = round(float(found.count) - before)
    steps = phantom = 0
    last: Any = np.zeros(subject.num_envs, bool)
    for call in steps_of(recording):
        steps += subject.num_envs
        phantom += int(np.sum(last)) if mode is AutoresetMode.NEXT_STEP else 0
        last = finished(call)
    if counted != steps - phantom:
        raise Failed(
            "the running statistics of rewards (return_rms) do not count every step once",
            Difference(
                None,
                f"{subject.length} steps",
                "return_rms.count",
                str(steps - phantom),
                str(counted),
            ),
        )
    return f"return_rms counts all {counted} steps"
