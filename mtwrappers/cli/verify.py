"""``mtwrappers verify``: whether a result is true, by a replay of its actions."""

from __future__ import annotations

import time
from pathlib import Path

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.console import UsageError, say, say_table
from mtwrappers.common.cores import cores
from mtwrappers.evaluation import EvidenceError, VerificationError, verify

# How the lines begin that say whether a result is true.
_OUTCOMES = ("verified", "false: ", "not verified: ")


def run(
    result: Path,
    evidence: Path | None,
    sample: float,
    table: bool,
    workers: int | None,
    no_fast: bool,
) -> int:
    """Runs the command; returns its exit code: 1 if the result is not true."""
    ctrl_c.raises()
    start = time.perf_counter()
    try:
        found = verify(
            result,
            evidence,
            sample=sample,
            workers=workers or cores(),
            fast=False if no_fast else "auto",
            progress=True,
        )
    except (VerificationError, EvidenceError) as exc:
        say(f"refused: {exc}", "bold red")
        return 1
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
