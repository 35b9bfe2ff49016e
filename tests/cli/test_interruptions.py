"""Rollouts that Ctrl-C, a kill or a full disk ends: what is kept, and that nothing stays behind."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from mtwrappers.cli import main, rollout
from tests.cli.fakes import FILES, Interrupting, resume


@pytest.mark.usefixtures("short_episodes")
def test_a_rollout_that_is_interrupted_before_an_episode_was_finished_writes_nothing(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, 0))
    out = ["--workers", "1", "--out", str(tmp_path)]
    assert main(["rollout", "MT1", "--policy", "random", "--episodes", "5", *out]) == 130
    assert list(tmp_path.iterdir()) == []
    said = capsys.readouterr().out
    assert "Interrupted before an episode was finished; nothing was written. Run" in said


def processes(group):
    """The processes of a group, but for those that have ended and wait to be noticed."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, its_group = stat.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(stat.parent.name))
    return found


@pytest.fixture
def long_rollout(tmp_path):
    """A rollout of two workers as a process of its own, some episodes in."""
    if not Path("/proc/self/stat").exists():
        pytest.skip("looks for processes in /proc")
    arguments = ["rollout", "MT1", "--policy", "random", "--episodes", "5000", "--workers", "2"]
    process = subprocess.Popen(
        [sys.executable, "-m", "mtwrappers", *arguments, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A group of its own, which a terminal would interrupt as a whole; live progress.
        start_new_session=True,
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    said = b""
    while not re.search(rb"\b([6-9]|\d\d+)/5000\b", said):
        said += process.stdout.read(1)
        assert process.poll() is None, process.stderr.read()
    assert len(processes(process.pid)) >= 3
    yield process
    if processes(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def test_ctrl_c_keeps_what_was_finished_and_leaves_no_process_behind(long_rollout, tmp_path):
    # Pressed again, it comes while workers end, and while files are written.
    for pause in [0.001] * 10 + [0.1] * 10:
        os.killpg(long_rollout.pid, signal.SIGINT)
        time.sleep(pause)
    said, errors = (text.decode(errors="replace") for text in long_rollout.communicate(timeout=60))
    assert long_rollout.returncode == 130
    assert errors == ""
    assert "Interrupted: these are the episodes that were finished." in said
    results = json.loads((tmp_path / "results.json").read_text())
    [row] = results["tasks"]
    assert 6 <= row["episodes"] < 5000
    assert results["steps"] == 500 * row["episodes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.jsonl", *FILES]
    deadline = time.monotonic() + 10  # for workers that end when their parent has
    while processes(long_rollout.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(long_rollout.pid) == []


# In the results, and in the progress.
@pytest.mark.parametrize(("size", "left"), [(9000, 0), (1040, 1)])
def test_a_full_disk_is_one_line_and_keeps_the_files_of_before(size, left, tmp_path):
    (tmp_path / "results.json").write_text("of before")
    # A limit on the size of files fails as a full disk does, in the middle of one.
    code = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); "
        "from mtwrappers.cli import main; "
        f"sys.exit(main(['rollout', 'MT1', '--episodes', '4', '--workers', '1', '--out', "
        f"{str(tmp_path)!r}]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == (
        f"mtwrappers: error: cannot write to {tmp_path}: File too large; the episodes that were "
        f"finished are kept: go on with mtwrappers rollout --resume {tmp_path}\n"
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.jsonl", "results.json"]
    assert (tmp_path / "results.json").read_text() == "of before"
    # Once there is room, nothing is played again.
    assert resume(tmp_path)[1] == left
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES
