"""``mtwrappers verify``: checks a result by replaying its actions."""

from __future__ import annotations

import contextlib
import time
from json import dumps
from typing import Annotated, Any

from cyclopts import Parameter
from gymnasium.error import DependencyNotInstalled

from mtwrappers.cli.commands import Share, Workers, described
from mtwrappers.cli.console import UsageError, result_file, say, unreadable
from mtwrappers.cli.main import raise_on_ctrl_c
from mtwrappers.common.cores import cores
from mtwrappers.evaluation import (
    EvidenceError,
    Verification,
    VerificationError,
    reference,
    verify,
)
from mtwrappers.evaluation.result import REFERENCE_PREFIX
from mtwrappers.metaworld.upstream import all_classes


@described
def run(
    result: Annotated[str, Parameter(metavar="RESULT")],
    /,
    *,
    sample: Share = 1.0,
    workers: Workers | None = None,
    json: bool = False,
) -> int:
    """Replay the actions of a result, and compare every number.

    Args:
        result: A file of rollout or EvaluationResult.save, or the folder of a rollout.
        sample: Replay only this share of each class's episodes, chosen at random (default: 1); at
            least one.
        workers: Worker processes (default: all cores). 0 means this process.
        json: Print one JSON object, with the same content, for programs.
    """
    with contextlib.suppress(DependencyNotInstalled):  # not every result needs it
        all_classes()  # imports what an interruption would leave half imported
    raise_on_ctrl_c()
    if result.startswith(REFERENCE_PREFIX):
        try:
            names = [*reference(result.removeprefix(REFERENCE_PREFIX))]
        except ValueError as exc:
            raise UsageError(str(exc)) from None
        raise UsageError(
            f"the actions of {result} are not shipped with the package, so that nothing can be "
            f"replayed; compare with it (mtwrappers compare RESULT {result}), or make it again by "
            "the commands in benchmarks/reference/README.md of the repository; in a clone, verify "
            f"its folder, such as benchmarks/reference/{names[0]}, if that has a results.npz, as "
            "all of experts do"
        )
    path, start = result_file(result), time.perf_counter()
    try:
        num_workers = cores() if workers is None else workers
        verification = verify(path, sample=sample, workers=num_workers, progress=True)
    except (VerificationError, EvidenceError) as exc:
        raise UsageError(f"cannot verify {path}: {exc}") from None
    except OSError as exc:
        raise unreadable(exc) from None
    if json:
        say(_to_json(verification))
    else:
        say(str(verification))
        verdict = "verified" if verification.ok else "not verified"
        style = "bold green" if verification.ok else "bold red"
        say(f"\n{verdict} in {time.perf_counter() - start:.0f} s", style)
    return 0 if verification.ok else 1


def _to_json(verification: Verification) -> str:
    """The outcome for programs: the fields of `Verification`, and the score if it is verified."""
    fields: dict[str, Any] = {
        "ok": verification.ok,
        "difference": verification.difference,
        "replayed": dict(verification.replayed),
        "same": dict(verification.same),
        "rounding": verification.rounding,
        "versions": {name: list(pair) for name, pair in verification.versions.items()},
        "score": verification.result.score if verification.ok else None,
        "text": str(verification),
    }
    return dumps(fields, indent=2)
