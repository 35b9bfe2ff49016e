"""Checks in and of vector environments, most of them comparisons with Gymnasium's `SyncVectorEnv`.

An environment is checked inside vector environments. Of a vector environment, the constructors of
its sub-environments are those that the user gives, or that `SyncVectorEnv` and `AsyncVectorEnv`
keep as ``env_fns``.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from mtwrappers.common.errors import full_message
from mtwrappers.testing.processes import call_in_fork, wait_until_gone
from mtwrappers.testing.recording import (
    FLAGS,
    NO_KEY,
    RAISED,
    Call,
    Failed,
    Skipped,
    Subject,
    compare,
    describe_error,
    find_difference,
    format_value,
    get_mode,
    keeps_running_statistics,
    require,
    require_no_running_statistics,
    require_same,
    same,
    select_steps,
    split_calls,
)
from mtwrappers.testing.rules import changes_rewards
from mtwrappers.vector.make import MetaParallelEnvExecutor
from mtwrappers.vector.start_methods import default_start_method

_SAME, _NEXT, _DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)
# Episodes are cut after 7, 10, ... steps, but for those of the last environment.
_FIRST_LIMIT, _LIMIT_INTERVAL = 7, 3
# How many steps are compared; in mode SAME_STEP as many as alone, to the ends of whole episodes.
_STEPS = 40
# How many more episodes show which environments have the same seed.
_EPISODES = 20
# The seconds after which a silent worker, or a step with a killed one, counts as hung.
_WORKER_TIMEOUT, _KILL_TIMEOUT = 60.0, 20.0
# After how many seconds a process that does not start has failed to.
_START_TIMEOUT = 60.0
# Before which steps a worker is killed that is replaced.
_KILLED_AT = (11, 25)
# Before which step some environments are reset, in the middle of their episodes.
_RESET_AT = 2


# An environment in vector environments.


def get_makers(subject: Subject) -> list[Callable[[], Any]]:
    """Returns a constructor per sub-environment; all but the last have another time limit."""
    if subject.makers:
        return list(subject.makers)
    limits = [_FIRST_LIMIT + _LIMIT_INTERVAL * i for i in range(subject.num_envs - 1)]
    return [
        *(functools.partial(_make_limited, subject.make, steps) for steps in limits),
        subject.make,
    ]


def _make_limited(make: Callable[[], Any], steps: int) -> Any:
    return gymnasium.wrappers.TimeLimit(make(), steps)


class _KeptOpen(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An environment that several vector environments use in turn, which close nothing."""

    def close(self) -> None:
        """Leaves the environment open."""


def get_sync_recording(subject: Subject, mode: AutoresetMode) -> tuple[Any, list[Call]]:
    """Gymnasium's `SyncVectorEnv` in a mode, closed, and its recording."""
    if not subject.sync_recordings:
        recordings = {}
        with contextlib.ExitStack() as stack:
            envs = [stack.enter_context(closing(make())) for make in get_makers(subject)]
            makers = [functools.partial(_KeptOpen, env) for env in envs]
            for known_mode in AutoresetMode:
                steps = max(_STEPS, subject.short_length) if known_mode is _SAME else _STEPS
                recordings[known_mode] = _record_sync(subject, makers, known_mode, steps)
        subject.sync_recordings = recordings
    return subject.sync_recordings[mode]


def _record_sync(
    subject: Subject,
    makers: Sequence[Callable[[], Any]],
    mode: AutoresetMode,
    steps: int,
    **seed: Any,
) -> tuple[Any, list[Call]]:
    with closing(SyncVectorEnv(makers, autoreset_mode=mode)) as envs:
        return envs, subject.record(envs, subject.actions(envs, steps), **seed)


def autoreset(subject: Subject) -> None:
    """In each mode a sub-environment returns the same as alone, where no other exists beside it."""
    subject.require_repeatable()
    get_sync_recording(subject, _NEXT)  # before there is another environment
    for i, make in enumerate(get_makers(subject)):
        with closing(make()) as env:
            for mode in AutoresetMode:
                _require_same_alone(subject, mode, i, env)


