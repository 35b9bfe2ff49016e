"""Checks of returned values: spaces, types, infos, task observations, statistics, shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from mtwrappers.testing.recording import Call, Recording, mode_of, record, text_of, without
from mtwrappers.testing.report import Failed, Skipped, fault
from mtwrappers.testing.subject import Subject, chain, generators

# Keys that a batch of infos uses for itself.
_RESERVED = ("final_obs", "final_info")
FLAGS = ("terminated", "truncated")
_NO_KEY = "no such key"


def runs(subject: Subject) -> str:
    """It can be reset and stepped."""
    ends = sum(int(np.sum(call.ends)) for call in subject.first.steps)
    return f"{subject.length} steps with random actions, {ends} episodes ended"


def spaces(subject: Subject) -> str:
    """Every observation is in the observation space, and spaces stay what they are."""
    space = subject.spaces["observation_space"]
    for call in subject.first.calls:
        if found := _outside(call.values["observation"], space, "observation"):
            raise fault("an observation is not in its space", call.what, *found)
    with subject.open() as env:
        last = record(env, subject.actions(env, 1), subject.seed).calls[-1]
        for name, before in subject.spaces.items():
            if before != (now := getattr(env, name)):
                says = "a reset or step replaces a space, which a vector environment reads once"
                raise fault(says, last.what, name, text_of(before), text_of(now))
    return f"every observation is in {_described(space)}"


def _outside(value: Any, space: Any, key: str) -> tuple[str, str, str] | None:
    """Returns where a value is not in its space, what belongs there and what is there."""
    parts: list[tuple[Any, Any, str]] = []
    if isinstance(space, Dict) and isinstance(value, dict):
        parts = [(value.get(k, _NO_KEY), s, f"{key}[{k!r}]") for k, s in space.items()]
    elif isinstance(space, Tuple) and isinstance(value, tuple):
        parts = [
            (v, s, f"{key}[{i}]") for i, (v, s) in enumerate(zip(value, space.spaces, strict=False))
        ]
    if found := next(filter(None, (_outside(*part) for part in parts)), None):
        return found
    if isinstance(space, Box) and _described(value) == _described(space):
        bad = ~((value >= space.low) & (value <= space.high))
        if not np.any(bad):
            return None
        i = tuple(int(place[0]) for place in np.nonzero(np.atleast_1d(bad)))[: np.ndim(bad)]
        bounds = f"a number in [{text_of(space.low[i])}, {text_of(space.high[i])}]"
        return f"{key}[{', '.join(map(str, i))}]", bounds, text_of(np.asarray(value)[i])
    # A box has arrays of dtypes that can be cast as its members.
    fits = value in space and not (isinstance(space, Box) and hasattr(value, "dtype"))
    return None if fits else (key, f"a member of {_described(space)}", _described(value))


def _described(thing: Any) -> str:
    """A space or a value in one short line; the same for a box and the arrays of its form."""
    if isinstance(thing, (Box, np.ndarray, np.generic)):
        return f"{thing.dtype}{list(thing.shape)}"
    return text_of(thing)


def types(subject: Subject) -> str:
    """Rewards are finite numbers, flags bools, infos dicts, generators NumPy's.

    Of a batch, rewards and flags are arrays; those of one environment are Python's own.
    """
    for call in subject.first.calls:
        for name, value in call.values.items():
            expected = _wrong_type(subject, name, value)
            if expected:
                actual = f"{type(value).__module__}.{type(value).__name__} {text_of(value)}"
                raise fault("a value has the wrong type", call.what, name, expected, actual)
    with subject.open() as env:
        env.reset(seed=subject.seed)
        for i, found in enumerate(generators(env)):
            if not isinstance(found, (np.random.Generator, type(None))):
                says = "of np_random, Gymnasium promises a numpy.random.Generator"
                place = i if subject.is_vector else None
                call_of = f"reset(seed={subject.seed})"
                raise fault(says, call_of, "np_random", "a Generator", type(found).__name__, place)
    return "rewards are finite numbers, flags are bools, infos are dicts"


def _wrong_type(subject: Subject, name: str, value: Any) -> str | None:
    """Returns the type that a value should have and does not have."""
    if name == "info":
        return None if isinstance(value, dict) else "a dict"
    if name == "observation":
        return None
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


# Infos.


def infos(subject: Subject) -> str:
    """Infos can be batched: string keys, none of a batch's own, none that comes and goes."""
    keys: dict[bool, set[str]] = {True: set(), False: set()}
    last: set[str] = set()
    for call in subject.first.calls:
        info = without(call.values, subject.ignore)["info"]
        for key in info:
            if not isinstance(key, str):
                says = "keys of infos must be strings to be batched"
                raise fault(says, call.what, "info", "a string", text_of(key))
            if key in _RESERVED or key.startswith("_"):
                says = "a batch of infos has keys of this name itself, which replace these values"
                raise fault(says, call.what, "info", "another key", repr(key))
        if gone := (last - info.keys()) if call.is_step else ():
            key = min(gone)
            raise fault(
                "a step's infos lack a key that an earlier step of the episode has, so that code "
                "which reads it after each step fails or reads an old value (if that is meant: "
                f"--ignore info.{key}, in Python ignore=['info.{key}'])",
                *(call.what, f"info[{key!r}]", "a value", _NO_KEY),
            )
        last = last | info.keys() if call.is_step else set()
        keys[call.is_step].update(info)
    every = set.union(*keys.values())
    only = ", ".join(sorted(set.symmetric_difference(*keys.values())))
    only = only if len(only) <= 60 else f"{only[:57]}..."
    return f"{len(every)} keys" + (f"; not on both reset and step: {only}" if only else "")


