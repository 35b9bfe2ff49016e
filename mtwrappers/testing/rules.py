"""Checks of an environment or vector environment by itself: what it returns and changes."""

from __future__ import annotations

import contextlib
import copy
import gc
import multiprocessing
import os
import pickle
import random
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.common.errors import picklable
from mtwrappers.testing.recording import (
    FLAGS,
    NO_KEY,
    RAISED,
    Call,
    Failed,
    Skipped,
    Subject,
    chain,
    compare,
    find,
    learns,
    mode_of,
    recorded,
    said,
    same,
    steps_of,
    text_of,
)

T = TypeVar("T")

# Keys that a batch of infos uses for itself.
_RESERVED = ("final_obs", "final_info")
# How many episodes are compared after a seed, and how many steps of each.
_EPISODES, _STEPS = 20, 10
# What is added to the seed that others are compared with.
OTHER_SEEDS = (1, 2, 10, 100, 256, 1000)
# How many steps are rendered, in which modes if none was chosen, and after how long that hangs.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
_HANGS = 30.0
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_STDERR = 2  # graphics libraries write to it
# How many steps of a copy are compared.
_COPIED = 50


# What is returned.


def runs(subject: Subject) -> None:
    """It can be reset and stepped."""
    _ = subject.first


def spaces(subject: Subject) -> None:
    """Every observation is in the observation space, and spaces stay what they are."""
    space = subject.spaces["observation_space"]
    for call in subject.first:
        if found := _outside(call.values["observation"], space, "observation"):
            raise call.fault("an observation is not in its space", *found)
    with subject.open() as env:
        last = subject.record(env, subject.actions(env, 1))[-1]
        for name, before in subject.spaces.items():
            if before != (now := getattr(env, name)):
                says = "a reset or step replaces a space, which a vector environment reads once"
                raise last.fault(says, name, text_of(before), text_of(now))


def _outside(value: Any, space: Any, place: str) -> tuple[str, str, str] | None:
    """Returns where a value is not in its space, what belongs there and what is there."""
    parts: Any = ()
    if isinstance(space, Dict) and isinstance(value, dict):
        parts = [(value.get(key, NO_KEY), part, key) for key, part in space.items()]
    elif isinstance(space, Tuple) and isinstance(value, tuple):
        parts = [(v, s, i) for i, (v, s) in enumerate(zip(value, space.spaces, strict=False))]
    inner = (_outside(one, part, f"{place}[{key!r}]") for one, part, key in parts)
    if found := next(filter(None, inner), None):
        return found
    if isinstance(space, Box) and _described(value) == _described(space):
        bad = np.argwhere(~((value >= space.low) & (value <= space.high)))
        if not len(bad):
            return None
        i = tuple(bad[0].tolist())
        bounds = f"a number in [{text_of(space.low[i])}, {text_of(space.high[i])}]"
        return f"{place}{[*i]}", bounds, text_of(np.asarray(value)[i])
    # A box has arrays of dtypes that can be cast as its members.
    fits = value in space and not (isinstance(space, Box) and hasattr(value, "dtype"))
    return None if fits else (place, f"a member of {_described(space)}", _described(value))


def _described(thing: Any) -> str:
    """A space or a value in one short line; the same for a box and the arrays of its form."""
    if isinstance(thing, (Box, np.ndarray, np.generic)):
        return f"{thing.dtype}{list(thing.shape)}"
    return text_of(thing)


def types(subject: Subject) -> None:
    """Rewards are finite numbers, flags bools, infos dicts, generators NumPy's.

    Of a batch, rewards and flags are arrays; those of one environment are Python's own.
    """
    for call in subject.first:
        for name, value in call.values.items():
            if expected := _wrong_type(subject, name, value):
                actual = f"{type(value).__module__}.{type(value).__name__} {text_of(value)}"
                raise call.fault("a value has the wrong type", name, expected, actual)
    with subject.open() as env:
        env.reset(seed=subject.seed)
        for found in generators(env):
            if not isinstance(found, (np.random.Generator, type(None))):
                says = "of np_random, Gymnasium promises a numpy.random.Generator"
                raise Failed(f"{says}, got {type(found).__name__}")


