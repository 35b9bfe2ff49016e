"""Multi-task SAC in a single file: it trains, and its policy of arrays gives the mean action."""

import numpy as np
import pytest

from tests.integrations.examples import load_example

torch = pytest.importorskip("torch")

TINY = (
    *("--steps", "300", "--warm-up", "100", "--episode-steps", "20", "--width", "16"),
    *("--batch-per-task", "4", "--point-every", "300", "--evaluate-every", "0"),
    *("--precision", "float32"),
)


@pytest.mark.slow
def test_it_trains_and_leaves_its_policy(tmp_path, monkeypatch):
    script = load_example("sac_mt10.py")
    learner = script.main([*TINY, "--out", str(tmp_path)])
    monkeypatch.setenv("WEIGHTS", str(tmp_path / "points/300.npz"))
    raw = np.random.default_rng(0).normal(size=(10, 39))
    with np.load(tmp_path / "points/300.npz") as saved:
        scaled = (raw - saved["mean"]) / saved["deviation"]
    with torch.no_grad():
        mean = learner.actor.policy(script.tensor(np.hstack([scaled, np.eye(10)]))).mean
    actions = script.load()(np.hstack([raw, np.eye(10)]))
    assert (actions.shape, actions.dtype) == ((10, 4), np.float32)
    np.testing.assert_allclose(actions, mean.tanh(), rtol=1e-4, atol=1e-5)
