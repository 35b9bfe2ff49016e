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
from mtwrappers.testing import effects, tasks, values, vector
from mtwrappers.testing.processes import leave_if_tried
from mtwrappers.testing.report import RAISED, CheckReport, CheckResult, Failed, Skipped, said
from mtwrappers.testing.subject import Subject, subject_of
from mtwrappers.vector.settings import Maker

Check: TypeAlias = Callable[[Subject], str]

_INFO = re.compile(r"info\..+")

# Of all: what is returned, and what seeds and calls change.
_BASIC: dict[str, Check] = {
    "runs": values.runs,
    "spaces": values.spaces,
    "types": values.types,
    "seed repeats": effects.seed_repeats,
    "global random": effects.global_random,
    "new arrays": values.new_arrays,
    "options": effects.options,
}
_LAST: dict[str, Check] = {"global settings": effects.global_settings}
# Of `check_vector_env`, for an environment and for a vector environment.
_ANY: dict[str, Check] = {
    **_BASIC,
    "other seeds": effects.other_seeds,
    "actions": effects.actions,
    "render": effects.render,
    "statistics": values.statistics,
    "pickling": effects.pickling,
    "task observation": values.task_observation,
}
ENV_CHECKS: dict[str, Check] = {
    **_ANY,
    "infos": values.infos,
    "resets itself": effects.resets_itself,
    "tasks": tasks.tasks,
    **{f"autoreset {mode.value}": functools.partial(vector.alone, mode) for mode in AutoresetMode},
    "sync = async": vector.gymnasium_async,
    "sync = ours": vector.ours,
    "sync = 2 workers": vector.two_workers,
    "close": effects.closes,
    "killed worker": vector.killed_worker,
    **_LAST,
}
VECTOR_CHECKS: dict[str, Check] = {
    **_ANY,
    "infos": values.masks,
    "seeds of each": vector.sub_seeds,
    "batch size": vector.sizes,
    "autoreset": vector.as_declared,
    "as SyncVectorEnv": vector.as_sync,
    "independence": vector.independence,
    "partial reset": vector.partial_reset,
    "close": effects.closes,
    "killed worker": vector.killed,
    **_LAST,
}
# Of `check_mtenv`, `check_set_task_env` and `check_meta_vector_env`.
_WITH_TASKS: dict[str, Check] = {
    **_BASIC,
    "info keys": values.info_keys,
    "task observation": values.task_observation,
    "tasks": tasks.tasks,
    **_LAST,
}
MTENV_CHECKS: dict[str, Check] = {
    "protocol": tasks.protocol,
    "unseeded": tasks.unseeded,
    "seed methods": tasks.seed_methods,
    "task options": tasks.task_options,
    **_WITH_TASKS,
}
SET_TASK_CHECKS: dict[str, Check] = {
    "methods": tasks.methods,
    "sample_tasks": tasks.sampling,
    "copies": tasks.copies,
    "no task": tasks.refusal,
    **_WITH_TASKS,
}
META_VECTOR_CHECKS: dict[str, Check] = {
    "attributes": vector.attributes,
    "runs": values.runs,
    "sync = ours": vector.as_its_makers,
    "new arrays": values.new_arrays,
    "actions": effects.actions,
    "options": effects.options,
    "partial reset": vector.partial_reset,
    "global random": effects.global_random,
}


def check_vector_env(
    make: Any,
    *,
    kwargs: Mapping[str, Any] | None = None,
    vector: bool | None = None,
    seed: int = 0,
    steps: int = 1200,
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
    with effects.kept_globals() as settings, warnings.catch_warnings(), effects.ignored_errors():
        warnings.simplefilter("ignore")
        try:
            subject = subject_of(make, kwargs or {}, vector, num_envs)
        except Failed as exc:
            return _unmade(make, vector, seed, exc, time.perf_counter() - start)
        subject.seed, subject.steps = check_seed(seed), steps
        subject.ignore, subject.settings = frozenset(ignore), settings
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
    subject = Subject(lambda: env, type(env).__name__, False, seed=seed, steps=steps, given=env)
    with effects.kept_globals() as subject.settings:
        _require(subject, checks)
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
