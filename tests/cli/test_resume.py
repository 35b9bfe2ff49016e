"""`mtwrappers rollout --resume`: a rollout that was killed or interrupted goes on."""

import base64
import contextlib
import io
import json
import os
import re
import signal
import time
from functools import partial
from importlib.metadata import version

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtwrappers.cli import main, rollout
from mtwrappers.cli.console import UsageError
from mtwrappers.cli.progress import Progress
from mtwrappers.cli.settings import Settings
from mtwrappers.evaluation import Episode
from tests import forks
from tests.cli.fakes import FILES, Interrupting, read, results_of, resume, stable


def finished(out):
    """How many episodes a rollout has kept."""
    path = out / "unfinished.jsonl"
    return path.read_bytes().count(b"\n") - 1 if path.exists() else -1


def kill_when(out, episodes, *arguments):
    """Runs a rollout in processes of its own, and kills all when so many episodes are kept."""
    process = forks.start(main, ["rollout", *arguments])
    while finished(out) < episodes:
        assert process.is_alive()
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.join(30)
    assert process.exitcode == -signal.SIGKILL
    return finished(out)


def test_a_rollout_killed_twice_ends_with_the_results_of_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 200)
    arguments = ["MT10", "--task", "door-open-v3", "--task", "push-v3", "--episodes", "4"]
    expected = results_of(tmp_path / "expected", *arguments, workers=2)
    out = tmp_path / "out"
    kept = kill_when(out, 2, *arguments, "--workers", "3", "--out", str(out))
    assert 2 <= kept < 8
    with (out / "unfinished.jsonl").open("ab") as file:
        file.write(b'{"seconds": 1.0, "episode": {"task": "push')
    assert not (out / "results.npz").exists()  # there is one log
    again = kill_when(out, kept + 1, "--resume", str(out), "--workers", "2")
    assert kept < again < 8
    results, ran = resume(out)
    assert stable(results) == stable(expected)
    assert again + ran == 8
    assert sorted(path.name for path in out.iterdir()) == FILES
    for name in ("results.csv", "results.npz", "success.png"):
        assert (out / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.slow
def test_an_interrupted_rollout_goes_on_until_it_is_complete(tmp_path, capsys, monkeypatch):
    arguments = ["MT1", "--policy", "random", "--episodes", "5"]
    expected, out = results_of(tmp_path / "expected", *arguments), tmp_path / "in two words"
    for n in (2, 0, 1):
        monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, n))
        begun = ["--resume", str(out)] if out.exists() else [*arguments, "--out", str(out)]
        assert main(["rollout", *begun, "--workers", "1"]) == 130
    said = capsys.readouterr().out
    assert "Interrupted: these are the finished episodes. Continue with:" in said
    assert said.endswith(f"\nmtwrappers rollout --resume '{out}'\n")
    interrupted = read(out)
    assert (interrupted["interrupted"], interrupted["steps"]) == (True, 3 * 40)
    assert [row["episodes"] for row in interrupted["tasks"]] == [3]
    monkeypatch.undo()
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)
    text = (out / "unfinished.jsonl").read_text()
    (out / "unfinished.jsonl").write_text(re.sub(r'"seconds": [^,]+', '"seconds": 1000.0', text))
    results, ran = resume(out, "MT1", "--seed", "0", "--out", str(out), workers=2)
    assert stable(results) == stable(expected)
    assert results["seconds"] > 1000  # the time of before counts too
    assert ran == 2
    capsys.readouterr()
    assert resume(out, "--policy", "random") == (results, 0)
    said = capsys.readouterr().out
    assert said == f"The rollout into {out} is complete: see {out / 'results.json'}.\n"


@pytest.fixture
def unfinished(tmp_path):
    """The progress of a rollout that has finished two of its episodes."""
    chosen = Settings("MT1", ["push-v3"])
    path = tmp_path / "unfinished.jsonl"
    with Progress(tmp_path, chosen) as kept:
        kept.plan([])
        for i in range(2):
            kept.add(Episode("push-v3", i, 0.1, 3), np.full((3, 4), i, np.float32))
    path.write_text(re.sub(r'"seconds": [^,]+', '"seconds": 1.5', path.read_text()))
    return path


