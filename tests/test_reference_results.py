"""The results in `benchmarks/reference`, and the script that makes and verifies them."""

import dataclasses
import json
import re
import shutil
from contextlib import closing

import gymnasium
import numpy as np
import pytest

import benchmarks.reference as script
import mtwrappers
from benchmarks.reference import shipped
from mtwrappers.evaluation import EvaluationResult

SHIPPED = {one.name: one for one in shipped()}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_result_is_of_the_policy_and_benchmark_of_its_folder_and_says_how_it_was_made(name):
    one, found = SHIPPED[name], SHIPPED[name].result
    method, _, folder = name.partition("/")
    assert found.description.policy == method
    assert f"-{found.protocol.settings.benchmark}" in folder
    if seed := re.search(r"-seed(\d+)", folder):
        assert found.description.training_seed == int(seed[1])
    assert found.headline is not None
    assert re.fullmatch(r"[0-9a-f]{64}", found.evidence)
    assert one.made.keys() == {"commands", "cpu_seconds", "machine"}


@pytest.mark.skipif(
    not any(one.evidence.exists() for one in SHIPPED.values()),
    reason="a source distribution, without the evidence",
)
def test_the_readme_has_the_table_of_the_files(monkeypatch):
    monkeypatch.setattr(script, "shipped", lambda: [*SHIPPED.values()])  # which are read already
    assert script.readme() == script.README.read_text(), "python -m benchmarks.reference --table"


# The script.


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with two short results, the second without the actions."""
    here = tmp_path_factory.mktemp("reference")
    for name in ("still/one-MT1", "still/two-MT1"):
        place = here / name
        place.mkdir(parents=True)
        envs = gymnasium.make_vec("mtwrappers/MT1-v0", num_goals=2, max_episode_steps=5)
        with closing(envs):
            result = mtwrappers.evaluate(
                lambda obs: np.zeros((len(obs), 4)), envs, 2, evidence=place / "results.npz"
            )
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
    with pytest.raises(SystemExit, match="random/none, choose from "):
        verify("random/none")


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
    path.write_text(json.dumps({**json.loads(path.read_text()), "evidence": None}))
    assert verify("still/two-MT1") == 1
    assert "two-MT1: FALSE: it has no digest of its actions" in capsys.readouterr().out


def test_a_result_that_was_made_again_must_be_the_same():
    one = SHIPPED["random/tdmpc2-MT50"].result
    first, second, *others = one.episodes

    def again(*episodes, **changes):
        episodes = [*episodes, second, *others]
        return script.difference(one, dataclasses.replace(one, episodes=episodes, **changes))

    rounded = dataclasses.replace(first, episode_return=first.episode_return * (1 + 1e-14))
    assert rounded != first
    assert again(first) == again(rounded) == ""
    assert "length is " in again(dataclasses.replace(first, length=first.length - 1))
    assert again() == "it has 499 episodes, not 500"
    assert again(first, evidence="0" * 64) == "its actions have another digest"
