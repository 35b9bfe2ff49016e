"""``mtwrappers compare``: the success of several policies, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from mtwrappers.cli.console import UsageError, say
from mtwrappers.evaluation import (
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    VerificationError,
    compare,
)
from mtwrappers.evaluation.verify import read_claim


def run(
    results: Sequence[Path],
    plot: Path | None,
    runs: Literal["all_tasks", "per_task"],
    force: bool,
) -> int:
    """Runs the command; returns its exit code."""
    policies: dict[str, dict[str, EvaluationResult | FewShotResult]] = {}
    for path in results:
        result = _read(path)
        of_name = policies.setdefault(_policy_name(path, result), {})
        if str(path) in of_name:
            raise UsageError(f"{path} is given twice")
        of_name[str(path)] = result
    try:
        found = compare(policies, runs=runs, force=force)
    except IncomparableError as exc:
        raise UsageError(f"{exc}; --force compares them all the same") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    for i, each in enumerate(found):
        say(f"{chr(10) * (i > 0)}{each}")
        if plot is not None:
            numbered = f"{plot.stem}-{i + 1}{plot.suffix}"
            path = plot if len(found) == 1 else plot.with_name(numbered)
            try:
                each.plot(path)
            except (OSError, ValueError) as exc:  # a suffix that is no image
                raise UsageError(f"cannot write {path}: {exc}") from None
            say(f"wrote {path}")
    return 0


def _read(path: Path) -> EvaluationResult | FewShotResult:
    try:
        return read_claim(path)
    except VerificationError as exc:
        raise UsageError(f"{path}: {exc}") from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None


def _policy_name(path: Path, result: EvaluationResult | FewShotResult) -> str:
    """The name of the policy in the result; without one, its file."""
    of = result.evaluation if isinstance(result, FewShotResult) else result
    name = of.provenance and of.provenance.policy
    return name or str(path)
