"""The output folder of a rollout: the files in it, and who may write them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from mtwrappers.cli.console import RESULTS, UsageError
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.files import locked

EVIDENCE, TABLE_FILE, CHART = "results.npz", "results.csv", "success.png"


@contextlib.contextmanager
def open_folder(folder: Path, *, may_exist: bool) -> Iterator[None]:
    """Makes and locks the output folder, as a context manager.

    Args:
        folder: The folder.
        may_exist: Whether it may have files of an earlier rollout.

    Raises:
        UsageError: If it cannot be written, has files that it may not have, or another rollout
            writes into it.
    """
    with contextlib.ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            is_free = stack.enter_context(locked(folder))
            earlier_files = find_files(folder)
        except OSError as exc:
            raise cannot_write(folder, exc) from None
        if not is_free:
            raise UsageError(
                f"another rollout is writing into {folder}: wait until it has ended, or choose "
                "another place with --out"
            )
        if earlier_files and not may_exist:
            raise UsageError(
                f"{folder} has files of an earlier rollout ({', '.join(earlier_files)}): replace "
                "them with --overwrite, continue it with --resume, or choose another folder with "
                "--out DIR"
            )
        yield


def find_files(folder: Path) -> list[str]:
    """The names of the files of a rollout in a folder."""
    videos = (f"{task}.mp4" for task in all_classes())
    names = {RESULTS, EVIDENCE, TABLE_FILE, CHART, *videos}
    return sorted(names.intersection(os.listdir(folder)))


def cannot_write(folder: Path, exc: OSError) -> UsageError:
    """Returns the error for a folder that cannot be written."""
    return UsageError(
        f"cannot write to {folder}: {exc.strerror or exc}; choose another directory with --out "
        "DIR, or make this one writable and continue with --resume"
    )
