"""Other processes that the checks start, and those that an environment leaves behind."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, TypeVar

import cloudpickle

from mtwrappers.common.errors import picklable

T = TypeVar("T")

# Run by a new interpreter with the modules of this one.
_PROGRAM = """
import sys
sys.path[:] = {path!r}
from mtwrappers.testing.processes import answer_from_stdin
answer_from_stdin()
"""


class NewProcess:
    """A function that runs in a new interpreter while this process goes on.

    Args:
        function: Without arguments, pickled.
        hash_seed: The interpreter's ``PYTHONHASHSEED``.
    """

    def __init__(self, function: bytes, hash_seed: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
            start_new_session=True,
        )
        stdin: Any = self._process.stdin
        with contextlib.suppress(BrokenPipeError), stdin:
            stdin.write(function)
        self._process.stdin = None  # `communicate` writes nothing more

    def result(self, seconds: float) -> Any:
        """The function's result.

        Raises:
            TimeoutError: If there is none after ``seconds``.
            Exception: Whatever the function raises.
        """
        try:
            data, _ = self._process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"no answer within {seconds:.0f} s") from None
        finally:
            self.kill()
        return _unpack_result(data)

    def kill(self) -> None:
        """Ends the process and what it has started."""
        if self._process.stdout is None or self._process.stdout.closed:
            return
        with contextlib.suppress(ProcessLookupError, AttributeError):  # Windows has no killpg
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def answer_from_stdin() -> None:
    """Calls the function that is pickled in the standard input, and writes its pickled result."""
    if hasattr(os, "nice"):
        os.nice(10)  # the process that waits for the answer has other work to do
    answer = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what an environment prints is no answer
    with answer:
        answer.write(_pack_result(lambda: pickle.load(sys.stdin.buffer)()))


def call_in_fork(function: Callable[[], Any], seconds: float) -> Any:
    """Returns a function's result from a fork of this process, killed with all its children.

    Raises:
        TimeoutError: If it takes longer.
        Exception: Whatever it raises.
    """
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process: Any = context.Process(target=_send_result, args=(function, sender))
    process.start()
    sender.close()
    try:
        if not receiver.poll(seconds):
            raise TimeoutError(f"no answer within {seconds:.0f} s")
        data = receiver.recv_bytes()
    except EOFError:
        data = b""
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        receiver.close()
    return _unpack_result(data)


def _send_result(function: Callable[[], Any], sender: Any) -> None:
    os.setsid()
    sender.send_bytes(_pack_result(function))


def _pack_result(function: Callable[[], Any]) -> bytes:
    """What a function returns or raises, pickled."""
    try:
        answer: tuple[bool, Any] = False, function()
    except BaseException as exc:
        answer = True, picklable(exc)
    return bytes(cloudpickle.dumps(answer))


def _unpack_result(data: bytes) -> Any:
    if not data:
        raise RuntimeError("the process ended without an answer")
    raised, value = pickle.loads(data)
    if raised:
        raise value
    return value


def find_children() -> set[Any]:
    """The live processes that were started here, as far as `multiprocessing` or Linux knows."""
    pids: set[Any] = {child.pid for child in multiprocessing.active_children()}
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError):  # the thread has ended
            pids.update(map(int, path.read_text().split()))
    return {pid for pid in pids if not _has_ended(pid)}


def _has_ended(pid: int) -> bool:
    """Whether a process has ended, in Linux, whose exit code nobody has asked for yet."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].startswith(" Z")
    return False


def find_open_files() -> set[tuple[str, str]]:
    """The number and path of each file that this process has open, as far as Linux knows."""
    files = set()
    for link in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # it is that of the listing itself
            files.add((link.name, os.readlink(link)))
    elsewhere = ("/dev/", "/proc/", "/memfd:")
    return {
        (number, path)
        for number, path in files
        if path.startswith("/") and not path.startswith(elsewhere)
    }


def wait_until_gone(find: Callable[[], Collection[T]], seconds: float = 2.0) -> Collection[T]:
    """Returns what is found again and again, for some seconds."""
    deadline = time.monotonic() + seconds
    while (remaining := find()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return remaining