def _require_same_alone(subject: Subject, mode: AutoresetMode, i: int, env: Any) -> None:
    """Raises `Failed` if environment ``i`` of a batch returns other values than ``env`` alone."""
    envs, batch = get_sync_recording(subject, mode)
    calls = split_calls(envs, batch, i)
    steps = {call.name for call in calls if call.is_step}
    actions = [
        list(iterate(envs.action_space, action))[i]
        for t, action in enumerate(subject.actions(envs, len(select_steps(batch))))
        if f"step {t}" in steps
    ]
    calls_alone = subject.record(env, actions, seed=subject.seed + i)
    for call, expected in zip(calls, calls_alone, strict=False):
        info = expected.values["info"]  # of which batches keep what is a number
        numbers = [key for key, value in info.items() if type(value) in (bool, int, float)]
        difference = find_difference(
            _select_values(expected, numbers), _select_values(call, numbers), loose=True
        )
        if difference:
            message = f"in a vector environment, in mode {mode.value}, it returns other values"
            raise Failed(f"{message}: environment {i}, {call.name}, {difference}")


def _select_values(call: Call, keys: Collection[str]) -> dict[str, Any]:
    """The values of a call with some of its infos."""
    info = call.values["info"]
    return {**call.values, "info": {key: info[key] for key in keys if key in info}}


def start_method() -> str:
    """Returns the start method of workers: ours, but no fork if OpenGL is loaded."""
    return "forkserver" if "OpenGL" in sys.modules else default_start_method(replaces=False)


@functools.cache
def can_start(method: str) -> bool:
    """Whether a worker can start; unless forked, it imports the main module first."""
    if method == "fork":
        return True
    context: Any = multiprocessing.get_context(method)
    try:
        process = context.Process(target=os.getpid, daemon=True)
        process.start()
        process.join(_START_TIMEOUT)
        process.kill()
        process.join()
        return bool(process.exitcode == 0)
    except (OSError, EOFError):  # the server that forks has ended
        return False


def _require_same_in_workers(
    subject: Subject, mode: AutoresetMode, kills: Collection[int] = (), **kwargs: Any
) -> None:
    """Compares our executor with two workers with `SyncVectorEnv`.

    Args:
        subject: What is checked.
        mode: The autoreset mode.
        kills: Before which steps a worker is killed.
        **kwargs: Other arguments of our executor.
    """
    if not can_start(start_method()):
        raise Skipped(
            "no worker process can start: each imports the main module again, so run the check "
            "below `if __name__ == '__main__':`, in a file"
        )
    require_no_running_statistics(subject.used)
    _, expected = get_sync_recording(subject, mode)
    makers = get_makers(subject)
    kwargs |= {"timeout": _WORKER_TIMEOUT, "context": start_method(), "autoreset_mode": mode}
    with closing(MetaParallelEnvExecutor(makers, len(makers), workers=2, **kwargs)) as envs:
        steps = itertools.count()

        def step(actions: Any) -> Any:
            if next(steps) in kills:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            return envs.step(actions)

        actions = subject.actions(envs, len(select_steps(expected)))
        recording = subject.record(envs, actions, step=step)
    _require_equal(expected, recording, "2 workers", mode)


def _require_equal(
    expected: list[Call], actual: list[Call], name: str, mode: AutoresetMode
) -> None:
    if difference := compare(expected, actual):
        raise Failed(f"{name} and SyncVectorEnv differ in mode {mode.value}: {difference}")


def workers(subject: Subject) -> None:
    """Our executor with two workers returns exactly what `SyncVectorEnv` returns."""
    subject.require_repeatable()
    try:
        _require_same_in_workers(subject, _SAME)
    except (Failed, Skipped):
        raise
    except RAISED as exc:
        raise Failed(f"in workers it fails: {describe_error(exc)}") from exc


