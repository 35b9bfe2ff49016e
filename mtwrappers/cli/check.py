"""``mtwrappers check``: checks the vector environment contract on any environment."""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Any

import cloudpickle
import gymnasium
from cyclopts import Parameter

from mtwrappers.cli.commands import Count, described
from mtwrappers.cli.console import Terminal, UsageError, say
from mtwrappers.cli.user_code import USER_MODULE, load_object
from mtwrappers.common.did_you_mean import did_you_mean
from mtwrappers.common.registration import TABLE
from mtwrappers.testing import CheckReport, check_vector_env
from mtwrappers.testing.check import CheckResult, format_result

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
        environment: A registered id, such as CartPole-v1, or my_module:MyEnv-v0 if my_module
            registers it. Or package.module:NAME or FILE.py:NAME: a function without arguments that
            returns an environment or a vector environment.
        kwargs: Arguments of the function or id, as JSON.
        vector: For an id: check gymnasium.make_vec(id) instead of gymnasium.make(id).
        steps: Take at most this many steps (default: 1200).
        ignore: An info that is not compared, such as info.time; can be repeated.
    """
    start = time.perf_counter()
    width = min(Terminal().width, 80)

    def print_result(result: CheckResult) -> None:
        if result.outcome != "skipped":  # these are printed last, by their reasons
            for line in format_result(result, width):
                say(line, "red" if result.outcome == "failed" else "")

    try:
        report = check_vector_env(
            _find_environment(environment),
            kwargs=_parse_kwargs(kwargs),
            vector=vector,
            steps=steps,
            ignore=ignore or (),
            on_result=print_result,
        )
    except gymnasium.error.UnregisteredEnv:
        module, _, env_id = environment.rpartition(":")
        hint = _hint(env_id)
        if not module:
            form = f"id of your own module is written my_module:{env_id}"
            hint = f"{hint} An {form}" if hint else f"an {form}"
        hint = hint or f"{module} does not register it"
        raise UsageError(f"{environment}: no such id; {hint}") from None
    except (TypeError, ValueError, ImportError, gymnasium.error.Error) as exc:
        raise UsageError(f"{environment}: {exc}") from None
    for line in report.format_skipped(width):
        say(line, "dim")
    seconds = time.perf_counter() - start
    summary = textwrap.wrap(f"{_summarize(report)} ({seconds:.0f} s)", width)
    say("\n" + "\n".join(summary), "bold green" if report.ok else "bold red")
    return 0 if report.ok else 1


def _summarize(report: CheckReport) -> str:
    """How many checks of a report have which outcome, and which have failed."""
    counts = Counter(result.outcome for result in report.results)
    counted = [
        f"{counts[outcome]} {outcome}" for outcome in ("passed", "skipped") if counts[outcome]
    ]
    if report.failed:
        counted.insert(0, f"{len(report.failed)} FAILED: {', '.join(report.failed)}")
    return f"{report.subject} ({report.kind}): {'; '.join(counted)}"


def _hint(env_id: str) -> str:
    """Suggests a registered id, if a name is similar to one."""
    name = _strip_id(env_id)
    same_names = [known_id for known_id in gymnasium.registry if _strip_id(known_id) == name]
    if same_names:  # one of ours, or the newest without a namespace
        best = min(
            reversed(same_names), key=lambda known_id: (known_id not in TABLE, len(known_id))
        )
        return f"did you mean {best!r}?"
    return did_you_mean(env_id, gymnasium.registry)


def _strip_id(env_id: str) -> str:
    """The name in an id, without its namespace and its version."""
    return re.sub(r"^.*/|-v\d+$", "", env_id).casefold()


def _find_environment(name: str) -> Any:
    """The id, or the function of the user, that is named on the command line."""
    if _ID.fullmatch(name):
        sys.path.append(os.getcwd())  # as `python -m` does, for a module that registers the id
        return name
    source, _, function = name.rpartition(":")
    if not source or not function.isidentifier():
        forms = "package.module:NAME, FILE.py:NAME or a registered id"
        hint = _hint(name) if not source else ""
        if name.endswith(".py"):
            hint = f"name the function in the file too, such as {name}:make"
        raise UsageError(f"expected {forms}, got {name!r}{f'; {hint}' if hint else ''}")
    make, _ = load_object(name, name)
    if source.endswith(".py"):
        # Workers that are not forked cannot import the file by name.
        cloudpickle.register_pickle_by_value(sys.modules[USER_MODULE])
    return make


def _parse_kwargs(text: str | None) -> Mapping[str, Any]:
    try:
        kwargs = json.loads(text or "{}")
    except ValueError as exc:
        raise UsageError(f"--kwargs must be JSON, such as '{{\"g\": 9.0}}': {exc}") from None
    if not isinstance(kwargs, dict):
        raise UsageError(f"--kwargs must be a JSON object, got {text}")
    return kwargs
