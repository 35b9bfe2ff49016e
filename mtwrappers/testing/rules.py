"""Checks of an environment or vector environment by itself: what it returns and changes."""

from __future__ import annotations

import contextlib
import copy
import faulthandler
import gc
import itertools
import os
import pickle
import random
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Tuple
from gymnasium.vector import AutoresetMode, VectorEnv, VectorRewardWrapper

from mtwrappers.testing.processes import (
    NewProcess,
    call_in_fork,
    find_children,
    find_open_files,
    wait_until_gone,
)
from mtwrappers.testing.recording import (
    FLAGS,
    NO_KEY,
    NUM_LAST_ACTIONS,
    RAISED,
    STEPS_AFTER,
    STEPS_BEFORE,
    Call,
    Failed,
    Skipped,
    Subject,
    compare,
    copy_values,
    describe_error,
    drop_repeats,
    find_difference,
    find_other_order,
    format_value,
    get_mode,
    iterate_wrappers,
    keeps_running_statistics,
    require_no_running_statistics,
    same,
    select_steps,
)

# Keys that a batch of infos uses for itself.
_RESERVED = ("final_obs", "final_info")
# How many episodes are compared after a seed, and how many steps of each.
_EPISODES, _STEPS = 20, 10
# What is added to the seed that others are compared with: among others, multiples of what a
# seed may be taken modulo, as by NumPy's int32 and uint32.
OTHER_SEEDS = (1, 2, 10, 100, 256, 1000, 10**4, 2**16, 2**31 - 1, 2**31, 2**32)
_INT32 = 2**31 - 1
# Large seeds that are compared with the one after them, which rounding to 24 or 53 bits, as of
# float32 and float64, makes the same.
LARGE_SEEDS = (2**25, 2**31 + 2**8, 2**54)
# The values of PYTHONHASHSEED of two other processes, since two strings of a set keep their order
# under every second one.
_HASH_SEEDS = (1, 2)
# How many steps are rendered, in which modes if none was chosen.
_FRAMES = 5
_MODES = ("ansi", "rgb_array")
# After how many seconds without an answer another process hangs.
_TIMEOUT = 30.0
# The signals whose handlers are of the whole process.
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_GENERATORS = (np.random.Generator, np.random.RandomState, random.Random)
_STDERR = 2  # graphics libraries write to it
# How many steps are compared of a copy, and where the caller samples from spaces.
_COPY_STEPS = 50
# How many values rewards have at most that are constants in code, such as 0.0 and 1.0.
_MAX_CONSTANTS = 2
# How many steps are compared in other processes.
_PROCESS_STEPS = 100


# What is returned.


def runs(subject: Subject) -> None:
    """It can be reset and stepped."""
    _ = subject.first


def spaces(subject: Subject) -> None:
    """Every observation is in the observation space, with its keys in one order; spaces stay."""
    space = subject.spaces["observation_space"]
    for call in subject.first:
        if mismatch := _find_outside(call.values["observation"], space, "observation"):
            raise call.make_failure("an observation is not in its space", *mismatch)
        if difference := find_other_order(subject.first[0], call):
            message = "the keys of observations change their order, so that code which joins their "
            raise Failed(f"{message}values mixes them up: {call.describe(difference)}")
    with subject.open() as env:
        last = subject.record(env, subject.actions(env, 1))[-1]
        for name, first_space in subject.spaces.items():
            if first_space != (space := getattr(env, name)):
                message = "a reset or step replaces a space, which a vector environment reads once"
                expected, actual = format_value(first_space), format_value(space)
                raise last.make_failure(message, name, expected, actual)


def _find_outside(value: Any, space: Any, place: str) -> tuple[str, str, str] | None:
    """Returns where a value is not in its space, what belongs there and what is there."""
    pairs: Any = ()
    if isinstance(space, Dict) and isinstance(value, dict):
        pairs = [(value.get(key, NO_KEY), item_space, key) for key, item_space in space.items()]
    elif isinstance(space, Tuple) and isinstance(value, tuple):
        pairs = [(v, s, i) for i, (v, s) in enumerate(zip(value, space.spaces, strict=False))]
    inner = (
        _find_outside(item, item_space, f"{place}[{key!r}]") for item, item_space, key in pairs
    )
    if mismatch := next(filter(None, inner), None):
        return mismatch
    if isinstance(space, Box) and _describe_value(value) == _describe_value(space):
        bad = np.argwhere(~((value >= space.low) & (value <= space.high)))
        if not len(bad):
            return None
        i = tuple(bad[0].tolist())
        bounds = f"a number in [{format_value(space.low[i])}, {format_value(space.high[i])}]"
        return f"{place}{[*i]}", bounds, format_value(np.asarray(value)[i])
    # A box has arrays of dtypes that can be cast as its members.
    fits = value in space and not (isinstance(space, Box) and hasattr(value, "dtype"))
    if fits:
        return None
    return place, f"a member of {_describe_value(space)}", _describe_value(value)


