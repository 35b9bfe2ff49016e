"""``mtwrappers compare``: the scores of methods, and the differences between them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from mtwrappers.cli.console import UsageError, say, say_table, warn
from mtwrappers.cli.directory import result_file
from mtwrappers.evaluation import (
    Curves,
    IncomparableError,
    Scores,
    VerificationError,
    compare,
    curves,
    reference,
    scores,
)
from mtwrappers.evaluation.result import AnyResult
from mtwrappers.evaluation.runs import Networks, by_policy
from mtwrappers.evaluation.scores import Format
from mtwrappers.evaluation.statistics import quantile, wilson
from mtwrappers.evaluation.verify import read_claim

# An interval with this half-width is too wide to distinguish methods that differ by 0.2.
_WIDE = 0.1
# The prefix of results that come with the package.
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
        raise UsageError(
            f"--plot draws differences between policies, and all results are of {min(policies)}"
        )
    try:
        scored = scores(policies, runs=runs, force=force)
        compared = compare(policies, runs=runs, force=force) if differences else []
        drawn = None if curve is None else curves(policies, runs=runs, force=force)
    except IncomparableError as exc:
        raise UsageError(f"{exc}; --force compares them anyway") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    print_scores = say_table if format == "table" else say
    print_scores(scored.format(format, tasks=tasks))
    for i, each in enumerate(compared):
        if format == "table":
            say(f"\n{each}")
        if plot is not None:
            numbered = f"{plot.stem}-{i + 1}{plot.suffix}"
            path = plot if len(compared) == 1 else plot.with_name(numbered)
            try:
                each.plot(path)
            except (OSError, ValueError) as exc:  # a suffix of no image format
                raise UsageError(f"cannot write {path}: {exc}") from None
            if format == "table":  # otherwise print the table only
                say(f"wrote {path}", "dim")
    if curve is not None and drawn is not None:
        for path in _write(drawn, curve, tasks):
            if format == "table":
                say(f"wrote {path}", "dim")
    if few := _few(scored):
        warn(few)
    return 0


def _few(scored: Scores) -> str:
    """Returns the warning about methods with few episodes and wide intervals, or ``""``."""
    z2 = quantile(scored.confidence) ** 2
    enough = math.ceil(z2 / 4 / _WIDE**2 - z2)  # from the half-width of Wilson's interval at 0.5
    parts = []
    for name, score in scored.methods.items():
        trials = score.unit == "trials"
        n = sum(score.counts.values()) if trials else score.episodes
        if n < enough:
            low, high = wilson(np.array(0.5), np.array(n), scored.confidence)
            unit = "trials" if trials else "episodes"
            parts.append(f"{name} has {n} {unit}, about \N{PLUS-MINUS SIGN}{(high - low) / 2:.2f}")
    if not parts:
        return ""
    return (
        f"few episodes for a {scored.confidence:.0%} interval at a success rate of 0.5: "
        f"{'; '.join(parts)}; {enough} episodes give \N{PLUS-MINUS SIGN}{_WIDE:.2f}"
    )


def _write(drawn: Curves, path: Path, tasks: bool) -> Iterator[Path]:
    """Writes curves as a CSV table and, unless ``path`` is the table's, as an image beside it."""
    table = path.with_suffix(".csv")
    for each in dict.fromkeys((path, table)):
        try:
            if each == table:
                drawn.to_csv(each, tasks=tasks)
            else:
                drawn.plot(each, tasks=tasks)
        except (OSError, ValueError) as exc:  # a suffix of no image format
            raise UsageError(f"cannot write {each}: {exc}") from None
        yield each


def read_all(arguments: Sequence[str]) -> dict[str, AnyResult]:
    """Returns the results of all arguments, in order, by their label in error messages."""
    of_argument: dict[str, dict[str, AnyResult]] = {}
    # Methods are read last: which of their results are meant depends on the others.
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
    """Returns the results of one argument; for a method, only those with ``like``'s protocol."""
    try:
        if not argument.startswith(_REFERENCE):
            path = result_file(argument)
            return {str(path): read_claim(path)}
        found = reference(argument.removeprefix(_REFERENCE), like if _is_method(argument) else None)
        if _is_method(argument) and like is None:
            raise UsageError(
                f"{argument} has one result per protocol: name one, such as "
                f"{_REFERENCE}{min(found)}, or pass a result of your own as well"
            )
    except VerificationError as exc:
        raise UsageError(f"{argument}: {exc}") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    return {f"{_REFERENCE}{label}": result for label, result in found.items()}


def _is_method(argument: str) -> bool:
    """Whether an argument names a method, not one of its results."""
    return argument.startswith(_REFERENCE) and "/" not in argument
