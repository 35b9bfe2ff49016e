"""The benchmark that learns, killed and resumed."""

import os
import signal
import sys
import time

import pytest

from benchmarks import meta_learning
from tests import forks

SIZES = ("--iterations", "2", "--seeds", "2")
FILES = ("meta_learning.png", "results/meta_learning.json")


def learn(out, *arguments):
    sys.argv = ["meta_learning", *SIZES, "--out", str(out), *arguments]
    meta_learning.main()


def kill_after(checkpoints, out, *arguments):
    """Runs the learner in a process of its own, and kills it after so many checkpoints."""
    path = out / "results" / "meta_learning.checkpoint"
    process = forks.start(learn, out, *arguments)
    for _ in range(checkpoints):
        last = written(path)
        while written(path) == last:
            assert process.is_alive()
            time.sleep(0.001)
    os.killpg(process.pid, signal.SIGKILL)
    process.join()
    assert process.exitcode == -signal.SIGKILL


def written(path):
    """When a file was written, if it was."""
    return path.stat().st_mtime_ns if path.exists() else None


@pytest.mark.slow
def test_a_learner_killed_twice_ends_with_the_files_of_one_that_was_not(tmp_path, monkeypatch):
    """Once among the first seed's iterations, once among the second's."""
    expected, out = tmp_path / "expected", tmp_path / "out"
    monkeypatch.setattr(sys, "argv", [])
    learn(expected)
    kill_after(1, out)
    kill_after(2, out, "--resume")
    learn(out, "--resume")
    for name in FILES:
        assert (out / name).read_bytes() == (expected / name).read_bytes()
    assert [path.name for path in (out / "results").iterdir()] == ["meta_learning.json"]