def _describe_value(value: Any) -> str:
    """A space or a value in one short line; the same for a box and the arrays of its form."""
    if isinstance(value, (Box, np.ndarray, np.generic)):
        return f"{value.dtype}{list(value.shape)}"
    return format_value(value)


def types(subject: Subject) -> None:
    """Rewards are finite numbers, flags bools, infos dicts, generators NumPy's.

    Of a batch, rewards and flags are arrays; those of one environment are Python's own.
    """
    for call in subject.first:
        for name, value in call.values.items():
            if expected := _find_wrong_type(subject, name, value):
                actual = f"{type(value).__module__}.{type(value).__name__} {format_value(value)}"
                raise call.make_failure("a value has the wrong type", name, expected, actual)
    _require_one_dtype(select_steps(subject.first))
    with subject.open() as env:
        env.reset(seed=subject.seed)
        for generator in get_generators(env):
            if not isinstance(generator, (np.random.Generator, type(None))):
                message = "of np_random, Gymnasium promises a numpy.random.Generator"
                raise Failed(f"{message}, got {type(generator).__name__}")


def _require_one_dtype(steps: list[Call]) -> None:
    """Raises `Failed` if rewards have several dtypes of NumPy, or are rounded by the first."""
    rewards = [call.values["reward"] for call in steps]
    dtype = next((reward.dtype for reward in rewards if hasattr(reward, "dtype")), None)
    if dtype is None:
        return
    floats = {reward for reward in rewards if type(reward) is float}
    for call, reward in zip(steps, rewards, strict=True):
        if hasattr(reward, "dtype"):
            fits, actual = reward.dtype == dtype, f"dtype {reward.dtype}"
        elif type(reward) is float and len(floats) > _MAX_CONSTANTS:
            fits, actual = dtype == np.float64, "a float of Python"
        else:  # a constant in code, such as -1 or 0.0, is of any type
            fits, actual = dtype.type(reward).item() == reward, f"{reward!r} of Python"
        if not fits:
            message = "rewards change their dtype, so that a buffer of one dtype rounds some"
            raise call.make_failure(message, "reward", f"dtype {dtype}", actual)


def _find_wrong_type(subject: Subject, name: str, value: Any) -> str | None:
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
    elif subject.is_strict and type(value) is not float:
        return "a float of Python"
    elif isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return "a number"
    return None if np.isfinite(value).all() else "a finite number"


def infos(subject: Subject) -> None:
    """Infos can be batched: string keys, none of a batch's own, none that comes and goes."""
    last_keys: set[str] = set()  # of the steps of the episode
    for call in subject.first:
        info = call.values["info"]
        for key in info:
            if not isinstance(key, str):
                raise call.make_failure(
                    "keys of infos must be strings", "info", "a string", format_value(key)
                )
            if key in _RESERVED or key.startswith("_"):
                message = (
                    "a batch of infos has keys of this name itself, which replace these values"
                )
                raise call.make_failure(message, "info", "another key", repr(key))
        if not call.is_step:
            last_keys = set()
            continue
        if missing_keys := last_keys - info.keys():
            key = min(missing_keys)
            message = (
                "a step's infos lack a key that an earlier step of the episode has, so that code "
                "which reads it after each step fails or reads an old value"
            )
            message += _format_ignore_hint(key)
            raise call.make_failure(message, f"info[{key!r}]", "a value", NO_KEY)
        last_keys |= info.keys()
    _require_batchable(select_steps(subject.first))


def _require_batchable(steps: list[Call]) -> None:
    """Raises `Failed` if infos lose their values in arrays of another step's type.

    The array for a batch of infos has the type that the first environment's info has.
    """
    types: dict[str, dict[np.dtype[Any], None]] = {}
    for call in steps:
        for name, value in _iterate_numbers(call.values["info"], "info"):
            types.setdefault(name, {})[value.dtype] = None
    mixed = {name: dtypes for name, dtypes in types.items() if len(dtypes) > 1}
    if not mixed:
        return
    for call in steps:
        for name, value in _iterate_numbers(call.values["info"], "info"):
            for dtype in mixed.get(name, ()):
                with np.errstate(all="ignore"):
                    converted = value.astype(dtype)
                if not np.allclose(converted, value, equal_nan=True):
                    message = (
                        f"in a batch beside an info of type {dtype}, as another step has it, "
                        "its value is lost"
                    )
                    raise call.make_failure(
                        message, name, format_value(value), format_value(converted)
                    )