def info_keys(subject: Subject) -> str:
    """Infos have the same keys on reset and on step."""
    first, *others = subject.first.calls
    keys = sorted(first.values["info"])
    for call in others:
        if (now := sorted(call.values["info"])) != keys:
            raise fault(
                "infos must have the keys that they have on reset", call.what, "info", keys, now
            )
    return f"{len(keys)} keys, on reset and on step"


def masks(subject: Subject) -> str:
    """Each key of the infos has a mask of the environments that reported it."""
    subject.require_types()
    keys: set[str] = set()
    for _, recording in subject.modes:
        for call in recording.calls:
            _masked(call, call.values["info"], "info", subject.num_envs)
            keys |= call.values["info"].keys()
    count = sum(not key.startswith("_") for key in keys)
    return f"{count} keys, each with a mask" if keys else "all are empty"


def _masked(call: Call, infos: dict[Any, Any], place: str, n: int) -> None:
    for key, value in infos.items():
        if not isinstance(key, str):
            raise fault("keys of infos must be strings", call.what, place, "a string", text_of(key))
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}", _NO_KEY)
        if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != bool:
            raise fault(
                f"infos have values of {key!r}, but no mask that says which environments gave them",
                *(call.what, f"{place}['_{key}']", f"an array of {n} bools", text_of(mask)),
            )
        if key == "final_info" and isinstance(value, dict):
            _masked(call, value, "info['final_info']", n)


# Each environment of a batch.


def info_of(infos: dict[Any, Any], i: int, n: int) -> dict[Any, Any]:
    """Returns the infos of environment ``i`` of ``n``."""
    found: dict[Any, Any] = {}
    for key, value in infos.items():
        mask: Any = infos.get(f"_{key}")
        if str(key).startswith("_") or (np.shape(mask) == (n,) and not mask[i]):
            continue
        if isinstance(value, dict):
            found[key] = info_of(value, i, n)
        elif np.ndim(value) and len(value) == n:
            found[key] = value[i]
    return found


def calls_of(recording: Recording, i: int, n: int, space: Any, mode: Any) -> list[Call]:
    """The calls of environment ``i`` of ``n``, as it would record them by itself.

    A reset within a step of the batch is a call of its own. The infos of an episode's last step
    that are not in ``final_info`` are those of the next episode.
    """
    calls: list[Call] = []
    ended = True
    for call in recording.calls:
        obs = list(iterate(space, call.values["observation"]))[i]
        info = info_of(call.values["info"], i, n)
        begins = {"observation": obs, "info": info}
        if not call.is_step or (ended and mode is AutoresetMode.NEXT_STEP):
            if ended:
                what = f"the reset at {call.what}" if calls else call.what
                calls.append(Call(what, begins))
            ended = False
            continue
        flags = {name: bool(call.values[name][i]) for name in FLAGS}
        ended = any(flags.values())
        last = begins
        if ended and mode is AutoresetMode.SAME_STEP:
            final = info.pop("final_info", {})
            if "episode" in info:  # statistics of the episode that has ended
                final = {"episode": info.pop("episode"), **final}
            last = {"observation": info.pop("final_obs", None), "info": final}
        calls.append(Call(call.what, {**last, "reward": call.values["reward"][i], **flags}))
        if ended and mode is AutoresetMode.SAME_STEP:
            calls.append(Call(f"the reset at {call.what}", begins))
            ended = False
    return calls


def each_recording(subject: Subject) -> Iterator[tuple[int | None, list[Call]]]:
    """Yields the calls of the environment, or of each in a batch with its number."""
    subject.require_types()
    if not subject.is_vector:
        yield None, subject.first.calls
        return
    n, space = subject.num_envs, subject.spaces["observation_space"]
    for mode, recording in subject.modes:
        yield from ((i, calls_of(recording, i, n, space, mode)) for i in range(n))


# The observation of the task.


def task_observation(subject: Subject) -> str:
    """A `Discrete` or one-hot task observation is ``info["task_id"]``."""
    every = list(each_recording(subject))
    if not subject.is_vector:
        with subject.open() as env:  # many change their task at resets
            given = subject.actions(env, 2)
            every += [(None, record(env, given, seed).calls) for seed in [*range(5), *[None] * 10]]
    name = "single_observation_space" if subject.is_vector else "observation_space"
    return compare_task_ids(subject.spaces[name], every)


