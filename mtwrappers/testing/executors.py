"""Checks an environment in vector environments: Gymnasium's and ours must agree."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import Any

import gymnasium
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from gymnasium.vector.utils import create_shared_memory, iterate

from mtwrappers.testing.difference import difference, find
from mtwrappers.testing.processes import can_start, start_method
from mtwrappers.testing.recording import Recording, ends_of, record
from mtwrappers.testing.report import RAISED, Failed, Skipped, said
from mtwrappers.testing.sub_environments import batched, of_first
from mtwrappers.testing.subject import Subject
from mtwrappers.vector.make import MetaIterativeEnvExecutor, MetaParallelEnvExecutor

# Episodes are cut after 7, 10, 13, ... steps, so that many of them end within these.
STEPS = 40
_FIRST_LIMIT, _LATER = 7, 3
# The seconds after which a silent worker counts as hung.
_TIMEOUT = 60.0
# The modes in which a number of workers is tried, if not all.
_MODES = {1: (AutoresetMode.SAME_STEP,), 3: (AutoresetMode.SAME_STEP,)}


def makers(subject: Subject) -> list[Callable[[], Any]]:
    """Returns a constructor per sub-environment; episodes are truncated at different steps."""
    if subject.makers:
        return list(subject.makers)
    return [
        functools.partial(_limited, subject.make, _FIRST_LIMIT + _LATER * i)
        for i in range(subject.num_envs)
    ]


def _limited(make: Callable[[], Any], steps: int) -> Any:
    return gymnasium.wrappers.TimeLimit(make(), steps)


def alone(subject: Subject, actions: list[list[Any]], mode: AutoresetMode) -> list[dict[str, Any]]:
    """The values that a vector environment should return, from environments run alone.

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
        for each in actions:
            final: list[Any] = [None] * len(envs)
            rewards, ends, cuts = [0.0] * len(envs), [False] * len(envs), [False] * len(envs)
            for i, env in enumerate(envs):
                if due[i]:  # in mode NEXT_STEP
                    obs[i] = env.reset()[0]
                    continue
                obs[i], rewards[i], ends[i], cuts[i], _ = env.step(each[i])
                if mode is AutoresetMode.SAME_STEP and (ends[i] or cuts[i]):
                    final[i], obs[i] = obs[i], env.reset()[0]
            done = [bool(end or cut) for end, cut in zip(ends, cuts, strict=True)]
            due = done if mode is AutoresetMode.NEXT_STEP else [False] * len(envs)
            values = {"observation": list(obs), "reward": rewards, "terminated": ends}
            calls.append({**values, "truncated": cuts, "final": final})
            if mode is AutoresetMode.DISABLED and any(done):
                obs = [env.reset()[0] if done[i] else obs[i] for i, env in enumerate(envs)]
                calls.append({"observation": list(obs)})
    return calls


def autoreset(mode: AutoresetMode, subject: Subject) -> str:
    """Each sub-environment returns the same as alone with its seed and its resets."""
    subject.require_repeatable()
    recording = of_sync(subject, mode)
    with closing(SyncVectorEnv(makers(subject))) as envs:
        actions = subject.actions(envs, STEPS)
        space, n = envs.observation_space, envs.num_envs
        given = [list(iterate(envs.action_space, action)) for action in actions]
    for call, expected in zip(recording.calls, alone(subject, given, mode), strict=True):
        values = call.values
        got = {"observation": list(iterate(space, values["observation"]))}
        if "reward" in values:
            got |= {name: values[name].tolist() for name in ("reward", "terminated", "truncated")}
            got["final"] = list(values["info"].get("final_obs", [None] * n))
        for name, each in expected.items():
            key = "info['final_obs']" if name == "final" else name
            if found := find(each, got[name], (key,), loose=True):
                says = "in a vector environment it returns something else than by itself"
                raise Failed(says, difference(found, call.what, True))
    ends = sum(1 for _ in ends_of(recording))
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
                got = record(envs, subject.actions(envs, STEPS), subject.seed)
        except RAISED as exc:
            raise Failed(f"{what} fails in mode {mode.value}: {said(exc)}") from exc
        require_equal(subject, expected, got, what, mode)
    names = ", ".join(mode.value for mode in modes)
    return f"{STEPS} steps in {names}: all values and infos, bit for bit"


def require_equal(
    subject: Subject, expected: Recording, got: Recording, what: str, mode: AutoresetMode
) -> None:
    """Raises `Failed` unless a vector environment returned the same as `SyncVectorEnv`."""
    if found := subject.differ(expected, got, True):
        raise Failed(f"{what} and SyncVectorEnv differ in mode {mode.value}", found)


def of_sync(subject: Subject, mode: AutoresetMode) -> Recording:
    """The recording of Gymnasium's `SyncVectorEnv`."""
    if mode not in subject.kept:
        subject.kept[mode] = record_sync(subject, mode, STEPS, subject.seed)
    found: Recording = subject.kept[mode]
    return found


def record_sync(subject: Subject, mode: AutoresetMode, steps: int, seed: Any) -> Recording:
    """Records Gymnasium's `SyncVectorEnv` over the sub-environments."""
    with closing(SyncVectorEnv(makers(subject), autoreset_mode=mode)) as envs:
        return record(envs, subject.actions(envs, steps), seed)


def _iterative(makers: list[Callable[[], Any]], **kwargs: Any) -> Any:
    return MetaIterativeEnvExecutor(makers, len(makers), **kwargs)


def require_workers(subject: Subject) -> None:
    """Raises `Skipped` if no worker can start, which is no fault of the environment."""
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
    with subject.open() as env:
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
    """A sub-environment returns the same in any batch."""
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
            found.append(of_first(record(envs, actions, subject.seed), envs.observation_space))
    large, small = found
    if differs := subject.differ(small, large, False):
        raise Failed(
            f"environment 0 of {subject.num_envs} returns something else than as the only one",
            differs,
        )
    return f"environment 0 returns the same alone and in a batch of {subject.num_envs}"
