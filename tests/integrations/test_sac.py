"""Multi-task SAC in a single file: its memory and policy, and a run that is killed."""

import numpy as np
import pytest

from tests.integrations.examples import load_example

torch = pytest.importorskip("torch")

OBS = 39


@pytest.fixture(scope="module")
def script():
    return load_example("sac_mt10.py")


def test_rows_are_drawn_task_after_task_and_normalized(script, tmp_path):
    memory = script.Memory(tmp_path / "rows", 5, 2, np.random.default_rng(0))
    memory.rows[:] = np.arange(5)[:, None, None] + 100 * np.arange(2)[None, :, None]
    statistics = script.Statistics(2)
    statistics.update(np.full((2, OBS), [[1.0], [101.0]]))  # of deviation 0.01
    obs, next_obs, actions, rewards, terminated = memory.sample(3, 4, statistics)
    assert obs.shape == next_obs.shape == (8, OBS + 2)
    assert obs[:, OBS:].tolist() == [[1, 0]] * 4 + [[0, 1]] * 4
    drawn = rewards.reshape(2, 4) - torch.tensor([[0], [100]])
    assert set(drawn.flatten().tolist()) <= {0, 1, 2}  # the first three rows
    torch.testing.assert_close(obs[:, 0], 100 * (drawn.flatten() - 1))
    torch.testing.assert_close(actions, rewards[:, None].expand(8, 4))
    assert (terminated == rewards).all()


def test_the_policy_of_arrays_gives_the_mean_action(script, tmp_path, monkeypatch):
    torch.manual_seed(0)
    args = script.parser().parse_args(["--width", "16", "--precision", "float32"])
    learner = script.Learner(2, args)
    statistics, rng = script.Statistics(2), np.random.default_rng(0)
    for _ in range(10):
        statistics.update(rng.normal(size=(2, OBS)))
    torch.nn.init.normal_(learner.actor.last.weight)
    script.save_policy(tmp_path / "weights.npz", learner.actor, statistics)
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "weights.npz"))
    raw = rng.normal(size=(2, OBS))
    scaled = (raw - statistics.mean) / statistics.deviation
    with torch.no_grad():
        mean = learner.actor.policy(script.tensor(np.hstack([scaled, np.eye(2)]))).mean
    actions = script.load()(np.hstack([raw, np.eye(2)]))
    assert (actions.shape, actions.dtype) == ((2, 4), np.float32)
    np.testing.assert_allclose(actions, mean.tanh(), rtol=1e-4, atol=1e-5)
