"""The benchmark and the classes given to a command."""

from __future__ import annotations

from collections.abc import Sequence

from mtwrappers.cli.console import UsageError, unknown
from mtwrappers.cli.settings import BENCHMARKS
from mtwrappers.metaworld.tasks import make_benchmark
from mtwrappers.metaworld.upstream import all_classes


def full_name(benchmark: str) -> str:
    """Returns the name of a benchmark as in its id: ML10 becomes ML10-train.

    Raises:
        UsageError: If there is no such benchmark.
    """
    full = benchmark if benchmark in BENCHMARKS else f"{benchmark}-train"
    if full not in BENCHMARKS:
        raise unknown(f"benchmark {benchmark!r}", benchmark, BENCHMARKS)
    return full


def has_one_class(full: str) -> bool:
    """Whether a benchmark has a single class, which the user chooses."""
    return full.partition("-")[0] in ("MT1", "ML1")


def count_classes(full: str, given: Sequence[str], seed: int) -> int:
    """Returns the number of ``given`` classes, or without any, of the benchmark's classes.

    Raises:
        UsageError: If the benchmark lacks a given class.
    """
    name, _, kind = full.partition("-")
    if has_one_class(full):
        choices = sorted(all_classes())
        if len(given) > 1:
            raise UsageError(
                f"{name} has one class, got {len(given)}; several are in MT10, MT50, ..."
            )
    else:
        made = make_benchmark(name, seed=seed)
        choices = list(made.test_classes if kind == "test" else made.train_classes)
    for task in given:
        if task not in choices:
            raise unknown(f"class {task!r} of {full}", task, choices)
    return 1 if has_one_class(full) else len(set(given) or choices)
