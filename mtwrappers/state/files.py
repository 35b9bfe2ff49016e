"""Files that are written whole or not at all, even after a kill or on a full disk.

Every file of the package is written here: beside its place, and then moved there. So a link in the
place is replaced, and the file that it leads to is not changed.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from mtwrappers.common.errors import is_printable, printable

if sys.platform != "win32":
    import fcntl

_MARK = ".unfinished-"
_MAX_TEXT = 10_000
_MAX_NAME = 200


def write_atomically(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file; if that fails, an existing one is unchanged.

    Raises:
        OSError: If it cannot be written, or there is something other than a file or a link.
    """
    with Unfinished(path) as unfinished:
        unfinished.file.write(data)
        unfinished.complete()
        unfinished.move()


class Unfinished:
    """A context manager for a file that appears only once it is complete.

    Data written to ``file`` goes to a temporary file beside ``path``, until `complete` and then
    `move` are called; without them nothing is left. A symbolic link is replaced, and its target is
    not changed. A file keeps the mode of the one that it replaces; a new one gets the mode that
    `open` would give it. Temporary files of killed writes to ``path`` are removed.

    Raises:
        OSError: If it cannot be written, or there is something other than a file or a link.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._target = target = Path(path).absolute()
        mode = 0
        with contextlib.suppress(FileNotFoundError):
            mode = target.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
                raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if not target.parent.exists():
            text = "no such folder, make it first"
            raise FileNotFoundError(errno.ENOENT, text, os.fspath(target.parent))
        prefix = hidden_name(target.name, _MARK)
        _remove_stale(target.parent, prefix)
        self._temporary, self.file = _open_beside(target.parent, prefix)
        if stat.S_ISREG(mode):  # the mode of a link is not one of a file
            os.chmod(self._temporary, stat.S_IMODE(mode) & 0o777)

    def complete(self) -> None:
        """Flushes all data to the disk, so that a full disk raises here."""
        self.file.flush()
        os.fsync(self.file.fileno())

    def move(self) -> None:
        """Gives the file its name."""
        if sys.platform == "win32":
            self.file.close()  # Windows moves no open file
        os.replace(self._temporary, self._target)

    def __enter__(self) -> Unfinished:
        return self

    def __exit__(self, *exc: object) -> None:
        # The file stays open, and so locked, until it is moved.
        with self.file:
            self._temporary.unlink(missing_ok=True)  # it is missing after `move`


def hidden_name(name: str, mark: str) -> str:
    """The hidden name of what is beside a file or a folder until that is complete.

    File systems allow names of 255 bytes. A name that leaves no room is replaced by its digest.
    """
    encoded = os.fsencode(name)
    if len(encoded) > _MAX_NAME:
        name = hashlib.sha256(encoded).hexdigest()
    return f".{name}{mark}"


@contextlib.contextmanager
def opened(path: str | os.PathLike[str], max_size: int) -> Iterator[BinaryIO]:
    """Opens a file to read, or raises `OSError` if it is not a regular file or too large."""
    # Does not wait for the writer of a pipe.
    opener = lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))  # noqa: E731
    with open(path, "rb", opener=opener) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
        if status.st_size > max_size:
            text = f"larger than the limit of {max_size:,} bytes"
            raise OSError(errno.EFBIG, text, os.fspath(path))
        yield file


def load_json(path: str | os.PathLike[str], max_size: int) -> Any:
    """Reads an untrusted JSON file.

    Raises:
        OSError: If it cannot be read, or is larger than ``max_size`` bytes.
        ValueError: If it is not JSON, an object in it has a key twice, or a text in it has
            unprintable characters (see `printable`) or more than 10,000 characters.
    """
    with opened(path, max_size) as file:
        return parse_json(file.read())


def parse_json(text: bytes) -> Any:
    """Returns untrusted JSON, or raises `ValueError` as `load_json` does."""
    try:
        data = json.loads(text, object_pairs_hook=_require_unique_keys)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except UnicodeDecodeError:
        raise ValueError("it is not text") from None
    values = [data]
    while values:
        value = values.pop()
        if isinstance(value, dict):
            values += [*value, *value.values()]
        elif isinstance(value, list):
            values += value
        elif isinstance(value, str) and not (is_printable(value) and len(value) <= _MAX_TEXT):
            raise ValueError(f"it has a text that cannot be printed: {printable(value, 100)}")
    return data


def _require_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Returns the object of JSON with these keys and values."""
    items = dict(pairs)
    if len(items) < len(pairs):
        [(key, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"an object has the key {printable(key, 100)!r} twice")
    return items


@contextlib.contextmanager
def locked(directory: Path) -> Iterator[bool]:
    """Locks a directory against others that lock it; yields whether it was free.

    The lock ends with this process, however it ends: processes that it has forked do not hold it.
    On a file system without locks, every directory is free.
    """
    if sys.platform == "win32":
        yield True
        return
    descriptors = [os.open(directory, os.O_RDONLY)]

    def release() -> None:
        while descriptors:
            os.close(descriptors.pop())

    os.register_at_fork(after_in_child=release)
    try:
        yield _lock(descriptors[0], wait=False) is not False
    finally:
        release()


def remove(path: Path) -> None:
    """Removes a file, a link (not what it leads to) or a whole directory, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _open_beside(directory: Path, prefix: str) -> tuple[Path, BinaryIO]:
    """Opens a new file that is locked while it is open."""
    while True:
        path = directory / f"{prefix}{secrets.token_hex(4)}"
        file = open(path, "xb")  # noqa: SIM115 (the caller closes it)
        if not _lock(file, wait=True) or path.exists():
            return path, file
        file.close()  # another write took it for a stale one before it was locked


def _remove_stale(directory: Path, prefix: str) -> None:
    """Removes temporary files that are not locked, left by killed writes."""
    for name in os.listdir(directory):
        if name.startswith(prefix):
            # Ignores files of other users, and files that another write just moved or removed.
            with contextlib.suppress(OSError), opened(directory / name, sys.maxsize) as file:
                if _lock(file, wait=False):
                    os.unlink(directory / name)


def _lock(file: BinaryIO | int, wait: bool) -> bool | None:
    """Locks a file and returns whether it is locked; ``None`` on a file system without locks."""
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
