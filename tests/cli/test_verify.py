"""A rollout is verified and compared, on the command line."""

import contextlib
import dataclasses
import io
import json
import shutil

import pytest

from mtwrappers.cli import main, rollout

ONE = ["--workers", "1"]
ROLLOUT = ["rollout", "MT1", "--policy", "random", "--episodes", "3", *ONE]


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """The directory of a rollout, and its output."""
    out, said = tmp_path_factory.mktemp("rollout"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(said):
        patch.setattr(rollout, "EPISODE_STEPS", 40)
        patch.setenv("PYTHONWARNINGS", "")  # which the command sets
        assert main([*ROLLOUT, "--out", str(out), "--name", "mine"]) == 0
    return out, said.getvalue()


@pytest.fixture
def finished(once, tmp_path, short_episodes):
    """A copy of the directory of a rollout, and its output."""
    out, said = once
    shutil.copytree(out, tmp_path, dirs_exist_ok=True)
    return tmp_path, said.replace(str(out), str(tmp_path))


def test_a_rollout_is_verified(finished, capsys):
    where, said = finished
    command = f"mtwrappers verify {where / 'results.json'}"
    assert said.endswith(f"check the numbers:\n{command}\n")
    assert main([*command.split()[1:], "--workers", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('said by the file: policy="mine", ') for line in lines)
    assert "replayed      3 of 3 episodes" in lines
    assert lines[-3:-1] == [
        "verified:",
        "success at any step 0.000 (0.000 to 0.561, 95 %), mean over tasks",
    ]
    assert max(map(len, lines)) <= 80
    assert main(["verify", str(where), "--sample", "0.3", *ONE]) == 0  # its folder
    said = capsys.readouterr().out
    assert "replayed      1 of 3 episodes\n" in said
    assert "verified, as far as it was replayed:\n" in said


def test_what_is_not_true_is_said_with_exit_code_1(finished, capsys):
    where, _ = finished
    path, data = where / "results.json", json.loads((where / "results.json").read_text())
    data["episodes"][1]["steps_to_success"] = 3
    path.write_text(json.dumps(data))
    assert main(["verify", str(path), "--workers", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    expected = "false: reach-v3, episode 1: steps_to_success is None in the replay, 3 in the result"
    assert lines[-3] == expected
    assert lines[-2].startswith("not verified: 2 of 3 episodes")
    data["episodes"][1]["task"] = "\33[2J"
    path.write_text(json.dumps(data))
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["verify", str(path), *ONE])
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"mtwrappers: error: cannot verify {path}: ")
    assert "\33" not in said.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["verify", "none.json"],
            "cannot read none.json: No such file or directory; expected the f",
        ),
        (["verify", "broken.json"], "cannot verify broken.json: expected an evaluation in JSON"),
        (["verify", "alone.json"], "there is no file alone.npz with its evidence"),
        (
            ["verify", "results.npz"],
            "expected an evaluation in JSON, results.npz is not one: it",
        ),
        (["verify", "none.json", "--sample", "2"], "for --sample. Must be <= 1."),
        (
            ["compare", "none.json"],
            "cannot read none.json: No such file or directory; expected the f",
        ),
        (["compare", ".", "results.json"], "results.json is given twice"),
        (["compare", "broken.json", "results.json"], "broken.json: expected an evaluation in JSON"),
        (
            ["rollout", "MT10", "--name", "a\nb"],
            "the name of a policy must be printable, got 'a\\nb'",
        ),
        (["rollout", "--protocol", "none"], "unknown protocol 'none'; choose from metaworld-3.1"),
        (["rollout", "--protocol", "metaworld-3.1-ml"], "lets policies adapt, which a plain"),
        (["rollout", "ML10", "--protocol", "metaworld-3.1"], "metaworld-3.1 is for "),
        (
            ["rollout", "--protocol", "metaworld-3.1", "--episodes", "2"],
            "it has 50 episodes per class, got 2; leave out --episodes",
        ),
    ],
)
def test_what_is_refused_is_one_line(arguments, message, finished, capsys, monkeypatch):
    monkeypatch.chdir(finished[0])
    (finished[0] / "broken.json").write_text("{")
    shutil.copy("results.json", "alone.json")
    with pytest.raises(SystemExit, match=r"^2$"):
        main(arguments)
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_policies_are_compared_by_name(finished, tmp_path, capsys):
    where, _ = finished
    moves = tmp_path / "moves.py"
    for name, move in (("other", 0.0), ("more", 0.5)):
        moves.write_text(f"import numpy\ndef act(obs): return numpy.full((len(obs), 4), {move})\n")
        by = ["--policy", f"{moves}:act", "--name", "moves"]
        assert main([*ROLLOUT, *by, "--out", str(tmp_path / name)]) == 0
    capsys.readouterr()
    files = [
        where / "results.json",
        tmp_path / "other/results.json",
        tmp_path / "more/results.json",
    ]
    files = list(map(str, files))
    picture = tmp_path / "compared.png"
    assert main(["compare", *files, "--plot", str(picture)]) == 0
    lines = capsys.readouterr().out.splitlines()
    first = lines.index("A: mine (1 run)")
    assert lines[0].split() == ["task", "mine", "moves"]
    assert lines[first + 1] == "B: moves (2 runs)"
    assert lines[-1] == f"wrote {picture}"
    assert picture.stat().st_size > 5000
    for again, said in (
        ([files[1]], f"{files[1]} is given twice"),
        ([str(shutil.copy(files[1], tmp_path / "copy.json"))], "copy.json have the same actions"),
    ):
        with pytest.raises(SystemExit):
            main(["compare", *files, *again])
        assert said in capsys.readouterr().err
    files = files[:2]
    longer = json.loads((where / "results.json").read_text())
    longer["environments"]["kwargs"]["max_episode_steps"] = 500
    (where / "results.json").write_text(json.dumps(longer))
    with pytest.raises(SystemExit):
        main(["compare", *files])
    said = capsys.readouterr().err
    assert f"are not comparable: max_episode_steps 500 and 40 ({files[1]}); --force co" in said
    assert main(["compare", *files, "--force"]) == 0
    assert capsys.readouterr().out.startswith("FORCED, these results are not comparable: max_epis")


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.slow
def test_a_protocol_decides_how_a_rollout_is_run(tmp_path, capsys, monkeypatch):
    published = dataclasses.replace(
        rollout.protocols["metaworld-3.1"], name="short", episodes_per_task=2, max_episode_steps=9
    )
    monkeypatch.setattr(rollout, "protocols", {"short": published})
    of_task = ["MT1", "--task", "push-v3", "--policy", "random"]
    assert main(["rollout", "--protocol", "short", *of_task, *ONE, "--out", str(tmp_path)]) == 0
    results = json.loads((tmp_path / "results.json").read_text())
    assert [one["length"] for one in results["episodes"]] == [9, 9]
    assert results["protocol"]["name"] == "short"
    assert "protocol short (" in capsys.readouterr().out
    path = tmp_path / "results.json"
    assert main(["verify", str(path), *ONE]) == 0
    assert (
        f"protocol      short ({published.on('MT1', 'push-v3').digest[:10]}"
        in capsys.readouterr().out
    )
