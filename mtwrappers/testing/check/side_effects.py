"""Checks that calls do nothing but what they are for: to their caller, and to the episode."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from mtwrappers.testing.check import generators
from mtwrappers.testing.check.processes import guarded, start_method
from mtwrappers.testing.check.recording import Recording, difference, find, record
from mtwrappers.testing.check.report import RAISED, Failed, Skipped
from mtwrappers.testing.check.subject import Subject
from mtwrappers.testing.checks import same

# How many steps are rendered, in which modes if none was chosen, and after how long that hangs.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
_HANGS = 60.0


def actions(subject: Subject) -> str:
    """An action stays the caller's, who may fill the same array again for the next step."""
    subject.require_repeatable()
    with closing(subject.make()) as env:
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
        played = record(env, given, subject.seed, step=step)
    if found := subject.differ(subject.first, played):
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
    """A buffer with an action's values in it; a new one where it does not fit."""
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


def render(subject: Subject) -> str:
    """``render()`` draws what is, and changes nothing of it."""
    subject.require_repeatable()
    with closing(subject.make()) as env:
        chosen = getattr(env, "render_mode", None)
        modes = (getattr(env, "metadata", None) or {}).get("render_modes") or ()
    if chosen == "human":
        raise Skipped("its render_mode is 'human'")
    mode = next((mode for mode in _MODES if mode in modes), None)
    if chosen is not None or mode is None or "render_mode" not in subject.takes:
        return _renders(subject, subject.make, f"with render_mode={chosen!r}")
    try:
        return _apart(
            lambda: _renders(
                subject,
                functools.partial(subject.make, render_mode=mode),
                f"with render_mode={mode!r}",
            )
        )
    except (Failed, Skipped):
        raise
    except RAISED as exc:  # no graphics here, perhaps
        says = _renders(subject, subject.make, "with render_mode=None")
        return f"{says}; {mode!r} raises {type(exc).__name__} here"


def _apart(function: Callable[[], str]) -> str:
    """Calls a function in a fork, so that what draws is not loaded here, where workers are."""
    return function() if start_method() is not None else str(guarded(function, _HANGS))


def _renders(subject: Subject, make: Callable[[], Any], how: str) -> str:
    expected, _ = _rendered(subject, make, lambda env: None)
    played, frames = _rendered(subject, make, _render)
    if found := subject.differ(expected, played):
        raise Failed(
            f"render() changes the state ({how}): after it, steps return something else", found
        )
    return f"{how}, {frames} calls of render() change nothing"


def _rendered(
    subject: Subject, make: Callable[[], Any], look: Callable[[Any], None]
) -> tuple[Recording, int]:
    """A recording in which something is called before each step, and how often it was."""
    times = 0
    with closing(make()) as env:

        def step(action: Any) -> Any:
            nonlocal times
            look(env)
            times += 1
            return env.step(action)

        steps = min(subject.length, _FRAMES)
        return record(env, subject.actions(env, steps), subject.seed, step=step), times


def _render(env: Any) -> None:
    before = generators.states(env)
    try:
        env.render()
    except NotImplementedError:
        raise Skipped("it has no render()") from None
    if not same(before, generators.states(env)):
        raise Failed(
            "render() draws random numbers from a generator of the environment: what follows "
            "depends on whether somebody looks"
        )
