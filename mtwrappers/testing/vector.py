"""Checks in and of vector environments, most of them comparisons with Gymnasium's `SyncVectorEnv`.

An environment is checked inside vector environments. Of a vector environment, the constructors of
its sub-environments are those that the user gives, or that `SyncVectorEnv` and `AsyncVectorEnv`
keep as ``env_fns``.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from contextlib import closing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from mtwrappers.common.errors import full_message
from mtwrappers.testing.processes import guarded, still_there
from mtwrappers.testing.recording import (
    FLAGS,
    NO_KEY,
    RAISED,
    Call,
    Failed,
    Skipped,
    Subject,
    calls_of,
    compare,
    drop_repeats,
    find,
    learns,
    mode_of,
    require,
    require_same,
    said,
    same,
    steps_of,
    text_of,
)
from mtwrappers.testing.rules import changes_rewards
from mtwrappers.vector import processes
from mtwrappers.vector.make import MetaParallelEnvExecutor

_SAME, _NEXT, _DISABLED = (
    AutoresetMode.SAME_STEP,
    AutoresetMode.NEXT_STEP,
    AutoresetMode.DISABLED,
)
# Episodes are cut after 7, 10, ... steps, but for those of the last environment.
_FIRST_LIMIT, _LATER = 7, 3
# How many steps are compared; in mode SAME_STEP as many as alone, to the ends of whole episodes.
_STEPS = 40
# How many more episodes show which environments have the same seed.
_EPISODES = 20
# The seconds after which a silent worker, or a step with a killed one, counts as hung.
_TIMEOUT, _HANGS = 60.0, 20.0
# After how many seconds a process that does not start has failed to.
_STARTS = 60.0
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


def of_sync(subject: Subject, mode: AutoresetMode) -> tuple[Any, list[Call]]:
    """Gymnasium's `SyncVectorEnv` in a mode, closed, and its recording."""
    if mode not in subject.kept:
        steps = max(_STEPS, subject.length) if mode is _SAME else _STEPS
        subject.kept[mode] = _record_sync(subject, mode, steps)
    return subject.kept[mode]


def _record_sync(
    subject: Subject, mode: AutoresetMode, steps: int, **seed: Any
) -> tuple[Any, list[Call]]:
    with closing(SyncVectorEnv(makers(subject), autoreset_mode=mode)) as envs:
        return envs, subject.record(envs, subject.actions(envs, steps), **seed)


def autoreset(subject: Subject) -> None:
    """In each mode a sub-environment returns the same as alone, where no other exists beside it."""
    subject.require_repeatable()
    for mode in AutoresetMode:
        envs, batch = of_sync(subject, mode)
        given = subject.actions(envs, len(steps_of(batch)))
        each = [list(iterate(envs.action_space, action)) for action in given]
        for i, make in enumerate(makers(subject)):
            calls = calls_of(envs, batch, i)
            at = {call.what for call in calls if call.is_step}
            taken = [actions[i] for t, actions in enumerate(each) if f"step {t}" in at]
            with closing(make()) as env:
                found = subject.record(env, taken, seed=subject.seed + i)
            for call, expected in zip(calls, found, strict=False):
                info = expected.values["info"]  # of which batches keep what is a number
                numbers = [key for key, x in info.items() if type(x) in (bool, int, float)]
                if differs := find(_only(expected, numbers), _only(call, numbers), loose=True):
                    says = f"in a vector environment, in mode {mode.value}, it returns other values"
                    raise Failed(f"{says}: environment {i}, {call.what}, {differs}")


def _only(call: Call, keys: list[str]) -> dict[str, Any]:
    """The values of a call with some of its infos."""
    info = call.values["info"]
    return {**call.values, "info": {key: info[key] for key in keys if key in info}}


def start_method() -> str:
    """Returns the start method of workers: ours, but no fork if OpenGL is loaded."""
    return "forkserver" if "OpenGL" in sys.modules else processes.start_method(replaces=False)


@functools.cache
def can_start(method: str) -> bool:
    """Whether a worker can start; unless forked, it imports the main module first."""
    if method == "fork":
        return True
    context: Any = multiprocessing.get_context(method)
    try:
        process = context.Process(target=os.getpid, daemon=True)
        process.start()
        process.join(_STARTS)
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
    (_, expected), made = of_sync(subject, mode), makers(subject)
    kwargs |= {"timeout": _TIMEOUT, "context": start_method(), "autoreset_mode": mode}
    with closing(MetaParallelEnvExecutor(made, len(made), workers=2, **kwargs)) as envs:
        steps = itertools.count()

        def step(actions: Any) -> Any:
            if next(steps) in kills:
                os.kill(envs.worker_pids[0], signal.SIGKILL)
            return envs.step(actions)

        given = subject.actions(envs, len(steps_of(expected)))
        got = subject.record(envs, given, step=step)
    _require_equal(expected, got, "2 workers", mode)