def _wrong_type(subject: Subject, name: str, value: Any) -> str | None:
    """Returns the type that a value should have and does not have."""
    if name in ("observation", "info"):
        return "a dict" if name == "info" and not isinstance(value, dict) else None
    flag = name in FLAGS
    if subject.is_vector:
        shape = (subject.num_envs,)
        fits = isinstance(value, np.ndarray) and value.dtype.kind in ("b" if flag else "fiu")
        if not fits or value.shape != shape:
            return f"an array of {'bools' if flag else 'numbers'}, of shape {shape}"
    elif flag:
        return None if type(value) is bool else "a bool of Python"
    elif subject.given is not None and type(value) is not float:
        return "a float of Python"
    elif isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return "a number"
    return None if np.isfinite(value).all() else "a finite number"


def infos(subject: Subject) -> None:
    """Infos can be batched: string keys, none of a batch's own, none that comes and goes."""
    last: set[str] = set()
    for call in subject.first:
        info = call.values["info"]
        for key in info:
            if not isinstance(key, str):
                raise call.fault("keys of infos must be strings", "info", "a string", text_of(key))
            if key in _RESERVED or key.startswith("_"):
                says = "a batch of infos has keys of this name itself, which replace these values"
                raise call.fault(says, "info", "another key", repr(key))
        if gone := (last - info.keys()) if call.is_step else ():
            says = "a step's infos lack a key that an earlier step of the episode has, so that code"
            says += f" which reads it after each step fails or reads an old value{_hint(min(gone))}"
            raise call.fault(says, f"info[{min(gone)!r}]", "a value", NO_KEY)
        last = last | info.keys() if call.is_step else set()


def _hint(info: str) -> str:
    """How to leave an info out."""
    return f" (if that is meant: --ignore info.{info}, in Python ignore=['info.{info}'])"


def info_keys(subject: Subject) -> None:
    """Infos have the same keys on reset and on step."""
    first, *others = subject.first
    keys = sorted(first.values["info"])
    for call in others:
        if (now := sorted(call.values["info"])) != keys:
            raise call.fault("infos must have the keys that they have on reset", "info", keys, now)


def task_observation(subject: Subject) -> None:
    """A `Discrete` or one-hot task observation is ``info["task_id"]``."""
    every = list(subject.each())
    if not subject.is_vector:
        with subject.open() as env:  # many change their task at resets
            given = subject.actions(env, 2)
            seeds = [*range(5), *[None] * 10]
            every += [("", subject.record(env, given, seed=seed)) for seed in seeds]
    name = "single_observation_space" if subject.is_vector else "observation_space"
    compare_task_ids(subject.spaces[name], every)


def compare_task_ids(space: Any, every: list[tuple[str, list[Call]]]) -> None:
    """Compares each task observation in some recordings with ``info["task_id"]``.

    Args:
        space: The space of one environment's observations.
        every: The name of an environment, if there are several, and its calls.
    """
    named = [(i, c) for i, calls in every for c in calls if "task_id" in c.values["info"]]
    if any("phase" in call.values["info"] for _, call in named):
        raise Skipped("it observes the phase of a stream")
    if not named:
        raise Skipped("infos have no task_id")
    parts = {"": space}
    if isinstance(space, Dict):
        parts = {key: space[key] for key in ("task_obs", "task_onehot") if key in space.spaces}
    for key, part in parts.items():
        seen = [call.values["observation"] for _, call in named]
        values = [obs[key] for obs in seen] if key else seen
        size = 0 if isinstance(part, Discrete) else _onehot(part, values)
        if isinstance(part, Discrete) or size:
            break
    else:
        raise Skipped(
            "the observation has no Discrete task_obs and no one-hot in [0, 1] at its end"
        )
    place = f"observation[{key!r}]" if key else "observation"
    for (env, call), value in zip(named, values, strict=True):
        task = call.values["info"]["task_id"]
        one = value[-size:] if size else value
        if not np.array_equal(one, np.arange(size) == task if size else task):
            expected = f"the one-hot of {task}" if size else task
            says = "the observed task is not info['task_id']"
            raise Call(f"{env}{call.what}", {}).fault(says, place, expected, text_of(one))


