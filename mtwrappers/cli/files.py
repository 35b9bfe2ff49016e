"""The directory of a rollout: whose it is, and the files that it leaves behind."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mtwrappers.cli.common import EVIDENCE, RESULTS, UsageError
from mtwrappers.cli.observers import Videos
from mtwrappers.cli.progress import Progress
from mtwrappers.evaluation.result import EvaluationResult
from mtwrappers.state.files import remove_unfinished, write_together

_UNFINISHED = ".unfinished-"
# The locks that this process holds, as descriptors of directories.
_locks: set[int] = set()

CSV_COLUMNS = ("task", "episodes", "success_once", "success_final", "mean_return")


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Keeps other rollouts out of a directory, and removes what killed ones have left in it.

    The kernel gives the lock back when this process ends, however it ends.

    Raises:
        UsageError: If another rollout has it.
        OSError: If there is no such directory, or it cannot be read.
    """
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"another rollout is writing into {directory}: wait until it has ended, or choose "
                "another directory with --out DIR"
            ) from None
        except OSError:
            pass  # a file system without locks
        _locks.add(lock)
        for left in directory.glob(f"{_UNFINISHED}*"):
            if left.is_dir() and not left.is_symlink():
                shutil.rmtree(left, ignore_errors=True)
        remove_unfinished(directory)
        yield
    finally:
        _locks.discard(lock)
        os.close(lock)


def _drop_locks() -> None:
    """Workers, which may outlive this process for a while, are not to go on with its locks."""
    while _locks:
        os.close(_locks.pop())


os.register_at_fork(after_in_child=_drop_locks)


def write_files(
    kept: Progress,
    settings: Mapping[str, Any],
    result: EvaluationResult,
    texts: tuple[str, str],
    videos: Videos | None,
) -> list[Path]:
    """Writes the results, their evidence, a table, a chart and videos; returns their paths.

    All are complete before the first is moved into place, so a full disk or a kill leaves the
    files of an earlier run as they were. ``texts`` are the chart's title and note.
    """
    directory = kept.directory
    with tempfile.TemporaryDirectory(dir=directory, prefix=_UNFINISHED) as beside:
        place = Path(beside)
        if kept.settings["evidence"] and result.provenance is not None:
            written = kept.write_evidence(place / EVIDENCE)
            provenance = dataclasses.replace(result.provenance, evidence=written)
            result = dataclasses.replace(result, provenance=provenance)
        results = {**result.to_dict(), "rollout": settings}
        (place / RESULTS).write_text(json.dumps(results, indent=2) + "\n")
        with (place / "results.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(CSV_COLUMNS)
            for task, found in result.per_task.items():
                known = (found["success_once"], found["success_final"], found["return"])
                values = [estimate and estimate.value for estimate in known]
                writer.writerow([task, len(result.of_task(task)), *values])
        result.plot(place / "success.png", *texts)
        if videos is not None:
            videos.write(place)
        names = sorted(os.listdir(place))
        write_together({directory / name: (place / name).read_bytes() for name in names})
        if EVIDENCE not in names:
            (directory / EVIDENCE).unlink(missing_ok=True)  # that of other results
    return [directory / name for name in names]
