"""Checks of the rows of a batch: each is of its own environment, and infos say of which."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import numpy as np
from gymnasium.vector.utils import iterate

from mtwrappers.testing.check.executor_checks import batched
from mtwrappers.testing.check.recording import (
    Call,
    Recording,
    difference,
    find,
    over,
    record,
    show,
    steps_of,
    without,
)
from mtwrappers.testing.check.report import Difference, Failed, Skipped
from mtwrappers.testing.check.subject import Subject, learns
from mtwrappers.testing.check.vector_checks import modes

# For how many steps at the beginning, and before the first end of an episode, actions are changed.
_CHANGED = 4


def info_row(infos: dict[Any, Any], i: Any, n: int) -> dict[Any, Any]:
    """The infos that environment ``i`` of ``n`` has given."""
    found: dict[Any, Any] = {}
    for key, value in infos.items():
        mask: Any = infos.get(f"_{key}")
        if str(key).startswith("_") or (np.shape(mask) == (n,) and not mask[i]):
            continue
        if isinstance(value, dict):
            found[key] = info_row(value, i, n)
        elif np.ndim(value) and len(value) == n:
            found[key] = value[i]
    return found


def masks(subject: Subject) -> str:
    """Each key of the infos has a mask, which says which environments have given it."""
    subject.require_infos()
    keys: set[str] = set()
    for _, played in modes(subject):
        for call in played.calls:
            _masked(call, call.values["info"], "info", subject.num_envs)
            keys |= call.values["info"].keys()
    count = sum(not key.startswith("_") for key in keys)
    return f"{count} keys, each with a mask" if keys else "all are empty"


def _masked(call: Call, infos: dict[Any, Any], place: str, n: int) -> None:
    for key, value in infos.items():
        if not isinstance(key, str):
            says = "keys of infos must be strings"
            raise Failed(says, Difference(None, call.what, place, "a string", show(key)))
        if key.startswith("_"):
            continue
        mask = infos.get(f"_{key}")
        if not isinstance(mask, np.ndarray) or mask.shape != (n,) or mask.dtype != bool:
            actual = f"{type(mask).__name__} {show(mask)}" if f"_{key}" in infos else "no such key"
            raise Failed(
                f"infos have values of {key!r}, but no mask that says which environments gave them",
                Difference(None, call.what, f"{place}['_{key}']", f"an array of {n} bools", actual),
            )
        if key == "final_info" and isinstance(value, dict):
            _masked(call, value, "info['final_info']", n)


def independence(subject: Subject) -> str:
    """What an environment returns depends on its own actions, and on those of no other."""
    n = subject.num_envs
    if n == 1:
        raise Skipped("there is only one")
    subject.require_infos()
    subject.require_repeatable(reused=True)
    with closing(subject.make()) as envs:
        if learns(envs):
            raise Skipped("its running statistics are of all environments")
        space, single = envs.action_space, copy.deepcopy(envs.single_action_space)
        single.seed(subject.seed + 1)
        given = [list(iterate(space, action)) for action in subject.actions(envs, subject.length)]
        for chosen, steps in _changes(subject.first, n):
            rows = [list(row) for row in given[: steps.stop]]
            for t in steps:
                rows[t] = [_other(single, a) if i in chosen else a for i, a in enumerate(rows[t])]
            actions = [batched(single, row) for row in rows]
            changed = record(envs, actions, subject.seed)
            _unmoved(subject, changed, sorted({*range(n)} - chosen))
    return f"what each of {n} environments returns does not depend on the others' actions"


def _other(space: Any, action: Any) -> Any:
    """Another action than this one, if the space has others."""
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
        if over(call).any():
            ends = int(np.flatnonzero(over(call))[0])
            for each in ({*range(n)} - {ends}, {ends}):
                for steps in (1, 2, _CHANGED):  # what some of them lead to may cancel out
                    yield each, range(max(t + 1 - steps, 0), t + 1)
            return


def _unmoved(subject: Subject, changed: Recording, rows: list[int]) -> None:
    """Raises `Failed` if rows whose actions are the same differ from the first recording."""
    for one, other in zip(subject.first.calls, changed.calls, strict=False):
        expected, got = (_rows(subject, call, rows) for call in (one, other))
        parted = "reward" in one.values and not np.array_equal(over(one), over(other))
        if parted:  # from here on, a generator that all share has drawn for others
            expected, got = _finals(expected), _finals(got)
        for i in rows:
            for name, value in expected[i].items():
                if found := find(value, got[i][name], (name,), loose=True):
                    where = replace(difference(found, one.what, False), env=i)
                    raise Failed(
                        f"environment {i} returns something else if only other environments are "
                        "given other actions: "
                        + (
                            "the end of its episode that the infos have is another's"
                            if where.key.startswith("info['final")
                            else "actions, or what follows from them, reach the wrong environment"
                        ),
                        where,
                    )
        if parted:
            return


def _finals(rows: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """The last observations and infos of those that ended, which are from before a reset."""
    names = ("final_obs", "final_info")
    return {
        i: {"info": {name: row["info"].get(name) for name in names if _ended(row)}}
        for i, row in rows.items()
    }


def _ended(row: dict[str, Any]) -> bool:
    return bool(row["terminated"] or row["truncated"])


def _rows(subject: Subject, call: Call, rows: list[int]) -> dict[int, dict[str, Any]]:
    """The values of a call, for each of some environments."""
    values = without(call.values, subject.ignore)
    obs = list(iterate(subject.observation_space, values["observation"]))
    names = [name for name in ("reward", "terminated", "truncated") if name in values]
    return {
        i: {
            "observation": obs[i],
            **{name: values[name][i] for name in names},
            "info": info_row(values["info"], i, subject.num_envs),
        }
        for i in rows
    }
