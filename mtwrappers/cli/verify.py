"""``mtwrappers verify``: whether a result is true, by a replay of its actions."""

from __future__ import annotations

import time
from pathlib import Path

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.console import UsageError, say
from mtwrappers.common.cores import cores
from mtwrappers.evaluation import EvidenceError, VerificationError, verify


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
        say(f"refused: {exc}")
        return 1
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    if table and found.ok:
        say(f"{found.result}\n")
    say(f"{found}\n({time.perf_counter() - start:.0f} s)")
    return 0 if found.ok else 1
