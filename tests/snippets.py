"""Runs pieces of code, each in a process that begins like a new Python, only sooner.

It is a fork of a Python that has imported the libraries below, and nothing of this package, and has
compiled the models of MT10: a second or two for each snippet, of which there are thirty.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.fakes import ROOT

SERVER = """
import json, os, signal, sys, types
import gymnasium, matplotlib.figure, metaworld, scipy.stats
import tests.models
for name in metaworld.env_dict.MT10_V3:
    metaworld.ALL_V3_ENVIRONMENTS[name]()
for line in sys.stdin:
    code, cwd = json.loads(line)
    if os.fork() == 0:
        break
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
else:
    os._exit(0)
os.chdir(cwd)
for fd, path in enumerate((os.devnull, "stdout", "stderr")):
    os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), fd)
signal.alarm(300)
main = sys.modules["__main__"] = types.ModuleType("__main__")
exec(compile(code, "<snippet>", "exec"), vars(main))
"""


@contextmanager
def snippets() -> Iterator[Callable[[str, Any], str]]:
    """Yields what runs a snippet in a directory, and returns what that printed."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    ) as server:

        def run(code: str, cwd: Any) -> str:
            server.stdin.write(json.dumps([code, str(cwd)]) + "\n")
            server.stdin.flush()
            assert server.stdout.readline() == "0\n", (Path(cwd) / "stderr").read_text()
            return (Path(cwd) / "stdout").read_text()

        yield run
        server.stdin.close()
