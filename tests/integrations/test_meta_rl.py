"""The scripts that train MAML and RL2 on ML1-reach."""

import dataclasses
import re

import numpy as np
import pytest

from mtwrappers import protocols, verify
from mtwrappers.evaluation import EvaluationResult
from tests.integrations.examples import load_example

TINY = dataclasses.replace(
    protocols["metaworld-3.1-ml"].on("ML1", "reach-v3"),
    name="tiny",
    max_episode_steps=7,
    episodes_per_task=1,
    meta_batch_size=2,
    trials=1,
    adaptation_episodes=2,
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
    script = load_example(name)
    monkeypatch.setattr(script, "PROTOCOL", TINY)
    for out in ("one", "two"):
        arguments = [*SIZES, *more, "--snapshots", "2", "--seed", "3", "--out", str(tmp_path / out)]
        script.main(arguments)
    one, two = tmp_path / "one", tmp_path / "two"
    for steps in per_iteration:
        first, second = (np.load(out / f"weights-{steps}.npz") for out in (one, two))
        assert {key: own.tolist() for key, own in first.items()} == {
            key: own.tolist() for key, own in second.items()
        }
    # What is meta-learnt has changed, and not only what normalizes observations.
    before, after = (np.load(one / f"weights-{steps}.npz") for steps in per_iteration[1:])
    learnt = {key for key in before if (before[key] != after[key]).any()}
    assert learnt - {"mean", "std"}
    evaluated = one / f"evaluated-{per_iteration[-1]}"
    result = EvaluationResult.load(evaluated / "results.json")
    description = result.description
    assert (description.policy, description.training_seed, description.training_steps) == (
        name.partition("_")[0],
        3,
        per_iteration[-1],
    )
    assert len(result.adaptation.episodes) == 4
    assert len(result.scored) == 2
    assert verify(evaluated / "results.json").ok
    printed = capsys.readouterr().out
    assert len(re.findall(r"^iteration [12]: reward", printed, re.MULTILINE)) == 4
    # Snapshots are evaluated like the last weights.
    script.main(["--evaluate", str(one / f"weights-{per_iteration[0]}.npz")])
    assert (one / f"evaluated-{per_iteration[0]}" / "results.json").exists()


@pytest.mark.slow
def test_rl2_without_its_rewards_has_a_name_of_its_own(tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    script = load_example("rl2_ml1.py")
    monkeypatch.setattr(script, "PROTOCOL", TINY)
    torch.manual_seed(0)
    agent = script.RL2()
    agent.mean[script.REWARD] = 0.7
    np.savez(tmp_path / "weights-80.npz", **{k: v.numpy() for k, v in agent.state_dict().items()})
    seen = []
    act = script.RL2.policy
    monkeypatch.setattr(
        script.RL2,
        "policy",
        lambda self, obs, memory: seen.append(obs[..., script.REWARD]) or act(self, obs, memory),
    )
    script.main(["--evaluate", str(tmp_path / "weights-80.npz"), "--unadapted"])
    result = EvaluationResult.load(tmp_path / "unadapted-80" / "results.json")
    assert result.description.policy == "rl2-unadapted"
    assert (torch.cat([own.flatten() for own in seen]) == torch.tensor(0.7)).all()


def test_an_inner_step_of_maml_makes_actions_with_advantages_likelier():
    torch = pytest.importorskip("torch")
    script = load_example("maml_ml1.py")
    torch.manual_seed(0)
    agent = script.MAML(step_size=0.1)
    batch = {
        "observations": torch.randn(2, 5, 39),
        "actions": torch.randn(2, 5, 4),
        "rewards": torch.zeros(2, 5),
        "advantages": torch.tensor([[1.0, 0, 0, 0, -1], [0, 2, 0, 0, 0]]),
    }
    shared = [one.expand(2, *one.shape) for one in agent.meta]
    gained = agent.log_prob(agent.adapted(batch), batch) - agent.log_prob(shared, batch)
    weighted = (gained * batch["advantages"]).sum(1)
    assert (weighted > 0.05).all()
    # To first order the gain is the step size times the squared gradient; the outer loss has a
    # gradient through the step.
    (outer,) = torch.autograd.grad(weighted.sum(), [agent.meta[0]])
    assert outer.abs().max() > 0
