"""``mtwrappers rollout --resume DIR``: which rollout goes on, and whether it may."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from mtwrappers.cli.common import UsageError
from mtwrappers.cli.files import RESULTS
from mtwrappers.cli.progress import NAME, Progress

# What determines a rollout, and what it is where the command does not say.
DEFAULTS: dict[str, Any] = {
    "benchmark": None,
    "task": [],
    "policy": "expert",
    "episodes": 5,
    "seed": 0,
    "no_fast": False,
}


def begun(args: argparse.Namespace) -> Progress:
    """The progress of a new rollout: none."""
    if args.benchmark is None:
        raise UsageError(
            "the following arguments are required: benchmark, or --resume DIR; such as: mtwrappers "
            "rollout MT10"
        )
    given = {name: getattr(args, name) for name in DEFAULTS}
    settings = {name: DEFAULTS[name] if given[name] is None else given[name] for name in DEFAULTS}
    return Progress(args.out or Path("results"), settings)


def resumed(args: argparse.Namespace) -> Progress | None:
    """The progress of the rollout into ``args.resume``; ``None`` if that is complete.

    Raises:
        UsageError: If there is no rollout, or it was begun with other arguments or versions.
    """
    directory = args.resume
    if args.video:
        raise UsageError(
            "--video films a rollout from its start, --resume plays what is left; leave one out"
        )
    if args.out is not None and args.out.resolve() != directory.resolve():
        raise UsageError(
            f"--resume {directory} writes into that directory, got --out {args.out}; "
            "leave --out away"
        )
    complete = None if (directory / NAME).exists() else _settings_of_results(directory)
    progress = None if complete else Progress.load(directory)
    for name, value in (progress.settings if progress else complete or {}).items():
        given = getattr(args, name)
        if given is not None and given != value:
            raise UsageError(
                f"the rollout into {directory} was begun with {name} {value!r}, got {given!r}; "
                "leave it out, or start a rollout of its own with another --out"
            )
    return progress


def _settings_of_results(directory: Path) -> dict[str, Any] | None:
    """What the results of a complete rollout say of its settings; ``None`` if there are none."""
    try:
        results = json.loads((directory / RESULTS).read_text())
        if results["interrupted"]:
            return None
        return {name: results[name] for name in ("benchmark", "policy", "episodes", "seed")}
    except (OSError, ValueError, KeyError, TypeError):
        return None
