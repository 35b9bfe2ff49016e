"""Checks of calls: what seeds determine, and that nothing else of the caller's is changed."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import random
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import cloudpickle
import numpy as np

from mtwrappers.testing.processes import all_gone, children, guarded, threads_gone
from mtwrappers.testing.recording import (
    Recording,
    compare,
    difference,
    find,
    record,
    same,
    text_of,
    without,
)
from mtwrappers.testing.report import RAISED, Difference, Failed, Skipped, said
from mtwrappers.testing.subject import Subject, generator_states, learns

# How many episodes are compared after a seed, and how many steps of each.
_EPISODES, _STEPS = 20, 10
# What is added to the seed that others are compared with.
_OTHER_SEEDS = (1, 2, 10, 100, 256, 1000)
# How many steps are rendered, in which modes if none was chosen, and after how long that hangs.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
_HANGS = 30.0
_STDERR = 2  # graphics libraries write to it
# How many steps of a copy are compared.
_COPIED = 50


# Seeds.


def seed_repeats(subject: Subject) -> str:
    """``reset(seed)`` determines what follows, on a new environment and on a used one."""
    seed = subject.seed
    if found := subject.differ(subject.first, subject.again):
        says = f"two runs from reset(seed={seed}) with the same actions differ"
        raise Failed(says + _hint(subject, found), found)
    for what, recording in subject.reused.items():
        if found := subject.differ(subject.first, recording):
            raise Failed(
                f"after {what}, reset(seed={seed}) leads to other results: some of "
                f"{'their' if what.endswith('s') else 'its'} state is left{_hint(subject, found)}",
                found,
            )
    used = " and on a used one" if subject.reused else ""
    if len(subject.reused) == 1:
        used += f" in mid-episode (none ended within {subject.length} steps)"
    says = f"reset(seed={seed}) leads to the same results on a new environment{used}"
    return "; ".join([says, *_ignored(subject)])


def _hint(subject: Subject, found: Difference) -> str:
    """Returns a hint how to ignore an info, if only infos differ."""
    keys = [key for key in re.findall(r"\['([^']*)'\]", found.key) if key != "final_info"]
    if subject.given is not None or not found.key.startswith("info[") or not keys:
        return ""
    name = f"info.{keys[0].removeprefix('_')}"
    return f" (to compare all but this info: --ignore {name}, in Python ignore=['{name}'])"


def _ignored(subject: Subject) -> list[str]:
    """Describes the behaviour of each ignored info."""
    says = []
    others = [subject.again, *subject.reused.values()]
    for name in sorted(subject.ignore):
        compared = subject.ignore - {name}
        found = [compare(subject.first, each, subject.is_vector, compared) for each in others]
        differs = next((str(each) for each in found if each), None)
        returned = any(
            find(call.values, without(call.values, {name})) for call in subject.first.calls
        )
        seen = f"does not repeat ({differs})" if differs else "repeats"
        says.append(f"{name} is ignored: it {seen if returned else 'was never returned'}")
    return says


def other_seeds(subject: Subject) -> str:
    """Different seeds lead to different results, and resets without a seed do not repeat."""
    subject.require_repeatable(reused=True)
    seed = subject.seed
    with subject.open() as env:
        first, states = _episodes(subject, env, seed), _states_after(env, seed)
        for other in (seed + k for k in _OTHER_SEEDS):
            reaches = bool(states) and not same(states, _states_after(env, other))
            if reaches and other > seed + 2:
                continue
            if _differ(subject, first, _episodes(subject, env, other)):
                continue
            if reaches:
                return f"seeds reach its generators and change nothing within {_STEPS} steps"
            if not _draws(subject, env):
                return "seeds change nothing: it draws no random numbers"
            raise Failed(
                f"reset(seed={seed}) and reset(seed={other}) lead to the same {_EPISODES} "
                "episodes, although the environment draws random numbers: it ignores the seed, or "
                "makes the same of both"
            )
        repeats = not _differ(subject, first[1:-1], first[2:])
        repeats &= same(_states_after(env, None), _states_after(env, None))
    if repeats:
        raise Failed(
            f"{_EPISODES - 1} resets without a seed lead to the same results: without a seed, "
            "reset() must not seed its generator again"
        )
    return "another seed leads to other results, and resets without a seed do not repeat"


def _episodes(subject: Subject, env: Any, seed: int | None) -> list[Recording]:
    """Records the episodes after ``reset(seed=seed)``."""
    given = subject.actions(env, min(subject.length, _STEPS))
    return [record(env, given, None if i else seed) for i in range(_EPISODES)]


def _differ(subject: Subject, some: list[Recording], others: list[Recording]) -> bool:
    return any(subject.differ(one, other) for one, other in zip(some, others, strict=True))


def _states_after(env: Any, seed: int | None) -> list[Any]:
    """The states of the environment's generators after a reset."""
    env.reset(seed=seed)
    return [state for _, state in generator_states(env)]


