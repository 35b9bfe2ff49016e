"""Checks in and of vector environments, most of them comparisons with Gymnasium's `SyncVectorEnv`.

An environment is checked inside vector environments. Of a vector environment, the constructors of
its sub-environments are those that the user gives, or that `SyncVectorEnv` and `AsyncVectorEnv`
keep as ``env_fns``.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, create_shared_memory, iterate

from mtwrappers.common.errors import full_message
from mtwrappers.testing.processes import all_gone, can_start, children, guarded, start_method
from mtwrappers.testing.recording import (
    Call,
    Recording,
    compare,
    difference,
    find,
    mode_of,
    record,
    recorded,
    same,
    text_of,
    without,
)
from mtwrappers.testing.report import RAISED, Failed, Skipped, fault, require, said
from mtwrappers.testing.subject import Subject, learns
from mtwrappers.testing.values import calls_of
from mtwrappers.vector.make import MetaIterativeEnvExecutor, MetaParallelEnvExecutor

_SAME, _NEXT, _DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)
# Episodes are cut after 7, 10, ... steps, but for those of the last environment.
_FIRST_LIMIT, _LATER = 7, 3
# How many steps are compared; in mode SAME_STEP as many as alone, to the ends of whole episodes.
_STEPS = 40
# The seconds after which a silent worker, or a step with a killed one, counts as hung.
_TIMEOUT, _HANGS = 60.0, 20.0
# Before which steps a worker is killed that is replaced.
_KILLED_AT = (11, 25)


# An environment in vector environments.


def makers(subject: Subject) -> list[Callable[[], Any]]:
    """Returns a constructor per sub-environment; all but the last have another time limit."""
    if subject.makers:
        return list(subject.makers)
    limits = [_FIRST_LIMIT + _LATER * i for i in range(subject.num_envs - 1)]
    return [*(functools.partial(_limited, subject.make, n) for n in limits), subject.make]


def _limited(make: Callable[[], Any], steps: int) -> Any:
    return gymnasium.wrappers.TimeLimit(make(), steps)


def of_sync(subject: Subject, mode: AutoresetMode) -> Recording:
    """The recording of Gymnasium's `SyncVectorEnv` in a mode."""
    if mode not in subject.kept:
        subject.kept[mode] = _record_sync(subject, mode, _steps_in(subject, mode), subject.seed)
    found: Recording = subject.kept[mode]
    return found


def _steps_in(subject: Subject, mode: AutoresetMode) -> int:
    return max(_STEPS, subject.length) if mode is _SAME else _STEPS


def _record_sync(subject: Subject, mode: AutoresetMode, steps: int, seed: Any) -> Recording:
    with closing(SyncVectorEnv(makers(subject), autoreset_mode=mode)) as envs:
        return record(envs, subject.actions(envs, steps), seed)


def alone(mode: AutoresetMode, subject: Subject) -> str:
    """Each sub-environment returns the same as alone, where no other exists beside it."""
    subject.require_repeatable()
    batch = of_sync(subject, mode)
    with closing(SyncVectorEnv(makers(subject))) as envs:
        given = subject.actions(envs, _steps_in(subject, mode))
        space, n = envs.observation_space, envs.num_envs
        each = [list(iterate(envs.action_space, action)) for action in given]
    ends = 0
    for i, make in enumerate(makers(subject)):
        calls = calls_of(batch, i, n, space, mode)
        at = {call.what for call in calls if call.is_step}
        taken = [actions[i] for t, actions in enumerate(each) if f"step {t}" in at]
        with closing(make()) as env:
            found = record(env, taken, subject.seed + i).calls
        for call, expected in zip(calls, found, strict=False):
            left, right = ({**without(c.values, subject.ignore)} for c in (expected, call))
            numbers = [key for key, x in left["info"].items() if type(x) in (bool, int, float)]
            for values in (left, right):  # batches keep of infos what is a number
                info = values["info"]
                values["info"] = {key: info[key] for key in numbers if key in info}
            if found_at := find(left, right, loose=True):
                where = replace(difference(found_at, call.what, False), env=i)
                raise Failed("in a vector environment it returns other values", where)
            ends += int(call.is_step and call.ends)
    return f"{n} environments return what each does by itself, over {ends} ends of episodes"


