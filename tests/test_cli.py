"""The command line, run as `main` and as a process."""

import contextlib
import csv
import json
import os
import re
import signal
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

import imageio.v3 as imageio
import metaworld
import numpy as np
import pytest
from metaworld.policies import ENV_POLICY_MAP

from mtwrappers.cli import main, rollout
from mtwrappers.cli.progress import Progress
from mtwrappers.cli.resume import DEFAULTS
from mtwrappers.evaluation import Episode
from mtwrappers.metaworld import make_benchmark, opengl
from mtwrappers.registration import TABLE

BENCHMARKS = (
    "MT1, MT10, MT25, MT50, ML1-train, ML1-test, ML10-train, ML10-test, "
    "ML25-train, ML25-test, ML45-train, ML45-test"
)
TIMING = ("seconds", "steps_per_second")
FILES = ["results.csv", "results.json", "success.png"]


@pytest.fixture(autouse=True)
def _environment_is_put_back(monkeypatch):
    """The command sets these for its workers and for the renderer."""
    for name in ("PYTHONWARNINGS", "MUJOCO_GL"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setenv("COLUMNS", "120")


def play(out, *arguments, workers=1):
    """Runs a rollout in this process and returns its results."""
    code = main(["rollout", *arguments, "--workers", str(workers), "--out", str(out)])
    assert code == 0
    return json.loads((out / "results.json").read_text())


def stable(results):
    return {key: value for key, value in results.items() if key not in TIMING}


@pytest.fixture
def short_episodes(monkeypatch):
    """Episodes of 40 steps."""
    monkeypatch.setattr(rollout, "EPISODE_STEPS", 40)


# list


def test_list_shows_every_id_whole_with_its_sizes_in_a_file_too(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS")
    assert main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split()[1:] for line in lines if line.startswith("mtwrappers/")}
    assert list(rows) == list(TABLE)
    action = "float32[4]"
    assert rows["mtwrappers/MT10-v0"] == ["10", "50", "float64[49]", action, "onehot", "10"]
    assert rows["mtwrappers/MT50-v0"] == ["50", "50", "float64[89]", action, "onehot", "50"]
    assert rows["mtwrappers/ML1-test-v0"] == ["1", "50", "float64[39]", action, "none", "1"]
    assert rows["mtwrappers/ML10-test-v0"] == ["5", "50", "float64[39]", action, "none", "5"]
    multi = ["2", "-", "float32[8]", "Discrete(3)", "onehot", "2"]
    assert rows["mtwrappers/MultiEnv-v0"] == multi


@pytest.mark.parametrize(
    ("columns", "left_out"),
    [(79, ()), (78, ("action",)), (67, ("action",)), (60, ("action", "observation"))],
)
def test_list_in_a_narrow_terminal_keeps_what_its_notes_explain(
    columns, left_out, capsys, monkeypatch
):
    monkeypatch.setenv("COLUMNS", str(columns))
    assert main(["list"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    every = ["id", "tasks", "goals", "observation", "action", "encoding", "envs"]
    assert head.split() == [name for name in every if name not in left_out]
    assert max(map(len, [head, *lines])) <= columns
    explained = {note.split(":")[0] for line in lines[-2:] for note in line.split("; ")}
    assert explained == {"goals", "encoding", "envs"} <= set(head.split())


# Help.


def test_help_of_every_command_ends_with_examples_that_parse(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    commands = {"list": 2, "rollout": 5, "verify-fast": 2}
    for command in ([], *([name] for name in commands)):
        with pytest.raises(SystemExit, match=r"^0$"):
            main([*command, "--help"])
        said = capsys.readouterr().out
        assert max(map(len, said.splitlines())) <= 80
        examples = said.partition("examples:\n")[2].splitlines()
        assert len(examples) == commands.get("".join(command), 3)
        for example in examples:
            words = re.split(r" {2}| \|", example.strip())[0].split()
            assert words[0] == "mtwrappers"
            # Another, wrong word is all that parsing finds.
            with pytest.raises(SystemExit):
                main([*words[1:], "--wrong"])
            if "--help" not in words:
                assert "unrecognized arguments: --wrong" in capsys.readouterr().err
            capsys.readouterr()


def test_the_version_is_that_of_the_package(capsys):
    with pytest.raises(SystemExit, match=r"^0$"):
        main(["--version"])
    assert capsys.readouterr().out == f"mtwrappers {version('mtwrappers')}\n"


def test_what_parsing_refuses_names_the_help_of_its_command(capsys):
    for arguments, command in (
        ([], "mtwrappers"),
        (["rollout", "--episodes", "0"], "mtwrappers rollout"),
    ):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(arguments)
        assert capsys.readouterr().err.endswith(f"; see {command} --help\n")


# rollout


def test_a_rollout_leaves_results_a_table_and_a_chart(tmp_path, capsys):
    results = play(tmp_path / "new" / "out", "MT1", "--task", "push-v3", "--episodes", "2")
    (row,) = results["tasks"]
    expected = {"benchmark": "MT1", "policy": "expert", "episodes": 2, "seed": 0, "steps": 1000}
    expected |= {"interrupted": False, "privileged_goal": False}
    assert {key: results[key] for key in expected} == expected
    assert results["versions"]["metaworld"] == version("metaworld")
    assert results["steps_per_second"] == 1000 / results["seconds"]
    assert (row["task"], row["episodes"]) == ("push-v3", 2)
    assert row["mean_return"] == np.mean(row["returns"])
    assert len(set(row["task_states"])) == 2

    out = tmp_path / "new" / "out"
    with (out / "results.csv").open(newline="") as file:
        (written,) = csv.DictReader(file)
    columns = ("task", "episodes", "success_once", "success_final", "mean_return")
    assert written == {key: str(row[key]) for key in columns}
    assert imageio.imread(out / "success.png").shape[2] in (3, 4)
    assert sorted(path.name for path in out.iterdir()) == FILES

    said = capsys.readouterr().out
    mean, low, high = row["mean_return"], *row["intervals"]["return"]
    rate = r"1\.00 0\.34-1\.00"
    interval = f"{low:.0f} to {high:.0f}"
    assert re.search(rf"push-v3 +2 +{rate} +{rate} +{mean:.0f} {interval} +500\.0\n", said)
    assert low == min(row["returns"])
    assert high == max(row["returns"])
    assert said.startswith(f"Playing MT1 on 1 worker: 2 episodes per class into {out}\n")
    assert "1,000 steps in" in said
    assert "privileged" not in said


# Their experts fail on one of the two goals, and only at the end.
@pytest.mark.parametrize("name", ["box-close-v3", "door-open-v3"])
def test_experts_succeed_as_on_a_bare_meta_world_environment(name, tmp_path):
    results = play(tmp_path, "MT1", "--task", name, "--episodes", "2")
    tasks = make_benchmark("MT1", env_name=name, seed=0).train_tasks
    (row,) = results["tasks"]
    env, policy = metaworld.ALL_V3_ENVIRONMENTS[name](), ENV_POLICY_MAP[name]()
    returns, once, final = [], [], []
    for state in row["task_states"]:
        env.set_task(tasks[state])
        obs, _ = env.reset()
        total, successes = 0.0, []
        for _ in range(500):
            obs, reward, _, _, info = env.step(policy.get_action(obs))
            total += float(reward)
            successes.append(info["success"] == 1.0)
        returns.append(total)
        once.append(any(successes))
        final.append(successes[-1])
    assert row["successes_once"] == once
    assert row["successes_final"] == final
    assert row["returns"] == returns
    assert row["success_once"] == np.mean(once)
    assert row["success_final"] == np.mean(final)


@pytest.mark.usefixtures("short_episodes")
def test_results_hold_all_classes_in_order_and_their_aggregates(tmp_path, capsys):
    arguments = ["ML10-test", "--policy", "random", "--episodes", "2", "--seed", "3"]
    results = play(tmp_path, *arguments)
    assert results["privileged_goal"] is False
    assert "privileged" not in capsys.readouterr().out
    classes = list(make_benchmark("ML10").test_classes)
    assert [row["task"] for row in results["tasks"]] == classes
    for i, row in enumerate(results["tasks"]):
        assert all(50 * i <= state < 50 * (i + 1) for state in row["task_states"])
    returns = [value for row in results["tasks"] for value in row["returns"]]
    overall = results["overall"]
    assert overall["mean"]["return"]["value"] == pytest.approx(np.mean(returns), rel=1e-12)
    middle = sorted(row["mean_return"] for row in results["tasks"])[1:-1]
    assert overall["interquartile_mean"]["return"]["value"] == pytest.approx(np.mean(middle))
    assert overall["mean"]["return"]["low"] < np.mean(returns) < overall["mean"]["return"]["high"]
    assert overall["mean"]["length"] == {"value": 40.0, "low": 40.0, "high": 40.0}
    # A chosen class is played as among all.
    (row,) = play(tmp_path, *arguments, "--task", "sweep-into-v3")["tasks"]
    assert row == results["tasks"][classes.index("sweep-into-v3")]


def test_experts_of_a_benchmark_that_hides_goals_succeed_with_the_goal_and_say_so(tmp_path, capsys):
    chosen = ["--task", "drawer-open-v3", "--task", "door-close-v3"]
    results = play(tmp_path, "ML10-test", *chosen, "--episodes", "1")
    assert [(row["task"], row["success_once"]) for row in results["tasks"]] == [
        ("drawer-open-v3", 1.0),
        ("door-close-v3", 1.0),
    ]
    assert results["privileged_goal"] is True
    said = " ".join(capsys.readouterr().out.split())
    assert "ML10 hides its goals" in said
    assert "privileged information that a learner does not have" in said


@pytest.mark.usefixtures("short_episodes")
def test_ml10_means_its_train_tasks(tmp_path):
    arguments = ["--policy", "random", "--episodes", "1", "--task", "reach-v3"]
    results = play(tmp_path, "ML10", *arguments)
    assert results["tasks"] == play(tmp_path, "ML10-train", *arguments)["tasks"]
    assert results["benchmark"] == "ML10"


@pytest.mark.usefixtures("short_episodes")
def test_a_seed_determines_goals_and_actions(tmp_path):
    arguments = ["MT1", "--policy", "random", "--episodes", "3"]
    first = play(tmp_path, *arguments, "--seed", "1")
    assert stable(play(tmp_path, *arguments, "--seed", "1")) == stable(first)
    other = play(tmp_path, *arguments, "--seed", str(2**32 - 2))
    assert other["tasks"][0]["returns"] != first["tasks"][0]["returns"]
    assert other["tasks"][0]["task_states"] != first["tasks"][0]["task_states"]


@pytest.mark.usefixtures("short_episodes")
def test_no_goal_comes_again_before_all_have_come_and_no_actions_ever(tmp_path):
    results = play(tmp_path, "MT1", "--policy", "random", "--episodes", "51")
    (row,) = results["tasks"]
    states, returns = row["task_states"], row["returns"]
    assert sorted(states[:50]) == list(range(50))
    assert states[:50] != list(range(50))
    # When a goal does come again, the actions are others.
    assert returns[50] != returns[states.index(states[50])]


def test_results_do_not_depend_on_the_number_of_workers(tmp_path):
    arguments = ["MT10", "--task", "push-v3", "--task", "door-open-v3", "--episodes", "2"]
    alone = play(tmp_path / "1", *arguments, "--policy", "random")
    shared = play(tmp_path / "2", *arguments, "--policy", "random", workers=2)
    assert stable(shared) == stable(alone)
    alone_csv, shared_csv = ((tmp_path / n / "results.csv").read_text() for n in "12")
    assert shared_csv == alone_csv


# Bad input.


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rollout", "MT10-test"], f"unknown benchmark 'MT10-test' (choose from {BENCHMARKS})"),
        (["rollout", "ML10-"], f"unknown benchmark 'ML10-' (choose from {BENCHMARKS})"),
        (
            ["rollout", "ML10-test", "--task", "reach-v3"],
            "unknown task 'reach-v3' of ML10-test (choose from drawer-open-v3, door-close-v3, "
            "shelf-place-v3, sweep-into-v3, lever-pull-v3)",
        ),
        (
            ["rollout", "MT10", "--task", "push-v3", "--task", "hammer-v3"],
            "unknown task 'hammer-v3' of MT10 (choose from reach-v3, push-v3, pick-place-v3, ",
        ),
        (
            ["rollout", "MT1", "--task", "reach-v2"],
            "unknown task 'reach-v2' of MT1 (choose from assembly-v3, basketball-v3, ",
        ),
        (
            ["rollout", "MT1", "--task", "reach-v3", "--task", "push-v3"],
            "MT1 has one task, got 2; several classes are in MT10, MT50",
        ),
        (["rollout"], "the following arguments are required: benchmark, or --resume DIR"),
        (["rollout", "MT1", "--seed", str(2**32 - 1)], "[0, 2**32 - 2], got 4294967295"),
    ],
)
def test_bad_input_is_one_line_that_names_the_choices(
    arguments, message, capsys, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("mtwrappers: error: ")
    assert said.err.count("\n") == 1
    # Versions of Python differ in where they quote.
    assert message.replace("'", "") in said.err.replace("'", "")
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_cannot_be_written_is_one_line(capsys, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for out in (file, file / "below"):
        with pytest.raises(SystemExit, match=r"^2$"):
            main(["rollout", "MT1", "--out", str(out)])
        said = capsys.readouterr().err
        assert said.startswith(f"mtwrappers: error: cannot write to {out}: ")
        assert said.endswith("; choose another directory with --out DIR\n")
        assert said.count("\n") == 1


# Ctrl-C.


class Interrupting(rollout.Interruption):
    """Ctrl-C comes in the middle of episode ``n``."""

    def __init__(self, n):
        super().__init__()
        self.steps = 40 * n + 20

    def step(self, seen):
        self.steps -= 1
        if self.steps == 0:
            signal.raise_signal(signal.SIGINT)
        super().step(seen)


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.parametrize("n", [2, 0])
def test_an_interrupted_rollout_writes_the_episodes_that_were_finished(
    n, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, n))
    out = ["--workers", "1", "--out", str(tmp_path)]
    before = signal.getsignal(signal.SIGINT)
    try:
        assert main(["rollout", "MT1", "--policy", "random", "--episodes", "5", *out]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().out
    if n == 0:
        assert list(tmp_path.iterdir()) == []
        assert "Interrupted before an episode was finished; nothing was written. Run" in said
        return
    results = json.loads((tmp_path / "results.json").read_text())
    assert (results["interrupted"], results["steps"]) == (True, 80)
    assert [row["episodes"] for row in results["tasks"]] == [2]
    assert "Interrupted: these are the episodes that were finished. Go on with:" in said
    assert said.endswith(f"\nmtwrappers rollout --resume {tmp_path}\n")


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


def require_no_process(group):
    deadline = time.monotonic() + 10  # for workers that end when their parent has
    while processes(group) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert processes(group) == []


@pytest.mark.parametrize(("times", "pause"), [(1, 0), (3, 0.3), (20, 0.001)])
def test_ctrl_c_keeps_what_was_finished_and_leaves_no_process_behind(
    times, pause, long_rollout, tmp_path
):
    for _ in range(times):
        os.killpg(long_rollout.pid, signal.SIGINT)
        time.sleep(pause)
    said, errors = (text.decode(errors="replace") for text in long_rollout.communicate(timeout=60))
    assert long_rollout.returncode == 130
    assert errors == ""
    assert "Interrupted: these are the episodes that were finished." in said
    results = json.loads((tmp_path / "results.json").read_text())
    assert results["interrupted"] is True
    [row] = results["tasks"]
    assert 6 <= row["episodes"] < 5000
    assert results["steps"] == 500 * row["episodes"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["progress.jsonl", *FILES]
    require_no_process(long_rollout.pid)


def test_a_killed_rollout_leaves_no_process_and_its_progress(long_rollout, tmp_path):
    os.kill(long_rollout.pid, signal.SIGKILL)
    assert long_rollout.wait(timeout=30) == -signal.SIGKILL
    require_no_process(long_rollout.pid)
    assert [path.name for path in tmp_path.iterdir()] == ["progress.jsonl"]
    assert len((tmp_path / "progress.jsonl").read_text().splitlines()) > 6


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


# Resume.


def resume(out, *arguments, workers=1):
    """Resumes a rollout in this process; returns its results, and how many episodes it played."""
    played = []

    class Policy(rollout.ScriptedPolicy):
        def begin(self, i, slot):
            played.append(slot)
            super().begin(i, slot)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout, "ScriptedPolicy", Policy)
        command = ["rollout", "--resume", str(out), "--workers", str(workers), *arguments]
        assert main(command) == 0
    return json.loads((out / "results.json").read_text()), len(played)


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
    arguments = ["MT10", "--task", "door-open-v3", "--task", "push-v3", "--episodes", "6"]
    expected = play(tmp_path / "expected", *arguments, workers=2)
    out = tmp_path / "out"
    kept = kill_when(out, 3, *arguments, "--workers", "3", "--out", str(out))
    assert 3 <= kept < 12
    with (out / "progress.jsonl").open("ab") as file:
        file.write(b'{"seconds": 1.0, "episode": {"task": "push')
    again = kill_when(out, kept + 2, "--resume", str(out), "--workers", "2")
    assert kept + 2 <= again < 12
    results, played = resume(out)
    assert stable(results) == stable(expected)
    assert again + played == 12
    assert sorted(path.name for path in out.iterdir()) == FILES
    for name in ("results.csv", "success.png"):
        assert (out / name).read_bytes() == (tmp_path / "expected" / name).read_bytes()


@pytest.mark.usefixtures("short_episodes")
def test_an_interrupted_rollout_goes_on_until_it_is_complete(tmp_path, capsys, monkeypatch):
    arguments = ["MT1", "--policy", "random", "--episodes", "5"]
    expected, out = play(tmp_path / "expected", *arguments), tmp_path / "in two words"
    for n in (2, 0, 1):
        monkeypatch.setattr(rollout, "Interruption", partial(Interrupting, n))
        before = signal.getsignal(signal.SIGINT)
        try:
            begun = ["--resume", str(out)] if out.exists() else [*arguments, "--out", str(out)]
            assert main(["rollout", *begun, "--workers", "1"]) == 130
        finally:
            signal.signal(signal.SIGINT, before)
    assert f"\nmtwrappers rollout --resume '{out}'\n" in capsys.readouterr().out
    interrupted = json.loads((out / "results.json").read_text())
    assert (interrupted["interrupted"], interrupted["steps"]) == (True, 3 * 40)
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
    with Progress(tmp_path, settings, [Episode("push-v3", i, 0.1, 500) for i in range(2)], 1.5):
        pass
    return tmp_path / "progress.jsonl"


def test_progress_that_was_cut_anywhere_is_read_up_to_there(unfinished):
    whole = unfinished.read_bytes()
    ends = [i for i, byte in enumerate(whole, 1) if byte == ord("\n")]
    for size in range(ends[0], len(whole) + 1):
        for tail in (b"", b"\0" * 9, b"\0\n"):
            unfinished.write_bytes(whole[:size] + tail)
            kept = Progress.load(unfinished.parent)
            assert len(kept.episodes) == sum(end <= size for end in ends[1:])
            assert kept.seconds == (1.5 if kept.episodes else 0.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MT10"], "was begun with benchmark 'MT1', got 'MT10'"),
        (["--task", "reach-v3"], "was begun with task ['push-v3'], got ['reach-v3']"),
        (["--policy", "random"], "was begun with policy 'expert', got 'random'"),
        (["--episodes", "6"], "was begun with episodes 5, got 6"),
        (["--seed", "1"], "was begun with seed 0, got 1"),
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
        (lambda path: path.write_text(""), "'mtwrappers.rollout/1', got None"),
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


# Video.


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # imageio's reader
def test_a_video_shows_the_first_episode_of_each_class(tmp_path, capsys):
    if opengl.choose_gl() is None:
        pytest.skip("neither EGL nor OSMesa can render here")
    play(tmp_path, "MT1", "--task", "reach-v3", "--episodes", "2", "--video")
    assert [path.name for path in tmp_path.glob("*.mp4")] == ["reach-v3.mp4"]
    frames = imageio.imread(tmp_path / "reach-v3.mp4")
    assert frames.shape == (10, 480, 480, 3)
    assert len(np.unique(frames[0])) > 1
    # The hand has moved; compression alone changes a pixel by a tenth of this.
    assert np.abs(frames[0].astype(int) - frames[-1]).max() > 150
    assert imageio.immeta(tmp_path / "reach-v3.mp4")["fps"] == 20.0
    assert "wrote" in capsys.readouterr().out


@pytest.mark.usefixtures("short_episodes")
def test_without_a_renderer_the_rollout_goes_on_and_says_what_to_install(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(opengl, "choose_gl", lambda: None)
    results = play(tmp_path, "MT1", "--episodes", "2", "--video")
    assert results["tasks"][0]["episodes"] == 2
    assert list(tmp_path.glob("*.mp4")) == []
    said = " ".join(capsys.readouterr().out.split())
    assert "No video: neither EGL nor OSMesa can render here." in said
    assert "libegl1 or libosmesa6" in said


def test_the_renderer_is_the_users_choice_before_egl_before_osmesa(monkeypatch):
    tried = []

    def run(command, *, env, **kwargs):
        tried.append(env["MUJOCO_GL"])
        return subprocess.CompletedProcess(command, int(env["MUJOCO_GL"] != "osmesa"))

    monkeypatch.setattr(opengl.subprocess, "run", run)
    assert opengl.choose_gl() == "osmesa"
    assert tried == ["egl", "osmesa"]
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert opengl.choose_gl() == "osmesa"
    assert tried[2:] == ["glfw", "egl", "osmesa"]
