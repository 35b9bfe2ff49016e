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
from benchmarks.reference import list_references
from mtwrappers.evaluation import EvaluationResult

REFERENCES = {reference.name: reference for reference in list_references()}


@pytest.mark.parametrize("name", REFERENCES)
def test_a_result_is_of_the_policy_and_benchmark_of_its_folder_and_says_how_it_was_made(name):
    result = REFERENCES[name].result
    method, _, folder = name.partition("/")
    assert result.description.policy == method
    assert f"-{result.protocol.settings.benchmark}" in folder
    if seed := re.search(r"-seed(\d+)", folder):
        assert result.description.training_seed == int(seed[1])
    assert result.headline is not None
    assert re.fullmatch(r"[0-9a-f]{64}", result.evidence)
    assert REFERENCES[name].provenance.keys() == {"commands", "cpu_seconds", "machine"}


@pytest.mark.skipif(
    not any(reference.evidence.exists() for reference in REFERENCES.values()),
    reason="a source distribution, without the evidence",
)
def test_the_readme_has_the_table_of_the_files(monkeypatch):
    monkeypatch.setattr(script, "list_references", lambda: [*REFERENCES.values()])  # already read
    assert script.render_readme() == script.README.read_text(), (
        "python -m benchmarks.reference --table"
    )


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
        first, *other_episodes = result.episodes
        false = dataclasses.replace(first, episode_return=first.episode_return + 1e-5)
        dataclasses.replace(result, episodes=[false, *other_episodes]).save(path)
    assert verify() == 1  # of the second, nothing is known but its episodes
    lines = capsys.readouterr().out.splitlines()
    assert re.match(r"still/one-MT1: FALSE: reach-v3, episode \d: episode_return is ", lines[0])
    assert lines[1].startswith("still/two-MT1: digest only")
    path.write_text(json.dumps({**json.loads(path.read_text()), "evidence": None}))
    assert verify("still/two-MT1") == 1
    assert "two-MT1: FALSE: it has no digest of its actions" in capsys.readouterr().out


def test_a_result_that_was_made_again_must_be_the_same():
    result = REFERENCES["random/tdmpc2-MT50"].result
    first, second, *other_episodes = result.episodes

    def difference(*episodes, **changes):
        remade = dataclasses.replace(
            result, episodes=[*episodes, second, *other_episodes], **changes
        )
        return script.describe_difference(result, remade)

    rounded = dataclasses.replace(first, episode_return=first.episode_return * (1 + 1e-14))
    assert rounded != first
    assert difference(first) == difference(rounded) == ""
    assert "length is " in difference(dataclasses.replace(first, length=first.length - 1))
    assert difference() == "it has 499 episodes, not 500"
    assert difference(first, evidence="0" * 64) == "its actions have another digest"
