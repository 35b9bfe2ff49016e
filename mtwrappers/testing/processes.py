"""Worker processes of the checks, and a process that cannot hang its caller."""

from __future__ import annotations

import contextlib
import functools
import multiprocessing
import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeVar

from mtwrappers.vector import workers

T = TypeVar("T")

# After how many seconds a process that does not start has failed to.
_STARTS = 60.0


def children(*, every: bool = False) -> set[int]:
    """Returns the live processes that `multiprocessing` has started here.

    Args:
        every: Whether to include those that were started in any other way, where Linux lists them.
    """
    found = {child.pid for child in multiprocessing.active_children() if child.pid is not None}
    for path in Path("/proc/self/task").glob("*/children") if every else ():
        with contextlib.suppress(OSError):  # the thread has ended
            found.update(map(int, path.read_text().split()))
    return found


def start_method() -> str:
    """Returns the start method of workers: ours, but no fork if OpenGL is loaded."""
    return "forkserver" if "OpenGL" in sys.modules else workers.start_method(replaces=False)


@functools.cache
def can_start(method: str) -> bool:
    """Whether a worker can start; unless forked, it imports the main module first."""
    context: Any = multiprocessing.get_context(method)
    if context.get_start_method() == "fork":
        return True
    try:
        process = context.Process(target=os.getpid, daemon=True)
        process.start()
        process.join(_STARTS)
        process.kill()
        process.join()
        return bool(process.exitcode == 0)
    except (OSError, EOFError):  # the server that forks has ended
        return False


def leave_if_imported() -> None:
    """Ends a new worker quietly if it imports a main module that checks without a guard."""
    if getattr(multiprocessing.current_process(), "_inheriting", False):
        raise SystemExit(1)


def all_gone(pids: Iterable[int]) -> bool:
    """Whether all of these processes end soon."""
    return not still_there(lambda: [pid for pid in pids if _is_there(pid)])


def still_there(found: Callable[[], list[T]], seconds: float = 2.0) -> list[T]:
    """Returns what is found again and again, for some seconds."""
    deadline = time.monotonic() + seconds
    while (left := found()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return left


def _is_there(pid: int) -> bool:
    multiprocessing.active_children()  # takes the exit codes of those that have ended
    try:
        os.kill(pid, 0)
        # In Linux: one that has ended, whose exit code nobody has asked for yet.
        return " Z " not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2][:3]
    except ProcessLookupError:
        return False
    except OSError:
        return True


def guarded(function: Callable[[], Any], seconds: float) -> Any:
    """Returns a function's result from a fork of this process, killed with all its children.

    Raises:
        TimeoutError: If it takes longer.
        Exception: Whatever it raises, as a ``RuntimeError`` if it does not pickle.
    """
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            os.close(read)
            _answer(function, write)
        finally:
            os._exit(0)
    os.close(write)
    try:
        with open(read, "rb") as answer:
            if not select.select([answer], [], [], seconds)[0]:
                raise TimeoutError(f"no answer within {seconds:.0f} s")
            # Not up to the end of the pipe, which what the function has left behind keeps open.
            raised, value = pickle.load(answer)
    except EOFError:
        raise RuntimeError("the process ended without an answer") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):  # what collects all children took it first
            os.waitpid(pid, 0)
    if raised:
        raise value
    return value


def _answer(function: Callable[[], Any], write: int) -> None:
    try:
        result: tuple[bool, Any] = False, function()
    except BaseException as exc:
        result = True, exc
    try:
        data = pickle.dumps(result)
        pickle.loads(data)
    except Exception:  # pickling calls methods of the value, which may raise anything
        data = pickle.dumps((True, RuntimeError(repr(result[1]))))
    with contextlib.suppress(OSError):
        os.write(write, data)
