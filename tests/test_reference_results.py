"""The results in `benchmarks/reference`, and the script that makes and verifies them."""

import dataclasses
import json
import re
import runpy
import shutil
from contextlib import closing
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import benchmarks.reference as script
import mtwrappers
from benchmarks.reference import COMMANDS, MAX_BYTES, WITHOUT_EVIDENCE, Shipped, shipped
from mtwrappers.evaluation import EvaluationResult, scores

ROOT = Path(__file__).parents[1]
SHIPPED = {one.name: one for one in shipped()}
WITH_EVIDENCE = {name for name, one in SHIPPED.items() if one.evidence.exists()}


# The files.


@pytest.mark.parametrize("name", SHIPPED)
def test_a_result_is_of_the_policy_and_protocol_of_its_folder_and_says_how_it_was_made(name):
    one, found = SHIPPED[name], SHIPPED[name].result
    origin = found.description
    method, _, folder = name.partition("/")
    rules, seed, steps = re.fullmatch(
        r"(.+?)(?:-unseen(?:-\w+)?)?(?:-seed(\d+)(?:-steps(\d+))?)?", folder
    ).groups()
    assert origin.policy == method
    assert rules.endswith(f"-{found.protocol.benchmark}")
    assert rules.startswith(found.protocol.name.partition(" on ")[0]) or "-unseen" in folder
    assert seed is None or origin.training_seed == int(seed)
    assert steps is None or origin.training_steps == int(steps)
    assert found.headline is not None
    assert re.fullmatch(r"[0-9a-f]{64}", found.evidence)
    assert one.made.keys() == {"commands", "cpu_seconds", "machine"}
    command = re.compile(r"(WEIGHTS=\S+ )?(mtwrappers|python) ")
    assert all(command.match(line) for line in one.made["commands"])


def test_every_result_that_the_script_makes_is_here():
    assert len(COMMANDS) == 10
    assert COMMANDS.keys() <= SHIPPED.keys()
    for name in COMMANDS:
        assert SHIPPED[name].made["commands"] == [COMMANDS[name]]
    # A source distribution has no evidence.
    assert COMMANDS.keys() & WITH_EVIDENCE in (set(), COMMANDS.keys() - WITHOUT_EVIDENCE)


