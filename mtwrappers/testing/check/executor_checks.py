"""Checks of one environment in vector environments: Gymnasium's and ours, which must agree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import (
    concatenate,
    create_empty_array,
    create_shared_memory,
    iterate,
)

from mtwrappers.testing.check.processes import can_start, start_method
from mtwrappers.testing.check.recording import Call, Recording, difference, find, record
from mtwrappers.testing.check.report import RAISED, Failed, Skipped, said
from mtwrappers.testing.check.subject import Subject
from mtwrappers.vector.executors import MetaIterativeEnvExecutor, MetaParallelEnvExecutor

# Episodes are cut after 7, 10, 13, ... steps, so that many of them end within these.
STEPS = 40
_FIRST_LIMIT, _LATER = 7, 3
# After how many seconds a worker that says nothing counts as hung.
_TIMEOUT = 60.0
# In which modes a number of workers is tried, if not in all.
_MODES = {1: (AutoresetMode.SAME_STEP,), 3: (AutoresetMode.SAME_STEP,)}


def makers(subject: Subject) -> list[Callable[[], Any]]:
    """A constructor for each sub-environment, whose episodes are cut at different times."""
    return [
        functools.partial(_limited, subject.make, _FIRST_LIMIT + _LATER * i)
        for i in range(subject.num_envs)
    ]


def _limited(make: Callable[[], Any], steps: int) -> Any:
    return gymnasium.wrappers.TimeLimit(make(), steps)


def alone(subject: Subject, actions: list[list[Any]], mode: AutoresetMode) -> list[dict[str, Any]]:
    """What a vector environment should return, from environments that are played by themselves.

    Args:
        subject: The environment.
        actions: For each step, an action for each environment.
        mode: When an environment is reset.

    Returns:
        A dict for each call, with an entry for each environment: of the observation, and of a
        step also the reward, the flags and, in mode ``SAME_STEP``, the last observation, or None.
    """
    with ExitStack() as stack:
        envs = [stack.enter_context(closing(make())) for make in makers(subject)]
        obs = [env.reset(seed=subject.seed + i)[0] for i, env in enumerate(envs)]
        calls: list[dict[str, Any]] = [{"observation": list(obs)}]
        due = [False] * len(envs)
        for rows in actions:
            final: list[Any] = [None] * len(envs)
            rewards, ends, cuts = [0.0] * len(envs), [False] * len(envs), [False] * len(envs)
            for i, env in enumerate(envs):
                if due[i]:  # in mode NEXT_STEP
                    obs[i] = env.reset()[0]
                    continue
                obs[i], rewards[i], ends[i], cuts[i], _ = env.step(rows[i])
                if mode is AutoresetMode.SAME_STEP and (ends[i] or cuts[i]):
                    final[i], obs[i] = obs[i], env.reset()[0]
            over = [bool(end or cut) for end, cut in zip(ends, cuts, strict=True)]
            due = over if mode is AutoresetMode.NEXT_STEP else [False] * len(envs)
            values = {"observation": list(obs), "reward": rewards, "terminated": ends}
            calls.append({**values, "truncated": cuts, "final": final})
            if mode is AutoresetMode.DISABLED and any(over):
                obs = [env.reset()[0] if over[i] else obs[i] for i, env in enumerate(envs)]
                calls.append({"observation": list(obs)})
    return calls


def batch(subject: Subject, make: Callable[..., Any], mode: AutoresetMode) -> Recording:
    """What a vector environment over the environments returns."""
    with closing(make(makers(subject), autoreset_mode=mode)) as envs:
        return record(envs, subject.actions(envs, STEPS), subject.seed)


def autoreset(mode: AutoresetMode, subject: Subject) -> str:
    """Each sub-environment shows what it shows by itself, with its seed, where it is reset."""
    subject.require_repeatable()
    played = of_sync(subject, mode)
    with closing(SyncVectorEnv(makers(subject))) as envs:
        actions = subject.actions(envs, STEPS)
        space, n = envs.observation_space, envs.num_envs
        rows_of = [list(iterate(envs.action_space, action)) for action in actions]
    ends = 0
    for call, expected in zip(played.calls, alone(subject, rows_of, mode), strict=True):
        values = call.values
        got = {"observation": list(iterate(space, values["observation"]))}
        if "reward" in values:
            got |= {name: values[name].tolist() for name in ("reward", "terminated", "truncated")}
            final = values["info"].get("final_obs", [None] * n)
            got["final"] = list(final)
            ends += int(np.sum(values["terminated"] | values["truncated"]))
        for name, rows in expected.items():
            key = "info['final_obs']" if name == "final" else name
            if found := find(rows, got[name], (key,), loose=True):
                says = "in a vector environment it shows something else than by itself"
                raise Failed(says, difference(found, call.what, True))
    return f"{n} environments show what each shows by itself, over {ends} ends of episodes"


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
            got = batch(subject, make, mode)
        except RAISED as exc:
            raise Failed(f"{what} fails in mode {mode.value}: {said(exc)}") from exc
        if found := subject.differ(expected, got, True):
            raise Failed(f"{what} and SyncVectorEnv differ in mode {mode.value}", found)
    names = ", ".join(mode.value for mode in modes)
    return f"{STEPS} steps in {names}: all values and infos, bit for bit"


def of_sync(subject: Subject, mode: AutoresetMode) -> Recording:
    """What Gymnasium's `SyncVectorEnv` returns."""
    if mode not in subject.kept:
        subject.kept[mode] = batch(subject, SyncVectorEnv, mode)
    found: Recording = subject.kept[mode]
    return found


