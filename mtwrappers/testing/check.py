"""All checks, the functions that run them, and their report.

To add a check, write a function in the file of its subject and add it to a tuple. It takes a
`Subject`, and raises `Failed` or `Skipped`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import gymnasium
from gymnasium.vector import AutoresetMode, VectorEnv

from mtwrappers.common.checks import check_callable, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.testing import rules, tasks, vector
from mtwrappers.testing.processes import leave_if_imported
from mtwrappers.testing.recording import RAISED, Failed, Skipped, Subject, said
from mtwrappers.vector.settings import Maker

# Each is named by its function, with spaces.
_Checks: TypeAlias = tuple[Callable[[Subject], None], ...]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

_INFO = re.compile(r"info\..+")
# The modules that register ids without a module prefix.
_MODULES = {"Meta-World": "metaworld", "mtwrappers": "mtwrappers"}
# The arguments that the checks may pass to constructors.
_OF_ENVS = frozenset({"render_mode"})
_OF_VECTORS = frozenset({"render_mode", "num_envs", "autoreset_mode"})

# Of all: what is returned, and what seeds and calls change.
_RETURNED: _Checks = (rules.runs, rules.spaces, rules.types, rules.new_arrays)
_CALLED: _Checks = (rules.seed_repeats, rules.options, rules.global_random)
_LAST: _Checks = (rules.global_settings,)
# Of `check_vector_env`, for an environment and for a vector environment.
_SEEDS: _Checks = (*_RETURNED, *_CALLED, rules.other_seeds)
_ANY: _Checks = (rules.actions, rules.render, rules.pickling, rules.close)
_INFOS: _Checks = (rules.statistics, rules.task_observation)
_ALONE: _Checks = (*_SEEDS, *_ANY, *_INFOS, rules.infos, rules.resets_itself, tasks.tasks)
ENV_CHECKS: _Checks = (*_ALONE, vector.autoreset, vector.workers, vector.killed_worker, *_LAST)
_BATCH: _Checks = (vector.masks, vector.mode, vector.seeds_of_each, vector.batch_size)
_MORE: _Checks = (vector.as_sync, vector.independence, vector.partial_reset)
VECTOR_CHECKS: _Checks = (*_SEEDS, *_ANY, *_INFOS, *_BATCH, *_MORE, vector.killed, *_LAST)
# Of `check_mtenv`, `check_set_task_env` and `check_meta_vector_env`.
_TASKS: _Checks = (rules.info_keys, rules.task_observation, tasks.tasks, *_LAST)
_MT: _Checks = (tasks.protocol, tasks.unseeded, tasks.seed_methods)
_SET_TASK: _Checks = (tasks.methods, tasks.sample_tasks, tasks.copies, tasks.no_task)
MTENV_CHECKS: _Checks = (*_MT, *_RETURNED, *_CALLED, *_TASKS, tasks.task_options)
SET_TASK_CHECKS: _Checks = (*_SET_TASK, *_RETURNED, *_CALLED, *_TASKS)
_META: _Checks = (vector.attributes, rules.runs, vector.as_its_makers, rules.new_arrays)
_CALLERS: _Checks = (rules.actions, rules.options, vector.partial_reset, rules.global_random)
META_VECTOR_CHECKS: _Checks = (*_META, *_CALLERS)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: The check.
        outcome: ``"passed"``, ``"failed"`` or ``"skipped"``.
        says: Why the check was skipped, or what is wrong: the call, the value, what was expected
            and what came.

    >>> from mtwrappers.testing.check import CheckResult
    >>> CheckResult("render", "skipped", "it has no render()").outcome
    'skipped'
    """

    name: str
    outcome: Outcome
    says: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The results of `check_vector_env`; ``str(report)`` is a table of 80 columns.

    Attributes:
        subject: What was checked.
        kind: ``"environment"`` or ``"vector environment"``.
        results: The result of each check.

    >>> from mtwrappers.testing import CheckReport
    >>> from mtwrappers.testing.check import CheckResult
    >>> close = CheckResult("close", "failed", "1 threads are left after close(): left")
    >>> results = CheckResult("runs", "passed"), CheckResult("spaces", "passed"), close
    >>> report = CheckReport("CartPole-v1", "environment", results)
    >>> report.ok, report.failed, report["runs"].outcome
    (False, ('close',), 'passed')
    >>> print(report)
    CartPole-v1 (environment)
    FAILED   close  1 threads are left after close(): left
    passed   runs, spaces
    """

    subject: str
    kind: str
    results: tuple[CheckResult, ...]

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that have failed."""
        return tuple(each.name for each in self.results if each.outcome == "failed")

    def __getitem__(self, name: str) -> CheckResult:
        """The result of the check of this name."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"expected one of {[r.name for r in self.results]}, got {name!r}")

    def __str__(self) -> str:
        # What compares runs that differ is named in one row; the rows above say how they differ.
        after = [each.name for each in self.results if each.says.startswith("see '")]
        rows = [each for each in self.results if each.says and each.name not in after]
        rows.sort(key=lambda each: each.outcome)  # those that failed come first
        width = max((len(each.name) for each in rows), default=0)
        texts = [(each.outcome, f"{each.name:<{width}}  ", each.says) for each in rows]
        if after:
            texts.append(("skipped", "", f"{', '.join(after)}: they compare with what failed"))
        if passed := ", ".join(each.name for each in self.results if each.outcome == "passed"):
            texts.append(("passed", "", passed))
        lines = [f"{self.subject} ({self.kind})"]
        for outcome, name, says in texts:
            head = f"{outcome.upper() if outcome == 'failed' else outcome:<7}  {name}"
            indent = " " * len(head)
            lines += textwrap.wrap(says, 80, initial_indent=head, subsequent_indent=indent)
        return "\n".join(lines)


def check_vector_env(
    make: str | Callable[..., Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    vector: bool | None = None,
    seed: int = 0,
    steps: int = 1200,
    num_envs: int | None = None,
    ignore: Collection[str] = (),
) -> CheckReport:
    """Checks the contract of a vector environment, or of an environment inside one.

    An environment is run by itself, in Gymnasium's `SyncVectorEnv` and in worker processes, with
    the same seeds and actions: everything that is returned must be equal, bit for bit. A vector
    environment is run by itself. Nothing is raised for a fault; the report names it, with the first
    environment, step and value that differ.

    Args:
        make: A registered id; or a function without arguments that makes an environment or a
            vector environment (with ``num_envs`` or ``autoreset_mode`` as arguments, these are
            tried too).
        kwargs: Arguments for it.
        vector: Given an id, whether to check `gymnasium.make_vec` of it instead of
            `gymnasium.make`; by default only if `gymnasium.make` makes nothing.
        seed: The seed of all resets.
        steps: How many steps to run at most.
        num_envs: How many sub-environments, 3 by default; of an id that is a vector environment,
            as many as it makes by default.
        ignore: Infos that are not compared, such as ``["info.time"]`` or, of a dict in the infos,
            ``["info.arm.angle"]``.

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
        raise ValueError(f"ignore must be names of infos such as ['info.time'], got {ignore!r}")
    leave_if_imported()
    # Of errors in `__del__`, "close" reports.
    with rules.kept_globals() as settings, warnings.catch_warnings(), rules.ignored_errors():
        warnings.simplefilter("ignore")
        try:
            subject = _subject_of(make, kwargs or {}, vector, num_envs)
        except Failed as exc:
            kind = "vector environment" if vector else "environment"
            return CheckReport(_name(make), kind, (CheckResult("runs", "failed", str(exc)),))
        subject.seed, subject.steps = check_seed(seed), steps
        subject.ignore, subject.settings = frozenset(ignore), settings
        results = tuple(_results(subject, VECTOR_CHECKS if subject.is_vector else ENV_CHECKS))
    kind = "vector environment" if subject.is_vector else "environment"
    return CheckReport(subject.name, kind, results)