def _iterate_numbers(
    info: dict[Any, Any], place: str
) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The numbers and arrays of numbers in an info, as arrays, with their places."""
    for key, value in info.items():
        name = f"{place}[{key!r}]"
        if isinstance(value, dict):
            yield from _iterate_numbers(value, name)
        elif isinstance(value, (bool, int, float, np.number, np.bool_, np.ndarray)):
            array = np.asarray(value)
            if array.dtype.kind in "biuf":
                yield name, array


def _format_ignore_hint(info: str) -> str:
    """How to leave an info out."""
    return f" (if that is meant: --ignore info.{info}, in Python ignore=['info.{info}'])"


def task_observation(subject: Subject) -> None:
    """A `Discrete` or one-hot task observation is ``info["task_id"]``."""
    recordings = list(subject.iterate_envs())
    if not subject.is_vector:
        with subject.open() as env:  # many change their task at resets
            actions = subject.actions(env, 2)
            seeds = [*range(5), *[None] * 10]
            recordings += [("", subject.record(env, actions, seed=seed)) for seed in seeds]
    name = "single_observation_space" if subject.is_vector else "observation_space"
    compare_task_ids(subject.spaces[name], recordings)


def compare_task_ids(space: Any, recordings: list[tuple[str, list[Call]]]) -> None:
    """Compares each task observation in some recordings with ``info["task_id"]``.

    Args:
        space: The space of one environment's observations.
        recordings: The name of an environment, if there are several, and its calls.
    """
    task_calls = [
        (name, call)
        for name, calls in recordings
        for call in calls
        if "task_id" in call.values["info"]
    ]
    if any("phase" in call.values["info"] for _, call in task_calls):
        raise Skipped("it observes the phase of a stream")
    if not task_calls:
        raise Skipped("infos have no task_id")
    _require_one_name(task_calls)
    key, onehot_size = _find_task_observation(space, [call for _, call in task_calls])
    place = f"observation[{key!r}]" if key else "observation"
    for env, call in task_calls:
        task_id = call.values["info"]["task_id"]
        observation = call.values["observation"]
        task_obs = observation[key] if key else observation
        expected, description = task_id, task_id
        if onehot_size:
            task_obs = task_obs[-onehot_size:]
            expected = np.arange(onehot_size) == task_id
            description = f"the one-hot of {task_id}"
        if not np.array_equal(task_obs, expected):
            message = "the observed task is not info['task_id']"
            raise Call(f"{env}{call.name}", {}).make_failure(
                message, place, description, format_value(task_obs)
            )


def _find_task_observation(space: Any, calls: list[Call]) -> tuple[str, int]:
    """Returns where tasks are observed, or raises `Skipped`.

    Returns:
        The key in dict observations, or an empty string; and the length of the one-hot, or 0 if the
        task is observed as a number.
    """
    observations = [call.values["observation"] for call in calls]
    candidates = {"": (space, observations)}
    if isinstance(space, Dict):
        candidates = {
            key: (space[key], [observation[key] for observation in observations])
            for key in ("task_obs", "task_onehot")
            if key in space.spaces
        }
    for key, (task_space, values) in candidates.items():
        if isinstance(task_space, Discrete):
            return key, 0
        if onehot_size := _find_onehot_size(task_space, values):
            return key, onehot_size
    raise Skipped("the observation has no Discrete task_obs and no one-hot in [0, 1] at its end")


def _require_one_name(task_calls: list[tuple[str, Call]]) -> None:
    """Raises `Failed` if tasks of different names have the same ``info["task_id"]``."""
    names: dict[Any, Any] = {}
    for env, call in task_calls:
        info = call.values["info"]
        if "task_name" not in info:
            continue
        name = names.setdefault(info["task_id"], info["task_name"])
        if name != info["task_name"]:
            message = f"two tasks have the same info['task_id'], {info['task_id']}"
            place, actual = "info['task_name']", repr(info["task_name"])
            raise Call(env + call.name, {}).make_failure(message, place, repr(name), actual)


def _find_onehot_size(space: Any, values: list[Any]) -> int:
    """The length of the one-hot at the end: bounds 0 and 1, and nothing but 0 and 1 there."""
    if not isinstance(space, Box) or len(space.shape) != 1:
        return 0
    bounded = (space.low == 0) & (space.high == 1)
    size = int(np.argmin(np.append(bounded[::-1], False)))
    ends = np.array([value[len(value) - size :] for value in values])
    is_onehot = size > 1 and np.isin(ends, (0, 1)).all() and (ends.sum(1) == 1).any()
    return size if is_onehot else 0


def statistics(subject: Subject) -> None:
    """Statistics in infos and in wrappers count each step once, whatever the autoreset mode."""
    subject.require_types()
    scaled = changes_rewards(subject.used)
    counted = False
    for env, calls in subject.iterate_envs():
        total, length = 0.0, 0
        for call in calls:
            if not call.is_step:
                total, length = 0.0, 0
                continue
            total += float(call.values["reward"])
            length += 1
            episode = call.values["info"].get("episode") if call.ends else None
            if not isinstance(episode, dict) or not {"r", "l"} <= episode.keys():
                continue
            counted = True
            # Returns are kept in single precision by some.
            near = scaled or np.isclose(float(episode["r"]), total, rtol=1e-4, atol=1e-4)
            if int(episode["l"]) != length or not near:
                message = "the statistics of an episode are not the sums of its steps"
                expected, actual = f"r = {total}, l = {length}", f"{episode['r']}, {episode['l']}"
                raise Call(env + call.name, {}).make_failure(
                    message, "info['episode']", expected, actual
                )
    if not (subject.is_vector and _check_running_statistics(subject)) and not counted:
        raise Skipped("it keeps no statistics")


def changes_rewards(env: Any) -> bool:
    """Whether a wrapper says by its name, or its class, that it changes rewards."""
    kinds = [type(wrapper) for wrapper in iterate_wrappers(env)]
    return any("Reward" in kind.__name__ for kind in kinds) or any(
        issubclass(kind, VectorRewardWrapper) for kind in kinds
    )


def _check_running_statistics(subject: Subject) -> bool:
    """Whether there are running statistics of rewards, which count every step once."""
    with subject.open() as envs:
        statistics = next(
            (e.return_rms for e in iterate_wrappers(envs) if hasattr(e, "return_rms")), None
        )
        if statistics is None:
            return False
        count_before = float(statistics.count)
        calls = select_steps(subject.record(envs))
        counted = round(float(statistics.count) - count_before)
        steps = subject.num_envs * len(calls)
        if get_mode(envs) is AutoresetMode.NEXT_STEP:
            steps -= sum(int(call.ends.sum()) for call in calls[:-1])
    if counted != steps:
        message = "the running statistics of rewards (return_rms) do not count every step once"
        raise Failed(
            f"{message}: expected {steps} in {subject.length} calls of step, got {counted}"
        )
    return True


def new_arrays(subject: Subject) -> None:
    """Returned values do not change later; by strict rules, they are the caller's own."""
    returned: list[dict[str, Any]] = []
    with subject.open() as env:
        calls = subject.record(env, on_values=returned.append)
        for call, returned_values in zip(calls, returned, strict=True):
            if difference := find_difference(
                call.values, copy_values(returned_values, subject.ignore)
            ):
                message = (
                    "what an earlier call returned has changed: an array or dict is reused, so"
                )
                raise Failed(
                    f"{message} a buffer that keeps it holds the next one: "
                    f"{call.describe(difference)}"
                )
        if not subject.is_strict or not subject.repeats:
            return
        if difference := compare(calls, subject.record(env, on_values=scramble)):
            message = (
                "if the caller changes what a call has returned, the next returns other values"
            )
            raise Failed(f"{message}: {difference}; return new arrays and dicts")


