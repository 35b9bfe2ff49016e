"""``mtwrappers verify``: checks a result or a dataset by replaying its actions."""

from __future__ import annotations

import time
from pathlib import Path

from mtwrappers.cli import ctrl_c
from mtwrappers.cli.console import UsageError, say, say_table
from mtwrappers.common.cores import cores
from mtwrappers.common.errors import full_message
from mtwrappers.evaluation import EvidenceError, VerificationError, verify
from mtwrappers.recording.episodes import RecordingError
from mtwrappers.recording.record import requirements
from mtwrappers.recording.record import verify as verify_dataset
from mtwrappers.recording.stores import open_store


def run_dataset(address: str) -> int:
    """Replays all episodes of a dataset; returns the exit code, 1 if one differs."""
    ctrl_c.raises()
    try:
        store = open_store(address)
    except RecordingError as exc:
        raise UsageError(str(exc)) from None
    if not store.path.exists():
        raise UsageError(f"there is no dataset {address} ({store.path})")
    try:
        now = requirements(store.packages)
        then = [str(line) for line in store.requirements()]
        known = [line for line in then if line.partition("==")[0] in store.packages]
        if other := [line for line in known if line not in now]:
            say(f"recorded with {', '.join(other)}")
        count, rounded = verify_dataset(store)
    except (RecordingError, OSError, LookupError, ValueError, TypeError, AssertionError) as exc:
        say(f"refused: {full_message(exc)}")
        return 1
    rewards = f", but for the last bits of rewards in {rounded}" if rounded else ""
    say(f"{count} of {count} episodes replayed bit for bit{rewards}")
    return 0


# The prefixes of the lines with the verdict on a result.
_OUTCOMES = ("verified", "false: ", "not verified: ")


def run(
    result: Path,
    evidence: Path | None,
    sample: float,
    table: bool,
    workers: int | None,
    no_fast: bool,
) -> int:
    """Runs the command; returns its exit code: 1 if the replay differs from the result.

    Raises:
        UsageError: If there is nothing that can be replayed.
    """
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
        raise UsageError(f"cannot verify {result}: {exc}") from None
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
