"""All checks, the functions that run them, and their report.

To add a check, write a function in the file of its subject and add it to a tuple. It takes a
`Subject`, and raises `Failed` or `Skipped`; it may return a note on what it could not check.
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

from mtwrappers.common.callers import find_stacklevel
from mtwrappers.common.checks import OLD_GYM_HINT, check_callable, positive
from mtwrappers.common.seeding import check_seed
from mtwrappers.core.mtenv import MTEnv
from mtwrappers.state.env_state import normalizers, set_statistics_updates
from mtwrappers.testing import rules, task_rules, vector_rules
from mtwrappers.testing.recording import RAISED, Failed, Skipped, Subject, describe_error
from mtwrappers.vector.settings import Maker

# A check is named by its function, with spaces.
_Check: TypeAlias = Callable[[Subject], str | None]
_Checks: TypeAlias = tuple[_Check, ...]
Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

_INFO = re.compile(r"info\..+")
# The modules that register ids without a module prefix.
_MODULES = {"Meta-World": "metaworld", "mtwrappers": "mtwrappers"}
# The arguments that the checks may pass to constructors.
_TRIED_ARGUMENTS = frozenset({"render_mode", "num_envs", "autoreset_mode"})

# Those of `check_vector_env` are in the order of their cost, so that most verdicts come soon. At
# the end, `global_settings` compares with the settings from before the first.
ENV_CHECKS: _Checks = (
    rules.runs,
    rules.types,
    rules.infos,
    rules.statistics,
    rules.spaces,
    rules.new_arrays,
    rules.seed_repeats,
    rules.new_episodes,
    rules.options,
    rules.global_random,
    rules.actions,
    rules.sampling,
    rules.other_seeds,
    rules.close,
    rules.pickling,
    rules.task_observation,
    rules.resets_itself,
    rules.render,
    task_rules.tasks,
    vector_rules.autoreset,
    vector_rules.workers,
    vector_rules.killed_worker,
    rules.other_process,
    rules.global_settings,
)
VECTOR_CHECKS: _Checks = (
    rules.runs,
    rules.types,
    vector_rules.masks,
    rules.statistics,
    rules.spaces,
    rules.new_arrays,
    rules.seed_repeats,
    rules.new_episodes,
    rules.options,
    rules.global_random,
    rules.actions,
    rules.sampling,
    rules.other_seeds,
    vector_rules.mode,
    vector_rules.seeds_of_each,
    vector_rules.independence,
    vector_rules.partial_reset,
    vector_rules.as_sync,
    vector_rules.batch_size,
    rules.close,
    rules.pickling,
    rules.task_observation,
    rules.render,
    vector_rules.killed,
    rules.other_process,
    rules.global_settings,
)
MTENV_CHECKS: _Checks = (
    task_rules.protocol,
    task_rules.unseeded,
    task_rules.seed_methods,
    rules.runs,
    rules.spaces,
    rules.types,
    rules.new_arrays,
    rules.seed_repeats,
    rules.new_episodes,
    rules.options,
    rules.global_random,
    rules.infos,
    rules.task_observation,
    task_rules.tasks,
    rules.global_settings,
    task_rules.task_options,
)
# Those of `ENV_CHECKS` that need no second environment, so that both functions agree.
SET_TASK_CHECKS: _Checks = (
    task_rules.methods,
    rules.runs,
    rules.types,
    rules.infos,
    rules.statistics,
    rules.spaces,
    rules.new_arrays,
    rules.seed_repeats,
    rules.new_episodes,
    rules.options,
    rules.global_random,
    rules.actions,
    rules.sampling,
    rules.other_seeds,
    rules.pickling,
    rules.task_observation,
    rules.resets_itself,
    task_rules.tasks,
    rules.global_settings,
)
META_VECTOR_CHECKS: _Checks = (
    vector_rules.attributes,
    rules.runs,
    vector_rules.as_its_makers,
    rules.new_arrays,
    rules.actions,
    rules.options,
    vector_rules.partial_reset,
    rules.global_random,
)


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: The check.
        outcome: ``"passed"``, ``"failed"`` or ``"skipped"``.
        message: Why the check was skipped, or what is wrong: the call, the value, what was expected
            and what came. Of a check that passed, what it could not check, or ``""``.

    >>> from mtwrappers.testing.check import CheckResult
    >>> CheckResult("render", "skipped", "it has no render()").outcome
    'skipped'
    """

    name: str
    outcome: Outcome
    message: str = ""