# Seeds.


def seed_repeats(subject: Subject) -> None:
    """``reset(seed)`` determines what follows, on a new environment and on a used one."""
    if not (difference := subject.seed_difference):
        return
    info = re.search(r", info\['_?([^']*)'\]", difference)
    if info and subject.given_env is None:  # of which no infos can be ignored
        difference += _format_ignore_hint(info[1])
    raise Failed(difference)


def other_seeds(subject: Subject) -> None:
    """Different seeds lead to different results, and resets without a seed do not repeat."""
    subject.require_repeatable()
    seed = subject.seed
    pairs = [(seed, seed + k) for k in OTHER_SEEDS]
    pairs += [(seed + k, seed + k + 1) for k in LARGE_SEEDS]
    with subject.open() as env:
        draws = _draws_random_numbers(subject, env)
        for seed_a, seed_b in pairs:
            try:
                differ = _seeds_differ(subject, env, seed_a, seed_b, compare_states=draws)
            except RAISED:
                if seed_b < _INT32:
                    raise
                continue  # it refuses large seeds
            if differ:
                continue
            if not draws and not _draws_unseen_numbers(subject):
                return  # nothing is random
            raise Failed(
                f"reset(seed={seed_a}) and reset(seed={seed_b}) lead to the same {_EPISODES} "
                "episodes, although the environment draws random numbers: it ignores the seed, or "
                "makes the same of both"
            )
        if _unseeded_resets_repeat(subject, env):
            raise Failed(
                f"{_EPISODES - 1} resets without a seed lead to the same results: without a seed, "
                "reset() must not seed its generator again"
            )


def _seeds_differ(
    subject: Subject, env: Any, seed_a: int, seed_b: int, *, compare_states: bool
) -> bool:
    """Whether two seeds lead to other random states or, at some point, to other episodes."""
    if compare_states:
        states_a = _get_states_after_reset(env, seed_a)
        if not same(states_a, _get_states_after_reset(env, seed_b)):
            # What is drawn from other states may still happen to be the same.
            return True
    for count in (1, _EPISODES):  # most differ in the first episode
        episodes_a = list(_record_episodes(subject, env, seed_a, count))
        if _differ(episodes_a, _record_episodes(subject, env, seed_b, count)):
            return True
    return False


def _unseeded_resets_repeat(subject: Subject, env: Any) -> bool:
    """Whether each reset without a seed leads to the same episode, and seeds its generators."""
    episodes = itertools.islice(_record_episodes(subject, env, subject.seed), 1, None)
    if any(compare(*pair) for pair in itertools.pairwise(episodes)):
        return False
    states = _get_states_after_reset(env, None)
    # A reset that only goes on with what a seed has drawn leaves the generators alone.
    for generator, _ in get_generator_states(env):
        generator.random()
    return same(states, _get_states_after_reset(env, None))


