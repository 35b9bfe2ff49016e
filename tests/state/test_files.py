"""Files that are whole or not there."""

import os
import re
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from mtwrappers.state.files import write_atomically

# Writes two files, and is killed before the second is moved.
KILLED = """
import os, signal, sys
from mtwrappers.state.files import write_atomically
write_atomically(sys.argv[1], b"old")
os.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
write_atomically(sys.argv[1], b"new")
"""


def read_mode(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize(
    ("umask", "old", "expected"),
    [(0o022, None, 0o644), (0o077, None, 0o600), (0o077, 0o640, 0o640)],
)
def test_a_file_has_the_mode_that_open_would_give_it_or_of_the_one_it_replaces(
    umask, old, expected, tmp_path
):
    path = tmp_path / "x"
    if old is not None:
        path.write_bytes(b"old")
        path.chmod(old)
    umask_before = os.umask(umask)
    try:
        write_atomically(path, b"new")
    finally:
        os.umask(umask_before)
    assert (path.read_bytes(), read_mode(path)) == (b"new", expected)


@pytest.mark.parametrize("letter", ["n", "é"])
def test_a_file_may_have_the_longest_name_that_there_is(letter, tmp_path):
    path = tmp_path / (letter * (255 // len(letter.encode())))
    for data in (b"old", b"new"):
        write_atomically(path, data)
    assert os.listdir(tmp_path) == [path.name]
    assert path.read_bytes() == b"new"


@pytest.mark.parametrize("exists", [True, False])
def test_a_symbolic_link_is_replaced_and_its_target_is_left_alone(exists, tmp_path):
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "target", tmp_path / "link"
    if exists:
        target.write_bytes(b"old")
        target.chmod(0o755)
    link.symlink_to(target)
    write_atomically(link, b"new")
    assert (link.read_bytes(), read_mode(link)) == (b"new", 0o644)
    assert not link.is_symlink()
    assert [path.read_bytes() for path in target.parent.iterdir()] == [b"old"] * exists


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_regular_file_is_refused_at_once_and_stays(make, tmp_path):
    make(tmp_path / "x")
    with pytest.raises(OSError, match=r"not a regular file.*x"):
        write_atomically(tmp_path / "x", b"1")
    assert os.listdir(tmp_path) == ["x"]


def test_a_folder_that_is_missing_is_named(tmp_path):
    message = f"no such folder, make it first: '{tmp_path}/runs'"
    with pytest.raises(FileNotFoundError, match=re.escape(message)):
        write_atomically(tmp_path / "runs" / "x", b"1")
    assert os.listdir(tmp_path) == []


def test_a_failed_write_leaves_the_file_of_before_alone(tmp_path, monkeypatch):
    path = tmp_path / "x"
    write_atomically(path, b"old")

    def full(descriptor):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]


def test_what_a_killed_write_leaves_is_gone_after_the_next_of_this_file(tmp_path):
    path = tmp_path / "x"
    subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert path.read_bytes() == b"old"
    assert len(os.listdir(tmp_path)) == 2
    write_atomically(tmp_path / "y", b"1")
    assert len(os.listdir(tmp_path)) == 3
    write_atomically(path, b"new")
    assert sorted(os.listdir(tmp_path)) == ["x", "y"]


def test_of_writes_at_once_one_wins_and_none_is_lost_or_mixed(tmp_path):
    path = tmp_path / "x"
    texts = [bytes([65 + i]) * 10_000 for i in range(8)]

    def write(text):
        for _ in range(50):
            write_atomically(path, text)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, texts))
    assert path.read_bytes() in texts
    assert os.listdir(tmp_path) == ["x"]
