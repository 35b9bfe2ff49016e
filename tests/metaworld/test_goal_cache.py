"""Goals on disk cost or save time, and nothing else."""

import os
import pickle
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import metaworld
import numpy as np
import pytest

from mtwrappers.metaworld import benchmarks, goal_cache, make_benchmark
from mtwrappers.metaworld.goal_cache import cache_directory, goal_file
from tests.fakes import ROOT

NAMES, SEED, GOALS = ("reach-v3",), 77, 3


@pytest.fixture(autouse=True)
def directory(tmp_path, monkeypatch):
    monkeypatch.setenv("MTWRAPPERS_CACHE_DIR", str(tmp_path / "goals"))
    return tmp_path / "goals"


def tasks(seed=SEED, num_goals=GOALS):
    """The tasks, as a new process would find them."""
    benchmarks._remembered_tasks.cache_clear()
    return make_benchmark("MT1", seed=seed, num_goals=num_goals).train_tasks


@pytest.fixture
def drawn(monkeypatch):
    """Each class whose goals were drawn rather than read."""
    from mtwrappers.metaworld import blueprint

    names, original = [], blueprint.draw_goals

    def remember(cls, n, rng):
        names.append(cls.__name__)
        return original(cls, n, rng)

    monkeypatch.setattr(blueprint, "draw_goals", remember)
    return names


@pytest.fixture(scope="module")
def expected():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MTWRAPPERS_CACHE_DIR", "")
        return tasks()


def test_goals_are_drawn_once_and_then_read(directory, drawn, expected):
    assert tasks() == expected
    assert drawn == ["SawyerReachEnvV3"]
    assert [path.name for path in directory.iterdir()] == [goal_file(NAMES, SEED, GOALS).name]
    assert tasks() == expected
    assert drawn == ["SawyerReachEnvV3"]