def _record_episodes(
    subject: Subject, env: Any, seed: int | None, count: int = _EPISODES
) -> Iterator[list[Call]]:
    """Records the episodes after ``reset(seed=seed)``, one after another."""
    actions = subject.actions(env, min(subject.length, _STEPS))
    for i in range(count):
        yield subject.record(env, actions, seed=None if i else seed)


def _differ(recordings: Iterable[list[Call]], other_recordings: Iterable[list[Call]]) -> bool:
    return any(
        compare(calls, other_calls)
        for calls, other_calls in zip(recordings, other_recordings, strict=True)
    )


def _get_states_after_reset(env: Any, seed: int | None) -> list[Any]:
    """The states of the environment's generators after a reset."""
    env.reset(seed=seed)
    return [state for _, state in get_generator_states(env)]


def get_generators(env: Any) -> list[Any]:
    """Returns ``np_random`` of an environment, or of all in a batch; None if not created yet."""
    base = env.unwrapped
    if isinstance(base, VectorEnv) and hasattr(base, "get_attr"):
        try:
            return list(base.get_attr("_np_random"))
        except Exception:  # its environments need have no such attribute
            return []
    return [getattr(base, "_np_random", None)]


def get_generator_states(env: Any) -> list[tuple[Any, bytes]]:
    """The generators among an environment's attributes, with their states."""
    attributes = {**getattr(env.unwrapped, "__dict__", {}), "_np_random": None}
    candidates = (*get_generators(env), *attributes.values())
    return [
        (generator, pickle.dumps(generator))
        for generator in candidates
        if isinstance(generator, _GENERATORS)
    ]


def _draws_random_numbers(subject: Subject, env: Any) -> bool:
    """Whether random numbers are drawn from generators among the environment's attributes."""
    env.reset(seed=subject.seed)
    states = get_generator_states(env)
    for _ in _record_episodes(subject, env, None):
        states_now = get_generator_states(env)
        pairs = zip(states, states_now, strict=False)
        if len(states) != len(states_now) or any(
            a is not b or old != new for (a, old), (b, new) in pairs
        ):
            return True
    return False


def _draws_unseen_numbers(subject: Subject) -> bool:
    """Whether new environments without a seed differ, so that something random is drawn."""
    fresh = []
    for _ in range(2):
        with subject.open() as env:
            fresh.append(list(_record_episodes(subject, env, None)))
    return _differ(*fresh)


def new_episodes(subject: Subject) -> None:
    """A reset without a seed leaves nothing of the episode before, but for random states."""
    subject.require_repeatable()
    compared = False
    with subject.open() as env:
        require_no_running_statistics(env)
        actions = subject.actions(env, min(subject.length, STEPS_BEFORE))
        last = drop_repeats(actions)[:NUM_LAST_ACTIONS]
        episodes = [[action] for action in last] + [actions, actions[::-1]]
        starts = [
            _record_start_after(subject, env, episode, actions[:STEPS_AFTER])
            for episode in episodes
        ]
        for start, other_start in itertools.combinations(starts, 2):
            if not same([start.steps, start.states], [other_start.steps, other_start.states]):
                continue  # random numbers, or counters, go on elsewhere
            if not start.states and compare(start.calls[:1], other_start.calls[:1]):
                continue  # numbers may be drawn from a generator that is not seen
            compared = True
            if difference := compare(start.calls, other_start.calls):
                raise Failed(
                    "what follows a reset depends on the actions before it: something is left of "
                    "the last episode, such as its last action, that reset() must clear: "
                    f"{difference}"
                )
    if not compared:
        raise Skipped("how many random numbers it draws depends on its actions")


@dataclass(frozen=True)
class _Start:
    """The start of an episode after another one.

    Args:
        steps: The number of steps of the episode before.
        states: The random states after it.
        calls: The first calls of the new episode.
    """

    steps: int
    states: list[bytes]
    calls: list[Call]


def _record_start_after(
    subject: Subject, env: Any, actions: list[Any], next_actions: list[Any]
) -> _Start:
    """Runs an episode with some actions, and the start of the next one with others."""
    env.reset(seed=subject.seed)
    steps = 0
    for action in actions:
        _, _, terminated, truncated, _ = env.step(copy.deepcopy(action))
        steps += 1
        if np.any(np.logical_or(terminated, truncated)):
            break
    states = [state for _, state in get_generator_states(env)]
    return _Start(steps, states, subject.record(env, next_actions, seed=None))


# What belongs to the process.


def global_random(subject: Subject) -> None:
    """The global states of ``random`` and ``np.random`` are neither read nor written."""
    recordings: list[list[Call]] = []
    for seed in (1, 2):
        with restored_globals(), subject.open() as env:
            random.seed(seed)
            np.random.seed(seed)
            steps = subject.length if not recordings else subject.short_length
            with require_untouched_random():
                recordings.append(subject.record(env, subject.actions(env, steps)))
    if not subject.repeats:
        raise Skipped("see 'seed repeats'")
    if difference := compare(*recordings):
        raise Failed(f"what it returns depends on the global random state: {difference}")