@dataclass(frozen=True)
class CheckReport:
    """The results of `check_vector_env`; ``str(report)`` is a table of 80 columns.

    Attributes:
        subject: What was checked.
        kind: ``"environment"`` or ``"vector environment"``.
        results: The result of each check.

    >>> from mtwrappers.testing import CheckReport
    >>> from mtwrappers.testing.check import CheckResult
    >>> close = CheckResult("close", "failed", "threads are still running after close(): left")
    >>> results = CheckResult("runs", "passed"), CheckResult("spaces", "passed"), close
    >>> report = CheckReport("CartPole-v1", "environment", results)
    >>> report.ok, report.failed, report["runs"].outcome
    (False, ('close',), 'passed')
    >>> print(report)
    CartPole-v1 (environment)
    FAILED   close  threads are still running after close(): left
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
        return tuple(result.name for result in self.results if result.outcome == "failed")

    def __getitem__(self, name: str) -> CheckResult:
        """The result of the check of this name."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"expected one of {[r.name for r in self.results]}, got {name!r}")

    def __str__(self) -> str:
        rows = [result for result in self.results if result.message]
        width = max((len(result.name) for result in rows), default=0)
        lines = [f"{self.subject} ({self.kind})"]
        for outcome in ("failed", "passed"):
            for result in rows:
                if result.outcome == outcome:
                    lines += format_result(result, name_width=width)
        lines += self.format_skipped(name_width=width)
        if passed := [
            result.name
            for result in self.results
            if result.outcome == "passed" and not result.message
        ]:
            lines += _wrapped("passed   ", ", ".join(passed), 80)
        return "\n".join(lines)

    def format_skipped(self, width: int = 80, name_width: int = 16) -> list[str]:
        """Formats the results of checks that were skipped, with one row for each reason.

        Args:
            width: The number of columns of a line.
            name_width: The number of columns for the name of a check.
        """
        results: dict[str, list[CheckResult]] = {}
        for result in self.results:
            if result.outcome == "skipped":
                results.setdefault(result.message, []).append(result)
        lines = []
        for reason, skipped in results.items():
            if len(skipped) == 1:
                lines += format_result(skipped[0], width, name_width)
            else:
                names = ", ".join(result.name for result in skipped)
                lines += _wrapped("skipped  ", f"{len(skipped)} checks ({names}): {reason}", width)
        return lines


def format_result(result: CheckResult, width: int = 80, name_width: int = 16) -> list[str]:
    """Formats a result as a row of a table, which continues in further lines.

    Args:
        result: The result.
        width: The number of columns of a line.
        name_width: The number of columns for the name of the check.
    """
    outcome = result.outcome.upper() if result.outcome == "failed" else result.outcome
    head = f"{outcome:<7}  {result.name:<{name_width}}  "
    return _wrapped(head, result.message, width) if result.message else [head.rstrip()]


def _wrapped(head: str, text: str, width: int) -> list[str]:
    """The lines of a text in the column after its head; below it if the column is narrow."""
    indent = " " * len(head) if len(head) <= width // 2 else "  "
    if len(indent) == len(head):
        return textwrap.wrap(text, width, initial_indent=head, subsequent_indent=indent)
    body = textwrap.wrap(text, width, initial_indent=indent, subsequent_indent=indent)
    return [head.rstrip(), *body]