def killed_worker(subject: Subject) -> None:
    """If a worker of an environment is killed, a new one gives identical results."""
    subject.require_repeatable()
    if subject.ignore:
        raise Skipped("a lost worker is replaced only where all infos repeat; some are ignored")
    try:
        _require_same_in_workers(subject, _NEXT, _KILLED_AT, on_worker_failure="recover")
    except Failed as exc:
        raise Failed(f"after a worker was killed and replaced, {exc}") from exc
    except Skipped:
        raise
    except Exception as exc:
        raise Failed(
            "a lost worker cannot be replaced: what an environment keeps between episodes is "
            "neither in its np_random nor in get_state() and set_state() "
            f"({type(exc).__name__}: {full_message(exc)})"
        ) from exc


# A vector environment: a comparison with the same constructors.


@dataclass(frozen=True)
class _PassedOn:
    """What wrappers of a vector environment pass on unchanged of one of its environments.

    Args:
        names: The names of values, as `_flatten` returns them.
        ends: Whether episodes end where those of the environment do.
    """

    names: frozenset[str]
    ends: bool


def as_sync(subject: Subject) -> None:
    """It returns what `SyncVectorEnv` of its constructors returns, but for what wrappers change.

    In mode ``DISABLED``, also after a reset of some environments in the middle of their episodes.
    """
    subject.require_repeatable()
    compared = [_compare_with_sync(subject, envs, calls) for envs, calls in subject.modes]
    if not any(compared):
        raise Skipped("its wrappers change all that it returns")


def _compare_with_sync(subject: Subject, envs: Any, recording: list[Call]) -> bool:
    """Raises `Failed` if a recording differs from that of a `SyncVectorEnv` in the same mode.

    Returns:
        Whether any value but the flags could be compared.
    """
    base, mode = envs.unwrapped, get_mode(envs)
    if not isinstance(mode, AutoresetMode):
        raise Skipped("see 'mode'")
    constructors = _find_constructors(base)
    if envs.action_space != base.action_space:
        raise Skipped("its wrappers change actions")
    observations = getattr(base, "observation_mode", "same")
    with closing(
        SyncVectorEnv(constructors, autoreset_mode=mode, observation_mode=observations)
    ) as sync:
        expected = subject.record(sync)
        expected_after_reset = _record_partial_reset(subject, sync)
    actual_after_reset = []
    if mode is _DISABLED:
        with subject.open(**_choose_mode(subject, mode)) as new_envs:
            actual_after_reset = _record_partial_reset(subject, new_envs)
    compared = False
    for i in range(subject.num_envs):
        calls = split_calls(sync, expected, i), split_calls(envs, recording, i)
        passed_on = _find_passed_on(*calls, changes_rewards(envs))
        _require_passed_on(*calls, passed_on, f"environment {i}", mode)
        compared |= not passed_on.names <= {*FLAGS}
        if passed_on.ends:
            calls = (
                split_calls(sync, expected_after_reset, i),
                split_calls(envs, actual_after_reset, i),
            )
            name = f"after a reset of some environments, environment {i}"
            _require_passed_on(*calls, passed_on, name, mode)
    return compared


def _find_constructors(base: Any) -> list[Callable[[], Any]]:
    """The constructors of a vector environment's sub-environments, or raises `Skipped`."""
    makers = getattr(base, "env_fns", None)
    if isinstance(makers, Sequence):
        return list(makers)
    # `gymnasium.make_vec` gives an iterator, which is used up; the specs are still there.
    specs = [env.spec for env in getattr(base, "envs", ())] if makers is not None else []
    if not specs or None in specs:
        raise Skipped("the constructors of its sub-environments are not known")
    return [functools.partial(gymnasium.make, spec) for spec in specs]


def _choose_mode(subject: Subject, mode: AutoresetMode) -> dict[str, Any]:
    """The arguments with which the subject's constructor makes environments in a mode."""
    return {} if mode is get_mode(subject.used) else {"autoreset_mode": mode}