def _require_equal(expected: list[Call], got: list[Call], what: str, mode: AutoresetMode) -> None:
    if found := compare(expected, got):
        raise Failed(f"{what} and SyncVectorEnv differ in mode {mode.value}: {found}")


def workers(subject: Subject) -> None:
    """Our executor with two workers returns exactly what `SyncVectorEnv` returns."""
    subject.require_repeatable()
    for mode in AutoresetMode:
        try:
            _require_same_in_workers(subject, mode)
        except (Failed, Skipped):
            raise
        except RAISED as exc:
            raise Failed(f"in workers it fails in mode {mode.value}: {said(exc)}") from exc


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


def as_sync(subject: Subject) -> None:
    """It returns what `SyncVectorEnv` of its constructors returns, but for what wrappers change."""
    subject.require_repeatable()
    compared = False
    for envs, recording in subject.modes:
        base, mode = envs.unwrapped, mode_of(envs)
        constructors = _constructors(base)
        if envs.action_space != base.action_space:
            raise Skipped("its wrappers change actions")
        observations = getattr(base, "observation_mode", "same")
        made = SyncVectorEnv(constructors, autoreset_mode=mode, observation_mode=observations)
        with closing(made) as sync:
            expected = subject.record(sync)
        ignored = {"reward"} if changes_rewards(envs) else set()
        for i in range(subject.num_envs):
            pair = calls_of(sync, expected, i), calls_of(envs, recording, i)
            compared |= _passes_on(*pair, i, mode, ignored)
    if not compared:
        raise Skipped("its wrappers change all that it returns")


def _constructors(base: Any) -> list[Callable[[], Any]]:
    """The constructors of a vector environment's sub-environments, or raises `Skipped`."""
    makers = getattr(base, "env_fns", None)
    if isinstance(makers, Sequence):
        return list(makers)
    # `gymnasium.make_vec` gives an iterator, which is used up; the specs are still there.
    specs = [env.spec for env in getattr(base, "envs", ())] if makers is not None else []
    if not specs or None in specs:
        raise Skipped("the constructors of its sub-environments are not known")
    return [functools.partial(gymnasium.make, spec) for spec in specs]


def _passes_on(
    expected: list[Call], got: list[Call], i: int, mode: AutoresetMode, ignored: set[str]
) -> bool:
    """Compares all values but those ignored; returns whether more than flags were compared.

    What differs before the first episode ends is what wrappers change; what they pass on there
    they have to pass on everywhere.
    """
    pairs = [(_flat(one), _flat(other)) for one, other in zip(expected, got, strict=False)]
    first_end = next((c for c, call in enumerate(expected) if call.ends), len(expected))
    inner = [(k, v, other.get(k)) for one, other in pairs[:first_end] for k, v in one.items()]
    changed = {name for name, value, other in inner if not same(value, other)}
    passed = {name for name, *_ in inner} - changed - ignored
    for call, actual, flat in zip(expected, got, pairs, strict=False):
        if actual.is_step != call.is_step or actual.ends != call.ends:
            break  # wrappers end episodes elsewhere
        names = [name for name in (*FLAGS, *sorted(passed)) if name in flat[0]]
        left, right = ({k: each[k] for k in names if k in each} for each in flat)
        if found := find(left, right):
            end = " at an episode's end, as in final_obs and final_info" if call.ends else ""
            says = f"it and SyncVectorEnv differ in mode {mode.value}{end}"
            raise Failed(f"{says}: environment {i}, {call.what}, {found}")
    return not passed <= {*FLAGS}


def _flat(call: Call) -> dict[str, Any]:
    """The values of a call and its infos, by their names."""
    values = {key: value for key, value in call.values.items() if key != "info"}
    return {**values, **{f"info[{k!r}]": value for k, value in call.values["info"].items()}}


# A vector environment: direct checks.


def masks(subject: Subject) -> None:
    """Each key of the infos has a mask of the environments that reported it."""
    subject.require_types()
    for _, recording in subject.modes:
        for call in recording:
            _masked(call, call.values["info"], "info", subject.num_envs)