def _onehot(part: Any, values: list[Any]) -> int:
    """The length of the one-hot at the end: bounds 0 and 1, and nothing but 0 and 1 there."""
    if not isinstance(part, Box) or len(part.shape) != 1:
        return 0
    bounded = (part.low == 0) & (part.high == 1)
    size = int(np.argmin(np.append(bounded[::-1], False)))
    ends = np.array([value[len(value) - size :] for value in values])
    is_one = size > 1 and np.isin(ends, (0, 1)).all() and (ends.sum(1) == 1).any()
    return size if is_one else 0


def statistics(subject: Subject) -> None:
    """Statistics in infos and in wrappers count each step once, whatever the autoreset mode."""
    subject.require_types()
    with subject.open() as env:
        scaled = any("Reward" in type(each).__name__ for each in chain(env))
    counted = False
    for env, calls in subject.each():
        total, length = 0.0, 0
        for call in calls:
            total = total + float(call.values["reward"]) if call.is_step else 0.0
            length = length + 1 if call.is_step else 0
            found = call.values["info"].get("episode") if call.ends else None
            if not isinstance(found, dict) or not {"r", "l"} <= found.keys():
                continue
            counted = True
            # Returns are kept in single precision by some.
            near = scaled or np.isclose(float(found["r"]), total, rtol=1e-4, atol=1e-4)
            if int(found["l"]) != length or not near:
                says = "the statistics of an episode are not the sums of its steps"
                expected, actual = f"r = {total}, l = {length}", f"{found['r']}, {found['l']}"
                raise Call(env + call.what, {}).fault(says, "info['episode']", expected, actual)
    if not (subject.is_vector and _running(subject)) and not counted:
        raise Skipped("it keeps no statistics")


def _running(subject: Subject) -> bool:
    """Whether there are running statistics of rewards, which count every step once."""
    with subject.open() as envs:
        found = next((e.return_rms for e in chain(envs) if hasattr(e, "return_rms")), None)
        if found is None:
            return False
        before = float(found.count)
        calls = steps_of(subject.record(envs))
        counted = round(float(found.count) - before)
        steps = subject.num_envs * len(calls)
        if mode_of(envs) is AutoresetMode.NEXT_STEP:
            steps -= sum(int(call.ends.sum()) for call in calls[:-1])
    if counted != steps:
        says = "the running statistics of rewards (return_rms) do not count every step once"
        raise Failed(f"{says}: expected {steps} in {subject.length} calls of step, got {counted}")
    return True


def new_arrays(subject: Subject) -> None:
    """Returned values do not change later; of the environments here, they are the caller's own."""
    returned: list[dict[str, Any]] = []
    with subject.open() as env:
        calls = subject.record(env, then=returned.append)
        for call, now in zip(calls, returned, strict=True):
            if found := find(call.values, recorded(now, subject.ignore)):
                says = "what an earlier call returned has changed: an array or dict is reused, so"
                raise Failed(f"{says} a buffer that keeps it holds the next one: {call.at(found)}")
        if subject.given is None or not subject.repeats:
            return
        if found := compare(calls, subject.record(env, then=scramble)):
            says = "if the caller changes what a call has returned, the next returns other values"
            raise Failed(f"{says}: {found}; return new arrays and dicts")


# Seeds.


def seed_repeats(subject: Subject) -> None:
    """``reset(seed)`` determines what follows, on a new environment and on a used one."""
    if found := subject.unrepeated:
        info = re.search(r", info\['_?([^']*)'\]", found) if subject.given is None else None
        raise Failed(found + (_hint(info[1]) if info else ""))


