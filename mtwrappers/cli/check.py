"""``mtwrappers check``: the contract of vector environments, run on anyone's environment."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import cloudpickle
import gymnasium

from mtwrappers.cli.console import UsageError
from mtwrappers.cli.own import OWN_FILE, own_object
from mtwrappers.testing import check_vector_env

# What Gymnasium takes for an id: with a version, or with a namespace.
_ID = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/[\w.-]+|[\w.-]+-v\d+)")


def run(
    environment: str,
    kwargs: str | None,
    vector: bool,
    seed: int,
    steps: int,
    num_envs: int | None,
    ignore: Sequence[str],
    as_json: bool,
) -> int:
    """Runs the command; returns its exit code: 1 if a check failed."""
    try:
        report = check_vector_env(
            _subject(environment),
            kwargs=_kwargs(kwargs),
            vector=True if vector else None,
            seed=seed,
            steps=steps,
            num_envs=num_envs,
            ignore=ignore,
        )
    except (TypeError, ValueError, ImportError, gymnasium.error.Error) as exc:
        raise UsageError(f"{environment}: {exc}") from None
    print(json.dumps(report.to_dict(), indent=2) if as_json else report)
    return 0 if report.ok else 1


def _subject(given: str) -> Any:
    if _ID.fullmatch(given):
        return given
    source, _, name = given.rpartition(":")
    if not source or not name.isidentifier():
        raise UsageError(
            f"expected package.module:NAME, FILE.py:NAME or a registered id, got {given!r}"
        )
    made, _ = own_object(given, given)
    if made is None:
        raise UsageError(f"{given}: {source} has no {name!r}")
    if source.endswith(".py"):
        # Workers that are not forks cannot import it by its name.
        cloudpickle.register_pickle_by_value(sys.modules[OWN_FILE])
    return made


def _kwargs(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as exc:
        raise UsageError(f"--kwargs must be JSON, such as '{{\"g\": 9.0}}': {exc}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--kwargs must be an object of JSON, got {text}")
    return found