def _masked(call: Call, infos: dict[Any, Any], place: str, n: int) -> None:
    for key, value in infos.items():
        if str(key).startswith("_"):
            continue
        mask = infos.get(f"_{key}", NO_KEY)
        if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != bool:
            says = (
                f"infos have values of {key!r}, but no mask that says which environments gave them"
            )
            raise call.fault(says, f"{place}['_{key}']", f"an array of {n} bools", text_of(mask))
        if key == "final_info" and isinstance(value, dict):
            _masked(call, value, "info['final_info']", n)


def mode(subject: Subject) -> None:
    """Final observations and infos are there if and only if an episode ended, as the mode says."""
    subject.require_types()
    n, ended = subject.num_envs, False
    for envs, recording in subject.modes:
        declared = mode_of(envs)
        if not isinstance(declared, AutoresetMode):
            says = "metadata['autoreset_mode'] must say when an environment is reset"
            raise Failed(f"{says}, expected an AutoresetMode, got {text_of(declared)}")
        last: Any = np.zeros(n, bool)
        for call in steps_of(recording):
            info, ends = call.values["info"], call.ends
            ended |= bool(ends.any())
            for key in ("final_obs", "final_info"):
                value, there = info.get(key), info.get(f"_{key}", np.zeros(n, bool))
                if isinstance(value, np.ndarray) and value.dtype.hasobject:
                    there = there | [each is not None for each in value]
                needed = ends if key == "final_obs" and declared is _SAME else there & ends
                if found := find(needed, there, f"info['_{key}']"):
                    says = "the infos have a value if and only if an episode ended"
                    raise Failed(f"{says}: {call.at(found)}")
            for name in ("reward", *FLAGS) if declared is _NEXT else ():
                if np.any(got := call.values[name][last]):
                    says = "in mode NextStep the step after an episode's end is its reset, without"
                    says += " a reward or a flag"
                    raise call.fault(says, name, "0 or False there", text_of(got))
            last = ends
    if not ended:
        raise Skipped(f"no episode ended within {subject.length} steps")
    if subject.repeats:
        _require_ignored_action(subject)
        _require_new_starts(subject)


def _require_ignored_action(subject: Subject) -> None:
    """Raises `Failed` if a step that is a reset, in mode ``NEXT_STEP``, uses its action."""
    if mode_of(subject.used) is not _NEXT:
        return
    actions = subject.actions(subject.used, subject.short_length)
    steps = steps_of(subject.first)[: len(actions)]
    space, single = subject.used.action_space, subject.spaces["single_action_space"]
    single.seed(subject.seed + 1)
    for t, call in enumerate(steps[:-1]):
        rows = enumerate(iterate(space, actions[t + 1]))
        changed = [single.sample() if call.ends[i] else action for i, action in rows]
        actions[t + 1] = batched(single, changed)
    with subject.open() as envs:
        if difference := compare(subject.first, subject.record(envs, actions)):
            raise Failed(
                "in mode NextStep the step after an episode's end is its reset, whose action is "
                f"not used; another action leads to other results: {difference}"
            )


def _require_new_starts(subject: Subject) -> None:
    """Raises `Failed` if all episodes that autoreset begins are one, and those of reset are not."""
    if mode_of(subject.used) is _DISABLED:
        return
    every = [calls_of(subject.used, subject.first, i) for i in range(subject.num_envs)]
    starts = [[c.values["observation"] for c in calls if not c.is_step][1:] for calls in every]
    repeated = [i for i, begun in enumerate(starts) if begun[1:] and not drop_repeats(begun)[1:]]
    if not repeated:
        return
    with subject.open() as envs:
        resets = [subject.record(envs, [], seed=seed) for seed in (subject.seed, *[None] * 4)]
    for i in repeated:
        others = [calls_of(subject.used, reset, i)[0].values["observation"] for reset in resets]
        if len(drop_repeats(others)) == len(others):
            raise Failed(
                f"environment {i} begins all {len(starts[i])} episodes after an autoreset with "
                f"{text_of(starts[i][0])}, although those after reset() differ"
            )


