"""``mtwrappers compare``: the scores of methods, and the differences between them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from mtwrappers.cli.commands import described
from mtwrappers.cli.console import UsageError, result_file, say, unreadable, warn
from mtwrappers.evaluation import (
    IncomparableError,
    Scores,
    VerificationError,
    compare,
    curves,
    reference,
    scores,
)
from mtwrappers.evaluation.claims import read_claim
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.scores import Format

# From fewer episodes, an interval may be too wide to distinguish methods that differ by 0.2: by
# Wilson's half-width, 1.96**2 * (0.25 / 0.1**2 - 1).
_ENOUGH = 93
# The prefix of results that come with the package.
_REFERENCE = "reference:"


@described
def run(
    results: list[str],
    /,
    *,
    format: Format = "table",
    no_tasks: bool = False,
    plot: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    curve: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    force: bool = False,
) -> int:
    """Print and compare the scores of methods over training runs.

    Args:
        results: Files of rollouts or of EvaluationResult.save, or folders of rollouts. Files with
            the same --name are training runs of one method. reference:NAME is a result that comes
            with mtwrappers, by the same protocol: reference:experts for Meta-World's scripted
            experts, reference:random for random actions. It is a method of its own, even if your
            results have its name.
        format: table (default), which also prints the differences from the first method; markdown;
            latex, which needs the package booktabs; or csv, which has full precision.
        no_tasks: Print and draw only the means over all tasks and over groups of tasks.
        plot: Also draw the scores, and the differences beside them.
        curve: Also draw success against --training-steps, and write a CSV file beside the image.
        force: Compare results even if their protocols, settings or goals differ.
    """
    policies = _methods(read_all(results))
    differences = len(policies) > 1 and (format == "table" or plot is not None)
    if plot is not None and not differences:
        raise UsageError(
            f"--plot draws differences between policies, and all results are of {min(policies)}"
        )
    try:
        scored = scores(policies, force=force)
        compared = compare(policies, force=force) if differences else []
        drawn = None if curve is None else curves(policies, force=force)
    except IncomparableError as exc:
        hint = "" if force else "; --force compares them anyway"
        raise UsageError(f"{exc}{hint}") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    table = format == "table"  # otherwise print the table only
    say(scored.format(format, tasks=not no_tasks))
    for i, each in enumerate(compared):
        if table:
            say(f"\n{each.format(tasks=not no_tasks)}")
        if plot is not None:
            numbered = plot.with_name(f"{plot.stem}-{i + 1}{plot.suffix}")
            path = plot if len(compared) == 1 else numbered
            _write(path, functools.partial(each.plot, tasks=not no_tasks), table)
    if curve is not None and drawn is not None:
        csv = curve.with_suffix(".csv")
        if curve != csv:
            _write(curve, lambda path: drawn.plot(path, tasks=not no_tasks), table)
        _write(csv, lambda path: drawn.to_csv(path, tasks=not no_tasks), table)
    if few := _few(scored):
        warn(few)
    return 0


def _methods(results: Mapping[str, EvaluationResult]) -> dict[str, dict[str, EvaluationResult]]:
    """The results of each method by their labels.

    A result that comes with the package is never a run of a method of the user's, even if the two
    have the same name: then it is named ``reference:NAME``.
    """
    names = {label: result.description.policy or label for label, result in results.items()}
    own_names = {name for label, name in names.items() if not label.startswith(_REFERENCE)}
    methods: dict[str, dict[str, EvaluationResult]] = {}
    for label, result in results.items():
        name = names[label]
        while label.startswith(_REFERENCE) and name in own_names:
            name = f"{_REFERENCE}{name}"
        methods.setdefault(name, {})[label] = result
    return methods


def _write(path: Path, write: Any, says: bool) -> None:
    try:
        write(path)
    except (OSError, ValueError) as exc:  # a suffix of no image format
        raise UsageError(f"cannot write {path}: {exc}") from None
    if says:
        say(f"wrote {path}", "dim")


def _few(scored: Scores) -> str:
    """The warning about methods with few episodes and wide intervals, or ``""``."""
    few = [
        f"{name} has {n} {one.unit}"
        for name, one in scored.methods.items()
        if one.unit != "runs" and (n := sum(one.counts.values())) < _ENOUGH
    ]
    wide = f"from fewer than {_ENOUGH}, a 95% interval at a rate of 0.5 is wider than \u00b10.10"
    return f"{', '.join(few)}; {wide}" if few else ""


def read_all(arguments: Sequence[str]) -> dict[str, EvaluationResult]:
    """The results of all arguments, in order, by their label in error messages."""
    read: dict[str, dict[str, EvaluationResult]] = {}
    # Methods are read last: which of their results are meant depends on the others.
    for argument in sorted(arguments, key=_is_method):
        like = next((one for of in read.values() for one in of.values()), None)
        read[argument] = _read(argument, like)
    found: dict[str, EvaluationResult] = {}
    for label, result in (each for argument in arguments for each in read[argument].items()):
        if label in found:
            raise UsageError(f"{label} is given twice")
        found[label] = result
    return found


def _read(argument: str, like: EvaluationResult | None) -> dict[str, EvaluationResult]:
    """The results of one argument; of a method, only those with ``like``'s protocol."""
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
        raise unreadable(exc, ", or reference:NAME") from None
    return {f"{_REFERENCE}{label}": result for label, result in found.items()}


def _is_method(argument: str) -> bool:
    """Whether an argument names a method, not one of its results."""
    return argument.startswith(_REFERENCE) and "/" not in argument
