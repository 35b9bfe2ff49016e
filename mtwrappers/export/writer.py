"""A process that writes a dataset with HDF5.

Where a write fails, as on a full disk, HDF5 may end its process with a segmentation fault. Here
that is the writer, and its parent raises an error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from mtwrappers.vector.server import follow_parent

# The writer's program; its path is its parent's.
_PROGRAM = """
import sys
sys.path[:] = {path!r}
from mtwrappers.export.writer import serve
serve({life})
"""


class WriterProcess:
    """A context manager for a process that calls ``write(items)`` with items that are sent to it.

    Without an exception, leaving it waits until all is written. After one, it ends the process.

    Args:
        write: A picklable function of an iterator of items.
        path: What it writes, for errors.

    Raises:
        OSError: If it cannot write, or its process ends before all is written.
        RuntimeError: If it raises anything else.
    """

    def __init__(self, write: Callable[[Iterator[Any]], object], path: Path) -> None:
        self._path = path
        # A pipe that closes when this process ends, which ends the writer too.
        life, self._life = os.pipe()
        # In a session of its own: Ctrl-C is for the parent, which then ends it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=sys.path, life=life)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            pass_fds=[life],
        )
        os.close(life)
        self._items: Any = self._process.stdin
        self._answer: Any = self._process.stdout
        self.send(write)

    def send(self, item: Any) -> None:
        """Sends an item, or raises the error of the process if it has ended."""
        try:
            pickle.dump(item, self._items, protocol=pickle.HIGHEST_PROTOCOL)
            self._items.flush()
        except BrokenPipeError:
            self._raise_error()

    def _raise_error(self) -> None:
        """Waits for the end of the process, and raises its error if it has one."""
        answer = self._answer.read()
        code = self._process.wait()
        if not answer:
            reason = f"signal {-code}" if code < 0 else f"code {code}"
            raise OSError(
                errno.EIO,
                f"its writer ended with {reason}, as HDF5 does if the disk is full",
                os.fspath(self._path),
            )
        error = pickle.loads(answer)
        if error is not None:
            raise error

    def __enter__(self) -> WriterProcess:
        return self

    def __exit__(self, kind: Any, *exc: object) -> None:
        try:
            if kind is None:
                self.send(None)  # the end
                self._raise_error()
        finally:
            self._process.kill()
            self._process.wait()
            self._answer.close()
            os.close(self._life)
            with contextlib.suppress(BrokenPipeError):  # by what is still in its buffer
                self._items.close()


def serve(life: int) -> None:
    """Calls the function that is sent first with the items that follow it, in a `WriterProcess`.

    Args:
        life: The descriptor of a pipe; the process ends when its other end is closed.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    follow_parent(life)
    items, answer = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print is not the answer

    def received() -> Iterator[Any]:
        while (item := pickle.load(items)) is not None:
            yield item

    error: Exception | None = None
    try:
        pickle.load(items)(received())
    except EOFError:
        os._exit(1)  # the parent has ended
    except OSError as exc:
        error = OSError(exc.errno, exc.strerror or str(exc), exc.filename)
    except Exception as exc:
        error = RuntimeError(f"{type(exc).__name__}: {exc}")
    answer.write(pickle.dumps(error))
    answer.flush()
    os._exit(0)  # HDF5 could fail once more when it is unloaded
