"""Scripts of the folder `examples` that have no test of their own."""

import json
from functools import partial

import pytest

from mtwrappers import MetaIterativeEnvExecutor
from mtwrappers.continual.result import ContinualResult
from mtwrappers.evaluation import load_results
from tests.integrations import ledgers
from tests.integrations.examples import load_example, run_example
from tests.integrations.ledgers import ENVS, STEPS


@pytest.mark.slow
def test_the_script_of_evaluation_leaves_results(tmp_path, monkeypatch, capsys):
    script = load_example("evaluate.py")
    monkeypatch.setattr(script, "OUT", tmp_path)
    script.many_tasks(episodes_per_task=1)
    script.few_shots()
    printed = capsys.readouterr().out.splitlines()
    assert any(line.startswith("mean ") for line in printed)
    for name in ("mt10", "few_shot"):
        assert json.loads((tmp_path / f"{name}.json").read_text())
        assert (tmp_path / f"{name}.png").stat().st_size > 1000


@pytest.mark.slow
def test_the_script_of_curricula_learns_more_with_one(tmp_path):
    title, uniform, frontier = run_example("curriculum.py", tmp_path)[-1].split()
    assert title == "skill"
    assert float(frontier) > 1.5 * float(uniform) > 0.5


@pytest.mark.filterwarnings("ignore:.*precision lowered")  # by Meta-World's spaces
@pytest.mark.slow
def test_the_script_of_continual_world_leaves_a_result_and_a_picture(tmp_path, capsys):
    pytest.importorskip("torch")
    main = load_example("continual_world.py").main
    sizes = ["--seeds", "2", "--steps-per-task", "4", "--horizon", "2", "--episodes", "1"]
    result = main([*sizes, "--evaluations-per-phase", "1", "--out", str(tmp_path / "cw.json")])
    assert result.scores.shape == (2, 11, 10)
    assert result.forward_transfer is not None
    saved = load_results(tmp_path / "cw.json")
    assert ContinualResult(saved[:22], saved[22:]) == result
    assert (tmp_path / "cw.png").stat().st_size > 10_000
    assert str(result) in capsys.readouterr().out


# A PPO loop in one file, in the style of CleanRL.


class SuccessReportingLedger(ledgers.Ledger):
    """Reports success, which the example counts."""

    def reset(self, **kwargs):
        return super().reset(**kwargs)[0], {"success": 0.0}

    def step(self, action):
        return *super().step(action)[:4], {"success": 0.0}


def test_the_loop_in_the_style_of_cleanrl_bootstraps_from_the_true_last_observation(monkeypatch):
    """By what it stores in an iteration, but for the last step."""
    torch = pytest.importorskip("torch")
    script = load_example("cleanrl_ppo.py")
    arguments = f"--iterations 1 --num-steps {STEPS} --gamma 1 --reward-scale 1 --epochs 0"
    tensors, zeros = [], torch.zeros

    def record_zeros(*shape):
        tensors.append(zeros(*shape))
        return tensors[-1]

    monkeypatch.setattr(torch, "zeros", record_zeros)
    monkeypatch.setattr(script.Agent, "value", lambda self, obs: ledgers.known_value(obs))
    envs = MetaIterativeEnvExecutor([partial(SuccessReportingLedger, i) for i in range(ENVS)], ENVS)
    script.train(envs, "abc", script.parser().parse_args(arguments.split()))
    # The batch is what it makes first, but for the networks' biases.
    batch = [tensor for tensor in tensors if tensor.shape[:2] == (STEPS, ENVS)]
    obs, actions, _, rewards, dones = batch[:5]
    columns = obs[:-1], actions[:-1], rewards[:-1], obs[1:], dones[:-1]
    ledgers.assert_complete(ledgers.check_on_policy(*columns), least=9)
