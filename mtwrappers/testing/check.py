"""The tables of all checks, and the functions that run them.

To add a check, write a function in the file of its subject and name it in a table. It takes a
`Subject` and returns what it has seen, or raises `Failed` (best with a `Difference`) or `Skipped`.
"""

from __future__ import annotations

import functools
import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.common.checks import check_callable, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.testing import (
    autoreset,
    executors,
    meta_vector_env,
    mtenv,
    seeds,
    set_task_env,
    side_effects,
    statistics,
    sub_environments,
    values,
    workers,
)
from mtwrappers.testing.processes import leave_if_tried
from mtwrappers.testing.report import RAISED, CheckReport, CheckResult, Failed, Skipped, said
from mtwrappers.testing.subject import Subject, subject_of
from mtwrappers.vector.settings import Maker

Check: TypeAlias = Callable[[Subject], str]

_INFO = re.compile(r"info\..+")

# Of `check_vector_env`, for an environment and for a vector environment.
ENV_CHECKS: dict[str, Check] = {
    "runs": values.runs,
    "spaces": values.spaces,
    "types": values.types,
    "seed repeats": seeds.seed_repeats,
    "other seeds": seeds.other_seeds,
    "global random": seeds.global_random,
    "new arrays": values.new_arrays,
    "actions": side_effects.actions,
    "render": side_effects.render,
    "resets itself": side_effects.resets_itself,
    "infos": values.infos,
    "pickling": workers.pickling,
    "statistics": statistics.statistics,
    **{
        f"autoreset {mode.value}": functools.partial(executors.autoreset, mode)
        for mode in AutoresetMode
    },
    "batch size": executors.batch_size,
    "vector statistics": statistics.vector_statistics,
    "sync = async": executors.gymnasium_async,
    "sync = ours": executors.ours,
    **{
        f"sync = {n} worker{'s' * (n > 1)}": functools.partial(executors.workers, n)
        for n in (1, 2, 3)
    },
    "close": workers.closes,
    "killed worker": workers.killed_worker,
}
VECTOR_CHECKS: dict[str, Check] = {
    "runs": values.runs,
    "spaces": values.spaces,
    "types": values.batched_types,
    "seed repeats": seeds.seed_repeats,
    "other seeds": seeds.other_seeds,
    "seeds of each": sub_environments.sub_seeds,
    "batch size": sub_environments.sizes,
    "global random": seeds.global_random,
    "new arrays": values.new_arrays,
    "actions": side_effects.actions,
    "render": side_effects.render,
    "infos": values.masks,
    "autoreset": autoreset.as_declared,
    "independence": sub_environments.independence,
    "partial reset": autoreset.partial_reset,
    "statistics": statistics.vector_sums,
    "pickling": workers.pickling,
    "close": workers.closes,
    "killed worker": workers.killed,
}
# Of an environment of this package, whatever its contract.
EPISODE_CHECKS: dict[str, Check] = {
    "runs": values.runs,
    "spaces": values.spaces,
    "types": values.types,
    "python rewards": values.python_rewards,
    "seed repeats": seeds.seed_repeats,
    "global random": seeds.global_random,
    "new arrays": values.no_shared_memory,
    "info keys": values.info_keys,
    "options": side_effects.options,
}
# Of `check_mtenv`, `check_set_task_env` and `check_meta_vector_env`.
MTENV_CHECKS: dict[str, Check] = {
    "protocol": mtenv.protocol,
    "unseeded": mtenv.unseeded,
    "seed methods": mtenv.seed_methods,
    **EPISODE_CHECKS,
    "task state": mtenv.task_state,
    "task options": mtenv.task_options,
}
SET_TASK_CHECKS: dict[str, Check] = {
    "methods": set_task_env.methods,
    "sample_tasks": set_task_env.sampling,
    "set_task": set_task_env.setting,
    **{name: set_task_env.on_each_task(check) for name, check in EPISODE_CHECKS.items()},
    "copies": set_task_env.copies,
    "no task": set_task_env.refusal,
}
META_VECTOR_CHECKS: dict[str, Check] = {
    "attributes": meta_vector_env.attributes,
    "before a reset": meta_vector_env.before_a_reset,
    "runs": values.runs,
    "sync = ours": meta_vector_env.as_sync,
    "new arrays": values.no_shared_memory,
    "actions": side_effects.actions,
    "options": side_effects.options,
    "partial reset": autoreset.partial_reset,
    "global random": seeds.global_random,
    "calls": meta_vector_env.calls,
    "refusals": meta_vector_env.refusals,
    "close": meta_vector_env.closes,
}