@contextlib.contextmanager
def require_untouched_random(calls: str = "reset or step") -> Iterator[None]:
    """Raises `Failed` if the block changes the state of ``random`` or of ``np.random``.

    Args:
        calls: The calls in the block, as a text.
    """
    states = _get_global_states()
    yield
    for name, old, now in zip(("random", "np.random"), states, _get_global_states(), strict=True):
        if not same(old, now):
            raise Failed(
                f"{calls} draws from the global {name}, or seeds it: what it "
                "returns depends on what else runs in the process; use self.np_random"
            )


def _get_global_states() -> tuple[Any, Any]:
    return random.getstate(), np.random.get_state(legacy=False)


@contextlib.contextmanager
def restored_globals() -> Iterator[dict[str, Any]]:
    """Restores the global random states and the settings of the process, which it yields."""
    states, settings = _get_global_states(), _get_settings()
    try:
        yield settings
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        np.seterr(**settings["np.seterr()"])
        np.set_printoptions(**settings["np.set_printoptions()"])
        os.chdir(settings["os.chdir()"])
        sys.setrecursionlimit(settings["sys.setrecursionlimit()"])
        if settings["gc"] == "enabled":
            gc.enable()
        else:
            gc.disable()
        for name in _SIGNALS:
            handler = settings[f"signal.signal({name.name})"]
            if handler != signal.getsignal(name):
                with contextlib.suppress(ValueError, TypeError):  # not in the main thread
                    signal.signal(name, handler)


def _get_settings() -> dict[str, Any]:
    return {
        "np.seterr()": np.geterr(),
        "np.set_printoptions()": np.get_printoptions(),
        "os.chdir()": os.getcwd(),
        "sys.setrecursionlimit()": sys.getrecursionlimit(),
        "gc": "enabled" if gc.isenabled() else "disabled",
        **{f"signal.signal({name.name})": signal.getsignal(name) for name in _SIGNALS},
    }


def global_settings(subject: Subject) -> None:
    """Settings of NumPy, Python and the process are what they were before it was made."""
    if difference := find_difference(subject.settings, _get_settings()):
        raise Failed(f"it changes a setting of the whole process: {difference}")


# What belongs to the caller.


def actions(subject: Subject) -> None:
    """Actions belong to the caller, who may reuse the array for the next step."""
    subject.require_repeatable()
    with subject.open() as env:
        steps = iter(range(subject.length))
        last_action: Any = None

        def step(action: Any) -> Any:
            nonlocal last_action
            scramble(last_action)
            last_action, t = copy.deepcopy(action), next(steps)
            returned = env.step(last_action)
            if difference := find_difference(action, last_action, "action"):
                message = "step() changes the action that it is given in place"
                raise Failed(
                    f"{message}: {Call(f'step {t}', {}, subject.is_vector).describe(difference)}"
                )
            return returned

        difference = compare(
            subject.first,
            subject.record(env, subject.actions(env, subject.short_length), step=step),
        )
        if difference:
            raise Failed(
                "step() keeps the array of the action that it is given and reads it later: if the "
                "caller fills the same array again, other values are returned; keep a copy: "
                f"{difference}"
            )
        if keeps_running_statistics(env):
            return
        _require_same_if_python_int(subject, env)
        _require_action_copied_by_step_async(subject, env)


def _require_same_if_python_int(subject: Subject, env: Any) -> None:
    """Raises `Failed` if an action of a `Discrete` space has another effect as Python's int."""
    if not isinstance(subject.spaces["action_space"], Discrete):
        return
    actions = subject.actions(env, min(subject.length, _COPY_STEPS))
    steps = subject.record(env, actions, step=lambda action: env.step(int(action)))
    if difference := compare(subject.first, steps):
        message = "actions of type int, as of Python, have another effect than NumPy's int64"
        raise Failed(f"{message}: {difference}")


def _require_action_copied_by_step_async(subject: Subject, env: Any) -> None:
    """Raises `Failed` if ``step_wait`` reads the caller's array that ``step_async`` was given."""
    # Wrappers of Gymnasium that have no step_async of their own pass on that of their environment.
    if not all(hasattr(type(env), name) for name in ("step_async", "step_wait")):
        return

    def step(action: Any) -> Any:
        env.step_async(action)
        scramble(action)
        return env.step_wait()

    actions = subject.actions(env, min(subject.length, _COPY_STEPS))
    if difference := compare(subject.first, subject.record(env, actions, step=step)):
        message = "step_async() keeps the array of actions, and step_wait() reads what the caller "
        raise Failed(f"{message}has written there since; keep a copy: {difference}")


