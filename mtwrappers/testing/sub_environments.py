"""Checks that sub-environments are independent in seeds, actions and values."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector.utils import concatenate, create_empty_array, iterate

from mtwrappers.testing.difference import Difference, difference, find
from mtwrappers.testing.recording import (
    Call,
    Recording,
    finished,
    record,
    recorded,
    steps_of,
    without,
)
from mtwrappers.testing.report import Failed, Skipped
from mtwrappers.testing.subject import Subject, learns

# For how many steps at the beginning, and before the first end of an episode, actions are changed.
_CHANGED = 4


def info_of(infos: dict[Any, Any], i: Any, n: int) -> dict[Any, Any]:
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


def batched(space: gymnasium.Space[Any], each: list[Any]) -> Any:
    """Actions, one for each environment, in a batch."""
    empty: Any = create_empty_array(space, len(each))
    return concatenate(space, each, empty)


def of_first(recording: Recording, space: gymnasium.Space[Any]) -> Recording:
    """The recording of environment 0 of a vector environment, without its infos."""
    calls, begins = [], True
    for call in recording.calls:
        stepped = "reward" in call.values
        if not stepped and not begins:  # a reset of others
            continue
        values = {"observation": next(iter(iterate(space, call.values["observation"])))}
        names = ("reward", "terminated", "truncated") if stepped else ()
        values |= {name: call.values[name][0] for name in names}
        begins = stepped and bool(values["terminated"] or values["truncated"])
        calls.append(Call(call.what, values))
    return Recording(calls)


def sub_seeds(subject: Subject) -> str:
    """With a single seed, sub-environments begin differently, as with one seed each."""
    seed, n = subject.seed, subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_repeatable()
    each = [seed + i for i in range(n)]
    with subject.open() as envs:
        space = envs.observation_space
        one = list(iterate(space, recorded(envs.reset(seed=seed)[0])))
        another = list(iterate(space, recorded(envs.reset(seed=seed + 1000)[0])))
        try:
            listed = list(iterate(space, envs.reset(seed=each)[0]))
        except Exception:  # a seed for each is not for every vector environment
            listed = None
    if all(find(a, b) is None for a, b in zip(one, another, strict=True)):
        raise Skipped("seeds change nothing at a reset")
    if all(find(one[0], other) is None for other in one[1:]):
        raise Failed(
            f"all {n} environments return the same after reset(seed={seed}), and something else "
            "with another seed: all have the same seed"
        )
    if listed is not None and (found := find(listed, one, ("observation",))):
        env = found[0][1]
        raise Failed(
            f"reset(seed={seed}) must seed environment i with {seed} + i, as a list of seeds does",
            Difference(env, f"reset(seed={seed})", "observation", found[1], found[2]),
        )
    return f"environment i begins as with seed {seed} + i" if listed else "they begin differently"


def sizes(subject: Subject) -> str:
    """A sub-environment returns the same for any number of environments."""
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
            raise Skipped(f"num_envs={size} fails ({type(exc).__name__})") from exc
        with closing(envs):
            if envs.num_envs != size:
                raise Failed(f"num_envs={size} makes {envs.num_envs} environments")
            actions = [_repeated(envs)] * 20
            shared = hasattr(envs, "meta_batch_size")  # the tasks are shared out among them
            made[size] = of_first(record(envs, actions, subject.seed), envs.observation_space)
    small, large = made.values()
    if found := subject.differ(small, large, False):
        first, second = made
        if shared:
            raise Skipped(
                f"of {second} environments, environment 0 has other tasks than of {first}"
            )
        raise Failed(
            f"environment 0 returns something else if there are {second} and not {first}", found
        )
    return "environment 0 returns the same in batches of {} and {}".format(*made)


def _repeated(envs: Any) -> Any:
    """The same action for all environments, always the same."""
    single, n = copy.deepcopy(envs.single_action_space), envs.num_envs
    single.seed(0)
    return batched(single, [single.sample()] * n)


def independence(subject: Subject) -> str:
    """The values of a sub-environment depend on its own actions only."""
    n = subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_infos()
    subject.require_repeatable(reused=True)
    with subject.open() as envs:
        if learns(envs):
            raise Skipped("its running statistics are of all environments")
        space, single = envs.action_space, copy.deepcopy(envs.single_action_space)
        single.seed(subject.seed + 1)
        given = [list(iterate(space, action)) for action in subject.actions(envs, subject.length)]
        for chosen, steps in _changes(subject.first, n):
            each = [list(actions) for actions in given[: steps.stop]]
            for t in steps:
                each[t] = [_other(single, a) if i in chosen else a for i, a in enumerate(each[t])]
            actions = [batched(single, one) for one in each]
            changed = record(envs, actions, subject.seed)
            _unmoved(subject, changed, sorted({*range(n)} - chosen))
    return f"what each of {n} environments returns does not depend on the others' actions"


def _other(space: Any, action: Any) -> Any:
    """Returns a different action, if the space has one."""
    samples = (space.sample() for _ in range(10))
    return next((each for each in samples if find(action, each, loose=True)), action)


def _changes(first: Recording, n: int) -> Iterator[tuple[set[int], range]]:
    """Whose actions are changed, and at which steps.

    Of two environments, at the beginning each is once changed while the other is not. Before the
    first end of an episode, once all the others are and once only the one that ends.
    """
    length = sum(1 for _ in steps_of(first))
    for bit in range((n - 1).bit_length()):
        chosen = {i for i in range(n) if i >> bit & 1}
        for each in (chosen, {*range(n)} - chosen):
            yield each, range(min(_CHANGED, length))
    for t, call in enumerate(steps_of(first)):
        if finished(call).any():
            ends = int(np.flatnonzero(finished(call))[0])
            for each in ({*range(n)} - {ends}, {ends}):
                for steps in (1, 2, _CHANGED):  # what some of them lead to may cancel out
                    yield each, range(max(t + 1 - steps, 0), t + 1)
            return


def _unmoved(subject: Subject, changed: Recording, envs: list[int]) -> None:
    """Raises `Failed` if ``envs``, whose actions are the same, differ from the first recording."""
    for one, other in zip(subject.first.calls, changed.calls, strict=False):
        expected, got = (_values(subject, call, envs) for call in (one, other))
        parted = "reward" in one.values and not np.array_equal(finished(one), finished(other))
        if parted:  # from here on, a generator that all share has drawn for others
            expected, got = _finals(expected), _finals(got)
        for i in envs:
            for name, value in expected[i].items():
                if found := find(value, got[i][name], (name,), loose=True):
                    where = replace(difference(found, one.what, False), env=i)
                    raise Failed(
                        f"environment {i} returns something else if only other environments are "
                        "given other actions: "
                        + (
                            "its infos have the end of another environment's episode"
                            if where.key.startswith("info['final")
                            else "actions, or what follows from them, reach the wrong environment"
                        ),
                        where,
                    )
        if parted:
            return


def _finals(values: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Returns the final observations and infos of environments whose episodes ended."""
    names = ("final_obs", "final_info")
    return {
        i: {"info": {name: own["info"].get(name) for name in names if _ended(own)}}
        for i, own in values.items()
    }


def _ended(values: dict[str, Any]) -> bool:
    return bool(values["terminated"] or values["truncated"])


def _values(subject: Subject, call: Call, envs: list[int]) -> dict[int, dict[str, Any]]:
    """The values of a call, for each of some environments."""
    values = without(call.values, subject.ignore)
    obs = list(iterate(subject.observation_space, values["observation"]))
    names = [name for name in ("reward", "terminated", "truncated") if name in values]
    return {
        i: {
            "observation": obs[i],
            **{name: values[name][i] for name in names},
            "info": info_of(values["info"], i, subject.num_envs),
        }
        for i in envs
    }