def check_vector_env(
    make: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    vector: bool | None = None,
    seed: int = 0,
    steps: int = 600,
    num_envs: int | None = None,
    ignore: Collection[str] = (),
) -> CheckReport:
    """Checks the contract of a vector environment, or of an environment inside one.

    An environment is run by itself, in Gymnasium's vector environments and in ours, in one process
    and in workers, with the same seeds and actions: everything that is returned must be equal, bit
    for bit. A vector environment is run by itself. Nothing is raised for a fault; the report names
    it, with the first environment, step and value that differ.

    Args:
        make: A registered id; a function without arguments that makes an environment or a vector
            environment (with ``num_envs`` or ``autoreset_mode`` as arguments, these are tried
            too); or an environment that pickles.
        kwargs: Arguments for it.
        vector: Given an id, whether to check `gymnasium.make_vec` of it instead of
            `gymnasium.make`; by default only if `gymnasium.make` makes nothing.
        seed: The seed of all resets.
        steps: How many steps to run at most.
        num_envs: How many sub-environments, 3 by default; of an id that is a vector environment,
            as many as it makes by default.
        ignore: Infos that are not compared, such as ``["info.action"]`` or, of a dict in the infos,
            ``["info.arm.angle"]``; "seed repeats" reports whether each repeats.

    Raises:
        TypeError: If ``make`` is or makes none of those.
        ValueError: If ``steps`` or ``num_envs`` is not positive, or ``ignore`` has another name.

    >>> from mtwrappers.testing import check_vector_env
    >>> report = check_vector_env("CartPole-v1", steps=60)
    >>> report.ok, report["seed repeats"].outcome
    (True, 'passed')
    """
    positive(steps, "steps")
    if num_envs is not None:
        positive(num_envs, "num_envs")
    if isinstance(ignore, str) or not all(_INFO.fullmatch(name) for name in ignore):
        raise ValueError(f"ignore must be names of infos such as ['info.action'], got {ignore!r}")
    leave_if_tried()
    start = time.perf_counter()
    # Of errors in `__del__`, "close" reports.
    with seeds.kept_random(), warnings.catch_warnings(), workers.ignored_errors():
        warnings.simplefilter("ignore")
        try:
            subject = subject_of(make, kwargs or {}, vector, num_envs)
        except Failed as exc:
            return _unmade(make, vector, seed, exc, time.perf_counter() - start)
        subject.seed, subject.steps = check_seed(seed), steps
        subject.ignore = frozenset(ignore)
        results = _results(subject, VECTOR_CHECKS if subject.is_vector else ENV_CHECKS)
    kind = "vector environment" if subject.is_vector else "environment"
    seconds = time.perf_counter() - start
    return CheckReport(subject.name, kind, subject.seed, subject.num_envs, results, seconds)


def _results(subject: Subject, checks: Mapping[str, Check]) -> tuple[CheckResult, ...]:
    results = []
    for name, check in checks.items():
        results.append(_result(name, check, subject))
        if name == "runs" and results[0].outcome == "failed":
            break
    return tuple(results)


def _result(name: str, check: Check, subject: Subject) -> CheckResult:
    try:
        return CheckResult(name, "passed", check(subject))
    except Skipped as exc:
        return CheckResult(name, "skipped", str(exc))
    except RAISED as exc:
        return _failed(name, exc)


def _failed(name: str, exc: BaseException) -> CheckResult:
    if isinstance(exc, Failed):
        return CheckResult(name, "failed", str(exc), exc.difference)
    return CheckResult(name, "failed", said(exc))


def _unmade(make: Any, vector: bool | None, seed: int, exc: Failed, seconds: float) -> CheckReport:
    name = make if isinstance(make, str) else getattr(make, "__name__", repr(make))
    kind = "vector environment" if vector else "environment"
    return CheckReport(name, kind, seed, 0, (_failed("runs", exc),), seconds)


