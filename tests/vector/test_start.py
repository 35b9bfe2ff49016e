"""How worker processes are started: by a fork only where that leaves no thread behind."""

import multiprocessing
import os
import subprocess
import sys

import pytest

from tests.fakes import ROOT

pytestmark = pytest.mark.skipif(
    multiprocessing.get_all_start_methods()[0] != "fork", reason="Python forks nowhere here"
)

PRELUDE = """
import ctypes, multiprocessing, os, signal, sys, threading, types
import gymnasium
import numpy as np
from mtwrappers import MetaIterativeEnvExecutor, MetaParallelEnvExecutor
from tests.fakes import CountingEnv, equal

def parallel(**kwargs):
    return MetaParallelEnvExecutor(CountingEnv, 2, workers=2, **kwargs)

def started(**kwargs):
    envs = parallel(**kwargs)
    parents = set(envs.map_blocks(lambda envs, rows: os.getppid()))
    envs.close()
    print("forked" if parents == {os.getpid()} else "served")

waits = threading.Event()
thread = threading.Thread(target=waits.wait)
"""


def run(code, *options):
    """The lines that another Python prints, which does not warn."""
    done = subprocess.run(
        [sys.executable, "-W", "always", *options, "-c", f"{PRELUDE}{code}\nwaits.set()"],
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "3"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_a_process_alone_forks_its_workers_whatever_threads_openblas_has():
    code = """
np.ones((500, 500)) @ np.ones((500, 500))
print(len(os.listdir("/proc/self/task")) > 1)
started()
started()
print(multiprocessing.get_start_method(allow_none=True))  # which is left to the program
"""
    assert run(code) == ["True", "forked", "forked", "None"]


# Of the last, Python knows nothing, as of those of OpenGL and PyTorch.
THREADS = [
    "thread.start()",
    "import _thread; _thread.start_new_thread(waits.wait, ())",
    "libc, i = ctypes.CDLL(None), ctypes.c_void_p()\n"
    "libc.pthread_create(ctypes.byref(i), None, libc.pause, None)",
]


@pytest.mark.parametrize("thread", THREADS, ids=["a thread", "a raw one", "one of C"])
@pytest.mark.slow
def test_beside_threads_no_worker_is_forked_from_here(thread):
    assert run(f"{thread}\nstarted()") == ["served"]