@pytest.mark.slow
def test_progress_that_was_cut_anywhere_is_read_up_to_there(unfinished):
    whole = unfinished.read_bytes()
    ends = [i for i, byte in enumerate(whole, 1) if byte == ord("\n")]
    sizes = range(ends[0], len(whole) + 1)
    near = {end + i for end in ends for i in (-2, -1, 0, 1, 2)}
    for size in sorted({*sizes[::7], *near} & {*sizes}):
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
        (["MT10"], "was started with benchmark 'MT1', got 'MT10'"),
        (["--task", "reach-v3"], "was started with task ['push-v3'], got ['reach-v3']"),
        (["--no-fast"], "was started with no_fast False, got True"),
        (["--no-evidence"], "was started with evidence True, got False"),
        (["--training-seed", "1"], "was started with training_seed None, got 1"),
        (["--author", "A. Author"], "was started with authors [], got ['A. Author']"),
        (["--out", "elsewhere"], "writes into that directory, got --out elsewhere"),
        (["--video"], "--video films a rollout from its start, and --resume continues one"),
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
        (lambda path: path.unlink(), "unfinished.jsonl: No such file or directory"),
        (lambda path: path.write_text("[1]\n"), "'mtwrappers.rollout/5', got None"),
        (lambda path: path.write_text("foreign\n"), "'mtwrappers.rollout/5', got None"),
        (
            lambda path: path.write_text(path.read_text().replace("rollout/5", "rollout/2")),
            "'mtwrappers.rollout/5', got 'mtwrappers.rollout/2'",
        ),
        (
            lambda path: path.write_text(path.read_text().replace(version("mujoco"), "2.0.0")),
            f"was started with mujoco 2.0.0, not {version('mujoco')}",
        ),
    ],
)
def test_a_directory_without_such_a_rollout_is_one_line(change, message, unfinished, capsys):
    change(unfinished)
    require_refused(unfinished.parent, message, capsys)
    require_refused(unfinished.parent / "none", "No such file or directory", capsys)


def line_of(file, number):
    return json.loads(file.read_text().splitlines()[number])


def change(number, *place, to):
    """Changes one place of a line of progress."""

    def changed(path):
        lines = path.read_text().splitlines()
        line = inner = json.loads(lines[number])
        for key in place[:-1]:
            inner = inner[key]
        inner[place[-1]] = to
        lines[number] = json.dumps(line)
        path.write_text("\n".join(lines) + "\n")

    return changed


def whole_line(number, text):
    def changed(path):
        lines = path.read_text().splitlines()
        lines[number] = text
        path.write_text("\n".join(lines) + "\n")

    return changed


def npy(array):
    """Actions as they stand in a line."""
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, (1, 0))
    return base64.b64encode(buffer.getvalue()).decode()


ACTIONS = partial(change, 1, "actions")
EPISODE = partial(change, 1, "episode")
SETTING = partial(change, 0, "settings")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change(0, "settings", to=None), "line 1 of "),
        (change(0, "versions", to=["mujoco"]), "expected versions, got ['mujoco']"),
        (change(0, "versions", "numpy", to="\33[2J\n"), "expected versions, got {"),
        (change(0, "more", to=1), "expected format, settings and versions"),
        (SETTING("execution", to="ray"), "expected settings ['benchmark', 'task', "),
        (SETTING("benchmark", to={}), "benchmark cannot be {}"),
        (SETTING("benchmark", to="\ud800\33[2J"), "unknown benchmark '\\ud800\\x1b[2J'"),
        (SETTING("task", to="push-v3"), "task cannot be 'push-v3'"),
        (SETTING("task", to=[["push-v3"]]), "task cannot be [['push-v3']]"),
        (SETTING("task", to=["\ud800"]), "unknown class '\\ud800'"),
        (SETTING("policy", to="evil.py:act"), "started with a policy of your own: pass --policy"),
        (SETTING("episodes", to=10**12), "episodes cannot be 1000000000000"),
        (SETTING("episodes", to=True), "episodes cannot be True"),
        (SETTING("seed", to=-1), "seed cannot be -1"),
        (SETTING("no_fast", to="no"), "no_fast cannot be 'no'"),
        (SETTING("training_seed", to=-1), "training_seed cannot be -1"),
        (SETTING("training_steps", to=2.5), "training_steps cannot be 2.5"),
        (SETTING("action_chunk", to=0), "action_chunk cannot be 0"),
        (SETTING("note", to="two\nlines"), "note cannot be 'two\\nlines'"),
        (SETTING("authors", to=["A. Author"] * 31), "authors cannot be ['A. Author', "),
        (whole_line(1, "[1]"), "line 2 of "),
        (whole_line(2, "[" * 50_000 + "]" * 50_000), "line 3 of "),
        (whole_line(1, '"' + "x" * 70_000), "line 2 of "),
        (change(1, "seconds", to=float("nan")), "seconds cannot be nan"),
        (change(1, "seconds", to="1"), "seconds cannot be '1'"),
        (change(1, "episode", to=[]), "expected an episode, got []"),
        (EPISODE("evil", to=1), "expected an episode, got {"),
        (EPISODE("task", to=3), "task of an episode must be of the type str, got 3"),
        (EPISODE("number", to=1.5), "number of an episode must be of the type int, got 1.5"),
        (EPISODE("number", to=5), "number cannot be 5"),
        (EPISODE("length", to=10**400), "length of an episode must be of the type int, got 1000"),
        (EPISODE("length", to=501), "length cannot be 501"),
        (EPISODE("episode_return", to=float("inf")), "episode_return of an episode must be of the"),
        (EPISODE("episode_return", to=1e308), "episode_return cannot be 1e+308"),
        (EPISODE("success_once", to="no"), "success_once of an episode must be of the type bool"),
        (EPISODE("length", to=2), "2 actions cannot be of the shape (3, 4)"),
        (EPISODE("number", to=1), "line 3 of "),
        (ACTIONS(to=None), "actions cannot be None"),
        (ACTIONS(to="no base64"), "line 2 of "),
        (ACTIONS(to="AAAA"), "'actions' must be a plain array, got b'\\x00\\x00\\x00'"),
        (ACTIONS(to=npy(np.array([None]))), "'actions' must be a plain array"),
        (ACTIONS(to=npy(np.full((3, 4), np.nan))), "'actions' has actions that are NaN"),
        (ACTIONS(to=npy(np.zeros((3, 5)))), "3 actions cannot be of the shape (3, 5)"),
        (SETTING("evidence", to=False), "line 2 of "),
        (lambda path: os.truncate(path, 2**40), "larger than the limit of 4,294,967,296 bytes"),
        (lambda path: (path.unlink(), path.mkdir()), "unfinished.jsonl: "),
        (lambda path: (path.unlink(), os.mkfifo(path)), "unfinished.jsonl: not a regular file"),
        (lambda path: (path.unlink(), path.symlink_to("/dev/zero")), "not a regular file"),
        (lambda path: (path.unlink(), path.symlink_to(path)), "unfinished.jsonl: "),
    ],
)
def test_progress_that_no_rollout_has_written_is_one_line(change, message, unfinished, capsys):
    change(unfinished)
    require_refused(unfinished.parent, message, capsys)