def _record_partial_reset(subject: Subject, envs: Any) -> list[Call]:
    """Records a vector environment; some are reset before step `_RESET_AT` if its mode allows it.

    In other modes the recording is empty.
    """
    if get_mode(envs) is not _DISABLED:
        return []
    mask = np.arange(envs.num_envs) % 2 == 0
    steps = itertools.count()

    def step(action: Any) -> Any:
        if next(steps) == _RESET_AT:
            envs.reset(options={"reset_mask": mask.copy()})
        return envs.step(action)

    actions = subject.actions(envs, min(subject.length, _STEPS))
    return subject.record(envs, actions, step=step)


def _find_passed_on(expected: list[Call], actual: list[Call], changes_rewards: bool) -> _PassedOn:
    """Which values of an environment its wrappers pass on, by what they do in its first episode."""
    first_end = next((t for t, call in enumerate(expected) if call.ends), len(expected))
    names: set[str] = set()
    changed = {"reward"} if changes_rewards else set()
    for call, actual_call in zip(expected[:first_end], actual, strict=False):
        values, actual_values = _flatten(call), _flatten(actual_call)
        names |= values.keys()
        changed |= {
            name for name, value in values.items() if not same(value, actual_values.get(name))
        }
    ends = all(
        call.is_step == actual_call.is_step and call.ends == actual_call.ends
        for call, actual_call in zip(expected, actual, strict=False)
    )
    return _PassedOn(frozenset(names - changed), ends)


def _require_passed_on(
    expected: list[Call],
    actual: list[Call],
    passed_on: _PassedOn,
    name: str,
    mode: AutoresetMode,
) -> None:
    """Raises `Failed` if a value that wrappers pass on in the first episode differs later."""
    for call, actual_call in zip(expected, actual, strict=False):
        same_end = actual_call.is_step == call.is_step and actual_call.ends == call.ends
        if not same_end and not passed_on.ends:
            return  # wrappers end episodes elsewhere
        values, actual_values = _flatten(call), _flatten(actual_call)
        names = [key for key in (*FLAGS, *sorted(passed_on.names)) if key in values]
        difference = find_difference(
            {key: values[key] for key in names},
            {key: actual_values[key] for key in names if key in actual_values},
        )
        if difference:
            end = " at an episode's end, as in final_obs and final_info" if call.ends else ""
            message = f"it and SyncVectorEnv differ in mode {mode.value}{end}"
            raise Failed(f"{message}: {name}, {call.name}, {difference}")


def _flatten(call: Call) -> dict[str, Any]:
    """The values of a call and its infos, by their names."""
    values = {key: value for key, value in call.values.items() if key != "info"}
    infos = {f"info[{key!r}]": value for key, value in call.values["info"].items()}
    return {**values, **infos}


# A vector environment: direct checks.


def masks(subject: Subject) -> None:
    """Each key of the infos has a mask of the environments that reported it."""
    subject.require_types()
    for _, recording in subject.modes:
        for call in recording:
            _require_masks(call, call.values["info"], "info", subject.num_envs)


def _require_masks(call: Call, infos: dict[Any, Any], place: str, n: int) -> None:
    for key, value in infos.items():
        if str(key).startswith("_"):
            continue
        mask = infos.get(f"_{key}", NO_KEY)
        if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != bool:
            message = (
                f"infos have values of {key!r}, but no mask that says which environments gave them"
            )
            raise call.make_failure(
                message, f"{place}['_{key}']", f"an array of {n} bools", format_value(mask)
            )
        if key == "final_info" and isinstance(value, dict):
            _require_masks(call, value, "info['final_info']", n)


def mode(subject: Subject) -> None:
    """Final observations and infos are there if and only if an episode ended, as the mode says."""
    subject.require_types()
    any_ended = False
    for envs, recording in subject.modes:
        declared = _require_declared_mode(subject, envs)
        last_ends: Any = np.zeros(subject.num_envs, bool)
        for call in select_steps(recording):
            _require_final_infos(call, declared)
            if declared is _NEXT:
                _require_empty_reset_step(call, last_ends)
            last_ends = call.ends
            any_ended |= bool(call.ends.any())
    if not any_ended:
        raise Skipped(f"no episode ended within {subject.length} steps")
    if subject.repeats:
        _require_ignored_action(subject)