def other_seeds(subject: Subject) -> None:
    """Different seeds lead to different results, and resets without a seed do not repeat."""
    subject.require_repeatable()
    seed = subject.seed
    with subject.open() as env:
        first, states = _episodes(subject, env, seed), _states_after(env, seed)
        for other in (seed + k for k in OTHER_SEEDS):
            if states and not same(states, _states_after(env, other)):
                continue
            if _differ(first, _episodes(subject, env, other)):
                continue
            if not _draws(subject, env):
                return
            raise Failed(
                f"reset(seed={seed}) and reset(seed={other}) lead to the same {_EPISODES} "
                "episodes, although the environment draws random numbers: it ignores the seed, or "
                "makes the same of both"
            )
        before = _states_after(env, None)
        # A reset that only goes on with what a seed has drawn leaves the generators alone.
        for generator, _ in generator_states(env):
            generator.random()
        repeats = not _differ(first[1:-1], first[2:]) and same(before, _states_after(env, None))
    if repeats:
        raise Failed(
            f"{_EPISODES - 1} resets without a seed lead to the same results: without a seed, "
            "reset() must not seed its generator again"
        )


def _episodes(subject: Subject, env: Any, seed: int | None) -> list[list[Call]]:
    """Records the episodes after ``reset(seed=seed)``."""
    given = subject.actions(env, min(subject.length, _STEPS))
    return [subject.record(env, given, seed=None if i else seed) for i in range(_EPISODES)]


def _differ(some: list[list[Call]], others: list[list[Call]]) -> bool:
    return any(compare(one, other) for one, other in zip(some, others, strict=True))


def _states_after(env: Any, seed: int | None) -> list[Any]:
    """The states of the environment's generators after a reset."""
    env.reset(seed=seed)
    return [state for _, state in generator_states(env)]


def generators(env: Any) -> list[Any]:
    """Returns ``np_random`` of an environment, or of all in a batch; None if not created yet."""
    base = env.unwrapped
    if isinstance(base, VectorEnv) and hasattr(base, "get_attr"):
        try:
            return list(base.get_attr("_np_random"))
        except Exception:  # its environments need have no such attribute
            return []
    return [getattr(base, "_np_random", None)]


def generator_states(env: Any) -> list[tuple[Any, bytes]]:
    """The generators among an environment's attributes, with their states."""
    own = {**getattr(env.unwrapped, "__dict__", {}), "_np_random": None}
    every = (*generators(env), *own.values())
    return [(each, pickle.dumps(each)) for each in every if isinstance(each, _GENERATORS)]


def _draws(subject: Subject, env: Any) -> bool:
    """Whether random numbers are drawn, as far as can be seen."""
    env.reset(seed=subject.seed)
    before = generator_states(env)
    _episodes(subject, env, None)
    after = generator_states(env)
    if [(id(each), state) for each, state in before] != [(id(e), state) for e, state in after]:
        return True
    fresh = []
    for _ in range(2):
        with subject.open() as new:
            fresh.append(_episodes(subject, new, None))
    return _differ(*fresh)


# What belongs to the process.


def global_random(subject: Subject) -> None:
    """The global states of ``random`` and ``np.random`` are neither read nor written."""
    recordings = []
    for seed in (1, 2):
        with kept_globals(), subject.open() as env:
            random.seed(seed)
            np.random.seed(seed)
            with untouched_random():
                recordings.append(subject.record(env))
    if subject.repeats and (found := compare(*recordings)):
        raise Failed(f"what it returns depends on the global random state: {found}")


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


def global_settings(subject: Subject) -> None:
    """NumPy's settings and the working directory are what they were before it was made."""
    if found := find(subject.settings, _settings()):
        raise Failed(f"it changes a setting of the whole process: {found}")


# What belongs to the caller.


def actions(subject: Subject) -> None:
    """Actions belong to the caller, who may reuse the array for the next step."""
    subject.require_repeatable()
    with subject.open() as env:
        steps = iter(range(subject.length))
        given: Any = None

        def step(action: Any) -> Any:
            nonlocal given
            scramble(given)
            given, t = copy.deepcopy(action), next(steps)
            returned = env.step(given)
            if found := find(action, given, "action"):
                says = "step() changes the action that it is given in place"
                raise Failed(f"{says}: {Call(f'step {t}', {}, subject.is_vector).at(found)}")
            return returned

        found = compare(subject.first, subject.record(env, step=step))
    if found:
        raise Failed(
            "step() keeps the array of the action that it is given and reads it later: if the "
            f"caller fills the same array again, other values are returned; keep a copy: {found}"
        )