def seeds_of_each(subject: Subject) -> None:
    """With a single seed, sub-environments begin differently, as with one seed each."""
    seed, n = subject.seed, subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    with subject.open() as envs:

        def begins(given: Any) -> list[Any]:
            """The first observations of some episodes, for each environment."""
            every = [copy.deepcopy(envs.reset(seed=given)[0])]
            every += [copy.deepcopy(envs.reset()[0]) for _ in range(_EPISODES)]
            return [*zip(*(iterate(envs.observation_space, obs) for obs in every), strict=True)]

        one, another = begins(seed), begins(seed + 1000)
        seeds = [seed + i for i in range(n)]
        try:
            listed, refusal = begins(seeds), ""
        except Exception as exc:  # a seed for each is not for every vector environment
            listed, refusal = one, f"reset() takes no list of seeds: {said(exc)}"
        if not refusal:
            require_same([seed + i for i in range(n)], seeds, "reset changes the caller's seeds")
            actions = subject.actions(envs, min(subject.length, _STEPS))
            difference = compare(subject.first, subject.record(envs, actions, seed=seeds))
    if same(one, another):
        raise Skipped("seeds change nothing at a reset")
    for i, j in itertools.combinations(range(n), 2):
        if same(one[i], one[j]) and not same(one[i], another[i]):
            says = "begin all episodes with the same: they have the same seed"
            raise Failed(f"environments {i} and {j} {says}")
    if found := find(listed, one, "observation"):
        says = f"reset(seed={seed}) must seed environment i with {seed} + i, as a list of seeds"
        raise Failed(f"{says} does: {found}")
    if refusal:
        raise Skipped(refusal)
    if difference:
        message = f"after reset(seed={seeds}), it returns something else than after the same seeds"
        raise Failed(f"{message} as reset(seed={seed}): {difference}")


def batch_size(subject: Subject) -> None:
    """A sub-environment returns the same for any number of environments."""
    if "num_envs" not in subject.takes:
        raise Skipped("its constructor takes no num_envs")
    subject.require_repeatable()
    least = max(subject.num_envs, 2)
    made: list[list[Call]] = []
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
            batch = subject.record(envs, [batched(single, [single.sample()] * size)] * _STEPS)
            calls = calls_of(envs, batch, 0)
            made.append([call._replace(values=_only(call, [])) for call in calls])
    if found := compare(*made):
        says = f"environment 0 returns something else if there are {2 * least} and not {least}"
        raise Failed(f"{says}: {found}")


def batched(space: gymnasium.Space[Any], each: list[Any]) -> Any:
    """Actions, one for each environment, in a batch."""
    empty: Any = create_empty_array(space, len(each))
    return concatenate(space, each, empty)


def independence(subject: Subject) -> None:
    """To the first end, what a sub-environment returns depends on its own actions only."""
    n = subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    with subject.open() as envs:
        if learns(envs):
            raise Skipped("its running statistics are of all environments")
        space, single = envs.action_space, envs.single_action_space
        single.seed(subject.seed + 1)
        given = subject.actions(envs, min(subject.length, _STEPS))
        # Of two environments, the actions of each are once changed while the other's are not.
        halves = [{i for i in range(n) if i >> bit & 1} for bit in range((n - 1).bit_length())]
        for chosen in [*halves, *({*range(n)} - half for half in halves)]:
            others = []
            for action in given:
                each = enumerate(iterate(space, action))
                parts = [single.sample() if i in chosen else a for i, a in each]
                others.append(batched(single, parts))
            pair = subject.first, subject.record(envs, others)
            # From there on, a generator that all share has drawn for others.
            both = enumerate(zip(*pair, strict=False))
            ended = next((c for c, (a, b) in both if np.any(a.ends | b.ends)), None)
            for i in {*range(n)} - chosen:
                one, other = (calls_of(envs, calls[:ended], i) for calls in pair)
                if found := compare(one, other):
                    raise Failed(
                        f"environment {i} returns something else if only other environments are "
                        "given other actions: actions, or what follows from them, reach the wrong "
                        f"environment: {found}"
                    )


def partial_reset(subject: Subject) -> None:
    """In mode ``DISABLED`` a reset with a mask resets those alone, and leaves the caller's dict."""
    modes = [mode_of(envs) for envs, _ in subject.modes]
    if _DISABLED not in modes:
        raise Skipped(f"its mode is {getattr(modes[0], 'value', modes[0])}")
    with subject.open(**({} if modes[0] is _DISABLED else {"autoreset_mode": _DISABLED})) as envs:
        n = envs.num_envs
        first, second = np.arange(n) == 0, np.arange(n) % 2 == min(1, n - 1)
        options = _require_masked_reset(subject, envs, first, None)
        refusal = ""
        for seed in ([subject.seed + 1000 + 7 * i for i in range(n)], subject.seed + 1000):
            try:
                whole = _begin(subject, envs, seed=copy.copy(seed))
                _require_masked_reset(subject, envs, second, seed, whole)
            except Failed:
                raise
            except Exception as exc:
                refusal = f"reset(seed={seed}), or with a mask, raises {said(exc)}"
    if set(options) != {"reset_mask"}:
        raise Failed(
            "reset takes 'reset_mask' out of the caller's options: wrappers around it, such as "
            "RecordEpisodeStatistics, then take a reset of some for a reset of all"
        )
    if refusal:
        raise Skipped(refusal)