def _require_declared_mode(subject: Subject, envs: Any) -> AutoresetMode:
    """Returns the mode that a vector environment declares, or raises `Failed`."""
    declared = get_mode(envs)
    if not isinstance(declared, AutoresetMode):
        message = "metadata['autoreset_mode'] must say when an environment is reset"
        raise Failed(f"{message}, expected an AutoresetMode, got {format_value(declared)}")
    if envs is not subject.used and declared is get_mode(subject.used):
        raise Failed(
            "its constructor takes autoreset_mode, but makes environments in mode "
            f"{declared.value} when another is asked for"
        )
    return declared


def _require_final_infos(call: Call, declared: AutoresetMode) -> None:
    """Raises `Failed` if a step has final infos of other environments than those that ended."""
    info, ends = call.values["info"], call.ends
    for key in ("final_obs", "final_info"):
        value, reported = info.get(key), info.get(f"_{key}", np.zeros(len(ends), bool))
        if isinstance(value, np.ndarray) and value.dtype.hasobject:
            reported = reported | [final_value is not None for final_value in value]
        # Only mode SAME_STEP needs them, and an environment may have no infos.
        needed = ends if key == "final_obs" and declared is _SAME else reported & ends
        if difference := find_difference(needed, reported, f"info['_{key}']"):
            message = "the infos have a value if and only if an episode ended"
            raise Failed(f"{message}: {call.describe(difference)}")


def _require_empty_reset_step(call: Call, last_ends: Any) -> None:
    """Raises `Failed` if a step that is a reset, in mode ``NEXT_STEP``, has a reward or a flag.

    Args:
        call: A step.
        last_ends: Which environments the step before it ended, of shape ``(num_envs,)``.
    """
    for name in ("reward", *FLAGS):
        actual = call.values[name][last_ends]
        if np.any(actual):
            message = (
                "in mode NextStep the step after an episode's end is its reset, without a reward "
                "or a flag"
            )
            raise call.make_failure(message, name, "0 or False there", format_value(actual))


def _require_ignored_action(subject: Subject) -> None:
    """Raises `Failed` if a step that is a reset, in mode ``NEXT_STEP``, uses its action."""
    if get_mode(subject.used) is not _NEXT:
        return
    actions = subject.actions(subject.used, subject.short_length)
    steps = select_steps(subject.first)[: len(actions)]
    subject.used.single_action_space.seed(subject.seed + 1)
    for t, call in enumerate(steps[:-1]):
        ended_envs = {int(i) for i in np.flatnonzero(call.ends)}
        actions[t + 1] = _replace_actions(subject.used, actions[t + 1], ended_envs)
    with subject.open() as envs:
        if difference := compare(subject.first, subject.record(envs, actions)):
            raise Failed(
                "in mode NextStep the step after an episode's end is its reset, whose action is "
                f"not used; another action leads to other results: {difference}"
            )


def seeds_of_each(subject: Subject) -> None:
    """With a single seed, sub-environments begin differently, as with one seed each."""
    seed, n = subject.seed, subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    with subject.open() as envs:
        require_no_running_statistics(envs)
        starts = _record_starts(envs, seed)
        _require_different_starts(starts, _record_starts(envs, seed + 1000))
        seeds = [seed + i for i in range(n)]
        try:
            starts_of_list = _record_starts(envs, seeds)
        except Exception as exc:  # a seed for each is not for every vector environment
            raise Skipped(f"reset() takes no list of seeds: {describe_error(exc)}") from exc
        require_same([seed + i for i in range(n)], seeds, "reset changes the caller's seeds")
        if difference := find_difference(starts_of_list, starts, "observation"):
            message = f"reset(seed={seed}) must seed environment i with {seed} + i"
            raise Failed(f"{message}, as a list of seeds does: {difference}")
        actions = subject.actions(envs, min(subject.length, _STEPS))
        if difference := compare(subject.first, subject.record(envs, actions, seed=seeds)):
            message = f"after reset(seed={seeds}), it returns something else than after the same"
            raise Failed(f"{message} seeds as reset(seed={seed}): {difference}")


