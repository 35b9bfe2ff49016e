"""``mtwrappers verify``: checks a result by replaying its actions."""

from __future__ import annotations

import time
from typing import Annotated

from cyclopts import Parameter

from mtwrappers.cli.commands import Share, Workers, described
from mtwrappers.cli.console import UsageError, result_file, say, unreadable
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
    sample: Share = 1.0,
    workers: Workers | None = None,
) -> int:
    """Replay the actions of a result, and compare every number.

    Args:
        result: A file of rollout or EvaluationResult.save, or the folder of a rollout.
        sample: Replay only this share of each class's episodes, chosen at random (default: 1).
        workers: Worker processes (default: all cores). 0 means this process.
    """
    all_classes()  # imports what an interruption would leave half imported
    raise_on_ctrl_c()
    path, start = result_file(result), time.perf_counter()
    try:
        num_workers = cores() if workers is None else workers
        found = verify(path, sample=sample, workers=num_workers, progress=True)
    except (VerificationError, EvidenceError) as exc:
        raise UsageError(f"cannot verify {path}: {exc}") from None
    except OSError as exc:
        raise unreadable(exc) from None
    about, _, outcome = str(found).partition("\n\n")
    say(f"{about}\n")
    style = "bold green" if found.ok else "bold red"
    for line in outcome.split("\n"):
        say(line, style if line.startswith(_OUTCOMES) else "")
    say(f"({time.perf_counter() - start:.0f} s)")
    return 0 if found.ok else 1
