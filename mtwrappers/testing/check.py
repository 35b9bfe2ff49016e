"""All checks, the functions that run them, and their report.

To add a check, write a function in the file of its subject and add it to a tuple. It takes a
`Subject`, and raises `Failed` or `Skipped`.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import multiprocessing
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
from mtwrappers.testing.recording import RAISED, Failed, Skipped, Subject, said
from mtwrappers.vector.settings import Maker

# Each is named by its function, with spaces.
_Checks: TypeAlias = tuple[Callable[[Subject], None], ...]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

_INFO = re.compile(r"info\..+")
# The modules that register ids without a module prefix.
_MODULES = {"Meta-World": "metaworld", "mtwrappers": "mtwrappers"}
# The arguments that the checks may pass to constructors.
_TRIED = frozenset({"render_mode", "num_envs", "autoreset_mode"})

# Of all: what is returned, and what seeds and calls change.
_RETURNED: _Checks = (rules.runs, rules.spaces, rules.types, rules.new_arrays)
_CALLED: _Checks = (
    rules.seed_repeats,
    rules.new_episodes,
    rules.options,
    rules.global_random,
)
_LAST: _Checks = (rules.global_settings,)
# Of `check_vector_env`, for an environment and for a vector environment.
_SEEDS: _Checks = (*_RETURNED, *_CALLED, rules.other_seeds)
_ANY: _Checks = (rules.actions, rules.sampling, rules.render, rules.pickling, rules.close)
_INFOS: _Checks = (rules.statistics, rules.task_observation)
_ALONE: _Checks = (*_SEEDS, *_ANY, *_INFOS, rules.infos, rules.resets_itself, tasks.tasks)
_AMONG: _Checks = (vector.autoreset, vector.workers, vector.killed_worker, rules.other_process)
ENV_CHECKS: _Checks = (*_ALONE, *_AMONG, *_LAST)
_BATCH: _Checks = (vector.masks, vector.mode, vector.seeds_of_each, vector.batch_size)
_MORE: _Checks = (vector.as_sync, vector.independence, vector.partial_reset, vector.killed)
VECTOR_CHECKS: _Checks = (*_SEEDS, *_ANY, *_INFOS, *_BATCH, *_MORE, rules.other_process, *_LAST)
# Of `check_mtenv`, `check_set_task_env` and `check_meta_vector_env`.
_TASKS: _Checks = (rules.infos, rules.task_observation, tasks.tasks, *_LAST)
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
    vector: bool = False,
    seed: int = 0,
    steps: int = 1200,
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
            `gymnasium.make`, as always if `gymnasium.make` makes nothing.
        seed: The seed of all resets.
        steps: How many steps to run at most.
        ignore: Infos that are not compared, such as ``["info.time"]`` or, of a dict in the infos,
            ``["info.arm.angle"]``.

    Raises:
        TypeError: If ``make`` is or makes none of those.
        ValueError: If ``steps`` is not positive, or ``ignore`` has another name.

    >>> from mtwrappers.testing import check_vector_env
    >>> report = check_vector_env("CartPole-v1", steps=60)
    >>> report.ok, report["seed repeats"].outcome
    (True, 'passed')
    """
    positive(steps, "steps")
    if isinstance(ignore, str) or not all(_INFO.fullmatch(name) for name in ignore):
        raise ValueError(f"ignore must be names of infos such as ['info.time'], got {ignore!r}")
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)  # a new worker imports a main module that checks without a guard
    # Of errors in `__del__`, "close" reports.
    with rules.kept_globals() as settings, warnings.catch_warnings(), rules.ignored_errors():
        warnings.simplefilter("ignore")
        try:
            subject = _subject_of(make, kwargs or {}, vector)
        except Failed as exc:
            kind = "vector environment" if vector else "environment"
            return CheckReport(_name(make), kind, (CheckResult("runs", "failed", str(exc)),))
        subject.seed, subject.steps = check_seed(seed), steps
        subject.ignore, subject.settings = frozenset(ignore), settings
        checks = VECTOR_CHECKS if subject.is_vector else ENV_CHECKS
        if rules.other_process in checks:
            subject.processes = rules.start_processes(subject)
        try:
            results = tuple(_results(subject, checks))
        finally:
            for process in subject.processes:
                process.kill()
        kind = "vector environment" if subject.is_vector else "environment"
        report = CheckReport(subject.name, kind, results)
        del subject  # and closed environments, whose `__del__` may raise
    return report


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


