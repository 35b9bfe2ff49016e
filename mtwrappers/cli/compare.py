"""``mtwrappers compare``: the scores of methods, and the differences between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mtwrappers.cli.console import UsageError, say
from mtwrappers.evaluation import (
    Curves,
    EvaluationResult,
    FewShotResult,
    IncomparableError,
    VerificationError,
    compare,
    curves,
    scores,
)
from mtwrappers.evaluation.runs import Networks, by_policy
from mtwrappers.evaluation.scores import Format
from mtwrappers.evaluation.verify import read_claim


def run(
    results: Sequence[str],
    format: Format,
    tasks: bool,
    plot: Path | None,
    curve: Path | None,
    runs: Networks,
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
    differences = len(policies) > 1 and (format == "table" or plot is not None)
    if plot is not None and not differences:
        raise UsageError(f"--plot draws differences, and all results are of {min(policies)}")
    try:
        scored = scores(policies, runs=runs, force=force)
        compared = compare(policies, runs=runs, force=force) if differences else []
        drawn = None if curve is None else curves(policies, runs=runs, force=force)
    except IncomparableError as exc:
        raise UsageError(f"{exc}; --force compares them all the same") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    say(scored.format(format, tasks=tasks))
    for i, each in enumerate(compared):
        if format == "table":
            say(f"\n{each}")
        if plot is not None:
            numbered = f"{plot.stem}-{i + 1}{plot.suffix}"
            path = plot if len(compared) == 1 else plot.with_name(numbered)
            try:
                each.plot(path)
            except (OSError, ValueError) as exc:  # a suffix that is no image
                raise UsageError(f"cannot write {path}: {exc}") from None
            if format == "table":  # else the output is the table alone
                say(f"wrote {path}")
    if curve is not None and drawn is not None:
        for path in _write(drawn, curve, tasks):
            if format == "table":
                say(f"wrote {path}")
    return 0


def _write(drawn: Curves, path: Path, tasks: bool) -> Iterator[Path]:
    """Writes curves as a picture, unless the path is that of a table, and beside it as a table."""
    table = path.with_suffix(".csv")
    for each in dict.fromkeys((path, table)):
        try:
            if each == table:
                drawn.to_csv(each, tasks=tasks)
            else:
                drawn.plot(each, tasks=tasks)
        except (OSError, ValueError) as exc:  # a suffix that is no image
            raise UsageError(f"cannot write {each}: {exc}") from None
        yield each


def read(argument: str) -> dict[str, EvaluationResult | FewShotResult]:
    """The results that an argument names, by what errors call them."""
    try:
        return {argument: read_claim(argument)}
    except VerificationError as exc:
        raise UsageError(f"{argument}: {exc}") from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
