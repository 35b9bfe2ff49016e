"""Goals on disk, under the user's cache directory.

A file holds numbers and a key, never pickles: loading one cannot run code. It is written under
another name and then moved into place, so no process ever reads half of one, and many may write
the same one at once.

The directory is ``MTWRAPPERS_CACHE_DIR`` where that is set, and off where it is empty.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Goals = list[NDArray[np.float64]]
VARIABLE = "MTWRAPPERS_CACHE_DIR"


def cache_directory() -> Path | None:
    """Where goals are kept, or ``None`` if they are not."""
    chosen = os.environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    try:
        import platformdirs
    except ModuleNotFoundError:
        return None  # it comes with the extra, and costs only time
    return Path(platformdirs.user_cache_dir("mtwrappers", appauthor=False))


def goal_file(names: Sequence[str], seed: int, num_goals: int) -> Path | None:
    """The file of these classes' goals."""
    directory = cache_directory()
    if directory is None:
        return None
    key = _key(names, seed, num_goals)
    return directory / f"goals-{hashlib.sha256(key.encode()).hexdigest()[:24]}.npz"


def cached_goals(
    names: Sequence[str], seed: int, num_goals: int, draw: Callable[[], list[Goals]]
) -> list[Goals]:
    """The goals of each class, from disk or from ``draw()``, which is then written.

    A file that is damaged or not ours is replaced, with a warning.
    """
    path = goal_file(names, seed, num_goals)
    if path is None:
        return draw()
    key = _key(names, seed, num_goals)
    damage: Exception | None = None
    try:
        return _read(path, key, len(names), num_goals)
    except FileNotFoundError:
        pass
    except OSError:
        return draw()  # unreadable: it costs only time
    except Exception as exc:
        damage = exc
    goals = draw()
    with contextlib.suppress(OSError):
        _write(path, key, goals)
    if damage is not None:
        # Not before: where warnings are errors, the file is whole the next time.
        warnings.warn(f"replacing the damaged goal file {path}: {damage}", stacklevel=2)
    return goals


def _key(names: Sequence[str], seed: int, num_goals: int) -> str:
    fields: dict[str, Any] = {
        "format": 1,
        "metaworld": version("metaworld"),
        "classes": list(names),
        "seed": seed,
        "num_goals": num_goals,
    }
    return json.dumps(fields, sort_keys=True)


def _write(path: Path, key: str, goals: list[Goals]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    fd, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
    try:
        with os.fdopen(fd, "wb") as file:
            np.savez(
                file,
                key=np.frombuffer(key.encode(), np.uint8),
                sizes=np.array([len(own[0]) for own in goals], np.int64),
                goals=np.concatenate([np.concatenate(own) for own in goals]),
            )
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _read(path: Path, key: str, num_classes: int, num_goals: int) -> list[Goals]:
    """Reads a file.

    Raises:
        FileNotFoundError: If there is none.
        ValueError: If it is not what `_write` writes for this key.
    """
    with path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is no archive")
        if set(archive.files) != {"key", "sizes", "goals"}:
            raise ValueError(f"it holds {sorted(archive.files)}")
        found, sizes, values = archive["key"], archive["sizes"], archive["goals"]
    if found.dtype != np.uint8 or found.tobytes() != key.encode():
        raise ValueError("it is of something else")
    if (
        sizes.shape != (num_classes,)
        or sizes.dtype != np.int64
        or (sizes < 1).any()
        or values.dtype != np.float64
        or values.shape != (int(sizes.sum()) * num_goals,)
        or not np.isfinite(values).all()
    ):
        raise ValueError("its numbers are not goals")
    goals, at = [], 0
    for size in sizes.tolist():
        block = values[at : at + size * num_goals].reshape(num_goals, size)
        # Arrays of their own, so that tasks pickle to the bytes that upstream's do.
        goals.append([row.copy() for row in block])
        at += size * num_goals
    return goals
