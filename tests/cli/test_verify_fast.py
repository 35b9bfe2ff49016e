"""`mtwrappers verify-fast`: its workers end with it, in whatever way it ends."""

import os
import signal
import subprocess
import sys

import pytest

from mtwrappers.cli import main, verify_fast
from mtwrappers.metaworld.fast import equality
from tests.vector.processes import all_gone, children, needs_proc, wait_until


@needs_proc
@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@pytest.mark.slow_but("9")
def test_no_worker_is_left_when_it_is_ended_by_a_signal(signum):
    command = [sys.executable, "-m", "mtwrappers", "verify-fast", "--workers", "2"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    # Two workers, and the tracker of resources that `multiprocessing` starts for them.
    assert wait_until(lambda: len(children(process.pid)) == 3)
    child_pids = children(process.pid)
    process.send_signal(signum)
    assert process.wait(timeout=60) == -signum
    assert all_gone(child_pids)


def test_zero_workers_compare_in_this_process(monkeypatch, capsys):
    compared = []
    monkeypatch.setattr(equality, "first_difference", lambda name, *_: compared.append(name))
    monkeypatch.setattr(verify_fast, "all_classes", lambda: ["push-v3", "reach-v3"])
    assert main(["verify-fast", "--workers", "0"]) == 0
    assert compared == ["push-v3", "reach-v3"]
    assert "yes: 2 of 2 classes return the same bits" in capsys.readouterr().out