def _results(subject: Subject, checks: _Checks) -> Iterator[CheckResult]:
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            check(subject)
            yield CheckResult(name, "passed")
        except Skipped as exc:
            yield CheckResult(name, "skipped", str(exc))
        except RAISED as exc:
            yield CheckResult(name, "failed", said(exc))
            if name == "runs":
                return


# What is to be checked.


def _subject_of(
    given: Any, kwargs: Mapping[str, Any], vector: bool | None, num_envs: int | None
) -> Subject:
    """The subject for an id or a constructor; raises `Failed` if nothing can be made of it."""
    name = _name(given)
    if isinstance(given, str):
        make, takes = _of_id(given, kwargs, vector, num_envs)
    elif callable(given):
        make = functools.partial(given, **kwargs) if kwargs else given
        takes = _parameters(given) - kwargs.keys()
    else:
        raise TypeError(
            "expected an id, or a function without arguments that makes an environment or a "
            f"vector environment, got {given!r}"
        )
    try:
        made: Any = make()
    except RAISED as exc:
        raise Failed(f"it cannot be made: {said(exc)}") from exc
    try:
        if not isinstance(made, (gymnasium.Env, VectorEnv)):
            raise TypeError(f"{name} must make a gymnasium.Env or VectorEnv, got {made!r}")
        is_vector = isinstance(made, VectorEnv)
        if vector is not None and vector != is_vector:
            kind = "a vector environment" if vector else "an environment"
            raise TypeError(f"{name} must make {kind}, got {made!r}")
        n: int = getattr(made, "num_envs", 1) if is_vector else (num_envs or 3)
    finally:
        with suppress(Exception):  # it is a check of its own
            made.close()
    takes &= _OF_VECTORS if is_vector else _OF_ENVS
    return Subject(make, name, is_vector, takes, num_envs=n)