@pytest.mark.parametrize(
    "change", [EPISODE("task", to="reach-v3"), EPISODE("number", to=2), EPISODE("task_state", to=1)]
)
def test_finished_episodes_that_are_not_of_the_rollout_are_one_line(change, unfinished, capsys):
    change(unfinished)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["rollout", "--resume", str(unfinished.parent), "--workers", "1"])
    said = capsys.readouterr().err
    assert said.startswith(f"mtwrappers: error: {unfinished} was not written by a rollout: ")
    assert said.count("\n") == 1


def places(value, place=()):
    """Where a value of JSON can be changed."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        yield (*place, key)
        if isinstance(item, (dict, list)):
            yield from places(item, (*place, key))


ODD = [None, True, -1, 0.5, 2**63, float("nan"), 1e308, "", "\0", "x" * 99, [], [[]], {}, {"a": 1}]


FREE = {"benchmark", "task", "seed", "seconds", "success_once", "success_final", "task_state"}
FREE |= {
    "protocol",
    "name",
    "evidence",
    "longest_success",
    "trial",
    "steps_to_success",
    "episode_return",
    "no_fast",
    "length",
    "number",
    "policy",
    "training_seed",
    "training_steps",
    "action_chunk",
    "note",
    "authors",
    0,
}


def test_any_value_in_any_place_of_progress_is_refused_in_a_line_or_is_progress(unfinished):
    before, found = unfinished.read_bytes(), []
    for number in range(3):
        for place in places(line_of(unfinished, number)):
            for value in ODD:
                change(number, *place, to=value)(unfinished)
                with contextlib.suppress(UsageError):
                    Progress.load(unfinished.parent)
                    found.append((*place, value))
                unfinished.write_bytes(before)
    # Whether those are of the rollout is found when it is planned.
    assert {place[-2] for place in found} <= FREE


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.binary(max_size=40), st.integers(0, 700), st.integers(0, 40))
def test_any_damage_to_progress_is_refused_in_a_line_or_is_progress(unfinished, new, at, length):
    whole = unfinished.read_bytes()
    unfinished.write_bytes(whole[:at] + new + whole[at + length :])
    with contextlib.suppress(UsageError):
        Progress.load(unfinished.parent)
    unfinished.write_bytes(whole)


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
    results = {"rollout": {**of_before, "interrupted": False}, "provenance": {"action_chunk": 8}}
    text = json.dumps(results)
    (tmp_path / "results.json").write_text(text)
    require_refused(tmp_path, "was started with seed 0, got 1", capsys, ["--seed", "1"])
    require_refused(tmp_path, "with action_chunk 8, got 4", capsys, ["--action-chunk", "4"])
    (tmp_path / "results.json").write_text("{}")
    require_refused(tmp_path, "unfinished.jsonl: No such file or directory", capsys)