def _require(subject: Subject, checks: Mapping[str, Check]) -> None:
    """Raises `AssertionError` at the first check that fails, even with ``python -O``."""
    for name, check in checks.items():
        try:
            check(subject)
        except Skipped:
            continue
        except RAISED as exc:
            failed = _failed(name, exc)
            where = "" if failed.difference is None else f": {failed.difference}"
            raise AssertionError(f"{subject.name} fails {name!r}: {failed.says}{where}") from exc


def _require_of(env: Any, checks: Mapping[str, Check], seed: int, steps: int) -> None:
    name = type(env).__name__
    _require(Subject(lambda: env, name, False, seed=seed, steps=steps, given=env), checks)
    env.reset()


def check_mtenv(env: MTEnv, *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment satisfies the contract of `MTEnv`.

    Spaces and observations, both random streams, reading, setting and sampling the task state, the
    task options of ``reset``, and that nothing global or of the caller's is changed. A part that
    needs an unseeded environment runs only on one.

    Args:
        env: The environment; it is reset and stepped.
        seed: The seed to check with.
        steps: How many steps a recording has.

    Raises:
        AssertionError: At the first check that fails; the message says its name, what was expected
            and what came.
        ValueError: If ``steps`` is not positive.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import MultiEnvWrapper
    >>> from mtwrappers.testing import check_mtenv
    >>> env = MultiEnvWrapper([partial(gymnasium.make, "Pendulum-v1", g=g) for g in (8.0, 10.0)])
    >>> check_mtenv(env)
    """
    _require_of(env, MTENV_CHECKS, seed, positive(steps, "steps"))


def check_set_task_env(env: gymnasium.Env[Any, Any], *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment satisfies the set-task contract.

    ``sample_tasks(n)`` returns ``n`` small tasks, ``set_task(task)`` and ``get_task()`` agree, a
    switch needs a reset, seeds determine tasks and episodes, copies and pickles work on the same
    task, and nothing global or of the caller's is changed.

    Args:
        env: The environment; it is reset and stepped. It may have ``num_tasks``.
        seed: The seed to check with.
        steps: How many steps a recording has.

    Raises:
        AssertionError: At the first check that fails; the message says its name, what was expected
            and what came.
        ValueError: If ``steps`` is not positive.

    >>> from mtwrappers import PointGoalEnv
    >>> from mtwrappers.testing import check_set_task_env
    >>> check_set_task_env(PointGoalEnv())
    """
    _require_of(env, SET_TASK_CHECKS, seed, positive(steps, "steps"))


def check_meta_vector_env(
    make_vector: Callable[..., VectorEnv[Any, Any, Any]],
    makers: Sequence[Maker],
    *,
    seed: int = 3,
    steps: int = 60,
) -> None:
    """Checks that a vector environment satisfies the contract of `MetaVectorEnv`.

    In each autoreset mode it is compared with `gymnasium.vector.SyncVectorEnv` over the same
    constructors: observations, rewards, flags and infos must be equal bit for bit. Give
    constructors whose episodes end at different times within ``steps``.

    Args:
        make_vector: Called as ``make_vector(makers, autoreset_mode=mode)``.
        makers: A constructor an environment.
        seed: The seed to check with.
        steps: How many steps a recording has.

    Raises:
        AssertionError: At the first check that fails; the message says its name, what was expected
            and what came.
        TypeError: If ``make_vector`` is not callable.
        ValueError: If ``steps`` is not positive.

    >>> import gymnasium
    >>> from functools import partial
    >>> from mtwrappers import as_vector
    >>> from mtwrappers.testing import check_meta_vector_env
    >>> check_meta_vector_env(as_vector, [partial(gymnasium.make, "CartPole-v1")] * 2)
    """
    positive(steps, "steps")
    check_callable(make_vector, "make_vector")
    for mode in AutoresetMode:
        made = make_vector(makers, autoreset_mode=mode)
        if not isinstance(made, VectorEnv) or not hasattr(made, "meta_batch_size"):
            raise AssertionError(f"make_vector must make a MetaVectorEnv, got {made!r}")
        subject = Subject(
            make=lambda made=made: made,
            name=f"{type(made).__name__} in mode {mode.value}",
            is_vector=True,
            seed=seed,
            steps=steps,
            num_envs=made.num_envs,
            given=made,
            makers=tuple(makers),
            mode=mode,
        )
        try:
            _require(subject, META_VECTOR_CHECKS)
        finally:
            made.close()
