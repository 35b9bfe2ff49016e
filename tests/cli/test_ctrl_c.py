"""Ctrl-C from the first line of `main` on, and output that nobody reads: one line or none."""

import contextlib
import os
import re
import signal
import subprocess
import sys

import pytest

from mtwrappers.cli import main
from mtwrappers.common.command import INTERRUPTED

COMMANDS = {
    "list": ["list"],
    "rollout": ["rollout", "MT1", "--policy", "random", "--workers", "2"],
    "verify-fast": ["verify-fast", "--workers", "2"],
}


def interrupt_after(module, *command, cwd):
    """Interrupts a command when it has imported a module; returns its exit code and its errors."""
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "mtwrappers", *command],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    for line in process.stderr:
        if line.rpartition("|")[2].strip() == module:
            break
    os.killpg(process.pid, signal.SIGINT)
    with process.stderr as source:
        errors = source.read()  # not `communicate`, which leaves out what is buffered
    process.wait(timeout=60)
    messages = re.sub(r"import time:.*\n?", "", errors)  # workers import, too
    return process.returncode, messages.splitlines()


@pytest.mark.parametrize(
    ("module", "command"),
    [
        ("numpy", "list"),  # which Gymnasium imports, before there is a `main`
        ("gymnasium.core", "list"),
        ("cyclopts.core", "list"),  # the first that `main` imports
        ("mtwrappers.metaworld.wrapper_settings", "list"),
        *((module, "rollout") for module in ("mtwrappers.cli.user_code", "mujoco._functions")),
        ("mujoco._functions", "verify-fast"),
        ("multiprocessing.popen_spawn_posix", "verify-fast"),  # which starts workers next
    ],
)
@pytest.mark.slow_but("list", "mujoco._functions-rollout")
def test_ctrl_c_while_a_command_starts_is_one_line(module, command, tmp_path):
    assert interrupt_after(module, *COMMANDS[command], cwd=tmp_path) == (130, [INTERRUPTED])


@pytest.mark.parametrize("command", [["list"], ["rollout", "--help"]])
@pytest.mark.slow_but("command0")
def test_output_that_nobody_reads_is_no_error(command):
    with subprocess.Popen(
        [sys.executable, "-m", "mtwrappers", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) in (0, 128 + signal.SIGPIPE)


@pytest.mark.parametrize("handler", [signal.default_int_handler, signal.SIG_IGN])
@pytest.mark.parametrize("arguments", [["--version"], ["rollout", "MT10", "--epsodes", "3"]])
def test_a_command_leaves_the_handler_of_ctrl_c_as_it_was(handler, arguments):
    signal.signal(signal.SIGINT, handler)
    with contextlib.suppress(SystemExit):
        main(arguments)
    assert signal.getsignal(signal.SIGINT) is handler