def _draws(subject: Subject, env: Any) -> bool:
    """Whether random numbers are drawn, as far as can be seen."""
    env.reset(seed=subject.seed)
    before = generator_states(env)
    _episodes(subject, env, None)
    after = generator_states(env)
    if not same(before, after) or any(a[0] is not b[0] for a, b in zip(before, after, strict=True)):
        return True
    fresh = []
    for _ in range(2):
        with subject.open() as new:
            fresh.append(_episodes(subject, new, None))
    return _differ(subject, *fresh)


# What belongs to the process.


def global_random(subject: Subject) -> str:
    """The global states of ``random`` and ``np.random`` are neither read nor written."""
    recordings = []
    for seed in (1, 2):
        with kept_globals(), subject.open() as env:
            random.seed(seed)
            np.random.seed(seed)
            with untouched_random():
                recordings.append(record(env, subject.actions(env, subject.length), subject.seed))
    if subject.repeats and (found := subject.differ(recordings[0], recordings[1])):
        raise Failed("what it returns depends on the global random state", found)
    return "random and np.random are neither read nor written"


@contextlib.contextmanager
def untouched_random(what: str = "reset or step") -> Iterator[None]:
    """Raises `Failed` if the block changes the state of ``random`` or of ``np.random``.

    Args:
        what: What is called in the block.
    """
    before = _global_states()
    yield
    for name, old, now in zip(("random", "np.random"), before, _global_states(), strict=True):
        if not same(old, now):
            raise Failed(
                f"{what} draws from the global {name}, or seeds it: what it "
                "returns depends on what else runs in the process; use self.np_random"
            )


def _global_states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state(legacy=False)


@contextlib.contextmanager
def kept_globals() -> Iterator[dict[str, Any]]:
    """Restores the global random states and the settings of the process, which it yields."""
    states, settings = _global_states(), _settings()
    try:
        yield settings
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        np.seterr(**settings["np.seterr()"])
        np.set_printoptions(**settings["np.set_printoptions()"])
        os.chdir(settings["os.chdir()"])


def _settings() -> dict[str, Any]:
    return {
        "np.seterr()": np.geterr(),
        "np.set_printoptions()": np.get_printoptions(),
        "os.chdir()": os.getcwd(),
    }


def global_settings(subject: Subject) -> str:
    """NumPy's settings and the working directory are what they were before it was made."""
    for name, value in _settings().items():
        if found := find(subject.settings[name], value, (name,)):
            where = difference(found, "all calls so far", False)
            raise Failed("it changes a setting of the whole process", where)
    return "NumPy's settings and the working directory stay"


# What belongs to the caller.


def actions(subject: Subject) -> str:
    """Actions belong to the caller, who may reuse the array for the next step."""
    subject.require_repeatable()
    with subject.open() as env:
        given = subject.actions(env, subject.length)
        buffer: Any = None
        steps = iter(range(len(given)))

        def step(action: Any) -> Any:
            nonlocal buffer
            buffer, t = _filled(buffer, action), next(steps)
            returned = env.step(buffer)
            if found := find(action, buffer, ("action",)):
                where = difference(found, f"step {t}", subject.is_vector)
                raise Failed("step() changes the action that it is given in place", where)
            return returned

        recording = record(env, given, subject.seed, step=step)
    if found := subject.differ(subject.first, recording):
        raise Failed(
            "step() keeps the array of the action that it is given and reads it later: if the "
            "caller fills the same array again, other values are returned; keep a copy",
            found,
        )
    return "they are neither changed, nor kept and read later"


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


