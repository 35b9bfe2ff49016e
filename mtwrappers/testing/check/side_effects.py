"""Checks that calls do nothing but what they are for: to their caller, and to the episode."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np

from mtwrappers.testing.check import generators
from mtwrappers.testing.check.processes import guarded, start_method
from mtwrappers.testing.check.recording import Recording, difference, find, record
from mtwrappers.testing.check.report import RAISED, Failed, Skipped, said
from mtwrappers.testing.check.subject import Subject
from mtwrappers.testing.checks import same

# How many steps are rendered, in which modes if none was chosen, and after how long that hangs.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
_HANGS = 60.0
_STDERR = 2  # to which graphics libraries write


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
        played, frames = _rendered(subject, kwargs, _render)
        how = f"with render_mode={mode!r}"
        if found := subject.differ(expected, played):
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
    """A recording in which something is called before each step, and how often it was."""
    times = 0
    with closing(subject.make(**kwargs)) as env:

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
    except RAISED as exc:  # a mode may need what is not here
        raise Skipped(f"render() raises {said(exc)}") from exc
    if not same(before, generators.states(env)):
        raise Failed(
            "render() draws random numbers from a generator of the environment, so that what "
            "follows depends on whether somebody looks"
        )