def scramble(value: Any) -> None:
    """Changes the arrays and containers in a value in place."""
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf" and value.flags.writeable:
        value[...] = value == 0
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            scramble(item)
    if isinstance(value, (dict, list)):
        value.clear()


class _Options(dict[str, Any]):
    """Empty options that refuse to be changed, of a key that is not there too."""

    def __bool__(self) -> bool:
        return True  # so that code which looks into some options looks into these


def _refuse(options: Any, *args: Any, **kwargs: Any) -> Any:
    what = f" ({', '.join(map(repr, args))})" if args else ""
    raise Failed(f"reset changes the caller's options{what}; copy them first")


_CHANGES = ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update")
for _name in (*_CHANGES, "__ior__"):
    setattr(_Options, _name, _refuse)


def options(subject: Subject) -> None:
    """``reset`` does not change the caller's options."""
    with subject.open() as env, contextlib.suppress(KeyError):  # it needs an option
        env.reset(seed=subject.seed, options=_Options())


# What a call must not do.


def render(subject: Subject) -> None:
    """``render()`` changes nothing.

    It runs in a fork: without a display, a graphics library may end the process that uses it.
    """
    subject.require_repeatable()
    with subject.open() as env:
        chosen = getattr(env, "render_mode", None)
        modes = (getattr(env, "metadata", None) or {}).get("render_modes") or ()
    kwargs: dict[str, Any] = {}
    if chosen is None and "render_mode" in subject.takes:
        kwargs = next(({"render_mode": mode} for mode in _MODES if mode in modes), {})
    if chosen == "human":
        raise Skipped("its render_mode is 'human'")

    def recording(look: bool) -> list[Call]:
        with subject.open(**kwargs) as env:

            def step(action: Any) -> Any:
                if look:
                    _render(env)
                return env.step(action)

            given = subject.actions(env, min(subject.length, _FRAMES))
            return subject.record(env, given, step=step)

    def compared() -> str | None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
        return compare(recording(False), recording(True))

    try:
        found = guarded(compared, _HANGS)
    except (Failed, Skipped):
        raise
    except Exception as exc:
        raise Skipped(f"render() cannot run here: {exc}") from exc
    if found:
        raise Failed(f"render() changes the state: what follows is different: {found}")


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


def resets_itself(subject: Subject) -> None:
    """``step`` calls no ``reset``, and not all episodes end with what a reset would return."""
    with subject.open() as env:
        base, reset = env.unwrapped, env.unwrapped.reset

        def refused(**kwargs: Any) -> Any:
            raise Failed(
                "a step calls reset() itself: the last observation of the episode is lost, and a "
                "vector environment resets once more"
            )

        def step(action: Any) -> Any:
            base.reset = refused
            returned = env.step(action)
            base.reset = reset
            return returned

        subject.record(env, step=step if hasattr(base, "__dict__") else None)
    calls = subject.first
    ends = [i for i, call in enumerate(calls) if call.ends][:3]
    if not ends:
        raise Skipped(f"no episode ended within {subject.length} steps")
    observations = [call.values["observation"] for call in calls]
    if all(same(observations[0], observations[end]) for end in ends):
        raise Skipped("episodes end with the observation that all of them begin with")
    for end in ends:
        with subject.open() as env:
            subject.record(env, subject.actions(env, sum(call.is_step for call in calls[:end])))
            if not same(env.reset()[0], observations[end]):
                return
    raise Failed(
        f"{calls[ends[0]].what} ends an episode and returns the first observation of the next one "
        f"({text_of(observations[ends[0]])}): step() resets the environment, and its last "
        "observation is lost"
    )


# Copies, and the end.


def pickling(subject: Subject) -> None:
    """The constructor can be sent to a worker; copies run the same and share no state."""
    try:
        make = cloudpickle.loads(cloudpickle.dumps(subject.make))
    except Exception as exc:
        says = f"its constructor does not pickle ({type(exc).__name__}: {exc})"
        raise Failed(f"{says}, so it cannot be sent to a worker") from exc
    with closing(make()) as env:
        for what, copied in () if subject.is_vector else copies_of(env):
            require_same_copy(subject, env, copied, what)


