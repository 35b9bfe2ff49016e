"""Runs a script of the folder ``examples`` as it stands."""

import os
import subprocess
import sys

from tests.fakes import ROOT


def run_example(name: str, cwd: os.PathLike[str], **environment: str) -> list[str]:
    """The lines that ``examples/{name}`` prints; it must end well.

    Args:
        name: The script's file name.
        cwd: Where it runs.
        environment: Environment variables on top of this process's.
    """
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