def compare_task_ids(space: Any, every: list[tuple[int | None, list[Call]]]) -> str:
    """Compares each task observation in some recordings with ``info["task_id"]``.

    Args:
        space: The space of one environment's observations.
        every: The number of an environment, if there are several, and its calls.
    """
    named = [(i, c) for i, calls in every for c in calls if "task_id" in c.values["info"]]
    if any("phase" in call.values["info"] for _, call in named):
        raise Skipped("it observes the phase of a stream")
    if not named:
        raise Skipped("infos have no task_id")
    parts: dict[Any, Any] = {None: space}
    if isinstance(space, Dict):
        parts = {key: space[key] for key in ("task_obs", "task_onehot") if key in space.spaces}
    for key, part in parts.items():
        values = [_part(call.values["observation"], key) for _, call in named]
        size = 0 if isinstance(part, Discrete) else _onehot(part, values)
        if isinstance(part, Discrete) or size:
            break
    else:
        raise Skipped("the observation has no Discrete task_obs and no one-hot at its end")
    place = "observation" if key is None else f"observation[{key!r}]"
    for (env, call), value in zip(named, values, strict=True):
        task = call.values["info"]["task_id"]
        seen = value[-size:] if size else value
        if not np.array_equal(seen, np.arange(size) == task if size else task):
            expected = f"the one-hot of {task}" if size else task
            says = "the observed task is not info['task_id']"
            raise fault(says, call.what, place, expected, text_of(seen), env)
    return f"it is info['task_id'] on resets and steps, in {len(named)} observations"


def _part(observation: Any, key: str | None) -> Any:
    return observation if key is None else observation[key]


def _onehot(part: Any, values: list[Any]) -> int:
    """The length of the one-hot at the end: bounds 0 and 1, and nothing but 0 and 1 there."""
    if not isinstance(part, Box) or len(part.shape) != 1:
        return 0
    bounded = (part.low == 0) & (part.high == 1)
    size = int(np.argmin(np.append(bounded[::-1], False)))
    ends = np.array([value[len(value) - size :] for value in values])
    is_one = size > 1 and np.isin(ends, (0, 1)).all() and (ends.sum(1) == 1).any()
    return size if is_one else 0


# Statistics.


def statistics(subject: Subject) -> str:
    """Statistics in infos and in wrappers count each step once, whatever the autoreset mode."""
    subject.require_types()
    with subject.open() as env:
        scaled = any("Reward" in type(each).__name__ for each in chain(env))
    says = []
    episodes = 0
    for i, calls in each_recording(subject):
        total, length = 0.0, 0
        for call in calls:
            total, length = (
                (total + float(call.values["reward"]), length + 1) if call.is_step else (0.0, 0)
            )
            found = call.values["info"].get("episode") if call.ends else None
            if not isinstance(found, dict) or not {"r", "l"} <= found.keys():
                continue
            episodes += 1
            wrong = "the statistics of an episode are not the sums of its steps"
            if int(found["l"]) != length:
                raise fault(wrong, call.what, "info['episode']['l']", length, found["l"], i)
            # Statistics are kept in single precision by some.
            if not scaled and not np.isclose(float(found["r"]), total, rtol=1e-4, atol=1e-4):
                raise fault(wrong, call.what, "info['episode']['r']", total, found["r"], i)
    if episodes:
        says.append(f"{episodes} episodes are the sums of their steps")
    if subject.is_vector and (counted := _running(subject)):
        says.append(counted)
    if not says:
        raise Skipped("it keeps no statistics")
    return "; ".join(says)


def _running(subject: Subject) -> str | None:
    """Whether the running statistics of rewards count every step once."""
    with subject.open() as envs:
        found = next((e.return_rms for e in chain(envs) if hasattr(e, "return_rms")), None)
        if found is None:
            return None
        before = float(found.count)
        recording = record(envs, subject.actions(envs, subject.length), subject.seed)
        counted = round(float(found.count) - before)
        steps = subject.num_envs * len(recording.steps)
        if mode_of(envs) is AutoresetMode.NEXT_STEP:
            steps -= sum(int(call.ends.sum()) for call in recording.steps[:-1])
    if counted != steps:
        says = "the running statistics of rewards (return_rms) do not count every step once"
        raise fault(says, f"{subject.length} steps", "return_rms.count", steps, counted)
    return f"return_rms counts all {counted} steps"


# Shared memory.


def new_arrays(subject: Subject) -> str:
    """Returned values do not change later; of the environments here, they are always new."""
    if found := subject.first.changed:
        raise Failed(
            "what an earlier call returned has changed: an array or dict is reused, so a buffer "
            "that keeps it holds the next one",
            found,
        )
    if subject.given is not None and (found := subject.first.shared):
        raise Failed("a call returns an array or dict that the call before has returned", found)
    return "nothing that was returned changes later"
