"""``mtwrappers verify``: whether a result is true, by a replay of its actions."""

from __future__ import annotations

import argparse
import json
import textwrap
import time

from mtwrappers import _start
from mtwrappers._extras import import_extra
from mtwrappers.cli.common import UsageError
from mtwrappers.evaluation import EvidenceError, FewShotResult, VerificationError, verify
from mtwrappers.evaluation.claim import read_claim
from mtwrappers.evaluation.remake import determining
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.evaluation.rules import Rules
from mtwrappers.vector.process import cores


def run(args: argparse.Namespace) -> int:
    """Runs the command; returns its exit code: 1 if the result is not true."""
    console = import_extra("rich.console", "cli").Console()
    plain = {"soft_wrap": True, "markup": False, "highlight": False}
    _start.catch()
    start = time.perf_counter()
    try:
        claim = read_claim(args.result)
        for line in _about(claim):
            console.print(line, **plain)
        found = verify(
            args.result,
            args.evidence,
            sample=1.0 if args.sample is None else args.sample,
            workers=args.workers or cores(),
            fast=False if args.no_fast else "auto",
            progress=True,
        )
    except (VerificationError, EvidenceError) as exc:
        console.print(f"refused: {exc}", **plain)
        return 1
    except OSError as exc:
        raise UsageError(f"cannot read {exc.filename}: {exc.strerror}") from None
    width = max(map(len, found.replayed))
    for task, n in found.replayed.items():
        console.print(f"{task:<{width}}  {found.same[task]:>4} of {n:>4} the same", **plain)
    same, replayed = sum(found.same.values()), sum(found.replayed.values())
    n = len(claim.episodes)
    of_all = "" if replayed == n else f" (of {n})"
    seconds = time.perf_counter() - start
    if not found.ok:
        console.print(f"false: {found.difference}", **plain)
    console.print(
        f"{'verified' if found.ok else 'not verified'}: {same} of {replayed} episodes{of_all} gave "
        f"the same numbers\nto the last bit: return, length and successes ({seconds:.0f} s)",
        **plain,
    )
    return 0 if found.ok else 1


def _about(claim: EvaluationResult | FewShotResult) -> list[str]:
    """What a result is of, in ASCII: a file is not to write to a terminal what it likes."""
    n, in_trials = len(claim.episodes), isinstance(claim, FewShotResult)
    if isinstance(claim, FewShotResult):
        claim = claim.evaluation
    found = claim.provenance
    made = determining((found and found.spec) or {}, in_trials)
    arguments = ", ".join(f"{name}={json.dumps(value)}" for name, value in made.items())
    lines = textwrap.wrap(f"environments  {ascii(arguments)[1:-1]}", 80, subsequent_indent=" " * 14)
    if claim.protocol is not None:
        lines.append(f"protocol      {Rules.from_dict(claim.protocol).label}")
    lines.append(f"policy        {json.dumps(found and found.policy)}")
    lines.append(f"episodes      {n} of {len(claim.tasks)} tasks, seed {claim.seed}")
    return lines
