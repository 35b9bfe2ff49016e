"""``mtwrappers check``: checks the vector environment contract on any environment."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import cloudpickle
import gymnasium
from cyclopts import Parameter

from mtwrappers.cli.commands import Count, described
from mtwrappers.cli.console import UsageError, say
from mtwrappers.cli.own import OWN_FILE, own_object
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.registration import TABLE
from mtwrappers.testing import check_vector_env

# An id of Gymnasium: with a version, or with a namespace.
_ID = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/[\w.-]+|[\w.-]+-v\d+)")


@described
def run(
    environment: str,
    /,
    *,
    kwargs: Annotated[str | None, Parameter(metavar="JSON")] = None,
    vector: bool = False,
    steps: Count = 1200,
    ignore: Annotated[list[str] | None, Parameter(metavar="INFO")] = None,
) -> int:
    """Check whether an environment can be trusted, step by step.

    Args:
        environment: package.module:NAME or FILE.py:NAME, a function without arguments that returns
            an environment or a vector environment; or a registered id.
        kwargs: Arguments of the function or id, as JSON.
        vector: Given an id, check make_vec(id) instead of make(id).
        steps: Take at most this many steps (default: 1200).
        ignore: An info that is not compared, such as info.time; can be repeated.
    """
    try:
        report = check_vector_env(
            _subject(environment),
            kwargs=_kwargs(kwargs),
            vector=vector,
            steps=steps,
            ignore=ignore or (),
        )
    except (TypeError, ValueError, ImportError, gymnasium.error.Error) as exc:
        missing = _ID.fullmatch(environment) and environment not in gymnasium.registry
        hint = _hint(environment) if missing else ""
        raise UsageError(f"{environment}: {f'no such id; {hint}' if hint else exc}") from None
    head, *rows = str(report).split("\n")
    say(head, "bold green" if report.ok else "bold red")
    for row in rows:
        say(row, "red" if row.startswith("FAILED ") else "")
    return 0 if report.ok else 1


def _hint(given: str) -> str:
    """Suggests a registered id, if a name is similar to one."""
    bare = _bare(given)
    alike = [env_id for env_id in gymnasium.registry if _bare(env_id) == bare]
    if alike:  # one of ours, or the newest without a namespace
        best = min(reversed(alike), key=lambda env_id: (env_id not in TABLE, len(env_id)))
        return f"did you mean {best!r}?"
    return did_you_mean(given, gymnasium.registry)


def _bare(env_id: str) -> str:
    """The name in an id, without its namespace and its version."""
    return re.sub(r"^.*/|-v\d+$", "", env_id).casefold()


def _subject(given: str) -> Any:
    if _ID.fullmatch(given):
        return given
    source, _, name = given.rpartition(":")
    if not source or not name.isidentifier():
        forms = "package.module:NAME, FILE.py:NAME or a registered id"
        hint = _hint(given) if not source else ""
        if given.endswith(".py"):
            hint = f"name the function in the file too, such as {given}:make"
        raise UsageError(f"expected {forms}, got {given!r}{f'; {hint}' if hint else ''}")
    made, _ = own_object(given, given)
    if source.endswith(".py"):
        # Workers that are not forked cannot import the file by name.
        cloudpickle.register_pickle_by_value(sys.modules[OWN_FILE])
    return made


def _kwargs(text: str | None) -> Mapping[str, Any]:
    try:
        found = json.loads(text or "{}")
    except ValueError as exc:
        raise UsageError(f"--kwargs must be JSON, such as '{{\"g\": 9.0}}': {exc}") from None
    if not isinstance(found, dict):
        raise UsageError(f"--kwargs must be a JSON object, got {text}")
    return found
