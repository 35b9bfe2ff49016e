"""``mtwrappers verify``: checks a result by replaying its actions."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from mtwrappers.cli.commands import Count, described
from mtwrappers.cli.console import UsageError, result_file, say, say_table
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.common.cores import cores
from mtwrappers.evaluation import EvidenceError, VerificationError, verify
from mtwrappers.metaworld.upstream import all_classes

# The prefixes of the lines with the verdict on a result.
_OUTCOMES = ("verified", "false: ", "not verified: ")


@described
def run(
    result: Annotated[str, Parameter(metavar="RESULT")],
    /,
    *,
    evidence: Annotated[Path | None, Parameter(metavar="FILE")] = None,
    sample: Annotated[float, Parameter(validator=Number(gte=0, lte=1), metavar="SHARE")] = 1.0,
    table: bool = False,
    workers: Count | None = None,
    no_fast: bool = False,
) -> int:
    """Replay the actions of a result, and compare every number.

    Args:
        result: A file of rollout or EvaluationResult.save, or the folder of a rollout.
        evidence: The .npz file with the actions of the episodes (default: the file of the same
            name beside the result, as rollout writes it).
        sample: Replay only this share of each class's episodes, chosen at random (default: 1).
        table: Also print the success of each class, with intervals.
        workers: Worker processes (default: all cores).
        no_fast: Run Meta-World's own classes, which are slower and give the same numbers.
    """
    all_classes()  # imports what an interruption would leave half imported
    raise_on_ctrl_c()
    path, start = result_file(result), time.perf_counter()
    try:
        found = verify(
            path,
            evidence,
            sample=sample,
            workers=workers or cores(),
            fast=False if no_fast else "auto",
            progress=True,
        )
    except (VerificationError, EvidenceError) as exc:
        raise UsageError(f"cannot verify {path}: {exc}") from None
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    if table and found.ok:
        say_table(f"{found.result}\n")
    about, _, outcome = str(found).partition("\n\n")
    say(f"{about}\n")
    style = "bold green" if found.ok else "bold red"
    for line in outcome.split("\n"):
        say(line, style if line.startswith(_OUTCOMES) else "")
    say(f"({time.perf_counter() - start:.0f} s)")
    return 0 if found.ok else 1
