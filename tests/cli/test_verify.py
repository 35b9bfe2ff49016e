"""A rollout is verified and compared, on the command line."""

import contextlib
import io
import json
import re
import shutil

import pytest

from mtwrappers.cli import main, rollout
from mtwrappers.evaluation import EvaluationResult

ONE_WORKER = ["--workers", "1"]
ROLLOUT = ["rollout", "MT1", "--policy", "random", "--episodes", "3", *ONE_WORKER]


@pytest.fixture(scope="module")
def finished_rollout(tmp_path_factory):
    """The directory of a rollout, and its output."""
    folder, output = tmp_path_factory.mktemp("rollout"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(output):
        patch.setattr(rollout, "EPISODE_STEPS", 40)
        patch.setenv("PYTHONWARNINGS", "")  # which the command sets
        assert main([*ROLLOUT, "--out", str(folder), "--name", "mine"]) == 0
    return folder, output.getvalue()


@pytest.fixture
def rollout_copy(finished_rollout, tmp_path, short_episodes):
    """A copy of the directory of a rollout, and its output."""
    folder, output = finished_rollout
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path, output.replace(str(folder), str(tmp_path))


def test_a_rollout_is_verified(rollout_copy, capsys):
    folder, output = rollout_copy
    command = f"mtwrappers verify {folder / 'results.json'}"
    assert output.endswith(f"check the numbers:\n{command}\n")
    assert main([*command.split()[1:], "--workers", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith('said by the file  policy="mine", ') for line in lines)
    assert "replayed          3 of 3 episodes" in lines
    assert lines[-4:-1] == [
        "verified:",
        "success at any step 0.000 (0.000 to 0.561, 95%), mean over 1 task",
        "",
    ]
    assert re.fullmatch(r"verified in \d+ s", lines[-1])
    assert max(map(len, lines)) <= 80
    assert main(["verify", str(folder), "--json", *ONE_WORKER]) == 0
    verification = json.loads(capsys.readouterr().out)
    assert (verification["ok"], verification["difference"], verification["same"]) == (
        True,
        None,
        {"reach-v3": 3},
    )
    assert verification["score"].startswith("success at any step 0.000")
    assert verification["text"].splitlines() == lines[:-2]
    assert main(["verify", str(folder), "--sample", "0.3", *ONE_WORKER]) == 0  # its folder
    output = capsys.readouterr().out
    assert "replayed          1 of 3 episodes\n" in output
    assert "verified, as far as it was replayed:\n" in output


def test_what_is_not_true_is_said_with_exit_code_1(rollout_copy, capsys):
    folder, _ = rollout_copy
    path, data = folder / "results.json", json.loads((folder / "results.json").read_text())
    data["episodes"][1]["steps_to_success"] = 3
    path.write_text(json.dumps(data))
    assert main(["verify", str(path), "--workers", "1"]) == 1
    lines = capsys.readouterr().out.splitlines()
    difference = "reach-v3, episode 1: steps_to_success is None in the replay, 3 in the result"
    verdict = " ".join(line.strip() for line in lines[:-3])
    assert verdict.endswith(
        f"false: {difference}; if the file was edited, verify it as save() wrote it"
    )
    assert lines[-3].startswith("not verified: 2 of 3 episodes")
    assert lines[-1].startswith("not verified in ")
    assert main(["verify", str(path), "--workers", "1", "--json"]) == 1
    verification = json.loads(capsys.readouterr().out)
    assert (verification["ok"], verification["score"]) == (False, None)
    assert verification["difference"] == difference
    assert (verification["replayed"], verification["same"]) == ({"reach-v3": 3}, {"reach-v3": 2})
    data["episodes"][1]["task"] = "\33[2J"
    path.write_text(json.dumps(data))
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["verify", str(path), *ONE_WORKER])
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"mtwrappers: error: cannot verify {path}: ")
    assert "\33" not in captured.err


def test_another_number_of_episodes_makes_a_variant_of_a_protocol(tmp_path, capsys, monkeypatch):
    short = rollout.protocols["metaworld-3.1"].variant("short", max_episode_steps=9)
    monkeypatch.setattr(rollout, "protocols", {"short": short})
    command = ["rollout", "MT1", "--protocol", "short", "--policy", "random", *ONE_WORKER]
    for name, episodes in (("two", "2"), ("one", "1"), ("whole", "50")):
        assert main([*command, "--episodes", episodes, "--out", str(tmp_path / name)]) == 0
        output = capsys.readouterr().out
        notice = (
            "This is a variant of short, which has 50 episodes per class:\nits score is not "
            "comparable with scores of short.\n"
        )
        assert (notice in output) == (name != "whole")
    result = EvaluationResult.load(tmp_path / "two/results.json")
    expected = short.on("MT1").variant("short with 2 episodes per class", episodes_per_task=2)
    assert result.protocol == expected
    assert (result.protocol.name, len(result.episodes)) == ("short with 2 episodes per class", 2)
    assert EvaluationResult.load(tmp_path / "whole/results.json").protocol == short.on("MT1")
    # It is verified, continued and compared as any other.
    assert main(["verify", str(tmp_path / "two"), *ONE_WORKER]) == 0
    resumed = [*command, "--episodes", "2", "--out", str(tmp_path / "two"), "--resume"]
    assert main(resumed) == 0
    assert "2 of 2 episodes are taken from" in capsys.readouterr().err
    assert EvaluationResult.load(tmp_path / "two/results.json") == result
    result.described(policy="other").save(tmp_path / "other.json")
    paths = [str(tmp_path / "two"), str(tmp_path / "other.json")]
    assert main(["compare", *paths]) == 0
    with pytest.raises(SystemExit, match=r"^2$"):
        main(["compare", paths[1], str(tmp_path / "whole")])
    assert "differ in episodes_per_task: 2 and 50" in " ".join(capsys.readouterr().err.split())


@pytest.mark.usefixtures("short_episodes")
@pytest.mark.slow
def test_a_protocol_decides_how_a_rollout_is_run(tmp_path, capsys, monkeypatch):
    published = rollout.protocols["metaworld-3.1"].variant(
        "short", episodes_per_task=2, max_episode_steps=9
    )
    monkeypatch.setattr(rollout, "protocols", {"short": published})
    task_options = ["MT1", "--task", "push-v3", "--policy", "random"]
    assert (
        main(["rollout", "--protocol", "short", *task_options, *ONE_WORKER, "--out", str(tmp_path)])
        == 0
    )
    results = json.loads((tmp_path / "results.json").read_text())
    assert [episode["length"] for episode in results["episodes"]] == [9, 9]
    assert results["protocol"]["name"] == "short"
    assert "protocol short (" in capsys.readouterr().out
    path = tmp_path / "results.json"
    assert main(["verify", str(path), *ONE_WORKER]) == 0
    assert (
        f"protocol          short ({published.on('MT1', 'push-v3').digest[:10]}"
        in capsys.readouterr().out
    )