def agrees(
    make: Callable[..., Any],
    what: str,
    subject: Subject,
    modes: Sequence[AutoresetMode] = tuple(AutoresetMode),
) -> str:
    """A vector environment returns exactly what Gymnasium's `SyncVectorEnv` returns."""
    subject.require_repeatable()
    for mode in modes:
        expected = of_sync(subject, mode)
        try:
            with closing(make(makers(subject), autoreset_mode=mode)) as envs:
                steps = len(expected.steps)
                got = record(envs, subject.actions(envs, steps), subject.seed)
        except RAISED as exc:
            raise Failed(f"{what} fails in mode {mode.value}: {said(exc)}") from exc
        _require_equal(subject, expected, got, what, mode)
    names = ", ".join(mode.value for mode in modes)
    return f"{len(of_sync(subject, modes[-1]).steps)} steps or more in {names}: identical results"


def _require_equal(
    subject: Subject, expected: Recording, got: Recording, what: str, mode: AutoresetMode
) -> None:
    if found := subject.differ(expected, got, True):
        raise Failed(f"{what} and SyncVectorEnv differ in mode {mode.value}", found)


def _require_workers(subject: Subject) -> None:
    """Raises `Skipped` if no worker can start, which is no fault of the environment."""
    if "workers start" not in subject.kept:
        subject.kept["workers start"] = can_start()
        if not subject.kept["workers start"]:
            raise Skipped(
                "no worker process can start: each imports the main module again, so run the check "
                "below `if __name__ == '__main__':`, in a file"
            )
    if not subject.kept["workers start"]:
        raise Skipped("see 'sync = async'")


def _in_workers(makers: list[Callable[[], Any]], **kwargs: Any) -> Any:
    workers = min(2, len(makers))
    return MetaParallelEnvExecutor(
        makers, len(makers), workers=workers, timeout=_TIMEOUT, context=start_method(), **kwargs
    )


class _Async(AsyncVectorEnv):
    """Gymnasium's, but it does not wait forever for a worker that has ended."""

    def reset_wait(self, timeout: float | None = None) -> Any:
        return super().reset_wait(timeout or _HANGS)

    def step_wait(self, timeout: float | None = None) -> Any:
        return super().step_wait(timeout or _HANGS)

    def close_extras(self, timeout: float | None = None, terminate: bool = False) -> None:
        alive = all(process.is_alive() for process in self.processes)
        super().close_extras(timeout, terminate or not alive)


def gymnasium_async(subject: Subject) -> str:
    """Gymnasium's `AsyncVectorEnv` agrees with its `SyncVectorEnv`."""
    _require_workers(subject)
    try:
        create_shared_memory(subject.spaces["observation_space"])
        shared = True
    except gymnasium.error.CustomSpaceError:
        shared = False
    make = functools.partial(_Async, shared_memory=shared, context=start_method())
    says = agrees(make, "AsyncVectorEnv", subject)
    return says if shared else f"{says}; only with shared_memory=False"


def ours(subject: Subject) -> str:
    """Our executor in one process agrees with `SyncVectorEnv`."""

    def make(makers: list[Callable[[], Any]], **kwargs: Any) -> Any:
        return MetaIterativeEnvExecutor(makers, len(makers), **kwargs)

    return agrees(make, "MetaIterativeEnvExecutor", subject)


def two_workers(subject: Subject) -> str:
    """Our executor with two workers agrees with `SyncVectorEnv`."""
    _require_workers(subject)
    return agrees(_in_workers, "MetaParallelEnvExecutor with 2 workers", subject)


def killed_worker(subject: Subject) -> str:
    """If a worker of an environment is killed, a new one gives identical results."""
    subject.require_repeatable()
    _require_workers(subject)
    if compare(subject.first, subject.again, False):
        raise Skipped("a lost worker is replaced only where all infos repeat, ignored or not")
    with closing(
        _in_workers(makers(subject), autoreset_mode=_NEXT, on_worker_failure="recover")
    ) as envs:
        steps = iter(range(_STEPS))

        def step(actions: Any) -> Any:
            if next(steps) in _KILLED_AT:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            return envs.step(actions)

        try:
            got = record(envs, subject.actions(envs, _STEPS), subject.seed, step=step)
        except Exception as exc:
            raise Failed(
                "a lost worker cannot be replaced: what an environment keeps between episodes is "
                "neither in its np_random nor in get_state() and set_state() "
                f"({type(exc).__name__}: {full_message(exc)})"
            ) from exc
    if found := subject.differ(of_sync(subject, _NEXT), got, True):
        raise Failed("after a worker was killed and replaced, the environments differ", found)
    return f"{len(_KILLED_AT)} killed and replaced, with identical results"


# A vector environment: a comparison with the same constructors.