def _record_starts(envs: Any, seed: Any) -> list[Any]:
    """The first observations of some episodes after a seed, for each environment."""
    batches = [copy.deepcopy(envs.reset(seed=seed)[0])]
    batches += [copy.deepcopy(envs.reset()[0]) for _ in range(_EPISODES)]
    rows = [iterate(envs.observation_space, batch) for batch in batches]
    return list(zip(*rows, strict=True))


def _require_different_starts(starts: list[Any], other_starts: list[Any]) -> None:
    """Raises `Failed` if two environments begin all episodes with the same observations.

    Args:
        starts: The result of `_record_starts`.
        other_starts: The same for another seed, which shows whose starts are random.
    """
    if same(starts, other_starts):
        raise Skipped("seeds change nothing at a reset")
    for i, j in itertools.combinations(range(len(starts)), 2):
        if same(starts[i], starts[j]) and not same(starts[i], other_starts[i]):
            message = "begin all episodes with the same: they have the same seed"
            raise Failed(f"environments {i} and {j} {message}")


def batch_size(subject: Subject) -> None:
    """A sub-environment returns the same for any number of environments."""
    if "num_envs" not in subject.takes:
        raise Skipped("num_envs is given, or its constructor does not take it")
    subject.require_repeatable()
    least = max(subject.num_envs, 2)
    recordings: list[list[Call]] = []
    for size in (least, 2 * least):
        try:
            envs = subject.make(num_envs=size)
        except Exception as exc:
            raise Skipped(f"num_envs={size} fails ({type(exc).__name__})") from exc
        with closing(envs):
            if envs.num_envs != size:
                raise Failed(f"num_envs={size} makes {envs.num_envs} environments")
            if hasattr(envs, "meta_batch_size"):
                raise Skipped("with another number of environments, each has other tasks")
            single = copy.deepcopy(envs.single_action_space)
            single.seed(0)
            batch = subject.record(envs, [batch_actions(single, [single.sample()] * size)] * _STEPS)
            calls = split_calls(envs, batch, 0)
            recordings.append(
                [dataclasses.replace(call, values=_select_values(call, [])) for call in calls]
            )
    if difference := compare(*recordings):
        message = f"environment 0 returns something else if there are {2 * least} and not {least}"
        raise Failed(f"{message}: {difference}")


def batch_actions(space: gymnasium.Space[Any], actions: list[Any]) -> Any:
    """Actions, one for each environment, in a batch."""
    empty: Any = create_empty_array(space, len(actions))
    return concatenate(space, actions, empty)


def independence(subject: Subject) -> None:
    """To the first end, what a sub-environment returns depends on its own actions only."""
    n = subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    with subject.open() as envs:
        if keeps_running_statistics(envs):
            raise Skipped("its running statistics are of all environments")
        envs.single_action_space.seed(subject.seed + 1)
        actions = subject.actions(envs, min(subject.length, _STEPS))
        for changed_envs in _make_separating_sets(n):
            changed_actions = [_replace_actions(envs, batch, changed_envs) for batch in actions]
            recording = subject.record(envs, changed_actions)
            # From there on, a generator that all share has drawn for others.
            first_end = _find_first_end(subject.first, recording)
            for i in {*range(n)} - changed_envs:
                expected = split_calls(envs, subject.first[:first_end], i)
                actual = split_calls(envs, recording[:first_end], i)
                if difference := compare(expected, actual):
                    raise Failed(
                        f"environment {i} returns something else if only other environments are "
                        "given other actions: actions, or what follows from them, reach the wrong "
                        f"environment: {difference}"
                    )


