"""Reads untrusted results, and checks that they do not contradict themselves."""

from __future__ import annotations

import os
from typing import Any

from mtwrappers.common.counts import format_count
from mtwrappers.common.errors import full_message, short
from mtwrappers.evaluation.plan import Design
from mtwrappers.evaluation.protocol import check_made
from mtwrappers.evaluation.remake import VerificationError
from mtwrappers.evaluation.result import EvaluationResult, check_score
from mtwrappers.evaluation.result_files import read_results

# The way out for a file that contradicts itself or its replay.
UNEDITED = "if the file was edited, verify it as save() wrote it"
# Rows of tables, a limit of what costs time before the replay.
_MAX_ROWS = 5000


def read_claim(path: str | os.PathLike[str]) -> EvaluationResult:
    """Reads an untrusted file with one result; see `read_claims`."""
    claims = read_claims(path)
    if len(claims) != 1:
        raise VerificationError(
            f"{os.fspath(path)} has {format_count(len(claims), 'result')}, not one"
        )
    return claims[0]


def read_claims(path: str | os.PathLike[str]) -> list[EvaluationResult]:
    """Reads untrusted results, and checks that they do not contradict themselves.

    Raises:
        OSError: If the file cannot be read.
        TypeError: If it is no name of a file.
        VerificationError: If it is not a result, or contradicts itself.
    """
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(
            "result must be the name of a file from EvaluationResult.save, got "
            f"{short(path)}: save it, and pass the name of the file"
        )
    try:
        results = read_results(path)
    except (ValueError, RecursionError) as exc:
        raise VerificationError(full_message(exc)) from exc
    if not results:
        raise VerificationError(f"it has no result: {os.fspath(path)}")
    try:
        return [_read_claim(data) for data in results]
    except (ValueError, TypeError, OverflowError, RecursionError) as exc:
        raise VerificationError(f"{full_message(exc)}; {UNEDITED}") from exc


def _read_claim(data: Any) -> EvaluationResult:
    """A result from untrusted JSON values, whose score, design and environments fit together."""
    claim = EvaluationResult.from_dict(data)
    protocol, design = claim.protocol, claim.design
    if len(claim.tasks) * (len(claim.by_episode) if claim.few_shot else 1) > _MAX_ROWS:
        raise ValueError(f"its tables have more than {_MAX_ROWS:,} rows")
    check_score(data, claim)
    if protocol is None:
        return claim
    claimed = design or Design()
    expected = protocol.design(claimed.seed, tasks=claimed.tasks, adapts=claimed.adapts)
    if design != expected:
        raise ValueError(f"{protocol.name} has {expected}, got {design}")
    if (environments := claim.environments) is not None:
        # A result that was measured in wrappers has no score.
        arguments = {k: v for k, v in environments.kwargs.items() if k != "wrappers"}
        check_made(protocol, environments.id, arguments)
    return claim
