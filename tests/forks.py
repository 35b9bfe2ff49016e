"""Calls functions in forks of the test's process.

They have by now what a new Python would take seconds to import, and can be killed like one.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable
from multiprocessing import forkserver
from multiprocessing.process import BaseProcess
from typing import Any


def start(function: Callable[..., Any], *args: Any, output: Any = os.devnull) -> BaseProcess:
    """Calls it in a fork, which ends with what it returns as its exit code.

    The fork leads a group of processes, and what it prints goes to the file ``output``.
    """
    fork = multiprocessing.get_context("fork")
    process = fork.Process(target=_call, args=(function, args, output))
    process.start()
    return process


def _call(function: Callable[..., Any], args: tuple[Any, ...], output: Any) -> None:
    os.setsid()
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    for number, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(file, number)
        setattr(sys, name, os.fdopen(number, "w", closefd=False))
    # The server that forks workers is a child of the test's process, and none of this one.
    server: Any = forkserver._forkserver  # type: ignore[attr-defined]
    server._forkserver_address = server._forkserver_alive_fd = server._forkserver_pid = None
    sys.exit(function(*args))
