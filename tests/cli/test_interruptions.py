"""Rollouts that Ctrl-C, a kill or a full disk ends: what is kept, and that nothing stays behind."""

import contextlib
import errno
import os
import re
import resource
import signal
import stat
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from mtwrappers.cli import main, rollout
from mtwrappers.cli.directory import locked
from tests import forks
from tests.cli.fakes import FILES, Interrupting, read, results_of, resume
from tests.vector.processes import wait_until


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


def roll_out(out, episodes, workers="1", *more):
    arguments = ["--episodes", episodes, "--workers", workers, "--out", str(out)]
    return main(["rollout", "MT1", *arguments, *more])


def processes(group):
    """The processes of a group, but for those that have ended and wait to be noticed."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            state, _, its_group = path.read_text().rpartition(")")[2].split()[:3]
            if int(its_group) == group and state != "Z":
                found.append(int(path.parent.name))
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
        said += process.stderr.read(1)
        assert process.poll() is None, said
    assert len(processes(process.pid)) >= 3
    yield process
    if processes(process.pid):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.slow
def test_ctrl_c_keeps_what_was_finished_and_leaves_no_process_behind(long_rollout, tmp_path):
    # Pressed again, it comes while workers end, and while files are written.
    for pause in [0.001] * 10 + [0.1] * 10:
        os.killpg(long_rollout.pid, signal.SIGINT)
        time.sleep(pause)
    said, errors = (text.decode(errors="replace") for text in long_rollout.communicate(timeout=60))
    assert long_rollout.returncode == 130
    assert re.findall(r"\w*Error|Traceback|Exception", errors) == []  # the bar alone
    assert "Interrupted: these are the finished episodes." in said
    results = read(tmp_path)
    [row] = results["tasks"]
    assert 6 <= row["episodes"] < 5000
    assert results["steps"] == 500 * row["episodes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [*FILES, "unfinished.jsonl"]
    deadline = time.monotonic() + 60  # for workers that end when their parent has
    while processes(long_rollout.pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(long_rollout.pid) == []


def test_a_second_rollout_into_a_directory_is_refused_until_the_first_has_ended(tmp_path, capsys):
    first = forks.start(roll_out, tmp_path, "5000", "2")
    assert wait_until((tmp_path / "unfinished.jsonl").exists)
    assert wait_until(lambda: len(processes(first.pid)) == 3)
    for command in (["MT1", "--out", str(tmp_path)], ["--resume", str(tmp_path)]):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", *command, "--workers", "1"])
        said = capsys.readouterr().err
        assert said == (
            f"mtwrappers: error: another rollout is writing into {tmp_path}: wait until it has "
            "ended, or choose another place with --out\n"
        )
    assert first.is_alive()
    # Its workers, one of which is stopped, do not go on with the lock.
    workers = [pid for pid in processes(first.pid) if pid != first.pid]
    os.kill(workers[0], signal.SIGSTOP)
    first.kill()
    first.join()
    with locked(tmp_path):
        pass
    os.killpg(first.pid, signal.SIGKILL)


@pytest.mark.usefixtures("short_episodes")
def test_a_second_rollout_into_a_folder_is_refused_unless_it_is_to_replace_the_first(
    tmp_path, capsys
):
    out = tmp_path / "out"
    arguments = ["MT1", "--policy", "random", "--episodes", "1"]
    results_of(out, *arguments)
    for name in ("push-v3.mp4", "holiday.mp4", "unfinished.jsonl"):
        (out / name).write_text("of before")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    capsys.readouterr()
    for more, message in [
        (
            [],
            f"{out} has files of an earlier rollout (push-v3.mp4, results.csv, results.json, "
            "results.npz, success.png, unfinished.jsonl): replace them with --overwrite, continue "
            f"it with --resume {out}, or choose another folder with --out DIR",
        ),
        (
            ["--overwrite", "--resume", str(out)],
            "--overwrite replaces an earlier rollout, and --resume continues one: pass only one of "
            "them",
        ),
    ]:
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", *arguments, "--out", str(out), *more])
        assert capsys.readouterr().err == f"mtwrappers: error: {message}\n"
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    results_of(out, *arguments, "--no-evidence")  # with --overwrite
    left = ["holiday.mp4", "results.csv", "results.json", "success.png"]
    assert sorted(path.name for path in out.iterdir()) == left


def test_a_reader_who_leaves_after_the_first_line_has_all_files(tmp_path):
    # The experts of MT1 have one line to say before, those of ML1 have three.
    for benchmark in ("MT1", "ML1"):
        out = tmp_path / benchmark
        command = f"{sys.executable} -m mtwrappers rollout {benchmark} --episodes 1 --out {out}"
        done = subprocess.run(
            f"{command} | head -1; echo ${{PIPESTATUS[0]}}",
            shell=True,
            executable="bash",
            capture_output=True,
            text=True,
            check=False,
        )
        assert re.fullmatch(r"(Running MT1 on|ML1 has hidden goals).*\n141\n", done.stdout)
        assert done.stderr == ""
        assert sorted(path.name for path in out.iterdir()) == FILES


def test_on_a_file_system_without_locks_there_is_none(tmp_path, monkeypatch):
    def acquire(lock):
        raise OSError(number, "of the system")

    monkeypatch.setattr("mtwrappers.cli.directory.FileLock.acquire", acquire)
    number = errno.ENOLCK
    with locked(tmp_path):
        pass
    number = errno.EROFS
    with pytest.raises(OSError, match="of the system"), locked(tmp_path):
        pass


def roll_out_and_be_killed(out):
    """Moves its files, but for one, and is killed."""
    move = os.replace

    def replace(temporary, target):
        if Path(target) == out / "success.png":
            os.kill(os.getpid(), signal.SIGKILL)
        move(temporary, target)

    os.replace = replace
    roll_out(out, "1")


def test_what_a_kill_leaves_is_gone_after_the_next_rollout(tmp_path):
    process = forks.start(roll_out_and_be_killed, tmp_path)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    left = [path.name for path in tmp_path.iterdir()]
    assert {name.partition("-")[0] for name in left if name[0] == "."} == {
        ".lock",
        ".unfinished",
        ".success.png.unfinished",
    }
    assert resume(tmp_path)[1] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == FILES


@pytest.mark.usefixtures("short_episodes")
def test_files_have_the_mode_of_any_file(tmp_path):
    before = os.umask(0o026)
    try:
        results_of(tmp_path, "MT1", "--episodes", "1")
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o640}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.usefixtures("short_episodes")
def test_links_in_the_folder_are_replaced_and_what_they_lead_to_is_left_alone(
    killed, tmp_path, monkeypatch
):
    out, victims = tmp_path / "out", tmp_path / "victims"
    victims.mkdir()
    arguments = ["MT1", "--policy", "random", "--episodes", "3"]
    if killed:  # and the progress that somebody hands on is a link too
        monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, 1))
        assert main(["rollout", *arguments, "--workers", "1", "--out", str(out)]) == 130
        monkeypatch.undo()
        monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)
        (out / "unfinished.jsonl").rename(victims / "unfinished.jsonl")
    out.mkdir(exist_ok=True)
    for name in (*FILES, "unfinished.jsonl", ".lock", ".unfinished"):
        if not (victims / name).exists():
            (victims / name).write_text("a victim")
        (out / name).unlink(missing_ok=True)
        (out / name).symlink_to(victims / name)
    before = {path: path.read_bytes() for path in victims.iterdir()}
    if killed:
        assert resume(out)[1] == 2
    else:
        results_of(out, *arguments)
    assert {path: path.read_bytes() for path in victims.iterdir()} == before
    assert sorted(path.name for path in out.iterdir()) == FILES
    assert not any(path.is_symlink() for path in out.iterdir())


# In the results, and in what is unfinished.
@pytest.mark.parametrize(
    ("size", "arguments", "left"),
    [(9000, ["--no-evidence"], 0), (1400, ["--no-evidence"], 1), (36_000, [], 1)],
)
@pytest.mark.slow_but("9000-arguments0-0")
def test_a_full_disk_is_one_line_and_keeps_finished_episodes(size, arguments, left, tmp_path):
    said = tmp_path.with_name("said")

    def roll_out_on_a_full_disk():
        # A limit on the size of files fails as a full disk does, in the middle of one.
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
        return roll_out(tmp_path, "4", "1", *arguments)

    process = forks.start(roll_out_on_a_full_disk, output=said)
    process.join()
    assert process.exitcode == 2
    assert said.read_text().endswith(
        f"\nmtwrappers: error: cannot write to {tmp_path}: File too large; finished episodes "
        f"are kept: continue with mtwrappers rollout --resume {tmp_path}\n"
    )
    assert os.listdir(tmp_path) == ["unfinished.jsonl"]
    # Once there is space, nothing is run again.
    assert resume(tmp_path)[1] == left
    files = [name for name in FILES if not arguments or name != "results.npz"]
    assert sorted(path.name for path in tmp_path.iterdir()) == files