def as_sync(subject: Subject) -> str:
    """It returns what `SyncVectorEnv` of its constructors returns, but for what wrappers change."""
    subject.require_repeatable()
    ends, compared = 0, set[str]()
    for mode, recording in subject.modes:
        kwargs = {"autoreset_mode": mode} if mode is not subject.modes[0][0] else {}
        with subject.open(**kwargs) as envs:
            base = envs.unwrapped
            constructors = getattr(base, "env_fns", None)
            if constructors is None:
                raise Skipped("the constructors of its sub-environments are not known")
            if envs.action_space != base.action_space:
                raise Skipped("its wrappers change actions")
            observations = getattr(base, "observation_mode", "same")
            given = subject.actions(envs, len(recording.steps))
        made = SyncVectorEnv(constructors, autoreset_mode=mode, observation_mode=observations)
        with closing(made) as sync:
            expected = record(sync, given, subject.seed)
            spaces = sync.observation_space, subject.spaces["observation_space"]
        n = subject.num_envs
        for i in range(n):
            one = calls_of(expected, i, n, spaces[0], mode)
            other = calls_of(recording, i, n, spaces[1], mode)
            compared |= _require_passed_on(subject, one, other, i, mode)
        ends += sum(int(call.ends.sum()) for call in recording.steps)
    if not compared:
        raise Skipped("its wrappers change all that it returns")
    names = ", ".join(mode.value for mode, _ in subject.modes)
    return f"{names}: {', '.join(sorted(compared))} are the same, over {ends} ends of episodes"


def _require_passed_on(
    subject: Subject, expected: list[Call], got: list[Call], i: int, mode: AutoresetMode
) -> set[str]:
    """Compares flags, observations and infos; returns the names of what was compared.

    What differs before the first episode ends is what wrappers change; what they pass on there
    they have to pass on everywhere. Rewards are a wrapper's own affair.
    """
    pairs = [
        (_flat(subject, one), _flat(subject, other), one)
        for one, other in zip(expected, got, strict=False)
    ]
    inner = next((c for c, call in enumerate(expected) if call.ends), len(expected))
    names = {name for one, _, _ in pairs[:inner] for name in one}
    passed = {
        name
        for name in names
        if all(name not in a or same(a[name], b.get(name)) for a, b, _ in pairs[:inner])
    }
    for c, (one, other, call) in enumerate(pairs):
        if got[c].is_step != call.is_step or got[c].ends != call.ends:
            break  # wrappers end episodes elsewhere
        for name in ("terminated", "truncated", *sorted(passed)):
            if name not in one:
                continue
            there = {name: other[name]} if name in other else {}
            if found := find({name: one[name]}, there):
                where = replace(difference(found, call.what, False), env=i)
                end = " at an episode's end, in final_obs and final_info" if call.ends else ""
                raise Failed(f"it and SyncVectorEnv differ in mode {mode.value}{end}", where)
    return passed - {"terminated", "truncated"}


def _flat(subject: Subject, call: Call) -> dict[str, Any]:
    """The values of a call and its infos, without the reward, by their names."""
    values = dict(without(call.values, subject.ignore))
    info, _ = values.pop("info"), values.pop("reward", None)
    return {**values, **{f"info[{key!r}]": value for key, value in info.items()}}


# A vector environment: direct checks.


def as_declared(subject: Subject) -> str:
    """Final observations and infos are there if and only if an episode ended, as the mode says."""
    subject.require_types()
    n, ended = subject.num_envs, 0
    for mode, recording in subject.modes:
        if not isinstance(mode, AutoresetMode):
            says = "metadata['autoreset_mode'] must say when an environment is reset"
            name = "autoreset_mode"
            raise fault(says, "the metadata", name, "an AutoresetMode", text_of(mode))
        last: Any = np.zeros(n, bool)
        for call in recording.steps:
            info, ends = call.values["info"], call.ends
            ended += int(ends.sum())
            for key in ("final_obs", "final_info"):
                value, mask = info.get(key), info.get(f"_{key}", np.zeros(n, bool))
                objects = isinstance(value, np.ndarray) and value.dtype.hasobject
                there = mask | [objects and each is not None for each in value] if objects else mask
                for i in np.flatnonzero(there & ~ends).tolist():
                    says = f"the infos have a {key} where no episode ended"
                    raise fault(says, call.what, f"info[{key!r}][{i}]", "none", "a value", i)
                missing = ends & ~there if key == "final_obs" and mode is _SAME else ends & False
                for i in np.flatnonzero(missing).tolist():
                    says = "in mode SameStep the last observation must be in the infos"
                    raise fault(says, call.what, f"info[{key!r}][{i}]", "a value", "none", i)
            for name in ("reward", "terminated", "truncated") if mode is _NEXT else ():
                for i in np.flatnonzero(last & (call.values[name] != 0)).tolist():
                    raise fault(
                        "in mode NextStep the step after an episode's end is its reset, without a "
                        "reward or a flag",
                        *(call.what, f"{name}[{i}]", "0 or False", call.values[name][i], i),
                    )
            last = ends
    if not ended:
        raise Skipped(f"no episode ended within {subject.length} steps")
    names = ", ".join(mode.value for mode, _ in subject.modes)
    return f"{names}: {ended} ends of episodes according to the mode"


