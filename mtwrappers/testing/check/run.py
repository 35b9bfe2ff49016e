"""Runs the checks of an environment or of a vector environment, one after another."""

from __future__ import annotations

import functools
import random
import re
import time
import warnings
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeAlias

import numpy as np
from gymnasium.vector import AutoresetMode

from mtwrappers.common.checks import positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.testing.check import (
    autoreset,
    env_checks,
    executor_checks,
    rows,
    seeds,
    side_effects,
    spaces,
    statistics,
    vector_checks,
    workers,
)
from mtwrappers.testing.check.processes import leave_if_tried
from mtwrappers.testing.check.report import (
    RAISED,
    CheckReport,
    CheckResult,
    Failed,
    Skipped,
    said,
)
from mtwrappers.testing.check.subject import Subject, subject_of

Check: TypeAlias = Callable[[Subject], str]

_INFO = re.compile(r"info\..+")

ENV_CHECKS: dict[str, Check] = {
    "plays": env_checks.plays,
    "spaces": spaces.spaces,
    "types": env_checks.types,
    "seed repeats": env_checks.seed_repeats,
    "other seeds": seeds.other_seeds,
    "global random": env_checks.global_random,
    "new arrays": env_checks.new_arrays,
    "actions": side_effects.actions,
    "render": side_effects.render,
    "resets itself": env_checks.resets_itself,
    "infos": env_checks.infos,
    "pickling": env_checks.pickling,
    "statistics": statistics.statistics,
    **{
        f"autoreset {mode.value}": functools.partial(executor_checks.autoreset, mode)
        for mode in AutoresetMode
    },
    "batch size": executor_checks.batch_size,
    "vector statistics": statistics.vector_statistics,
    "sync = async": executor_checks.gymnasium_async,
    "sync = ours": executor_checks.ours,
    **{
        f"sync = {n} worker{'s' * (n > 1)}": functools.partial(executor_checks.workers, n)
        for n in (1, 2, 3)
    },
    "close": workers.closes,
    "killed worker": workers.killed_worker,
}
VECTOR_CHECKS: dict[str, Check] = {
    "plays": env_checks.plays,
    "spaces": spaces.batched_spaces,
    "types": vector_checks.batched_types,
    "seed repeats": env_checks.seed_repeats,
    "other seeds": seeds.other_seeds,
    "seeds of each": vector_checks.sub_seeds,
    "batch size": vector_checks.sizes,
    "global random": env_checks.global_random,
    "new arrays": env_checks.new_arrays,
    "actions": side_effects.actions,
    "render": side_effects.render,
    "infos": rows.masks,
    "autoreset": autoreset.autoreset_declared,
    "independence": rows.independence,
    "partial reset": vector_checks.partial_reset,
    "statistics": statistics.vector_sums,
    "pickling": env_checks.pickling,
    "close": workers.closes,
    "killed worker": workers.killed,
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
    """Checks that an environment can be trusted in vector environments, or a vector environment.

    An environment is played by itself, in Gymnasium's vector environments and in ours, in one
    process and in workers, with the same seeds and actions: everything that is returned must be
    equal, bit for bit. A vector environment is played by itself. Nothing is raised for a fault; the
    report names it, with the first environment, step and value that differ.

    Args:
        make: A registered id; a function without arguments that makes an environment or a vector
            environment (with ``num_envs`` or ``autoreset_mode`` as arguments, these are tried
            too); or an environment that pickles.
        kwargs: Arguments for it.
        vector: Of an id, whether to check what `gymnasium.make_vec` makes of it; by default only
            if `gymnasium.make` makes nothing.
        seed: The seed of all resets.
        steps: How many steps to play at most.
        num_envs: How many sub-environments, 3 by default; of an id that is a vector environment,
            as many as it makes by default.
        ignore: Infos that are not compared, such as ``["info.action"]`` or, of a dict in the infos,
            ``["info.arm.angle"]``; "seed repeats" says of each whether it repeats.

    Raises:
        TypeError: If ``make`` is or makes none of those.
        ValueError: If ``steps`` or ``num_envs`` is not positive, or ``ignore`` has another name.

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
    state = random.getstate(), np.random.get_state(legacy=False)
    try:
        with warnings.catch_warnings(), workers.ignored_errors():  # of which "close" tells
            warnings.simplefilter("ignore")
            try:
                subject = subject_of(make, kwargs or {}, vector, num_envs)
            except Failed as exc:
                return _unmade(make, vector, seed, exc, time.perf_counter() - start)
            subject.seed, subject.steps = check_seed(seed), steps
            subject.ignore = frozenset(ignore)
            checks = VECTOR_CHECKS if subject.is_vector else ENV_CHECKS
            results = _run(subject, checks)
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
    kind = "vector environment" if subject.is_vector else "environment"
    seconds = time.perf_counter() - start
    return CheckReport(subject.name, kind, subject.seed, subject.num_envs, results, seconds)


def _run(subject: Subject, checks: Mapping[str, Check]) -> tuple[CheckResult, ...]:
    results = []
    for name, check in checks.items():
        results.append(_checked(name, check, subject))
        if name == "plays" and results[0].outcome == "failed":
            break
    return tuple(results)


def _checked(name: str, check: Check, subject: Subject) -> CheckResult:
    try:
        return CheckResult(name, "passed", check(subject))
    except Failed as exc:
        return CheckResult(name, "failed", str(exc), exc.difference)
    except Skipped as exc:
        return CheckResult(name, "skipped", str(exc))
    except RAISED as exc:
        return CheckResult(name, "failed", said(exc))


def _unmade(make: Any, vector: bool | None, seed: int, exc: Failed, seconds: float) -> CheckReport:
    name = make if isinstance(make, str) else getattr(make, "__name__", repr(make))
    kind = "vector environment" if vector else "environment"
    return CheckReport(name, kind, seed, 0, (CheckResult("plays", "failed", str(exc)),), seconds)