def _name(given: Any) -> str:
    return given if isinstance(given, str) else getattr(given, "__name__", None) or repr(given)


def _parameters(make: Callable[..., Any]) -> frozenset[str]:
    """Returns the arguments of a constructor that the checks may pass."""
    try:
        return _OF_VECTORS & inspect.signature(make).parameters.keys()
    except (TypeError, ValueError):  # it has no signature
        return frozenset()


def _of_id(
    env_id: str, kwargs: Mapping[str, Any], vector: bool | None, num_envs: int | None
) -> tuple[Callable[..., Any], frozenset[str]]:
    module, _, name = env_id.rpartition(":")
    if module := module or _MODULES.get(name.partition("/")[0], ""):
        try:
            importlib.import_module(module)
        except ImportError:
            raise
        except RAISED as exc:  # an import runs whatever is written there
            raise Failed(f"{module} cannot be imported: {said(exc)}") from exc
    spec = gymnasium.spec(name)
    if not (spec.entry_point is None if vector is None else vector):
        imported = f"{module}:{name}" if module else name  # in worker processes, too
        make: Any = functools.partial(gymnasium.make, imported, disable_env_checker=True, **kwargs)
        return make, _OF_ENVS - kwargs.keys()
    make = functools.partial(_make_vec, spec, dict(kwargs), num_envs=num_envs or 3)
    if num_envs is None:
        try:
            make().close()
        except Exception:  # of some there is no other number than their default
            make = functools.partial(_make_vec, spec, dict(kwargs), num_envs=1)
    return make, _OF_VECTORS - kwargs.keys()


def _make_vec(
    spec: Any, kwargs: dict[str, Any], *, num_envs: int, autoreset_mode: Any = None, **more: Any
) -> Any:
    mode = {} if autoreset_mode is None else {"autoreset_mode": autoreset_mode}
    if mode and spec.vector_entry_point is None:
        mode = {"vector_kwargs": mode}
    return gymnasium.make_vec(spec.id, num_envs=num_envs, **kwargs, **mode, **more)


# The contracts of this package.


def _require(subject: Subject, checks: _Checks) -> None:
    """Raises `AssertionError` at the first check that fails, even with ``python -O``."""
    for check in checks:
        try:
            check(subject)
        except Skipped:
            continue
        except RAISED as exc:
            name = check.__name__.replace("_", " ")
            raise AssertionError(f"{subject.name} fails {name!r}: {said(exc)}") from exc


def _require_of(env: Any, checks: _Checks, seed: int, steps: int) -> None:
    subject = Subject(lambda: env, type(env).__name__, False, seed=seed, steps=steps, given=env)
    with rules.kept_globals() as subject.settings:
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