def sub_seeds(subject: Subject) -> str:
    """With a single seed, sub-environments begin differently, as with one seed each."""
    seed, n = subject.seed, subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    with subject.open() as envs:

        def begins(given: Any) -> list[Any]:
            return list(iterate(envs.observation_space, recorded(envs.reset(seed=given)[0])))

        one, another = begins(seed), begins(seed + 1000)
        listed = one
        with contextlib.suppress(Exception):  # a seed for each is not for every vector environment
            listed = begins([seed + i for i in range(n)])
    if same(one, another):
        raise Skipped("seeds change nothing at a reset")
    if all(same(one[0], other) for other in one[1:]):
        raise Failed(f"all {n} environments begin with the same: all have the same seed")
    if found := find(listed, one, ("observation",)):
        says = (
            f"reset(seed={seed}) must seed environment i with {seed} + i, as a list of seeds does"
        )
        raise Failed(says, difference(found, f"reset(seed={seed})", True))
    return f"environment i begins as with seed {seed} + i"


def sizes(subject: Subject) -> str:
    """A sub-environment returns the same for any number of environments."""
    if "num_envs" not in subject.takes:
        raise Skipped("its constructor takes no num_envs")
    subject.require_repeatable()
    least = max(subject.num_envs, 2)
    made: list[Recording] = []
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
            given = [batched(single, [single.sample()] * size)] * _STEPS
            batch, space = record(envs, given, subject.seed), envs.observation_space
            calls = calls_of(batch, 0, size, space, mode_of(envs))
            made.append(Recording([c._replace(values={**c.values, "info": {}}) for c in calls]))
    if found := subject.differ(made[0], made[1], False):
        says = f"environment 0 returns something else if there are {2 * least} and not {least}"
        raise Failed(says, found)
    return f"identical results of environment 0 in batches of {least} and {2 * least}"


def batched(space: gymnasium.Space[Any], each: list[Any]) -> Any:
    """Actions, one for each environment, in a batch."""
    empty: Any = create_empty_array(space, len(each))
    return concatenate(space, each, empty)


def independence(subject: Subject) -> str:
    """To the first end, what a sub-environment returns depends on its own actions only."""
    n = subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable(reused=True)
    obs_space = subject.spaces["observation_space"]
    with subject.open() as envs:
        if learns(envs):
            raise Skipped("its running statistics are of all environments")
        space, single, mode = envs.action_space, envs.single_action_space, mode_of(envs)
        single.seed(subject.seed + 1)
        given = subject.actions(envs, min(subject.length, _STEPS))
        each = [list(iterate(space, action)) for action in given]
        # Of two environments, the actions of each are once changed while the other's are not.
        halves = [{i for i in range(n) if i >> bit & 1} for bit in range((n - 1).bit_length())]
        for chosen in [*halves, *({*range(n)} - half for half in halves)]:
            others = [
                batched(single, [_other(single, a) if i in chosen else a for i, a in enumerate(x)])
                for x in each
            ]
            changed = record(envs, others, subject.seed)
            pair = subject.first.calls, changed.calls
            # From there on, a generator that all share has drawn for others.
            both = enumerate(zip(*pair, strict=False))
            ended = next((c for c, (a, b) in both if np.any(a.ends | b.ends)), None)
            for i in {*range(n)} - chosen:
                one, other = (
                    Recording(calls_of(Recording(calls[:ended]), i, n, obs_space, mode))
                    for calls in pair
                )
                if found := compare(one, other, False, subject.ignore, loose=True):
                    raise Failed(
                        f"environment {i} returns something else if only other environments are "
                        "given other actions: actions, or what follows from them, reach the wrong "
                        "environment",
                        replace(found, env=i),
                    )
    return f"what each of {n} environments returns does not depend on the others' actions"