def test_an_empty_value_turns_the_cache_off(tmp_path, monkeypatch, drawn, expected):
    monkeypatch.setenv("MTWRAPPERS_CACHE_DIR", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cache_directory() is None
    assert tasks() == tasks() == expected
    assert len(drawn) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(sys.platform != "linux", reason="the directory differs by platform")
def test_without_the_variable_it_is_the_users_cache_directory(tmp_path, monkeypatch):
    monkeypatch.delenv("MTWRAPPERS_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    tasks()
    assert [path.parent for path in tmp_path.rglob("goals-*.npz")] == [tmp_path / "mtwrappers"]


def below_a_file(tmp_path):
    (tmp_path / "file").write_text("no directory")
    return tmp_path / "file" / "goals"


@pytest.mark.parametrize("place", [below_a_file, lambda _: Path("/proc/nowhere/goals")])
def test_a_directory_that_cannot_be_written_costs_only_time(
    tmp_path, monkeypatch, drawn, expected, place
):
    unwritable = place(tmp_path)
    monkeypatch.setenv("MTWRAPPERS_CACHE_DIR", str(unwritable))
    before = sorted(tmp_path.rglob("*"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert tasks() == tasks() == expected
    assert len(drawn) == 2
    assert not unwritable.exists()
    assert sorted(tmp_path.rglob("*")) == before


def test_a_write_that_fails_halfway_leaves_nothing(directory, monkeypatch, expected):
    def full(file, **arrays):
        file.write(b"PK half of it")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    assert tasks() == expected
    assert list(directory.iterdir()) == []


def test_a_file_is_of_one_version_seed_number_and_list_of_classes(monkeypatch):
    keys = [(NAMES, 0, 3), (NAMES, 1, 3), (NAMES, 0, 4), (("push-v3",), 0, 3)]
    keys += [(("reach-v3", "push-v3"), 0, 3), (("push-v3", "reach-v3"), 0, 3)]
    files = {goal_file(*key) for key in keys}
    monkeypatch.setattr(goal_cache, "version", lambda name: f"another {name}")
    files |= {goal_file(*key) for key in keys}
    assert len(files) == 12


def test_goals_of_another_version_are_drawn_anew(monkeypatch, drawn, directory):
    tasks()
    monkeypatch.setattr(goal_cache, "version", lambda name: "3.1.2")
    tasks()
    assert len(drawn) == 2
    assert len(list(directory.iterdir())) == 2


class Bomb:
    """Creates a file when it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def pickled(path, bomb):
    path.write_bytes(pickle.dumps(bomb))


def saved_object(path, bomb):
    with path.open("wb") as file:
        np.save(file, np.array([bomb], object), allow_pickle=True)


def an_array(path, bomb):
    with path.open("wb") as file:
        np.save(file, np.zeros(3))


def archive_of_objects(path, bomb):
    with np.load(path) as archive:
        arrays = dict(archive)
    with path.open("wb") as file:
        np.savez(file, **{**arrays, "goals": np.array([bomb], object)})


def of_another_seed(path, bomb):
    tasks(seed=SEED + 1)
    path.write_bytes(goal_file(NAMES, SEED + 1, GOALS).read_bytes())


def truncated(path, bomb):
    path.write_bytes(path.read_bytes()[:-40])


def empty(path, bomb):
    path.write_bytes(b"")


def one_bit(path, bomb):
    content = bytearray(path.read_bytes())
    with np.load(path) as archive:
        goals = archive["goals"].tobytes()
    content[content.index(goals) + 11] ^= 1
    path.write_bytes(content)


def changed(**changes):
    def damage(path, bomb):
        with np.load(path) as archive:
            arrays = dict(archive)
        arrays.update({name: change(arrays) for name, change in changes.items()})
        with path.open("wb") as file:
            np.savez(file, **arrays)

    return damage


DAMAGE = {
    "a pickle": (pickled, "allow_pickle"),
    "an array of objects": (saved_object, "Object arrays cannot be loaded"),
    "an archive of objects": (archive_of_objects, "Object arrays cannot be loaded"),
    "another key": (of_another_seed, "it is of something else"),
    "truncated": (truncated, ""),
    "empty": (empty, ""),
    "one bit": (one_bit, "CRC"),
    "an array": (an_array, "it is no archive"),
    "more": (changed(more=lambda _: np.zeros(1)), "it holds .*'more'"),
    "too few": (changed(goals=lambda a: a["goals"][:-1]), "its numbers are not goals"),
    "not finite": (changed(goals=lambda a: a["goals"] * np.inf), "its numbers are not goals"),
    "no float64": (changed(goals=lambda a: a["goals"].astype("f4")), "its numbers are not goals"),
    "negative": (changed(sizes=lambda a: -a["sizes"]), "its numbers are not goals"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_file_that_is_not_ours_is_replaced_with_one_warning_and_runs_no_code(
    tmp_path, drawn, expected, name
):
    damage, message = DAMAGE[name]
    tasks()
    path, ran = goal_file(NAMES, SEED, GOALS), tmp_path / "ran"
    whole = path.read_bytes()
    damage(path, Bomb(ran))
    assert path.read_bytes() != whole
    drawn.clear()
    with pytest.warns(UserWarning, match=f"replacing the damaged goal file .*{message}") as caught:
        assert tasks() == expected
    assert len(caught) == 1
    assert not ran.exists()
    assert drawn == ["SawyerReachEnvV3"]
    assert tasks() == expected
    assert drawn == ["SawyerReachEnvV3"]


def test_the_bomb_of_these_tests_works(tmp_path):
    pickle.loads(pickle.dumps(Bomb(tmp_path / "ran")))
    assert (tmp_path / "ran").exists()


def test_a_damaged_file_is_replaced_where_warnings_are_errors(expected):
    tasks()
    goal_file(NAMES, SEED, GOALS).write_bytes(b"damaged")
    with pytest.raises(UserWarning, match="replacing the damaged goal file"):
        tasks()
    assert tasks() == expected


@pytest.mark.parametrize("in_the_way", ["directory", "dangling link"])
def test_what_cannot_be_replaced_costs_only_time(directory, drawn, expected, in_the_way):
    path = goal_file(NAMES, SEED, GOALS)
    path.parent.mkdir(parents=True)
    if in_the_way == "directory":
        path.mkdir()
    else:
        path.symlink_to(directory / "nothing")
    assert tasks() == expected
    assert [p.name for p in directory.iterdir()] == [path.name]


# Processes of their own, without Meta-World, which takes seconds to import.
WRITER = """
import sys, time
from pathlib import Path
import numpy as np
from mtwrappers.metaworld import goal_cache
goals = [[np.arange(3.0) + k for k in range(20_000)] for _ in range(2)]
print("ready", flush=True)
sys.stdin.readline()
"""
RACE = (
    WRITER
    + """
for _ in range(6):
    found = goal_cache.cached_goals(("a", "b"), 1, 20_000, lambda: goals)
    assert np.array_equal(found, goals)
    goal_cache._write(goal_cache.goal_file(("a", "b"), 1, 20_000), key, goals)
"""
).replace('print("ready"', 'key = goal_cache._key(("a", "b"), 1, 20_000)\nprint("ready"')


def start(code):
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_eight_processes_that_write_one_file_at_once_leave_it_whole(directory):
    processes = [start(RACE) for _ in range(8)]
    for process in processes:
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        process.stdin.write("\n")
        process.stdin.flush()
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    path = goal_file(("a", "b"), 1, 20_000)
    assert list(directory.iterdir()) == [path]
    goals = goal_cache._read(path, goal_cache._key(("a", "b"), 1, 20_000), 2, 20_000)
    assert np.array_equal(goals, [[np.arange(3.0) + k for k in range(20_000)]] * 2)


KILLED = """
import os, signal
def savez(file, **arrays):
    original(file, **arrays)
    file.flush()
    file.truncate(os.fstat(file.fileno()).st_size // 2)
    os.kill(os.getpid(), signal.SIGKILL)
original, np.savez = np.savez, savez
goal_cache.cached_goals(("reach-v3",), 77, 3, lambda: goals)
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_process_killed_in_mid_write_leaves_nothing_that_is_taken_for_goals(
    directory, drawn, expected
):
    process = start(WRITER + KILLED)
    process.communicate("\n", timeout=60)
    assert process.returncode == -signal.SIGKILL
    left = list(directory.iterdir())
    assert [path.suffix for path in left] == [".tmp"]  # it was in mid-write
    assert tasks() == expected
    assert drawn == ["SawyerReachEnvV3"]


def test_loaded_goals_make_the_bytes_of_meta_world(monkeypatch):
    monkeypatch.setattr(metaworld, "_N_GOALS", GOALS)
    tasks()
    assert tasks() == metaworld.MT1("reach-v3", seed=SEED).train_tasks
