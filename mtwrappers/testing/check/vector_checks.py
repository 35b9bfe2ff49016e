"""Checks of a vector environment, whoever wrote it."""

from __future__ import annotations

import copy
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector import AutoresetMode
from gymnasium.vector.utils import iterate

from mtwrappers.testing.check.env_checks import require_generators
from mtwrappers.testing.check.executor_checks import batched, first_row
from mtwrappers.testing.check.recording import (
    Call,
    Recording,
    difference,
    find,
    mode_of,
    record,
    recorded,
    show,
    steps_of,
)
from mtwrappers.testing.check.report import Difference, Failed, Skipped
from mtwrappers.testing.check.subject import Subject


def batched_types(subject: Subject) -> str:
    """Rewards are numbers, flags bools, each in an array of one per environment."""
    for call in subject.first.calls:
        if not isinstance(call.values["info"], dict):
            where = Difference(None, call.what, "info", "a dict", show(call.values["info"]))
            raise Failed("infos must be a dict", where)
    kinds = {"reward": "fiu", "terminated": "b", "truncated": "b"}  # of dtypes
    shape = (subject.num_envs,)
    for call in steps_of(subject.first):
        for name, kind in kinds.items():
            value = call.values[name]
            fits = isinstance(value, np.ndarray) and value.dtype.kind in kind
            if not fits or value.shape != shape:
                what = "bools" if kind == "b" else "numbers"
                expected = f"an array of {what}, of shape {shape}"
                actual = f"{type(value).__name__} {show(value)}"
                raise Failed(
                    "a value has the wrong type",
                    Difference(None, call.what, name, expected, actual),
                )
        for i in np.flatnonzero(~np.isfinite(call.values["reward"])):
            raise Failed("a reward is not finite", at(i, call, "reward", "a number"))
    require_generators(subject)
    return "rewards are finite numbers, flags are bools, one per environment"


def at(i: Any, call: Call, name: str, expected: str) -> Difference:
    """A value of environment ``i`` that is not as expected."""
    return Difference(int(i), call.what, f"{name}[{i}]", expected, show(call.values[name][i]))


def sub_seeds(subject: Subject) -> str:
    """With one seed, sub-environments begin differently, as with a seed for each."""
    seed, n = subject.seed, subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    each = [seed + i for i in range(n)]
    with closing(subject.make()) as envs:
        space = envs.observation_space
        one = list(iterate(space, recorded(envs.reset(seed=seed)[0])))
        other = list(iterate(space, recorded(envs.reset(seed=seed + 1000)[0])))
        try:
            listed = list(iterate(space, envs.reset(seed=each)[0]))
        except Exception:  # a seed for each is not for every vector environment
            listed = None
    if all(find(a, b) is None for a, b in zip(one, other, strict=True)):
        raise Skipped("seeds change nothing at a reset")
    if all(find(one[0], row) is None for row in one[1:]):
        raise Failed(
            f"all {n} environments begin alike after reset(seed={seed}), and elsewhere with "
            "another seed: all have the same seed"
        )
    if listed is not None and (found := find(listed, one, ("observation",))):
        row = found[0][1]
        raise Failed(
            f"reset(seed={seed}) must seed environment i with {seed} + i, as a list of seeds does",
            Difference(row, f"reset(seed={seed})", "observation", found[1], found[2]),
        )
    return f"environment i begins as with seed {seed} + i" if listed else "they begin differently"


def sizes(subject: Subject) -> str:
    """A sub-environment shows the same whatever the number of environments."""
    if "num_envs" not in subject.takes:
        raise Skipped("its constructor takes no num_envs")
    subject.require_repeatable()
    n = subject.num_envs
    made: dict[int, Recording] = {}
    shared = False
    for size in (max(n, 2), 2 * max(n, 2)):
        try:
            envs = subject.make(num_envs=size)
        except Exception as exc:
            raise Skipped(f"there are no {size} of it ({type(exc).__name__})") from exc
        with closing(envs):
            if envs.num_envs != size:
                raise Failed(f"num_envs={size} makes {envs.num_envs} environments")
            actions = [_repeated(envs)] * 20
            shared = hasattr(envs, "meta_batch_size")  # the tasks are shared out among them
            made[size] = first_row(record(envs, actions, subject.seed), envs.observation_space)
    small, large = made.values()
    if found := subject.differ(small, large, False):
        first, second = made
        if shared:
            raise Skipped(
                f"of {second} environments, environment 0 has other tasks than of {first}"
            )
        raise Failed(
            f"environment 0 shows something else if there are {second} and not {first}", found
        )
    return "environment 0 shows the same in batches of {} and {}".format(*made)


