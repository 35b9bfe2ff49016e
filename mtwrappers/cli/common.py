"""What the commands share."""

from __future__ import annotations

import os
import warnings
from typing import Any

from mtwrappers.common.errors import printable
from mtwrappers.common.extras import import_extra
from mtwrappers.common.registration import TABLE

BENCHMARKS = tuple(
    name.removeprefix("mtwrappers/").removesuffix("-v0")
    for name, (_, kwargs, _) in TABLE.items()
    if "benchmark" in kwargs and "train_classes" not in kwargs
)

RESULTS, EVIDENCE = "results.json", "results.npz"
POLICIES = ("expert", "random")  # which need no file of one's own
MAX_SEED = 2**32 - 2
MAX_COUNT = 1_000_000  # of episodes per class, and of workers


class UsageError(Exception):
    """Bad input that parsing does not find."""


def show(console: Any, text: str) -> None:
    """Prints lines as they are; what of a file is among them draws nothing else."""
    for line in text.split("\n"):
        console.print(printable(line), soft_wrap=True, markup=False, highlight=False)


def progress(console: Any) -> Any:
    """A progress bar with a count, and room for a rate."""
    module = import_extra("rich.progress", "cli")
    return module.Progress(
        *module.Progress.get_default_columns(),
        module.MofNCompleteColumn(),
        module.TextColumn("{task.fields[rate]}"),
        console=console,
    )


def quiet_experts() -> None:
    """Scripted experts ask for more than the action bounds, and say so; environments clip."""
    warnings.filterwarnings("ignore", message="Constant.s. may be too high")
    # For worker processes.
    os.environ["PYTHONWARNINGS"] = "ignore:Constant(s) may be too high:UserWarning"
