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
    ("name", "more", "per_iteration"),
    [
        ("maml_ml1.py", ["--epochs", "2"], [20, 60, 100]),
        ("rl2_ml1.py", ["--trials", "2", "--epochs", "2", "--horizon", "10"], [80, 160, 240]),
    ],
)
@pytest.mark.slow
def test_a_script_trains_saves_and_evaluates_and_its_seed_determines_all(
    name, more, per_iteration, tmp_path, monkeypatch, capsys
):
    pytest.importorskip("torch")
    script, policy = load_example(name), name.partition("_")[0]
    monkeypatch.setattr(script, "PROTOCOL", TINY)
    one, two = tmp_path / "one", tmp_path / "two"
    for out in (one, two):
        script.main([*SIZES, *more, "--snapshots", "2", "--seed", "3", "--out", str(out)])
    for steps in per_iteration:
        first, second = (np.load(out / f"weights-{steps}.npz") for out in (one, two))
        assert {key: own.tolist() for key, own in first.items()} == {
            key: own.tolist() for key, own in second.items()
        }
    # What is meta-learnt has changed, and not only what normalizes observations.
    before, after = (np.load(one / f"weights-{steps}.npz") for steps in per_iteration[1:])
    learnt = {key for key in before if (before[key] != after[key]).any()}
    assert learnt - {"mean", "std"}
    evaluated = one / f"evaluated-{per_iteration[-1]}" / "results.json"
    result = EvaluationResult.load(evaluated)
    of = result.description
    assert (of.policy, of.training_seed, of.training_steps) == (policy, 3, per_iteration[-1])
    assert len(result.adaptation.episodes) == 4
    assert len(result.scored) == 2
    assert verify(evaluated).ok
    printed = capsys.readouterr().out
    assert len(re.findall(r"^iteration [12]: reward", printed, re.MULTILINE)) == 4
    # Snapshots are evaluated like the last weights; RL2's without its rewards by another name.
    snapshot = ["--evaluate", str(one / f"weights-{per_iteration[0]}.npz")]
    script.main(snapshot)
    assert (one / f"evaluated-{per_iteration[0]}" / "results.json").exists()
    if policy == "rl2":
        script.main([*snapshot, "--unadapted"])
        result = EvaluationResult.load(one / f"unadapted-{per_iteration[0]}" / "results.json")
        assert result.description.policy == "rl2-unadapted"