def _replace_actions(envs: Any, actions: Any, indices: Collection[int]) -> Any:
    """A batch of actions with new random ones for some environments."""
    space = envs.single_action_space
    return batch_actions(
        space,
        [
            space.sample() if i in indices else action
            for i, action in enumerate(iterate(envs.action_space, actions))
        ],
    )


def _find_first_end(recording: list[Call], other_recording: list[Call]) -> int | None:
    """The first call at which an episode ends in either recording, or None."""
    pairs = zip(recording, other_recording, strict=False)
    ends = (bool(np.any(call.ends | other_call.ends)) for call, other_call in pairs)
    return next((i for i, ended in enumerate(ends) if ended), None)


def _make_separating_sets(n: int) -> list[set[int]]:
    """Sets of environments: of any two, each is once in a set without the other one.

    A set has the numbers with a 1, or with a 0, in one binary digit: two numbers differ in one.
    """
    everyone = set(range(n))
    halves = [{i for i in everyone if i >> digit & 1} for digit in range((n - 1).bit_length())]
    return halves + [everyone - half for half in halves]


def partial_reset(subject: Subject) -> None:
    """In mode ``DISABLED`` a reset with a mask resets those alone, and leaves the caller's dict."""
    modes = [get_mode(envs) for envs, _ in subject.modes]
    if not all(isinstance(mode, AutoresetMode) for mode in modes):
        raise Skipped("see 'mode'")
    if _DISABLED not in modes:
        raise Skipped(f"its mode is {modes[0].value}")
    with subject.open(**_choose_mode(subject, _DISABLED)) as envs:
        n = envs.num_envs
        is_first, is_odd = np.arange(n) == 0, np.arange(n) % 2 == 1
        seeded_mask = is_odd if n > 1 else is_first
        options = _require_masked_reset(subject, envs, is_first, None)
        refusal = ""
        for seed in ([subject.seed + 1000 + 7 * i for i in range(n)], subject.seed + 1000):
            try:
                reset_of_all = _record_observations(subject, envs, seed=copy.copy(seed))
                _require_masked_reset(subject, envs, seeded_mask, seed, reset_of_all)
            except Failed:
                raise
            except Exception as exc:
                refusal = f"reset(seed={seed}), or with a mask, raises {describe_error(exc)}"
    if set(options) != {"reset_mask"}:
        raise Failed(
            "reset takes 'reset_mask' out of the caller's options: wrappers around it, such as "
            "RecordEpisodeStatistics, then take a reset of some for a reset of all"
        )
    if refusal:
        raise Skipped(refusal)


def _record_observations(subject: Subject, envs: Any, **kwargs: Any) -> list[list[Any]]:
    """The observations after a reset, and those after a step, of each environment."""
    observations = [copy.deepcopy(envs.reset(**kwargs)[0])]
    observations.append(copy.deepcopy(envs.step(subject.actions(envs, 1)[0])[0]))
    return [list(iterate(envs.observation_space, observation)) for observation in observations]


