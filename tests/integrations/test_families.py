"""The scripts that train MAML on a half cheetah and RL2 on bandits."""

import re

import numpy as np
import pytest

from mtwrappers import verify
from mtwrappers.evaluation import EvaluationResult
from tests.integrations.examples import load_example


@pytest.mark.slow
def test_maml_trains_evaluates_and_its_seed_determines_all(tmp_path, capsys):
    pytest.importorskip("torch")
    script = load_example("maml_half_cheetah.py")
    sizes = ["--iterations", "2", "--episodes", "2", "--steps", "5", "--trials", "2"]
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        script.main([*sizes, "--epochs", "2", "--seed", "3", "--out", str(folder)])
    first, second = (np.load(folder / "weights.npz") for folder in folders)
    assert {key: first[key].tolist() for key in first} == {
        key: second[key].tolist() for key in second
    }
    rows = (folders[0] / "returns.csv").read_text().splitlines()
    assert [row.partition(",")[0] for row in rows] == ["iteration", "0", "1"]
    assert verify(folders[0] / "results.json").ok
    result = EvaluationResult.load(folders[0] / "results.json")
    assert result.description.policy == "maml"
    assert len(result.scored) == 2 * 2 * 3
    assert len(re.findall("^iteration [01]: return", capsys.readouterr().out, re.MULTILINE)) == 4


@pytest.mark.slow
def test_rl2_trains_and_is_compared_on_the_same_bandits(tmp_path, capsys):
    pytest.importorskip("torch")
    script = load_example("rl2_bandit.py")
    sizes = ["--arms", "3", "--pulls", "4", "--iterations", "20", "--trials", "50"]
    script.main([*sizes, "--evaluations", "400", "--out", str(tmp_path)])
    returns = {}
    for name in ("rl2", "thompson", "optimal"):
        assert verify(tmp_path / f"{name}.json").ok
        result = EvaluationResult.load(tmp_path / f"{name}.json")
        assert len(result.scored) == 400
        returns[name] = result.overall["mean over tasks"]["return"]
    exact = script.optimal_return(((0, 0),) * 3, 4)
    assert returns["optimal"].low < exact < returns["optimal"].high
    assert returns["thompson"].value < returns["optimal"].value
    assert f"{exact:.3f}" in capsys.readouterr().out


def test_the_optimal_return_is_that_of_a_computation_by_hand():
    pytest.importorskip("torch")
    script = load_example("rl2_bandit.py")
    assert script.optimal_return(((0, 0), (0, 0)), 1) == 1 / 2
    # After a success, the same arm again (2/3); after a failure, the other one (1/2).
    expected = 1 / 2 + (1 / 2) * (2 / 3) + (1 / 2) * (1 / 2)
    assert script.optimal_return(((0, 0), (0, 0)), 2) == pytest.approx(expected)
    assert script.optimal_return(((3, 1),), 10) == pytest.approx(10 * 4 / 6)