def check_vector_env(
    make: str | Callable[..., Any],
    *,
    kwargs: Mapping[str, Any] | None = None,
    vector: bool = False,
    seed: int = 0,
    steps: int = 1200,
    ignore: Collection[str] = (),
    on_result: Callable[[CheckResult], object] | None = None,
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
        on_result: Called with the result of each check as soon as it has ended.

    Raises:
        TypeError: If ``make`` is or makes none of those.
        ValueError: If ``steps`` is not positive, ``ignore`` has another name, or ``vector`` is set
            without an id.

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
    with rules.restored_globals() as settings, warnings.catch_warnings(), rules.collected_errors():
        try:
            subject = _make_subject(make, kwargs or {}, vector)  # whose warnings are the caller's
        except Failed as exc:
            kind = "vector environment" if vector else "environment"
            result = CheckResult("runs", "failed", str(exc))
            if on_result is not None:
                on_result(result)
            return CheckReport(_get_name(make), kind, (result,))
        warnings.simplefilter("ignore")  # they would be repeated for each environment
        subject.seed, subject.steps = check_seed(seed), steps
        subject.ignore, subject.settings = frozenset(ignore), settings
        checks = VECTOR_CHECKS if subject.is_vector else ENV_CHECKS
        if rules.other_process in checks:
            subject.processes = rules.start_processes(subject)
        results = []
        try:
            for result in _run_checks(subject, checks):
                results.append(result)
                if on_result is not None:
                    on_result(result)
        finally:
            for process in subject.processes:
                process.kill()
        kind = "vector environment" if subject.is_vector else "environment"
        report = CheckReport(subject.name, kind, tuple(results))
        del subject  # and closed environments, whose `__del__` may raise
    return report


def _run_checks(subject: Subject, checks: _Checks) -> Iterator[CheckResult]:
    """Runs checks one after another; yields the result of each."""
    for check in checks:
        name = check.__name__.replace("_", " ")
        try:
            result = CheckResult(name, "passed", check(subject) or "")
        except Skipped as exc:
            result = CheckResult(name, "skipped", str(exc))
        except RAISED as exc:
            result = CheckResult(name, "failed", describe_error(exc))
        yield result
        if name == "runs" and result.outcome == "failed":
            return


# What is to be checked.


def _make_subject(make: Any, kwargs: Mapping[str, Any], vector: bool) -> Subject:
    """The subject for an id or a constructor; raises `Failed` if nothing can be made of it."""
    name = _get_name(make)
    if isinstance(make, str):
        make = _find_constructor(make, vector)
    elif vector:
        raise ValueError(
            "vector is for ids; leave it out, as what a function makes is checked as what it is"
        )
    if not callable(make):
        raise TypeError(
            "expected an id, or a function without arguments that makes an environment or a "
            f"vector environment, got {make!r}"
        )
    takes: Collection[str] = ()
    with suppress(TypeError, ValueError):  # it has no signature
        takes = _TRIED_ARGUMENTS & inspect.signature(make).parameters.keys() - kwargs.keys()
    if kwargs:
        make = functools.partial(make, **kwargs)
    try:
        env: Any = make()
    except RAISED as exc:
        hint = ""
        if isinstance(exc, TypeError) and " argument" in str(exc):
            hint = "; give arguments as kwargs, on the command line as --kwargs JSON, or check a "
            hint += "function without arguments that makes it"
        raise Failed(f"it cannot be made: {describe_error(exc)}{hint}") from exc
    is_vector = isinstance(env, VectorEnv)
    if not is_vector and any(normalizers(env)):
        make = functools.partial(_make_without_updates, make)
    num_envs = getattr(env, "num_envs", 1) if is_vector else 3
    with suppress(Exception):  # it is a check of its own
        env.close()
    if not isinstance(env, (gymnasium.Env, VectorEnv)):
        hint = OLD_GYM_HINT if hasattr(env, "step") else ""
        raise TypeError(f"{name} must make a gymnasium.Env or VectorEnv, got {env!r}{hint}")
    return Subject(make, name, is_vector, frozenset(takes), num_envs=num_envs)


def _make_without_updates(make: Callable[..., Any], **kwargs: Any) -> Any:
    """Makes an environment whose running statistics keep the values that they begin with.

    What it returns would otherwise depend on all earlier episodes.
    """
    env = make(**kwargs)
    set_statistics_updates(env, False)
    return env


def _get_name(make: Any) -> str:
    return make if isinstance(make, str) else getattr(make, "__name__", None) or repr(make)


def _find_constructor(env_id: str, vector: bool) -> Callable[..., Any]:
    """The constructor of an id's environments, or of its vector environments."""
    module, _, name = env_id.rpartition(":")
    if module := module or _MODULES.get(name.partition("/")[0], ""):
        try:
            importlib.import_module(module)
        except ImportError:
            raise
        except RAISED as exc:  # an import runs whatever is written there
            raise Failed(f"{module} cannot be imported: {describe_error(exc)}") from exc
    spec = gymnasium.spec(name)
    env_id = f"{module}:{name}" if module else name  # worker processes import the module, too
    if vector or spec.entry_point is None:
        return functools.partial(_make_vec, env_id, spec)
    return functools.partial(_make, env_id)


def _make(env_id: str, *, render_mode: Any = None, **kwargs: Any) -> Any:
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    return gymnasium.make(env_id, disable_env_checker=True, **kwargs)


def _make_vec(
    env_id: str, spec: Any, *, num_envs: Any = None, autoreset_mode: Any = None, **kwargs: Any
) -> Any:
    if autoreset_mode is not None:
        mode = {"autoreset_mode": autoreset_mode}
        kwargs |= {"vector_kwargs": mode} if spec.vector_entry_point is None else mode
    try:
        return gymnasium.make_vec(env_id, num_envs=num_envs or 3, **kwargs)
    except Exception:  # of some there is no other number than their default
        if num_envs is not None:
            raise
        return gymnasium.make_vec(env_id, **kwargs)


# The contracts of this package.


def _require(subject: Subject, checks: _Checks) -> None:
    """Raises `AssertionError` at the first check that fails, even with ``python -O``.

    It warns of what a check could not decide.
    """
    for result in _run_checks(subject, checks):
        if result.outcome == "failed":
            raise AssertionError(f"{subject.name} fails {result.name!r}: {result.message}")
        if result.outcome == "passed" and result.message:
            warnings.warn(
                f"{subject.name}, {result.name!r}: {result.message}", stacklevel=find_stacklevel()
            )


def _require_env(
    env: Any, checks: _Checks, seed: int, steps: int, *, is_strict: bool = True
) -> None:
    """Checks an environment, and leaves it reset."""
    subject = Subject(
        make=lambda: env,
        name=type(env).__name__,
        is_vector=False,
        seed=seed,
        steps=steps,
        given_env=env,
        is_strict=is_strict,
    )
    updates = [wrapper.update_running_mean for wrapper in normalizers(env)]
    with rules.restored_globals() as subject.settings:
        try:
            # What it returns would depend on all earlier episodes.
            set_statistics_updates(env, False)
            _require(subject, checks)
        finally:
            set_statistics_updates(env, updates)
        env.reset()


def check_mtenv(env: MTEnv, *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment satisfies the contract of `MTEnv`.

    Spaces and observations, both random streams, reading, setting and sampling the task state, the
    task options of ``reset``, and that nothing global or of the caller's is changed. A part that
    needs an unseeded environment runs only on one. There is a warning if a check cannot decide.

    Args:
        env: The environment, without wrappers; it is reset and stepped.
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
    _require_env(env, MTENV_CHECKS, seed, positive(steps, "steps"))


def check_set_task_env(env: gymnasium.Env[Any, Any], *, seed: int = 3, steps: int = 10) -> None:
    """Checks that an environment satisfies the set-task contract.

    ``sample_tasks(n)`` returns ``n`` tasks, ``set_task(task)`` and ``get_task()`` agree after the
    next reset, seeds determine tasks and episodes, copies and pickles work on the same task, and
    nothing global or of the caller's is changed. These are the checks of `check_vector_env` that
    need no second environment. There is a warning if a check cannot decide.

    Args:
        env: The environment, in any wrappers; it is reset and stepped. With ``num_tasks``,
            ``sample_tasks(num_tasks)`` after a seed must return each task once.
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
    _require_env(env, SET_TASK_CHECKS, seed, positive(steps, "steps"), is_strict=False)


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
        envs = make_vector(makers, autoreset_mode=mode)
        if not isinstance(envs, VectorEnv) or not hasattr(envs, "meta_batch_size"):
            raise AssertionError(f"make_vector must make a MetaVectorEnv, got {envs!r}")
        subject = Subject(
            make=lambda envs=envs: envs,
            name=f"{type(envs).__name__} in mode {mode.value}",
            is_vector=True,
            seed=seed,
            steps=steps,
            num_envs=envs.num_envs,
            given_env=envs,
            is_strict=True,
            makers=tuple(makers),
            mode=mode,
        )
        try:
            _require(subject, META_VECTOR_CHECKS)
        finally:
            envs.close()
