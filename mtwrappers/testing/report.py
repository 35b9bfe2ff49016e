"""The results of checks, as a table and as data."""

from __future__ import annotations

import contextlib
import textwrap
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from mtwrappers.common.errors import full_message

Outcome: TypeAlias = Literal["passed", "failed", "skipped"]

_WIDTH = 80
# How a check begins that cannot run because another failed.
SEE = "see '"
_PRINTED = {"passed": "passed", "failed": "FAILED", "skipped": "skipped"}


@dataclass(frozen=True)
class Difference:
    """The first place at which a value is not as expected.

    Attributes:
        env: Which sub-environment, or None if there is only one.
        call: The call that returned it, such as ``"step 4"``; steps count from 0.
        key: Which value, such as ``"observation[2]"`` or ``"info['goal'][0]"``.
        expected: What was expected there.
        actual: What came.

    >>> from mtwrappers.testing.report import Difference
    >>> print(Difference(1, "step 4", "observation[2]", "0.5", "0.25"))
    environment 1, step 4, observation[2]: expected 0.5, got 0.25
    """

    env: int | None
    call: str
    key: str
    expected: str
    actual: str

    def __str__(self) -> str:
        env = "" if self.env is None else f"environment {self.env}, "
        return f"{env}{self.call}, {self.key}: expected {self.expected}, got {self.actual}"


@dataclass(frozen=True)
class CheckResult:
    """The result of one check.

    Attributes:
        name: The check.
        outcome: ``"passed"``, ``"failed"`` or ``"skipped"``.
        says: What was seen, or what is wrong, or why the check was skipped.
        difference: The first difference, if that is what is wrong.

    >>> from mtwrappers.testing.report import CheckResult, Difference
    >>> first = Difference(1, "step 4", "observation[2]", "0.5", "0.25")
    >>> print(CheckResult("seed repeats", "failed", "other episodes", first))
    seed repeats: other episodes: environment 1, step 4, observation[2]: expected 0.5, got 0.25
    """

    name: str
    outcome: Outcome
    says: str
    difference: Difference | None = None

    def __str__(self) -> str:
        where = "" if self.difference is None else f": {self.difference}"
        return f"{self.name}: {self.says}{where}"


class Failed(Exception):  # noqa: N818 (an outcome)
    """Raised by a check that finds a fault."""

    def __init__(self, says: str, difference: Difference | None = None) -> None:
        super().__init__(says)
        self.difference = difference


class Skipped(Exception):  # noqa: N818 (an outcome)
    """Raised by a check that cannot run here."""


def fault(
    says: str, call: str, key: str, expected: Any, actual: Any, env: int | None = None
) -> Failed:
    """Returns a `Failed` with a `Difference`."""
    return Failed(says, Difference(env, call, key, str(expected), str(actual)))


def require(condition: Any, says: str) -> None:
    """Raises `Failed` unless a condition holds."""
    if not condition:
        raise Failed(says)


# The errors that an environment may raise; `sys.exit` must not end a check.
RAISED = (Exception, SystemExit)


@contextlib.contextmanager
def must_raise(expected: type[BaseException], what: str) -> Iterator[None]:
    """Raises `Failed` unless the block raises ``expected``."""
    try:
        yield
    except expected:
        return
    except RAISED as exc:
        raise Failed(f"{what} must raise {expected.__name__}, raised {said(exc)}") from exc
    raise Failed(f"{what} must raise {expected.__name__}, raised nothing")


def said(exc: BaseException) -> str:
    """Describes an exception and the line that raised it."""
    try:
        text = full_message(exc)
    except Exception:  # any class may refuse to be printed in any way
        text = "its message cannot be printed"
    kind = type(exc).__name__
    text = f"{kind} without a message" if text == kind else f"{kind}: {text}"
    if not (frames := traceback.extract_tb(exc.__traceback__)):
        return text
    file, line, function, _ = frames[-1]
    return f"{text} ({Path(file).name}, line {line}, in {function})"


@dataclass(frozen=True)
class CheckReport:
    """The results of `check_vector_env`; ``str(report)`` is a table of 80 columns.

    Attributes:
        subject: What was checked.
        kind: ``"environment"`` or ``"vector environment"``.
        seed: The seed of all resets.
        num_envs: How many sub-environments there were.
        results: The result of each check.
        seconds: How long the checks took.

    >>> from mtwrappers.testing import CheckReport
    >>> from mtwrappers.testing.report import CheckResult
    >>> runs = CheckResult("runs", "passed", "60 steps")
    >>> close = CheckResult("close", "failed", "a file is left open")
    >>> report = CheckReport("CartPole-v1", "environment", 0, 3, (runs, close), 0.5)
    >>> report.ok, report.failed, report["runs"].outcome
    (False, ('close',), 'passed')
    """

    subject: str
    kind: str
    seed: int
    num_envs: int
    results: tuple[CheckResult, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether no check has failed."""
        return not self.failed

    @property
    def failed(self) -> tuple[str, ...]:
        """The names of the checks that have failed."""
        return self._names("failed")

    def __getitem__(self, name: str) -> CheckResult:
        """The result of the check of this name."""
        for result in self.results:
            if result.name == name:
                return result
        raise KeyError(f"expected one of {[r.name for r in self.results]}, got {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """The report as plain data, for JSON."""
        return {"ok": self.ok, **asdict(self), "results": [asdict(r) for r in self.results]}

    def __str__(self) -> str:
        return self.format()

    def format(self, *, passed: bool = True) -> str:
        """Returns the report as a table, failed checks first.

        Args:
            passed: Whether to include the checks that passed; they are counted in any case.
        """
        results = sorted(self.results, key=lambda result: result.outcome != "failed")
        results = [result for result in results if passed or result.outcome != "passed"]
        lines = textwrap.wrap(f"{self.subject} ({self.kind})", _WIDTH, subsequent_indent="  ")
        lines.append(f"seed {self.seed}, sub-environments: {self.num_envs}\n")
        rows = [
            (_PRINTED[each.outcome], each.name, [each.says, str(each.difference or "")])
            for each in results
            if not each.says.startswith(SEE)
        ]
        hidden = [each.name for each in results if each.says.startswith(SEE)]
        if hidden:  # of which the rows above say why
            says = f"compare with what failed: {', '.join(hidden)}"
            rows.append((_PRINTED["skipped"], f"{len(hidden)} checks", [says]))
        width = max((len(name) for _, name, _ in rows), default=0)
        for outcome, name, texts in rows:
            head = f"{outcome:<7}  {name:<{width}}  "
            each_line = [t for says in texts for t in textwrap.wrap(says, _WIDTH - len(head))]
            first, *more = each_line or [""]
            lines += [head + first, *(" " * len(head) + text for text in more)]
        counts = ", ".join(f"{len(self._names(o))} {o}" for o in ("passed", "failed", "skipped"))
        return "\n".join([*lines, *[""] * bool(results), f"{counts} ({self.seconds:.0f} s)"])

    def _names(self, outcome: Outcome) -> tuple[str, ...]:
        return tuple(result.name for result in self.results if result.outcome == outcome)
