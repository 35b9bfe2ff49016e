"""``mtwrappers compare``: the scores of methods, and the differences between them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mtwrappers.cli.commands import described
from mtwrappers.cli.console import UsageError, result_file, say, unreadable, warn
from mtwrappers.common.counts import format_count
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
from mtwrappers.evaluation.claims import read_claim
from mtwrappers.evaluation.method_scores import TableFormat
from mtwrappers.evaluation.plot import check_image_suffix
from mtwrappers.evaluation.result import REFERENCE_PREFIX, EvaluationResult
from mtwrappers.evaluation.statistics import CONFIDENCE

# From fewer episodes, an interval may be too wide to distinguish methods that differ by 0.2: by
# Wilson's half-width, 1.96**2 * (0.25 / 0.1**2 - 1).
_ENOUGH = 93


@described
def run(
    results: list[str],
    /,
    *,
    format: TableFormat = "table",
    no_tasks: bool = False,
    plot: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    curve: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    force: bool = False,
) -> int:
    """Print and compare the scores of methods over training runs.

    Scores are success rates, or returns if no result records success.

    Args:
        results: Files of rollouts or of EvaluationResult.save, or folders of rollouts. Files with
            the same --name are training runs of one method. reference:NAME is a result that comes
            with mtwrappers, by the same protocol: reference:experts for Meta-World's scripted
            experts, reference:random for random actions. It is a method of its own, even if your
            results have the same --name.
        format: table (default), which also prints the differences from the first method; markdown;
            latex, which needs the package booktabs; or csv, which has full precision.
        no_tasks: Print and draw only the means over all tasks and over groups of tasks.
        plot: Also draw the scores, and the differences beside them. With three methods or more,
            each comparison with the first has its own file: plot-1.png, plot-2.png for plot.png.
        curve: Also draw scores against --training-steps, and write a CSV file beside the image.
        force: Compare results even if their protocols, settings or goals differ.
    """
    for option, path in (("--plot", plot), ("--curve", curve)):
        _check_suffix(option, path)
    policies = _group_methods(read_all(results))
    differences = len(policies) > 1 and (format == "table" or plot is not None)
    if plot is not None and not differences:
        raise UsageError(
            f"--plot draws differences between policies, and all results are of {min(policies)}; "
            f"add {REFERENCE_PREFIX}experts or another policy's results, or use --curve"
        )
    try:
        scored = scores(policies, force=force)
        comparisons = compare(policies, force=force) if differences else []
        curves_of_methods = None if curve is None else curves(policies, force=force)
    except IncomparableError as exc:
        hint = "" if force else "; --force compares them anyway"
        raise UsageError(f"{exc}{hint}") from None
    except ValueError as exc:
        raise UsageError(str(exc)) from None
    is_text = format == "table"  # otherwise print the table only
    say(scored.format(format, tasks=not no_tasks))
    for i, comparison in enumerate(comparisons, 1):
        if is_text:
            say(f"\n{comparison.format(tasks=not no_tasks)}")
        if plot is not None:
            path = plot
            if len(comparisons) > 1:
                path = plot.with_name(f"{plot.stem}-{i}{plot.suffix}")
            _write(path, functools.partial(comparison.plot, tasks=not no_tasks), is_text)
    if curve is not None and curves_of_methods is not None:
        _write_curves(curve, curves_of_methods, not no_tasks, is_text)
    if warning := _describe_few_episodes(scored):
        warn(warning)
    return 0


def _check_suffix(option: str, path: Path | None) -> None:
    """Raises `UsageError` for a file of no image format, before anything is printed."""
    if path is None or path.suffix == "" or (option == "--curve" and path.suffix == ".csv"):
        return
    try:
        check_image_suffix(path, option)
    except ValueError as exc:
        raise UsageError(str(exc)) from None


def _write_curves(path: Path, drawn: Curves, with_tasks: bool, say_so: bool) -> None:
    """Writes the picture of curves, and beside it a CSV file; the latter alone if it is named."""
    csv = path.with_suffix(".csv")
    if path != csv:
        _write(path, functools.partial(drawn.plot, tasks=with_tasks), say_so)
    _write(csv, functools.partial(drawn.to_csv, tasks=with_tasks), say_so)


def _group_methods(
    results: Mapping[str, EvaluationResult],
) -> dict[str, dict[str, EvaluationResult]]:
    """The results of each method by their labels.

    A result that comes with the package is a method of its own, named ``reference:NAME``, even if
    a method of the user's has that name as well.
    """
    names = {label: result.description.policy or label for label, result in results.items()}
    user_names = {name for label, name in names.items() if results[label].reference is None}
    methods: dict[str, dict[str, EvaluationResult]] = {}
    for label, result in results.items():
        name = names[label]
        if result.reference is not None:
            name = f"{REFERENCE_PREFIX}{name}"
            while name in user_names:
                name = f"{REFERENCE_PREFIX}{name}"
        methods.setdefault(name, {})[label] = result
    return methods


def _write(path: Path, write: Callable[[Path], object], say_so: bool) -> None:
    """Calls ``write`` with a path.

    Raises:
        UsageError: If the file cannot be written.
    """
    try:
        write(path)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error}") from None
    if say_so:
        say(f"wrote {path}", "dim")


def _describe_few_episodes(scored: Scores) -> str:
    """The warning about methods with few episodes and wide intervals, or ``""``."""
    sentences = []
    for name, score in scored.methods.items():
        n = sum(score.counts.values())
        if score.metric == "success" and score.unit != "runs" and n < _ENOUGH:
            sentences.append(f"{name} has {format_count(n, score.unit.removesuffix('s'))}")
    if not sentences:
        return ""
    return (
        f"{', '.join(sentences)}; from fewer than {_ENOUGH}, a {CONFIDENCE:.0%} interval at a rate "
        "of 0.5 is wider than \u00b10.10"
    )


def read_all(arguments: Sequence[str]) -> dict[str, EvaluationResult]:
    """The results of all arguments, in order, by their label in error messages."""
    read: dict[str, dict[str, EvaluationResult]] = {}
    # Methods are read last: which of their results are meant depends on the others.
    for argument in sorted(arguments, key=_is_method):
        like = next((result for results in read.values() for result in results.values()), None)
        read[argument] = _read(argument, like)
    by_label: dict[str, EvaluationResult] = {}
    for argument in arguments:
        for label, result in read[argument].items():
            if label in by_label:
                raise UsageError(f"{label} is given twice")
            by_label[label] = result
    return by_label


def _read(argument: str, like: EvaluationResult | None) -> dict[str, EvaluationResult]:
    """The results of one argument; of a method, only those with ``like``'s protocol."""
    try:
        if not argument.startswith(REFERENCE_PREFIX):
            path = result_file(argument)
            return {str(path): read_claim(path)}
        name = argument.removeprefix(REFERENCE_PREFIX)
        results = reference(name, like if _is_method(argument) else None)
    except VerificationError as error:
        raise UsageError(f"{argument}: {error}") from None
    except ValueError as error:
        raise UsageError(str(error)) from None
    except OSError as error:
        if _has_reference(argument):
            raise UsageError(
                f"there is no file {argument}; did you mean {REFERENCE_PREFIX}{argument}?"
            ) from None
        raise unreadable(error, ", or reference:NAME") from None
    protocols = {result.protocol for result in results.values()}
    if _is_method(argument) and like is None and len(protocols) > 1:
        raise UsageError(
            f"{argument} has results by {len(protocols)} protocols: name one, such as "
            f"{REFERENCE_PREFIX}{min(results)}, or pass a result of your own as well"
        )
    return {f"{REFERENCE_PREFIX}{label}": result for label, result in results.items()}


def _has_reference(name: str) -> bool:
    """Whether results of this name come with the package."""
    try:
        reference(name)
    except ValueError:
        return False
    return True


def _is_method(argument: str) -> bool:
    """Whether an argument names a method, not one of its results."""
    return argument.startswith(REFERENCE_PREFIX) and "/" not in argument
