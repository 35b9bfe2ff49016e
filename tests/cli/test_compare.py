"""``mtwrappers compare``: a method or several from files, in each format."""

import csv
import dataclasses
import io
import shutil

import pytest

from mtwrappers.cli.main import main
from mtwrappers.evaluation import Episode, EvaluationResult
from tests.cli.fakes import SHIPPED


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two runs of ``mine`` and one of ``theirs``."""
    monkeypatch.chdir(tmp_path)
    for name, policy, seed, successes in (
        ("mine-0", "mine", 0, 4),
        ("mine-1", "mine", 1, 2),
        ("theirs", "their_method", None, 3),
    ):
        save(name, policy, seed, successes)
    return ["mine-0.json", "mine-1.json", "theirs.json"]


def save(name, policy, seed=None, successes=1, steps=None):
    episodes = [
        Episode("reach-v3", i, float(len(name)), 5, i < successes, False, i) for i in range(5)
    ]
    result = EvaluationResult(episodes)
    result = result.described(policy=policy, training_seed=seed, training_steps=steps)
    result.save(f"{name}.json")


def test_the_runs_of_a_method_are_a_table(files, capsys):
    assert main(["compare", *files[:2]]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["task", "mine"]
    assert lines[1].split()[-2:] == ["2", "runs"]
    assert lines[3].split() == ["reach-v3", "0.600", "0.013-0.994"]
    assert "mine: 2 runs (training seeds 0, 1), 10 episodes." in lines
    assert "B - A" not in "\n".join(lines)


def test_several_methods_are_compared_beneath(files, capsys):
    assert main(["compare", *files]) == 0
    output = capsys.readouterr().out
    table, differences = output.split("\n\nA: mine (2 runs)\nB: their_method (1 run)\n")
    assert table.splitlines()[0].split() == ["task", "mine", "their_method"]
    assert "1 run: 95% interval over its episodes, not over training:" in table
    assert "a single run has no interval" in differences
    assert main(["compare", *files, "--no-tasks"]) == 0
    assert "reach-v3" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("format", "start", "name"),
    [
        ("markdown", "| task | mine |", r"their\_method"),
        ("latex", "\\begin{table}\n", r"their\_method"),
        ("csv", "method,over,name,success,low,high,", "their_method"),
    ],
)
def test_formats_are_the_table_alone(format, start, name, files, capsys):
    assert main(["compare", *files, "--format", format]) == 0
    output = capsys.readouterr().out
    assert output.startswith(start)
    assert name in output
    assert "B - A" not in output
    assert main(["compare", *files, "--format", format, "--no-tasks"]) == 0
    without_tasks = capsys.readouterr().out
    assert "reach-v3" in output
    assert "reach-v3" not in without_tasks
    assert ("mean over tasks" if format == "csv" else "mean over 1 task") in without_tasks
    assert main(["compare", *files, "--format", format, "--plot", "plot.png"]) == 0
    assert capsys.readouterr().out == output
    if format == "csv":
        rows = [*csv.DictReader(io.StringIO(output))]
        assert [row["method"] for row in rows] == ["mine"] * 2 + ["their_method"] * 2


def test_each_comparison_with_the_first_method_is_a_picture(files, tmp_path, capsys):
    """The pictures are numbered from three methods on."""
    assert main(["compare", *files, "--plot", "plot.png"]) == 0
    assert [path.name for path in tmp_path.glob("*.png")] == ["plot.png"]
    (tmp_path / "plot.png").unlink()
    save("third", "third")
    assert main(["compare", *files, "third.json", "--plot", "plot.png"]) == 0
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["plot-1.png", "plot-2.png"]


def test_a_curve_is_a_picture_and_a_table_beside_it(files, tmp_path, capsys):
    for seed, steps, successes in ((0, 10, 1), (1, 10, 2), (0, 20, 3), (1, 20, 5)):
        save(f"run-{seed}-{steps:04}", "run", seed, successes, steps)
    runs = sorted(path.name for path in tmp_path.glob("run-*"))
    assert main(["compare", *runs, "theirs.json", "--curve", "curve.png"]) == 0
    output = capsys.readouterr().out
    assert output.endswith("\nwrote curve.png\nwrote curve.csv\n")
    sentence = "run: 2 runs (training seeds 0, 1) after 20 training steps, the last of 2 points"
    assert f"{sentence}, 10 episodes." in " ".join(output.split())
    assert (tmp_path / "curve.png").read_bytes().startswith(b"\x89PNG")
    table = [*csv.DictReader((tmp_path / "curve.csv").read_text().splitlines())]
    assert [
        (row["method"], row["training_steps"], row["name"], row["success"]) for row in table
    ] == [
        ("run", "10", "reach-v3", "0.30000000000000004"),
        ("run", "10", "mean over tasks", "0.30000000000000004"),
        ("run", "20", "reach-v3", "0.8"),
        ("run", "20", "mean over tasks", "0.8"),
        ("their_method", "", "reach-v3", "0.6"),
        ("their_method", "", "mean over tasks", "0.6"),
    ]
    (tmp_path / "curve.png").unlink()
    assert main(["compare", *runs, "--no-tasks", "--curve", "curve.csv"]) == 0
    assert "reach-v3" not in (tmp_path / "curve.csv").read_text()
    assert not (tmp_path / "curve.png").exists()


# Results that come with the package.


def test_a_method_stands_for_its_result_of_the_same_protocol_wherever_it_is_named(tmp_path, capsys):
    random = "random/metaworld-3.1-MT10"
    mine = str(shutil.copy(SHIPPED / random / "results.json", tmp_path / "mine.json"))
    assert main(["compare", mine, "reference:experts"]) == 0
    output = capsys.readouterr().out
    assert "\nA: random (1 run)\nB: reference:experts (reference of mtwrappers, 1 run)\n" in output
    *_, row = [line for line in output.splitlines() if line.startswith("mean over 10 tasks")]
    assert row.split()[4:7] == ["0.04", "0.98", "+0.94"]
    assert main(["compare", mine, "reference:experts/metaworld-3.1-MT10"]) == 0
    assert capsys.readouterr().out == output
    assert main(["compare", f"reference:{random}", "reference:experts"]) == 0
    assert "\nA: reference:random (reference of mtwrappers, 1 run)\n" in capsys.readouterr().out
    assert main(["compare", "reference:experts", mine]) == 0
    assert (
        "\nA: reference:experts (reference of mtwrappers, 1 run)\nB: random (1 run)\n"
        in capsys.readouterr().out
    )


def test_a_method_of_one_protocol_is_compared_alone(capsys):
    assert main(["compare", "reference:ppo", "--no-tasks"]) == 0
    assert "3 runs" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["compare", "reference:experts"])
    assert "reference:experts has results by 5 protocols: name one" in " ".join(
        capsys.readouterr().err.split()
    )


def test_a_reference_is_no_run_of_a_method_of_ones_own_with_its_name(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = EvaluationResult.load(SHIPPED / "random/metaworld-3.1-MT10/results.json")
    mine = dataclasses.replace(result, evidence=None)
    mine = dataclasses.replace(
        mine,
        episodes=[dataclasses.replace(episode, episode_return=0.0) for episode in mine.episodes],
    )
    mine.save("mine.json")
    mine.described(policy="reference:random").save("odd.json")
    assert main(["compare", "mine.json", "odd.json", "reference:random", "--no-tasks"]) == 0
    output = capsys.readouterr().out
    for name in ("random", "reference:random"):
        assert f"\n{name}: 1 run, 500 episodes." in output
    assert "\nreference:reference:random: reference of mtwrappers, 1 run, 500 episodes." in output
