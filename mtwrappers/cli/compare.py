"""``mtwrappers compare``: the success of several policies, side by side."""

from __future__ import annotations

import argparse
from pathlib import Path

from mtwrappers.cli.common import UsageError, show
from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation import (
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    VerificationError,
    compare,
)
from mtwrappers.evaluation.verify import read_claim


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns its exit code."""
    console = import_extra("rich.console", "cli").Console()
    policies: dict[str, dict[str, EvaluationResult | FewShotResult]] = {}
    for path in args.results:
        result = _read(path)
        of_name = policies.setdefault(_name(path, result), {})
        if str(path) in of_name:
            raise UsageError(f"{path} is given twice")
        of_name[str(path)] = result
    try:
        found = compare(policies, runs=args.runs.replace("-", "_"), force=args.force)
    except IncomparableError as exc:
        raise UsageError(f"{exc}; --force compares them all the same") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    for i, each in enumerate(found):
        show(console, f"{chr(10) * (i > 0)}{each}")
        if args.plot is not None:
            numbered = f"{args.plot.stem}-{i + 1}{args.plot.suffix}"
            path = args.plot if len(found) == 1 else args.plot.with_name(numbered)
            try:
                each.plot(path)
            except (OSError, ValueError) as exc:  # a suffix that is no image
                raise UsageError(f"cannot write {path}: {exc}") from None
            show(console, f"wrote {path}")
    return 0


def _read(path: Path) -> EvaluationResult | FewShotResult:
    try:
        return read_claim(path)
    except VerificationError as exc:
        raise UsageError(f"{path}: {exc}") from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None


def _name(path: Path, result: EvaluationResult | FewShotResult) -> str:
    """What the result calls its policy; without that, its file."""
    of = result.evaluation if isinstance(result, FewShotResult) else result
    name = of.provenance and of.provenance.policy
    return name or str(path)