def copies_of(env: Any, *, required: bool = False) -> Iterator[tuple[str, Any]]:
    """Copies of an environment, each open until the next, and how they were made.

    Args:
        env: The environment.
        required: Whether to raise what making a copy raises, not to leave it out.
    """
    ways: dict[str, Callable[[Any], Any]] = {
        "pickle": lambda env: pickle.loads(pickle.dumps(env)),
        "copy.deepcopy": copy.deepcopy,
    }
    for how, copied in ways.items():
        try:
            made = copied(env)
        except Exception:
            if required:
                raise
            continue  # its constructor is enough for a worker
        with closing(made):
            yield f"a copy made by {how}", made


def require_same_copy(subject: Subject, env: Any, copied: Any, what: str) -> None:
    """Raises `Failed` unless a copy returns what the environment does, and each goes on alone."""
    subject.require_repeatable()
    given = subject.actions(env, min(subject.length, _COPIED))
    expected = subject.record(env, given)
    try:
        got = subject.record(copied, given)
    except Exception as exc:
        raise Failed(f"{what} does not run: {type(exc).__name__}: {exc}") from exc
    if found := compare(expected, got):
        raise Failed(f"{what} runs differently: {found}")
    if learns(env):
        return
    copied.reset(seed=subject.seed + 1)

    def step(action: Any) -> Any:
        _, _, terminated, truncated, _ = copied.step(copy.deepcopy(action))
        if terminated or truncated:
            copied.reset()
        return env.step(action)

    if found := compare(expected, subject.record(env, given, step=step)):
        raise Failed(f"{what} shares state with the environment: one's steps change both: {found}")


def close(subject: Subject) -> None:
    """``close()`` leaves no process and no thread, can be called twice, and so can ``del``."""
    with closing(subject.make()) as envs:  # what a library starts once is no part of it
        envs.reset(seed=subject.seed)
    processes, threads = _children(), set(threading.enumerate())
    with ignored_errors() as ignored:
        with closing(subject.make()) as envs:
            envs.reset(seed=subject.seed)
        try:
            envs.close()
        except RAISED as exc:
            raise Failed(f"a second close() raises {said(exc)}") from exc
        del envs
    if ignored:
        raise Failed(f"an environment that is deleted raises {ignored[0]}")
    if pids := still_there(lambda: _children() - processes):
        raise Failed(f"{len(pids)} processes are left after close()")
    if left := still_there(lambda: {*threading.enumerate()} - threads):
        names = ", ".join(thread.name for thread in left)
        raise Failed(f"{len(left)} threads are left after close(): {names}")


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


# Processes.


def _children() -> set[Any]:
    """The live processes that were started here, as far as `multiprocessing` or Linux knows."""
    found: set[Any] = {child.pid for child in multiprocessing.active_children()}
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            found.update(map(int, path.read_text().split()))
    return {pid for pid in found if not _has_ended(pid)}


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, in Linux, whose exit code nobody has asked for yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    return False


def still_there(found: Callable[[], Collection[T]], seconds: float = 2.0) -> Collection[T]:
    """Returns what is found again and again, for some seconds."""
    deadline = time.monotonic() + seconds
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def guarded(function: Callable[[], Any], seconds: float) -> Any:
    """Returns a function's result from a fork of this process, killed with all its children.

    Raises:
        TimeoutError: If it takes longer.
        Exception: Whatever it raises.
    """
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    process: Any = context.Process(target=_answer, args=(function, there))
    process.start()
    there.close()
    try:
        if not here.poll(seconds):
            raise TimeoutError(f"no answer within {seconds:.0f} s")
        raised, value = pickle.loads(here.recv_bytes())
    except EOFError:
        raise RuntimeError("the process ended without an answer") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        here.close()
    if raised:
        raise value
    return value


def _answer(function: Callable[[], Any], there: Any) -> None:
    os.setsid()
    try:
        answer: tuple[bool, Any] = False, function()
    except BaseException as exc:
        answer = True, picklable(exc)
    there.send_bytes(cloudpickle.dumps(answer))
