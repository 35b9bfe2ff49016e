"""``mtwrappers compare``: the scores of methods, and the differences between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from mtwrappers.cli.console import UsageError, say
from mtwrappers.evaluation import (
    Curves,
    IncomparableError,
    VerificationError,
    compare,
    curves,
    reference,
    scores,
)
from mtwrappers.evaluation.result import AnyResult
from mtwrappers.evaluation.runs import Networks, by_policy
from mtwrappers.evaluation.scores import Format
from mtwrappers.evaluation.verify import read_claim

# Begins the name of results that come with the package.
_REFERENCE = "reference:"


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
    policies = by_policy(read_all(results))
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


def read_all(arguments: Sequence[str]) -> dict[str, AnyResult]:
    """The results that arguments name, in their order, by what errors call them."""
    of_argument: dict[str, dict[str, AnyResult]] = {}
    # A method comes last: which of its results are meant depends on the others.
    for argument in sorted(arguments, key=_is_method):
        like = next((one for of in of_argument.values() for one in of.values()), None)
        of_argument[argument] = read(argument, like)
    found: dict[str, AnyResult] = {}
    for argument in arguments:
        for label, result in of_argument[argument].items():
            if label in found:
                raise UsageError(f"{label} is given twice")
            found[label] = result
    return found


def read(argument: str, like: AnyResult | None) -> dict[str, AnyResult]:
    """The results that an argument names; of a method, those of the protocol of another result."""
    try:
        if not argument.startswith(_REFERENCE):
            return {argument: read_claim(argument)}
        if _is_method(argument) and like is None:
            raise UsageError(
                f"{argument} has a result of each protocol: name one as {argument}/..., or give a "
                "result of yours beside it"
            )
        found = reference(argument.removeprefix(_REFERENCE), like if _is_method(argument) else None)
    except VerificationError as exc:
        raise UsageError(f"{argument}: {exc}") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    return {f"{_REFERENCE}{label}": result for label, result in found.items()}


def _is_method(argument: str) -> bool:
    """Whether this names a method, and none of its results."""
    return argument.startswith(_REFERENCE) and "/" not in argument
