"""Worker processes of the checks, and a process that cannot hang its caller."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from mtwrappers.vector import workers

# Set while `can_start` starts a process, and after how many seconds that has failed.
_TRYING = "MTWRAPPERS_CHECK_TRIES_A_WORKER"
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


def can_start() -> bool:
    """Whether a worker can start; unless forked, it imports the main module first."""
    context: Any = multiprocessing.get_context(start_method())
    if context.get_start_method() == "fork":
        return True
    os.environ[_TRYING] = "1"
    try:
        process = context.Process(target=os.getpid, daemon=True)
        process.start()
        process.join(_STARTS)
        process.kill()
        process.join()
        return bool(process.exitcode == 0)
    except (OSError, EOFError):  # the server that forks has ended
        return False
    finally:
        del os.environ[_TRYING]


def leave_if_tried() -> None:
    """Ends a process quietly if `can_start` started it and it imports the main module."""
    importing = getattr(multiprocessing.current_process(), "_inheriting", False)
    if importing and _TRYING in os.environ:
        raise SystemExit(1)


def all_gone(pids: Iterable[int], seconds: float = 2.0) -> bool:
    """Whether all of these processes end within some seconds."""
    deadline = time.monotonic() + seconds
    while any(_is_there(pid) for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def threads_gone(
    before: Iterable[threading.Thread], seconds: float = 2.0
) -> list[threading.Thread]:
    """Returns the threads that were not there before and do not end within some seconds."""
    deadline, known = time.monotonic() + seconds, set(before)
    while left := [thread for thread in threading.enumerate() if thread not in known]:
        if time.monotonic() > deadline:
            break
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