def _require_masked_reset(
    subject: Subject,
    envs: Any,
    mask: np.ndarray[Any, Any],
    seed: Any,
    reset_of_all: Sequence[list[Any]] = (),
) -> dict[str, Any]:
    """Checks a reset with a mask, and returns its options.

    Args:
        subject: What is checked.
        envs: Its vector environment.
        mask: Which environments are reset.
        seed: The seed of the reset, a list of seeds, or None.
        reset_of_all: The result of `_record_observations` for a reset of all with this seed.
    """
    envs.reset(seed=subject.seed)
    observation, _, *flags, _ = envs.step(subject.actions(envs, 1)[0])
    rows_before = list(iterate(envs.observation_space, copy.deepcopy(observation)))
    options, seeds = {"reset_mask": mask.copy()}, copy.copy(seed)
    # An environment whose episode has ended takes no step.
    if np.any(np.logical_or(*flags) & ~mask):
        observation, _ = envs.reset(seed=seeds, options=options)
        rows_after = [list(iterate(envs.observation_space, observation))]
    else:
        rows_after = _record_observations(subject, envs, seed=seeds, options=options)
    name = f"a reset of environments {np.flatnonzero(mask).tolist()} with seed {seed}"
    for i in np.flatnonzero(~mask):
        if difference := find_difference(rows_before[i], rows_after[0][i], "observation"):
            message = "a reset with a mask changes environments that it should leave alone"
            raise Failed(f"{message}: {name}, environment {i}, {difference}")
    for i in np.flatnonzero(mask):
        for step, (expected, actual) in enumerate(zip(reset_of_all, rows_after, strict=False)):
            if difference := find_difference(expected[i], actual[i], "observation"):
                message = "a reset with a mask gives environments other seeds than one of all"
                place = "" if not step else ", a step later"
                raise Failed(f"{message}: {name}, environment {i}{place}, {difference}")
    require_same(mask, options.get("reset_mask", mask), "reset changes the caller's mask")
    require_same(seed, seeds, "reset changes the caller's seeds")
    return options


def killed(subject: Subject) -> None:
    """A killed worker is detected; nothing hangs or is left behind."""
    with closing(subject.make()):
        if not multiprocessing.active_children():
            raise Skipped(
                "it has no worker processes; if it takes an argument for them, such as workers=2, "
                "pass it as kwargs, on the command line --kwargs '{\"workers\": 2}'"
            )
    if start_method() == "forkserver":
        raise Skipped("this process cannot fork, since it has threads or OpenGL is loaded")

    def kill() -> bool:
        envs = subject.make()
        envs.reset(seed=subject.seed)
        first = min(child.pid or 0 for child in multiprocessing.active_children())
        os.kill(first, signal.SIGKILL)
        with contextlib.suppress(Exception):
            for action in subject.actions(envs, 3):
                envs.step(action)
        with contextlib.suppress(Exception):
            envs.close()
        return not wait_until_gone(multiprocessing.active_children)

    try:
        require(
            call_in_fork(kill, _KILL_TIMEOUT), "after a worker was killed, close() leaves processes"
        )
    except TimeoutError:
        message = f"step() or close() hangs (waited {_KILL_TIMEOUT:.0f} s)"
        raise Failed(f"after a worker was killed, {message}") from None


# The contract of `mtwrappers.MetaVectorEnv`, which extends `SyncVectorEnv`'s.


def attributes(subject: Subject) -> None:
    """Its mode, spaces and sizes equal `SyncVectorEnv`'s, with tasks of equal size."""
    envs = subject.given_env
    names = ["num_envs", "observation_space", "action_space"]
    names += ["single_observation_space", "single_action_space"]
    require_same(subject.mode, get_mode(envs), "metadata['autoreset_mode']")
    with closing(SyncVectorEnv(get_makers(subject), autoreset_mode=subject.mode)) as sync:
        for name in ("autoreset_mode", *names):
            require_same(getattr(sync, name), getattr(envs, name), name)
    m, k = envs.meta_batch_size, envs.envs_per_task
    require(m * k == envs.num_envs, f"{m} tasks times {k} environments must be {envs.num_envs}")


def as_its_makers(subject: Subject) -> None:
    """It returns exactly what Gymnasium's `SyncVectorEnv` returns, with a seed and with a list."""
    seeds = [subject.seed * 7 + 3 * i for i in range(subject.num_envs)]
    _require_same_as_makers(subject, seeds, subject.record(subject.given_env, seed=seeds))
    _require_same_as_makers(subject, subject.seed, subject.first)


def _require_same_as_makers(subject: Subject, seed: int | list[int], calls: list[Call]) -> None:
    """Compares calls after ``reset(seed=seed)`` with `SyncVectorEnv` of the constructors."""
    makers, mode = get_makers(subject), subject.mode
    _, expected = _record_sync(subject, makers, mode, subject.steps, seed=seed)
    _require_equal(expected, calls, type(subject.given_env).__name__, mode)
