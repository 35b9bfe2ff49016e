"""The benchmark that learns, killed and resumed."""

import os
import signal
import subprocess
import sys
import time

from tests.fakes import ROOT, run_with_python

SCRIPT = ("-m", "benchmarks.meta_learning", "--iterations", "2", "--seeds", "2")
FILES = ("meta_learning.png", "results/meta_learning.json")


def kill_after(checkpoints, out, *arguments):
    """Runs the learner in a process of its own, and kills it after so many checkpoints."""
    path = out / "results" / "meta_learning.checkpoint"
    with subprocess.Popen(
        [sys.executable, *SCRIPT, "--out", str(out), *arguments],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    ) as process:
        for _ in range(checkpoints):
            last = written(path)
            while written(path) == last:
                assert process.poll() is None
                time.sleep(0.001)
        os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def written(path):
    """When a file was written, if it was."""
    return path.stat().st_mtime_ns if path.exists() else None


def test_a_learner_killed_twice_ends_with_the_files_of_one_that_was_not(tmp_path):
    """Once among the first seed's iterations, once among the second's."""
    expected, out = tmp_path / "expected", tmp_path / "out"
    run_with_python(*SCRIPT, "--out", str(expected))
    kill_after(1, out)
    kill_after(2, out, "--resume")
    run_with_python(*SCRIPT, "--out", str(out), "--resume")
    for name in FILES:
        assert (out / name).read_bytes() == (expected / name).read_bytes()
    assert [path.name for path in (out / "results").iterdir()] == ["meta_learning.json"]