def sampling(subject: Subject) -> None:
    """The caller may sample from its spaces: that changes nothing, and no reset seeds them."""
    subject.require_repeatable()
    with subject.open() as env:

        def step(action: Any) -> Any:
            env.action_space.sample()
            env.observation_space.sample()
            return env.step(action)

        try:
            env.observation_space.sample()
        except Exception as exc:
            raise Skipped(
                f"its observation_space cannot be sampled: {describe_error(exc)}"
            ) from exc
        actions = subject.actions(env, min(subject.length, _COPY_STEPS))
        if difference := compare(subject.first, subject.record(env, actions, step=step)):
            raise Failed(
                "if the caller samples from its action_space or observation_space, it returns "
                "other values: it takes its own random numbers from a space; use self.np_random: "
                f"{difference}"
            )
        samples = []
        for _ in range(2):
            env.reset()
            samples.append([env.action_space.sample() for _ in range(_COPY_STEPS)])
    if same(*samples) and len(drop_repeats(samples[0])) > 1:
        raise Failed(
            "each reset seeds its action_space again: random actions that the caller samples from "
            "it are the same in every episode"
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
    arguments = f" ({', '.join(map(repr, args))})" if args else ""
    raise Failed(f"reset changes the caller's options{arguments}; copy them first")


_CHANGES = ("__setitem__", "__delitem__", "clear", "pop", "popitem", "setdefault", "update")
for _name in (*_CHANGES, "__ior__"):
    setattr(_Options, _name, _refuse)


def options(subject: Subject) -> None:
    """``reset`` does not change the caller's options, and empty ones change nothing."""
    repeats = subject.repeats
    with subject.open() as env:
        actions = subject.actions(env, min(subject.length, STEPS_AFTER))
        try:
            env.reset(seed=subject.seed, options=_Options())
        except KeyError as exc:
            raise Skipped(f"reset() needs an option: {describe_error(exc)}") from exc
        if not repeats:
            raise Skipped("see 'seed repeats'")
        if keeps_running_statistics(env):
            return  # resets change the running statistics

        def reset() -> Any:
            return env.reset(seed=subject.seed, options={})

        if difference := compare(subject.first, subject.record(env, actions, reset=reset)):
            call = f"reset(seed={subject.seed}, options={{}})"
            raise Failed(f"{call} leads to other results than without options: {difference}")


# What a call must not do.


def render(subject: Subject) -> None:
    """``render()`` changes nothing.

    It runs in a fork: without a display, a graphics library may end the process that uses it.
    """
    subject.require_repeatable()
    chosen = getattr(subject.used, "render_mode", None)
    modes = (getattr(subject.used, "metadata", None) or {}).get("render_modes") or ()
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

            actions = subject.actions(env, min(subject.length, _FRAMES))
            return subject.record(env, actions, step=step)

    def compared() -> str | None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), _STDERR)
        faulthandler.disable()  # which has its own copy of it
        return compare(recording(False), recording(True))

    try:
        difference = call_in_fork(compared, _TIMEOUT)
    except (Failed, Skipped):
        raise
    except Exception as exc:
        raise Skipped(f"render() cannot run here: {exc}") from exc
    if difference:
        raise Failed(f"render() changes the state: what follows is different: {difference}")


def _render(env: Any) -> None:
    states = get_generator_states(env)
    try:
        env.render()
    except NotImplementedError:
        raise Skipped("it has no render()") from None
    except RAISED as exc:  # a mode may need what is not here
        raise Skipped(f"render() raises {describe_error(exc)}") from exc
    if not same(states, get_generator_states(env)):
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
            subject.record(env, subject.actions(env, len(select_steps(calls[:end]))))
            if not same(env.reset()[0], observations[end]):
                return
    raise Failed(
        f"{calls[ends[0]].name} ends an episode and returns the first observation of the next one "
        f"({format_value(observations[ends[0]])}): step() resets the environment, and its last "
        "observation is lost"
    )


# Copies, and the end.


def pickling(subject: Subject) -> None:
    """The constructor can be sent to a worker; copies run the same and share no state."""
    failures: list[str] = []
    with _open_from_pickle(subject) as env:
        if not subject.is_vector:
            for name, copied in make_copies(env, failures):
                require_same_copy(subject, env, copied, name)
    if failures:
        message = "its constructor can be sent to a worker, but these copies cannot be checked"
        raise Skipped(f"{message}: {'; '.join(failures)}")


@contextlib.contextmanager
def _open_from_pickle(subject: Subject) -> Iterator[Any]:
    """The given environment, or one of the constructor as a worker gets it, closed at the end."""
    if subject.given_env is not None:
        yield subject.given_env
        return
    try:
        make = cloudpickle.loads(cloudpickle.dumps(subject.make))
    except Exception as exc:
        message = f"its constructor does not pickle ({type(exc).__name__}: {exc})"
        raise Failed(f"{message}, so it cannot be sent to a worker") from exc
    with closing(make()) as env:
        yield env


def make_copies(env: Any, failures: list[str]) -> Iterator[tuple[str, Any]]:
    """Copies of an environment, each open until the next, and how they were made.

    Args:
        env: The environment.
        failures: Where the copies that cannot be made are noted, with the reason.
    """
    ways: dict[str, Callable[[Any], Any]] = {
        "pickle": lambda env: pickle.loads(cloudpickle.dumps(env)),
        "copy.deepcopy": copy.deepcopy,
    }
    for way, make_copy in ways.items():
        name = f"a copy made by {way}"
        try:
            copied = make_copy(env)
        except Exception as exc:
            failures.append(f"{name} ({describe_error(exc)})")
            continue
        with closing(copied):
            yield name, copied


