"""The directory of a rollout: its lock and its files."""

from __future__ import annotations

import contextlib
import csv
import dataclasses
import errno
import json
import os
import shlex
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from mtwrappers.cli.console import UsageError
from mtwrappers.cli.progress import NAME, Progress
from mtwrappers.cli.video import Videos
from mtwrappers.evaluation import EvaluationResult
from mtwrappers.metaworld.upstream import all_classes
from mtwrappers.state.files import remove, remove_unfinished, write_together

RESULTS, EVIDENCE, TABLE, CHART = "results.json", "results.npz", "results.csv", "success.png"
CSV_COLUMNS = ("task", "episodes", "success_once", "success_final", "mean_return")
_LOCK, _BESIDE = ".lock", ".unfinished"
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP)  # of file systems


def result_file(given: str) -> Path:
    """Returns the file with the results of a rollout, named by itself or by its folder."""
    return Path(given, RESULTS) if os.path.isdir(given) else Path(given)


@contextlib.contextmanager
def locked(directory: Path, command: str = "rollout") -> Iterator[None]:
    """Locks a directory against other ``command`` processes; removes remains of killed ones.

    The lock ends with this process, however it ends; forks do not hold it.

    Raises:
        UsageError: If another process holds the lock.
        OSError: If the directory does not exist or is not writable.
    """
    lock = FileLock(directory / _LOCK, blocking=False)
    try:
        if (directory / _LOCK).is_symlink():
            remove(directory / _LOCK)  # else the file that it leads to would be emptied
        lock.acquire()
    except Timeout:
        raise UsageError(
            f"another {command} is writing into {directory}: wait until it has ended, or choose "
            "another place with --out"
        ) from None
    except OSError as exc:
        if exc.errno not in _NO_LOCKS:
            raise
    try:
        remove(directory / _BESIDE)
        remove_unfinished(directory)
        yield
    finally:
        # Before the release: afterwards another process may hold the file.
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def clear(directory: Path, overwrite: bool) -> None:
    """Removes the files of an earlier rollout, if ``overwrite``; other files stay.

    Raises:
        UsageError: If there are some, and not ``overwrite``.
        OSError: If one cannot be removed.
    """
    known = {RESULTS, EVIDENCE, TABLE, CHART, NAME, *(f"{task}.mp4" for task in all_classes())}
    found = sorted(known.intersection(os.listdir(directory)))
    if found and not overwrite:
        raise UsageError(
            f"{directory} has files of an earlier rollout ({', '.join(found)}): replace them with "
            f"--overwrite, continue it with --resume {shlex.quote(str(directory))}, or choose "
            "another folder with --out DIR"
        )
    for name in found:
        (directory / name).unlink()


def write_files(
    kept: Progress,
    settings: Mapping[str, Any],
    result: EvaluationResult,
    texts: tuple[str, str],
    videos: Videos | None,
) -> list[Path]:
    """Writes results, evidence, a table, a chart and videos; returns their paths.

    All files are complete before the first is moved into place, so a full disk or a kill leaves
    those of an earlier interruption unchanged. ``texts`` are the chart's title and note.
    """
    directory = kept.directory
    with _beside(directory) as place:
        if kept.settings.evidence and result.provenance is not None:
            digest = kept.write_evidence(place / EVIDENCE)
            provenance = dataclasses.replace(result.provenance, evidence=digest)
            result = dataclasses.replace(result, provenance=provenance)
        results = {**result.to_dict(), "rollout": settings}
        (place / RESULTS).write_text(json.dumps(results, indent=2) + "\n")
        _write_csv(place / TABLE, result)
        result.plot(place / CHART, *texts)
        if videos is not None:
            videos.write(place)
        names = sorted(os.listdir(place))
        write_together({directory / name: (place / name).read_bytes() for name in names})
    return [directory / name for name in names]


@contextlib.contextmanager
def _beside(directory: Path) -> Iterator[Path]:
    """Creates a directory within a locked one, for files that are not complete."""
    place = directory / _BESIDE
    place.mkdir()
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _write_csv(path: Path, result: EvaluationResult) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(CSV_COLUMNS)
        for task, found in result.per_task.items():
            known = (found["success_once"], found["success_final"], found["return"])
            values = [estimate and estimate.value for estimate in known]
            writer.writerow([task, len(result.of_task(task)), *values])