def _other(space: Any, action: Any) -> Any:
    """Returns a different action, if the space has one."""
    samples = (space.sample() for _ in range(10))
    return next((each for each in samples if find(action, each, loose=True)), action)


def partial_reset(subject: Subject) -> str:
    """In mode ``DISABLED`` a reset with a mask resets those alone, and leaves the caller's dict."""
    with subject.open() as envs:
        declared = mode_of(envs)
    if declared is not _DISABLED and _DISABLED not in dict(subject.modes):
        raise Skipped(f"its mode is {getattr(declared, 'value', declared)}")
    with subject.open(**({} if declared is _DISABLED else {"autoreset_mode": _DISABLED})) as envs:
        options = {"reset_mask": np.arange(envs.num_envs) == 0}
        envs.reset(seed=subject.seed)
        obs = envs.step(subject.actions(envs, 1)[0])[0]
        before = list(iterate(envs.observation_space, recorded(obs)))
        after = list(iterate(envs.observation_space, envs.reset(options=options)[0]))
    if found := find(before[1:], after[1:], ("observation",)):
        says = "a reset with a mask changes environments that it should leave alone"
        raise Failed(says, difference(found, "a reset of environment 0", False))
    if set(options) != {"reset_mask"}:
        raise Failed(
            "reset takes 'reset_mask' out of the caller's options: wrappers around it, such as "
            "RecordEpisodeStatistics, then take a reset of some for a reset of all"
        )
    return "environment 0 is reset, the others and the options are left alone"


def killed(subject: Subject) -> str:
    """A killed worker is detected; nothing hangs or is left behind."""
    with closing(subject.make()):
        if not children():
            raise Skipped("it has no worker processes")
    if start_method() == "forkserver":
        raise Skipped("this process cannot fork, since it has threads or OpenGL is loaded")
    try:
        raised, seconds, left = guarded(lambda: _kill(subject), _HANGS)
    except TimeoutError:
        raise Failed(
            f"after a worker was killed, step() or close() hangs (waited {_HANGS:.0f} s)"
        ) from None
    if left:
        raise Failed(f"after a worker was killed, close() leaves {left} processes")
    return f"{raised} after {seconds:.1f} s, nothing left"


def _kill(subject: Subject) -> tuple[str, float, int]:
    before = children()
    envs = subject.make()
    envs.reset(seed=subject.seed)
    pids = children() - before
    actions = subject.actions(envs, 3)
    os.kill(min(pids), signal.SIGKILL)
    start, raised = time.perf_counter(), "it went on"
    try:
        for action in actions:
            envs.step(action)
    except Exception as exc:
        raised = f"step() raised {type(exc).__name__}"
    seconds = time.perf_counter() - start
    try:
        envs.close()
    except Exception as exc:
        raised += f", close() {type(exc).__name__}"
    return raised, seconds, 0 if all_gone(pids) else len(pids)


# The contract of `mtwrappers.MetaVectorEnv`, which extends `SyncVectorEnv`'s.


def attributes(subject: Subject) -> str:
    """Its mode, spaces and sizes equal `SyncVectorEnv`'s, with tasks of equal size."""
    ours, mode = subject.given, subject.mode
    declared = ours.autoreset_mode, ours.metadata.get("autoreset_mode")
    require(
        declared[0] is mode and declared[1] is mode,
        f"autoreset_mode must be {mode}, as an attribute and in metadata; got {declared[0]} and "
        f"{declared[1]}",
    )
    spaces = ("observation_space", "action_space")
    with closing(SyncVectorEnv(makers(subject), autoreset_mode=mode)) as sync:
        for name in ("num_envs", *spaces, *(f"single_{space}" for space in spaces)):
            expected, actual = getattr(sync, name), getattr(ours, name)
            require(actual == expected, f"{name} must be {expected}, got {actual}")
    m, k = ours.meta_batch_size, ours.envs_per_task
    require(m * k == ours.num_envs, f"{m} tasks times {k} environments must be {ours.num_envs}")
    return f"{m} tasks of {k} environments"


def as_its_makers(subject: Subject) -> str:
    """It returns exactly what Gymnasium's `SyncVectorEnv` returns, with a seed and with a list."""
    ours, mode, seed = subject.given, subject.mode, subject.seed
    each = [seed * 7 + 3 * i for i in range(subject.num_envs)]
    listed = record(ours, subject.actions(ours), each)
    for given, got in ((each, listed), (seed, subject.first)):
        expected = _record_sync(subject, mode, subject.steps, given)
        _require_equal(subject, expected, got, type(ours).__name__, mode)
    return f"{subject.steps} steps: identical results"