class _Options(dict[str, Any]):
    """Empty options that note every attempt to change them, of a key that is not there too."""

    def __init__(self) -> None:
        super().__init__()
        self.changes: list[str] = []

    def __bool__(self) -> bool:
        return True  # so that code which looks into some options looks into these


def _noting(name: str) -> Callable[..., Any]:
    def changed(self: _Options, *args: Any, **kwargs: Any) -> Any:
        self.changes.append(f"{name}({', '.join(map(repr, args))})")
        return getattr(dict, name)(self, *args, **kwargs)

    return changed


for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "update"):
    setattr(_Options, _name, _noting(_name))
_Options.setdefault = _noting("setdefault")  # type: ignore[method-assign]


def options(subject: Subject) -> str:
    """``reset`` does not change the caller's options."""
    with subject.open() as env:
        given = _Options()
        with contextlib.suppress(KeyError):  # it needs an option
            env.reset(seed=subject.seed, options=given)
    if given.changes:
        raise Failed(f"reset changes the caller's options by {given.changes[0]}; copy them first")
    return "reset leaves them as they are"


# What a call must not do.


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
    except Skipped:  # there are no graphics here
        return f"{_renders(subject, {}, None)}; there is nothing here to draw {mode!r} with"


def _renders(subject: Subject, kwargs: dict[str, Any], mode: str | None) -> str:
    """Compares recordings with and without calls of ``render()``.

    It runs in a fork: without a display, a graphics library may end the process that uses it.
    """

    def recorded(look: bool) -> Recording:
        with subject.open(**kwargs) as env:

            def step(action: Any) -> Any:
                if look:
                    _render(env)
                return env.step(action)

            given = subject.actions(env, min(subject.length, _FRAMES))
            return record(env, given, subject.seed, step=step)

    def compared() -> str:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
        found = subject.differ(recorded(False), frames := recorded(True))
        how = f"with render_mode={mode!r}"
        if found:
            raise Failed(f"{how}, render() changes the state: what follows is different", found)
        return f"{how}, {len(frames.steps)} calls of render() change nothing"

    try:
        return str(guarded(compared, _HANGS))
    except (Failed, Skipped):
        raise
    except Exception as exc:
        raise Skipped(f"render() cannot run here: {exc}") from exc


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
    with subject.open() as env:
        inside: list[int] = []
        base = env.unwrapped
        reset = base.reset

        def noted(**kwargs: Any) -> Any:
            if inside:
                raise Failed(
                    f"step {inside[0]} calls reset() itself: the last observation of the episode "
                    "is lost, and a vector environment resets once more"
                )
            return reset(**kwargs)

        with contextlib.suppress(AttributeError):  # an environment with slots
            base.reset = noted
        steps = iter(range(subject.length))

        def step(action: Any) -> Any:
            inside.append(next(steps))
            returned = env.step(action)
            inside.clear()
            return returned

        record(env, subject.actions(env, subject.length), subject.seed, step=step)
    return _ends_where_it_begins(subject)


def _ends_where_it_begins(subject: Subject) -> str:
    """Raises `Failed` if each of some episodes ends with what a reset at that moment returns."""
    calls = subject.first.calls
    ends = [i for i, call in enumerate(calls) if call.ends][:3]
    if not ends:
        raise Skipped(f"no episode ended within {subject.length} steps")
    observations = [call.values["observation"] for call in calls]
    if all(same(observations[0], observations[end]) for end in ends):
        raise Skipped("episodes end with the observation that all of them begin with")
    for end in ends:
        with subject.open() as env:
            steps = sum(call.is_step for call in calls[:end])
            record(env, subject.actions(env, steps), subject.seed)
            if not same(env.reset()[0], observations[end]):
                return f"step() never resets by itself ({len(ends)} ends of episodes compared)"
    raise Failed(
        f"{calls[ends[0]].what} ends an episode and returns the first observation of the next one "
        f"({text_of(observations[ends[0]])}): step() resets the environment, and its last "
        "observation is lost"
    )