def _begin(subject: Subject, envs: Any, **kwargs: Any) -> list[list[Any]]:
    """The observations after a reset, and those after a step, of each environment."""
    observations = [copy.deepcopy(envs.reset(**kwargs)[0])]
    observations.append(copy.deepcopy(envs.step(subject.actions(envs, 1)[0])[0]))
    return [list(iterate(envs.observation_space, observation)) for observation in observations]


def _require_masked_reset(
    subject: Subject, envs: Any, mask: np.ndarray[Any, Any], seed: Any, whole: Any = ()
) -> dict[str, Any]:
    """Checks a reset with a mask, and returns its options.

    Args:
        subject: What is checked.
        envs: Its vector environment.
        mask: Which environments are reset.
        seed: The seed of the reset, a list of seeds, or None.
        whole: What `_begin` returned of a reset of all with this seed.
    """
    envs.reset(seed=subject.seed)
    observation, _, *flags, _ = envs.step(subject.actions(envs, 1)[0])
    before = list(iterate(envs.observation_space, copy.deepcopy(observation)))
    options, seeds = {"reset_mask": mask.copy()}, copy.copy(seed)
    # An environment whose episode has ended takes no step.
    if np.any(np.logical_or(*flags) & ~mask):
        observation, _ = envs.reset(seed=seeds, options=options)
        after = [list(iterate(envs.observation_space, observation))]
    else:
        after = _begin(subject, envs, seed=seeds, options=options)
    what = f"a reset of environments {np.flatnonzero(mask).tolist()} with seed {seed}"
    for i in np.flatnonzero(~mask):
        if difference := find(before[i], after[0][i], "observation"):
            message = "a reset with a mask changes environments that it should leave alone"
            raise Failed(f"{message}: {what}, environment {i}, {difference}")
    for i in np.flatnonzero(mask) if whole else ():
        for step, (expected, actual) in enumerate(zip(whole, after, strict=False)):
            if difference := find(expected[i], actual[i], "observation"):
                message = "a reset with a mask gives environments other seeds than one of all"
                place = "" if not step else ", a step later"
                raise Failed(f"{message}: {what}, environment {i}{place}, {difference}")
    require_same(mask, options.get("reset_mask", mask), "reset changes the caller's mask")
    require_same(seed, seeds, "reset changes the caller's seeds")
    return options


def killed(subject: Subject) -> None:
    """A killed worker is detected; nothing hangs or is left behind."""
    with closing(subject.make()):
        if not multiprocessing.active_children():
            raise Skipped("it has no worker processes")
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
        return not still_there(multiprocessing.active_children)

    try:
        require(guarded(kill, _HANGS), "after a worker was killed, close() leaves processes")
    except TimeoutError:
        says = f"step() or close() hangs (waited {_HANGS:.0f} s)"
        raise Failed(f"after a worker was killed, {says}") from None


# The contract of `mtwrappers.MetaVectorEnv`, which extends `SyncVectorEnv`'s.


def attributes(subject: Subject) -> None:
    """Its mode, spaces and sizes equal `SyncVectorEnv`'s, with tasks of equal size."""
    ours = subject.given
    names = ["num_envs", "observation_space", "action_space"]
    names += ["single_observation_space", "single_action_space"]
    require_same(subject.mode, mode_of(ours), "metadata['autoreset_mode']")
    with closing(SyncVectorEnv(makers(subject), autoreset_mode=subject.mode)) as sync:
        for name in ("autoreset_mode", *names):
            require_same(getattr(sync, name), getattr(ours, name), name)
    m, k = ours.meta_batch_size, ours.envs_per_task
    require(m * k == ours.num_envs, f"{m} tasks times {k} environments must be {ours.num_envs}")


def as_its_makers(subject: Subject) -> None:
    """It returns exactly what Gymnasium's `SyncVectorEnv` returns, with a seed and with a list."""
    ours, mode, seed = subject.given, subject.mode, subject.seed
    each = [seed * 7 + 3 * i for i in range(subject.num_envs)]
    for given, got in ((each, subject.record(ours, seed=each)), (seed, subject.first)):
        _, expected = _record_sync(subject, mode, subject.steps, seed=given)
        _require_equal(expected, got, type(ours).__name__, mode)
