"""`mtwrappers rollout --resume`: a rollout that was killed or interrupted goes on."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version

import pytest

from mtwrappers.cli import main, rollout
from mtwrappers.cli.progress import DEFAULTS, Progress
from mtwrappers.evaluation import Episode
from tests.cli.fakes import FILES, Interrupting, play, resume, stable


def finished(out):
    """How many episodes a rollout has kept."""
    path = out / "progress.jsonl"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else -1


def kill_when(out, episodes, *arguments):
    """Runs a rollout in processes of its own, and kills all when so many episodes are kept."""
    process = subprocess.Popen(
        [sys.executable, "-m", "mtwrappers", "rollout", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while finished(out) < episodes:
        assert process.poll() is None
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait(timeout=30) == -signal.SIGKILL
    return finished(out)


def test_a_rollout_killed_twice_ends_with_the_results_of_one_that_was_not(tmp_path):
    arguments = ["MT10", "--task", "door-open-v3", "--task", "push-v3", "--episodes", "4"]
    expected = play(tmp_path / "expected", *arguments, workers=2)
    out = tmp_path / "out"
    kept = kill_when(out, 2, *arguments, "--workers", "3", "--out", str(out))
    assert 2 <= kept < 8
    with (out / "progress.jsonl").open("ab") as file:
        file.write(b'{"seconds": 1.0, "episode": {"task": "push')
    again = kill_when(out, kept + 1, "--resume", str(out), "--workers", "2")
    assert kept < again < 8
    results, played = resume(out)
    assert stable(results) == stable(expected)
    assert again + played == 8
    assert sorted(path.name for path in out.iterdir()) == FILES
    for name in ("results.csv", "success.png"):
        assert (out / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


@pytest.mark.usefixtures("short_episodes")
def test_an_interrupted_rollout_goes_on_until_it_is_complete(tmp_path, capsys, monkeypatch):
    arguments = ["MT1", "--policy", "random", "--episodes", "5"]
    expected, out = play(tmp_path / "expected", *arguments), tmp_path / "in two words"
    for n in (2, 0, 1):
        monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, n))
        begun = ["--resume", str(out)] if out.exists() else [*arguments, "--out", str(out)]
        assert main(["rollout", *begun, "--workers", "1"]) == 130
        signal.signal(signal.SIGINT, signal.default_int_handler)
    said = capsys.readouterr().out
    assert "Interrupted: these are the episodes that were finished. Go on with:" in said
    assert said.endswith(f"\nmtwrappers rollout --resume '{out}'\n")
    interrupted = json.loads((out / "results.json").read_text())
    assert (interrupted["interrupted"], interrupted["steps"]) == (True, 3 * 40)
    assert [row["episodes"] for row in interrupted["tasks"]] == [3]
    monkeypatch.undo()
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)
    text = (out / "progress.jsonl").read_text()
    (out / "progress.jsonl").write_text(re.sub(r'"seconds": [^,]+', '"seconds": 1000.0', text))
    results, played = resume(out, "MT1", "--seed", "0", "--out", str(out), workers=2)
    assert stable(results) == stable(expected)
    assert results["seconds"] > 1000  # the time of before counts too
    assert played == 2
    capsys.readouterr()
    assert resume(out, "--policy", "random") == (results, 0)
    said = capsys.readouterr().out
    assert said == f"The rollout into {out} is complete: see {out / 'results.json'}.\n"


@pytest.fixture
def unfinished(tmp_path):
    """The progress of a rollout that has finished two of its episodes."""
    settings = {**DEFAULTS, "benchmark": "MT1", "task": ["push-v3"]}
    path = tmp_path / "progress.jsonl"
    with Progress(tmp_path, settings) as kept:
        kept.plan([])
        for i in range(2):
            kept.end(0, Episode("push-v3", i, 0.1, 500))
    path.write_text(re.sub(r'"seconds": [^,]+', '"seconds": 1.5', path.read_text()))
    return path


def test_progress_that_was_cut_anywhere_is_read_up_to_there(unfinished):
    whole = unfinished.read_bytes()
    ends = [i for i, byte in enumerate(whole, 1) if byte == ord("\n")]
    for size in range(ends[0], len(whole) + 1):
        for tail in (b"", b"\0" * 9, b"\0\n"):
            unfinished.write_bytes(whole[:size] + tail)
            kept = Progress.load(unfinished.parent)
            assert len(kept.episodes) == sum(end <= size for end in ends[1:])
            assert kept.seconds == (1.5 if kept.episodes else 0.0)
            with kept:
                assert unfinished.read_bytes() == whole[: max(e for e in ends if e <= size)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MT10"], "was begun with benchmark 'MT1', got 'MT10'"),
        (["--task", "reach-v3"], "was begun with task ['push-v3'], got ['reach-v3']"),
        (["--no-fast"], "was begun with no_fast False, got True"),
        (["--out", "elsewhere"], "writes into that directory, got --out elsewhere"),
        (["--video"], "--video films a rollout from its start, --resume plays what is left"),
    ],
)
def test_arguments_that_contradict_those_of_the_rollout_are_one_line(
    arguments, message, unfinished, capsys
):
    before = unfinished.read_bytes()
    require_refused(unfinished.parent, message, capsys, arguments)
    assert unfinished.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.unlink(), "progress.jsonl: No such file or directory"),
        (lambda path: path.write_text("[1]\n"), "'mtwrappers.rollout/1', got None"),
        (lambda path: path.write_text("foreign\n"), "'mtwrappers.rollout/1', got None"),
        (
            lambda path: path.write_text(path.read_text().replace("rollout/1", "rollout/2")),
            "'mtwrappers.rollout/1', got 'mtwrappers.rollout/2'",
        ),
        (
            lambda path: path.write_text(path.read_text().replace(version("mujoco"), "2.0.0")),
            f"was begun with mujoco 2.0.0, not {version('mujoco')}",
        ),
    ],
)
def test_a_directory_without_such_a_rollout_is_one_line(change, message, unfinished, capsys):
    change(unfinished)
    require_refused(unfinished.parent, message, capsys)
    require_refused(unfinished.parent / "none", "No such file or directory", capsys)


def require_refused(out, message, capsys, arguments=()):
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", "--resume", str(out), *arguments])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mtwrappers: error: ")
    assert said.err.count("\n") == 1
    assert message in said.err


def test_a_complete_rollout_of_other_settings_is_one_line(tmp_path, capsys):
    of_before = {"benchmark": "MT1", "policy": "random", "episodes": 5, "seed": 0}
    text = json.dumps({**of_before, "interrupted": False})
    (tmp_path / "results.json").write_text(text)
    require_refused(tmp_path, "was begun with seed 0, got 1", capsys, ["--seed", "1"])
    (tmp_path / "results.json").write_text("{}")
    require_refused(tmp_path, "progress.jsonl: No such file or directory", capsys)