def _subject_of(given: Any, kwargs: Mapping[str, Any], vector: bool) -> Subject:
    """The subject for an id or a constructor; raises `Failed` if nothing can be made of it."""
    make, name = _of_id(given, vector) if isinstance(given, str) else given, _name(given)
    if not callable(make):
        raise TypeError(
            "expected an id, or a function without arguments that makes an environment or a "
            f"vector environment, got {given!r}"
        )
    takes: Collection[str] = ()
    with suppress(TypeError, ValueError):  # it has no signature
        takes = _TRIED & inspect.signature(make).parameters.keys() - kwargs.keys()
    make = functools.partial(make, **kwargs) if kwargs else make
    try:
        made: Any = make()
    except RAISED as exc:
        hint = ""
        if isinstance(exc, TypeError) and " argument" in str(exc):
            hint = "; give arguments as kwargs, on the command line as --kwargs JSON, or check a "
            hint += "function without arguments that makes it"
        raise Failed(f"it cannot be made: {said(exc)}{hint}") from exc
    is_vector = isinstance(made, VectorEnv)
    n = getattr(made, "num_envs", 1) if is_vector else 3
    with suppress(Exception):  # it is a check of its own
        made.close()
    if not isinstance(made, (gymnasium.Env, VectorEnv)):
        raise TypeError(f"{name} must make a gymnasium.Env or VectorEnv, got {made!r}")
    return Subject(make, name, is_vector, frozenset(takes), num_envs=n)


def _name(given: Any) -> str:
    return given if isinstance(given, str) else getattr(given, "__name__", None) or repr(given)


def _of_id(env_id: str, vector: bool) -> Callable[..., Any]:
    """The constructor of an id's environments, or of its vector environments."""
    module, _, name = env_id.rpartition(":")
    if module := module or _MODULES.get(name.partition("/")[0], ""):
        try:
            importlib.import_module(module)
        except ImportError:
            raise
        except RAISED as exc:  # an import runs whatever is written there
            raise Failed(f"{module} cannot be imported: {said(exc)}") from exc
    spec = gymnasium.spec(name)
    if vector or spec.entry_point is None:
        return functools.partial(_make_vec, spec)
    # Worker processes import the module, too.
    return functools.partial(_make, f"{module}:{name}" if module else name)


def _make(env_id: str, *, render_mode: Any = None, **kwargs: Any) -> Any:
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return gymnasium.make(env_id, disable_env_checker=True, **kwargs)


def _make_vec(spec: Any, *, num_envs: Any = None, autoreset_mode: Any = None, **kwargs: Any) -> Any:
    if autoreset_mode is not None:
        mode = {"autoreset_mode": autoreset_mode}
        kwargs |= {"vector_kwargs": mode} if spec.vector_entry_point is None else mode
    try:
        return gymnasium.make_vec(spec.id, num_envs=num_envs or 3, **kwargs)
    except Exception:  # of some there is no other number than their default
        if num_envs is not None:
            raise
        return gymnasium.make_vec(spec.id, **kwargs)


# The contracts of this package.


def _require(subject: Subject, checks: _Checks) -> None:
    """Raises `AssertionError` at the first check that fails, even with ``python -O``."""
    for result in _results(subject, checks):
        if result.outcome == "failed":
            raise AssertionError(f"{subject.name} fails {result.name!r}: {result.says}")


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