# Copies, and the end.


def pickling(subject: Subject) -> str:
    """The constructor can be sent to a worker; copies run the same and share no state."""
    try:
        make = cloudpickle.loads(cloudpickle.dumps(subject.make))
    except Exception as exc:
        raise Failed(
            f"its constructor does not pickle ({type(exc).__name__}: {exc}), so it cannot be sent "
            "to a worker"
        ) from exc
    if subject.is_vector:
        make().close()
        return "the constructor pickles"
    refused = []
    with closing(make()) as env:
        for how, copied in copies_of(env).items():
            if isinstance(copied, Exception):
                refused.append(f"{how} ({type(copied).__name__})")
                continue
            with closing(copied):
                require_same_copy(subject, env, copied, f"a copy made by {how}")
    no = f"; the environment does not, by {' or '.join(refused)}" if refused else ""
    return f"the constructor pickles{no}" if no else "copies run the same and share no state"


def copies_of(env: Any) -> dict[str, Any]:
    """Copies of an environment by how they were made, or the error that this raised."""
    made: dict[str, Any] = {}
    ways: dict[str, Callable[[Any], Any]] = {
        "pickle": lambda env: pickle.loads(pickle.dumps(env)),
        "copy.deepcopy": copy.deepcopy,
    }
    for how, copied in ways.items():
        try:
            made[how] = copied(env)
        except Exception as exc:
            made[how] = exc
    return made


def require_same_copy(subject: Subject, env: Any, copied: Any, what: str) -> None:
    """Raises `Failed` unless a copy returns what the environment does, and each goes on alone."""
    subject.require_repeatable(reused=True)
    given = subject.actions(env, min(subject.length, _COPIED))
    expected = record(env, given, subject.seed)
    try:
        got = record(copied, given, subject.seed)
    except Exception as exc:
        raise Failed(f"{what} does not run: {type(exc).__name__}: {exc}") from exc
    if found := subject.differ(expected, got):
        raise Failed(f"{what} runs differently", found)
    if learns(env):
        return
    copied.reset(seed=subject.seed + 1)

    def step(action: Any) -> Any:
        _, _, terminated, truncated, _ = copied.step(copy.deepcopy(action))
        if terminated or truncated:
            copied.reset()
        return env.step(action)

    if found := subject.differ(expected, record(env, given, subject.seed, step=step)):
        raise Failed(f"{what} shares state with the environment: stepping one changes both", found)


def closes(subject: Subject) -> str:
    """``close()`` leaves no process and no thread, can be called twice, and so can ``del``."""
    with closing(subject.make()) as envs:  # what a library starts once is no part of it
        envs.reset(seed=subject.seed)
    processes, threads = children(every=True), set(threading.enumerate())
    with ignored_errors() as ignored:
        with closing(subject.make()) as envs:
            envs.reset(seed=subject.seed)
            started = children(every=True) - processes
        try:
            envs.close()
        except RAISED as exc:
            raise Failed(f"a second close() raises {said(exc)}") from exc
        del envs
    if ignored:
        raise Failed(f"an environment that is deleted raises {ignored[0]}")
    if not all_gone(started):
        raise Failed(f"{len(started)} processes are left after close()")
    if left := threads_gone(threads):
        names = ", ".join(thread.name for thread in left)
        raise Failed(f"{len(left)} threads are left after close(): {names}")
    return f"{len(started)} processes, none left" if started else "closed twice, nothing left"


@contextlib.contextmanager
def ignored_errors() -> Iterator[list[str]]:
    """Collects descriptions of errors in ``__del__``, which Python only prints."""
    found: list[str] = []
    before = sys.unraisablehook
    sys.unraisablehook = lambda ignored: found.append(said(ignored.exc_value))  # type: ignore
    try:
        yield found
    finally:
        gc.collect()
        sys.unraisablehook = before
