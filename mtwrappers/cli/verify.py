"""``mtwrappers verify``: whether a result is true, by a replay of its actions."""

from __future__ import annotations

import argparse
import time

from mtwrappers import _start
from mtwrappers.cli.common import UsageError, show
from mtwrappers.common.cores import cores
from mtwrappers.common.extras import import_extra
from mtwrappers.evaluation import EvidenceError, VerificationError, verify


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns its exit code: 1 if the result is not true."""
    console = import_extra("rich.console", "cli").Console()
    _start.catch()
    start = time.perf_counter()
    try:
        found = verify(
            args.result,
            args.evidence,
            sample=1.0 if args.sample is None else args.sample,
            workers=args.workers or cores(),
            fast=False if args.no_fast else "auto",
            progress=True,
        )
    except (VerificationError, EvidenceError) as exc:
        show(console, f"refused: {exc}")
        return 1
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    if args.table and found.ok:
        show(console, f"{found.result}\n")
    show(console, f"{found}\n({time.perf_counter() - start:.0f} s)")
    return 0 if found.ok else 1