def _iterative(makers: list[Callable[[], Any]], **kwargs: Any) -> Any:
    return MetaIterativeEnvExecutor(makers, len(makers), **kwargs)


def require_workers(subject: Subject) -> None:
    """Raises `Skipped` where no worker starts, which is no fault of the environment."""
    if not _workers_start(subject):
        raise Skipped("see 'sync = async'")


def _workers_start(subject: Subject) -> bool:
    if "workers start" not in subject.kept:
        subject.kept["workers start"] = can_start()
    return bool(subject.kept["workers start"])


def in_workers(makers: list[Callable[[], Any]], workers: int, **kwargs: Any) -> Any:
    """Our executor with worker processes."""
    return MetaParallelEnvExecutor(
        makers, len(makers), workers=workers, timeout=_TIMEOUT, context=start_method(), **kwargs
    )


def gymnasium_async(subject: Subject) -> str:
    """Gymnasium's `AsyncVectorEnv` agrees with its `SyncVectorEnv`."""
    if not _workers_start(subject):
        raise Skipped(
            "no worker process can start: each imports the main module again, so run the check "
            "below `if __name__ == '__main__':`, in a file"
        )
    with closing(subject.make()) as env:
        shared = _fits_shared_memory(env.observation_space)
    make = functools.partial(AsyncVectorEnv, shared_memory=shared, context=start_method())
    says = agrees(make, "AsyncVectorEnv", subject)
    return says if shared else f"{says}; only with shared_memory=False"


def _fits_shared_memory(space: gymnasium.Space[Any]) -> bool:
    try:
        create_shared_memory(space)
    except gymnasium.error.CustomSpaceError:
        return False
    return True


def ours(subject: Subject) -> str:
    """Our executor in one process agrees with `SyncVectorEnv`."""
    return agrees(_iterative, "MetaIterativeEnvExecutor", subject)


def workers(number: int, subject: Subject) -> str:
    """Our executor agrees with `SyncVectorEnv`, with any number of environments per worker."""
    if number > subject.num_envs:
        raise Skipped(f"there are only {subject.num_envs} environments")
    require_workers(subject)
    make = functools.partial(in_workers, workers=number)
    what = f"MetaParallelEnvExecutor with {number} worker{'s' * (number > 1)}"
    return agrees(make, what, subject, _MODES.get(number, tuple(AutoresetMode)))


def batch_size(subject: Subject) -> str:
    """A sub-environment shows the same whoever is beside it."""
    subject.require_repeatable()
    found: list[Recording] = []
    for n in (subject.num_envs, 1):
        made = SyncVectorEnv(makers(subject)[:n], autoreset_mode=AutoresetMode.SAME_STEP)
        with closing(made) as envs:
            if n > 1:
                actions = subject.actions(envs, STEPS)
                firsts = [next(iter(iterate(envs.action_space, action))) for action in actions]
            else:
                actions = [batched(envs.single_action_space, [a]) for a in firsts]
            found.append(first_row(record(envs, actions, subject.seed), envs.observation_space))
    large, small = found
    if differs := subject.differ(small, large, False):
        raise Failed(
            f"environment 0 of {subject.num_envs} shows something else than if it is the only one",
            differs,
        )
    return f"environment 0 shows the same alone and beside {subject.num_envs - 1} others"


def batched(space: gymnasium.Space[Any], rows: list[Any]) -> Any:
    """Actions, one for each environment, in a batch."""
    empty: Any = create_empty_array(space, len(rows))
    return concatenate(space, rows, empty)


def first_row(played: Recording, space: gymnasium.Space[Any]) -> Recording:
    """What environment 0 of a vector environment returned, but for its infos."""
    calls, begins = [], True
    for call in played.calls:
        stepped = "reward" in call.values
        if not stepped and not begins:  # a reset of others
            continue
        row = {"observation": next(iter(iterate(space, call.values["observation"])))}
        names = ("reward", "terminated", "truncated") if stepped else ()
        row |= {name: call.values[name][0] for name in names}
        begins = stepped and bool(row["terminated"] or row["truncated"])
        calls.append(Call(call.what, row))
    return Recording(calls, None)