def require_same_copy(subject: Subject, env: Any, copied: Any, name: str) -> None:
    """Raises `Failed` unless a copy returns what the environment does, and each goes on alone."""
    subject.require_repeatable()
    actions = subject.actions(env, min(subject.length, _COPY_STEPS))
    expected = subject.record(env, actions)
    try:
        got = subject.record(copied, actions)
    except Exception as exc:
        raise Failed(f"{name} does not run: {type(exc).__name__}: {exc}") from exc
    if difference := compare(expected, got):
        raise Failed(f"{name} runs differently: {difference}")
    if keeps_running_statistics(env):
        return
    copied.reset(seed=subject.seed + 1)

    def step(action: Any) -> Any:
        _, _, terminated, truncated, _ = copied.step(copy.deepcopy(action))
        if terminated or truncated:
            copied.reset()
        return env.step(action)

    if difference := compare(expected, subject.record(env, actions, step=step)):
        raise Failed(
            f"{name} shares state with the environment: one's steps change both: {difference}"
        )


def close(subject: Subject) -> None:
    """``close()`` leaves nothing behind, ends no other, can be called twice, and so can ``del``."""
    with closing(subject.make()) as open_env:  # what a library starts once is no part of it
        open_env.reset(seed=subject.seed)
        processes, threads, files = find_children(), set(threading.enumerate()), find_open_files()
        with collected_errors() as ignored:
            with closing(subject.make()) as envs:
                envs.reset(seed=subject.seed)
            try:
                envs.close()
            except RAISED as exc:
                raise Failed(f"a second close() raises {describe_error(exc)}") from exc
            del envs
        if ignored:
            raise Failed(f"an environment that is deleted raises {ignored[0]}")
        if pids := wait_until_gone(lambda: find_children() - processes):
            numbers = ", ".join(map(str, sorted(pids)))
            raise Failed(f"processes are still running after close(): {numbers}")
        if threads_left := wait_until_gone(lambda: {*threading.enumerate()} - threads):
            names = ", ".join(thread.name for thread in threads_left)
            raise Failed(f"threads are still running after close(): {names}")
        if opened := wait_until_gone(lambda: find_open_files() - files):
            paths = ", ".join(sorted(path for _, path in opened))
            raise Failed(f"files are still open after close(): {paths}")
        _require_still_open(subject, open_env)


def _require_still_open(subject: Subject, env: Any) -> None:
    """Raises `Failed` if ``close()`` of another environment has changed this one."""
    if not subject.repeats:
        raise Skipped("see 'seed repeats'")
    actions = subject.actions(env, min(subject.length, STEPS_AFTER))
    try:
        difference = compare(subject.first, subject.record(env, actions))
    except RAISED as exc:
        raise Failed(
            f"close() of an environment changes another one: {describe_error(exc)}"
        ) from exc
    if difference and not keeps_running_statistics(env):  # which have counted another reset
        raise Failed(f"close() of an environment changes another one: {difference}")


@contextlib.contextmanager
def collected_errors() -> Iterator[list[str]]:
    """Collects descriptions of errors in ``__del__``, which Python only prints."""
    errors: list[str] = []
    hook = sys.unraisablehook
    sys.unraisablehook = lambda ignored: errors.append(describe_error(ignored.exc_value))  # type: ignore
    try:
        yield errors
    finally:
        gc.collect()
        sys.unraisablehook = hook


# Other processes.


def start_processes(subject: Subject) -> list[NewProcess]:
    """Starts the processes of `other_process`, which run beside the other checks."""
    steps = min(subject.steps, _PROCESS_STEPS)
    elsewhere = Subject(
        subject.make, subject.name, subject.is_vector, seed=subject.seed, ignore=subject.ignore
    )

    def run() -> list[Call]:
        with elsewhere.open() as env:
            return elsewhere.record(env, elsewhere.actions(env, steps))

    try:
        data = cloudpickle.dumps(run)
    except Exception:  # "pickling" says why
        return []
    return [NewProcess(data, hash_seed) for hash_seed in _HASH_SEEDS]


def other_process(subject: Subject) -> None:
    """New processes, in which strings have other hashes, return the same."""
    subject.require_repeatable()
    if not subject.processes:
        raise Skipped("its constructor does not pickle")
    for process, hash_seed in zip(subject.processes, _HASH_SEEDS, strict=True):
        try:
            calls = process.result(_TIMEOUT)
        except Exception as exc:
            message = "it cannot be made and run in a new process"
            raise Skipped(f"{message}: {type(exc).__name__}: {exc}") from exc
        if difference := compare(subject.first, calls):
            raise Failed(
                f"a new process, with PYTHONHASHSEED={hash_seed}, returns something else: results "
                "depend on the order of a set or on hash(), which differ from process to process, "
                f"or on what else this process has done: {difference}"
            )