def _repeated(envs: Any) -> Any:
    """The same action for all environments, always the same."""
    single, n = copy.deepcopy(envs.single_action_space), envs.num_envs
    single.seed(0)
    return batched(single, [single.sample()] * n)


def modes(subject: Subject) -> list[tuple[AutoresetMode | None, Recording]]:
    """A recording in each autoreset mode that the vector environment has."""
    if "modes" in subject.kept:
        found: list[tuple[AutoresetMode | None, Recording]] = subject.kept["modes"]
        return found
    with closing(subject.make()) as envs:
        found = [(mode_of(envs), subject.first)]
    for other in AutoresetMode if "autoreset_mode" in subject.takes else ():
        if other is found[0][0]:
            continue
        try:
            envs = subject.make(autoreset_mode=other)
        except Exception:  # it need not have every mode
            continue
        with closing(envs):
            actions = subject.actions(envs, subject.length)
            found.append((other, record(envs, actions, subject.seed)))
    subject.kept["modes"] = found
    return found


def partial_reset(subject: Subject) -> str:
    """In mode ``DISABLED`` a reset with a mask resets those alone, and leaves the caller's dict."""
    mode = AutoresetMode.DISABLED
    with closing(subject.make()) as envs:
        declared = mode_of(envs)
    if declared is not mode and "autoreset_mode" not in subject.takes:
        raise Skipped(f"its mode is {getattr(declared, 'value', declared)}")
    kwargs = {} if declared is mode else {"autoreset_mode": mode}
    try:
        envs = subject.make(**kwargs)
    except Exception as exc:
        raise Skipped(f"it has no mode Disabled ({type(exc).__name__})") from exc
    with closing(envs):
        n = envs.num_envs
        if n == 1:
            raise Skipped("there is only one environment")
        envs.reset(seed=subject.seed)
        obs = envs.step(subject.actions(envs, 1)[0])[0]
        before = [recorded(row) for row in iterate(envs.observation_space, obs)]
        mask = np.arange(n) == 0
        options = {"reset_mask": mask}
        obs = envs.reset(options=options)[0]
        after = list(iterate(envs.observation_space, obs))
        for i in range(1, n):
            if found := find(before[i], after[i], ("observation", i)):
                raise Failed(
                    "a reset with a mask changes environments that it should leave alone",
                    Difference(i, "a reset of environment 0", "observation", found[1], found[2]),
                )
        if subject.is_repeatable(reused=True) and _has_own_generators(envs, subject.seed):
            actions = subject.actions(envs, 2)
            expected = _others(envs, subject.seed, actions, mask, False)
            got = _others(envs, subject.seed, actions, mask, True)
            for (call, one), (_, other) in zip(expected, got, strict=True):
                for i in range(1, n):
                    if found := find(one[i], other[i], ("observation",)):
                        raise Failed(
                            "a reset with a mask moves environments that it should leave alone, or "
                            "their generators: what follows is different",
                            replace(difference(found, call, False), env=i),
                        )
        if set(options) != {"reset_mask"}:
            raise Failed(
                "reset takes 'reset_mask' out of the caller's options: wrappers around it, such as "
                "RecordEpisodeStatistics, then take a reset of some for a reset of all"
            )
    return "environment 0 is reset, the others and the options are left alone"


def _others(
    envs: Any, seed: int, actions: list[Any], mask: Any, resets: bool
) -> list[tuple[str, list[Any]]]:
    """The observations of all in a step and in the next reset, after a reset of some or without."""
    envs.reset(seed=seed)
    _, _, terminated, truncated, _ = envs.step(copy.deepcopy(actions[0]))
    if resets:
        envs.reset(options={"reset_mask": mask.copy()})
    seen = []
    if not (terminated | truncated).any():
        seen.append(("the next step", recorded(envs.step(copy.deepcopy(actions[1]))[0])))
    seen.append(("the next reset", recorded(envs.reset(options={"reset_mask": ~mask})[0])))
    return [(call, list(iterate(envs.observation_space, obs))) for call, obs in seen]


def _has_own_generators(envs: Any, seed: int) -> bool:
    """Whether each environment has a seed; a generator for all is moved by each reset."""
    try:
        envs.reset(seed=[seed + i for i in range(envs.num_envs)])
    except Exception:  # whatever it raises for a list
        return False
    return True
