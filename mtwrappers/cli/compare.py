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
from mtwrappers.evaluation.runs import by_policy
from mtwrappers.evaluation.verify import read_claim


def run(
    results: Sequence[str],
    plot: Path | None,
    runs: Literal["all_tasks", "per_task"],
    force: bool,
) -> int:
    """Runs the command; returns its exit code."""
    found: dict[str, EvaluationResult | FewShotResult] = {}
    for argument in results:
        for label, result in read(argument).items():
            if label in found:
                raise UsageError(f"{label} is given twice")
            found[label] = result
    policies = by_policy(found)
    try:
        compared = compare(policies, runs=runs, force=force)
    except IncomparableError as exc:
        raise UsageError(f"{exc}; --force compares them all the same") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    for i, each in enumerate(compared):
        say(f"{chr(10) * (i > 0)}{each}")
        if plot is not None:
            numbered = f"{plot.stem}-{i + 1}{plot.suffix}"
            path = plot if len(compared) == 1 else plot.with_name(numbered)
            try:
                each.plot(path)
            except (OSError, ValueError) as exc:  # a suffix that is no image
                raise UsageError(f"cannot write {path}: {exc}") from None
            say(f"wrote {path}")
    return 0


def read(argument: str) -> dict[str, EvaluationResult | FewShotResult]:
    """The results that an argument names, by what errors call them."""
    try:
        return {argument: read_claim(argument)}
    except VerificationError as exc:
        raise UsageError(f"{argument}: {exc}") from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
