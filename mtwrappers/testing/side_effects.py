"""Checks that calls have no side effects: on their arguments, and on the episode."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from mtwrappers.testing.difference import difference, find, same, text_of
from mtwrappers.testing.processes import guarded, start_method
from mtwrappers.testing.recording import Recording, finished, record
from mtwrappers.testing.report import RAISED, Failed, Skipped, require, said
from mtwrappers.testing.seeds import generator_states
from mtwrappers.testing.subject import Subject

# How many steps are rendered, in which modes if none was chosen, and after how long that hangs.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
_HANGS = 60.0
_STDERR = 2  # graphics libraries write to it


def actions(subject: Subject) -> str:
    """Actions belong to the caller, who may reuse the array for the next step."""
    subject.require_repeatable()
    with subject.open() as env:
        given = subject.actions(env, subject.length)
        if not any(_can_change(action) for action in given):
            return "they cannot be changed"
        buffer: Any = None

        def step(action: Any) -> Any:
            nonlocal buffer
            buffer = _filled(buffer, action)
            returned = env.step(buffer)
            if found := find(action, buffer, ("action",)):
                t = len(seen)
                where = difference(found, f"step {t}", subject.is_vector)
                raise Failed("step() changes the action that it is given in place", where)
            seen.append(True)
            return returned

        seen: list[bool] = []
        recording = record(env, given, subject.seed, step=step)
    if found := subject.differ(subject.first, recording):
        raise Failed(
            "step() keeps the array of the action that it is given and reads it later: if the "
            "caller fills the same array again, other values are returned; keep a copy",
            found,
        )
    return "they are neither changed, nor kept and read later"


def _can_change(action: Any) -> bool:
    if isinstance(action, (tuple, list)):
        return any(map(_can_change, action))
    return isinstance(action, (np.ndarray, dict))


def _filled(buffer: Any, action: Any) -> Any:
    """Returns a buffer filled with an action's values; a new one if they do not fit."""
    if isinstance(action, np.ndarray):
        fits = isinstance(buffer, np.ndarray) and buffer.shape == action.shape
        if not fits or buffer.dtype != action.dtype:
            return action.copy()
        np.copyto(buffer, action)
        return buffer
    if isinstance(action, dict):
        buffer = buffer if isinstance(buffer, dict) else {}
        buffer.update({key: _filled(buffer.get(key), value) for key, value in action.items()})
        return buffer
    if type(action) is tuple:
        parts = buffer if isinstance(buffer, tuple) else (None,) * len(action)
        return tuple(map(_filled, parts, action))
    return action


def options(subject: Subject) -> str:
    """``reset`` does not change the caller's options."""
    with subject.open() as env:
        given: dict[str, Any] = {}
        env.reset(seed=subject.seed, options=given)
        require(given == {}, f"reset changed the caller's options from {{}} to {given}")
    return "reset leaves them as they are"


def render(subject: Subject) -> str:
    """``render()`` changes nothing."""
    subject.require_repeatable()
    with subject.open() as env:
        chosen = getattr(env, "render_mode", None)
        modes = (getattr(env, "metadata", None) or {}).get("render_modes") or ()
    if chosen == "human":
        raise Skipped("its render_mode is 'human'")
    mode = next((mode for mode in _MODES if mode in modes), None)
    if chosen is not None or mode is None or "render_mode" not in subject.takes:
        return _renders(subject, {}, chosen)
    try:
        return _renders(subject, {"render_mode": mode}, mode)
    except Failed:
        raise
    except (Skipped, *RAISED):  # there are no graphics here
        return f"{_renders(subject, {}, None)}; there is nothing here to draw {mode!r} with"


def _renders(subject: Subject, kwargs: dict[str, Any], mode: str | None) -> str:
    """Compares recordings with and without calls of ``render()``, apart where that can be."""

    def compared() -> str:
        expected, _ = _rendered(subject, kwargs, lambda env: None)
        recording, frames = _rendered(subject, kwargs, _render)
        how = f"with render_mode={mode!r}"
        if found := subject.differ(expected, recording):
            raise Failed(f"{how}, render() changes the state: what follows is different", found)
        return f"{how}, {frames} calls of render() change nothing"

    def quietly() -> str:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
        return compared()

    # What draws is not to be loaded here, where workers are forked.
    return compared() if start_method() is not None else str(guarded(quietly, _HANGS))


def _rendered(
    subject: Subject, kwargs: dict[str, Any], look: Callable[[Any], None]
) -> tuple[Recording, int]:
    """Returns a recording with a call before each step, and the number of calls."""
    times = 0
    with subject.open(**kwargs) as env:

        def step(action: Any) -> Any:
            nonlocal times
            look(env)
            times += 1
            return env.step(action)

        steps = min(subject.length, _FRAMES)
        return record(env, subject.actions(env, steps), subject.seed, step=step), times


def _render(env: Any) -> None:
    before = generator_states(env)
    try:
        env.render()
    except NotImplementedError:
        raise Skipped("it has no render()") from None
    except RAISED as exc:  # a mode may need what is not here
        raise Skipped(f"render() raises {said(exc)}") from exc
    if not same(before, generator_states(env)):
        raise Failed(
            "render() draws random numbers from a generator of the environment, so that what "
            "follows depends on whether somebody looks"
        )


def resets_itself(subject: Subject) -> str:
    """``step`` does not reset, which is up to the caller or the vector environment."""
    calls: list[int] = []
    with subject.open() as env:
        base, inside = env.unwrapped, [False]
        reset = base.reset

        def counted(*args: Any, **kwargs: Any) -> Any:
            if inside[0]:
                calls.append(len(calls))
            return reset(*args, **kwargs)

        with contextlib.suppress(AttributeError):  # an environment with slots
            base.reset = counted
        env.reset(seed=subject.seed)
        for t, action in enumerate(subject.actions(env, subject.length)):
            inside[0] = True
            _, _, terminated, truncated, _ = env.step(action)
            inside[0] = False
            if calls:
                flags = f"terminated={terminated}, truncated={truncated}"
                raise Failed(
                    f"step {t} calls reset() itself and returns {flags}: the last observation of "
                    "the episode is lost, and a vector environment resets once more"
                )
            if terminated or truncated:
                env.reset()
    return _ends_where_it_begins(subject)


def _ends_where_it_begins(subject: Subject) -> str:
    """Raises `Failed` if every episode's last observation is the one that a reset then returns."""
    calls = subject.first.calls
    ends = [i for i, call in enumerate(calls) if "reward" in call.values and finished(call)][:3]
    if not ends:
        raise Skipped(f"no episode ended within {subject.length} steps")
    observations = [call.values["observation"] for call in calls]
    if all(same(observations[0], obs) for obs in observations):
        raise Skipped("every observation is the same")
    for end in ends:
        with subject.open() as env:
            steps = sum("reward" in call.values for call in calls[: end + 1])
            record(env, subject.actions(env, steps)[:-1], subject.seed)
            begins = env.reset()[0]
        if not same(begins, observations[end]):
            return f"step() never resets by itself ({len(ends)} ends of episodes compared)"
    if all(same(observations[0], observations[end]) for end in ends):
        raise Skipped("episodes end with the observation that all of them begin with")
    found = find(observations[ends[0] - 1], observations[ends[0]], ("observation",))
    value = text_of(found[2] if found else "")
    raise Failed(
        f"{calls[ends[0]].what} ends an episode and returns the first observation of the next one "
        f"({value}...): step() resets the environment, and its last observation is lost"
    )