def test_all_files_together_are_small_and_none_is_of_anything_else():
    files = [path for path in script.HERE.rglob("*") if "__pycache__" not in path.parts]
    files = [path for path in files if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MAX_BYTES
    others = {path.name for path in files} - {"results.json", "results.npz", "made.json"}
    weights = {f"weights-seed{seed}.npz" for seed in (1, 2, 3)}  # of learners
    assert others == {"__init__.py", "__main__.py", "README.md"} | weights


@pytest.mark.skipif(not WITH_EVIDENCE, reason="a source distribution, without the evidence")
def test_the_readme_has_the_table_of_the_files(monkeypatch):
    monkeypatch.setattr(script, "shipped", lambda: [*SHIPPED.values()])  # which are read already
    assert script.readme() == script.README.read_text(), "python -m benchmarks.reference --table"


def test_the_page_and_the_picture_of_ppo_have_the_scores_of_its_results():
    found = mtwrappers.evaluation.reference("ppo")
    runs = sorted(found.values(), key=lambda one: one.description.training_seed)
    solved = tuple(sum(e.success_once for e in one.episodes) for one in runs)
    picture = runpy.run_path(str(ROOT / "docs/ppo_picture.py"))
    assert picture["PPO"][1_000_000] == solved
    mean = scores({"ppo": found}).methods["ppo"].overall["mean over tasks"]
    cells = [f"{mean.value:.3f} ({mean.low:.3f} to {mean.high:.3f})"]
    cells += [f"{n / 500:.3f}" for n in solved]
    page = (ROOT / "docs/learners.md").read_text()
    assert f"| mean over tasks | {' | '.join(cells)} |" in page
    readme = (ROOT / "README.md").read_text()
    assert f"{mean.value:.2f} (95% interval over runs: {mean.low:.2f} to {mean.high:.2f})" in readme


# The script.


def still(observations):
    return np.zeros((len(observations), 4))


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with two short results, the second without the actions."""
    here = tmp_path_factory.mktemp("reference")
    for name in ("still/one-MT1", "still/two-MT1"):
        place = here / name
        place.mkdir(parents=True)
        envs = gymnasium.make_vec("mtwrappers/MT1-v0", num_goals=2, max_episode_steps=5)
        with closing(envs):
            result = mtwrappers.evaluate(still, envs, 2, evidence=place / "results.npz")
        result.save(place / "results.json")
    (place / "results.npz").unlink()
    return here


@pytest.fixture
def here(measured, tmp_path, monkeypatch):
    """A copy of it, in the place of the results."""
    monkeypatch.setattr(script, "HERE", shutil.copytree(measured, tmp_path / "reference"))
    return script.HERE


def verify(*arguments):
    return script.main(["--verify", *arguments, "--workers", "1"])


def test_results_are_verified_and_the_table_says_how(here, capsys):
    assert verify() == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.partition(" (")[0] for line in lines[:2]] == [
        "still/one-MT1: replayed 2 of 2 episodes, to the last bit",
        "still/two-MT1: digest only: 2 episodes",
    ]
    assert len([line for line in lines if line.startswith("| still/")]) == 2
    assert verify("still/one-MT1", "--sample", "0.5") == 0
    assert capsys.readouterr().out.startswith("still/one-MT1: replayed 1 of 2 episodes")


def test_a_false_result_is_named_with_the_exit_code_1(here, capsys):
    for name in ("one", "two"):
        path = here / f"still/{name}-MT1/results.json"
        result = EvaluationResult.load(path)
        first, *others = result.episodes
        false = dataclasses.replace(first, episode_return=first.episode_return + 1e-5)
        dataclasses.replace(result, episodes=[false, *others]).save(path)
    assert verify() == 1  # of the second, nothing is known but its episodes
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"still/one-MT1: FALSE: reach-v3, episode \d: episode_return is ", lines[0])
    assert lines[1].startswith("still/two-MT1: digest only")
    data = json.loads(path.read_text())
    data["evidence"] = None
    path.write_text(json.dumps(data))
    assert verify("still/two-MT1") == 1
    assert "two-MT1: FALSE: it has no digest of its actions" in capsys.readouterr().out


def test_a_name_that_nothing_has_is_refused(here):
    for option in ("--verify", "--make"):
        with pytest.raises(SystemExit, match="random/none, choose from "):
            script.main([option, "random/none"])


def test_a_result_that_was_made_again_must_be_the_same():
    one = SHIPPED["random/tdmpc2-MT50"].result
    first, second, *others = one.episodes
    assert script.difference(one, one) == ""
    rounded = dataclasses.replace(first, episode_return=first.episode_return * (1 + 1e-14))
    again = dataclasses.replace(one, episodes=[rounded, second, *others])
    assert again != one
    assert script.difference(one, again) == ""
    other = dataclasses.replace(first, length=first.length - 1)
    again = dataclasses.replace(one, episodes=[other, second, *others])
    assert "length is " in script.difference(one, again)
    fewer = dataclasses.replace(one, episodes=[second, *others])
    assert script.difference(one, fewer) == "it has 499 episodes, not 500"
    again = dataclasses.replace(one, evidence="0" * 64)
    assert script.difference(one, again) == "its actions have another digest"


@pytest.mark.slow
def test_a_result_is_made_once_and_then_made_again_to_compare(tmp_path, monkeypatch, capsys):
    name = "random/short-MT1"
    monkeypatch.setattr(script, "HERE", tmp_path)
    command = "mtwrappers rollout MT1 --policy random --episodes 2"
    monkeypatch.setattr(script, "COMMANDS", {name: command})
    monkeypatch.setattr(script, "WITHOUT_EVIDENCE", {name})
    assert script.main(["--make", "--workers", "1"]) == 0
    one = Shipped(tmp_path / name)
    assert one.made["commands"] == [command]
    assert one.made["cpu_seconds"] > 0
    assert not one.evidence.exists()
    before = one.path.read_bytes()
    assert script.main(["--make", "random", "--workers", "1"]) == 0
    assert verify() == 0  # a whole verification makes it again
    assert verify("--sample", "0.5") == 0
    assert one.path.read_bytes() == before
    expected = "remade: 2 episodes and the digest are equal"
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith(name)]
    ways = [line.removeprefix(f"{name}: ").partition(" (")[0] for line in said]
    assert ways[1:] == [expected, expected, "digest only: 2 episodes"]
    other = one.path.read_text().replace(one.result.evidence, "0" * 64)
    one.path.write_text(other)
    assert script.main(["--make", "--workers", "1"]) == 1
    assert "FALSE: remade, its actions have another digest" in capsys.readouterr().out
