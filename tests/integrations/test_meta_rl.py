"""The scripts that train MAML and RL2 on ML1-reach."""

import re

import numpy as np
import pytest

from mtwrappers import protocols, verify
from mtwrappers.evaluation import EvaluationResult
from tests.integrations.examples import load_example

TINY = (
    protocols["metaworld-3.1-ml"]
    .on("ML1", "reach-v3")
    .variant(
        "tiny",
        max_episode_steps=7,
        episodes_per_task=1,
        meta_batch_size=2,
        trials=1,
        adaptation_episodes=2,
    )
)
SIZES = ["--iterations", "2", "--tasks", "2", "--episodes", "2", "--horizon", "5"]


@pytest.mark.parametrize(
    ("name", "arguments", "per_iteration"),
    [
        ("maml_ml1.py", ["--epochs", "2"], [20, 60, 100]),
        ("rl2_ml1.py", ["--trials", "2", "--epochs", "2", "--horizon", "10"], [80, 160, 240]),
    ],
)
@pytest.mark.slow
def test_a_script_trains_saves_and_evaluates_and_its_seed_determines_all(
    name, arguments, per_iteration, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("torch")
    script, policy = load_example(name), name.partition("_")[0]
    monkeypatch.setattr(script, "PROTOCOL", TINY)
    first_folder, second_folder = tmp_path / "one", tmp_path / "two"
    for folder in (first_folder, second_folder):
        script.main([*SIZES, *arguments, "--snapshots", "2", "--seed", "3", "--out", str(folder)])
    for steps in per_iteration:
        first_weights = np.load(first_folder / f"weights-{steps}.npz")
        second_weights = np.load(second_folder / f"weights-{steps}.npz")
        assert {key: weight.tolist() for key, weight in first_weights.items()} == {
            key: weight.tolist() for key, weight in second_weights.items()
        }
    # What is meta-learnt has changed, and not only what normalizes observations.
    early, late = (np.load(first_folder / f"weights-{steps}.npz") for steps in per_iteration[1:])
    changed_names = {name for name in early if (early[name] != late[name]).any()}
    assert changed_names - {"mean", "std"}
    results_file = first_folder / f"evaluated-{per_iteration[-1]}" / "results.json"
    result = EvaluationResult.load(results_file)
    description = result.description
    assert (description.policy, description.training_seed) == (policy, 3)
    assert description.training_steps == per_iteration[-1]
    assert len(result.adaptation.episodes) == 4
    assert len(result.scored) == 2
    assert verify(results_file).ok
    output = capsys.readouterr().out
    assert len(re.findall(r"^iteration [12]: reward", output, re.MULTILINE)) == 4
    # Snapshots are evaluated like the last weights; RL2's without its rewards by another name.
    snapshot = ["--evaluate", str(first_folder / f"weights-{per_iteration[0]}.npz")]
    script.main(snapshot)
    assert (first_folder / f"evaluated-{per_iteration[0]}" / "results.json").exists()
    if policy == "rl2":
        script.main([*snapshot, "--unadapted"])
        unadapted_folder = first_folder / f"unadapted-{per_iteration[0]}"
        result = EvaluationResult.load(unadapted_folder / "results.json")
        assert result.description.policy == "rl2-unadapted"
